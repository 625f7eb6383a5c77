//! Hosts that are to be empty.

use crate::convert::fields::required;
use crate::convert::{FieldError, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::Timestamp;
use echelon_core_model::drain::{AgentDrain, DrainState, Drains, HostDrain};

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
        let hosts = hosts.iter().map(|(name, wish)| (name.clone(), wish.to_wire()));
        wire::Drains {
            version: *version,
            hosts: hosts.collect(),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let hosts = message
            .hosts
            .into_iter()
            .map(|(name, wish)| Ok((name, HostDrain::from_wire(wish)?)));
        Ok(Self {
            version: message.version,
            hosts: hosts.collect::<Result<_, FieldError>>()?,
        })
    }
}

impl Wire for DrainState {
    type Message = wire::DrainState;

    fn to_wire(&self) -> Self::Message {
        let Self { wish, agent } = self;
        let refused = match agent {
            AgentDrain::Refused(why) => why.clone(),
            AgentDrain::Open | AgentDrain::Done => String::new(),
        };
        wire::DrainState {
            wish: Some(wish.to_wire()),
            agent_done: *agent == AgentDrain::Done,
            agent_refused: refused,
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
        })
    }
}
