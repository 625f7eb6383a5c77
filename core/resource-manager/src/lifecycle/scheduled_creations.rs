//! Makes the jobs that schedules have decided, by the writes that a gateway makes for a user: name, spec,
//! head. Each is a compare-and-set on what follows from the decision in the template's head. So any leader
//! may begin again anywhere and makes the same job, once.

use crate::effect::Effect;
use crate::lifecycle::schedules::state_of;
use crate::manager::ResourceManager;
use crate::storage::flows::{Flow, FlowEnd, FlowKey, FlowKind, FlowPort};
use echelon_core_model::job::{Desired, Goal, Head};
use echelon_core_model::schedule::{Opening, child_name, other_child_name};
use echelon_core_model::spec::JobSpec;
use echelon_core_model::spec_digest::SpecDigest;
use echelon_core_model::store::{Answer, Decided, Decision, NameHolder};
use echelon_core_model::{JobId, PoolId, Timestamp, Version};

/// Most jobs that are being made at once (law 8).
const AT_ONCE: usize = 64;
/// How often others may take a name first before the creation is given up.
const TRIES: u32 = 8;

/// A job that a template has decided.
#[derive(Debug, Clone)]
struct ScheduledJob {
    template: JobId,
    /// The template's spec version in force.
    version: u32,
    opening: Opening,
    job: JobId,
    pool_id: Option<PoolId>,
}

impl ResourceManager {
    /// Begins to make what templates that changed have decided.
    pub(crate) fn follow_schedules(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let ids: Vec<JobId> = self.dirty.iter().copied().collect();
        for id in ids {
            let Some(scheduled) = self.to_be_made(id) else {
                continue;
            };
            if self.flows.of_kind(FlowKind::Creation) >= AT_ONCE {
                self.look_later(id, now);
                continue;
            }
            let key = FlowKey {
                kind: FlowKind::Creation,
                job: id,
            };
            self.start_flow(key, Flow::new(|port| create(port, scheduled)), now, out);
        }
    }

    /// What a template has decided and is not there.
    fn to_be_made(&self, id: JobId) -> Option<ScheduledJob> {
        let job = self.picture.facts.jobs.get(&id)?;
        let head = job.head.as_ref().filter(|h| h.goal.desired == Desired::Running)?;
        head.rare.schedule.as_ref()?.opening.as_ref()?;
        let opening = state_of(id, job).opening?;
        let child = opening.job(id);
        let is_new = !self.flows.has(FlowKind::Creation, id) && self.is_to_be_made(child);
        (job.is_live() && is_new).then(|| ScheduledJob {
            template: id,
            version: head.spec_version,
            opening,
            job: child,
            pool_id: head.common.pool_id.clone(),
        })
    }

    /// Whether a job is known to need its name no more.
    pub(crate) fn is_over(&self, id: JobId) -> bool {
        let job = self.picture.facts.jobs.get(&id);
        let ended = job.is_some_and(|j| {
            j.desired() == Desired::Deleted || j.progress.as_ref().is_some_and(|p| p.state().is_ended())
        });
        ended || self.picture.facts.ended.contains_key(&id) || self.tombstones.contains_key(&id)
    }
}

/// Takes the name, stores the spec, then the head.
async fn create(mut port: FlowPort, scheduled: ScheduledJob) -> FlowEnd {
    let job = scheduled.job;
    let Some(template) = port.spec(scheduled.template, scheduled.version).await else {
        return FlowEnd::GivenUp;
    };
    let Some(name) = take_name(&mut port, &scheduled, &template.name).await else {
        return FlowEnd::GivenUp;
    };
    let mut spec = template.child(name, &scheduled.opening.after);
    let put = Decision::PutSpec {
        job,
        version: 1,
        spec: spec.clone(),
    };
    // An earlier try may have stored the spec, of another version of the template: that one counts.
    match port.decide(put).await {
        Some(Decided::Applied) => {}
        Some(Decided::Conflict(there)) => match *there {
            Answer::Spec(Some(there)) => spec = there,
            _ => return FlowEnd::GivenUp,
        },
        None => return FlowEnd::GivenUp,
    }
    // The job is there, by this write or another, or its id is barred; its template is looked at again.
    port.put_head(first_head(&scheduled, &spec), None).await
}

/// Takes a name for the job. A job that has not ended keeps its name, and the new job gets another one.
async fn take_name(port: &mut FlowPort, scheduled: &ScheduledJob, template: &str) -> Option<String> {
    let mut name = child_name(template, scheduled.opening.due);
    let mut expected: Option<Version> = None;
    for _ in 0..=TRIES {
        let take = Decision::TakeName {
            name: name.clone(),
            holder: NameHolder {
                job: scheduled.job,
                version: expected.map_or(Version(1), Version::next),
            },
            expected,
        };
        let there = match port.decide(take).await? {
            Decided::Applied => return Some(name),
            Decided::Conflict(there) => *there,
        };
        let Answer::Name(holder) = there else { return None };
        expected = match holder {
            None => None,
            Some(holder) if holder.job == scheduled.job => return Some(name),
            Some(holder) if port.is_over(holder.job).await => Some(holder.version),
            Some(_) => {
                name = other_child_name(template, scheduled.opening.due, scheduled.job);
                None
            }
        };
    }
    None
}

fn first_head(scheduled: &ScheduledJob, spec: &JobSpec) -> Head {
    Head {
        job: scheduled.job,
        version: Version(1),
        void: false,
        goal: Goal::default(),
        spec_version: 1,
        name: spec.name.clone(),
        pool: spec.pool.clone(),
        pool_id: scheduled.pool_id.clone(),
        kind: spec.kind,
        owner: spec.owner.clone(),
        labels: spec.labels.clone(),
        instances: spec.instances(),
        // The decision's time, not this try's: every try writes the same bytes.
        updated_at: scheduled.opening.at,
        rollout: None,
        past_rollouts: Vec::new(),
        verdict: None,
        restarts: None,
        spec_digest: Some(SpecDigest::of(1, spec)),
        schedule: None,
        origin: Some(Box::new(scheduled.opening.origin(scheduled.template))),
    }
}
