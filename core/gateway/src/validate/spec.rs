//! Rules of a job spec as a whole.

use super::cluster_choice::cluster_choice;
use super::text::{LABEL_FORM, POOL_PATH_FORM, is_key, is_label, is_line, is_pool_path};
use super::{Violations, daemon, gang, group, rules, schedule};
use echelon_core_model::Amount;
use echelon_core_model::limits::{GROUPS, LABELS};
use echelon_core_model::pool::PoolTree;
use echelon_core_model::resources::Kind;
use echelon_core_model::spec::{
    CLUSTER_LOSS_WAITS, GroupSpec, JobKind, JobSpec, MAX_INSTANCES, MAX_SPEC_BYTES, OnSilence,
};
use echelon_core_model::sum::MOST_OF_JOB;
use echelon_core_model::{JobId, Span};
use std::collections::BTreeSet;

/// Shortest and longest wait before a silent run is replaced: below, every pause of a network starts a second run.
pub(super) const SHORTEST_SILENCE: Span = Span::seconds(1);
pub(super) const LONGEST_SPAN: Span = Span::minutes(365 * 24 * 60);

/// Longest time for which a replacement is watched before the next one follows.
const LONGEST_HEALTH: Span = Span::minutes(60);

/// What a spec is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A new job: every group has an instance.
    Create,
    /// A change: groups of a service may have none.
    Change,
}

/// Checks a spec that stands at `path` in its request; `bytes` is its size as it is stored.
pub fn spec(s: &JobSpec, bytes: usize, purpose: Purpose, path: &str, out: &mut Violations) {
    let at = |field: &str| format!("{path}.{field}");
    out.check(
        bytes <= MAX_SPEC_BYTES,
        path,
        format!("takes {bytes} bytes; at most {MAX_SPEC_BYTES} can be stored"),
    );
    out.check(is_label(&s.name), at("name"), LABEL_FORM);
    out.check(
        s.name.parse::<JobId>().is_err(),
        at("name"),
        "must not look like a job id",
    );
    out.check(is_pool_path(&s.pool), at("pool"), POOL_PATH_FORM);
    out.check(
        is_line(&s.owner, 128),
        at("owner"),
        "must be at most 128 bytes without control characters",
    );
    labels(s, &at("labels"), out);
    cluster_choice(&s.clusters, &at("clusters"), out);
    silence(s.on_unreachable, &at("on_unreachable"), out);
    if let Some(on_gone) = s.on_gone {
        silence(on_gone, &at("on_gone"), out);
    }
    cluster_loss(s, &at("on_cluster_loss"), out);
    groups(s, purpose, &at("groups"), out);
    whole(s, &at("groups"), out);
    out.check(
        !(s.revocable && s.kind == JobKind::Stateful),
        at("revocable"),
        "cannot be: what keeps data on a host does not run on room that is only lent",
    );
    out.check(
        s.preemptible || !s.revocable,
        at("preemptible"),
        "must be true where the job is revocable: what runs on lent room may be killed at any time",
    );
    gang::gang(s, path, out);
    update(s, &at("update"), out);
    max_unavailable(s, path, out);
    rules::of_job(s, path, out);
    daemon::of_job(s, path, out);
    schedule::check(s, path, out);
    let keeps_data = s.groups.iter().any(|g| g.volume.is_some());
    out.check(
        !keeps_data || s.on_unreachable == OnSilence::Wait,
        at("on_unreachable"),
        "must be wait: what is in an instance's volume is on its host only",
    );
    out.check(
        !keeps_data || !matches!(s.on_gone, Some(OnSilence::Replace(_))),
        at("on_gone"),
        "must be wait, or left out: what is in an instance's volume is on its host only",
    );
}

fn update(s: &JobSpec, path: &str, out: &mut Violations) {
    let policy = &s.update;
    let at = |field: &str| format!("{path}.{field}");
    out.check(
        policy.min_healthy <= LONGEST_HEALTH,
        at("min_healthy"),
        "must be at most 1 hour",
    );
    out.check(
        (SHORTEST_SILENCE..=LONGEST_SPAN).contains(&policy.healthy_within),
        at("healthy_within"),
        "must be 1 second to 365 days",
    );
    out.check(
        !policy.batch.is_some_and(is_none),
        at("batch"),
        "must be more than none; left out, it is as many as `max_unavailable` and `max_surge` allow",
    );
    let surges = !is_none(policy.max_surge);
    out.check(
        !surges || s.kind == JobKind::Service,
        at("max_surge"),
        format!("is for jobs of kind service; this one is of kind {}", s.kind),
    );
    let canaries = !is_none(policy.canaries);
    out.check(
        !canaries || s.kind.runs_for_ever(),
        at("canaries"),
        format!("are for jobs that run for ever; this one is of kind {}", s.kind),
    );
}

const fn is_none(amount: Amount) -> bool {
    matches!(amount, Amount::Count(0) | Amount::Percent(0))
}

/// None may be down only where others come first.
fn max_unavailable(s: &JobSpec, path: &str, out: &mut Violations) {
    let surges = s.kind == JobKind::Service && !is_none(s.update.max_surge);
    for (i, g) in s.groups.iter().enumerate() {
        let field = format!("{path}.groups[{i}].max_unavailable");
        match g.max_unavailable {
            Amount::Count(0) => out.check(
                surges,
                field,
                "must be 1 or more, else nothing could ever be restarted; it may be 0 where `update.max_surge` of a service is not",
            ),
            Amount::Count(_) => {}
            Amount::Percent(part) => {
                let problem = "must be 1% to 100% (of few instances it is at least one)";
                out.check((1..=100).contains(&part), field, problem);
            }
        }
    }
}

fn labels(s: &JobSpec, path: &str, out: &mut Violations) {
    out.check(
        s.labels.len() <= LABELS,
        path,
        format!("must be at most {LABELS}"),
    );
    for (key, value) in &s.labels {
        let field = format!("{path}[{key}]");
        out.check(
            is_key(key),
            field.clone(),
            "keys must be 1 to 63 characters of A-Z, a-z, 0-9 and `-_./`",
        );
        out.check(
            is_line(value, 255),
            field,
            "values must be at most 255 bytes without control characters",
        );
    }
}

fn silence(on: OnSilence, path: &str, out: &mut Violations) {
    if let OnSilence::Replace(after) = on {
        out.check(
            (SHORTEST_SILENCE..=LONGEST_SPAN).contains(&after),
            format!("{path}.replace_after"),
            "must be 1 second to 365 days",
        );
    }
}

/// What follows when its cluster is silent.
fn cluster_loss(s: &JobSpec, path: &str, out: &mut Violations) {
    let OnSilence::Replace(after) = s.on_cluster_loss else {
        return;
    };
    out.check(
        CLUSTER_LOSS_WAITS.contains(&after),
        format!("{path}.replace_after"),
        "must be 2 minutes to 365 days",
    );
    out.check(
        s.kind != JobKind::Daemon,
        path,
        "must be `wait` for a daemon: it belongs to the hosts of its cluster",
    );
}

fn groups(s: &JobSpec, purpose: Purpose, path: &str, out: &mut Violations) {
    out.check(
        (1..=GROUPS).contains(&s.groups.len()),
        path,
        format!("must be 1 to {GROUPS} groups"),
    );
    let mut seen = BTreeSet::new();
    for (i, g) in s.groups.iter().enumerate() {
        out.check(
            !s.revocable || g.resources.gpus == 0,
            format!("{path}[{i}].resources.gpus_milli"),
            "must be 0 where the job is revocable: no host lends GPUs",
        );
        let at = format!("{path}[{i}]");
        out.check(
            seen.insert(&g.name),
            format!("{at}.name"),
            format!("`{}` is the name of an earlier group", g.name),
        );
        let least = match purpose {
            // Who submits a service wants it to run.
            Purpose::Create if s.kind.runs_for_ever() => 1,
            _ => s.least_instances(&g.name),
        };
        group::check(g, s.kind, least, &at, out);
    }
}

/// Checks what all groups of a job come to: sums over jobs are exact for jobs that are no larger.
pub(super) fn whole(s: &JobSpec, field: &str, out: &mut Violations) {
    let groups = || s.groups.iter().filter(|g| g.instances <= MAX_INSTANCES);
    let instances: u64 = groups().map(|g| u64::from(g.instances)).sum();
    out.check(
        instances <= MAX_INSTANCES.into(),
        field,
        format!("have {instances} instances together; a job has at most {MAX_INSTANCES}: use several jobs"),
    );
    for kind in Kind::ALL {
        let of_group = |g: &GroupSpec| u128::from(g.room().get(kind)) * u128::from(g.most_active());
        let all: u128 = groups().map(of_group).sum();
        out.check(
            all <= MOST_OF_JOB.into(),
            field,
            format!(
                "may take more {kind} at once than the {} that a job may have: use smaller instances, or run fewer at once with `max_running`",
                kind.show(MOST_OF_JOB)
            ),
        );
    }
}

/// Checks that the spec's pool is there and takes jobs.
pub fn in_pools(pool: &str, pools: &PoolTree, path: &str, out: &mut Violations) {
    if !is_pool_path(pool) {
        return;
    }
    let field = format!("{path}.pool");
    if let Some(goes) = pools.deleting(pool) {
        out.check(
            false,
            field,
            format!(
                "`{}` is being deleted and takes no new job; use another pool, or keep it with `echelon pool undelete {}`",
                goes.path, goes.path
            ),
        );
    } else if pools.pools.contains_key(pool) {
        let below: Vec<&str> = pools.children(pool).map(|p| p.path.as_str()).collect();
        out.check(
            below.is_empty(),
            field,
            format!(
                "`{pool}` has pools below it and takes no jobs; use one of {}",
                below.join(", ")
            ),
        );
    } else {
        let known: Vec<&str> = pools.pools.keys().take(10).map(String::as_str).collect();
        out.check(
            false,
            field,
            format!(
                "there is no pool `{pool}`; create it with `echelon pool create {pool}`, or use one of: {}",
                known.join(", ")
            ),
        );
    }
}
