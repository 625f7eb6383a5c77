//! One job: what became of it, why instances wait, the instances, the last events.

use super::Fields;
use super::changes::{ENDPOINTS, changes, endpoints};
use super::layout::Page;
use super::part::{
    encode, health, job_state, page_request, pager, run_state, time, unconfirmed, unconfirmed_part,
};
use crate::context::Gateway;
use echelon_core_gateway::ApiError;
use echelon_core_gateway::events::list_events;
use echelon_core_gateway::instances::{
    InstanceFilter, InstancePage, InstanceView, list_endpoints, list_instances,
};
use echelon_core_gateway::jobs::get_job;
use echelon_core_gateway::page::{Page as Listed, PageRequest};
use echelon_core_gateway::resource::{self, JobRef};
use echelon_core_gateway::view::{JobView, Part};
use echelon_core_model::RunState;
use echelon_core_model::spec::{GroupSpec, JobKind};
use echelon_core_model::store::Event;
use echelon_core_model::unconfirmed::unconfirmed_for;
use echelon_proto::convert::quantity;
use echelon_proto::echelon::v1;
use maud::{Markup, html};

pub(super) async fn one(gateway: &Gateway, wanted: &str, fields: &Fields) -> Result<Page, ApiError> {
    let asked = resource::job(&format!("jobs/{wanted}"), "name")?;
    let view = get_job(&gateway.facts, &asked, gateway.now()).await?;
    let id = JobRef::Id(view.head.job);
    let state = fields.get("state").map(String::as_str).unwrap_or_default();
    let filter = InstanceFilter {
        states: RunState::ALL.into_iter().filter(|s| s.word() == state).collect(),
        ..InstanceFilter::default()
    };
    let instances = list_instances(
        &gateway.facts,
        &id,
        filter,
        page_request(fields, "page"),
        gateway.now(),
    )
    .await?;
    let reached = PageRequest {
        size: ENDPOINTS,
        token: String::new(),
    };
    let all = InstanceFilter::default();
    let reached = list_endpoints(&gateway.facts, &id, all, reached, gateway.now()).await;
    let events = list_events(&gateway.facts, &id, page_request(fields, "events"), gateway.now()).await?;
    let admission = if is_asked(&view) {
        Some(gateway.links.admission(view.head.job).await)
    } else {
        None
    };
    let path = format!("/jobs/{}", encode(wanted));
    let live = html! {
        (summary(&view))
        (changes(&view))
        (waiting(&view))
        @if let Some(admission) = &admission { (admitted_by(admission)) }
        (endpoints(&view, &reached))
        h2 { "Instances" }
        (listed(&view, &instances))
        (pager(&path, fields, "page", instances.page.next.as_ref()))
        h2 { "Events" }
        (happened(&events))
        (pager(&path, fields, "events", events.next.as_ref()))
    };
    Ok(Page {
        title: format!("Job {}", view.head.name),
        command: Some(format!(
            "echelon job get {0}; echelon job instances {0}; echelon job explain {0}",
            view.head.name
        )),
        head: form(&path, state),
        live,
    })
}

fn form(path: &str, state: &str) -> Markup {
    html! {
        form action=(path) method="get" {
            label { "Show instances that are" select name="state" {
                option value="" { "in any state" }
                @for s in RunState::ALL { option value=(s.word()) selected[s.word() == state] { (s) } }
            } }
            button type="submit" { "Show" }
        }
    }
}

fn summary(view: &JobView) -> Markup {
    let head = &view.head;
    let progress = view.progress.as_ref();
    html! {
        dl {
            dt { "State" }
            dd {
                (job_state(view.state()))
                @if let Some(p) = progress { " since " (time(p.since)) @if let Some(r) = &p.reason { ": " (r) } }
            }
            @if view.wish_is_too_late() { dt { "Note" } dd.warn { "the last wish came after the job had ended and has no effect" } }
            dt { "Id" } dd { code { (head.job) } }
            dt { "Kind and pool" } dd { (head.kind) " in " (head.pool) }
            @if !head.owner.is_empty() { dt { "Owner" } dd { (head.owner) } }
            @if !head.labels.is_empty() {
                dt { "Labels" } dd { @for (k, v) in &head.labels { (k) "=" (v) " " } }
            }
            dt { "Instances" }
            dd {
                (view.instances()) " wanted"
                @for (group, counts) in progress.iter().flat_map(|p| &p.groups) {
                    "; " (group) ":"
                    @for s in RunState::ALL.into_iter().filter(|s| counts.get(*s) > 0) { " " (counts.get(s)) " " (s) }
                }
                (unconfirmed(view.unconfirmed()))
            }
            @if !view.parts.is_empty() {
                dt { "Clusters" } dd { @for part in &view.parts { (cluster(part)) " " } }
            }
            @if let Some(p) = progress.filter(|p| !p.awaited.is_empty()) {
                dt { "Awaited" }
                dd { "confirmation of " @for c in &p.awaited { (view.names.get(c).map_or(c.as_str(), String::as_str)) " " } }
            }
        }
        @for group in view.spec.iter().flat_map(|s| &s.groups) {
            dl {
                dt { "Group " (group.name) } dd { (times(head.kind, group)) (group.room()) }
                dt { "Command" } dd { code { (group.runtime.command) @for arg in group.runtime.args.iter().flatten() { " " (arg) } } }
                @for s in &group.sidecars { dt { "Sidecar " (s.name) } dd { code { (s.runtime.command) } } }
            }
        }
    }
}

fn cluster(part: &Part) -> Markup {
    html! {
        a #{ "part-" (part.id) } href={ "/clusters/" (part.id) } { (part.name) } " (" (health(part.health))
        @if let Some(n) = part.instances.filter(|n| *n > 0) { ", " (n) " instances" }
        ")" (unconfirmed_part(part))
    }
}

fn waiting(view: &JobView) -> Markup {
    let list = view.progress.iter().flat_map(|p| &p.waiting);
    html! {
        @if view.progress.iter().any(|p| !p.waiting.is_empty()) {
            h2 { "Why instances wait" }
            ul { @for w in list { li {
                (w.count) " of " (w.group) ": " (w.reason)
                @if let Some(c) = &w.cluster { " (" (view.names.get(c).map_or(c.as_str(), String::as_str)) ")" }
                ", since " (time(w.since))
            } } }
        }
    }
}

/// Whether something of the job waits, so that the resource manager is asked what would admit it.
fn is_asked(view: &JobView) -> bool {
    let waits = view.progress.iter().any(|p| !p.waiting.is_empty());
    waits && !view.state().is_ended()
}

/// What the job waits for in admission, and what would admit all of it.
fn admitted_by(admission: &Result<v1::JobAdmission, ApiError>) -> Markup {
    let told = match admission {
        Ok(told) => told,
        Err(error) => return html! { h2 { "What would admit it" } p.warn { (error) } },
    };
    let amount = |r: Option<v1::Resources>| quantity::read_resources(r).to_string();
    html! {
        @if told.waiting > 0 {
            h2 { "What would admit it" }
            @if let Some(place) = told.place {
                p {
                    (place.units_ahead) " of the " (place.units) " waiting instances or gangs of its pool go first; other jobs among them: "
                    (place.jobs_ahead) "."
                }
            }
            ul {
                @for b in &told.blockers {
                    li { (b.instances) " of " (b.group) ": " (b.reason.as_ref().map_or("", |r| r.message.as_str())) }
                }
                @if told.more_blockers > 0 { li { (told.more_blockers) " more reasons" } }
                @for h in &told.holders {
                    li {
                        "Used by pool " (h.pool) ": " (amount(h.used))
                        @if h.unused_reservation.is_some_and(|r| r != v1::Resources::default()) {
                            ", and it keeps " (amount(h.unused_reservation)) " that it does not use (static)"
                        }
                    }
                }
                @if told.more_holders > 0 { li { "Used by " (told.more_holders) " more pools" } }
            }
            @match told.outcome() {
                v1::AdmissionOutcome::Admitted => p { "All of it is being admitted." },
                v1::AdmissionOutcome::AfterPreemption => p { "No change is needed: preemption makes capacity for it." },
                v1::AdmissionOutcome::Barred => p {
                    "No change of demand or capacity helps: " (told.barred_by.as_ref().map_or("", |r| r.message.as_str()))
                },
                v1::AdmissionOutcome::NoneFound => p { "No change was found that admits all of it." },
                _ => ol { @for fix in &told.fixes { li { (fix.text) } } },
            }
        }
    }
}

fn instance(view: &JobView, i: &InstanceView) -> Markup {
    let run = i.record.as_ref().and_then(|r| r.run.as_ref());
    html! {
        tr {
            td { a #{ "i-" (i.group) "-" (i.number) } href={ "/jobs/" (view.head.job) "/" (i.group) "/" (i.number) } { (i.group) " " (i.number) } }
            td { (run_state(i.state)) (unconfirmed(i.is_stale().then(|| unconfirmed_for(i.age())))) }
            td { (i.cluster.as_ref().map_or("", |c| c.name.as_str())) }
            td { (run.map_or("", |r| &r.hostname)) }
            td { (i.reason) }
            td { @if let Some(at) = i.since { (time(at)) } }
        }
    }
}

fn listed(view: &JobView, found: &InstancePage) -> Markup {
    html! {
        @for part in found.parts.iter().filter(|p| p.unseen.is_some()) {
            p.bad role="alert" { "What cluster " (part.name) " stored of " (part.unseen.as_deref().unwrap_or_default()) " cannot be read at the moment." }
        }
        @if found.page.items.is_empty() { p { "None." } }
        @else {
            div.table { table {
                thead { tr { th { "Instance" } th { "State" } th { "Cluster" } th { "Host" } th { "Reason" } th { "Since" } } }
                tbody { @for i in &found.page.items { (instance(view, i)) } }
            } }
        }
    }
}

fn happened(events: &Listed<Event>) -> Markup {
    html! {
        @if events.items.is_empty() { p { "None yet." } }
        @else {
            div.table { table {
                thead { tr { th { "Time" } th { "Instance" } th { "State" } th { "What" } th { "Host" } } }
                tbody { @for e in &events.items { tr {
                    td { (time(e.happened)) }
                    td { @if let Some((group, n)) = &e.instance { (group) " " (n) } }
                    td { @if let Some(s) = e.state { (run_state(Some(s))) } }
                    td { (e.reason) }
                    td { (e.hostname.as_deref().unwrap_or_default()) }
                } } }
            } }
        }
    }
}

/// How often a group has its room.
fn times(kind: JobKind, group: &GroupSpec) -> String {
    if kind == JobKind::Daemon {
        "on each host: ".to_owned()
    } else {
        format!("{} x ", group.instances)
    }
}
