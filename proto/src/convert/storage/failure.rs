//! The end of a failed run, as it is remembered while its instance is tried again.

use crate::convert::fields::required;
use crate::convert::{FieldError, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::Timestamp;
use echelon_core_model::failure::Failure;

impl Wire for Failure {
    type Message = wire::Failure;

    fn to_wire(&self) -> Self::Message {
        let Self {
            at,
            reason,
            exit_code,
        } = self;
        wire::Failure {
            at_ms: at.0,
            reason: Some(reason.to_wire()),
            exit_code: *exit_code,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            at: Timestamp(message.at_ms),
            reason: required("reason", message.reason)?,
            exit_code: message.exit_code,
        })
    }
}
