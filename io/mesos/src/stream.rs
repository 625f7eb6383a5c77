//! The event stream of a subscription, and the watch over its heartbeats.

use crate::http::Channel;
use crate::reader::{ReadError, Reader};
use echelon_core_hosts::Event;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
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
    /// Its bytes are no event stream.
    #[error(transparent)]
    Unreadable(#[from] ReadError),
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
    reader: Reader,
    heard: Instant,
    silence: Duration,
    heartbeats: u32,
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
            reader: Reader::new(patience.event_bytes),
            heard: Instant::now(),
            silence: patience.first,
            heartbeats: patience.heartbeats,
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
                Ok(None) if self.reader.at_boundary() => return Err(StreamEnd::Ended),
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
        let (mut events, before) = (Vec::new(), self.reader.records());
        let done = self.reader.push(piece, &mut events);
        // Half an event is no sign of life.
        if self.reader.records() > before {
            self.heard = Instant::now();
        }
        for event in events {
            if let Event::Subscribed { heartbeat, .. } = &event {
                self.silence = Duration::from_millis(heartbeat.0).saturating_mul(self.heartbeats);
            }
            self.ready.push_back(event);
        }
        Ok(done?)
    }
}
