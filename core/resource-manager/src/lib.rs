//! What the resource manager does next. It is one pure state machine: events in and effects out, in a safe
//! order (observe, decide, commit, perform, publish). It counts slices and never sees a task. It is called by
//! the shell in `resource-manager/` and by `sim/world`. It has no clock, no randomness and no I/O.
//!
//! A cycle runs stages in order. Each stage is a function of the facts, of its own state from the cycle
//! before, and of what the stages before it decided. Each returns a report, and [`CycleReport`] has a field
//! for every one.
//!
//! ```text
//!   storage: heads, specs, assignments, pools, clusters          shards: reports
//!                              \                                   /
//! facts        what is known, and the jobs to look at                            -> Changes
//!   |
//! demand       what jobs and pools ask for, as far as hosts can hold it          -> DemandReport
//!   |
//! division     what pools are entitled to                                        -> DivisionReport
//!   |
//! admission    what may begin and where, within what requests of before keep;    -> AdmissionReport
//!   |          binds it, and decides grants
//! preemption   requests for capacity that something is entitled to and lacks     -> PreemptionReport
//!   |
//! returns      what leaves the cluster to which it is bound                      -> ReturnsReport
//!   |
//! orders       what is stored and sent                                           -> OrdersReport
//!   |
//!   storage: assignments, progress                                shards: orders, grants, requests
//! ```
//!
//! Preemption comes after admission. Before it, instances would be stopped for what is about to be admitted.
//! State that lives from cycle to cycle is in `picture`: the facts, and one field for each stage from demand
//! to preemption. Beside the stages:
//!
//! | module | what it is for |
//! | --- | --- |
//! | `assignment` | arithmetic on the ranges of one job |
//! | `lifecycle` | what specs and heads ask for as time passes: rules, schedules, rollouts, ends |
//! | `progress` | the row of a job, if it has one, and why its instances wait |
//! | `queries` | answers that change nothing, and the snapshot that another thread answers from |
//! | `checks` | rules that hold after every step |
//! | `storage` | reads, flows of several steps, and what storage refuses |
//! | `leadership` | taking over, recovering, stepping down |
//! | `turns`, `cycle`, `tick`, `manager` | what is looked at, the stages in order, what time asks for, and the state machine |
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

pub use admission::{AdmissionReport, AheadBinding, GrantChange, GrantTarget, SecondlyPart};
pub use answers::{ClusterShare, Dropped, GroupPlan, Plan, PoolFigures, PoolPlan, SideFigures};
pub use broken::Broken;
pub use checks::check::{Sampler, check};
pub use checks::sum_audit::SumFaults;
pub use config::{Config, Preemption};
pub use cycle::CycleReport;
pub use demand::{DemandReport, PoolDemandChange};
pub use division::{DivisionReport, Entitled};
pub use echelon_core_pools::tree::PoolQuantity;
pub use echelon_core_pools::{Held, certificate};
pub use effect::{Alarm, Effect};
pub use event::{Event, LinkId};
pub use facts::FederationFacts;
pub use manager::ResourceManager;
pub use orders::OrdersReport;
pub use picture::Picture;
pub use preemption::PreemptionReport;
pub use preemption::claimants::EndedRequest;
pub use queries::cluster_work::{ClusterWork, Departure, GroupWork, MOST_GROUPS, WorkTotals, cluster_work};
pub use queries::explain::answer::{
    AddedHosts, AdmissionBlocker, CapacityHolder, FixChange, FixOutcome, JobExplanation, PoolCount,
    QueuePlace, VerifiedFix,
};
pub use queries::explain::{JobQuestion, MOST_TRIALS, MOST_WORK};
pub use queries::figures::figures;
pub use queries::loss_cover::{GroupCover, LossCover, loss_cover};
pub use queries::plan::plan;
pub use queries::snapshot::{PictureSnapshot, SnapshotPart};
pub use queries::unstored::unstored_progress;
pub use returns::ReturnsReport;
pub use turns::CycleChanges;

#[cfg(test)]
mod tests;
