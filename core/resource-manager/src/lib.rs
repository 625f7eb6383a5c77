//! What the resource manager does next: one pure state machine, events in and effects out, in a safe order (observe, decide,
//! commit, perform, publish). It counts slices and never sees a task. Called by the shell in `resource-manager/` and by
//! `sim/world`; it has no clock, no randomness and no I/O.
#![forbid(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros
)]

mod after;
mod agenda;
mod alarms;
mod awaited;
mod bids;
mod bind;
mod candidates;
mod check;
mod claimants;
pub mod claims;
mod config;
mod contact;
mod control;
mod cycle;
mod daemons;
pub mod division;
mod effect;
pub mod ended;
mod ends;
pub mod entry;
mod event;
mod figures;
mod filing;
pub mod fits;
pub mod footprint;
mod found;
mod gangs;
mod grants;
mod holders;
mod holds;
pub mod host_pools;
pub mod jobs;
pub mod known;
pub mod ledger;
mod limits;
mod losers;
mod manager;
mod moves;
mod openings;
mod ops;
mod orders;
mod parts;
pub mod picture;
mod plan;
mod pools;
mod preempt;
mod progress;
mod quarantine;
mod ranges;
mod reads;
mod recover;
mod refusals;
mod refused;
mod reports;
pub mod restarts;
mod returns;
pub mod rollouts;
mod room;
mod rules;
mod schedules;
mod starved;
mod store;
mod sum_audit;
mod tenure;
mod tombstones;
mod unplaced;
mod unread;
mod waiting;

pub use check::{Broken, Sampler, check};
pub use config::Config;
pub use echelon_core_pools::{Held, certificate};
pub use effect::{Alarm, Effect};
pub use event::{Event, LinkId};
pub use figures::{PoolFigures, SideFigures};
pub use manager::ResourceManager;
pub use picture::Picture;
pub use plan::{ClusterShare, Dropped, GroupPlan, Plan, PlanToken, PoolPlan};
pub use preempt::Preemption;
pub use sum_audit::SumFaults;

#[cfg(test)]
mod tests;
