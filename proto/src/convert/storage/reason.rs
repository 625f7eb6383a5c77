//! Reasons.

use crate::convert::fields::WireEnum as _;
use crate::convert::fields::{optional, reason_code, wire_enum, word};
use crate::convert::{FieldError, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::Kind;
use echelon_core_model::reason::{Reason, Shortfall};

wire_enum!(Kind, wire::ResourceKind, Cpus, Memory, Disk, Gpus);

impl Wire for Shortfall {
    type Message = wire::Shortfall;

    fn to_wire(&self) -> Self::Message {
        let Self { kind, have, need } = *self;
        wire::Shortfall {
            kind: kind.number(),
            have,
            need,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let wire::Shortfall { kind, have, need } = message;
        Ok(Self {
            kind: word("kind", kind)?,
            have,
            need,
        })
    }
}

impl Wire for Reason {
    type Message = wire::Reason;

    fn to_wire(&self) -> Self::Message {
        let Self {
            code,
            shortfall,
            detail,
        } = self;
        wire::Reason {
            code: code.number(),
            shortfall: shortfall.as_deref().map(Wire::to_wire),
            detail: detail.as_deref().map(str::to_owned),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let wire::Reason {
            code,
            shortfall,
            detail,
        } = message;
        Ok(Self {
            code: reason_code("code", code)?,
            shortfall: optional("shortfall", shortfall)?.map(Box::new),
            detail: detail.map(String::into_boxed_str),
        })
    }
}
