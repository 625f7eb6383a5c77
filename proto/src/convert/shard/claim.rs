//! Claims, and what shards tell of them.

use crate::convert::fields::{cluster, group, job_bytes, job_id, list, messages, optional, required};
use crate::convert::{FieldError, Wire};
use crate::echelon::shard::v1 as wire;
use echelon_core_model::claim::{Claim, ClaimId, ClaimPart, ClaimReport, Quota, Victim};
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

impl Wire for ClaimPart {
    type Message = wire::ClaimPart;

    fn to_wire(&self) -> Self::Message {
        let Self {
            group,
            generation,
            count,
        } = self;
        wire::ClaimPart {
            group: group.to_string(),
            generation: generation.0,
            count: *count,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            group: group("group", &message.group)?,
            generation: Generation(message.generation),
            count: message.count,
        })
    }
}

impl Wire for Claim {
    type Message = wire::Claim;

    fn to_wire(&self) -> Self::Message {
        let Self {
            id,
            job,
            parts,
            waits,
            pool,
            most,
            victims,
            quota,
            keeps_host,
        } = self;
        wire::Claim {
            id: Some(id.to_wire()),
            job: job_bytes(*job),
            parts: messages(parts),
            waits: waits.to_string(),
            pool: pool.clone(),
            most: *most,
            victims: messages(victims),
            quota: quota.map(|q| q.to_wire()),
            keeps_host: *keeps_host,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            id: required("id", message.id)?,
            job: job_id("job", &message.job)?,
            parts: list("parts", message.parts)?,
            waits: cluster("waits", &message.waits)?,
            pool: message.pool,
            most: message.most,
            victims: list("victims", message.victims)?,
            quota: optional("quota", message.quota)?,
            keeps_host: message.keeps_host,
        })
    }
}

impl Wire for Quota {
    type Message = wire::Quota;

    fn to_wire(&self) -> Self::Message {
        let Self { left, unit, count } = self;
        wire::Quota {
            left: Some(left.to_wire()),
            unit: Some(unit.to_wire()),
            count: *count,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            left: required("left", message.left)?,
            unit: required("unit", message.unit)?,
            count: message.count,
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
        let Self { claim, open, taken } = self;
        wire::ClaimReport {
            claim: Some(claim.to_wire()),
            open: messages(open),
            taken: *taken,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            claim: required("claim", message.claim)?,
            open: list("open", message.open)?,
            taken: message.taken,
        })
    }
}
