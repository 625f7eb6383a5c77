//! The job file of a specification, with every default written out. What has no default and is not given stays out.

mod siting;
mod task;

use super::cluster_choice;
use super::file::{GroupFile, JobFile, SidecarFile};
use super::form::Form;
use super::parts_file::{
    AfterFile, GangFile, OverrideFile, PersistentVolumeFile, ResourcesFile, RetryFile, ScheduleFile,
    UpdateFile,
};
use super::scalar::Scalar;
use super::words::{
    CATCH_UPS, CONDITIONS, KINDS, MEMBER_FAILURES, ON_FAILURES, OVERLAPS, RECLAIMS, RESTARTS, word,
};
use echelon_core_model::gang::Gang;
use echelon_core_model::overrides::Override;
use echelon_core_model::pod::Sidecar;
use echelon_core_model::rollout::UpdatePolicy;
use echelon_core_model::rules::{After, Completion};
use echelon_core_model::schedule::Schedule;
use echelon_core_model::spec::{GroupSpec, JobKind, JobSpec, Retry};
use echelon_core_model::volume::PersistentVolume;
use echelon_core_model::{GroupName, Kind, Resources, Span};
use std::collections::BTreeMap;
use std::fmt::Display;

/// The job file that says the same.
pub fn file(spec: &JobSpec) -> JobFile {
    let rules = &spec.rules;
    let file = JobFile {
        name: some(&spec.name),
        pool: some(&spec.pool),
        kind: some(word(&KINDS, &spec.kind)),
        owner: given(&spec.owner),
        labels: Some(texts(&spec.labels)).filter(|l| !l.is_empty()),
        priority: some(spec.priority),
        clusters: Some(cluster_choice::file(&spec.clusters)),
        revocable: some(spec.revocable),
        preemptible: some(spec.preemptible),
        controller: some(spec.controller),
        gang: spec.gang.as_ref().map(gang),
        completion: match rules.completion {
            Completion::All => some("all"),
            Completion::Successes(n) => some(n),
        },
        max_failed: rules.max_failed.and_then(some),
        max_wait: rules.max_wait.map(time).and_then(some),
        max_total: rules.max_total.map(time).and_then(some),
        after: list(&rules.after, after),
        keep: rules.keep.map(time).and_then(some),
        schedule: rules.schedule.as_ref().map(schedule),
        driver: rules.driver.as_ref().and_then(some),
        on_unreachable: some(spec.on_unreachable),
        on_gone: spec.on_gone.and_then(some),
        on_cluster_loss: some(spec.on_cluster_loss),
        update: Some(update(&spec.update)),
        ..JobFile::default()
    };
    match spec.groups.as_slice() {
        [only] if only.name.as_str() == GroupName::DEFAULT => file.with_group(group(only, spec.kind)),
        groups => {
            let groups = groups.iter().map(|g| (g.name.to_string(), group(g, spec.kind)));
            JobFile {
                groups: Some(groups.collect()),
                ..file
            }
        }
    }
}

fn group(g: &GroupSpec, kind: JobKind) -> GroupFile {
    let task = task::task(&g.runtime);
    let sited = siting::siting(g);
    GroupFile {
        // Those of a daemon are counted.
        instances: some(g.instances).filter(|_| kind != JobKind::Daemon),
        max_running: g.max_running.and_then(some),
        overrides: list(&g.overrides, own),
        ports: list(&g.runtime.ports, task::port),
        readiness: g.runtime.readiness.as_ref().map(task::probe),
        volume: g.volume.as_ref().map(volume),
        retry: Some(retry(&g.retry)),
        platform_retry: some(g.platform_retry),
        restart: some(word(&RESTARTS, &g.restart)),
        drain: some(time(g.drain)),
        grace: some(time(g.grace)),
        max_run: g.max_run.map(time).and_then(some),
        max_start: g.max_start.map(time).and_then(some),
        max_unavailable: some(g.max_unavailable),
        sidecars: list(&g.sidecars, sidecar),
        command: task.command,
        args: task.args,
        entrypoint: task.entrypoint,
        env: task.env,
        secrets: task.secrets,
        user: task.user,
        working_dir: task.working_dir,
        uris: task.uris,
        container: task.container,
        health: task.health,
        resources: Some(resources(g.resources)),
        ..sited
    }
}

fn gang(g: &Gang) -> GangFile {
    GangFile {
        start_within: some(time(g.start_within)),
        on_failure: some(word(&MEMBER_FAILURES, &g.on_failure)),
        topology: Some(all(&g.topology.levels)).filter(|l| !l.is_empty()),
        topology_required: some(g.topology.required),
    }
}

fn schedule(s: &Schedule) -> ScheduleFile {
    ScheduleFile {
        cron: Scalar::new(&s.cron),
        time_zone: some(&s.time_zone),
        overlap: some(word(&OVERLAPS, &s.overlap)),
        catch_up: some(word(&CATCH_UPS, &s.catch_up)),
        within: some(time(s.within)),
        keep_last: some(s.keep_last),
    }
}

fn sidecar(s: &Sidecar) -> SidecarFile {
    let task = GroupFile {
        resources: Some(resources(s.resources)),
        ..task::task(&s.runtime)
    };
    SidecarFile::new(Scalar::new(&s.name), task)
}

fn own(o: &Override) -> OverrideFile {
    OverrideFile {
        instances: Scalar::new(&o.instances),
        command: given(&o.command),
        args: o.args.as_deref().map(all),
        entrypoint: o.entrypoint.as_deref().map(all),
        env: Some(texts(&o.env)).filter(|e| !e.is_empty()),
        working_dir: given(&o.working_dir),
        uris: list(&o.uris, task::uri),
    }
}

fn update(p: &UpdatePolicy) -> UpdateFile {
    UpdateFile {
        batch: p.batch.and_then(some),
        max_surge: some(p.max_surge),
        min_healthy: some(time(p.min_healthy)),
        healthy_within: some(time(p.healthy_within)),
        canaries: some(p.canaries),
        auto_promote: some(p.auto_promote),
        max_failures: some(p.max_failures),
        on_failure: some(word(&ON_FAILURES, &p.on_failure)),
    }
}

fn after(a: &After) -> AfterFile {
    AfterFile {
        job: Scalar::new(&a.job),
        condition: some(word(&CONDITIONS, &a.condition)),
    }
}

fn retry(r: &Retry) -> RetryFile {
    let codes: Vec<_> = r.no_retry_exit_codes.iter().map(Scalar::new).collect();
    RetryFile {
        limit: some(r.limit),
        backoff: some(time(r.backoff)),
        max_backoff: some(time(r.max_backoff)),
        no_retry_exit_codes: Some(codes).filter(|c| !c.is_empty()),
    }
}

fn volume(v: &PersistentVolume) -> PersistentVolumeFile {
    PersistentVolumeFile {
        path: Scalar::new(&v.path),
        size: Scalar::new(Kind::Disk.show(v.size)),
        reclaim: some(word(&RECLAIMS, &v.reclaim)),
        replace_after: v.replace_after.map(time).and_then(some),
    }
}

fn resources(r: Resources) -> ResourcesFile {
    ResourcesFile {
        cpus: some(Kind::Cpus.show(r.cpus)),
        memory: some(Kind::Memory.show(r.memory)),
        disk: some(Kind::Disk.show(r.disk)),
        gpus: some(Kind::Gpus.show(r.gpus)),
    }
}

/// A time, exactly.
fn time(span: Span) -> String {
    if span == Span::ZERO {
        return "0s".to_owned();
    }
    span.to_string()
}

fn some<F: Form>(value: impl Display) -> Option<Scalar<F>> {
    Some(Scalar::new(value))
}

/// A text, unless it is empty, which is as good as left out.
fn given(text: &str) -> Option<Scalar> {
    Some(Scalar::new(text)).filter(|_| !text.is_empty())
}

fn all(texts: &[String]) -> Vec<Scalar> {
    texts.iter().map(Scalar::new).collect()
}

fn texts(map: &BTreeMap<String, String>) -> BTreeMap<String, Scalar> {
    map.iter().map(|(k, v)| (k.clone(), Scalar::new(v))).collect()
}

/// A list, unless it is empty.
fn list<T, U>(of: &[T], write: impl Fn(&T) -> U) -> Option<Vec<U>> {
    Some(of.iter().map(write).collect::<Vec<U>>()).filter(|l| !l.is_empty())
}
