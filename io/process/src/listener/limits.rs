//! What a port bears, in one place. `docs/limits.md` prints these numbers.

use crate::descriptors;
use std::time::Duration;

/// Longest time from the first byte of a request's head to its last.
pub const HEAD_TIME: Duration = Duration::from_secs(10);
/// Longest time between two bytes of a request's body.
pub const BODY_TIME: Duration = Duration::from_secs(30);
/// Longest time of a whole body: the largest request comes in it at 60 KB/s.
pub const WHOLE_BODY_TIME: Duration = Duration::from_secs(300);
/// Longest time of a connection without any request, and of an answer of which the peer takes nothing.
pub const IDLE_TIME: Duration = Duration::from_secs(300);
/// Requests and streams that are open at once on one HTTP/2 connection.
pub const STREAMS: u32 = 100;
/// Connections of one port.
pub const CONNECTIONS: usize = 4_096;
/// Descriptors that are kept for storage, peers, logs and files.
pub const KEPT_DESCRIPTORS: u64 = 256;
/// Connections of a port in a process that may have hardly any descriptors.
const LEAST_CONNECTIONS: usize = 16;

/// What a port bears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections at once.
    pub connections: usize,
    /// Open streams of one HTTP/2 connection.
    pub streams: u32,
    /// From the first byte of a head to its last.
    pub head: Duration,
    /// Between two bytes of a body, until the request is answered.
    pub body: Duration,
    /// From a request's head to the last byte of its body, until the request is answered.
    pub whole_body: Duration,
    /// Without any request; or without any progress of an answer.
    pub idle: Duration,
    /// How often the peer of an HTTP/2 connection is asked for a sign of life, and how long it may take for that.
    pub ping: Option<Duration>,
}

impl ConnectionLimits {
    /// Those of a process that may have so many descriptors open.
    #[must_use]
    pub fn with_descriptors(descriptors: u64) -> Self {
        let free = usize::try_from(descriptors.saturating_sub(KEPT_DESCRIPTORS)).unwrap_or(usize::MAX);
        Self {
            connections: free.clamp(LEAST_CONNECTIONS, CONNECTIONS),
            streams: STREAMS,
            head: HEAD_TIME,
            body: BODY_TIME,
            whole_body: WHOLE_BODY_TIME,
            idle: IDLE_TIME,
            ping: None,
        }
    }

    /// Those of a port that other roles call, in this process: peers that are gone are found within twice
    /// this span.
    #[must_use]
    pub fn between_roles(ping: Duration) -> Self {
        Self {
            ping: Some(ping),
            ..Self::of_process()
        }
    }

    /// Those of this process.
    #[must_use]
    pub fn of_process() -> Self {
        Self::with_descriptors(descriptors::open_limit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_rest_of_the_process() {
        for (descriptors, connections) in [
            (u64::MAX, 4_096),
            (1 << 20, 4_096),
            (4_352, 4_096),
            (4_351, 4_095),
            (1_024, 768),
            (256, 16),
            (0, 16),
        ] {
            let limits = ConnectionLimits::with_descriptors(descriptors);
            assert_eq!(limits.connections, connections, "{descriptors}");
        }
    }
}
