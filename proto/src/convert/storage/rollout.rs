//! Rollouts: as they are wanted, and what became of them.

use crate::convert::fields::{optional, reason_code, required};
use crate::convert::{FieldError, FieldProblem, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::rollout::{PastRollout, Rollout, RolloutProgress, RolloutState};
use echelon_core_model::{ReasonCode, Timestamp};

/// No reason is number 0.
fn number(code: Option<ReasonCode>) -> u32 {
    code.map_or(0, ReasonCode::number)
}

fn code(field: &str, number: u32) -> Result<Option<ReasonCode>, FieldError> {
    (number != 0).then(|| reason_code(field, number)).transpose()
}

fn state(number: u32) -> Result<RolloutState, FieldError> {
    let state = u8::try_from(number).ok().and_then(RolloutState::from_number);
    state.ok_or_else(|| FieldError::new("state", FieldProblem::Unknown(number.into())))
}

impl Wire for Rollout {
    type Message = wire::Rollout;

    fn to_wire(&self) -> Self::Message {
        let Self {
            number: n,
            base,
            since,
            held,
            promoted,
            back,
            forgiven,
        } = *self;
        wire::Rollout {
            number: n,
            base,
            since_ms: since.0,
            held: number(held),
            promoted,
            back: number(back),
            forgiven,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            number: message.number,
            base: message.base,
            since: Timestamp(message.since_ms),
            held: code("held", message.held)?,
            promoted: message.promoted,
            back: code("back", message.back)?,
            forgiven: message.forgiven,
        })
    }
}

impl Wire for PastRollout {
    type Message = wire::PastRollout;

    fn to_wire(&self) -> Self::Message {
        let Self {
            wish,
            spec_version,
            state,
        } = self;
        wire::PastRollout {
            wish: Some(wish.to_wire()),
            spec_version: *spec_version,
            state: state.number().into(),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            wish: required("wish", message.wish)?,
            spec_version: message.spec_version,
            state: state(message.state)?,
        })
    }
}

impl Wire for RolloutProgress {
    type Message = wire::RolloutProgress;

    fn to_wire(&self) -> Self::Message {
        let Self {
            number,
            state,
            since,
            updated,
            failed,
            reason,
        } = self;
        wire::RolloutProgress {
            number: *number,
            state: state.number().into(),
            since_ms: since.0,
            updated: *updated,
            failed: *failed,
            reason: reason.as_ref().map(Wire::to_wire),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            number: message.number,
            state: state(message.state)?,
            since: Timestamp(message.since_ms),
            updated: message.updated,
            failed: message.failed,
            reason: optional("reason", message.reason)?,
        })
    }
}
