//! Claims, and what shards tell of them.

use crate::convert::fields::{group, job_bytes, job_id, list, messages, required};
use crate::convert::{FieldError, Wire};
use crate::echelon::shard::v1 as wire;
use echelon_core_model::claim::{Claim, ClaimId, ClaimReport, Victim};
use echelon_core_model::{Epoch, Generation};

impl Wire for ClaimId {
    type Message = wire::ClaimId;

    fn to_wire(&self) -> Self::Message {
        let Self { epoch, number } = *self;
        wire::ClaimId {
            epoch: epoch.0,
            number,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            epoch: Epoch(message.epoch),
            number: message.number,
        })
    }
}

impl Wire for Claim {
    type Message = wire::Claim;

    fn to_wire(&self) -> Self::Message {
        let Self {
            id,
            job,
            group,
            generation,
            pool,
            count,
            most,
            victims,
        } = self;
        wire::Claim {
            id: Some(id.to_wire()),
            job: job_bytes(*job),
            group: group.to_string(),
            generation: generation.0,
            pool: pool.clone(),
            count: *count,
            most: *most,
            victims: messages(victims),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            id: required("id", message.id)?,
            job: job_id("job", &message.job)?,
            group: group("group", &message.group)?,
            generation: Generation(message.generation),
            pool: message.pool,
            count: message.count,
            most: message.most,
            victims: list("victims", message.victims)?,
        })
    }
}

impl Wire for Victim {
    type Message = wire::Victim;

    fn to_wire(&self) -> Self::Message {
        let Self {
            job,
            group,
            generation,
            most,
            class,
        } = self;
        wire::Victim {
            job: job_bytes(*job),
            group: group.to_string(),
            generation: generation.0,
            most: *most,
            class: *class,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            job: job_id("job", &message.job)?,
            group: group("group", &message.group)?,
            generation: Generation(message.generation),
            most: message.most,
            class: message.class,
        })
    }
}

impl Wire for ClaimReport {
    type Message = wire::ClaimReport;

    fn to_wire(&self) -> Self::Message {
        let Self {
            id,
            job,
            group,
            generation,
            open,
            taken,
        } = self;
        wire::ClaimReport {
            id: Some(id.to_wire()),
            job: job_bytes(*job),
            group: group.to_string(),
            generation: generation.0,
            open: *open,
            taken: *taken,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            id: required("id", message.id)?,
            job: job_id("job", &message.job)?,
            group: group("group", &message.group)?,
            generation: Generation(message.generation),
            open: message.open,
            taken: message.taken,
        })
    }
}
