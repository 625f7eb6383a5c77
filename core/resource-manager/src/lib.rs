//! What the resource manager does next: one pure state machine, events in and effects out, in a safe order (observe, decide,
//! commit, perform, publish). It counts slices and never sees a task. Called by the shell in `resource-manager/` and by
//! `sim/world`; it has no clock, no randomness and no I/O.
#![forbid(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros
)]

mod admission;
mod answers;
mod assignment;
mod broken;
mod checks;
mod config;
mod cycle;
mod demand;
mod division;
mod effect;
mod event;
mod facts;
mod leadership;
mod lifecycle;
mod manager;
mod orders;
mod picture;
mod preemption;
mod progress;
mod queries;
mod returns;
mod storage;
mod tick;
mod turns;

pub use admission::{AdmissionReport, BoundAhead, Granted};
pub use answers::{ClusterShare, Dropped, GroupPlan, Plan, PlanToken, PoolFigures, PoolPlan, SideFigures};
pub use broken::Broken;
pub use checks::check::{Sampler, check};
pub use checks::sum_audit::SumFaults;
pub use config::{Config, Preemption};
pub use cycle::CycleReport;
pub use demand::{DemandReport, PoolChange};
pub use division::{DivisionReport, Entitled};
pub use echelon_core_pools::{Held, certificate};
pub use effect::{Alarm, Effect};
pub use event::{Event, LinkId};
pub use facts::Facts;
pub use manager::ResourceManager;
pub use orders::OrdersReport;
pub use picture::Picture;
pub use preemption::PreemptionReport;
pub use preemption::claimants::EndedRequest;
pub use returns::ReturnsReport;
pub use turns::Changes;

#[cfg(test)]
mod tests;
