//! The row of switches.

use crate::convert::{FieldError, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::control::Control;
use echelon_core_model::token::TokenKey;
use echelon_core_model::{Timestamp, Version};

impl Wire for Control {
    type Message = wire::Control;

    fn to_wire(&self) -> Self::Message {
        let Self {
            version,
            kills_off,
            by,
            why,
            at,
            token_key,
            former_token_key,
        } = self;
        let bytes = |key: &Option<TokenKey>| key.map(|key| key.bytes().to_vec()).unwrap_or_default();
        wire::Control {
            version: version.0,
            kills_off: *kills_off,
            by: by.clone(),
            why: why.clone(),
            at_ms: at.0,
            token_key: bytes(token_key),
            former_token_key: bytes(former_token_key),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            version: Version(message.version),
            kills_off: message.kills_off,
            by: message.by,
            why: message.why,
            at: Timestamp(message.at_ms),
            token_key: TokenKey::from_bytes(&message.token_key),
            former_token_key: TokenKey::from_bytes(&message.former_token_key),
        })
    }
}
