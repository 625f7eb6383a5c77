//! The command line: nouns and verbs over the typed client. It reads job files, prints tables, and turns errors into
//! exit codes. It knows no storage and no roles; the binary `echelon` adds those beside these commands.

#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod exit;
pub mod job_file;
pub mod output;
pub mod quantity;

mod cluster;
mod context;
mod control;
mod host;
mod host_pool;
mod job;
mod pool;
mod rollout;
mod schedule;
mod shape;
mod status;
mod volume;

pub use context::{Context, Global};
pub use exit::Failure;
pub use pool::{record as demand_record, trace as demand_trace};
pub use shape::cluster_health;

use clap::Subcommand;

/// Commands that talk to a gateway.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run, look at, change and stop jobs
    #[command(subcommand)]
    Job(job::Command),
    /// Look at jobs on their way to a new version; hold, accept and take back
    #[command(subcommand)]
    Rollout(rollout::Command),
    /// Pause the schedule of a job, and let it go on
    #[command(subcommand)]
    Schedule(schedule::Command),
    /// Look at and change the tree of resource pools
    #[command(subcommand)]
    Pool(pool::Command),
    /// Look at clusters; take them out of service and back
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Look at hosts
    #[command(subcommand)]
    Host(host::Command),
    /// Look at host pools; move hosts from one to another by plan
    #[command(subcommand)]
    HostPool(host_pool::Command),
    /// Show the whole federation: leaders, what answers them, open alarms with the command that helps,
    /// clusters
    Status,
    /// Switches for the whole system: stop all kills
    #[command(subcommand)]
    Control(control::Command),
    /// Look at persistent volumes; destroy and adopt those that no instance holds
    #[command(subcommand)]
    Volume(volume::Command),
}

/// Runs a command.
///
/// # Errors
/// What to say on stderr, with the exit code.
pub async fn run(command: Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Job(command) => job::run(command, context).await,
        Command::Rollout(command) => rollout::run(command, context).await,
        Command::Schedule(command) => schedule::run(command, context).await,
        Command::Pool(command) => pool::run(command, context).await,
        Command::Cluster(command) => cluster::run(command, context).await,
        Command::Host(command) => host::run(command, context).await,
        Command::HostPool(command) => host_pool::run(command, context).await,
        Command::Status => status::run(context).await,
        Command::Control(command) => control::run(command, context).await,
        Command::Volume(command) => volume::run(command, context).await,
    }
}
