//! Restarts: which runs are to be replaced although nothing about them has changed. What is wanted of them is in the job's head, how far
//! they are in the job's progress. One of the whole job counts in the goal; this is what restarts of parts need beside that.

use crate::id::{GroupName, InstanceNumber, Version};
use crate::range::{InstanceRange, RangeSet};
use crate::time::Timestamp;

/// Most ranges of numbers that the restarts of a job's parts may leave in its head, so that it stays small.
pub const RESTART_RANGES: usize = 256;

/// The restarts of a job, as they are wanted: part of the head.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Restarts {
    /// The head that brought the latest one, of a part or of all.
    pub version: Version,
    /// When it was asked for.
    pub since: Timestamp,
    /// Most instances of a group that are down for it at once; `None`: as many as `max_unavailable`.
    pub batch: Option<u32>,
    /// Restarts of parts, oldest first, each with what no later one takes in: so no number is in two.
    pub parts: Vec<RestartPart>,
}

/// A restart of a part of a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RestartPart {
    /// The head that brought it: a run that began by an older one is to be replaced.
    pub version: Version,
    /// Its group.
    pub group: GroupName,
    /// Its numbers.
    pub numbers: RangeSet,
}

impl Restarts {
    /// A restart of all of a job, which takes in whatever was asked for before.
    #[must_use]
    pub const fn of_all(version: Version, since: Timestamp, batch: Option<u32>) -> Self {
        Self {
            version,
            since,
            batch,
            parts: Vec::new(),
        }
    }

    /// The same with a restart of these numbers of a group, brought by that head.
    #[must_use]
    pub fn and(mut self, part: RestartPart, since: Timestamp, batch: Option<u32>) -> Self {
        for earlier in self.parts.iter_mut().filter(|p| p.group == part.group) {
            earlier.numbers = earlier.numbers.minus(&part.numbers);
        }
        self.parts.retain(|p| !p.numbers.is_empty());
        self.version = part.version;
        self.parts.push(part);
        Self { since, batch, ..self }
    }

    /// Ranges of numbers in all parts.
    #[must_use]
    pub fn ranges(&self) -> usize {
        self.parts.iter().map(|p| p.numbers.ranges().len()).sum()
    }

    /// What the latest one is about; `None`: all of the job.
    #[must_use]
    pub fn latest(&self) -> Option<&RestartPart> {
        self.parts.last().filter(|p| p.version == self.version)
    }

    /// The parts of a group.
    #[must_use]
    pub fn of_group(&self, group: &GroupName) -> GroupRestarts {
        let parts = self.parts.iter().filter(|p| p.group == *group);
        GroupRestarts(parts.map(|p| (p.version, p.numbers.clone())).collect())
    }
}

/// Restarts of parts of one group: numbers with the head that brought each.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct GroupRestarts(pub Vec<(Version, RangeSet)>);

impl GroupRestarts {
    /// The head by which the run of a number has to have begun.
    #[must_use]
    pub fn wanted(&self, n: InstanceNumber) -> Version {
        let found = self.0.iter().find(|(_, numbers)| numbers.contains(n));
        found.map_or(Version(0), |(version, _)| *version)
    }
}

/// Every number that a group may have.
#[must_use]
pub fn all_numbers() -> RangeSet {
    let all = InstanceRange {
        first: 0,
        last: u32::MAX,
    };
    std::iter::once(all).collect()
}

/// What became of the latest restart: part of the progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RestartProgress {
    /// The head that brought it.
    pub version: Version,
    /// Instances that are still to be restarted, or were and are not good yet.
    pub left: u64,
    /// When it was over.
    pub done_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(version: u64, group: &str, ranges: &[(u32, u32)]) -> RestartPart {
        RestartPart {
            version: Version(version),
            group: GroupName::new(group),
            numbers: ranges
                .iter()
                .map(|(first, last)| InstanceRange {
                    first: *first,
                    last: *last,
                })
                .collect(),
        }
    }

    fn after(parts: Vec<RestartPart>) -> Restarts {
        let none = Restarts::of_all(Version(1), Timestamp(1), None);
        parts
            .into_iter()
            .fold(none, |all, part| all.and(part, Timestamp(2), Some(2)))
    }

    #[test]
    fn a_later_restart_takes_in_what_it_shares_with_earlier_ones_and_leaves_the_rest() {
        let all = after(vec![
            part(5, "a", &[(0, 9)]),
            part(6, "b", &[(0, 9)]),
            part(7, "a", &[(3, 3), (7, 20)]),
        ]);
        let of = all.of_group(&GroupName::new("a"));
        let wanted = |n| of.wanted(InstanceNumber(n)).0;
        assert_eq!([0, 2, 3, 4, 6, 7, 20, 21].map(wanted), [5, 5, 7, 5, 5, 7, 7, 0]);
        assert_eq!(
            all.of_group(&GroupName::new("b")).wanted(InstanceNumber(3)),
            Version(6)
        );
        assert_eq!(
            (all.version, all.since, all.batch),
            (Version(7), Timestamp(2), Some(2))
        );
        assert_eq!(all.latest().map(|p| p.group.as_str()), Some("a"));
        assert_eq!(
            all.ranges(),
            5,
            "0-2 and 4-6 of the first, 0-9 of the second, two of the third"
        );
    }

    #[test]
    fn the_same_parts_again_and_again_take_no_more_room() {
        let many = (1..100).map(|n| part(n, "a", &[(0, 9), (20, 29)])).collect();
        assert_eq!(after(many).parts.len(), 1);
        let mut whole = part(200, "a", &[]);
        whole.numbers = all_numbers();
        let all = after(vec![part(5, "a", &[(0, 9)]), whole]);
        assert_eq!((all.parts.len(), all.ranges()), (1, 1));
        assert_eq!(after(Vec::new()).latest(), None, "all of the job");
    }
}
