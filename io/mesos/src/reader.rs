//! The bytes of an event stream as events: RecordIO, then protobuf, then our words. No clock and no socket: however the bytes
//! are cut, the same come out.

use echelon_core_hosts::Event;
use echelon_proto::convert::mesos::event_from_wire;
use echelon_proto::mesos::v1::scheduler::Event as Wire;
use echelon_proto::recordio::{Decoder, RecordError};
use prost::Message as _;
use thiserror::Error;

/// Why bytes are no event stream.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReadError {
    /// Lost framing (R10).
    #[error(transparent)]
    Framing(#[from] RecordError),
    /// An event that is no event.
    #[error("an event cannot be read as protobuf: {0}; is this a Mesos master?")]
    Unreadable(#[from] prost::DecodeError),
    /// Something else answers there (R1).
    #[error("the first event is neither SUBSCRIBED nor ERROR; is this the scheduler API of a Mesos master?")]
    Stranger,
}

/// Reads one stream.
#[derive(Debug)]
pub struct Reader {
    decoder: Decoder,
    begun: bool,
    records: u64,
    failed: Option<ReadError>,
}

impl Reader {
    /// A reader that refuses records longer than this.
    pub const fn new(record_bytes: usize) -> Self {
        Self {
            decoder: Decoder::new(record_bytes),
            begun: false,
            records: 0,
            failed: None,
        }
    }

    /// Takes the next piece in and appends the events that it completes. After an error every further piece gets the same
    /// error, and no event.
    pub fn push(&mut self, piece: &[u8], events: &mut Vec<Event>) -> Result<(), ReadError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let done = self.take_in(piece, events);
        self.failed = done.clone().err();
        done
    }

    /// How many events of the wire were read, those without a meaning for us included.
    pub const fn records(&self) -> u64 {
        self.records
    }

    /// Whether the stream may end here without a loss.
    pub fn at_boundary(&self) -> bool {
        self.decoder.at_boundary()
    }

    fn take_in(&mut self, piece: &[u8], events: &mut Vec<Event>) -> Result<(), ReadError> {
        let mut records = Vec::new();
        let framing = self.decoder.push(piece, &mut records);
        for record in records {
            let wire = Wire::decode(record.as_slice())?;
            self.records += 1;
            for event in event_from_wire(&wire) {
                let first = matches!(event, Event::Subscribed { .. } | Event::Refused { .. });
                if !self.begun && !first {
                    return Err(ReadError::Stranger);
                }
                self.begun = true;
                events.push(event);
            }
        }
        Ok(framing?)
    }

    #[cfg(test)]
    pub fn buffered(&self) -> usize {
        self.decoder.buffered()
    }
}
