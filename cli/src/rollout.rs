//! `echelon rollout ...`: how far a job is on its way to a new version, and what is wanted of that.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::{self, Listing};
use crate::shape;
use clap::{Args, Subcommand};
use echelon_clients_rust::v1;

/// Verbs. JOB is an id, or the name of a job.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the latest rollout of a job
    Get {
        /// Id or name
        job: String,
    },
    /// List the rollouts of a job, oldest first
    List {
        /// Id or name
        job: String,
    },
    /// Follow the latest rollout of a job until it is over or waits for somebody
    Watch {
        /// Id or name
        job: String,
    },
    /// Update nothing more, until `resume`
    Pause(Which),
    /// Go on; if it was held for what has failed, that is accepted
    Resume(Which),
    /// Accept the canaries: all others follow
    Promote(Which),
    /// Take the rollout back: everything goes to the version before
    Abort(Which),
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
        Command::Get { job } => get(context, &job).await,
        Command::List { job } => list(context, &job).await,
        Command::Watch { job } => watch(context, &job).await,
        Command::Pause(which) => steer(context, which, v1::RolloutAction::Pause).await,
        Command::Resume(which) => steer(context, which, v1::RolloutAction::Resume).await,
        Command::Promote(which) => steer(context, which, v1::RolloutAction::Promote).await,
        Command::Abort(which) => steer(context, which, v1::RolloutAction::Abort).await,
    }
}

async fn get(context: &Context, job: &str) -> Result<(), Failure> {
    let job = context.client().await?.get_job(job).await?;
    let rollout = latest(&job)?;
    let value = output::message("Rollout", rollout);
    let name = format!("{}.{}", job.display_name, rollout.number);
    output::print(output::one(
        &value,
        &name,
        &people(&job, rollout),
        context.format(),
    ));
    Ok(())
}

fn latest(job: &v1::Job) -> Result<&v1::Rollout, Failure> {
    job.rollout.as_ref().ok_or_else(|| {
        Failure::new(
            Exit::Failed,
            format!(
                "nothing of job {} was ever updated",
                output::escape(&job.display_name)
            ),
        )
    })
}

fn people(job: &v1::Job, rollout: &v1::Rollout) -> String {
    let mut lines = vec![
        format!(
            "job:       {} ({})",
            output::escape(&job.display_name),
            job.job_id
        ),
        format!(
            "rollout:   {} to version {}",
            rollout.number, rollout.spec_version
        ),
        format!(
            "state:     {} for {}",
            state(rollout),
            shape::ago(rollout.since.as_ref())
        ),
        format!("updated:   {}", far(rollout)),
        format!("base:      version {}", rollout.base_version),
        format!("asked for: {}", shape::time(rollout.start_time.as_ref())),
    ];
    if rollout.failed > 0 {
        lines.push(format!(
            "failed:    {} instances with this version",
            rollout.failed
        ));
    }
    if rollout.reason.is_some() {
        let why = shape::reason(rollout.reason.as_ref());
        lines.push(format!("because:   {}", output::escape(&why)));
    }
    lines.extend(next_step(rollout, &job.display_name).map(|step| format!("next:      {step}")));
    lines.join("\n") + "\n"
}

/// The word for a state.
fn state(rollout: &v1::Rollout) -> String {
    shape::word(rollout.state().as_str_name(), "ROLLOUT_STATE_").replace('_', "-")
}

/// How far a rollout is: `3 of 8 instances`.
fn far(rollout: &v1::Rollout) -> String {
    format!("{} of {} instances", rollout.updated, rollout.instances)
}

/// What somebody has to do before it goes on.
fn next_step(rollout: &v1::Rollout, job: &str) -> Option<String> {
    let job = output::escape(job);
    match rollout.state() {
        v1::RolloutState::Canary => Some(format!(
            "`echelon rollout promote {job}`, or `echelon rollout abort {job}`"
        )),
        v1::RolloutState::Paused => Some(format!(
            "`echelon rollout resume {job}`, or `echelon rollout abort {job}`"
        )),
        _ => None,
    }
}

/// One line for `job get`; nothing when there is no rollout, or all of it is long over.
pub fn line(job: &v1::Job) -> Option<String> {
    let rollout = job.rollout.as_ref()?;
    let over = matches!(rollout.state(), v1::RolloutState::Done);
    let far = if over {
        String::new()
    } else {
        format!(", {}", far(rollout))
    };
    let failed = if rollout.failed > 0 && !over {
        format!(", {} failed", rollout.failed)
    } else {
        String::new()
    };
    Some(format!(
        "rollout:   {} to version {}: {} for {}{far}{failed}",
        rollout.number,
        rollout.spec_version,
        state(rollout),
        shape::ago(rollout.since.as_ref())
    ))
}

async fn list(context: &Context, job: &str) -> Result<(), Failure> {
    let job = context.client().await?.get_job(job).await?;
    let all: Vec<&v1::Rollout> = job.past_rollouts.iter().chain(&job.rollout).collect();
    let rows = all.iter().map(|r| {
        let row = [
            r.number.to_string(),
            r.spec_version.to_string(),
            r.base_version.to_string(),
            state(r),
            shape::time(r.start_time.as_ref()),
            output::escape(&shape::reason(r.reason.as_ref())),
        ];
        row.to_vec()
    });
    let listing = Listing {
        columns: &["ROLLOUT", "VERSION", "BASE", "STATE", "ASKED FOR", "BECAUSE"],
        narrow: 6,
        rows: rows.collect(),
        names: all.iter().map(|r| r.number.to_string()).collect(),
        values: all.iter().map(|r| output::message("Rollout", *r)).collect(),
    };
    output::print(output::list(&listing, context.format()));
    Ok(())
}

/// Follows the latest rollout, a line for each change.
pub async fn watch(context: &Context, job: &str) -> Result<(), Failure> {
    let client = context.client().await?;
    let mut told = String::new();
    let mut last = v1::Job::default();
    let follow = client.watch_job(job, |change| {
        if let Some(job) = &change.job {
            last = job.clone();
        }
        let Some(rollout) = &last.rollout else {
            return true;
        };
        let now = format!(
            "{} {} {}, {} failed",
            rollout.number,
            state(rollout),
            far(rollout),
            rollout.failed
        );
        if now != told {
            output::line(&now);
            told = now;
        }
        !is_moving(rollout)
    });
    tokio::select! {
        done = follow => done?,
        _ = tokio::signal::ctrl_c() => return Err(Failure::new(Exit::Interrupted, String::new())),
    }
    let rollout = latest(&last)?;
    if rollout.state() == v1::RolloutState::Done {
        return Ok(());
    }
    let step = next_step(rollout, &last.display_name);
    let step = step.map_or_else(String::new, |s| format!("; next: {s}"));
    Err(Failure::new(
        Exit::Failed,
        format!(
            "the rollout is {}: {}{step}",
            state(rollout),
            output::escape(&shape::reason(rollout.reason.as_ref()))
        ),
    ))
}

/// Whether it goes on by itself.
pub fn is_moving(rollout: &v1::Rollout) -> bool {
    matches!(
        rollout.state(),
        v1::RolloutState::Running | v1::RolloutState::RollingBack
    )
}

async fn steer(context: &Context, which: Which, action: v1::RolloutAction) -> Result<(), Failure> {
    let client = context.client().await?;
    let request = v1::SteerRolloutRequest {
        name: format!("jobs/{}", which.job),
        etag: which.etag,
        action: action.into(),
    };
    let answer = client.change(|| {
        let (mut service, request) = (client.job_service(), request.clone());
        async move { service.steer_rollout(request).await }
    });
    crate::job::print(context, &answer.await?.job.unwrap_or_default());
    Ok(())
}
