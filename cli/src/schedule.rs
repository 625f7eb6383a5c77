//! `echelon schedule ...`, and how schedules are told: what is made of a template, and when.

use crate::context::Context;
use crate::exit::Failure;
use crate::{output, shape};
use clap::{Args, Subcommand};
use echelon_clients_rust::v1;
use echelon_core_model::Timestamp;
use echelon_core_model::timetable::Timetable;

/// Verbs. JOB is an id, or the name of a job with a schedule.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make nothing more of a job by itself, until `resume`; what runs, runs on
    Pause(Which),
    /// Go on; what was due meanwhile is passed over
    Resume(Which),
}

/// Which job.
#[derive(Debug, Args)]
pub struct Which {
    /// Id or name
    job: String,
    /// Only if nobody changed it since (`job get` shows it)
    #[arg(long, default_value = "")]
    etag: String,
}

/// Runs a verb.
pub async fn run(command: Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Pause(which) => steer(context, which, v1::ScheduleAction::Pause).await,
        Command::Resume(which) => steer(context, which, v1::ScheduleAction::Resume).await,
    }
}

async fn steer(context: &Context, which: Which, action: v1::ScheduleAction) -> Result<(), Failure> {
    let client = context.client().await?;
    let request = v1::SteerScheduleRequest {
        name: format!("jobs/{}", which.job),
        etag: which.etag,
        action: action.into(),
    };
    let answer = client.change(|| {
        let (mut service, request) = (client.job_service(), request.clone());
        async move { service.steer_schedule(request).await }
    });
    crate::job::print(context, &answer.await?.job.unwrap_or_default());
    Ok(())
}

/// What `job get` says of a template, and of a job that was made of one.
pub fn lines(job: &v1::Job) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(schedule) = job.spec.as_ref().and_then(|s| s.schedule.as_ref()) {
        let paused = job.schedule_status.as_ref().is_some_and(|s| s.paused);
        let paused = if paused { "; paused" } else { "" };
        lines.push(format!(
            "schedule:  {} {}, overlap {}, catch_up {} within {}{paused}",
            output::escape(&schedule.cron),
            output::escape(&schedule.time_zone),
            shape::word(schedule.overlap().as_str_name(), "OVERLAP_"),
            shape::word(schedule.catch_up().as_str_name(), "CATCH_UP_"),
            shape::span(schedule.within.as_ref()),
        ));
        if let Some(status) = &job.schedule_status {
            lines.extend(due("next:", schedule, &status.next_times));
            lines.extend(due("skipped:", schedule, status.skipped_time.as_slice()));
            lines.extend(due("missed:", schedule, status.missed_time.as_slice()));
        }
    }
    if let Some(origin) = &job.origin {
        lines.push(format!(
            "made of:   job {}, due {}",
            output::escape(&origin.template_id),
            shape::time(origin.due_time.as_ref())
        ));
    }
    lines
}

/// Due times on their zone's clock, one a line.
pub fn due(label: &str, schedule: &v1::Schedule, times: &[prost_types::Timestamp]) -> Vec<String> {
    let table = Timetable::new(&schedule.cron, &schedule.time_zone);
    let shown = times.iter().map(|at| match (&table, moment(at)) {
        (Ok(table), Some(at)) => table.show(at),
        // A gateway that knows more zones than this program.
        _ => shape::time(Some(at)),
    });
    shown
        .map(|at| format!("{label:<10} {}", output::escape(&at)))
        .collect()
}

fn moment(at: &prost_types::Timestamp) -> Option<Timestamp> {
    let seconds = u64::try_from(at.seconds).ok()?;
    Some(Timestamp(seconds.checked_mul(1000)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_told_with_its_next_times_on_its_own_clock() {
        let schedule = v1::Schedule {
            cron: "0 3 * * *".to_owned(),
            time_zone: "Europe/Berlin".to_owned(),
            overlap: v1::Overlap::Queue.into(),
            catch_up: v1::CatchUp::One.into(),
            ..v1::Schedule::default()
        };
        let at = |seconds| prost_types::Timestamp { seconds, nanos: 0 };
        let job = v1::Job {
            spec: Some(v1::JobSpec {
                schedule: Some(schedule),
                ..v1::JobSpec::default()
            }),
            schedule_status: Some(v1::ScheduleStatus {
                paused: true,
                next_times: vec![at(1_795_485_600)],
                skipped_time: Some(at(1_795_399_200)),
                ..v1::ScheduleStatus::default()
            }),
            ..v1::Job::default()
        };
        let told = lines(&job);
        assert!(
            told[0].contains("overlap queue, catch_up one") && told[0].ends_with("; paused"),
            "{told:?}"
        );
        assert_eq!(told[1], "next:      2026-11-24 03:00 +01 Europe/Berlin");
        assert_eq!(told[2], "skipped:   2026-11-23 03:00 +01 Europe/Berlin");
    }
}
