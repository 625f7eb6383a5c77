//! Jobs that others wait for, and when a job that waits may begin.

use crate::effect::Effect;
use crate::facts::job::{JobView, Release};
use crate::lifecycle::head_change::Bid;
use crate::lifecycle::rules::ruling;
use crate::manager::ResourceManager;
use echelon_core_model::{JobId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Jobs that others wait for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Awaited {
    /// The jobs that wait for each.
    by: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Those that storage knows no more.
    pub(crate) gone: BTreeSet<JobId>,
}

impl Awaited {
    pub(crate) fn len(&self) -> usize {
        let Self { by, gone } = self;
        by.values().map(|waiting| waiting.len() + 1).sum::<usize>() + gone.len()
    }
}

impl ResourceManager {
    /// Looks at a job's rules: whether it may begin, when to look again,
    /// and what is to be written into its head.
    pub(crate) fn follow_rules(&mut self, id: JobId, now: Timestamp) -> Option<Bid> {
        let Some(job) = self.picture.facts.jobs.get(&id) else {
            return self.follow_retired(id, now);
        };
        let of_schedule = self.of_schedules(id, job, now);
        let ruling =
            of_schedule.unwrap_or_else(|| ruling(&self.picture.facts, &self.awaited.gone, id, job, now));
        self.agenda.put(id, ruling.look_at);
        if ruling.released
            && let Some(job) = self.picture.facts.jobs.get_aside(&id)
            && job.rare.release == Release::Held
        {
            job.rare.release = Release::Decided(now);
        }
        ruling.bid
    }

    /// Deletes the record of a job that has ended when its time is over.
    fn follow_retired(&mut self, id: JobId, now: Timestamp) -> Option<Bid> {
        let until = self.picture.facts.ended.get(&id).and_then(|e| e.keep_until);
        let is_due = until.is_some_and(|until| until <= now) && !self.returning.contains_key(&id);
        self.agenda.put(id, until.filter(|until| *until > now));
        is_due.then_some(Bid::Delete)
    }

    /// That a job may begin is stored, if the row that was written has its release.
    pub(crate) fn release_stored(&mut self, id: JobId) {
        let decided = |j: &&JobView| matches!(j.rare.release, Release::Decided(_));
        let job = self.picture.facts.jobs.get(&id).filter(decided);
        let released = job.and_then(|j| j.progress.as_ref()?.row.as_ref()?.released);
        if let Some(at) = released
            && let Some(job) = self.picture.facts.jobs.get_mut(&id)
        {
            job.rare.release = Release::Stored(at);
            self.due = true;
            self.dirty.insert(id);
        }
    }

    /// A job's spec was read: from now on it is looked at when one that it waits for changes.
    pub(crate) fn note_awaited(&mut self, id: JobId) {
        let job = self.picture.facts.jobs.get(&id).filter(|j| j.is_held());
        let spec = job.and_then(|j| j.spec.clone());
        for on in spec.iter().flat_map(|s| &s.rules.after).filter_map(|a| a.id) {
            self.awaited.by.entry(on).or_default().insert(id);
        }
    }

    /// Asks for dependencies that are not known: their heads may not have been seen yet.
    pub(crate) fn ask_for_awaited(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let unknown = self.awaited.by.keys().filter(|id| {
            let known = self.picture.facts.jobs.contains_key(id) || self.picture.facts.ended.contains_key(id);
            !known && !self.awaited.gone.contains(id)
        });
        for id in unknown.copied().collect::<Vec<JobId>>() {
            if self.tombstones.contains_key(&id) {
                self.awaited_is_gone(id);
            } else {
                self.settle_head(id, now, out);
            }
        }
    }

    /// A dependency's record is no more.
    pub(crate) fn awaited_is_gone(&mut self, id: JobId) {
        if self.awaited.by.contains_key(&id) {
            self.awaited.gone.insert(id);
            self.wake_dependents(id);
        }
    }

    /// What became of a job is stored: the jobs that wait for it are looked at.
    pub(crate) fn wake_dependents(&mut self, id: JobId) {
        let Some(waiting) = self.awaited.by.get(&id) else {
            return;
        };
        self.due = true;
        self.dirty.extend(waiting);
        let held = |id: &JobId| self.picture.facts.jobs.get(id).is_some_and(|j| j.is_held());
        if !waiting.iter().any(held) {
            self.awaited.by.remove(&id);
            self.awaited.gone.remove(&id);
        }
    }
}
