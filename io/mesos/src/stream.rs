//! The event stream of a subscription: RecordIO, then protobuf, then our words; and the watch over its heartbeats.

use crate::http::Channel;
use echelon_core_hosts::Event;
use echelon_proto::convert::mesos::event_from_wire;
use echelon_proto::mesos::v1::scheduler::Event as Wire;
use echelon_proto::recordio::{Decoder, RecordError};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use prost::Message as _;
use std::collections::VecDeque;
use std::time::Duration;
use thiserror::Error;
use tokio::time::{Instant, timeout_at};

/// Why a stream is of no use any more.
#[derive(Debug, Error)]
pub enum StreamEnd {
    /// The master ended it, or its process ended.
    #[error("the event stream ended")]
    Ended,
    /// It ended within an event.
    #[error("the event stream ended in the middle of an event")]
    Cut,
    /// The connection broke.
    #[error("the event stream broke: {0}")]
    Broken(hyper::Error),
    /// No event for too long (R27).
    #[error("no event and no heartbeat for {0:?}; the master or the network is silent")]
    Silent(Duration),
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

/// Bounds of a stream.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For the first event.
    pub first: Duration,
    /// Heartbeats that may be missing.
    pub heartbeats: u32,
    /// Longest event, in bytes.
    pub event_bytes: usize,
}

/// A stream that is open.
#[derive(Debug)]
pub struct EventStream {
    body: Incoming,
    decoder: Decoder,
    heard: Instant,
    silence: Duration,
    heartbeats: u32,
    begun: bool,
    ready: VecDeque<Event>,
    end: Option<StreamEnd>,
    /// Closed with the stream.
    _channel: Channel,
}

impl EventStream {
    /// The stream in the body of a subscription's answer.
    pub fn new(body: Incoming, channel: Channel, patience: Patience) -> Self {
        Self {
            body,
            decoder: Decoder::new(patience.event_bytes),
            heard: Instant::now(),
            silence: patience.first,
            heartbeats: patience.heartbeats,
            begun: false,
            ready: VecDeque::new(),
            end: None,
            _channel: channel,
        }
    }

    /// The next event. Nothing is lost when this is dropped before it is done.
    ///
    /// # Errors
    /// `StreamEnd` once all events before the end were given.
    pub async fn next(&mut self) -> Result<Event, StreamEnd> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            if let Some(end) = self.end.take() {
                return Err(end);
            }
            match timeout_at(self.heard + self.silence, self.body.frame()).await {
                Err(_) => return Err(StreamEnd::Silent(self.silence)),
                Ok(None) if self.decoder.at_boundary() => return Err(StreamEnd::Ended),
                Ok(None) => return Err(StreamEnd::Cut),
                Ok(Some(Err(error))) => return Err(StreamEnd::Broken(error)),
                Ok(Some(Ok(frame))) => {
                    if let Ok(piece) = frame.into_data() {
                        self.end = self.take_in(&piece).err();
                    }
                }
            }
        }
    }

    fn take_in(&mut self, piece: &[u8]) -> Result<(), StreamEnd> {
        let mut records = Vec::new();
        let framing = self.decoder.push(piece, &mut records);
        for record in records {
            let wire = Wire::decode(record.as_slice())?;
            self.heard = Instant::now();
            for event in event_from_wire(&wire) {
                self.begin(&event)?;
                self.ready.push_back(event);
            }
        }
        Ok(framing?)
    }

    fn begin(&mut self, event: &Event) -> Result<(), StreamEnd> {
        match event {
            Event::Subscribed { heartbeat, .. } => {
                self.silence = Duration::from_millis(heartbeat.0).saturating_mul(self.heartbeats);
            }
            Event::Refused { .. } => {}
            _ if self.begun => {}
            _ => return Err(StreamEnd::Stranger),
        }
        self.begun = true;
        Ok(())
    }
}
