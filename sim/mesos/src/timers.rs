//! Moments at which something is due, in order of time. Several things due at once fire in a fixed order, so that a run
//! can be repeated.

use crate::id::{AgentId, ExecutorRun, FrameworkId, Run, StreamId};
use echelon_core_model::time::Timestamp;
use std::collections::BTreeSet;

/// What is due. Each is checked against the present state when it fires: nothing relies on being cancelled.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The new master has read its registry.
    RecoveryDone,
    /// An agent registers again.
    Reregister(AgentId),
    /// An agent has not answered pings for too long.
    AgentTimeout(AgentId),
    /// Executors that are without their agent since that moment have ended at the latest.
    ExecutorsEnd(AgentId, Timestamp),
    /// A recovered agent has not come back.
    RecoveredAgentTimeout(AgentId),
    /// A disconnected framework is removed.
    FailoverTimeout(FrameworkId),
    /// A virtual task has started.
    VirtualStart(Run),
    /// A virtual task has run its time.
    VirtualEnd(Run),
    /// A virtual task dies of a signal.
    VirtualDeath(Run),
    /// An executor without tasks ends.
    ExecutorEnd(ExecutorRun),
    /// A task has had all the time it may take.
    MaxCompletion(Run),
    /// An update has not been acknowledged.
    Retry(Run),
    /// The end of an operation has not been acknowledged.
    RetryOperation(AgentId, [u8; 16]),
    /// An offer or inverse offer has been open for too long.
    OfferTimeout(u64),
    /// Offers are made.
    Allocation,
    /// A stream needs a sign of life.
    Heartbeat(StreamId),
    /// An event that a fault holds back.
    LateEvent(u64),
}

/// The timers.
#[derive(Debug, Default)]
pub(crate) struct Timers(BTreeSet<(Timestamp, Timer)>);

impl Timers {
    pub(crate) fn set(&mut self, at: Timestamp, timer: Timer) {
        self.0.insert((at, timer));
    }

    pub(crate) fn cancel(&mut self, at: Timestamp, timer: Timer) {
        self.0.remove(&(at, timer));
    }

    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Takes the first that is due.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.0.pop_first().map(|(_, timer)| timer)
    }
}
