//! What would have been: a recorded trace of demand is replayed under some pool tree and capacity. The
//! resource manager's own state machine decides, in virtual time; storage, reports and directives take the
//! time of `Delays`. Shards begin at once what they are granted, end it after the time that the trace states,
//! and stop preempted instances at once.
//!
//! Nothing here has a socket, a clock or a thread, and the same input gives the same answer. Callers:
//! `echelon pool simulate`, and `echelon bench pools` for the storage.
#![forbid(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros
)]

mod agenda;
mod allowed;
mod claims;
pub mod compare;
mod counts;
mod delays;
pub mod demand;
mod figures;
mod hosts;
mod jobs;
mod outcome;
mod placing;
mod replay;
mod running;
mod series;
mod shard;
pub mod store;
mod trace;

pub use counts::Counts;
pub use delays::Delays;
pub use figures::{Figures, PoolFigures};
pub use outcome::{ALL, Outcome, PoolOutcome, Wait, Waits, Work};
pub use replay::{Around, NotReplayed, replay, replay_around};
pub use series::Level;
pub use trace::{CapacityChange, ClusterCapacity, Group, HostClass, Job, Runs, Trace, Volume};

#[cfg(test)]
mod tests;
