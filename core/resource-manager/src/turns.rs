//! The jobs that a cycle looks at: changed jobs, jobs for which a time has come, and some other jobs by
//! cursor.

use crate::facts::settling::{next_cluster, settle_next};
use crate::manager::ResourceManager;
use crate::picture::Picture;
use echelon_core_model::{ClusterId, JobId, Timestamp};
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

/// Most jobs with grants that one cycle renews. A lease lasts many times longer than renewing all jobs takes.
const RENEWALS: usize = 1_000;

/// Most changed jobs that one cycle looks at, and of which it decides grants. When a leader is new, or an
/// operator changes a cluster, all jobs have changed at once.
pub(crate) const CHANGED: usize = 1_000;

/// Most jobs that a new leader looks at for the first time in one cycle.
const UNSEEN: usize = 500;

/// Most jobs with a stored end that a new leader takes out of memory in one cycle.
const RETIRED: usize = if cfg!(test) { 100 } else { 500 };

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
    /// How many of them the cursor selected.
    pub in_turn: usize,
}

impl ResourceManager {
    /// Changed jobs beyond those that one cycle looks at. They are left for the next one.
    pub(crate) fn take_later(&mut self) -> BTreeSet<JobId> {
        let now = self.turns.changed.take_of(&mut self.dirty, CHANGED);
        std::mem::replace(&mut self.dirty, now)
    }

    /// Jobs that may need other grants. Those beyond what one cycle looks at are left for the next one.
    pub(crate) fn take_regrant(&mut self) -> BTreeSet<JobId> {
        let now = self.turns.granted.take_of(&mut self.regrant, CHANGED);
        self.due |= !self.regrant.is_empty();
        now
    }

    /// Collects what a cycle looks at beside what has changed: grants to renew, clusters that are not avoided
    /// any more, and some jobs by cursor. The cursor covers waiting reasons, which contain figures of other
    /// jobs.
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
        self.look_at_unseen();
        if let Some(cluster) = next_cluster(&self.picture.facts) {
            self.settle_jobs(&cluster);
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

    /// The next jobs of a cluster with a shard that obeys this leader are settled.
    pub(crate) fn settle_jobs(&mut self, cluster: &ClusterId) {
        let Picture { facts, demand, .. } = &mut self.picture;
        let next = settle_next(facts, cluster, demand.ledger.unstored());
        self.dirty.extend(next);
        self.due = true;
    }

    /// A new leader looks at every job once, some in each cycle. Jobs with a stored end leave memory.
    fn look_at_unseen(&mut self) {
        let Some(Turns(mut last)) = self.turns.unseen else {
            return;
        };
        let (mut looked_at, mut retired) = (0, 0);
        while looked_at < UNSEEN && retired < RETIRED {
            let Some(id) = self.picture.facts.jobs.after(last).next().map(|(id, _)| *id) else {
                self.turns.unseen = None;
                return;
            };
            last = id;
            if self.retire(id) {
                retired += 1;
            } else {
                self.recall(id);
                self.dirty.insert(id);
                looked_at += 1;
            }
        }
        self.turns.unseen = Some(Turns(last));
        self.due = true;
    }
}

/// Cursors over sets of jobs that are looked at a few at a time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AllTurns {
    /// Over all jobs, once, by a new leader. `None`: it has looked at each of them.
    pub(crate) unseen: Option<Turns>,
    /// Over jobs of which a new leader has not looked for the spec.
    pub(crate) unknown: Turns,
    /// Over changed jobs.
    pub(crate) changed: Turns,
    /// Over jobs that may need other grants.
    pub(crate) granted: Turns,
    /// Over all live jobs.
    pub(crate) all: Turns,
    /// Over jobs with instances that may leave.
    pub(crate) restless: Turns,
    /// Over jobs with progress that may have to be written.
    pub(crate) unwritten: Turns,
}

/// A cursor: the last job that it returned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turns(pub(crate) JobId);

impl Default for Turns {
    fn default() -> Self {
        Self(JobId(0))
    }
}

impl Turns {
    /// Most jobs that it returns at once.
    const AT_ONCE: usize = 100;

    /// The next jobs of a set. After the last one the first one follows again.
    pub(crate) fn next(&mut self, of: &BTreeSet<JobId>) -> Vec<JobId> {
        self.next_of(of, Self::AT_ONCE)
    }

    /// The next jobs of a set, at most `most`. After the last one the first one follows again.
    pub(crate) fn next_of(&mut self, of: &BTreeSet<JobId>, most: usize) -> Vec<JobId> {
        let after = of.range((Excluded(self.0), Unbounded));
        let next: Vec<JobId> = after.chain(of.range(..=self.0)).take(most).copied().collect();
        self.0 = next.last().copied().unwrap_or(self.0);
        next
    }

    /// Takes the next jobs out of a set, at most `most`.
    fn take_of(&mut self, of: &mut BTreeSet<JobId>, most: usize) -> BTreeSet<JobId> {
        if of.len() <= most {
            return std::mem::take(of);
        }
        let next = self.next_of(of, most);
        next.into_iter().filter(|id| of.remove(id)).collect()
    }
}
