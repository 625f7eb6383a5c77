//! Job specs between wire and model. What is left out on the wire gets its default here, so a spec that was read is
//! complete, and writing it spells every default out.

use super::cluster_choice::{cluster_choice, read_cluster_choice};
use super::quantity::{duration, read_duration, read_resources, resources};
use super::rules::{self, exit_codes, read_exit_codes, read_restart, restart};
use super::runtime::{own, read_own, read_runtime, runtime};
use super::{Problems, at, gang, rollout, schedule, siting};
use crate::echelon::v1;
use echelon_core_model::pod::Sidecar;
use echelon_core_model::rules::Rules;
use echelon_core_model::spec::{GroupSpec, JobKind, JobSpec, OnSilence, Retry, defaults};
use echelon_core_model::volume::{PersistentVolume, Reclaim};
use echelon_core_model::{Amount, GroupName, SidecarName, Span};

/// To the wire, with all defaults spelt out.
#[must_use]
pub fn spec(s: &JobSpec) -> v1::JobSpec {
    v1::JobSpec {
        name: s.name.clone(),
        pool: s.pool.clone(),
        kind: kind(s.kind).into(),
        owner: s.owner.clone(),
        labels: s.labels.clone(),
        priority: Some(s.priority),
        clusters: Some(cluster_choice(&s.clusters)),
        revocable: s.revocable,
        preemptible: Some(s.preemptible),
        controller: s.controller,
        gang: s.gang.as_ref().map(gang::gang),
        completion: rules::completion(s.rules.completion),
        max_failed: s.rules.max_failed.map(rollout::amount),
        max_wait: rules::span(s.rules.max_wait),
        max_total: rules::span(s.rules.max_total),
        after: s.rules.after.iter().map(rules::after).collect(),
        keep: rules::span(s.rules.keep),
        schedule: s.rules.schedule.as_ref().map(schedule::schedule),
        driver: rules::driver(s.rules.driver.as_ref()),
        withdrawn: rules::withdrawn(&s.rules.withdrawn),
        on_unreachable: Some(silence(s.on_unreachable)),
        on_gone: s.on_gone.map(silence),
        on_cluster_loss: Some(silence(s.on_cluster_loss)),
        update: Some(rollout::policy(&s.update)),
        groups: s.groups.iter().map(group).collect(),
    }
}

/// To the wire.
#[must_use]
pub const fn kind(kind: JobKind) -> v1::JobKind {
    match kind {
        JobKind::Batch => v1::JobKind::Batch,
        JobKind::Service => v1::JobKind::Service,
        JobKind::Stateful => v1::JobKind::Stateful,
        JobKind::Daemon => v1::JobKind::Daemon,
    }
}

/// To the wire.
#[must_use]
pub fn silence(on: OnSilence) -> v1::OnSilence {
    use v1::on_silence::Action;
    v1::OnSilence {
        action: Some(match on {
            OnSilence::Replace(after) => Action::ReplaceAfter(duration(after)),
            OnSilence::Wait => Action::Wait(()),
        }),
    }
}

fn group(g: &GroupSpec) -> v1::GroupSpec {
    v1::GroupSpec {
        name: g.name.as_str().to_owned(),
        instances: g.instances,
        max_running: g.max_running,
        resources: Some(resources(&g.resources)),
        sidecars: g.sidecars.iter().map(sidecar).collect(),
        constraints: g.constraints.iter().map(siting::constraint).collect(),
        preferences: g.siting.preferences.iter().map(siting::preference).collect(),
        max_per: g.siting.max_per.clone(),
        spread_over: g.siting.spread_over.clone(),
        affinity: g.siting.affinity.iter().map(siting::affinity).collect(),
        anti_affinity: g.siting.anti_affinity.iter().map(siting::affinity).collect(),
        exclusive: g.siting.exclusive,
        strategy: g.siting.strategy.clone().unwrap_or_default(),
        host_pool: g.siting.host_pool.to_string(),
        retry: Some(v1::Retry {
            limit: Some(g.retry.limit),
            backoff: Some(duration(g.retry.backoff)),
            max_backoff: Some(duration(g.retry.max_backoff)),
            no_retry_exit_codes: exit_codes(&g.retry.no_retry_exit_codes),
        }),
        platform_retry: Some(g.platform_retry),
        restart: restart(g.restart).into(),
        drain: Some(duration(g.drain)),
        grace: Some(duration(g.grace)),
        max_run: g.max_run.map(duration),
        max_start: g.max_start.map(duration),
        overrides: g.overrides.iter().map(own).collect(),
        max_unavailable: match g.max_unavailable {
            Amount::Count(n) => Some(n),
            Amount::Percent(_) => None,
        },
        max_unavailable_percent: match g.max_unavailable {
            Amount::Count(_) => None,
            Amount::Percent(p) => Some(p),
        },
        volume: g.volume.as_ref().map(volume),
        revision: g.revision,
        ..runtime(&g.runtime)
    }
}

/// Its runtime as a group's has it, without ports and readiness.
fn sidecar(s: &Sidecar) -> v1::Sidecar {
    let r = runtime(&s.runtime);
    v1::Sidecar {
        name: s.name.to_string(),
        command: r.command,
        args: r.args,
        entrypoint: r.entrypoint,
        env: r.env,
        secrets: r.secrets,
        user: r.user,
        working_dir: r.working_dir,
        uris: r.uris,
        container: r.container,
        health: r.health,
        resources: Some(resources(&s.resources)),
    }
}

/// From the wire, all or nothing: for specs that were stored.
///
/// # Errors
/// Every problem, with the path of its field from the spec's root.
pub fn from_wire(s: v1::JobSpec) -> Result<JobSpec, Problems> {
    let mut problems = Problems::default();
    let spec = read_spec(s, "", &mut problems);
    problems.or(spec)
}

/// From the wire: what could be read, with its problems noted under `path`. What they are about holds a default then.
pub fn read_spec(s: v1::JobSpec, path: &str, problems: &mut Problems) -> JobSpec {
    let kind = read_kind(s.kind, path, problems);
    JobSpec {
        name: s.name,
        pool: if s.pool.is_empty() {
            defaults::POOL.to_owned()
        } else {
            s.pool
        },
        kind,
        owner: s.owner,
        labels: s.labels,
        // Of what was stored before pools had a default: 0. Who submits or changes a job puts the pool's here.
        priority: s.priority.unwrap_or_default(),
        clusters: Box::new(read_cluster_choice(
            s.clusters.unwrap_or_default(),
            &at(path, "clusters"),
            problems,
        )),
        revocable: s.revocable,
        preemptible: s.preemptible.unwrap_or(true),
        controller: s.controller,
        gang: s.gang.map(|g| gang::read_gang(g, &at(path, "gang"), problems)),
        rules: Box::new(Rules {
            completion: rules::read_completion(s.completion),
            max_failed: s
                .max_failed
                .map(|a| rollout::read_amount(&a, &at(path, "max_failed"), problems)),
            max_wait: rules::read_span(s.max_wait, &at(path, "max_wait"), problems),
            max_total: rules::read_span(s.max_total, &at(path, "max_total"), problems),
            after: s
                .after
                .into_iter()
                .enumerate()
                .map(|(i, a)| rules::read_after(a, &at(path, &format!("after[{i}]")), problems))
                .collect(),
            keep: rules::read_span(s.keep, &at(path, "keep"), problems),
            schedule: s
                .schedule
                .map(|s| schedule::read_schedule(s, &at(path, "schedule"), problems)),
            driver: rules::read_driver(&s.driver, &at(path, "driver"), problems),
            withdrawn: rules::read_withdrawn(s.withdrawn, &at(path, "withdrawn"), problems),
        }),
        on_unreachable: read_silence(s.on_unreachable, &at(path, "on_unreachable"), problems)
            .unwrap_or(defaults::on_unreachable(kind)),
        on_gone: read_silence(s.on_gone, &at(path, "on_gone"), problems),
        on_cluster_loss: read_silence(s.on_cluster_loss, &at(path, "on_cluster_loss"), problems)
            .unwrap_or(defaults::on_cluster_loss(kind)),
        update: rollout::read_policy(s.update.unwrap_or_default(), &at(path, "update"), problems),
        groups: s
            .groups
            .into_iter()
            .enumerate()
            .map(|(i, g)| read_group(g, kind, &at(path, &format!("groups[{i}]")), problems))
            .collect(),
    }
}

fn read_kind(number: i32, path: &str, problems: &mut Problems) -> JobKind {
    match v1::JobKind::try_from(number) {
        Ok(v1::JobKind::Batch) => return JobKind::Batch,
        Ok(v1::JobKind::Service) => return JobKind::Service,
        Ok(v1::JobKind::Stateful) => return JobKind::Stateful,
        Ok(v1::JobKind::Daemon) => return JobKind::Daemon,
        Ok(v1::JobKind::Unspecified) | Err(_) => {
            problems.add(at(path, "kind"), "must be batch, service, stateful or daemon");
        }
    }
    JobKind::Batch
}

/// From the wire; none where it is left out.
pub fn read_silence(on: Option<v1::OnSilence>, path: &str, problems: &mut Problems) -> Option<OnSilence> {
    use v1::on_silence::Action;
    match on?.action {
        Some(Action::ReplaceAfter(after)) => Some(OnSilence::Replace(read_duration(
            &after,
            || at(path, "replace_after"),
            problems,
        ))),
        Some(Action::Wait(())) => Some(OnSilence::Wait),
        None => {
            problems.add(path, "must be replace_after with a time, or wait");
            None
        }
    }
}

fn read_group(mut g: v1::GroupSpec, kind: JobKind, path: &str, problems: &mut Problems) -> GroupSpec {
    let runtime = read_runtime(&mut g, path, problems);
    let sidecars = std::mem::take(&mut g.sidecars).into_iter().enumerate();
    let sidecars = sidecars.map(|(i, s)| read_sidecar(s, &at(path, &format!("sidecars[{i}]")), problems));
    let sidecars = sidecars.collect();
    let overrides = std::mem::take(&mut g.overrides).into_iter().enumerate();
    let overrides = overrides.map(|(i, o)| read_own(o, &at(path, &format!("overrides[{i}]")), problems));
    let overrides = overrides.collect();
    let max_unavailable = read_unavailable(&g, path, problems);
    let siting = siting::read(&mut g, kind, path, problems);
    let constraints = siting::read_constraints(std::mem::take(&mut g.constraints), path, problems);
    let mut span = |d: Option<prost_types::Duration>, field: &str| -> Option<Span> {
        d.map(|d| read_duration(&d, || at(path, field), problems))
    };
    let grace = span(g.grace, "grace").unwrap_or(defaults::GRACE);
    let drain = span(g.drain, "drain").unwrap_or(Span::ZERO);
    let max_run = span(g.max_run, "max_run");
    let max_start = span(g.max_start, "max_start");
    let retry = g.retry.unwrap_or_default();
    let default = defaults::retry(kind);
    let retry = Retry {
        limit: retry.limit.unwrap_or(default.limit),
        backoff: span(retry.backoff, "retry.backoff").unwrap_or(default.backoff),
        max_backoff: span(retry.max_backoff, "retry.max_backoff").unwrap_or(default.max_backoff),
        no_retry_exit_codes: read_exit_codes(&retry.no_retry_exit_codes, path, problems),
    };
    GroupSpec {
        name: read_name(&g.name, path, problems),
        instances: g.instances,
        max_running: g.max_running,
        runtime,
        overrides,
        resources: read_resources(g.resources),
        volume: g.volume.map(|v| read_volume(v, &at(path, "volume"), problems)),
        sidecars,
        constraints,
        siting,
        retry,
        platform_retry: g.platform_retry.unwrap_or_else(|| defaults::platform_retry(kind)),
        restart: read_restart(g.restart, path, problems),
        drain,
        grace,
        max_run,
        max_start,
        max_unavailable,
        revision: g.revision,
    }
}

fn read_unavailable(g: &v1::GroupSpec, path: &str, problems: &mut Problems) -> Amount {
    match (g.max_unavailable, g.max_unavailable_percent) {
        (None, None) => defaults::MAX_UNAVAILABLE,
        (Some(n), None) => Amount::Count(n),
        (None, Some(part @ 1..=100)) => Amount::Percent(part),
        (None, Some(_)) => {
            problems.add(at(path, "max_unavailable_percent"), "must be 1 to 100");
            defaults::MAX_UNAVAILABLE
        }
        (Some(_), Some(_)) => {
            let field = at(path, "max_unavailable_percent");
            problems.add(field, "must be left out where there is a max_unavailable");
            defaults::MAX_UNAVAILABLE
        }
    }
}

fn volume(v: &PersistentVolume) -> v1::PersistentVolume {
    let reclaim = match v.reclaim {
        Reclaim::Keep => v1::Reclaim::Keep,
        Reclaim::Delete => v1::Reclaim::Delete,
    };
    v1::PersistentVolume {
        path: v.path.clone(),
        size_mib: v.size,
        reclaim: reclaim.into(),
        replace_after: v.replace_after.map(duration),
    }
}

fn read_volume(v: v1::PersistentVolume, path: &str, problems: &mut Problems) -> PersistentVolume {
    let reclaim = match v1::Reclaim::try_from(v.reclaim) {
        Ok(v1::Reclaim::Unspecified | v1::Reclaim::Keep) => Reclaim::Keep,
        Ok(v1::Reclaim::Delete) => Reclaim::Delete,
        Err(_) => {
            problems.add(at(path, "reclaim"), "must be keep or delete");
            Reclaim::Keep
        }
    };
    let replace_after = v
        .replace_after
        .map(|d| read_duration(&d, || at(path, "replace_after"), problems));
    PersistentVolume {
        path: v.path,
        size: v.size_mib,
        reclaim,
        replace_after,
    }
}

fn read_sidecar(s: v1::Sidecar, path: &str, problems: &mut Problems) -> Sidecar {
    let mut parts = v1::GroupSpec {
        command: s.command,
        args: s.args,
        entrypoint: s.entrypoint,
        env: s.env,
        secrets: s.secrets,
        user: s.user,
        working_dir: s.working_dir,
        uris: s.uris,
        container: s.container,
        health: s.health,
        ..v1::GroupSpec::default()
    };
    Sidecar {
        name: SidecarName::parse(&s.name).unwrap_or_else(|wrong| {
            problems.add(at(path, "name"), wrong.to_string());
            SidecarName::new(&s.name)
        }),
        runtime: read_runtime(&mut parts, path, problems),
        resources: read_resources(s.resources),
    }
}

fn read_name(name: &str, path: &str, problems: &mut Problems) -> GroupName {
    if name.is_empty() {
        return GroupName::new(GroupName::DEFAULT);
    }
    GroupName::parse(name).unwrap_or_else(|wrong| {
        problems.add(at(path, "name"), wrong.to_string());
        GroupName::new(name)
    })
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
