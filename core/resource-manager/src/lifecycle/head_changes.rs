//! Changes that the leader itself makes to a job's head, by the writes that a gateway would make for a user:
//! compare-and-set on a head that was read at SERIAL for it, and decided by once more. The first write wins.
//! So a user's request that came meanwhile is looked at first, shards that read storage alone obey it, and a
//! new leader that decides the same again changes nothing.

use crate::effect::Effect;
use crate::facts::job::JobView;
use crate::lifecycle::head_change::Bid;
use crate::lifecycle::rollouts;
use crate::manager::{Phase, ResourceManager};
use crate::storage::operations::Purpose;
use echelon_core_model::job::{Desired, Head};
use echelon_core_model::spec::JobSpec;
use echelon_core_model::store::{Answer, Consistency, Decided, Decision, Op, Query};
use echelon_core_model::{JobId, ReasonCode, Span, Timestamp};
use std::collections::BTreeMap;

/// Most heads that are being changed at once (law 8).
pub(crate) const AT_ONCE: usize = 64;
/// Those beyond, and those that could not be changed, are looked at again after this.
const LATER: Span = Span::seconds(1);
/// Spec versions that others have written and not put into force, and that are stepped over.
const ORPHANS: u32 = 64;

/// The jobs with a head that is read or written for a change; those that go back with what that needs.
pub(crate) type Bids = BTreeMap<JobId, Option<Box<Return>>>;

/// A way back to an earlier spec version.
#[derive(Debug, Clone)]
pub(crate) struct Return {
    /// As it was read at SERIAL.
    head: Head,
    to: u32,
    /// The spec in force.
    present: Option<JobSpec>,
    /// The spec to go back to.
    earlier: Option<JobSpec>,
    /// The version that the new spec is written under.
    version: u32,
}

impl ResourceManager {
    /// Looks at what rules and failures make of all jobs that changed, or that are due.
    pub(crate) fn follow_bids(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let ids: Vec<JobId> = self.dirty.iter().copied().collect();
        for id in ids {
            let by_rule = self.follow_rules(id, now);
            let wanted = by_rule.or_else(|| self.follow_rollout(id)).is_some();
            let wanted = wanted && !self.bids.contains_key(&id);
            if wanted && self.bids.len() >= AT_ONCE {
                self.bid_later(id, now);
            } else if wanted {
                self.bids.insert(id, None);
                let op = Op::Read(Query::Head(id), Consistency::Serial);
                self.ops.start(Purpose::BidHead(id), op, now, out);
            }
        }
    }

    fn follow_rollout(&self, id: JobId) -> Option<Bid> {
        let job = self.picture.facts.jobs.get(&id)?;
        let failed = || rollouts::on_failures(&self.picture.facts, id, job);
        rollouts::on_end(job).or_else(failed)
    }

    fn bid_later(&mut self, id: JobId, now: Timestamp) {
        self.agenda.put(id, Some(now.plus(LATER)));
    }

    /// Storage never takes it; what is wanted then is looked at again later.
    pub(crate) fn drop_bid(&mut self, id: JobId, now: Timestamp) {
        self.give_up(id, now);
    }

    /// Could not be written now.
    fn give_up(&mut self, id: JobId, now: Timestamp) {
        self.bids.remove(&id);
        self.bid_later(id, now);
    }

    /// The head to be changed, as it is now: if the same change still follows, it is made.
    pub(crate) fn bid_head_read(
        &mut self,
        id: JobId,
        head: Option<Head>,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        self.bids.remove(&id);
        self.dirty.insert(id);
        let Some(head) = head else {
            self.forget_retired(id);
            return;
        };
        self.head_read(head.clone(), now, out);
        let job = self.picture.facts.jobs.get(&id).map(JobView::newest_version);
        let known = job.or(self.picture.facts.ended.get(&id).map(|e| e.version));
        let newest = known == Some(head.version);
        if !newest || self.phase != Phase::Leading {
            return;
        }
        let by_rule = self.follow_rules(id, now);
        let Some(bid) = by_rule.or_else(|| self.follow_rollout(id)) else {
            return;
        };
        self.bids.insert(id, None);
        let mut head = head;
        match bid {
            Bid::Stop(verdict) => {
                head.goal.desired = Desired::Stopped;
                head.verdict = Some(Box::new(verdict));
            }
            Bid::Delete => head.goal.desired = Desired::Deleted,
            Bid::Hold => {
                if let Some(rollout) = &mut head.rollout {
                    rollout.held = Some(ReasonCode::RolloutFailures);
                }
            }
            Bid::LetGo => {
                if let Some(rollout) = &mut head.rollout {
                    rollout.held = None;
                }
            }
            Bid::Schedule(state) => head.schedule = Some(state),
            Bid::RollBack(to) => {
                self.go_back(head, to, now, out);
                return;
            }
        }
        self.put_bid(head, now, out);
    }

    /// Writes a head after the one that was read.
    fn put_bid(&mut self, head: Head, now: Timestamp, out: &mut Vec<Effect>) {
        let id = head.job;
        let expected = Some(head.version);
        let head = Head {
            version: head.version.next(),
            updated_at: now,
            ..head
        };
        let op = Op::Decide(Decision::PutHead { head, expected });
        self.ops.start(Purpose::PutBid(id), op, now, out);
    }

    /// Whichever write came first, there is another head now.
    pub(crate) fn bid_put(
        &mut self,
        (id, op): (JobId, Op),
        decided: Decided,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        self.bids.remove(&id);
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

    /// A rollback is a new spec version with the runs of the earlier one: both are read for it.
    fn go_back(&mut self, head: Head, to: u32, now: Timestamp, out: &mut Vec<Effect>) {
        let (id, present) = (head.job, head.spec_version);
        let back = Return {
            head,
            to,
            present: None,
            earlier: None,
            version: present.saturating_add(1),
        };
        self.bids.insert(id, Some(Box::new(back)));
        for version in [present, to] {
            let op = Op::Read(Query::Spec(id, version), Consistency::Quorum);
            self.ops.start(Purpose::BidSpec(id, version), op, now, out);
        }
    }

    /// One of the two.
    pub(crate) fn bid_spec_read(
        &mut self,
        (id, version): (JobId, u32),
        spec: Option<JobSpec>,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let Some(back) = self.bids.get_mut(&id).and_then(Option::as_mut) else {
            return;
        };
        if spec.is_none() {
            self.give_up(id, now);
            return;
        }
        if back.head.spec_version == version {
            back.present.clone_from(&spec);
        }
        if back.to == version {
            back.earlier = spec;
        }
        self.put_bid_spec(id, now, out);
    }

    /// Writes the spec that goes back, as soon as both are there.
    fn put_bid_spec(&mut self, id: JobId, now: Timestamp, out: &mut Vec<Effect>) {
        let Some(back) = self.bids.get(&id).and_then(Option::as_ref) else {
            return;
        };
        if let (Some(present), Some(earlier)) = (&back.present, &back.earlier) {
            let decision = Decision::PutSpec {
                job: id,
                version: back.version,
                spec: present.with_runs_of(earlier, back.to),
            };
            let op = Op::Decide(decision);
            self.ops.start(Purpose::PutBidSpec(id), op, now, out);
        }
    }

    /// The spec is written, or another one has its version.
    pub(crate) fn bid_spec_put(
        &mut self,
        id: JobId,
        decided: &Decided,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let Some(back) = self.bids.get_mut(&id).and_then(Option::as_mut) else {
            return;
        };
        if *decided != Decided::Applied {
            back.version = back.version.saturating_add(1);
            if back.version - back.head.spec_version > ORPHANS {
                self.give_up(id, now);
            } else {
                self.put_bid_spec(id, now, out);
            }
            return;
        }
        let (mut head, version) = (back.head.clone(), back.version);
        if let Some(rollout) = head.rollout {
            let job = self.picture.facts.jobs.get(&id);
            let known = job.and_then(|j| j.progress.as_ref()?.rollout.as_deref());
            let next = rollout.going_back(ReasonCode::RolloutFailures, now);
            head.begin_rollout(next, version, known);
        }
        self.put_bid(head, now, out);
    }
}
