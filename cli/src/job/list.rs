//! `echelon job list` and `echelon job events`.

use super::show;
use crate::context::Context;
use crate::exit::Failure;
use crate::output::{self, Listing};
use crate::shape;
use clap::Args;
use echelon_clients_rust::{self as client, v1};

/// Which jobs.
#[derive(Debug, Args)]
pub struct Filter {
    /// Only of this pool and those below it
    #[arg(long, default_value = "")]
    pool: String,
    /// Only in these states: waiting, running, stopping, succeeded, failed, stopped, deleted
    #[arg(long, value_delimiter = ',', value_parser = state)]
    state: Vec<v1::JobState>,
    /// Only of this owner
    #[arg(long, default_value = "")]
    owner: String,
    /// Only with these labels
    #[arg(short, long, value_name = "KEY=VALUE", value_delimiter = ',')]
    label: Vec<String>,
    /// Only with names that begin so
    #[arg(long, default_value = "")]
    name_prefix: String,
    /// Deleted ones too; their records are kept for a day after their creation
    #[arg(long)]
    deleted: bool,
    /// At most this many
    #[arg(long, default_value_t = 1000)]
    limit: usize,
}

fn state(text: &str) -> Result<v1::JobState, String> {
    let name = format!("JOB_STATE_{}", text.to_uppercase());
    v1::JobState::from_str_name(&name)
        .filter(|s| *s != v1::JobState::Unspecified)
        .ok_or(format!(
            "`{text}` is not a state: use waiting, running, stopping, succeeded, failed, stopped or deleted"
        ))
}

/// Lists jobs: those that have not ended first, in each half the newest first.
pub async fn list(context: &Context, filter: Filter) -> Result<(), Failure> {
    let request = v1::ListJobsRequest {
        pool: filter.pool,
        states: filter.state.into_iter().map(i32::from).collect(),
        owner: filter.owner,
        labels: filter.label,
        name_prefix: filter.name_prefix,
        show_deleted: filter.deleted,
        ..v1::ListJobsRequest::default()
    };
    let found = client::jobs(&context.client().await?, request, filter.limit).await?;
    let all = &found.rows;
    let listing = Listing {
        columns: &[
            "NAME",
            "STATE",
            "KIND",
            "POOL",
            "INSTANCES",
            "COUNTS",
            "SINCE",
            "ID",
            "OWNER",
        ],
        narrow: 7,
        rows: all.iter().map(row).collect(),
        names: all.iter().map(|j| j.display_name.clone()).collect(),
        values: all.iter().map(|j| output::message("Job", j)).collect(),
    };
    output::print(output::list(&listing, context.format()));
    let left_out = output::left_out("jobs", all.len(), found.more, found.total);
    left_out.iter().for_each(output::remark);
    Ok(())
}

fn row(j: &v1::Job) -> Vec<String> {
    vec![
        j.display_name.clone(),
        shape::job_state(j.state()),
        shape::word(j.kind().as_str_name(), "JOB_KIND_"),
        j.pool.clone(),
        j.instances.to_string(),
        of_template(j).unwrap_or_else(|| show::counts(j)),
        shape::ago(j.since.as_ref()),
        j.job_id.clone(),
        j.owner.clone(),
    ]
}

/// A template runs nothing that could be counted.
fn of_template(j: &v1::Job) -> Option<String> {
    let status = j.schedule_status.as_ref()?;
    let word = if status.paused { "paused" } else { "on schedule" };
    Some(word.to_owned())
}

/// Lists what happened, the newest first.
pub async fn events(context: &Context, job: &str, limit: usize) -> Result<(), Failure> {
    let request = v1::ListEventsRequest {
        parent: format!("jobs/{job}"),
        ..v1::ListEventsRequest::default()
    };
    let found = client::events(&context.client().await?, request, limit).await?;
    let all = &found.rows;
    let listing = Listing {
        columns: &["TIME", "INSTANCE", "STATE", "HOST", "WHY", "TASK"],
        narrow: 5,
        rows: all.iter().map(event_row).collect(),
        names: all.iter().map(|e| e.task_id.clone()).collect(),
        values: all.iter().map(|e| output::message("Event", e)).collect(),
    };
    output::print(output::list(&listing, context.format()));
    let left_out = output::left_out("events", all.len(), found.more, found.total);
    left_out.iter().for_each(output::remark);
    Ok(())
}

fn event_row(e: &v1::Event) -> Vec<String> {
    let instance = e.instance.map(|n| format!("{}/{n}", e.group)).unwrap_or_default();
    let state = if e.state() == v1::RunState::Unspecified {
        String::new()
    } else {
        shape::run_state(e.state())
    };
    vec![
        shape::time(e.time.as_ref()),
        instance,
        state,
        e.hostname.clone(),
        shape::reason(e.reason.as_ref()),
        e.task_id.clone(),
    ]
}
