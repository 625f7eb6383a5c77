//! One instance: its runs and the end of what the latest one wrote.

use super::layout::Page;
use super::part::{health, run_state, time};
use crate::context::Gateway;
use echelon_core_gateway::instances::{InstanceSeen, get_instance};
use echelon_core_gateway::{ApiError, resource};
use echelon_core_model::InstanceId;
use echelon_core_model::instance::Run;
use echelon_core_model::unconfirmed::unconfirmed_for;
use echelon_proto::echelon::v1;
use maud::{Markup, html};
use std::time::Duration;
use tokio_stream::StreamExt;
use tonic::Request;
use v1::instance_service_server::InstanceService;

/// Bytes of output shown.
const TAIL: u64 = 32 * 1024;
/// A page does not wait longer for a shard.
const LOG_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) async fn one(
    gateway: &Gateway,
    (job, group, number): (&str, &str, &str),
) -> Result<Page, ApiError> {
    let name = format!("jobs/{job}/groups/{group}/instances/{number}");
    let (job, group, number) = resource::instance(&name, "name")?;
    let seen = get_instance(&gateway.facts, &job, &group, number, gateway.now()).await?;
    let begun = seen.instance.record.as_ref().is_some_and(|r| r.run.is_some());
    let live = html! {
        (summary(&seen))
        @if begun {
            @for (title, stream) in [("Standard output", v1::LogStream::Stdout), ("Standard error", v1::LogStream::Stderr)] {
                h2 { (title) }
                (output(gateway, &name, stream).await)
            }
        }
    };
    Ok(Page {
        title: format!("Instance {number} of group {group}"),
        command: Some(format!("echelon job logs {job} {number} --group {group}")),
        head: html! { p { a href={ "/jobs/" (job) } { "Back to the job" } } },
        live,
    })
}

fn summary(seen: &InstanceSeen) -> Markup {
    let i = &seen.instance;
    let record = i.record.as_ref();
    let runs = record.iter().flat_map(|r| r.run.iter().chain(&r.older));
    html! {
        dl {
            dt { "State" } dd { (run_state(i.state)) ": " (i.reason) @if let Some(at) = i.since { ", since " (time(at)) } }
            @if let Some(part) = &i.cluster { dt { "Cluster" } dd { (part.name) " (" (health(part.health)) ")" } }
            @if i.is_stale() { dt { "Shown" } dd.warn { (unconfirmed_for(i.age())) } }
            @if let Some(r) = record.filter(|r| r.attempts > 0) { dt { "Failed runs" } dd { (r.attempts) } }
            @if let Some(r) = record.filter(|r| r.platform_failures > 0) { dt { "Ended by the platform in a row" } dd { (r.platform_failures) } }
        }
        @for run in runs { (one_run(seen, run)) }
    }
}

fn one_run(seen: &InstanceSeen, run: &Run) -> Markup {
    let id = InstanceId {
        job: seen.job,
        group: seen.instance.group.clone(),
        number: seen.instance.number,
    };
    html! {
        h2 { "Run " (run.number) @if run.generation.0 > 1 { " of generation " (run.generation) } }
        dl {
            dt { "State" } dd { (run_state(Some(run.state))) ": " (run.reason) }
            dt { "Host" } dd { (run.hostname) }
            dt { "Task" } dd { code { (run.task_id(id)) } }
            @if !run.ports.is_empty() { dt { "Ports" } dd { @for p in &run.ports { (p.name) " " (p.number) " " } } }
            @for m in &run.members {
                dt { "Member " (m.name()) } dd { (run_state(Some(m.state))) @if let Some(code) = m.exit_code { ", status " (code) } }
            }
            @if let Some(healthy) = run.healthy { dt { "Health" } dd { @if healthy { "good" } @else { "failing" } } }
            @if let Some(ready) = run.ready { dt { "Ready" } dd { @if ready { "yes" } @else { "no" } } }
            @if let Some(at) = run.started_at { dt { "Started" } dd { (time(at)) } }
            @if let Some(at) = run.ended_at { dt { "Ended" } dd { (time(at)) } }
            @if let Some(code) = run.exit_code { dt { "Exit status" } dd { (code) } }
        }
    }
}

async fn output(gateway: &Gateway, name: &str, stream: v1::LogStream) -> Markup {
    match tokio::time::timeout(LOG_TIMEOUT, tail(gateway, name, stream)).await {
        Ok(Ok((text, kept))) => html! {
            @if let Some(kept) = kept { p.soft { (kept) } }
            @if text.is_empty() { p.soft { "Nothing." } } @else { pre tabindex="0" { (text) } }
        },
        Ok(Err(why)) => html! { p.warn { (why) } },
        Err(_) => html! { p.warn { "the cluster's shard did not answer within 3 s" } },
    }
}

/// The end of an output, and where it comes from if that is not its host.
async fn tail(
    gateway: &Gateway,
    name: &str,
    stream: v1::LogStream,
) -> Result<(String, Option<String>), String> {
    let request = v1::ReadLogRequest {
        name: name.to_owned(),
        stream: stream.into(),
        tail_bytes: Some(TAIL),
        limit_bytes: Some(TAIL),
        ..Default::default()
    };
    let told = |status: tonic::Status| status.message().to_owned();
    let mut parts = gateway
        .read_log(Request::new(request))
        .await
        .map_err(told)?
        .into_inner();
    let (mut bytes, mut kept) = (Vec::new(), None);
    while let Some(part) = parts.next().await {
        let part = part.map_err(told)?;
        bytes.extend_from_slice(&part.data);
        kept = kept.or(part.kept);
    }
    let kept = kept.map(|kept| format!("Kept when the run ended, since now {}.", kept.because));
    Ok((String::from_utf8_lossy(&bytes).into_owned(), kept))
}
