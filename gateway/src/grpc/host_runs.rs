//! ListHostRuns: asks the cluster's shard for a part of its list, and adds the names of jobs.

use super::page;
use crate::context::Gateway;
use echelon_core_gateway::hosts::get_host;
use echelon_core_gateway::view::Federation;
use echelon_core_gateway::{ApiError, ErrorReason, ask, clusters, page as pages, resource};
use echelon_core_model::{JobId, TaskId};
use echelon_proto::echelon::shard::v1 as wire;
use echelon_proto::echelon::v1;
use futures::{StreamExt, stream};
use std::collections::{BTreeMap, BTreeSet};

/// Heads that are read side by side.
const HEADS_AT_ONCE: usize = 16;

pub(super) async fn list(
    gateway: &Gateway,
    r: v1::ListHostRunsRequest,
) -> Result<v1::ListHostRunsResponse, ApiError> {
    let asked_page = page(r.page_size, r.page_token);
    let limit = asked_page.limit()?;
    let federation = Federation::read(&gateway.facts).await?;
    let (wanted, host_id) = if r.parent.contains("/hosts/") {
        let (cluster, host) = resource::host(&r.parent, "parent")?;
        let found = get_host(&gateway.facts, cluster, host).await?;
        (found.cluster.to_string(), found.host.id.to_string())
    } else {
        (resource::cluster(&r.parent, "parent")?.to_owned(), String::new())
    };
    let cluster = federation
        .find(&wanted)
        .ok_or_else(|| clusters::not_found(&wanted))?;
    let asked = format!("runs {} {host_id}", cluster.id);
    let request = wire::ListRunsRequest {
        host_id,
        from: asked_page.position(&asked)?.unwrap_or_default(),
        limit,
    };
    let heartbeat = federation.heartbeats.get(&cluster.id);
    let answering = gateway
        .links
        .list_runs((&cluster.id, &cluster.name), heartbeat, request);
    let answer = answering.await?;
    let runs: Option<Vec<(TaskId, v1::Run)>> = answer
        .runs
        .into_iter()
        .map(|run| Some((run.task_id.parse().ok()?, run)))
        .collect();
    let runs = runs.ok_or_else(|| {
        let text = format!("the shard of cluster {} names a run that is none", cluster.name);
        ApiError::new(ErrorReason::ShardUnavailable, text)
    })?;
    let names = names(gateway, runs.iter().map(|(task, _)| task.instance.job).collect()).await;
    Ok(v1::ListHostRunsResponse {
        runs: runs
            .into_iter()
            .map(|(task, run)| shown(&task, run, &names))
            .collect(),
        next_page_token: if answer.next.is_empty() {
            String::new()
        } else {
            pages::seal(&asked, &answer.next)
        },
    })
}

/// Names of jobs; one that cannot be read has none.
async fn names(gateway: &Gateway, jobs: BTreeSet<JobId>) -> BTreeMap<JobId, String> {
    let reading = jobs.into_iter().map(async |job| {
        let head = ask::head(&gateway.facts, job).await;
        Some((job, head.ok()??.name))
    });
    let read = stream::iter(reading).buffer_unordered(HEADS_AT_ONCE);
    read.filter_map(async |named| named).collect().await
}

fn shown(task: &TaskId, run: v1::Run, names: &BTreeMap<JobId, String>) -> v1::HostRun {
    let of = &task.instance;
    v1::HostRun {
        name: format!("jobs/{}/groups/{}/instances/{}", of.job, of.group, of.number),
        job_id: of.job.to_string(),
        job: names.get(&of.job).cloned().unwrap_or_default(),
        group: of.group.to_string(),
        number: of.number.0,
        run: Some(run),
    }
}
