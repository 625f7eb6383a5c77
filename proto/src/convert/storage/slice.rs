//! Rows of slices, and the grants in them.

use crate::convert::fields::{by_generation, generations, group, job_bytes, job_id, list, messages};
use crate::convert::{FieldError, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::directive::Grant;
use echelon_core_model::instance::SliceRow;
use echelon_core_model::{Epoch, Generation, Span};
use std::collections::BTreeMap;

impl Wire for Grant {
    type Message = wire::Grant;

    fn to_wire(&self) -> Self::Message {
        let Self {
            epoch,
            number,
            active,
            lease,
            counted,
            included,
        } = *self;
        wire::Grant {
            epoch: epoch.0,
            number,
            active,
            lease_ms: lease.0,
            counted,
            included,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            epoch: Epoch(message.epoch),
            number: message.number,
            active: message.active,
            lease: Span(message.lease_ms),
            counted: message.counted,
            included: message.included,
        })
    }
}

fn counts(by_generation: &BTreeMap<Generation, u64>) -> BTreeMap<u32, u64> {
    by_generation.iter().map(|(g, n)| (g.0, *n)).collect()
}

fn counted(sent: BTreeMap<u32, u64>) -> BTreeMap<Generation, u64> {
    sent.into_iter().map(|(g, n)| (Generation(g), n)).collect()
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
            preempted,
            added,
        } = self;
        wire::SliceRow {
            job: job_bytes(*job),
            group: group.to_string(),
            ranges: messages(ranges),
            released: generations(released),
            taken_over: generations(taken_over),
            grants: generations(grants),
            preempted: counts(preempted),
            added: counts(added),
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
            preempted: counted(message.preempted),
            added: counted(message.added),
        })
    }
}
