//! The last changes of one leadership.

use echelon_core_model::Epoch;
use echelon_core_model::change::JobChanges;
use std::collections::VecDeque;

/// Jobs and places of events that are kept: some 5 MiB.
const KEPT: usize = 100_000;
/// Jobs and places of events that one answer joins, but for its last change: below 1 MiB.
const JOINED: usize = 20_000;

/// How far a leader's changes were heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position {
    /// The leadership; 0: none was heard.
    pub epoch: Epoch,
    /// Counts what became durable within it.
    pub change: u64,
}

/// What a follower has missed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Since {
    /// Where it is now.
    pub position: Position,
    /// More has changed than is told.
    pub gap: bool,
    /// What has changed.
    pub changes: JobChanges,
}

/// The last changes of a leadership, numbered in the order in which they became durable.
#[derive(Debug, Default)]
pub struct Ring {
    /// Where the newest change is.
    newest: Position,
    /// The newest is last; they have consecutive numbers.
    kept: VecDeque<JobChanges>,
    size: usize,
}

impl Ring {
    /// The ring of a new leadership: what changed before is not known.
    #[must_use]
    pub fn of(epoch: Epoch) -> Self {
        Self {
            newest: Position { epoch, change: 0 },
            ..Self::default()
        }
    }

    /// Something became durable.
    pub fn push(&mut self, changes: JobChanges) {
        self.newest.change += 1;
        self.size += changes.len();
        self.kept.push_back(changes);
        while self.size > KEPT
            && let Some(oldest) = self.kept.pop_front()
        {
            self.size -= oldest.len();
        }
    }

    /// Where the newest change is.
    #[must_use]
    pub const fn newest(&self) -> Position {
        self.newest
    }

    /// What has changed since a position, as far as one answer says it.
    #[must_use]
    pub fn since(&self, from: Position) -> Since {
        let behind = self.newest.change.checked_sub(from.change);
        let behind = behind.filter(|_| from.epoch == self.newest.epoch);
        let behind = behind.and_then(|n| usize::try_from(n).ok());
        let Some(behind) = behind.filter(|n| *n <= self.kept.len()) else {
            return Since {
                position: self.newest,
                gap: true,
                changes: JobChanges::default(),
            };
        };
        let (mut changes, mut told, mut size) = (JobChanges::default(), 0, 0);
        for change in self.kept.iter().skip(self.kept.len() - behind) {
            if size >= JOINED {
                break;
            }
            size += change.len();
            told += 1;
            changes.extend(change.clone());
        }
        Since {
            position: Position {
                change: from.change + told,
                ..self.newest
            },
            gap: false,
            changes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::JobId;
    use proptest::prelude::*;

    fn of(jobs: impl IntoIterator<Item = u128>) -> JobChanges {
        let mut out = JobChanges::default();
        jobs.into_iter().for_each(|job| out.touch(JobId(job)));
        out
    }

    #[test]
    fn a_follower_without_a_position_has_missed_all() {
        let ring = Ring::of(Epoch(3));
        let since = ring.since(Position::default());
        assert_eq!((since.gap, since.position), (true, ring.newest()));
        assert_eq!(
            ring.since(ring.newest()),
            Since {
                position: ring.newest(),
                gap: false,
                changes: JobChanges::default(),
            }
        );
    }

    #[test]
    fn another_leadership_is_a_gap() {
        let mut ring = Ring::of(Epoch(3));
        ring.push(of([1]));
        let older = Position {
            epoch: Epoch(2),
            change: 1,
        };
        assert!(ring.since(older).gap);
        let ahead = Position {
            epoch: Epoch(3),
            change: 2,
        };
        assert!(ring.since(ahead).gap, "a position that was never given");
    }

    #[test]
    fn who_falls_off_the_ring_is_told_so() {
        let mut ring = Ring::of(Epoch(1));
        let begin = ring.newest();
        for n in 0..100_000_u128 {
            ring.push(of([n, n + 1]));
        }
        assert!(ring.since(begin).gap);
        assert!(ring.kept.len() <= 50_000 && ring.size <= KEPT);
        let late = Position {
            change: ring.newest().change - 3,
            ..ring.newest()
        };
        assert_eq!(ring.since(late).changes, of(99_997..=100_000));
    }

    proptest! {
        /// A follower that asks again and again, at whatever moments, is told every job that has changed.
        #[test]
        fn nothing_is_passed_over(pushes in prop::collection::vec((0..5_u128, any::<bool>()), 0..60)) {
            let mut ring = Ring::of(Epoch(1));
            let (mut at, mut told, mut pushed) = (ring.newest(), JobChanges::default(), JobChanges::default());
            for (job, asks) in pushes {
                ring.push(of([job]));
                pushed.extend(of([job]));
                if asks {
                    let since = ring.since(at);
                    prop_assert!(!since.gap);
                    told.extend(since.changes);
                    at = since.position;
                }
            }
            told.extend(ring.since(at).changes);
            prop_assert_eq!(told, pushed);
        }
    }
}
