//! Makes the jobs that schedules have decided, by the writes that a gateway makes for a user: name, spec,
//! head. Each is a compare-and-set on what follows from the decision in the template's head. So any leader
//! may begin again anywhere and makes the same job, once.

use crate::effect::Effect;
use crate::lifecycle::schedules::state_of;
use crate::manager::ResourceManager;
use crate::storage::operations::Purpose;
use echelon_core_model::job::{Desired, Goal, Head};
use echelon_core_model::schedule::{Opening, child_name, other_child_name};
use echelon_core_model::spec::JobSpec;
use echelon_core_model::store::{Answer, Consistency, Decided, Decision, NameHolder, Op, Query};
use echelon_core_model::{JobId, PoolId, Span, Timestamp, Version};
use std::collections::BTreeMap;

/// Most jobs that are being made at once (law 8).
const AT_ONCE: usize = 64;
/// What could not be begun, or made, is looked at again after this.
const LATER: Span = Span::seconds(1);
/// How often others may snatch a name away before another one is tried.
const TRIES: u32 = 8;

/// Jobs that are being made, by their templates.
pub(crate) type Openings = BTreeMap<JobId, Making>;

/// A job on its way from the decision to its head.
#[derive(Debug, Clone)]
pub(crate) struct Making {
    opening: Opening,
    job: JobId,
    pool_id: Option<PoolId>,
    /// As soon as the template's is read.
    spec: Option<JobSpec>,
    /// The template's name.
    template: String,
    tries: u32,
}

impl ResourceManager {
    /// Begins to make what templates that changed have decided.
    pub(crate) fn follow_openings(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let ids: Vec<JobId> = self.dirty.iter().copied().collect();
        for id in ids {
            let Some((making, version)) = self.to_be_made(id) else {
                continue;
            };
            if self.openings.len() >= AT_ONCE {
                self.agenda.put(id, Some(now.plus(LATER)));
                continue;
            }
            self.openings.insert(id, making);
            let op = Op::Read(Query::Spec(id, version), Consistency::Quorum);
            self.ops.start(Purpose::OpeningSpec(id), op, now, out);
        }
    }

    /// What a template has decided and is not there, with the spec version in force.
    fn to_be_made(&self, id: JobId) -> Option<(Making, u32)> {
        let job = self.picture.facts.jobs.get(&id)?;
        let head = job.head.as_ref().filter(|h| h.goal.desired == Desired::Running)?;
        head.schedule.as_ref()?.opening.as_ref()?;
        let opening = state_of(id, job).opening?;
        let child = opening.job(id);
        let needed = job.is_live() && !self.openings.contains_key(&id) && self.is_to_be_made(child);
        let making = Making {
            job: child,
            opening,
            pool_id: head.pool_id.clone(),
            spec: None,
            template: String::new(),
            tries: 0,
        };
        needed.then_some((making, head.spec_version))
    }

    pub(crate) fn opening_spec_read(
        &mut self,
        id: JobId,
        spec: Option<JobSpec>,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let Some(making) = self.openings.get_mut(&id) else {
            return;
        };
        let Some(spec) = spec else {
            self.opening_given_up(id, now);
            return;
        };
        let name = child_name(&spec.name, making.opening.due);
        making.spec = Some(spec.child(name, &making.opening.after));
        making.template = spec.name;
        self.take_opening_name(id, None, now, out);
    }

    fn take_opening_name(
        &mut self,
        id: JobId,
        expected: Option<Version>,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let Some((making, spec)) = self.openings.get(&id).and_then(|m| Some((m, m.spec.as_ref()?))) else {
            return;
        };
        let decision = Decision::TakeName {
            name: spec.name.clone(),
            holder: NameHolder {
                job: making.job,
                version: expected.map_or(Version(1), Version::next),
            },
            expected,
        };
        self.ops
            .start(Purpose::OpeningName(id), Op::Decide(decision), now, out);
    }

    /// The name is taken for the job, or another job has it. One that has not ended keeps it, and the new job
    /// gets another name.
    pub(crate) fn opening_named(
        &mut self,
        id: JobId,
        decided: Decided,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let there = match decided {
            Decided::Applied => return self.put_opening_spec(id, now, out),
            Decided::Conflict(there) => match *there {
                Answer::Name(holder) => holder,
                _ => return self.opening_given_up(id, now),
            },
        };
        let over = there.as_ref().is_some_and(|holder| self.is_over(holder.job));
        let Some(making) = self.openings.get_mut(&id) else {
            return;
        };
        making.tries += 1;
        match there {
            None => self.take_opening_name(id, None, now, out),
            Some(holder) if holder.job == making.job => self.put_opening_spec(id, now, out),
            Some(_) if making.tries > TRIES => self.opening_given_up(id, now),
            Some(holder) if over => self.take_opening_name(id, Some(holder.version), now, out),
            Some(_) => {
                let other = other_child_name(&making.template, making.opening.due, making.job);
                if let Some(spec) = &mut making.spec {
                    spec.name = other;
                }
                self.take_opening_name(id, None, now, out);
            }
        }
    }

    /// Whether a job is known to need its name no more.
    fn is_over(&self, id: JobId) -> bool {
        let job = self.picture.facts.jobs.get(&id);
        let ended = job.is_some_and(|j| {
            j.desired() == Desired::Deleted || j.progress.as_ref().is_some_and(|p| p.state.is_ended())
        });
        ended || self.picture.facts.ended.contains_key(&id) || self.tombstones.contains_key(&id)
    }

    fn put_opening_spec(&mut self, id: JobId, now: Timestamp, out: &mut Vec<Effect>) {
        let making = self.openings.get(&id);
        if let Some((job, spec)) = making.and_then(|m| Some((m.job, m.spec.clone()?))) {
            let decision = Decision::PutSpec {
                job,
                version: 1,
                spec,
            };
            self.ops
                .start(Purpose::PutOpeningSpec(id), Op::Decide(decision), now, out);
        }
    }

    /// An earlier try may have stored the spec, of another version of the template: that one counts.
    pub(crate) fn opening_spec_put(
        &mut self,
        id: JobId,
        decided: Decided,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let Some(making) = self.openings.get_mut(&id) else {
            return;
        };
        if let Decided::Conflict(there) = decided {
            match *there {
                Answer::Spec(Some(there)) => making.spec = Some(there),
                _ => return self.opening_given_up(id, now),
            }
        }
        if let Some(head) = first_head(id, making) {
            let op = Op::Decide(Decision::PutHead { head, expected: None });
            self.ops.start(Purpose::PutOpening(id), op, now, out);
        }
    }

    /// The job is there, by this write or another, or its id is barred; its template is looked at again.
    pub(crate) fn opening_put(
        &mut self,
        (id, op): (JobId, Op),
        decided: Decided,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        self.openings.remove(&id);
        self.dirty.insert(id);
        self.due = true;
        match (decided, op) {
            (Decided::Applied, Op::Decide(Decision::PutHead { head, .. })) => self.head_read(head, now, out),
            (Decided::Conflict(there), _) => {
                if let Answer::Head(Some(head)) = *there {
                    self.head_read(head, now, out);
                }
            }
            _ => {}
        }
    }

    fn opening_given_up(&mut self, id: JobId, now: Timestamp) {
        self.openings.remove(&id);
        self.agenda.put(id, Some(now.plus(LATER)));
    }
}

fn first_head(template: JobId, making: &Making) -> Option<Head> {
    let spec = making.spec.as_ref()?;
    Some(Head {
        job: making.job,
        version: Version(1),
        void: false,
        goal: Goal::default(),
        spec_version: 1,
        name: spec.name.clone(),
        pool: spec.pool.clone(),
        pool_id: making.pool_id.clone(),
        kind: spec.kind,
        owner: spec.owner.clone(),
        labels: spec.labels.clone(),
        instances: spec.instances(),
        // The decision's time, not this try's: every try writes the same bytes.
        updated_at: making.opening.at,
        rollout: None,
        past_rollouts: Vec::new(),
        verdict: None,
        restarts: None,
        schedule: None,
        origin: Some(Box::new(making.opening.origin(template))),
    })
}
