//! Jobs, filtered and paged.

use super::Fields;
use super::layout::Page;
use super::part::{job_state, page_request, pager, time, unconfirmed};
use crate::context::Gateway;
use crate::unconfirmed::with_stale_parts;
use echelon_core_gateway::ApiError;
use echelon_core_gateway::jobs::list_jobs;
use echelon_core_gateway::view::JobView;
use echelon_core_model::RunState;
use echelon_core_model::job::{JobFilter, JobState};
use maud::{Markup, html};

fn field<'a>(fields: &'a Fields, name: &str) -> Option<&'a String> {
    fields.get(name).filter(|v| !v.is_empty())
}

fn filter(fields: &Fields) -> JobFilter {
    let state = field(fields, "state").and_then(|w| JobState::ALL.into_iter().find(|s| s.word() == w));
    JobFilter {
        pool: field(fields, "pool").cloned(),
        states: state.into_iter().collect(),
        owner: field(fields, "owner").cloned(),
        name_prefix: field(fields, "name").cloned(),
        ..JobFilter::default()
    }
}

fn form(fields: &Fields) -> Markup {
    let value = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
    html! {
        form action="/jobs" method="get" role="search" {
            label { "Name begins with" input name="name" value=(value("name")); }
            label { "Pool" input name="pool" value=(value("pool")); }
            label { "Owner" input name="owner" value=(value("owner")); }
            label { "State" select name="state" {
                option value="" { "any" }
                @for state in JobState::ALL {
                    option value=(state.word()) selected[value("state") == state.word()] { (state) }
                }
            } }
            button type="submit" { "Filter" }
        }
    }
}

fn row(view: &JobView) -> Markup {
    let head = &view.head;
    let all = view.counts();
    html! {
        tr {
            td { a #{ "j-" (head.job) } href={ "/jobs/" (head.job) } { (head.name) } }
            td { (job_state(view.state())) }
            td { (head.kind) }
            td { (head.pool) }
            td { (head.owner) }
            td.number { (view.instances()) }
            td.number { (all.get(RunState::Running)) (unconfirmed(view.unconfirmed())) }
            td.number { (all.get(RunState::Succeeded)) }
            td.number { (all.get(RunState::Failed)) }
            td { (time(head.job.created_at())) }
        }
    }
}

pub(super) async fn all(gateway: &Gateway, fields: &Fields) -> Result<Page, ApiError> {
    let found = list_jobs(&gateway.facts, filter(fields), page_request(fields, "page")).await?;
    let found = with_stale_parts(gateway, found).await?;
    let live = html! {
        @if found.items.is_empty() { p { "No job passes. A first one: " code { "echelon job run examples/hello.yaml" } } }
        @else {
            div.table { table {
                thead { tr {
                    th { "Job" } th { "State" } th { "Kind" } th { "Pool" } th { "Owner" } th.number { "Instances" }
                    th.number { "Running" } th.number { "Succeeded" } th.number { "Failed" } th { "Created" }
                } }
                tbody { @for view in &found.items { (row(view)) } }
            } }
        }
        (pager("/jobs", fields, "page", found.next.as_ref()))
    };
    Ok(Page {
        title: "Jobs".to_owned(),
        command: Some("echelon job list".to_owned()),
        head: form(fields),
        live,
    })
}
