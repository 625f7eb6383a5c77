//! The port to the world: one operation on storage, one pause. The shell, the simulation and the tests each have their own.

use echelon_core_model::Span;
use echelon_core_model::store::{Op, OpResult};
use std::future::Future;

/// Performs what a method asks for.
pub trait Facts {
    /// Tries an operation once.
    fn perform(&self, op: Op) -> impl Future<Output = OpResult>;

    /// Lets at least this much time pass; a shell adds its own jitter.
    fn pause(&self, span: Span) -> impl Future<Output = ()>;
}
