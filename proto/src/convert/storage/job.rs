//! Heads, names, requests and progress of jobs.

use crate::convert::fields::{
    WireEnum as _, by_group, cluster, group, job_bytes, job_id, list, messages, moment, optional, required,
    wire_enum, word,
};
use crate::convert::{FieldError, FieldProblem, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::instance::Counts;
use echelon_core_model::job::{Desired, Goal, Head, JobState, Progress, Verdict, Waiting};
use echelon_core_model::spec::JobKind;
use echelon_core_model::spec_digest::SpecDigest;
use echelon_core_model::store::{NameHolder, PlannedRequest};
use echelon_core_model::{PoolId, Timestamp, Version};

wire_enum!(Desired, wire::Desired, Running, Stopped, Deleted);
wire_enum!(JobKind, wire::JobKind, Batch, Service, Stateful, Daemon);

impl Wire for Goal {
    type Message = wire::Goal;

    fn to_wire(&self) -> Self::Message {
        let Self { desired, restarts } = *self;
        wire::Goal {
            desired: desired.number(),
            restarts,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            desired: word("desired", message.desired)?,
            restarts: message.restarts,
        })
    }
}

impl Wire for Head {
    type Message = wire::Head;

    fn to_wire(&self) -> Self::Message {
        let Self {
            job,
            version,
            void,
            goal,
            spec_version,
            name,
            pool,
            pool_id,
            kind,
            owner,
            labels,
            instances,
            updated_at,
            rollout,
            past_rollouts,
            verdict,
            schedule,
            origin,
            restarts,
            spec_digest,
        } = self;
        wire::Head {
            job: job_bytes(*job),
            version: version.0,
            void: *void,
            goal: Some(goal.to_wire()),
            spec_version: *spec_version,
            name: name.clone(),
            pool: pool.clone(),
            pool_id: pool_id.as_ref().map(ToString::to_string).unwrap_or_default(),
            kind: kind.number(),
            owner: owner.clone(),
            labels: labels.clone(),
            instances: *instances,
            updated_at_ms: updated_at.0,
            rollout: rollout.as_ref().map(Wire::to_wire),
            past_rollouts: messages(past_rollouts),
            verdict: verdict.as_deref().map(Wire::to_wire),
            schedule: schedule.as_deref().map(Wire::to_wire),
            origin: origin.as_deref().map(Wire::to_wire),
            restarts: restarts.as_deref().map(Wire::to_wire),
            spec_digest: spec_digest.as_ref().map(Wire::to_wire),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            job: job_id("job", &message.job)?,
            version: Version(message.version),
            void: message.void,
            goal: required("goal", message.goal)?,
            spec_version: message.spec_version,
            name: message.name,
            pool: message.pool,
            pool_id: (!message.pool_id.is_empty()).then(|| PoolId::new(message.pool_id)),
            kind: word("kind", message.kind)?,
            owner: message.owner,
            labels: message.labels,
            instances: message.instances,
            updated_at: Timestamp(message.updated_at_ms),
            rollout: optional("rollout", message.rollout)?,
            past_rollouts: list("past_rollouts", message.past_rollouts)?,
            verdict: optional("verdict", message.verdict)?.map(Box::new),
            schedule: optional("schedule", message.schedule)?.map(Box::new),
            origin: optional("origin", message.origin)?.map(Box::new),
            restarts: optional("restarts", message.restarts)?.map(Box::new),
            spec_digest: optional("spec_digest", message.spec_digest)?,
        })
    }
}

impl Wire for SpecDigest {
    type Message = wire::SpecDigest;

    fn to_wire(&self) -> Self::Message {
        let Self { version, sum } = self;
        wire::SpecDigest {
            version: *version,
            sum: sum.to_vec(),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let wrong = FieldError::new("sum", FieldProblem::Digest(message.sum.len()));
        let sum: Result<[u8; 16], _> = message.sum.as_slice().try_into();
        Ok(Self {
            version: message.version,
            sum: sum.map_err(|_| wrong)?,
        })
    }
}

impl Wire for Verdict {
    type Message = wire::Verdict;

    fn to_wire(&self) -> Self::Message {
        let Self { state, reason } = self;
        wire::Verdict {
            state: state.number().into(),
            reason: Some(reason.to_wire()),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            state: job_state(message.state)?,
            reason: required("reason", message.reason)?,
        })
    }
}

fn job_state(number: u32) -> Result<JobState, FieldError> {
    let state = u8::try_from(number).ok().and_then(JobState::from_number);
    state.ok_or_else(|| FieldError::new("state", FieldProblem::Unknown(number.into())))
}

impl Wire for NameHolder {
    type Message = wire::NameHolder;

    fn to_wire(&self) -> Self::Message {
        let Self { job, version } = *self;
        wire::NameHolder {
            job: job_bytes(job),
            version: version.0,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            job: job_id("job", &message.job)?,
            version: Version(message.version),
        })
    }
}

impl Wire for PlannedRequest {
    type Message = wire::PlannedRequest;

    fn to_wire(&self) -> Self::Message {
        let Self { job, hash, at } = *self;
        wire::PlannedRequest {
            job: job_bytes(job),
            hash,
            at_ms: at.0,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            job: job_id("job", &message.job)?,
            hash: message.hash,
            at: Timestamp(message.at_ms),
        })
    }
}

impl Wire for Counts {
    type Message = wire::Counts;

    fn to_wire(&self) -> Self::Message {
        wire::Counts {
            by_state: self.by_state.to_vec(),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let by_state = message.by_state.try_into().map_err(|sent: Vec<u64>| {
            let (number, expected) = (sent.len() as i128, Self::default().by_state.len() as i128);
            let problem = FieldProblem::OutOfRange {
                number,
                first: expected,
                last: expected,
            };
            FieldError::new("by_state", problem)
        })?;
        Ok(Self { by_state })
    }
}

impl Wire for Waiting {
    type Message = wire::Waiting;

    fn to_wire(&self) -> Self::Message {
        let Self {
            group,
            cluster,
            reason,
            count,
            since,
        } = self;
        wire::Waiting {
            group: group.to_string(),
            cluster: cluster.as_ref().map(ToString::to_string),
            reason: Some(reason.to_wire()),
            count: *count,
            since_ms: since.0,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            group: group("group", &message.group)?,
            cluster: message.cluster.map(|c| cluster("cluster", &c)).transpose()?,
            reason: required("reason", message.reason)?,
            count: message.count,
            since: Timestamp(message.since_ms),
        })
    }
}

impl Wire for Progress {
    type Message = wire::Progress;

    fn to_wire(&self) -> Self::Message {
        let Self {
            job,
            state,
            since,
            reason,
            ended_version,
            groups,
            waiting,
            awaited,
            created_at,
            starved,
            rollout,
            released,
            keep_until,
            restart,
            crash_looping,
        } = self;
        let groups = groups.iter().map(|(g, counts)| (g.to_string(), counts.to_wire()));
        wire::Progress {
            job: job_bytes(*job),
            state: state.number().into(),
            since_ms: since.0,
            reason: reason.as_ref().map(Wire::to_wire),
            ended_version: ended_version.map(|v| v.0),
            groups: groups.collect(),
            waiting: messages(waiting),
            awaited: awaited.iter().map(ToString::to_string).collect(),
            created_at_ms: created_at.0,
            starved_ms: starved.map(|at| at.0),
            rollout: rollout.as_ref().map(Wire::to_wire),
            released_ms: released.map(|at| at.0),
            keep_until_ms: keep_until.map(|at| at.0),
            restart: restart.as_ref().map(Wire::to_wire),
            crash_looping: *crash_looping,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let awaited = message.awaited.iter();
        Ok(Self {
            job: job_id("job", &message.job)?,
            state: job_state(message.state)?,
            since: Timestamp(message.since_ms),
            reason: optional("reason", message.reason)?,
            ended_version: message.ended_version.map(Version),
            groups: by_group::<Counts>("groups", message.groups)?
                .into_iter()
                .collect(),
            waiting: list("waiting", message.waiting)?,
            awaited: awaited.map(|c| cluster("awaited", c)).collect::<Result<_, _>>()?,
            created_at: Timestamp(message.created_at_ms),
            starved: moment(message.starved_ms),
            rollout: optional("rollout", message.rollout)?,
            released: moment(message.released_ms),
            keep_until: moment(message.keep_until_ms),
            restart: optional("restart", message.restart)?,
            crash_looping: message.crash_looping,
        })
    }
}
