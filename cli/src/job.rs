//! `echelon job ...`: the verbs and their flags. Each verb is a function of its own file below `job/`.

mod change;
mod endpoints;
mod explain;
mod instances;
mod list;
mod logs;
mod plan;
mod replace;
mod restart;
mod run;
mod show;
mod watch;

pub use show::print;

use crate::context::Context;
use crate::exit::Failure;
use crate::job_file;
use crate::output;
use clap::Subcommand;
use echelon_clients_rust::v1;
use std::path::PathBuf;

/// Verbs. JOB is an id, or the name of a job that has not ended, else the latest that had it.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Submit a job file (`-` for standard input)
    Run {
        /// The file
        file: PathBuf,
        /// Wait until the job has ended, or until a service runs; show progress
        #[arg(long)]
        wait: bool,
        /// Submit nothing: have it judged, and print it with every default written out (`-o json` for JSON)
        #[arg(long, conflicts_with = "wait")]
        dry_run: bool,
    },
    /// Print the JSON Schema of job files, for editors
    Schema,
    /// Change a job to what its file says; a service is brought to it by a rollout
    Update {
        /// The file (`-` for standard input); its `name` is the job's
        file: PathBuf,
        /// Only if nobody changed it since (`job get` shows it)
        #[arg(long, default_value = "")]
        etag: String,
        /// Wait until the rollout is over, or waits for somebody
        #[arg(long)]
        wait: bool,
    },
    /// Bring a job back to what an earlier version ran; numbers of instances stay as they are
    Rollback {
        #[command(flatten)]
        which: change::Which,
        /// The version; the one before the latest rollout when it is left out
        #[arg(long, value_name = "VERSION")]
        to: Option<u32>,
    },
    /// Show what would become of a job file, without submitting it
    Plan {
        /// The file
        file: PathBuf,
    },
    /// Show one job
    Get {
        /// Id or name
        job: String,
        /// Show this version of its spec in place of the one in force
        #[arg(long, value_name = "VERSION")]
        spec_version: Option<u32>,
    },
    /// List jobs: those that have not ended first, in each half the newest first
    List(list::Filter),
    /// List a job's instances, or those on a host: those that have not ended first, in each half by group and number
    Instances(instances::Filter),
    /// List where a job's available instances can be reached
    Endpoints(endpoints::Filter),
    /// Follow a job until it has ended
    Watch {
        /// Id or name
        job: String,
    },
    /// Print what an instance wrote
    Logs(logs::Which),
    /// List what happened to a job, newest first
    Events {
        /// Id or name
        job: String,
        /// At most this many
        #[arg(long, default_value_t = 1000)]
        limit: usize,
    },
    /// Say why anything of a job waits, and what would let it run
    Explain {
        /// Id or name
        job: String,
    },
    /// Stop a job; its record stays
    Stop {
        #[command(flatten)]
        which: change::Which,
        /// Wait until nothing of it runs
        #[arg(long)]
        wait: bool,
    },
    /// Replace every run, or those of some instances, within max_unavailable
    Restart(restart::Args),
    /// Give an instance whose host is gone for good an empty volume, and so another host
    Replace(replace::Args),
    /// End instances by number, for good: the group has as many fewer, and nobody takes their place
    End {
        #[command(flatten)]
        which: change::Which,
        /// Numbers and ranges: `3`, `7-9`
        #[arg(required = true, value_name = "NUMBERS", value_parser = restart::range)]
        numbers: Vec<v1::InstanceRange>,
        /// Which group, where there are several
        #[arg(long, default_value = "")]
        group: String,
    },
    /// Make a job of one that has a schedule now, whatever its schedule says
    Trigger {
        #[command(flatten)]
        which: change::Which,
        /// Wait until the job that is made has ended; show progress
        #[arg(long)]
        wait: bool,
    },
    /// Change the number of instances
    Scale {
        #[command(flatten)]
        which: change::Which,
        /// Wanted instances
        instances: u32,
        /// Which group, where there are several
        #[arg(long, default_value = "")]
        group: String,
    },
    /// Stop a job and remove its record
    Delete(change::Which),
}

/// Runs a verb.
pub async fn run(command: Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Run {
            file, dry_run: true, ..
        } => plan::dry_run(context, &file).await,
        Command::Run { file, wait, .. } => run::run(context, &file, wait).await,
        Command::Schema => {
            output::print(job_file::schema_text());
            Ok(())
        }
        Command::Plan { file } => plan::plan(context, &file).await,
        Command::Update { file, etag, wait } => change::update(context, &file, etag, wait).await,
        Command::Rollback { which, to } => change::roll_back(context, which, to).await,
        Command::Get { job, spec_version } => show::get(context, &job, spec_version).await,
        Command::List(filter) => list::list(context, filter).await,
        Command::Instances(filter) => instances::list(context, filter).await,
        Command::Endpoints(filter) => endpoints::list(context, filter).await,
        Command::Watch { job } => watch::watch(context, &job).await,
        Command::Logs(which) => logs::logs(context, which).await,
        Command::Events { job, limit } => list::events(context, &job, limit).await,
        Command::Explain { job } => explain::explain(context, &job).await,
        Command::Stop { which, wait } => change::stop(context, which, wait).await,
        Command::Restart(args) => restart::restart(context, args).await,
        Command::Replace(args) => replace::replace(context, args).await,
        Command::End {
            which,
            numbers,
            group,
        } => change::end(context, which, group, numbers).await,
        Command::Trigger { which, wait } => change::trigger(context, which, wait).await,
        Command::Scale {
            which,
            instances,
            group,
        } => change::scale(context, which, group, instances).await,
        Command::Delete(which) => change::delete(context, which).await,
    }
}
