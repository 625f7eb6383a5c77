//! Who leads, and how new what it stored is.

use crate::convert::{FieldError, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::store::{Leadership, Mark, Stamp};
use echelon_core_model::{Epoch, Timestamp, Version};

impl Wire for Leadership {
    type Message = wire::Leadership;

    fn to_wire(&self) -> Self::Message {
        let Self {
            epoch,
            holder,
            proof,
            resumed,
        } = self;
        wire::Leadership {
            epoch: epoch.0,
            holder: holder.clone(),
            proof: *proof,
            resumed: resumed.0,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let wire::Leadership {
            epoch,
            holder,
            proof,
            resumed,
        } = message;
        Ok(Self {
            epoch: Epoch(epoch),
            holder,
            proof,
            resumed: Epoch(resumed),
        })
    }
}

impl Wire for Mark {
    type Message = wire::Mark;

    fn to_wire(&self) -> Self::Message {
        let Self {
            stamp,
            control,
            at,
            settled,
        } = self;
        wire::Mark {
            epoch: stamp.epoch.0,
            sequence: stamp.sequence,
            control: control.0,
            at_ms: at.0,
            settled: settled.0,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let wire::Mark {
            epoch,
            sequence,
            control,
            at_ms,
            settled,
        } = message;
        Ok(Self {
            stamp: Stamp {
                epoch: Epoch(epoch),
                sequence,
            },
            control: Version(control),
            at: Timestamp(at_ms),
            settled: Epoch(settled),
        })
    }
}
