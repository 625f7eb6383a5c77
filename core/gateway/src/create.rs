//! Makes a job. Every step is insert-if-absent or compare-and-set, so the same request id goes on where an earlier try
//! stopped: request -> job id, name -> job, spec, head. The head makes the job; until it is there, whoever wants the name
//! bars this job id with a void head and takes the name over.

use crate::error::{ApiError, ErrorReason};
use crate::port::Facts;
use crate::resource::job_ref;
use crate::validate::{self, Purpose, Violations};
use crate::view::{Federation, JobView, state};
use crate::{ask, bounds, instance_limits, lookup};
use echelon_core_model::job::{Desired, Goal, Head};
use echelon_core_model::job_defaults::NamedFields;
use echelon_core_model::rules::Rules;
use echelon_core_model::schedule::{Origin, ScheduleState};
use echelon_core_model::spec::JobSpec;
use echelon_core_model::spec_digest::SpecDigest;
use echelon_core_model::store::{Answer, Consistency, Decided, Decision, NameHolder, PlannedRequest, Query};
use echelon_core_model::{JobId, PoolId, RequestId, Timestamp, Version};

/// How often a name may be snatched away, or a planned id be barred, before the caller is told.
const TRIES: u32 = 8;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct CreateJob {
    /// The spec.
    pub spec: JobSpec,
    /// The fields of `spec` that the request names, of those for which pools have defaults.
    /// Of the others the pool's default holds, whatever `spec` says.
    pub named: NamedFields,
    /// What reading it from the wire found wrong.
    pub violations: Vec<crate::Violation>,
    /// Size of the spec as it is stored.
    pub bytes: usize,
    /// Hash of the request's content, the same for ever for the same content.
    pub hash: u64,
    /// Unique to this wish.
    pub request_id: String,
    /// The template that it is made of, where a command makes one.
    pub origin: Option<Origin>,
}

/// Makes the job, or finds that this request has made it. `chance` is 128 random bits.
///
/// # Errors
/// Wrong fields, a name that a live job has, a request id with other content, too many instances, or storage.
pub async fn create_job<F: Facts>(
    facts: &F,
    mut request: CreateJob,
    chance: u128,
    now: Timestamp,
) -> Result<JobView, ApiError> {
    let pool = match check(facts, &mut request).await {
        Ok(pool) => pool,
        // What was right when the job was made may be wrong by now (a pool that is gone); the job is still the answer.
        Err(wrong) => return made(facts, &request).await?.ok_or(wrong),
    };
    // A planned id that was barred is skipped; the next link of the chain plans another one. Request ids have no spaces.
    for link in 0..TRIES {
        let id = chained(&request.request_id, link);
        // Each link needs an id of its own.
        let fresh = JobId::new(now, chance.rotate_left(link * 16).wrapping_add(u128::from(link)));
        let planned = plan(facts, &request, id, fresh, now).await?;
        let head = ask::settled_head(facts, planned.job).await?;
        match head {
            Some(head) if head.void => {}
            Some(head) => return found(facts, head).await,
            None => {
                instance_limits::check(facts, planned.job, &request.spec).await?;
                if let Some(view) = make(facts, &request, pool.as_ref(), &planned).await? {
                    return Ok(view);
                }
            }
        }
    }
    Err(ApiError::new(
        ErrorReason::CreateOvertaken,
        format!(
            "creating `{}` was overtaken again and again by others that want the same name; nothing was created, try again",
            request.spec.name
        ),
    ))
}

fn chained(request: &str, link: u32) -> RequestId {
    match link {
        0 => RequestId::new(request),
        n => RequestId::new(format!("{request} {n}")),
    }
}

/// The job that this request has made before.
async fn made<F: Facts>(facts: &F, request: &CreateJob) -> Result<Option<JobView>, ApiError> {
    if request.request_id.is_empty() {
        return Ok(None);
    }
    for link in 0..TRIES {
        let query = Query::Request(chained(&request.request_id, link));
        let planned = match ask::read(facts, query, Consistency::Serial, "the request id").await? {
            Answer::Request(Some(planned)) if planned.hash == request.hash => planned,
            _ => return Ok(None),
        };
        match ask::settled_head(facts, planned.job).await? {
            Some(head) if head.void => {}
            Some(head) => return found(facts, head).await.map(Some),
            None => return Ok(None),
        }
    }
    Ok(None)
}

/// Checks the request, and finds its pool.
async fn check<F: Facts>(facts: &F, request: &mut CreateJob) -> Result<Option<PoolId>, ApiError> {
    let mut out = Violations::of(request.violations.clone());
    // Ours to set, as numbers are ended.
    request.spec.rules.withdrawn.clear();
    let pools = ask::pools(facts).await?;
    request.named.complete(&mut request.spec, &pools);
    validate::request_id(&request.request_id, &mut out);
    validate::spec(
        &request.spec,
        request.bytes,
        Purpose::Create,
        "job.spec",
        &mut out,
    );
    validate::references(&request.spec, None, "job.spec", &mut out);
    validate::in_pools(&request.spec.pool, &pools, "job.spec", &mut out);
    bounds::check(&request.spec, None, &pools, "job.spec", &mut out);
    validate::in_clusters(facts, &request.spec, "job.spec", &mut out).await?;
    find_awaited(facts, &mut request.spec, "job.spec", &mut out).await?;
    out.done()?;
    Ok(pools.pools.get(&request.spec.pool).map(|p| p.id.clone()))
}

/// Finds the jobs that this one is to wait for: they have to be there now, so that no two can wait for each other.
pub(crate) async fn find_awaited<F: Facts>(
    facts: &F,
    spec: &mut JobSpec,
    path: &str,
    out: &mut Violations,
) -> Result<(), ApiError> {
    for (i, after) in spec.rules.after.iter_mut().enumerate() {
        let field = format!("{path}.after[{i}].job");
        let Some(wanted) = job_ref(&after.job) else {
            out.check(false, field, "must be the name or id of a job");
            continue;
        };
        match lookup::job(facts, &wanted).await {
            Ok(head) if head.goal.desired == Desired::Deleted => {
                out.check(false, field, format!("job `{wanted}` is deleted"));
            }
            Ok(head) => after.id = Some(head.job),
            Err(wrong) if wrong.reason == ErrorReason::JobNotFound => {
                let problem = format!("there is no job `{wanted}`; submit it before those that wait for it");
                out.check(false, field, problem);
            }
            Err(wrong) => return Err(wrong),
        }
    }
    Ok(())
}

async fn plan<F: Facts>(
    facts: &F,
    request: &CreateJob,
    id: RequestId,
    job: JobId,
    now: Timestamp,
) -> Result<PlannedRequest, ApiError> {
    let planned = PlannedRequest {
        job,
        hash: request.hash,
        at: now,
    };
    let decision = Decision::PlanRequest {
        id,
        planned: planned.clone(),
    };
    match ask::decide(facts, decision, "the request id").await? {
        Decided::Applied => Ok(planned),
        Decided::Conflict(there) => match *there {
            Answer::Request(Some(earlier)) if earlier.hash == request.hash => Ok(earlier),
            Answer::Request(Some(_)) => Err(ApiError::field(
                "request_id",
                "was used for another job within the last 24 hours; use a new one for a new wish",
            )
            .because(ErrorReason::RequestIdReused)),
            _ => Err(ask::broken_conflict("the request id")),
        },
    }
}

async fn found<F: Facts>(facts: &F, head: Head) -> Result<JobView, ApiError> {
    let spec = ask::spec(facts, head.job, head.spec_version).await?;
    let progress = ask::progress(facts, head.job).await?;
    let federation = Federation::read(facts).await?;
    let paths = ask::paths_of(facts, &head).await?;
    Ok(JobView::new(head, spec, progress, &federation).in_tree(&paths))
}

/// Goes the way from the planned id to the head; `None` when the planned id was barred meanwhile.
async fn make<F: Facts>(
    facts: &F,
    request: &CreateJob,
    pool: Option<&PoolId>,
    planned: &PlannedRequest,
) -> Result<Option<JobView>, ApiError> {
    take_name(facts, &request.spec.name, planned).await?;
    let spec = &put_first_spec(facts, planned.job, request).await?;
    let head = Head {
        origin: request.origin.clone().map(Box::new),
        ..first_head(spec, pool, planned)
    };
    let decision = Decision::PutHead {
        head: head.clone(),
        expected: None,
    };
    match ask::decide(facts, decision, "the job").await? {
        Decided::Applied => Ok(Some(JobView::new(
            head,
            Some(spec.clone()),
            None,
            &Federation::default(),
        ))),
        Decided::Conflict(there) => match *there {
            Answer::Head(Some(there)) if there.void => Ok(None),
            Answer::Head(Some(there)) => found(facts, there).await.map(Some),
            _ => Err(ask::broken_conflict("the job")),
        },
    }
}

/// The spec of the job's first version. An earlier try of this request may have stored it with what was usual in the pool by then:
/// that one holds, so that every try makes the same job.
async fn put_first_spec<F: Facts>(facts: &F, job: JobId, request: &CreateJob) -> Result<JobSpec, ApiError> {
    let made = request.origin.is_some();
    let mut spec = request.spec.clone();
    spec.settle_revisions(None, 1);
    let decision = Decision::PutSpec {
        job,
        version: 1,
        spec: spec.clone(),
    };
    match ask::decide(facts, decision, "the spec").await? {
        Decided::Applied => Ok(spec),
        Decided::Conflict(there) => match *there {
            // The template of a job that is made by command may have changed between two tries.
            Answer::Spec(Some(there)) if made || differs_in_what_is_usual(&there, &spec) => Ok(there),
            _ => Err(ask::broken_conflict("the spec")),
        },
    }
}

fn differs_in_what_is_usual(there: &JobSpec, spec: &JobSpec) -> bool {
    let same = JobSpec {
        priority: there.priority,
        on_cluster_loss: there.on_cluster_loss,
        rules: Box::new(Rules {
            // The same words, which may mean another job by now.
            after: there.rules.after.clone(),
            ..Rules::clone(&spec.rules)
        }),
        ..spec.clone()
    };
    same == *there
}

fn first_head(spec: &JobSpec, pool: Option<&PoolId>, planned: &PlannedRequest) -> Head {
    Head {
        job: planned.job,
        version: Version(1),
        void: false,
        goal: Goal::default(),
        spec_version: 1,
        name: spec.name.clone(),
        pool: spec.pool.clone(),
        pool_id: pool.cloned(),
        kind: spec.kind,
        owner: spec.owner.clone(),
        labels: spec.labels.clone(),
        instances: spec.instances(),
        // The plan's time, not this try's: every try writes the same bytes, while its pool is where it was.
        updated_at: planned.at,
        rollout: None,
        past_rollouts: Vec::new(),
        verdict: None,
        schedule: spec
            .is_template()
            .then(|| Box::new(ScheduleState::from(planned.at))),
        origin: None,
        restarts: None,
        spec_digest: Some(SpecDigest::of(1, spec)),
    }
}

async fn take_name<F: Facts>(facts: &F, name: &str, planned: &PlannedRequest) -> Result<(), ApiError> {
    let mut before: Option<Version> = None;
    for _ in 0..TRIES {
        let holder = NameHolder {
            job: planned.job,
            version: before.map_or(Version(1), Version::next),
        };
        let decision = Decision::TakeName {
            name: name.to_owned(),
            holder,
            expected: before,
        };
        let there = match ask::decide(facts, decision, "the name").await? {
            Decided::Applied => return Ok(()),
            Decided::Conflict(there) => there,
        };
        before = match *there {
            Answer::Name(Some(there)) if there.job == planned.job => return Ok(()),
            Answer::Name(Some(there)) => {
                free(facts, name, there.job, planned).await?;
                Some(there.version)
            }
            Answer::Name(None) => None,
            _ => return Err(ask::broken_conflict("the name")),
        };
    }
    Err(ApiError::new(
        ErrorReason::Contention,
        format!("others take the name `{name}` all the time; nothing was created, try again"),
    ))
}

/// Makes sure that the present holder of a name is no live job and never will be one.
async fn free<F: Facts>(
    facts: &F,
    name: &str,
    holder: JobId,
    planned: &PlannedRequest,
) -> Result<(), ApiError> {
    let head = match ask::settled_head(facts, holder).await? {
        Some(head) => head,
        None => match bar(facts, name, holder, planned).await? {
            None => return Ok(()),
            Some(head) => head,
        },
    };
    if head.void || head.goal.desired == Desired::Deleted {
        return Ok(());
    }
    if state(ask::progress(facts, holder).await?.as_ref()).is_ended() {
        return Ok(());
    }
    Err(ApiError::new(
        ErrorReason::JobNameTaken,
        format!(
            "job {holder} has the name `{name}` and has not ended; choose another name, or end it with `echelon job stop {name}`"
        ),
    ))
}

/// Bars a job id whose creator stopped half way; the head, if its creator came first.
async fn bar<F: Facts>(
    facts: &F,
    name: &str,
    job: JobId,
    planned: &PlannedRequest,
) -> Result<Option<Head>, ApiError> {
    let void = Head {
        job,
        version: Version(1),
        void: true,
        goal: Goal::default(),
        spec_version: 0,
        name: name.to_owned(),
        pool: String::new(),
        pool_id: None,
        kind: echelon_core_model::spec::JobKind::Batch,
        owner: String::new(),
        labels: std::collections::BTreeMap::new(),
        instances: 0,
        updated_at: planned.at,
        rollout: None,
        past_rollouts: Vec::new(),
        verdict: None,
        schedule: None,
        origin: None,
        restarts: None,
        spec_digest: None,
    };
    let decision = Decision::PutHead {
        head: void,
        expected: None,
    };
    match ask::decide(facts, decision, "the name").await? {
        Decided::Applied => Ok(None),
        Decided::Conflict(there) => match *there {
            Answer::Head(Some(head)) => Ok(Some(head)),
            _ => Err(ask::broken_conflict("the job")),
        },
    }
}

#[cfg(test)]
#[path = "create_tests.rs"]
mod tests;
