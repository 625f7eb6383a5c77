//! Rows of slices, and the grants in them.

use crate::convert::fields::{
    by_generation, generations, group, job_bytes, job_id, list, messages, required,
};
use crate::convert::{FieldError, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::directive::{Grant, OwnChanges};
use echelon_core_model::instance::SliceRow;
use echelon_core_model::{Epoch, Span};

impl Wire for Grant {
    type Message = wire::Grant;

    fn to_wire(&self) -> Self::Message {
        let Self {
            epoch,
            number,
            active,
            lease,
            known,
        } = *self;
        wire::Grant {
            epoch: epoch.0,
            number,
            active,
            lease_ms: lease.0,
            known: Some(known.to_wire()),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            epoch: Epoch(message.epoch),
            number: message.number,
            active: message.active,
            lease: Span(message.lease_ms),
            known: required("known", message.known)?,
        })
    }
}

impl Wire for OwnChanges {
    type Message = wire::OwnChanges;

    fn to_wire(&self) -> Self::Message {
        let Self {
            preempted,
            taken_over,
        } = *self;
        wire::OwnChanges {
            preempted,
            taken_over,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            preempted: message.preempted,
            taken_over: message.taken_over,
        })
    }
}

impl Wire for SliceRow {
    type Message = wire::SliceRow;

    fn to_wire(&self) -> Self::Message {
        let Self {
            job,
            group,
            ranges,
            released,
            taken_over,
            grants,
            own,
        } = self;
        wire::SliceRow {
            job: job_bytes(*job),
            group: group.to_string(),
            ranges: messages(ranges),
            released: generations(released),
            taken_over: generations(taken_over),
            grants: generations(grants),
            own: generations(own),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            job: job_id("job", &message.job)?,
            group: group("group", &message.group)?,
            ranges: list("ranges", message.ranges)?,
            released: by_generation("released", message.released)?,
            taken_over: by_generation("taken_over", message.taken_over)?,
            grants: by_generation("grants", message.grants)?,
            own: by_generation("own", message.own)?,
        })
    }
}
