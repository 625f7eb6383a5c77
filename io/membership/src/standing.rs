//! Where a candidate stands, and the cell in which a backend keeps it.
//!
//! Two safeguards against acting too long: the backend says `Suspended` as soon as it hears of a lost connection, and
//! each leadership has a deadline by the monotonic clock, so that even a process that was frozen and wakes up, before
//! any of its tasks has run, no longer reads itself as leader.

use std::sync::{Mutex, PoisonError};
use tokio::sync::watch;
use tokio::time::Instant;

/// Number of one candidate's leadership; a later leader of the role has a larger one. It tells two leaderships of the
/// same process apart. It is no epoch: what a leader writes is fenced by the epoch from storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub u64);

/// Where a candidate stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Another one leads, or nobody yet.
    Follower,
    /// Leads. A term other than the last one seen is a new leadership, even if nothing was seen between.
    Leader(Term),
    /// Led, and cannot tell whether it still does: act no more. Becomes `Leader` of the same term or `Lost`.
    Suspended(Term),
    /// Led, and leads no more. Becomes `Follower` after joining again.
    Lost(Term),
}

impl Standing {
    /// The term in which the candidate may act.
    #[must_use]
    pub const fn leads(self) -> Option<Term> {
        match self {
            Self::Leader(term) => Some(term),
            Self::Follower | Self::Suspended(_) | Self::Lost(_) => None,
        }
    }
}

/// One candidate's standing; written by its backend, read by its [`crate::Candidacy`].
#[derive(Debug)]
pub(crate) struct StandingCell {
    standing: watch::Sender<Standing>,
    deadline: Mutex<Option<Instant>>,
}

impl StandingCell {
    pub(crate) fn new() -> Self {
        Self {
            standing: watch::Sender::new(Standing::Follower),
            deadline: Mutex::new(None),
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// The standing as of now: a leader past its deadline reads as suspended.
    pub(crate) fn now(&self) -> Standing {
        // The standing is read first: a deadline that is renewed in between belongs to it or to a newer one.
        let standing = *self.standing.borrow();
        let deadline = *self.deadline.lock().unwrap_or_else(PoisonError::into_inner);
        match standing {
            Standing::Leader(term) if deadline.is_some_and(|at| Instant::now() >= at) => {
                Standing::Suspended(term)
            }
            standing => standing,
        }
    }

    pub(crate) fn follow(&self) {
        self.set(|_| Standing::Follower);
    }

    /// Leads until `deadline`, or until told otherwise where the backend cannot lose contact.
    pub(crate) fn lead(&self, term: Term, deadline: Option<Instant>) {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) = deadline;
        self.set(|_| Standing::Leader(term));
    }

    pub(crate) fn suspend(&self) {
        self.set(|standing| match standing {
            Standing::Leader(term) => Standing::Suspended(term),
            other => other,
        });
    }

    pub(crate) fn lose(&self) {
        self.set(|standing| match standing {
            Standing::Leader(term) | Standing::Suspended(term) => Standing::Lost(term),
            other => other,
        });
    }

    fn set(&self, change: impl FnOnce(Standing) -> Standing) {
        self.standing.send_if_modified(|standing| {
            let next = change(*standing);
            std::mem::replace(standing, next) != next
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_leader_past_its_deadline_does_not_read_as_leader() {
        let cell = StandingCell::new();
        cell.lead(Term(3), Some(Instant::now() + Duration::from_secs(8)));
        assert_eq!(cell.now().leads(), Some(Term(3)));
        // The process was frozen: time passed and no task of the backend ran.
        tokio::time::advance(Duration::from_secs(8)).await;
        assert_eq!(cell.now(), Standing::Suspended(Term(3)));
        cell.lead(Term(3), Some(Instant::now() + Duration::from_secs(1)));
        assert_eq!(
            cell.now(),
            Standing::Leader(Term(3)),
            "an answer within the session renews it"
        );
    }

    #[test]
    fn only_who_led_is_suspended_or_loses() {
        let cell = StandingCell::new();
        cell.suspend();
        cell.lose();
        assert_eq!(cell.now(), Standing::Follower);
        cell.lead(Term(1), None);
        cell.suspend();
        assert_eq!(cell.now(), Standing::Suspended(Term(1)));
        cell.lose();
        cell.suspend();
        assert_eq!(cell.now(), Standing::Lost(Term(1)));
    }

    #[test]
    fn watchers_wake_for_changes_only() {
        let cell = StandingCell::new();
        let watcher = cell.subscribe();
        cell.follow();
        assert!(!watcher.has_changed().unwrap());
        cell.lead(Term(1), None);
        assert!(watcher.has_changed().unwrap());
    }
}
