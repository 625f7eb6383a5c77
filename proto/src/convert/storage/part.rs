//! A cluster's parts of pool reservations.

use crate::convert::{FieldError, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::part::PoolParts;
use echelon_core_model::{Resources, Span};

impl Wire for PoolParts {
    type Message = wire::PoolParts;

    fn to_wire(&self) -> Self::Message {
        let Self { number, after, room } = self;
        let room = room.iter().map(|(path, part)| (path.clone(), part.to_wire()));
        wire::PoolParts {
            number: *number,
            after_ms: after.0,
            room: room.collect(),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let read = |(path, sent)| {
            let part = Resources::from_wire(sent).map_err(|e: FieldError| e.within("room"))?;
            Ok((path, part))
        };
        Ok(Self {
            number: message.number,
            after: Span(message.after_ms),
            room: message
                .room
                .into_iter()
                .map(read)
                .collect::<Result<_, FieldError>>()?,
        })
    }
}
