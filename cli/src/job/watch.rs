//! Following a job: a progress bar on a terminal, lines elsewhere, and an exit code that tells how it ended.

use super::show;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::{self, Format};
use crate::shape;
use echelon_clients_rust::{Client, v1};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// Follows a job until it has ended, line by line.
pub async fn watch(context: &Context, job: &str) -> Result<(), Failure> {
    let client = context.client().await?;
    let mut last = v1::Job::default();
    let follow = client.watch_job(job, |change| {
        for e in &change.events {
            print_event(context, e);
        }
        if let Some(job) = &change.job {
            last = job.clone();
        }
        has_ended(last.state())
    });
    tokio::select! {
        done = follow => done?,
        _ = tokio::signal::ctrl_c() => return Err(Failure::new(Exit::Interrupted, String::new())),
    }
    verdict(context, &last)
}

fn print_event(context: &Context, e: &v1::Event) {
    if context.format() == Format::Json {
        output::line(output::message("Event", e));
        return;
    }
    let instance = e
        .instance
        .map(|n| format!(" {}/{n}", e.group))
        .unwrap_or_default();
    let state = if e.state() == v1::RunState::Unspecified {
        String::new()
    } else {
        format!(" {}", shape::run_state(e.state()))
    };
    output::line(format_args!(
        "{}{}{state} {} {}",
        shape::time(e.time.as_ref()),
        output::escape(&instance),
        output::escape(&shape::reason(e.reason.as_ref())),
        output::escape(&e.hostname)
    ));
}

/// Follows a job to its end, or a service until all of it runs, with a progress bar.
pub async fn to_the_end(
    context: &Context,
    client: &Client,
    job: &str,
    instances: u64,
) -> Result<(), Failure> {
    let bar = bar(instances);
    let mut last = v1::Job::default();
    let follow = client.watch_job(job, |change| {
        if let Some(job) = &change.job {
            last = job.clone();
            bar.set_position(arrived(job));
            bar.set_message(show::counts(job));
        }
        has_ended(last.state()) || (runs_for_ever(last.kind()) && has_arrived(&last))
    });
    let result = tokio::select! {
        done = follow => done.map_err(Failure::from),
        _ = tokio::signal::ctrl_c() => Err(Failure::new(
            Exit::Interrupted,
            format!("stopped waiting; job {job} goes on (`echelon job watch {job}`, `echelon job stop {job}`)"),
        )),
    };
    bar.finish_and_clear();
    result?;
    verdict(context, &last)
}

/// Whether all instances are where they are to be. How many a daemon has is known when clusters have counted their hosts.
fn has_arrived(job: &v1::Job) -> bool {
    let counted = job.kind() != v1::JobKind::Daemon || job.instances > 0;
    counted && arrived(job) >= job.instances
}

fn bar(instances: u64) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(instances), target);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {wide_msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn runs_for_ever(kind: v1::JobKind) -> bool {
    matches!(
        kind,
        v1::JobKind::Service | v1::JobKind::Stateful | v1::JobKind::Daemon
    )
}

/// Instances that are where they should be: succeeded, or running for a service.
fn arrived(job: &v1::Job) -> u64 {
    let good = if runs_for_ever(job.kind()) {
        v1::RunState::Running
    } else {
        v1::RunState::Succeeded
    };
    job.groups
        .iter()
        .flat_map(|g| &g.counts)
        .filter(|c| c.state() == good)
        .map(|c| c.count)
        .sum()
}

/// Whether nothing of the job runs any more.
pub fn has_ended(state: v1::JobState) -> bool {
    matches!(
        state,
        v1::JobState::Succeeded | v1::JobState::Failed | v1::JobState::Stopped | v1::JobState::Deleted
    )
}

fn verdict(context: &Context, job: &v1::Job) -> Result<(), Failure> {
    show::print(context, job);
    match job.state() {
        v1::JobState::Failed | v1::JobState::Stopped | v1::JobState::Deleted => Err(Failure::new(
            Exit::Failed,
            format!(
                "job {} {}",
                output::escape(&job.display_name),
                shape::job_state(job.state())
            ),
        )),
        _ => Ok(()),
    }
}
