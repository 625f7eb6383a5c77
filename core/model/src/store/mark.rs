//! How new a storage is. A leader stores its newest stamp again and again, and then tells it to the membership, which no
//! backup contains. So whoever leads next sees when storage was put back to an earlier moment, also where nothing of what
//! runs shows it.

use super::{Leadership, Stamp};
use crate::id::{Epoch, Version};
use crate::time::Timestamp;

/// What a leader has stored of itself last. It is owned by its role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    /// The stamp of the write that stored it.
    pub stamp: Stamp,
    /// The version of the switches that the leader obeyed then; 0: they were never set.
    pub control: Version,
    /// What the leader's clock said then: waits that were stored as a moment are measured from it by whoever leads next.
    pub at: Timestamp,
    /// The last resume of storage after which all clusters have told what they found, by its epoch; 0: none. Only the resource
    /// manager sets it.
    pub settled: Epoch,
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
        let marked = mark.map(|mark| mark.stamp);
        if let Some(marked) = marked.filter(|marked| marked.epoch > leadership.epoch) {
            return Some(format!(
                "a leader of epoch {} has stored something, and the row of its leadership is of epoch {}",
                marked.epoch, leadership.epoch
            ));
        }
        // No mark at all is behind each that was told.
        if published.sequence > 0 && counts(published.epoch) && marked < Some(*published) {
            let newest = marked.map_or("missing".to_owned(), |marked| {
                format!("{} of {}", marked.sequence, marked.epoch)
            });
            return Some(format!(
                "membership has seen write {} of epoch {}, the newest in storage is {newest}",
                published.sequence, published.epoch
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

    fn stamp(epoch: u64, sequence: u64) -> Stamp {
        Stamp {
            epoch: Epoch(epoch),
            sequence,
        }
    }

    fn led(epoch: u64, resumed: u64) -> Leadership {
        Leadership {
            resumed: Epoch(resumed),
            ..Leadership::taken(Epoch(epoch), "one", 1)
        }
    }

    fn found(published: Stamp, leadership: Leadership, marked: Option<Stamp>) -> Evidence {
        let control = Version(2);
        Evidence {
            published,
            leadership,
            mark: marked.map(|stamp| Mark {
                stamp,
                control,
                at: Timestamp(0),
                settled: Epoch(0),
            }),
            control,
        }
    }

    #[test]
    fn storage_that_is_behind_what_was_told_is_found_and_no_other() {
        let none = [
            // New; nothing was told; the newest mark was not told; told and stored; a new leader has told its epoch only.
            found(stamp(0, 0), led(0, 0), None),
            found(stamp(0, 0), led(4, 0), Some(stamp(4, 9))),
            found(stamp(4, 7), led(4, 0), Some(stamp(4, 9))),
            found(stamp(4, 9), led(4, 0), Some(stamp(4, 9))),
            found(stamp(5, 0), led(5, 0), Some(stamp(4, 9))),
            // It was behind, and an operator has resumed it.
            found(stamp(4, 9), led(5, 5), Some(stamp(4, 2))),
            found(stamp(4, 9), led(6, 5), None),
        ];
        for evidence in none {
            assert_eq!(evidence.of_rollback(), None, "{evidence:?}");
        }
        let behind = [
            (
                found(stamp(5, 0), led(4, 0), Some(stamp(4, 9))),
                "membership has seen epoch 5",
            ),
            (
                found(stamp(4, 9), led(4, 0), Some(stamp(4, 8))),
                "membership has seen write 9 of epoch 4",
            ),
            (
                found(stamp(4, 9), led(4, 0), Some(stamp(3, 20))),
                "the newest in storage is 20 of 3",
            ),
            (
                found(stamp(4, 9), led(4, 0), None),
                "the newest in storage is missing",
            ),
            // Resumed once, and put back again after that.
            (
                found(stamp(7, 3), led(7, 5), Some(stamp(7, 2))),
                "write 3 of epoch 7",
            ),
            (
                found(stamp(0, 0), led(0, 0), Some(stamp(4, 9))),
                "the row of its leadership is of epoch 0",
            ),
        ];
        for (evidence, why) in behind {
            let told = evidence.of_rollback().unwrap();
            assert!(told.contains(why), "{evidence:?}: {told}");
        }
    }

    #[test]
    fn switches_that_were_obeyed_and_are_gone_are_no_default() {
        let mut evidence = found(stamp(4, 9), led(4, 0), Some(stamp(4, 9)));
        evidence.control = Version(0);
        let told = evidence.of_rollback().unwrap();
        assert!(told.contains("version 2 of the switches was obeyed"), "{told}");
        evidence.leadership.epoch = Epoch(6);
        evidence.leadership.resumed = Epoch(5);
        assert_eq!(evidence.of_rollback(), None);
    }
}
