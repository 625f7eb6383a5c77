//! The port to the world: one operation on storage, two questions to the resource manager, one pause.
//! The shell, the simulation and the tests each have their own.

use crate::sightings::Sightings;
use echelon_core_model::cluster::{ClusterState, Heartbeat};
use echelon_core_model::instance_limit::{ExceededLimit, WantedInstances};
use echelon_core_model::job::Progress;
use echelon_core_model::store::{Op, OpResult};
use echelon_core_model::{JobId, Span};
use std::future::Future;

/// Performs what a method asks for.
pub trait Facts {
    /// Tries an operation once.
    fn perform(&self, op: Op) -> impl Future<Output = OpResult>;

    /// What the resource manager's leader says of jobs of which storage has no progress.
    /// Jobs that it does not know are left out. `None`: it did not answer.
    fn unstored(&self, jobs: Vec<JobId>) -> impl Future<Output = Option<Vec<Progress>>>;

    /// Whether the resource manager's leader lets a job have its instances, beside all other jobs.
    /// `None`: it did not answer.
    fn check_instances(
        &self,
        wanted: WantedInstances,
    ) -> impl Future<Output = Option<Result<(), ExceededLimit>>>;

    /// Takes in rows of all clusters that were read just now. Answers how they were seen until now, by the
    /// clock of this process, to which the `now` of a method belongs too.
    fn sighted(&self, states: &[ClusterState], heartbeats: &[Heartbeat]) -> Sightings;

    /// Lets at least this much time pass; a shell adds its own jitter.
    fn pause(&self, span: Span) -> impl Future<Output = ()>;
}
