//! Quantities and sets of instance numbers.

use crate::convert::fields::{list, messages, range, range_set};
use crate::convert::{FieldError, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::{InstanceRange, RangeSet, Resources};

impl Wire for Resources {
    type Message = wire::Resources;

    fn to_wire(&self) -> Self::Message {
        let Self {
            cpus,
            memory,
            disk,
            gpus,
        } = *self;
        wire::Resources {
            cpus,
            memory,
            disk,
            gpus,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let wire::Resources {
            cpus,
            memory,
            disk,
            gpus,
        } = message;
        Ok(Self {
            cpus,
            memory,
            disk,
            gpus,
        })
    }
}

impl Wire for InstanceRange {
    type Message = wire::InstanceRange;

    fn to_wire(&self) -> Self::Message {
        wire::InstanceRange {
            first: self.first,
            last: self.last,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        range("first", message.first, message.last)
    }
}

impl Wire for RangeSet {
    type Message = wire::RangeSet;

    fn to_wire(&self) -> Self::Message {
        wire::RangeSet {
            ranges: messages(self.ranges()),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(range_set(list("ranges", message.ranges)?))
    }
}
