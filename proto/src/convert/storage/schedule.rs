//! How far templates have come, and where jobs made of them come from.

use crate::convert::fields::{job_bytes, job_id, moment, optional};
use crate::convert::{FieldError, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::schedule::{Opening, Origin, ScheduleState};
use echelon_core_model::{JobId, Timestamp};

impl Wire for ScheduleState {
    type Message = wire::ScheduleState;

    fn to_wire(&self) -> Self::Message {
        let Self {
            paused,
            handled,
            opening,
            skipped,
            missed,
        } = self;
        wire::ScheduleState {
            paused: *paused,
            handled_ms: handled.0,
            opening: opening.as_ref().map(Wire::to_wire),
            skipped_ms: skipped.map(|at| at.0),
            missed_ms: missed.map(|at| at.0),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            paused: message.paused,
            handled: Timestamp(message.handled_ms),
            opening: optional("opening", message.opening)?,
            skipped: moment(message.skipped_ms),
            missed: moment(message.missed_ms),
        })
    }
}

impl Wire for Opening {
    type Message = wire::Opening;

    fn to_wire(&self) -> Self::Message {
        let Self {
            due,
            at,
            attempt,
            after,
            replaces,
        } = self;
        wire::Opening {
            due_ms: due.0,
            at_ms: at.0,
            attempt: *attempt,
            after: ids(after),
            replaces: *replaces,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            due: Timestamp(message.due_ms),
            at: Timestamp(message.at_ms),
            attempt: message.attempt,
            after: read_ids("after", &message.after)?,
            replaces: message.replaces,
        })
    }
}

impl Wire for Origin {
    type Message = wire::Origin;

    fn to_wire(&self) -> Self::Message {
        let Self {
            template,
            due,
            replaces,
        } = self;
        wire::Origin {
            template: job_bytes(*template),
            due_ms: due.0,
            replaces: ids(replaces),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            template: job_id("template", &message.template)?,
            due: Timestamp(message.due_ms),
            replaces: read_ids("replaces", &message.replaces)?,
        })
    }
}

fn ids(jobs: &[JobId]) -> Vec<Vec<u8>> {
    jobs.iter().map(|id| job_bytes(*id)).collect()
}

fn read_ids(field: &str, bytes: &[Vec<u8>]) -> Result<Vec<JobId>, FieldError> {
    bytes.iter().map(|id| job_id(field, id)).collect()
}
