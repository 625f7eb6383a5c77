//! What the rules of jobs say is written by the compare-and-set that a gateway would make, on a head that was read at SERIAL for it: who
//! comes first wins, a user's wish that came meanwhile is looked at first, and a new leader that decides the same once more changes
//! nothing.

use crate::after::Release;
use crate::effect::Effect;
use crate::manager::{Phase, ResourceManager};
use crate::ops::Purpose;
use crate::picture::JobView;
use crate::rules::{Bid, ruling};
use echelon_core_model::job::{Desired, Goal, Head};
use echelon_core_model::store::{Answer, Consistency, Decided, Decision, Op, Query};
use echelon_core_model::{JobId, Span, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Most heads that are being changed at once (law 8).
const AT_ONCE: usize = 64;
/// Those beyond are looked at again after this.
const LATER: Span = Span::seconds(1);

/// Jobs to be looked at when a time has come, one time each.
#[derive(Debug, Clone, Default)]
pub(crate) struct Agenda {
    of: BTreeMap<JobId, Timestamp>,
    due: BTreeSet<(Timestamp, JobId)>,
}

impl Agenda {
    pub(crate) fn put(&mut self, id: JobId, at: Option<Timestamp>) {
        let before = match at {
            Some(at) => self.of.insert(id, at),
            None => self.of.remove(&id),
        };
        if before != at {
            before.map(|at| self.due.remove(&(at, id)));
            self.due.extend(at.map(|at| (at, id)));
        }
    }

    pub(crate) fn take_due(&mut self, now: Timestamp) -> Vec<JobId> {
        let due = self.due.iter().take_while(|(at, _)| *at <= now);
        let due: Vec<JobId> = due.map(|(_, id)| *id).collect();
        due.iter().for_each(|id| self.put(*id, None));
        due
    }
}

/// What is under way for the rules of jobs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Verdicts {
    /// When only time changes what they say.
    pub(crate) agenda: Agenda,
    /// Heads that are read or written for them.
    under_way: BTreeSet<JobId>,
    /// Who waits for a job.
    dependents: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Awaited jobs that storage knows no more.
    gone: BTreeSet<JobId>,
}

impl Verdicts {
    /// Whether a job waits for this one.
    pub(crate) fn is_awaited(&self, id: JobId) -> bool {
        self.dependents.contains_key(&id)
    }
}

impl ResourceManager {
    /// Looks at the rules of all jobs that changed, or whose time has come.
    pub(crate) fn follow_rules(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let ids: Vec<JobId> = self.dirty.iter().copied().collect();
        for id in ids {
            let Some(job) = self.picture.jobs.get(&id) else {
                self.verdicts.agenda.put(id, None);
                continue;
            };
            let ruling = ruling(&self.picture, &self.verdicts.gone, id, job, now);
            self.verdicts.agenda.put(id, ruling.look_at);
            if ruling.released
                && let Some(job) = self.picture.jobs.get_aside(&id)
                && job.release == Release::Held
            {
                job.release = Release::Decided(now);
            }
            if ruling.bid.is_none() || self.verdicts.under_way.contains(&id) {
                continue;
            }
            if self.verdicts.under_way.len() >= AT_ONCE {
                self.verdicts.agenda.put(id, Some(now.plus(LATER)));
                continue;
            }
            self.verdicts.under_way.insert(id);
            let op = Op::Read(Query::Head(id), Consistency::Serial);
            self.ops.start(Purpose::RuleHead(id), op, now, out);
        }
    }

    /// The head to be changed, as it is now: if the rules still say so of it, it is changed.
    pub(crate) fn rule_head_read(
        &mut self,
        id: JobId,
        head: Option<Head>,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        self.verdicts.under_way.remove(&id);
        self.dirty.insert(id);
        let Some(head) = head else { return };
        self.head_read(head.clone(), now, out);
        let job = self.picture.jobs.get(&id);
        let newest = |j: &&JobView| j.newest_version() == head.version;
        let Some(job) = job.filter(newest).filter(|_| self.phase == Phase::Leading) else {
            return;
        };
        let Some(bid) = ruling(&self.picture, &self.verdicts.gone, id, job, now).bid else {
            return;
        };
        self.verdicts.under_way.insert(id);
        let expected = Some(head.version);
        let head = changed(head, bid, now);
        let op = Op::Decide(Decision::PutHead { head, expected });
        self.ops.start(Purpose::PutRule(id), op, now, out);
    }

    /// Whoever came first, there is another head now.
    pub(crate) fn rule_put(
        &mut self,
        (id, op): (JobId, Op),
        decided: Decided,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        self.verdicts.under_way.remove(&id);
        self.dirty.insert(id);
        self.due = true;
        match (decided, op) {
            (Decided::Applied, Op::Decide(Decision::PutHead { head, .. })) => self.head_read(head, now, out),
            (Decided::Conflict(there), _) => match *there {
                Answer::Head(Some(head)) => self.head_read(head, now, out),
                _ => self.settle_head(id, now, out),
            },
            _ => {}
        }
    }

    /// That a job may begin is stored, as far as the row that was written says so.
    pub(crate) fn release_stored(&mut self, id: JobId) {
        let decided = |j: &&JobView| matches!(j.release, Release::Decided(_));
        let job = self.picture.jobs.get(&id).filter(decided);
        let released = job.and_then(|j| j.progress.as_ref()?.released);
        if let Some(at) = released
            && let Some(job) = self.picture.jobs.get_mut(&id)
        {
            job.release = Release::Stored(at);
            self.due = true;
            self.dirty.insert(id);
        }
    }

    /// A job's spec was read: from now on it is looked at when one that it waits for changes.
    pub(crate) fn note_awaited(&mut self, id: JobId) {
        let job = self.picture.jobs.get(&id).filter(|j| j.is_held());
        let spec = job.and_then(|j| j.spec.clone());
        for on in spec.iter().flat_map(|s| &s.rules.after).filter_map(|a| a.id) {
            self.verdicts.dependents.entry(on).or_default().insert(id);
        }
    }

    /// Asks for awaited jobs that are not known: their heads may not have been seen yet.
    pub(crate) fn ask_for_awaited(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let unknown = self.verdicts.dependents.keys().filter(|id| {
            let known = self.picture.jobs.contains_key(id) || self.verdicts.gone.contains(id);
            !known
        });
        for id in unknown.copied().collect::<Vec<JobId>>() {
            if self.tombstones.contains_key(&id) {
                self.awaited_is_gone(id);
            } else {
                self.settle_head(id, now, out);
            }
        }
    }

    /// An awaited job's record is no more.
    pub(crate) fn awaited_is_gone(&mut self, id: JobId) {
        if self.verdicts.is_awaited(id) {
            self.verdicts.gone.insert(id);
            self.wake_dependents(id);
        }
    }

    /// What became of a job is stored: who waits for it is looked at.
    pub(crate) fn wake_dependents(&mut self, id: JobId) {
        let Some(waiting) = self.verdicts.dependents.get(&id) else {
            return;
        };
        self.due = true;
        self.dirty.extend(waiting);
        let held = |id: &JobId| self.picture.jobs.get(id).is_some_and(|j| j.is_held());
        if !waiting.iter().any(held) {
            self.verdicts.dependents.remove(&id);
            self.verdicts.gone.remove(&id);
        }
    }
}

fn changed(head: Head, bid: Bid, now: Timestamp) -> Head {
    let (desired, verdict) = match bid {
        Bid::Stop(verdict) => (Desired::Stopped, Some(Box::new(verdict))),
        Bid::Delete => (Desired::Deleted, head.verdict.clone()),
    };
    Head {
        version: head.version.next(),
        goal: Goal { desired, ..head.goal },
        verdict,
        updated_at: now,
        ..head
    }
}
