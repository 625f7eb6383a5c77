//! Events of jobs, and where each of them lies.
//!
//! A writer commits its events in lanes, in each of them one commit after the other: a shard in those of its
//! buckets of blocks, the resource manager in lane 0. Within a lane the events are in the order of their
//! places, and what is durable has no hole. A commit of events notes its stamp as the end of its lane, and a
//! new leader closes what older ones have written: the events of an epoch hold up to its end in their lane,
//! and no other one is shown.

use super::{Role, Stamp};
use crate::id::{Epoch, GroupName, JobId};
use crate::reason::Reason;
use crate::run::RunState;
use crate::time::Timestamp;

/// Something that happened to a job or an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The job.
    pub job: JobId,
    /// When it was written, by its writer's clock. Its place in its lane says what came before it.
    pub at: Timestamp,
    /// When it happened: earlier, if its writer was away then.
    pub happened: Timestamp,
    /// The instance, if it is about one.
    pub instance: Option<(GroupName, u32)>,
    /// The run's state, if it is about one.
    pub state: Option<RunState>,
    /// Why.
    pub reason: Reason,
    /// The host's name, if it is about one.
    pub hostname: Option<String>,
    /// The task id, if it is about a run.
    pub task: Option<String>,
}

/// The events of a job that one writer has written on one day by its clock: what storage keeps together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventDay {
    /// The job.
    pub job: JobId,
    /// Who wrote them.
    pub writer: Role,
    /// Days since 1970, UTC.
    pub day: u32,
}

/// The day of a moment: days since 1970, UTC.
#[must_use]
pub fn event_day(at: Timestamp) -> u32 {
    u32::try_from(at.0 / (24 * 3600 * 1000)).unwrap_or(u32::MAX)
}

/// Where an event lies among those of its writer: the order of the commits of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventPlace {
    /// The lane.
    pub lane: u16,
    /// The stamp of the commit.
    pub stamp: Stamp,
    /// Its place in the commit.
    pub index: u32,
}

/// Up to where the events of one epoch hold in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventEnd {
    /// The stamp of the last commit of events.
    pub stamp: Stamp,
    /// A later leader has written it, so it never changes. Otherwise that epoch has noted it itself.
    pub is_closed: bool,
}

impl EventEnd {
    /// Whether an event of this end's epoch holds, for a reader that has not shown it yet. `leader` is the
    /// epoch of the leadership as it was read after the end: a later leader reads the end that it closes with
    /// after that, so it finds at least this one. While a later leader has not closed it nothing is sure.
    #[must_use]
    pub fn holds(&self, leader: Epoch, of: Stamp) -> bool {
        let is_sure = self.is_closed || self.stamp.epoch == leader;
        is_sure && of.epoch == self.stamp.epoch && of.sequence <= self.stamp.sequence
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

    #[test]
    fn an_event_holds_up_to_the_end_of_its_own_epoch() {
        let noted = EventEnd {
            stamp: stamp(3, 10),
            is_closed: false,
        };
        assert!(noted.holds(Epoch(3), stamp(3, 10)));
        assert!(!noted.holds(Epoch(3), stamp(3, 11)), "it is not durable");
        assert!(
            !noted.holds(Epoch(3), stamp(2, 1)),
            "another epoch has another end"
        );
        assert!(
            !noted.holds(Epoch(4), stamp(3, 10)),
            "its successor has not closed it"
        );
        let closed = EventEnd {
            is_closed: true,
            ..noted
        };
        assert!(closed.holds(Epoch(4), stamp(3, 10)));
        assert!(!closed.holds(Epoch(4), stamp(3, 11)), "it came too late");
    }

    #[test]
    fn days_begin_at_midnight() {
        assert_eq!(event_day(Timestamp(0)), 0);
        assert_eq!(event_day(Timestamp(86_399_999)), 0);
        assert_eq!(event_day(Timestamp(86_400_000)), 1);
        assert_eq!(event_day(Timestamp(u64::MAX)), u32::MAX);
    }
}
