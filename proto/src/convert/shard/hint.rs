//! Hints: from a gateway to the resource manager.

use crate::convert::fields::{job_bytes, job_id};
use crate::convert::{FieldError, FieldProblem, Wire};
use crate::echelon::shard::v1 as wire;
use echelon_core_model::JobId;

/// What was written to storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// The head of a job.
    Head(JobId),
    /// The pool tree.
    Pools,
}

impl Wire for Changed {
    type Message = wire::HintRequest;

    fn to_wire(&self) -> Self::Message {
        use wire::hint_request::Changed as Sent;
        let changed = match self {
            Self::Head(job) => Sent::Job(job_bytes(*job)),
            Self::Pools => Sent::Pools(wire::PoolsChanged {}),
        };
        wire::HintRequest {
            changed: Some(changed),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        use wire::hint_request::Changed as Sent;
        match message.changed {
            Some(Sent::Job(job)) => Ok(Self::Head(job_id("job", &job)?)),
            Some(Sent::Pools(wire::PoolsChanged {})) => Ok(Self::Pools),
            None => Err(FieldError::new("changed", FieldProblem::Missing)),
        }
    }
}
