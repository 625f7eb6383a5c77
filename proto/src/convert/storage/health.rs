//! The health of clusters, and what shards observe.

use crate::convert::fields::{WireEnum as _, moment, optional, wire_enum, word};
use crate::convert::{FieldError, FieldProblem, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::health::{
    AgentCounts, ClusterHealth, Declaration, DeclaredHealth, Health, HealthCause, MasterId, ShardSigns,
};
use echelon_core_model::{Span, Timestamp};

wire_enum!(
    Health,
    wire::Health,
    Joining,
    Healthy,
    Recovering,
    Degraded,
    WithoutMesos,
    WithoutAgents,
    CutOff,
    Lost
);

impl Wire for ClusterHealth {
    type Message = wire::ClusterHealth;

    fn to_wire(&self) -> Self::Message {
        let Self {
            health,
            causes,
            since,
            as_of,
            silence,
            waited,
            doubted,
            heartbeat_at,
            returned_at,
            doublings,
        } = self;
        let causes = causes.iter().map(|cause| {
            let (code, count, of) = cause.parts();
            wire::HealthCause { code, count, of }
        });
        wire::ClusterHealth {
            health: health.number(),
            causes: causes.collect(),
            since_ms: since.0,
            as_of_ms: as_of.0,
            silence: *silence,
            waited_ms: waited.0,
            doubted_ms: doubted.0,
            heartbeat_at_ms: heartbeat_at.map(|at| at.0),
            returned_at_ms: returned_at.map(|at| at.0),
            doublings: *doublings,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let many = i128::try_from(message.causes.len()).unwrap_or(i128::MAX);
        let most = HealthCause::MOST as i128;
        if many > most {
            let problem = FieldProblem::OutOfRange {
                number: many,
                first: 0,
                last: most,
            };
            return Err(FieldError::new("causes", problem));
        }
        let causes = message.causes.into_iter().map(|cause| {
            let wire::HealthCause { code, count, of } = cause;
            let unknown = FieldProblem::Unknown(i64::from(code));
            HealthCause::of_parts(code, count, of).ok_or_else(|| FieldError::new("causes.code", unknown))
        });
        Ok(Self {
            health: word("health", message.health)?,
            causes: causes.collect::<Result<_, _>>()?,
            since: Timestamp(message.since_ms),
            as_of: Timestamp(message.as_of_ms),
            silence: message.silence,
            waited: Span(message.waited_ms),
            doubted: Span(message.doubted_ms),
            heartbeat_at: moment(message.heartbeat_at_ms),
            returned_at: moment(message.returned_at_ms),
            doublings: message.doublings,
        })
    }
}

impl Wire for DeclaredHealth {
    type Message = wire::DeclaredHealth;

    fn to_wire(&self) -> Self::Message {
        let alive_until_ms = match self.as_what {
            Declaration::Lost | Declaration::NeverReturns => None,
            Declaration::AliveUntil(until) => Some(until.0),
        };
        wire::DeclaredHealth {
            silence: self.silence,
            alive_until_ms,
            never_returns: self.as_what == Declaration::NeverReturns,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let lost = if message.never_returns {
            Declaration::NeverReturns
        } else {
            Declaration::Lost
        };
        Ok(Self {
            silence: message.silence,
            as_what: moment(message.alive_until_ms).map_or(lost, Declaration::AliveUntil),
        })
    }
}

impl Wire for ShardSigns {
    type Message = wire::ShardSigns;

    fn to_wire(&self) -> Self::Message {
        let Self {
            subscribed,
            subscription_age,
            event_age,
            answer_age,
            unanswered,
            agents,
            commit_age,
            frozen,
            torn_down,
            master,
        } = self;
        wire::ShardSigns {
            subscribed: *subscribed,
            subscription_age_ms: subscription_age.0,
            event_age_ms: event_age.map(|age| age.0),
            answer_age_ms: answer_age.map(|age| age.0),
            unanswered: *unanswered,
            agents: agents.as_ref().map(AgentCounts::to_wire),
            commit_age_ms: commit_age.0,
            frozen: *frozen,
            torn_down: *torn_down,
            master_hash: master.map(|id| id.0),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            subscribed: message.subscribed,
            subscription_age: Span(message.subscription_age_ms),
            event_age: message.event_age_ms.map(Span),
            answer_age: message.answer_age_ms.map(Span),
            unanswered: message.unanswered,
            agents: optional("agents", message.agents)?,
            commit_age: Span(message.commit_age_ms),
            frozen: message.frozen,
            torn_down: message.torn_down,
            master: message.master_hash.map(MasterId),
        })
    }
}

impl Wire for AgentCounts {
    type Message = wire::AgentCounts;

    fn to_wire(&self) -> Self::Message {
        let Self { active, unreachable } = self;
        wire::AgentCounts {
            active: *active,
            unreachable: *unreachable,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            active: message.active,
            unreachable: message.unreachable,
        })
    }
}
