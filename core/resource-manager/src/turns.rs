//! The jobs that a cycle looks at: those that have changed, those that time concerns, and some others in their turn.

use crate::manager::ResourceManager;
use echelon_core_model::{JobId, Timestamp};
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

/// Most jobs whose grants are renewed in one cycle: a lease lasts many times as long as it takes to come to everybody.
const RENEWALS: usize = 1_000;

/// What a cycle looks at.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CycleChanges {
    /// The jobs.
    pub jobs: BTreeSet<JobId>,
    /// How many of them have grants to renew.
    pub renewals: usize,
    /// Jobs of which a cluster is not avoided any more.
    pub reopened: BTreeSet<JobId>,
    /// How many of them are looked at in their turn.
    pub in_turn: usize,
}

impl ResourceManager {
    /// What to look at beside what has changed: grants to renew, clusters that are not avoided any more, and some jobs in their turn,
    /// for reasons that are told with figures of others.
    pub(crate) fn take_turns(&mut self, now: Timestamp) -> CycleChanges {
        let mut changes = CycleChanges::default();
        let due = self.renewals.iter().take_while(|(at, _)| *at <= now);
        let due: Vec<(Timestamp, JobId)> = due.take(RENEWALS).copied().collect();
        self.due |= due.len() == RENEWALS;
        changes.renewals = due.len();
        for renewal in due {
            self.renewals.remove(&renewal);
            self.dirty.insert(renewal.1);
        }
        let due = self.agenda.take_due(now);
        self.dirty.extend(due);
        for id in self.picture.demand.ledger.avoided_until(now) {
            changes.reopened.insert(id);
            if let Some(job) = self.picture.facts.jobs.get_mut(&id) {
                let over = job.avoid.values_mut().filter(|avoided| avoided.until <= now);
                over.for_each(|avoided| avoided.is_over = true);
            }
        }
        let jobs = self.picture.facts.jobs.after(self.turns.all.0);
        let next: Vec<JobId> = jobs
            .filter(|(_, job)| job.is_live())
            .map(|(id, _)| *id)
            .take(self.config.turns)
            .collect();
        self.turns.all = Turns(
            next.last()
                .copied()
                .filter(|_| next.len() == self.config.turns)
                .unwrap_or(JobId(0)),
        );
        changes.in_turn = next.len();
        self.dirty.extend(next);
        changes.jobs.clone_from(&self.dirty);
        changes
    }
}

/// Whose turn it was, of those that are looked at some at a time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AllTurns {
    /// Of all live jobs.
    pub(crate) all: Turns,
    /// Of those of which something may leave.
    pub(crate) restless: Turns,
    /// Of those whose progress may have to be written.
    pub(crate) unwritten: Turns,
}

/// The last one whose turn it was.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turns(pub(crate) JobId);

impl Default for Turns {
    fn default() -> Self {
        Self(JobId(0))
    }
}

impl Turns {
    /// Most whose turn it is at once.
    const AT_ONCE: usize = 200;

    /// The next ones of a set; after the last the first again.
    pub(crate) fn next(&mut self, of: &BTreeSet<JobId>) -> Vec<JobId> {
        self.next_of(of, Self::AT_ONCE)
    }

    /// The next ones of a set, at most so many; after the last the first again.
    pub(crate) fn next_of(&mut self, of: &BTreeSet<JobId>, most: usize) -> Vec<JobId> {
        let after = of.range((Excluded(self.0), Unbounded));
        let next: Vec<JobId> = after.chain(of.range(..=self.0)).take(most).copied().collect();
        self.0 = next.last().copied().unwrap_or(self.0);
        next
    }
}
