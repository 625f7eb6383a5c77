//! What a connection to a master needs to be told.

use crate::master::Masters;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use echelon_proto::convert::mesos::Framework;
use std::fmt;
use std::time::Duration;

/// A connection to the masters of one cluster.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where they are.
    pub masters: Masters,
    /// What our framework says of itself.
    pub framework: Framework,
    /// For masters that authenticate frameworks (R5).
    pub credential: Option<Credential>,
    /// For calls of the operator API; without it those carry the framework's.
    pub operator: Option<Credential>,
    /// Bounds in time.
    pub timing: Timing,
    /// Bounds in size.
    pub limits: Limits,
    /// Of the jitter of waits: another one for each process.
    pub seed: u64,
}

/// A name and a secret for HTTP's basic authentication.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// The principal; `Framework::principal` should be the same.
    pub principal: String,
    /// Its secret; never shown.
    pub secret: String,
}

/// Bounds in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// For a connection to a master to stand.
    pub connect: Duration,
    /// For ZooKeeper to name a leading master.
    pub leader: Duration,
    /// For the answer to a call, and for the first event of a stream (R27).
    pub answer: Duration,
    /// A stream without an event for this many heartbeats is dead (R27).
    pub silent_heartbeats: u32,
    /// Upper bound of the wait before the second attempt to subscribe in a row; doubles with each, and the wait is drawn
    /// from the whole range, so that the shards of a lost master do not come back at once.
    pub first_wait: Duration,
    /// Upper bound of every wait.
    pub longest_wait: Duration,
}

/// Bounds in size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest event, in bytes. One OFFERS event carries the offers of all agents, some 600 bytes each (R10).
    pub event_bytes: usize,
    /// Events that wait for their reader, each offer counted; with more the stream is dropped rather than left unread (hazard
    /// H3). More than the offers of all agents, which may come in one event.
    pub events: usize,
    /// Calls that wait for the one under way; with more no further ones are taken from their channel.
    pub calls: usize,
}

impl Timing {
    /// For a real master, whose heartbeats come every 15 s.
    #[must_use]
    pub const fn usual() -> Self {
        Self {
            connect: Duration::from_secs(5),
            leader: Duration::from_secs(30),
            answer: Duration::from_secs(75),
            silent_heartbeats: 5,
            first_wait: Duration::from_millis(200),
            longest_wait: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// For a cluster of up to 100,000 agents.
    #[must_use]
    pub const fn usual() -> Self {
        Self {
            event_bytes: 256 * 1024 * 1024,
            events: 300_000,
            calls: 1_000,
        }
    }
}

impl Credential {
    /// The value of the `Authorization` header.
    pub(crate) fn header(&self) -> String {
        let Self { principal, secret } = self;
        format!(
            "Basic {}",
            BASE64_STANDARD.encode(format!("{principal}:{secret}"))
        )
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({}, secret)", self.principal)
    }
}
