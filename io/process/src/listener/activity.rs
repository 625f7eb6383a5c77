//! What a connection does, and until when it may do that: no clock and no socket.

use super::frames::{FrameScan, PREFACE};
use super::limits::ConnectionLimits;
use super::refusals::RefusalCause;
use tokio::time::Instant;

/// What its peer speaks.
#[derive(Debug, Clone)]
enum PeerProtocol {
    /// It has sent so many bytes of the preface of HTTP/2, and nothing else.
    Unknown(usize),
    One,
    Two(FrameScan),
}

/// What a connection does.
#[derive(Debug, Clone)]
pub(super) struct ConnectionActivity {
    protocol: PeerProtocol,
    /// Requests whose head was read and whose answer has not ended.
    requests: usize,
    /// Since when there is none.
    idle_since: Instant,
    /// When the head that is being read began.
    head_since: Option<Instant>,
    /// Since when the peer takes nothing of what it is sent.
    unread_since: Option<Instant>,
    /// When a byte of a body last came.
    body_at: Option<Instant>,
    sent: FrameScan,
}

/// What is to become of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionVerdict {
    /// It may go on until then.
    Until(Instant),
    /// It may go on.
    Open,
    /// It has used up its time.
    Close(RefusalCause),
}

impl ConnectionActivity {
    pub(super) const fn opened(now: Instant) -> Self {
        Self {
            protocol: PeerProtocol::Unknown(0),
            requests: 0,
            idle_since: now,
            head_since: None,
            unread_since: None,
            body_at: None,
            sent: FrameScan::new(),
        }
    }

    /// The peer has sent bytes.
    pub(super) fn read(&mut self, mut bytes: &[u8], now: Instant) {
        if let PeerProtocol::Unknown(seen) = self.protocol {
            let expected = PREFACE.get(seen..).unwrap_or_default();
            let (first, rest) = bytes.split_at(expected.len().min(bytes.len()));
            if !expected.starts_with(first) {
                self.protocol = PeerProtocol::One;
            } else if first.len() < expected.len() {
                self.protocol = PeerProtocol::Unknown(seen + first.len());
            } else {
                self.protocol = PeerProtocol::Two(FrameScan::new());
                self.head_since = None;
                bytes = rest;
            }
        }
        let head = match &mut self.protocol {
            PeerProtocol::Unknown(_) => true,
            PeerProtocol::One => {
                self.body_at = Some(now);
                self.requests == 0
            }
            PeerProtocol::Two(frames) => {
                if frames.pass(bytes).body {
                    self.body_at = Some(now);
                }
                // What is not whole may be of a body while there is a request, and that has a time of its own.
                frames.is_in_head() || (self.requests == 0 && frames.is_in_frame())
            }
        };
        self.head_since = head.then(|| self.head_since.unwrap_or(now));
    }

    /// The peer has taken bytes. Returns how many streams were refused by them.
    pub(super) fn wrote(&mut self, bytes: &[u8]) -> u64 {
        self.unread_since = None;
        match self.protocol {
            PeerProtocol::Two(_) => self.sent.pass(bytes).refused,
            PeerProtocol::Unknown(_) | PeerProtocol::One => 0,
        }
    }

    /// The peer takes no bytes.
    pub(super) fn write_waits(&mut self, now: Instant) {
        self.unread_since.get_or_insert(now);
    }

    /// The head of a request is whole.
    pub(super) fn request_begins(&mut self) {
        self.requests += 1;
        if matches!(self.protocol, PeerProtocol::One) {
            self.head_since = None;
        }
    }

    /// The answer of a request has ended.
    pub(super) fn request_ends(&mut self, now: Instant) {
        self.requests = self.requests.saturating_sub(1);
        self.idle_since = now;
    }

    /// Since when it has no request.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        (self.requests == 0).then_some(self.idle_since)
    }

    /// When a byte of a body last came.
    pub(super) const fn body_at(&self) -> Option<Instant> {
        self.body_at
    }

    /// What is to become of it.
    pub(super) fn verdict(&self, limits: &ConnectionLimits, now: Instant) -> ConnectionVerdict {
        // While an answer is not taken, the connection is not without use.
        let idle = self.idle_since().filter(|_| self.unread_since.is_none());
        let times = [
            (self.head_since, limits.head, RefusalCause::Head),
            (self.unread_since, limits.idle, RefusalCause::Unread),
            (idle, limits.idle, RefusalCause::Idle),
        ];
        let ends = times
            .into_iter()
            .filter_map(|(since, time, cause)| Some((since? + time, cause)));
        match ends.min_by_key(|end| end.0) {
            Some((end, cause)) if end <= now => ConnectionVerdict::Close(cause),
            Some((end, _)) => ConnectionVerdict::Until(end),
            None => ConnectionVerdict::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const LIMITS: ConnectionLimits = ConnectionLimits {
        whole_body: Duration::from_secs(3600),
        connections: 1,
        streams: 1,
        head: Duration::from_secs(10),
        body: Duration::from_secs(30),
        idle: Duration::from_secs(300),
        ping: None,
    };

    fn at(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_connection_without_a_request_is_idle() {
        let start = Instant::now();
        let mut it = ConnectionActivity::opened(start);
        assert_eq!(
            it.verdict(&LIMITS, at(start, 299)),
            ConnectionVerdict::Until(at(start, 300))
        );
        assert_eq!(
            it.verdict(&LIMITS, at(start, 300)),
            ConnectionVerdict::Close(RefusalCause::Idle)
        );
        it.read(b"GET / HTTP/1.1\r\n\r\n", at(start, 5));
        it.request_begins();
        assert_eq!(it.verdict(&LIMITS, at(start, 100_000)), ConnectionVerdict::Open);
        it.request_ends(at(start, 100_000));
        assert_eq!(it.idle_since(), Some(at(start, 100_000)));
        assert_eq!(
            it.verdict(&LIMITS, at(start, 100_300)),
            ConnectionVerdict::Close(RefusalCause::Idle)
        );
    }

    #[test]
    fn half_a_head_has_ten_seconds_from_its_first_byte() {
        let start = Instant::now();
        let mut it = ConnectionActivity::opened(start);
        for (seconds, bytes) in [
            (100, &b"G"[..]),
            (105, b"ET / HTTP/1.1\r\n"),
            (109, b"Host: x\r\n"),
        ] {
            it.read(bytes, at(start, seconds));
        }
        assert_eq!(
            it.verdict(&LIMITS, at(start, 109)),
            ConnectionVerdict::Until(at(start, 110))
        );
        assert_eq!(
            it.verdict(&LIMITS, at(start, 110)),
            ConnectionVerdict::Close(RefusalCause::Head)
        );
        // The next request of the connection, too.
        it.request_begins();
        it.request_ends(at(start, 110));
        it.read(b"GET", at(start, 120));
        assert_eq!(
            it.verdict(&LIMITS, at(start, 130)),
            ConnectionVerdict::Close(RefusalCause::Head)
        );
    }

    #[test]
    fn the_preface_of_http_2_has_the_time_of_a_head_and_pings_are_no_requests() {
        let start = Instant::now();
        let mut it = ConnectionActivity::opened(start);
        it.read(&PREFACE[..20], at(start, 1));
        assert_eq!(
            it.verdict(&LIMITS, at(start, 11)),
            ConnectionVerdict::Close(RefusalCause::Head)
        );
        it.read(&PREFACE[20..], at(start, 2));
        assert_eq!(
            it.verdict(&LIMITS, at(start, 11)),
            ConnectionVerdict::Until(at(start, 300))
        );
        it.read(
            &[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8],
            at(start, 200),
        );
        assert_eq!(
            it.verdict(&LIMITS, at(start, 300)),
            ConnectionVerdict::Close(RefusalCause::Idle)
        );
    }

    #[test]
    fn half_a_head_of_http_2_is_no_excuse_while_another_stream_is_open() {
        let start = Instant::now();
        let mut it = ConnectionActivity::opened(start);
        it.read(PREFACE, start);
        it.read(&[0, 0, 1, 1, 4, 0, 0, 0, 1, 0x82], start);
        it.request_begins();
        assert_eq!(it.verdict(&LIMITS, at(start, 1_000)), ConnectionVerdict::Open);
        // A frame of a body that comes slowly is no head.
        it.read(&[0, 0, 9, 0, 0, 0, 0, 0, 1, 1], at(start, 1_000));
        assert_eq!(it.verdict(&LIMITS, at(start, 2_000)), ConnectionVerdict::Open);
        assert_eq!(it.body_at(), Some(at(start, 1_000)));
        it.read(&[0; 8], at(start, 2_000));
        it.read(&[0, 0, 1, 1, 0, 0, 0, 0, 3, 0x82], at(start, 2_001));
        assert_eq!(
            it.verdict(&LIMITS, at(start, 2_011)),
            ConnectionVerdict::Close(RefusalCause::Head)
        );
    }

    #[test]
    fn a_peer_that_takes_nothing_of_its_answer_is_let_go() {
        let start = Instant::now();
        let mut it = ConnectionActivity::opened(start);
        it.read(b"GET / HTTP/1.1\r\n\r\n", start);
        it.request_begins();
        it.write_waits(at(start, 10));
        it.write_waits(at(start, 20));
        assert_eq!(
            it.verdict(&LIMITS, at(start, 310)),
            ConnectionVerdict::Close(RefusalCause::Unread)
        );
        it.wrote(b"x");
        assert_eq!(it.verdict(&LIMITS, at(start, 310)), ConnectionVerdict::Open);
    }
}
