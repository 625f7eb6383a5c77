//! Restarts: as they are wanted, and what became of them.

use crate::convert::fields::{group, list, messages, moment, required};
use crate::convert::{FieldError, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::restart::{RestartPart, RestartProgress, Restarts};
use echelon_core_model::{Timestamp, Version};

impl Wire for RestartPart {
    type Message = wire::RestartPart;

    fn to_wire(&self) -> Self::Message {
        let Self {
            version,
            group,
            numbers,
        } = self;
        wire::RestartPart {
            version: version.0,
            group: group.to_string(),
            numbers: Some(numbers.to_wire()),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            version: Version(message.version),
            group: group("group", &message.group)?,
            numbers: required("numbers", message.numbers)?,
        })
    }
}

impl Wire for Restarts {
    type Message = wire::Restarts;

    fn to_wire(&self) -> Self::Message {
        let Self {
            version,
            since,
            batch,
            parts,
        } = self;
        wire::Restarts {
            version: version.0,
            since_ms: since.0,
            batch: *batch,
            parts: messages(parts),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            version: Version(message.version),
            since: Timestamp(message.since_ms),
            batch: message.batch,
            parts: list("parts", message.parts)?,
        })
    }
}

impl Wire for RestartProgress {
    type Message = wire::RestartProgress;

    fn to_wire(&self) -> Self::Message {
        let Self {
            version,
            left,
            done_at,
        } = *self;
        wire::RestartProgress {
            version: version.0,
            left,
            done_at_ms: done_at.map(|at| at.0),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            version: Version(message.version),
            left: message.left,
            done_at: moment(message.done_at_ms),
        })
    }
}
