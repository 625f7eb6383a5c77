//! What would have been: a recorded trace of demand is replayed under some pool tree and capacity. The resource manager's own state
//! machine decides, in virtual time; storage answers at once, and shards begin at once what they are granted, end it after the time that
//! the trace tells, and stop at once what is to make room for others.
//!
//! Nothing here has a socket, a clock or a thread, and the same input gives the same answer. Callers: `echelon pool simulate`, and
//! `echelon bench pools` for the storage.
#![forbid(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros
)]

mod agenda;
mod claims;
mod jobs;
mod outcome;
mod replay;
mod running;
mod shard;
pub mod store;
mod trace;

pub use outcome::{ALL, Outcome, PoolOutcome, Wait, Waits};
pub use replay::{NotReplayed, replay};
pub use trace::{CapacityChange, Group, Job, Runs, Trace};

#[cfg(test)]
mod tests;
