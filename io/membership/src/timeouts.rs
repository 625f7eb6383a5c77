//! How long a silent leader keeps its place, and how long it may act without an answer.

use std::time::Duration;
use thiserror::Error;

/// The time-outs of a process that meets others. All processes of a federation should have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    session: Duration,
    lease: Duration,
}

/// Time-outs that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TimeoutError {
    /// The session is out of its range.
    #[error(
        "a session of {given:?} is not between {:?} and {:?}",
        Timeouts::SHORTEST_SESSION,
        Timeouts::LONGEST_SESSION
    )]
    Session {
        /// What was given.
        given: Duration,
    },
    /// The lease is out of its range.
    #[error(
        "a lease of {given:?} is not between {:?} and {most:?}, four fifths of the session of {session:?}: \
         a leader must stop acting before another may lead",
        Timeouts::SHORTEST_LEASE
    )]
    Lease {
        /// What was given.
        given: Duration,
        /// The longest lease of this session.
        most: Duration,
        /// The session.
        session: Duration,
    },
}

impl Timeouts {
    /// A leader that is not heard for this long is replaced, unless configured otherwise.
    pub const USUAL_SESSION: Duration = Duration::from_secs(4);
    /// Shorter ones end by a pause of a busy machine.
    pub const SHORTEST_SESSION: Duration = Duration::from_secs(1);
    /// A longer one leaves work without a leader for minutes.
    pub const LONGEST_SESSION: Duration = Duration::from_secs(60);
    /// Shorter ones end by one slow answer.
    pub const SHORTEST_LEASE: Duration = Duration::from_millis(500);

    /// Checked time-outs; without a lease it is the longest that the session allows.
    ///
    /// # Errors
    /// One of them is out of its range.
    pub fn new(session: Duration, lease: Option<Duration>) -> Result<Self, TimeoutError> {
        if !(Self::SHORTEST_SESSION..=Self::LONGEST_SESSION).contains(&session) {
            return Err(TimeoutError::Session { given: session });
        }
        let most = longest_lease(session);
        let lease = lease.unwrap_or(most);
        if !(Self::SHORTEST_LEASE..=most).contains(&lease) {
            return Err(TimeoutError::Lease {
                given: lease,
                most,
                session,
            });
        }
        Ok(Self { session, lease })
    }

    /// After this long without a word from a leader another one may lead.
    #[must_use]
    pub const fn session(self) -> Duration {
        self.session
    }

    /// How long after the sending of its last answered request a leader may act.
    #[must_use]
    pub const fn lease(self) -> Duration {
        self.lease
    }

    /// How often a leader asks whether it still leads: two answers may be lost.
    #[must_use]
    pub fn confirm(self) -> Duration {
        self.lease / 3
    }

    /// The time-outs that hold where servers grant this session.
    #[must_use]
    pub fn granted(self, session: Duration) -> Self {
        Self {
            session,
            lease: self.lease.min(longest_lease(session)),
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            session: Self::USUAL_SESSION,
            lease: longest_lease(Self::USUAL_SESSION),
        }
    }
}

/// A fifth is left for clocks that run at different speeds, and for an act that is under way when the lease ends.
fn longest_lease(session: Duration) -> Duration {
    session * 4 / 5
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_relations_of_time_outs_are_checked() {
        let (session, lease) = ("is not between 1s and 60s", "is not between 500ms and");
        // (session, lease, the lease that holds, or what the error says)
        let table = [
            (4000, None, Ok(3200)),
            (4000, Some(3200), Ok(3200)),
            (4000, Some(600), Ok(600)),
            (1000, None, Ok(800)),
            (60_000, None, Ok(48_000)),
            (999, None, Err(session)),
            (60_001, None, Err(session)),
            (4000, Some(3201), Err(lease)),
            (4000, Some(4000), Err(lease)),
            (4000, Some(499), Err(lease)),
        ];
        for (session, lease, expected) in table {
            let found = Timeouts::new(ms(session), lease.map(ms));
            match (&found, expected) {
                (Ok(found), Ok(lease)) => {
                    assert_eq!((found.session(), found.lease()), (ms(session), ms(lease)));
                    assert_eq!(found.confirm(), ms(lease) / 3);
                }
                (Err(why), Err(part)) => assert!(why.to_string().contains(part), "{why}"),
                _ => panic!("session {session}, lease {lease:?}: {found:?}"),
            }
        }
        assert_eq!(
            Timeouts::new(Timeouts::USUAL_SESSION, None),
            Ok(Timeouts::default())
        );
    }

    #[test]
    fn a_shorter_session_shortens_the_lease_and_a_longer_one_does_not_lengthen_it() {
        let asked = Timeouts::default();
        assert_eq!(asked.granted(ms(2000)).lease(), ms(1600));
        assert_eq!(asked.granted(ms(10_000)).lease(), ms(3200));
        assert_eq!(asked.granted(ms(10_000)).session(), ms(10_000));
    }
}
