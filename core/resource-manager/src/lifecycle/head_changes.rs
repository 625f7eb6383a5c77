//! Changes that the leader itself makes to a job's head, by the writes that a gateway would make for a user:
//! compare-and-set on a head that was read at SERIAL for it, and decided by once more. The first write wins.
//! So a user's request that came meanwhile is looked at first, shards that read storage alone obey it, and a
//! new leader that decides the same again changes nothing.

use crate::effect::Effect;
use crate::facts::job::JobView;
use crate::lifecycle::head_change::{Bid, HeadChange};
use crate::lifecycle::rollouts;
use crate::manager::{Phase, ResourceManager};
use crate::storage::flows::{Flow, FlowEnd, FlowKey, FlowKind, FlowPort};
use echelon_core_model::job::{Desired, Head};
use echelon_core_model::store::{Decided, Decision};
use echelon_core_model::{JobId, ReasonCode, Span, Timestamp};

/// Most heads that are being changed at once (law 8).
pub(crate) const AT_ONCE: usize = 64;
/// Those beyond, and those that could not be changed, are looked at again after this.
const LATER: Span = Span::seconds(1);
/// Spec versions that others have written and not put into force, and that are stepped over.
const ORPHANS: u32 = 64;

impl ResourceManager {
    /// Looks at what rules and failures make of all jobs that changed, or that are due.
    pub(crate) fn change_heads(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let ids: Vec<JobId> = self.dirty.iter().copied().collect();
        for id in ids {
            let wanted = self.wanted_change(id, now).is_some() && !self.flows.has(FlowKind::HeadChange, id);
            if wanted && self.flows.of_kind(FlowKind::HeadChange) >= AT_ONCE {
                self.look_later(id, now);
            } else if wanted {
                let key = FlowKey {
                    kind: FlowKind::HeadChange,
                    job: id,
                };
                self.start_flow(key, Flow::new(|port| change(port, id)), now, out);
            }
        }
    }

    /// What rules and failures make of a job.
    fn wanted_change(&mut self, id: JobId, now: Timestamp) -> Option<Bid> {
        let by_rule = self.follow_rules(id, now);
        by_rule.or_else(|| {
            let job = self.picture.facts.jobs.get(&id)?;
            let failed = || rollouts::on_failures(&self.picture.facts, id, job);
            rollouts::on_end(job).or_else(failed)
        })
    }

    /// What could not be done now is looked at again.
    pub(crate) fn look_later(&mut self, id: JobId, now: Timestamp) {
        self.agenda.put(id, Some(now.plus(LATER)));
    }

    /// The head to be changed, as it is now: if a change still follows, it is made.
    pub(crate) fn head_change_now(
        &mut self,
        id: JobId,
        head: Option<Box<Head>>,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) -> Option<HeadChange> {
        self.dirty.insert(id);
        let Some(head) = head else {
            self.forget_retired(id);
            return None;
        };
        let version = head.version;
        self.head_read(*head, now, out);
        let job = self.picture.facts.jobs.get(&id).map(JobView::newest_version);
        let known = job.or(self.picture.facts.ended.get(&id).map(|e| e.version));
        if known != Some(version) || self.phase != Phase::Leading {
            return None;
        }
        let bid = self.wanted_change(id, now)?;
        let job = self.picture.facts.jobs.get(&id);
        let rollout = job.and_then(|j| j.progress.as_ref()?.row.as_ref()?.rollout.as_deref().cloned());
        Some(HeadChange {
            bid,
            rollout,
            at: now,
        })
    }
}

/// Reads a head, asks what follows, and writes that.
async fn change(mut port: FlowPort, id: JobId) -> FlowEnd {
    let Some(head) = port.head(id).await else {
        return FlowEnd::GivenUp;
    };
    let change = port.head_change(id, head.clone()).await;
    let (Some(mut head), Some(change)) = (head, change) else {
        return FlowEnd::Nothing;
    };
    match change.bid {
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
            let Some(version) = put_earlier_spec(&mut port, &head, to).await else {
                return FlowEnd::GivenUp;
            };
            if let Some(rollout) = head.rollout {
                let next = rollout.going_back(ReasonCode::RolloutFailures, change.at);
                head.begin_rollout(next, version, change.rollout.as_ref());
            }
        }
    }
    // Whichever write comes first, there is another head then.
    let expected = head.version;
    head.version = expected.next();
    head.updated_at = change.at;
    port.put_head(head, Some(expected)).await
}

/// A rollback is a new spec version with the runs of an earlier one. Returns the version.
async fn put_earlier_spec(port: &mut FlowPort, head: &Head, to: u32) -> Option<u32> {
    let present = port.spec(head.job, head.spec_version).await?;
    let earlier = port.spec(head.job, to).await?;
    let spec = present.with_runs_of(&earlier, to);
    for orphans in 1..=ORPHANS {
        let version = head.spec_version.saturating_add(orphans);
        let put = Decision::PutSpec {
            job: head.job,
            version,
            spec: spec.clone(),
        };
        if port.decide(put).await? == Decided::Applied {
            return Some(version);
        }
    }
    None
}
