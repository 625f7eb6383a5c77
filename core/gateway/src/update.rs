//! Changes the spec of a job: writes a new immutable version, then the head that names it. What a change may not touch is
//! refused with what to do instead. What instances of a service run is brought to all of them by a rollout; of a batch job new values hold
//! for runs that begin from now on, and a restart makes all take them.

use crate::change::{self, Change, Present};
use crate::error::{ApiError, ErrorReason, Violation};
use crate::port::Facts;
use crate::validate::{self, Purpose, Violations};
use crate::view::JobView;
use crate::{ask, bounds, instance_limits, rollouts, schedules};
use echelon_core_model::job::Head;
use echelon_core_model::job_defaults::JobDefaults;
use echelon_core_model::pool::{PoolPaths, PoolTree};
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::store::{Decided, Decision};
use echelon_core_model::volume::PersistentVolume;
use echelon_core_model::{GroupName, Timestamp};
use std::collections::BTreeMap;
use std::fmt::Display;

/// How often others may come first before the caller is told.
const TRIES: u32 = 16;
/// Versions that others have written and not put into force, and that are stepped over.
const ORPHANS: u32 = 64;

/// Makes the wanted spec from the present one: the wire's field mask, applied by the caller. Also the size it is stored in.
pub trait Edit {
    /// The new spec with its stored size. `defaults` are those of its pool. They hold for fields that the edit
    /// takes and leaves out.
    ///
    /// # Errors
    /// What is wrong with the request.
    fn apply(&self, present: &JobSpec, defaults: JobDefaults) -> Result<(JobSpec, usize), ApiError>;
}

impl<T: Fn(&JobSpec) -> Result<(JobSpec, usize), ApiError>> Edit for T {
    fn apply(&self, present: &JobSpec, _: JobDefaults) -> Result<(JobSpec, usize), ApiError> {
        self(present)
    }
}

/// Changes the spec.
///
/// # Errors
/// No such job, an old etag, wrong or unchangeable fields, too many instances, a job that has ended,
/// or storage.
pub async fn update_job<F: Facts>(
    facts: &F,
    change: Change,
    edit: impl Edit,
    now: Timestamp,
) -> Result<JobView, ApiError> {
    for _ in 0..TRIES {
        let at = change::present(facts, &change).await?;
        change::check_alive(&at)?;
        let pools = ask::pools(facts).await?;
        let submitted = at.spec.pool.clone();
        let at = in_tree(at, &pools);
        let defaults = pools.job_defaults(&at.spec.pool);
        let (mut spec, bytes) = edit.apply(&at.spec, defaults)?;
        // A file that was written before the pool moved means the same pool, while no other one is there.
        if spec.pool == submitted && !pools.pools.contains_key(&submitted) {
            spec.pool.clone_from(&at.spec.pool);
        }
        check(&at.spec, &spec, bytes, &pools)?;
        spec.settle_revisions(Some(&at.spec), at.head.spec_version);
        if spec == at.spec {
            return change::view(facts, at).await;
        }
        if spec.instances() > at.spec.instances() {
            instance_limits::check(facts, at.head.job, &spec).await?;
        }
        let base = base(facts, &at).await?;
        let settle = |spec: &mut JobSpec, version: u32| {
            spec.settle_revisions(Some(&at.spec), version);
            if let Some((number, base)) = &base {
                spec.settle_as(base, *number, version);
            }
        };
        let (version, spec) = put_spec(facts, &at, spec, settle).await?;
        let mut head = Head {
            owner: spec.owner.clone(),
            labels: spec.labels.clone(),
            instances: spec.instances(),
            ..at.head.clone()
        };
        if is_rolled_out(&at.spec, &spec) {
            head.begin_rollout(rollouts::next(&at, now), version, rollouts::known(&at));
        }
        head.spec_version = version;
        schedules::settle(&mut head, &at.spec, &spec, now);
        let at = Present { spec, ..at };
        if let Some(done) = change::put(facts, &change, at, head, now).await? {
            return change::view(facts, done).await;
        }
    }
    Err(change::contention(&change.job))
}

/// The job with its pool where it is now, and its id.
fn in_tree(at: Present, pools: &PoolTree) -> Present {
    let Present {
        mut head,
        progress,
        mut spec,
    } = at;
    let path = PoolPaths::of(pools).of_job(&head).to_owned();
    let there = pools.pools.get(&path).map(|p| p.id.clone());
    head.pool_id = there.or(head.pool_id);
    spec.pool.clone_from(&path);
    head.pool = path;
    Present { head, progress, spec }
}

/// That a group is not one of those that are meant, or that one has to be named.
pub(crate) fn wrong_group<'a>(
    wanted: Option<&GroupName>,
    known: impl Iterator<Item = &'a GroupName>,
) -> ApiError {
    let known: Vec<&str> = known.map(GroupName::as_str).collect();
    let known = known.join(", ");
    let problem = match wanted {
        Some(name) => format!("`{name}` is none of {known}"),
        None => format!("has to be named, since the job has several: {known}"),
    };
    ApiError::field("group", problem)
}

/// Changes the number of instances of a group; the only one when none is named.
///
/// # Errors
/// As [`update_job`].
pub async fn scale_job<F: Facts>(
    facts: &F,
    change: Change,
    group: Option<GroupName>,
    instances: u32,
    now: Timestamp,
) -> Result<JobView, ApiError> {
    let edit = move |present: &JobSpec| {
        let mut spec = present.clone();
        let wrong = wrong_group(group.as_ref(), spec.groups.iter().map(|g| &g.name));
        let found = match (&group, spec.groups.as_mut_slice()) {
            (None, [only]) => Some(only),
            (None, _) => None,
            (Some(name), groups) => groups.iter_mut().find(|g| g.name == *name),
        };
        let found = found.ok_or(wrong)?;
        found.instances = instances;
        let name = found.name.clone();
        let mut out = Violations::default();
        validate::instances(&spec, &name, "instances", &mut out);
        out.done()?;
        // A number more or less does not make a spec too large.
        Ok((spec, 0))
    };
    update_job(facts, change, edit, now).await
}

fn check(before: &JobSpec, after: &JobSpec, bytes: usize, pools: &PoolTree) -> Result<(), ApiError> {
    let fixed = immutable(before, after);
    if !fixed.is_empty() {
        let told: Vec<&str> = fixed.iter().map(|v| v.field.as_str()).collect();
        return Err(ApiError {
            message: format!(
                "{} cannot be changed; create a new job and stop this one",
                told.join(", ")
            ),
            reason: ErrorReason::FieldImmutable,
            violations: fixed,
            inner: None,
        });
    }
    let mut out = Violations::default();
    validate::spec(after, bytes, Purpose::Change, "job.spec", &mut out);
    validate::references(after, Some(before), "job.spec", &mut out);
    bounds::check(after, Some(before), pools, "job.spec", &mut out);
    out.done()
}

fn immutable(before: &JobSpec, after: &JobSpec) -> Vec<Violation> {
    let groups = |s: &JobSpec| {
        let mut names: Vec<GroupName> = s.groups.iter().map(|g| g.name.clone()).collect();
        names.sort();
        names
    };
    let rules = [
        ("name", before.name == after.name, stay(&before.name)),
        ("pool", before.pool == after.pool, stay(&before.pool)),
        ("kind", before.kind == after.kind, stay(&before.kind)),
        (
            "revocable",
            before.revocable == after.revocable,
            stay(&before.revocable),
        ),
        (
            "preemptible",
            before.preemptible == after.preemptible,
            stay(&before.preemptible),
        ),
        (
            "controller",
            before.controller == after.controller,
            stay(&before.controller),
        ),
        ("gang", before.gang == after.gang, stay_so()),
        ("after", before.rules.after == after.rules.after, stay_so()),
        (
            "driver",
            before.rules.driver == after.rules.driver,
            driver(before),
        ),
        (
            "schedule",
            before.is_template() == after.is_template(),
            if before.is_template() {
                "must stay: without it this is no template".to_owned()
            } else {
                "must stay away: only a job that was made with one is a template".to_owned()
            },
        ),
        ("clusters", before.clusters == after.clusters, stay_so()),
        (
            "groups",
            groups(before) == groups(after),
            "must stay the same groups".to_owned(),
        ),
    ];
    let volumes = |s: &JobSpec| -> BTreeMap<GroupName, Option<PersistentVolume>> {
        s.groups
            .iter()
            .map(|g| (g.name.clone(), g.volume.clone().map(unmoved)))
            .collect()
    };
    let volumes = ("groups.volume", volumes(before) == volumes(after), stay_so());
    rules
        .into_iter()
        .chain([volumes])
        .filter(|(_, same, _)| !same)
        .map(|(field, _, was)| Violation {
            field: format!("job.spec.{field}"),
            problem: format!("cannot be changed and {was}"),
        })
        .collect()
}

fn driver(s: &JobSpec) -> String {
    let driver = s.rules.driver.as_ref();
    driver.map_or_else(|| "must stay away".to_owned(), stay)
}

fn stay(was: &impl Display) -> String {
    format!("must stay `{was}`")
}

fn stay_so() -> String {
    "must stay as it was".to_owned()
}

/// A volume without what may change.
fn unmoved(volume: PersistentVolume) -> PersistentVolume {
    PersistentVolume {
        replace_after: None,
        ..volume
    }
}

/// The spec from which the rollout under way began, with its version.
async fn base<F: Facts>(facts: &F, at: &Present) -> Result<Option<(u32, JobSpec)>, ApiError> {
    let Some(rollout) = rollouts::under_way(at) else {
        return Ok(None);
    };
    let spec = ask::spec(facts, at.head.job, rollout.base).await?;
    Ok(spec.map(|s| (rollout.base, s)))
}

/// Whether what runs is to be replaced.
fn is_rolled_out(before: &JobSpec, after: &JobSpec) -> bool {
    let other = |g: &GroupSpec| before.group(&g.name).is_some_and(|b| b.revision != g.revision);
    after.kind.runs_for_ever() && after.groups.iter().any(other)
}

/// Writes the spec under the next free version; `settle` gives its groups their revisions for that one.
///
/// # Errors
/// `Contention`, or storage.
pub(crate) async fn put_spec<F: Facts>(
    facts: &F,
    at: &Present,
    mut spec: JobSpec,
    settle: impl Fn(&mut JobSpec, u32),
) -> Result<(u32, JobSpec), ApiError> {
    for step in 1..=ORPHANS {
        let version = at.head.spec_version.saturating_add(step);
        settle(&mut spec, version);
        let decision = Decision::PutSpec {
            job: at.head.job,
            version,
            spec: spec.clone(),
        };
        if ask::decide(facts, decision, "the spec").await? == Decided::Applied {
            return Ok((version, spec));
        }
    }
    Err(ApiError::new(
        ErrorReason::Contention,
        "others change this job all the time; nothing was changed, try again",
    ))
}
