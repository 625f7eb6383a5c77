//! Clusters and their hosts.

use super::Fields;
use super::layout::Page;
use super::part::{health, page_request, pager, quantity, time, unconfirmed};
use crate::context::Gateway;
use echelon_core_gateway::ApiError;
use echelon_core_gateway::clusters::{ClusterView, get_cluster, list_clusters};
use echelon_core_gateway::hosts::list_hosts;
use echelon_core_model::cluster::Host;
use echelon_core_model::resources::{Kind, Resources};
use echelon_core_model::sharing::{AgentState, Others, Sharing};
use echelon_core_model::unconfirmed::unconfirmed_for;
use echelon_proto::convert::cluster::event_time;
use maud::{Markup, html};

fn room(kind: Kind, used: &Resources, of: &Resources) -> String {
    format!("{} / {}", quantity(kind, used), quantity(kind, of))
}

/// What a cluster has whose shard has never reported.
fn unknown() -> String {
    "unknown".to_owned()
}

/// How old what its shard has reported is, where that may be old.
fn age_words(gateway: &Gateway, view: &ClusterView) -> Option<String> {
    let now = gateway.now();
    let is_reported = view.state.as_ref().is_some_and(|s| s.reported.is_some());
    (is_reported && view.is_stale(now)).then(|| unconfirmed_for(view.moments.age(now)))
}

/// The health, since when, why, and since when it is unconfirmed.
fn health_of(gateway: &Gateway, view: &ClusterView) -> Markup {
    let state = view.state.as_ref().map(|s| &s.health);
    let absent = gateway.leaders.manager_absent_since();
    let not_confirmed = absent.or_else(|| view.moments.unconfirmed_since(gateway.now()));
    html! {
        (health(state.map(|s| s.health).unwrap_or_default()))
        @if let Some(state) = state {
            " since " (time(state.since))
            @if !state.causes.is_empty() { ": " (state.cause()) }
            @if let Some(until) = state.hold_until() { "; takes work like others from " (time(until)) }
        }
        @if let Some(since) = not_confirmed { " " span.warn { "(unconfirmed since " (time(since)) ")" } }
    }
}

pub(super) async fn all(gateway: &Gateway, fields: &Fields) -> Result<Page, ApiError> {
    let found = list_clusters(&gateway.facts, page_request(fields, "page")).await?;
    let row = |view: &ClusterView| {
        let state = view.state.as_ref();
        let reported = state.and_then(|s| s.reported.as_ref());
        let amount = |kind| reported.map_or_else(unknown, |r| room(kind, &r.used, &r.total));
        html! {
            tr {
                td { a #{ "c-" (view.cluster.id) } href={ "/clusters/" (view.cluster.id) } { (view.cluster.name) } }
                td { (view.cluster.desired_state.word()) }
                td { (health_of(gateway, view)) }
                td.number { (reported.map_or_else(unknown, |r| r.hosts.to_string())) (unconfirmed(age_words(gateway, view))) }
                td.number { (amount(Kind::Cpus)) }
                td.number { (amount(Kind::Memory)) }
            }
        }
    };
    let live = html! {
        @if found.items.is_empty() { p { "There is no cluster yet. A cluster appears when its shard starts." } }
        @else {
            div.table { table {
                thead { tr {
                    th { "Cluster" } th { "Desired" } th { "Health" } th.number { "Hosts" }
                    th.number { "Cpus used / all" } th.number { "Memory used / all" }
                } }
                tbody { @for view in &found.items { (row(view)) } }
            } }
        }
        (pager("/clusters", fields, "page", found.next.as_ref()))
    };
    Ok(Page {
        title: "Clusters".to_owned(),
        command: Some("echelon cluster list".to_owned()),
        head: html! {},
        live,
    })
}

/// Whether a host can be reached, and what operators of Mesos have done with its agent.
fn state(host: &Host) -> Markup {
    html! {
        @if !host.reachable { span.bad { "silent" } }
        @else if matches!(host.agent, AgentState::Active | AgentState::Disconnected) { span.ok { "reachable" } }
        @else { span.warn { "reachable, " (host.agent.word()) " in Mesos" } }
    }
}

/// What other frameworks of its Mesos hold, and what quota allows.
fn sharing(of: &Sharing) -> Markup {
    html! {
        @if !of.roles.is_empty() {
            dt { "Other frameworks" }
            dd {
                @for share in &of.roles { "role " (share.role) ": " (others(&share.held)) br; }
                @if of.roles_left_out > 0 { (of.roles_left_out) " more roles" }
            }
        }
        @for limit in of.limits.iter().flatten() {
            dt { "Quota of role " (limit.role) }
            dd { (limit.kind.show(limit.limit)) " " (limit.kind) ", for Echelon " (limit.kind.show(limit.ours)) }
        }
    }
}

fn others(held: &Others) -> String {
    let cpus = Kind::Cpus.show(held.sum().cpus);
    format!("{cpus} cpus, {}", Kind::Memory.show(held.sum().memory))
}

pub(super) async fn one(gateway: &Gateway, wanted: &str, fields: &Fields) -> Result<Page, ApiError> {
    let view = get_cluster(&gateway.facts, wanted).await?;
    let hosts = list_hosts(
        &gateway.facts,
        view.cluster.id.as_str(),
        page_request(fields, "page"),
    )
    .await?;
    let path = format!("/clusters/{}", view.cluster.id);
    let live = html! {
        dl {
            dt { "Id" } dd { code { (view.cluster.id) } }
            dt { "Desired" } dd { (view.cluster.desired_state.word()) }
            dt { "Health" } dd { (health_of(gateway, &view)) }
            dt { "Mesos" } dd { (view.cluster.mesos) }
            @if let Some(words) = age_words(gateway, &view) { dt { "What is shown of it" } dd.warn { (words) } }
            @if let Some(beat) = &view.heartbeat {
                dt { "Shard" } dd { (beat.address) ", epoch " (beat.epoch) }
                dt { "Last event of Mesos" }
                dd { @match event_time(beat) { Some(at) => (time(at)), None => "never" } }
                @if let Some(reported) = view.state.as_ref().and_then(|s| s.reported.as_ref()) { (sharing(&reported.sharing)) }
                @if let Some(why) = &beat.trouble { dt { "Trouble" } dd { span.bad { (why) } } }
                @if let Some(loss) = &beat.loss { dt { "Mass loss" } dd {
                    span.bad { (loss.lost) " of " (loss.running) " running tasks lost at once, " (loss.missing) " still missing" }
                    " since " (time(loss.since)) "; nothing is replaced until they come back or "
                    code { "echelon cluster accept-loss " (view.cluster.name) }
                } }
            }
        }
        h2 { "Hosts" }
        @if hosts.items.is_empty() { p { "No host has been seen yet." } }
        @else {
            div.table { table {
                thead { tr {
                    th { "Host" } th { "State" } th.number { "Tasks" } th.number { "Cpus used / all" }
                    th.number { "Memory used / all" } th.number { "Others hold" } th { "Last seen" }
                } }
                tbody { @for host in hosts.items.iter().map(|h| &h.host) { tr {
                    td { (host.hostname) }
                    td { (state(host)) }
                    td.number { (host.tasks) }
                    td.number { (room(Kind::Cpus, &host.used, &host.capacity)) }
                    td.number { (room(Kind::Memory, &host.used, &host.capacity)) }
                    td.number { (others(&host.others)) }
                    td { (time(host.seen_at)) }
                } } }
            } }
        }
        (pager(&path, fields, "page", hosts.next.as_ref()))
    };
    Ok(Page {
        title: format!("Cluster {}", view.cluster.name),
        command: Some(format!(
            "echelon cluster get {0}; echelon host list {0}",
            view.cluster.name
        )),
        head: html! {},
        live,
    })
}
