//! The port to the world: one operation on storage, one question to the resource manager, one pause.
//! The shell, the simulation and the tests each have their own.

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

    /// Lets at least this much time pass; a shell adds its own jitter.
    fn pause(&self, span: Span) -> impl Future<Output = ()>;
}
