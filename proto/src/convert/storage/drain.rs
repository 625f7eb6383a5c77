//! Hosts that are to be empty.

use crate::convert::fields::{by_name, group as name, job_bytes, job_id, list, messages, names, required};
use crate::convert::{FieldError, FieldProblem, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::Timestamp;
use echelon_core_model::drain::{AgentDrain, DrainState, Drains, HostDrain, Left, Stays};

impl Wire for HostDrain {
    type Message = wire::HostDrain;

    fn to_wire(&self) -> Self::Message {
        let Self { batch_until, agent } = self;
        wire::HostDrain {
            batch_until_ms: batch_until.0,
            agent: *agent,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            batch_until: Timestamp(message.batch_until_ms),
            agent: message.agent,
        })
    }
}

impl Wire for Drains {
    type Message = wire::Drains;

    fn to_wire(&self) -> Self::Message {
        let Self { version, hosts } = self;
        wire::Drains {
            version: *version,
            hosts: names(hosts),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            version: message.version,
            hosts: by_name("hosts", message.hosts)?,
        })
    }
}

impl Wire for DrainState {
    type Message = wire::DrainState;

    fn to_wire(&self) -> Self::Message {
        let Self { wish, agent, left } = self;
        let refused = match agent {
            AgentDrain::Refused(why) => why.clone(),
            AgentDrain::Open | AgentDrain::Done => String::new(),
        };
        wire::DrainState {
            wish: Some(wish.to_wire()),
            agent_done: *agent == AgentDrain::Done,
            agent_refused: refused,
            left: messages(left),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let agent = match message {
            wire::DrainState { agent_done: true, .. } => AgentDrain::Done,
            wire::DrainState {
                ref agent_refused, ..
            } if !agent_refused.is_empty() => AgentDrain::Refused(agent_refused.clone()),
            _ => AgentDrain::Open,
        };
        Ok(Self {
            wish: required("wish", message.wish)?,
            agent,
            left: list("left", message.left)?,
        })
    }
}

impl Wire for Left {
    type Message = wire::HostLeft;

    fn to_wire(&self) -> Self::Message {
        let Self {
            why,
            job,
            group,
            runs,
        } = self;
        wire::HostLeft {
            why: why.number().into(),
            job: job_bytes(*job),
            group: group.to_string(),
            runs: *runs,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let wire::HostLeft {
            why,
            job,
            group,
            runs,
        } = message;
        let unknown = || FieldError::new("why", FieldProblem::Unknown(why.into()));
        Ok(Self {
            why: Stays::from_number(why).ok_or_else(unknown)?,
            job: job_id("job", &job)?,
            group: name("group", &group)?,
            runs,
        })
    }
}
