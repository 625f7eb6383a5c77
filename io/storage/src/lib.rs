//! Storage: one trait in the field's terms and its backends. It carries out what `core/model::store` says, and holds no
//! business rule: who may decide what is for the drivers. Callers: the shells of gateway, resource manager and shard.
//!
//! What every backend promises is in [`Store`]; the functions in `contract` (a feature) hold any of them to it.
//! `layout` says once where each fact lies; `read` answers queries over rows; `kv` keeps rows in an ordered map, for
//! `memory:` and `file:`; `cassandra` keeps them in tables.
#![forbid(unsafe_code)]

mod bounded;
mod cassandra;
mod check;
#[cfg(feature = "contract")]
pub mod contract;
mod durability;
mod error;
#[cfg(feature = "contract")]
pub mod faulty;
mod file;
mod kv;
mod layout;
mod level;
mod memory;
mod observed;
mod open;
mod read;
mod rows;
mod store;

pub use bounded::{Bounded, WRITE_BYTES};
pub use cassandra::CassandraStore;
pub use check::check;
pub use durability::{Durability, Finding, Standing};
pub use error::StoreError;
pub use file::{FileProblem, FileStore, panics_are_contained};
pub use level::{LEVEL, Status, open_checked};
pub use memory::MemoryStore;
pub use observed::{Observation, Observed, Observer, Outcome};
pub use open::{accept, is_new, open, without_login};
pub use store::Store;
