//! Events, and up to where they hold.

use crate::convert::fields::{group, job_bytes, job_id, required, run_state};
use crate::convert::{FieldError, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::store::{Event, EventEnd, Stamp};
use echelon_core_model::{Epoch, Timestamp};

impl Wire for Event {
    type Message = wire::Event;

    fn to_wire(&self) -> Self::Message {
        let Self {
            job,
            at,
            happened,
            instance,
            state,
            reason,
            hostname,
            task,
        } = self;
        wire::Event {
            job: job_bytes(*job),
            at_ms: at.0,
            happened_ms: happened.0,
            instance: instance.as_ref().map(|(group, number)| wire::EventInstance {
                group: group.to_string(),
                number: *number,
            }),
            state: state.map(|s| s.number().into()),
            reason: Some(reason.to_wire()),
            hostname: hostname.clone(),
            task: task.clone(),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let wire::Event {
            job,
            at_ms,
            happened_ms,
            instance,
            state,
            reason,
            hostname,
            task,
        } = message;
        let instance = instance.map(|i| Ok((group("instance.group", &i.group)?, i.number)));
        Ok(Self {
            job: job_id("job", &job)?,
            at: Timestamp(at_ms),
            happened: Timestamp(happened_ms),
            instance: instance.transpose()?,
            state: state.map(|n| run_state("state", n)).transpose()?,
            reason: required("reason", reason)?,
            hostname,
            task,
        })
    }
}

impl Wire for EventEnd {
    type Message = wire::EventEnd;

    fn to_wire(&self) -> Self::Message {
        let Self { stamp, is_closed } = self;
        wire::EventEnd {
            epoch: stamp.epoch.0,
            sequence: stamp.sequence,
            closed: *is_closed,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let wire::EventEnd {
            epoch,
            sequence,
            closed,
        } = message;
        Ok(Self {
            stamp: Stamp {
                epoch: Epoch(epoch),
                sequence,
            },
            is_closed: closed,
        })
    }
}
