//! What is on its way in a job, for its page: the rollout with what came before it, the restart, what fails again and again, and where
//! the job can be reached.

use super::part::{encode, time, unconfirmed_part};
use crate::show::show_job;
use echelon_core_gateway::ApiError;
use echelon_core_gateway::instances::{InstancePage, InstanceView};
use echelon_core_gateway::view::JobView;
use echelon_core_model::{Span, Timestamp};
use echelon_proto::echelon::v1;
use maud::{Markup, html};

/// Past rollouts shown, the latest first.
const PAST: usize = 5;
/// Endpoints shown.
pub(super) const ENDPOINTS: i32 = 20;

/// The rollout and the restart of a job, where there are any.
pub(super) fn changes(view: &JobView) -> Markup {
    let job = show_job(view, None);
    html! {
        @if let Some(rollout) = &job.rollout {
            h2 { "Rollout" }
            (latest(view, rollout))
            @if !job.past_rollouts.is_empty() { (past(&job.past_rollouts)) }
        }
        @if let Some(restart) = &job.restart {
            h2 { "Restart" }
            p #restart { (restarted(restart)) }
        }
        (crash_loops(view))
    }
}

fn at(of: Option<&prost_types::Timestamp>) -> Markup {
    match of {
        Some(at) => {
            let ms = at.seconds.saturating_mul(1000) + i64::from(at.nanos / 1_000_000);
            time(Timestamp(u64::try_from(ms).unwrap_or_default()))
        }
        None => html! {},
    }
}

fn class(state: v1::RolloutState) -> &'static str {
    match state {
        v1::RolloutState::Done => "ok",
        v1::RolloutState::Canary | v1::RolloutState::Running => "warn",
        v1::RolloutState::Paused | v1::RolloutState::RollingBack | v1::RolloutState::RolledBack => "bad",
        v1::RolloutState::Superseded | v1::RolloutState::Unspecified => "soft",
    }
}

fn word(state: v1::RolloutState) -> String {
    let name = state.as_str_name().trim_start_matches("ROLLOUT_STATE_");
    name.to_lowercase().replace('_', "-")
}

fn state(rollout: &v1::Rollout) -> Markup {
    html! { span class={ "state " (class(rollout.state())) } { (word(rollout.state())) } }
}

fn why(rollout: &v1::Rollout) -> &str {
    rollout.reason.as_ref().map_or("", |r| r.message.as_str())
}

/// What somebody has to do before it goes on.
fn next(rollout: &v1::Rollout, job: &str) -> Option<String> {
    match rollout.state() {
        v1::RolloutState::Canary => Some(format!(
            "echelon rollout promote {job}; echelon rollout abort {job}"
        )),
        v1::RolloutState::Paused => Some(format!(
            "echelon rollout resume {job}; echelon rollout abort {job}"
        )),
        _ => None,
    }
}

fn latest(view: &JobView, rollout: &v1::Rollout) -> Markup {
    html! {
        dl #rollout {
            dt { "Number" } dd { (rollout.number) ", from version " (rollout.base_version) " to " (rollout.spec_version) }
            dt { "State" }
            dd { (state(rollout)) " since " (at(rollout.since.as_ref())) @if !why(rollout).is_empty() { ": " (why(rollout)) } }
            dt { "Updated" }
            dd {
                progress max=(rollout.instances.max(1)) value=(rollout.updated.min(rollout.instances)) { }
                " " (rollout.updated) " of " (rollout.instances) " instances"
                @if rollout.failed > 0 { ", " span.bad { (rollout.failed) " failed" } }
            }
            @if let Some(next) = next(rollout, &view.head.name) { dt { "Next" } dd { code { (next) } } }
        }
    }
}

fn past(all: &[v1::Rollout]) -> Markup {
    html! {
        div.table { table {
            thead { tr { th { "Earlier rollout" } th { "Version" } th { "State" } th { "Asked for" } th { "Because" } } }
            tbody { @for r in all.iter().rev().take(PAST) { tr {
                td { (r.number) }
                td { (r.base_version) " to " (r.spec_version) }
                td { (state(r)) }
                td { (at(r.start_time.as_ref())) }
                td { (why(r)) }
            } } }
        } }
    }
}

fn restarted(restart: &v1::JobRestart) -> Markup {
    let range = |r: &v1::InstanceRange| {
        if r.first == r.last {
            r.first.to_string()
        } else {
            format!("{}-{}", r.first, r.last)
        }
    };
    let ranges: Vec<String> = restart.instances.iter().map(range).collect();
    html! {
        @if restart.group.is_empty() { "Everything" } @else { "Group " (restart.group) " " (ranges.join(", ")) }
        @if let Some(n) = restart.batch { ", " (n) " at once" }
        ", asked for at " (at(restart.start_time.as_ref())) ": "
        @match (&restart.done_time, restart.left) {
            (Some(done), _) => { span.state.ok { "done" } " at " (at(Some(done))) }
            (None, Some(left)) => { span.state.warn { "running" } ", " (left) " left" }
            (None, None) => { span.state.warn { "begins" } }
        }
    }
}

/// How many instances fail again and again, where any does.
fn crash_loops(view: &JobView) -> Markup {
    let n = view.crash_looping();
    html! {
        @if n > 0 {
            p.bad #crash-loops role="alert" { (n) @if n == 1 { " instance fails" } @else { " instances fail" } " again and again; how is told with each of them" }
        }
    }
}

/// Where the job can be reached, as far as that can be read.
pub(super) fn endpoints(view: &JobView, found: &Result<InstancePage, ApiError>) -> Markup {
    if !view.head.kind.runs_for_ever() {
        return html! {};
    }
    let job = encode(&view.head.name);
    html! {
        h2 { "Endpoints" }
        @match found {
            Err(error) => { p.warn { (error.message) } }
            Ok(found) if found.page.items.is_empty() => { p { "None: no instance is available." } }
            Ok(found) => {
                div.table { table #endpoints {
                    thead { tr { th { "Instance" } th { "Host" } th { "Ports" } th { "Available since" } th { "Cluster" } th { "Age" } th { "Version" } } }
                    tbody { @for i in &found.page.items { (endpoint(i)) } }
                } }
                @if found.page.next.is_some() {
                    p { "And more: " a href={ "/http_sd/jobs/" (job) } { "all of them as JSON" } }
                }
            }
        }
    }
}

fn endpoint(i: &InstanceView) -> Markup {
    html! {
        @if let Some((run, source)) = i.endpoint() { tr {
            td { (i.group) " " (i.number) (unconfirmed_part(&source.part)) }
            td { (run.hostname) }
            td { @for p in &run.ports { (p.name) ":" (p.number) " " } }
            td { @if let Some(since) = run.available_at { (time(since)) } }
            td { (source.part.name) @if let Some(why) = source.part.stale_reason() { ": " span.warn { (why) } } }
            td { (source.age.map_or_else(|| "unknown".to_owned(), Span::rounded)) }
            td { (run.spec_version) }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollout_that_waits_says_for_what() {
        let rollout = |state: v1::RolloutState| v1::Rollout {
            state: state.into(),
            ..v1::Rollout::default()
        };
        let told = next(&rollout(v1::RolloutState::Canary), "web");
        assert!(told.is_some_and(|t| t.starts_with("echelon rollout promote web")));
        assert_eq!(next(&rollout(v1::RolloutState::Running), "web"), None);
        assert_eq!(word(v1::RolloutState::RollingBack), "rolling-back");
    }

    #[test]
    fn a_restart_of_some_names_them() {
        let restart = v1::JobRestart {
            group: "main".to_owned(),
            instances: vec![
                v1::InstanceRange { first: 3, last: 3 },
                v1::InstanceRange { first: 7, last: 9 },
            ],
            left: Some(2),
            ..v1::JobRestart::default()
        };
        let shown = restarted(&restart).into_string();
        assert!(shown.starts_with("Group main 3, 7-9, asked for at : "), "{shown}");
        assert!(shown.ends_with("2 left"), "{shown}");
    }
}
