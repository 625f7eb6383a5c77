//! How new a storage is. A leader stores its newest stamp again and again, and then tells it to the membership, which no
//! backup contains. So whoever leads next sees when storage was put back to an earlier moment, also where nothing of what
//! runs shows it.

use super::{Leadership, Stamp};
use crate::id::Version;

/// What a leader has stored of itself last. It is owned by its role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    /// The stamp of the write that stored it.
    pub stamp: Stamp,
    /// The version of the switches that the leader obeyed then; 0: they were never set.
    pub control: Version,
}

/// What a process has found before it takes an epoch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Evidence {
    /// The newest stamp that membership has seen of the role. Of sequence 0: that the epoch was taken is all that was told.
    /// It was durable before it was told, so no storage that was left alone is behind it. That it is old proves nothing: a
    /// mark may not have been told.
    pub published: Stamp,
    /// The leadership in storage.
    pub leadership: Leadership,
    /// The mark in storage; none was ever stored there, or it is lost.
    pub mark: Option<Mark>,
    /// The version of the switches in storage; 0: they were never set, or are lost.
    pub control: Version,
}

impl Evidence {
    /// Why storage is behind what membership has seen, by the epoch alone.
    #[must_use]
    pub fn of_epoch(published: Stamp, leadership: &Leadership) -> Option<String> {
        (published.epoch > leadership.epoch).then(|| {
            format!(
                "membership has seen epoch {}, storage knows {}",
                published.epoch, leadership.epoch
            )
        })
    }

    /// Why storage cannot be the newest that there was; `None`: nothing shows that it is not. What is older than the epoch at
    /// which an operator resumed the storage shows nothing any more.
    #[must_use]
    pub fn of_rollback(&self) -> Option<String> {
        let Self {
            published,
            leadership,
            mark,
            control,
        } = self;
        if let Some(why) = Self::of_epoch(*published, leadership) {
            return Some(why);
        }
        let counts = |epoch| leadership.resumed <= epoch;
        let marked = mark.map(|mark| mark.stamp).unwrap_or_default();
        if marked.epoch > leadership.epoch {
            return Some(format!(
                "a leader of epoch {} has stored something, and the row of its leadership is of epoch {}",
                marked.epoch, leadership.epoch
            ));
        }
        if published.sequence > 0 && counts(published.epoch) && marked < *published {
            return Some(format!(
                "membership has seen write {} of epoch {}, the newest in storage is {} of {}",
                published.sequence, published.epoch, marked.sequence, marked.epoch
            ));
        }
        let obeyed = mark
            .filter(|mark| counts(mark.stamp.epoch))
            .map(|mark| mark.control);
        obeyed.filter(|obeyed| control < obeyed).map(|obeyed| {
            format!(
                "version {} of the switches was obeyed, storage has version {}",
                obeyed.0, control.0
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Epoch;

    fn stamp(epoch: u64, sequence: u64) -> Stamp {
        Stamp {
            epoch: Epoch(epoch),
            sequence,
        }
    }

    fn found(published: (u64, u64), (epoch, resumed): (u64, u64), mark: Option<(u64, u64)>) -> Evidence {
        Evidence {
            published: stamp(published.0, published.1),
            leadership: Leadership {
                resumed: Epoch(resumed),
                ..Leadership::taken(Epoch(epoch), "one", 1)
            },
            mark: mark.map(|(epoch, sequence)| Mark {
                stamp: stamp(epoch, sequence),
                control: Version(2),
            }),
            control: Version(2),
        }
    }

    #[test]
    fn storage_that_is_behind_what_was_told_is_found_and_no_other() {
        let none = [
            // New; nothing was told; the newest mark was not told; told and stored; a new leader has told its epoch only.
            found((0, 0), (0, 0), None),
            found((0, 0), (4, 0), Some((4, 9))),
            found((4, 7), (4, 0), Some((4, 9))),
            found((4, 9), (4, 0), Some((4, 9))),
            found((5, 0), (5, 0), Some((4, 9))),
            // It was behind, and an operator has resumed it.
            found((4, 9), (5, 5), Some((4, 2))),
            found((4, 9), (6, 5), None),
        ];
        for evidence in none {
            assert_eq!(evidence.of_rollback(), None, "{evidence:?}");
        }
        let behind = [
            (found((5, 0), (4, 0), Some((4, 9))), "membership has seen epoch 5"),
            (
                found((4, 9), (4, 0), Some((4, 8))),
                "membership has seen write 9 of epoch 4",
            ),
            (
                found((4, 9), (4, 0), Some((3, 20))),
                "the newest in storage is 20 of 3",
            ),
            (found((4, 9), (4, 0), None), "the newest in storage is 0 of 0"),
            // Resumed once, and put back again after that.
            (found((7, 3), (7, 5), Some((7, 2))), "write 3 of epoch 7"),
            (
                found((0, 0), (0, 0), Some((4, 9))),
                "the row of its leadership is of epoch 0",
            ),
        ];
        for (evidence, why) in behind {
            let told = evidence.of_rollback().unwrap_or_default();
            assert!(told.contains(why), "{evidence:?}: {told}");
        }
    }

    #[test]
    fn switches_that_were_obeyed_and_are_gone_are_no_default() {
        let mut evidence = found((4, 9), (4, 0), Some((4, 9)));
        evidence.control = Version(0);
        let told = evidence.of_rollback().unwrap_or_default();
        assert!(told.contains("version 2 of the switches was obeyed"), "{told}");
        evidence.leadership.epoch = Epoch(6);
        evidence.leadership.resumed = Epoch(5);
        assert_eq!(evidence.of_rollback(), None);
    }
}
