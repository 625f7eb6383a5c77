//! The whole federation in one thread and virtual time: gateways' machines, resource managers, shards, storage,
//! membership and Mesos, with crashes, pauses, lost messages and partitions chosen by a seed. After each step the
//! invariants of ARCHITECTURE.md are checked. The same seed gives the same trace, byte for byte.
//!
//! Nothing here has a socket, a clock or a thread. Callers: `tests/tests/simulation.rs`, `tests/tests/simulate.rs` and
//! `tests/tests/walk.rs`.
#![forbid(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros
)]

mod backups;
mod blips;
mod bounds;
mod client;
mod clocks;
mod daemons;
mod dice;
mod division;
mod drains;
mod drivers;
mod ends;
mod faults;
mod federation;
mod gangs;
mod gone;
mod homes;
mod host_pools;
mod invariants;
mod links;
mod logs;
mod loss;
mod maintenance;
mod members;
mod mesos;
mod no_manager;
mod operator;
mod options;
mod others;
mod parts;
mod played;
mod pods;
mod pressure;
mod process;
mod queue;
mod restarts;
mod rollouts;
mod rules;
mod shares;
mod silence;
mod sites;
mod storage;
mod switch;
mod trace;
mod trees;
mod waits;
mod walk;
mod world;

pub use faults::Fault;
pub use federation::{FederationEnd, FederationFigures};
pub use gone::GoneAgents;
pub use invariants::Broken;
pub use loss::LostCluster;
pub use no_manager::Abandoned;
pub use options::{FaultRates, Options};
pub use played::{Federation, Played, PlayedHost, PlayedJob};
pub use process::Who;
pub use silence::Silenced;
pub use sites::{Site, StoppedWay};
pub use world::{Manners, Outcome, World};
