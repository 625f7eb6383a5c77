//! What a gateway asks before it stores a job with more instances than before, and the answer.

use crate::convert::fields::{job_bytes, job_id};
use crate::convert::{FieldError, Wire};
use crate::echelon::shard::v1 as wire;
use echelon_core_model::instance_limit::{ExceededLimit, LimitScope, WantedInstances};

impl Wire for WantedInstances {
    type Message = wire::CheckInstancesRequest;

    fn to_wire(&self) -> Self::Message {
        wire::CheckInstancesRequest {
            job: job_bytes(self.job),
            pool: self.pool.clone(),
            instances: self.instances,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let wire::CheckInstancesRequest { job, pool, instances } = message;
        Ok(Self {
            job: job_id("job", &job)?,
            pool,
            instances,
        })
    }
}

impl Wire for ExceededLimit {
    type Message = wire::ExceededInstanceLimit;

    fn to_wire(&self) -> Self::Message {
        wire::ExceededInstanceLimit {
            pool: match &self.scope {
                LimitScope::Pool(path) => path.clone(),
                LimitScope::Federation => String::new(),
            },
            others: self.others,
            limit: self.limit,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let wire::ExceededInstanceLimit { pool, others, limit } = message;
        Ok(Self {
            scope: if pool.is_empty() {
                LimitScope::Federation
            } else {
                LimitScope::Pool(pool)
            },
            others,
            limit,
        })
    }
}
