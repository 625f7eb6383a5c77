//! A rollout that fails is held or goes back. The leader proposes that by the writes that a gateway would make for a user: a new spec
//! version with the runs of the earlier one, and the head that names it, by compare-and-set. So shards that read storage alone obey it,
//! and a wish that comes meanwhile wins: the next look sees.

use crate::effect::Effect;
use crate::manager::ResourceManager;
use crate::ops::Purpose;
use crate::rollouts::{Consequence, consequence};
use echelon_core_model::job::{Desired, Head};
use echelon_core_model::rollout::Rollout;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::store::{Consistency, Decided, Decision, Op, Query};
use echelon_core_model::{JobId, ReasonCode, Timestamp};

/// Versions that others have written and not put into force, and that are stepped over.
const ORPHANS: u32 = 64;

/// A head that is being changed.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    what: Consequence,
    /// The head as it was read at SERIAL.
    head: Option<Head>,
    /// The spec in force.
    present: Option<JobSpec>,
    /// The spec to go back to.
    earlier: Option<JobSpec>,
    /// The version that the new spec is written under.
    version: u32,
}

impl ResourceManager {
    /// Begins to hold or roll back what fails, unless that has begun.
    pub(crate) fn follow_failures(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let looked_at = self.dirty.iter().copied();
        let due = looked_at.filter_map(|id| {
            let job = self.picture.jobs.get(&id).filter(|j| j.is_live())?;
            Some((id, consequence(&self.picture, id, job)?))
        });
        let due: Vec<(JobId, Consequence)> = due.filter(|(id, _)| !self.changes.contains_key(id)).collect();
        for (id, what) in due {
            let change = Change {
                what,
                head: None,
                present: None,
                earlier: None,
                version: 0,
            };
            self.changes.insert(id, change);
            let op = Op::Read(Query::Head(id), Consistency::Serial);
            self.ops.start(Purpose::ChangeHead(id), op, now, out);
        }
    }

    /// The head that is to be changed, as it is at SERIAL. What differs from what was decided by is looked at anew.
    pub(crate) fn change_read(
        &mut self,
        id: JobId,
        head: Option<Head>,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let known = self.picture.jobs.get(&id).and_then(|j| j.head.as_ref());
        let same = known
            .zip(head.as_ref())
            .is_some_and(|(k, h)| k.version == h.version);
        let Some(head) = head.filter(|h| same && h.goal.desired == Desired::Running) else {
            self.drop_change(id, now, out);
            return;
        };
        let Some(change) = self.changes.get_mut(&id) else {
            return;
        };
        let present = head.spec_version;
        change.version = present.saturating_add(1);
        change.head = Some(head.clone());
        match change.what {
            Consequence::Hold => self.put_changed(id, head.spec_version, now, out),
            Consequence::RollBack(earlier) => {
                for version in [present, earlier] {
                    let op = Op::Read(Query::Spec(id, version), Consistency::Quorum);
                    self.ops.start(Purpose::ChangeSpec(id, version), op, now, out);
                }
            }
        }
    }

    /// One of the two specs that a rollback needs.
    pub(crate) fn change_spec_read(
        &mut self,
        (id, version): (JobId, u32),
        spec: Option<JobSpec>,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let Some(change) = self.changes.get_mut(&id) else {
            return;
        };
        let Some(spec) = spec else {
            self.drop_change(id, now, out);
            return;
        };
        if change.head.as_ref().is_some_and(|h| h.spec_version == version) {
            change.present = Some(spec.clone());
        }
        if change.what == Consequence::RollBack(version) {
            change.earlier = Some(spec);
        }
        self.put_rolled_back(id, now, out);
    }

    /// Writes the spec that goes back, as soon as both others are there.
    fn put_rolled_back(&mut self, id: JobId, now: Timestamp, out: &mut Vec<Effect>) {
        let Some(change) = self.changes.get(&id) else {
            return;
        };
        if let (Consequence::RollBack(version), Some(present), Some(earlier)) =
            (change.what, &change.present, &change.earlier)
        {
            let decision = Decision::PutSpec {
                job: id,
                version: change.version,
                spec: present.with_runs_of(earlier, version),
            };
            self.ops
                .start(Purpose::PutChangedSpec(id), Op::Decide(decision), now, out);
        }
    }

    /// The spec is written, or another one has its version.
    pub(crate) fn changed_spec_put(
        &mut self,
        id: JobId,
        decided: &Decided,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let Some(change) = self.changes.get_mut(&id) else {
            return;
        };
        let version = change.version;
        if *decided == Decided::Applied {
            self.put_changed(id, version, now, out);
            return;
        }
        change.version = version.saturating_add(1);
        let first = change.head.as_ref().map_or(0, |h| h.spec_version);
        if version.saturating_sub(first) > ORPHANS {
            self.drop_change(id, now, out);
        } else {
            self.put_rolled_back(id, now, out);
        }
    }

    /// Proposes the changed head.
    fn put_changed(&mut self, id: JobId, spec_version: u32, now: Timestamp, out: &mut Vec<Effect>) {
        let change = self.changes.get(&id);
        let found = change.and_then(|c| Some((c.what, c.head.clone()?)));
        let Some((what, head)) = found else { return };
        let rollout = head.rollout.map(|r| changed(r, what, now));
        let past = head.rollout.filter(|_| what != Consequence::Hold);
        let expected = head.version;
        let mut next = Head {
            version: expected.next(),
            updated_at: now,
            rollout,
            spec_version,
            ..head
        };
        next.past_rollouts
            .extend(past.map(|wish| wish.past(head.spec_version, None)));
        next.forget_old_rollouts();
        let decision = Decision::PutHead {
            head: next,
            expected: Some(expected),
        };
        self.ops
            .start(Purpose::PutChangedHead(id), Op::Decide(decision), now, out);
    }

    /// The head is changed, or somebody else came first: either way it is read again.
    pub(crate) fn drop_change(&mut self, id: JobId, now: Timestamp, out: &mut Vec<Effect>) {
        self.changes.remove(&id);
        self.read_head(id, now, out);
    }
}

/// The rollout after its failure.
fn changed(rollout: Rollout, what: Consequence, now: Timestamp) -> Rollout {
    match what {
        Consequence::Hold => Rollout {
            held: Some(ReasonCode::RolloutFailures),
            ..rollout
        },
        Consequence::RollBack(_) => rollout.going_back(ReasonCode::RolloutFailures, now),
    }
}
