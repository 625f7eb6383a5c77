//! Deleted jobs, and job ids that void heads bar. Once nothing is left of a job but its head and its progress
//! row, these stay until no create that made it can be repeated any more. Until then a create finds the head
//! and answers the deleted job instead of making it again. They are apart from the jobs, a few bytes each, so
//! that no cycle walks them.

use crate::effect::Effect;
use crate::facts::job::JobView;
use crate::facts::known::{KnownHead, KnownProgress};
use crate::manager::{Phase, ResourceManager};
use crate::storage::operations::Purpose;
use echelon_core_model::directive::Order;
use echelon_core_model::job::{Desired, Head, JobState};
use echelon_core_model::store::{Answer, Decided, Decision, Op, Write};
use echelon_core_model::{ClusterId, JobId, Timestamp, Version};

/// Most removals of heads under way.
const AT_ONCE: usize = 32;

/// A head that is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tombstone {
    /// Its version.
    pub version: Version,
    /// It never was a job.
    pub void: bool,
}

impl Tombstone {
    const fn of(head: &KnownHead) -> Self {
        Self {
            version: head.version,
            void: head.void,
        }
    }
}

impl ResourceManager {
    /// The end of a deleted job is stored: its assignment is to be removed.
    pub(crate) fn entomb(&mut self, id: JobId) {
        if let Some(job) = self.picture.facts.jobs.get_mut(&id) {
            self.due |= !job.rare.tombstone;
            job.rare.tombstone = true;
        }
    }

    /// The assignment of a deleted job is gone: its shards may archive it, and only the tombstone stays.
    /// Without a head, as when the leader before came as far as that, the progress row goes too.
    pub(crate) fn assignment_removed(&mut self, id: JobId, out: &mut Vec<Effect>) {
        let Some(job) = self.picture.facts.jobs.remove(&id) else {
            return;
        };
        self.forget_child(id, &job);
        // Those that it made are counted no more.
        self.dirty.extend(self.children.get(&id).into_iter().flatten());
        for view in self.picture.facts.clusters.values_mut() {
            view.forget(id);
        }
        let holders: Vec<ClusterId> = job.durable.holders.keys().cloned().collect();
        for cluster in holders {
            self.send(&cluster, Order::Archive(id), out);
        }
        match &job.head {
            Some(head) => {
                self.tombstones.insert(id, Tombstone::of(head));
            }
            None => self.writes.push(Write::RemoveProgress(id)),
        }
    }

    /// Whether a head that was read is a tombstone, and needs no more than to be remembered as one.
    pub(crate) fn is_tombstone(&mut self, head: &Head) -> bool {
        if let Some(known) = self.tombstones.get_mut(&head.job) {
            known.version = known.version.max(head.version);
            return true;
        }
        // While recovering, the rest of a job may still come.
        if head.void && self.phase == Phase::Leading && !self.picture.facts.jobs.contains_key(&head.job) {
            let left = Tombstone {
                version: head.version,
                void: true,
            };
            self.tombstones.insert(head.job, left);
            return true;
        }
        false
    }

    /// Everything stored was read: what is only a head goes from the jobs to the tombstones.
    pub(crate) fn sort_out_tombstones(&mut self) {
        let found: Vec<(JobId, Tombstone)> = self
            .picture
            .facts
            .jobs
            .iter()
            .filter_map(|(id, job)| Some((*id, left_of(job)?)))
            .collect();
        for (id, tombstone) in found {
            if let Some(job) = self.picture.facts.jobs.remove(&id) {
                self.forget_child(id, &job);
            }
            self.tombstones.insert(id, tombstone);
        }
    }

    /// Removes the heads that no repeated create can ask for any more, oldest first.
    pub(crate) fn remove_tombstones(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let kept = self.config.tombstones;
        let old = self.tombstones.iter();
        let old = old.take_while(|(id, _)| now.since(id.created_at()) >= kept);
        let old: Vec<(JobId, Tombstone)> = old.take(AT_ONCE).map(|(id, t)| (*id, *t)).collect();
        for (id, tombstone) in old {
            if !self.ops.has(&Purpose::RemoveHead(id)) {
                let decision = Decision::RemoveHead {
                    job: id,
                    expected: tombstone.version,
                };
                self.ops
                    .start(Purpose::RemoveHead(id), Op::Decide(decision), now, out);
            }
        }
    }

    /// The head is gone: the progress row follows. One that has changed is removed in its next turn.
    pub(crate) fn head_removed(&mut self, id: JobId, decided: Decided) {
        let Some(tombstone) = self.tombstones.get_mut(&id) else {
            return;
        };
        match decided {
            Decided::Applied => {
                if !tombstone.void {
                    self.writes.push(Write::RemoveProgress(id));
                }
                self.tombstones.remove(&id);
                self.due = true;
            }
            Decided::Conflict(present) => {
                if let Answer::Head(Some(head)) = *present {
                    tombstone.version = head.version;
                }
            }
        }
    }
}

/// The tombstone that is all that is stored of a job, if so.
fn left_of(job: &JobView) -> Option<Tombstone> {
    let head = job.head.as_ref().filter(|_| job.next_head.is_none())?;
    let state = job.progress.as_ref().map(KnownProgress::state);
    let deleted = head.goal.desired == Desired::Deleted && state == Some(JobState::Deleted);
    let over = deleted || (head.void && state.is_none());
    (over && job.durable.is_nothing()).then(|| Tombstone::of(head))
}
