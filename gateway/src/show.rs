//! What the methods answer, as messages of the public API.

use crate::leaders::Leaders;
use echelon_core_gateway::clusters::ClusterView;
use echelon_core_gateway::instances::InstanceView;
use echelon_core_gateway::view::{JobView, Part};
use echelon_core_model::instance::InstanceRecord;
use echelon_core_model::job::Waiting;
use echelon_core_model::{ClusterId, InstanceId, JobId, Timestamp};
use echelon_proto::convert::cluster::cluster;
use echelon_proto::convert::quantity::{duration, timestamp};
use echelon_proto::convert::{instance, job, reason, restart, rollout, schedule, spec};
use echelon_proto::echelon::v1;
use std::collections::BTreeMap;

/// `stale` is since when no resource manager answers.
pub(crate) fn show_job(view: &JobView, stale: Option<Timestamp>) -> v1::Job {
    let head = &view.head;
    let progress = view.progress.as_ref();
    v1::Job {
        name: format!("jobs/{}", head.job),
        job_id: head.job.to_string(),
        etag: head.version.to_string(),
        display_name: head.name.clone(),
        pool: head.pool.clone(),
        kind: spec::kind(head.kind).into(),
        owner: head.owner.clone(),
        labels: head.labels.clone(),
        instances: view.instances(),
        spec: view.spec.as_ref().map(spec::spec),
        spec_version: head.spec_version,
        desired: job::desired(head.goal.desired).into(),
        restarts: head.goal.restarts,
        state: job::job_state(view.state()).into(),
        since: Some(timestamp(
            progress.map_or_else(|| head.job.created_at(), |p| p.since),
        )),
        reason: progress.and_then(|p| p.reason.as_ref()).map(reason::reason),
        groups: progress.map(groups).unwrap_or_default(),
        waiting: show_waiting(progress.map_or(&[], |p| p.waiting.as_slice()), &view.names),
        awaited_clusters: progress
            .iter()
            .flat_map(|p| &p.awaited)
            .map(|c| cluster_name(c, &view.names))
            .collect(),
        wish_too_late: view.wish_is_too_late(),
        create_time: Some(timestamp(head.job.created_at())),
        update_time: Some(timestamp(head.updated_at)),
        parts: view.parts.iter().map(|part| show_part(part, stale)).collect(),
        rollout: head.rollout.as_ref().map(|wish| {
            let of = progress.and_then(|p| p.rollout.as_ref());
            rollout::rollout(wish, head.spec_version, view.instances(), of)
        }),
        past_rollouts: rollout::all_past(&head.past_rollouts, head.rollout.as_ref()),
        schedule_status: head.schedule.as_ref().map(|s| schedule::status(s, &view.due)),
        origin: head.origin.as_deref().map(schedule::origin),
        restart: head.restarts.as_deref().map(|wish| {
            let of = progress.and_then(|p| p.restart.as_ref());
            restart::restart(wish, of)
        }),
        crash_looping: view.crash_looping(),
        stale_since: stale.filter(|_| !view.state().is_ended()).map(timestamp),
        warnings: Vec::new(),
    }
}

fn groups(progress: &echelon_core_model::job::Progress) -> Vec<v1::GroupStatus> {
    progress
        .groups
        .iter()
        .map(|(group, counts)| v1::GroupStatus {
            group: group.to_string(),
            counts: instance::counts(counts),
        })
        .collect()
}

fn cluster_name(id: &ClusterId, names: &BTreeMap<ClusterId, String>) -> String {
    names.get(id).cloned().unwrap_or_else(|| id.to_string())
}

pub(crate) fn show_waiting(waiting: &[Waiting], names: &BTreeMap<ClusterId, String>) -> Vec<v1::Waiting> {
    waiting
        .iter()
        .map(|w| v1::Waiting {
            group: w.group.to_string(),
            cluster: w
                .cluster
                .as_ref()
                .map(|c| cluster_name(c, names))
                .unwrap_or_default(),
            reason: Some(reason::reason(&w.reason)),
            count: w.count,
            since: Some(timestamp(w.since)),
        })
        .collect()
}

/// A cluster as an answer shows it. A shard that is frozen before it leads has written nothing of that.
pub(crate) fn show_cluster(view: &ClusterView, leaders: &Leaders, now: Timestamp) -> v1::Cluster {
    let mut shown = cluster(&view.cluster, view.state.as_ref(), view.heartbeat.as_ref());
    if let Some(why) = leaders.frozen(&view.cluster.id) {
        shown.trouble = format!("frozen, run `echelon storage resume`: {why}");
    }
    let unconfirmed = leaders
        .manager_absent_since()
        .or_else(|| view.moments.unconfirmed_since(now));
    shown.health_unconfirmed_since = unconfirmed.map(timestamp);
    shown.age = view.moments.age(now).map(duration);
    shown.stale = view.is_stale(now);
    shown
}

pub(crate) fn show_part(part: &Part, stale: Option<Timestamp>) -> v1::Part {
    v1::Part {
        cluster: part.name.clone(),
        cluster_id: part.id.to_string(),
        health: instance::health(part.health).into(),
        since: part.since.map(timestamp),
        age: part.age.map(duration),
        unseen: part.unseen.clone().unwrap_or_default(),
        unconfirmed_since: stale.or(part.unconfirmed_since).map(timestamp),
        stale: part.is_stale(),
        instances: part.instances,
    }
}

pub(crate) fn show_instance(view: &InstanceView, job: JobId) -> v1::Instance {
    let id = InstanceId {
        job,
        group: view.group.clone(),
        number: view.number,
    };
    let record = view.record.as_ref();
    let state = view.state.map_or(v1::RunState::Unspecified, instance::run_state);
    v1::Instance {
        name: format!("jobs/{job}/groups/{}/instances/{}", view.group, view.number),
        job_id: job.to_string(),
        group: view.group.to_string(),
        number: view.number.0,
        state: state.into(),
        reason: Some(reason::reason(&view.reason)),
        since: view.since.map(timestamp),
        cluster: view.cluster.as_ref().map(|p| p.name.clone()).unwrap_or_default(),
        cluster_id: view
            .cluster
            .as_ref()
            .map(|p| p.id.to_string())
            .unwrap_or_default(),
        run: record
            .and_then(|r| r.run.as_ref())
            .map(|r| instance::run(r, id.clone())),
        older_runs: record
            .iter()
            .flat_map(|r| &r.older)
            .map(|r| instance::run(r, id.clone()))
            .collect(),
        attempts: record.map_or(0, |r| r.attempts),
        platform_failures: record.map_or(0, |r| r.platform_failures.into()),
        not_before: record
            .filter(|r| r.not_before.0 > 0)
            .map(|r| timestamp(r.not_before)),
        volume: record.and_then(|r| r.volume.as_deref()).map(instance::volume),
        crash_loop: view.crash_loops.then(|| record.map(show_crash_loop)).flatten(),
        ended: view.ended,
        stale: view.is_stale(),
        age: view.age().map(duration),
    }
}

fn show_crash_loop(record: &InstanceRecord) -> v1::CrashLoop {
    let waits = record.run.as_ref().is_some_and(|r| r.state.is_ended());
    let last = record.failure.as_deref();
    v1::CrashLoop {
        failures: record.failures_in_a_row(),
        next_try_time: waits.then(|| timestamp(record.not_before)),
        last_time: last.map(|f| timestamp(f.at)),
        last_reason: last.map(|f| reason::reason(&f.reason)),
        last_exit_code: last.and_then(|f| f.exit_code),
    }
}

/// Where an instance can be reached; nothing of one that is no endpoint.
pub(crate) fn show_endpoint(view: &InstanceView, job: JobId) -> Option<v1::Endpoint> {
    let (run, source) = view.endpoint()?;
    let shown = show_instance(view, job);
    let of = shown.run?;
    let at = &source.part;
    Some(v1::Endpoint {
        group: shown.group,
        number: shown.number,
        hostname: of.hostname,
        ports: of.ports,
        since: run.available_at.map(timestamp),
        cluster: at.name.clone(),
        spec_version: of.spec_version,
        task_id: of.task_id,
        stale: at.is_stale(),
        age: source.age.map(duration),
        cluster_health: instance::health(at.health).into(),
        stale_reason: at.stale_reason().unwrap_or_default(),
    })
}
