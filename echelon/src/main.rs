//! `echelon`: reads the command line, runs the one thing it asks for, and turns what became of it into an exit code.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

use clap::{CommandFactory, Parser, Subcommand};
use echelon::process::BUILD;
use echelon::roles::Role;
use echelon::{bench, demo, doctor, storage};
use echelon_cli::exit::Exit;
use echelon_cli::output;
use echelon_cli::{Context, Failure, Global};
use echelon_io_process::logs::{self, LogFormat};
use echelon_io_process::{Shutdown, descriptors};
use std::process::ExitCode;
use std::time::Duration;

/// One scheduler over many Mesos clusters
#[derive(Debug, Parser)]
#[command(name = "echelon", version = BUILD, propagate_version = true)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Client(echelon_cli::Command),
    #[command(flatten)]
    Role(Role),
    /// Show the whole federation at work in this process: two clusters, two jobs, under ten seconds
    Demo(demo::Demo),
    /// Measure; the last line of output is JSON
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Set a storage up, look at its level, or resume it after a backup was put back
    #[command(subcommand)]
    Storage(storage::Storage),
    /// Check what Echelon stands on; exit code 1 when a check fails
    Doctor(doctor::Doctor),
    /// Print the completion script of a shell
    Completion {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the version
    Version,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // A supervisor has a runtime of its own.
    if let Command::Role(Role::MesosSimSupervise { folder }) = &cli.command {
        return echelon_io_mesos_sim::supervise(std::slice::from_ref(folder));
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            return end(&Failure::new(
                Exit::Failed,
                format!("cannot start threads: {error}"),
            ));
        }
    };
    let done = runtime.block_on(run(cli));
    // Nobody waits for what was abandoned.
    runtime.shutdown_background();
    done.map_or_else(|failure| end(&failure), |()| ExitCode::SUCCESS)
}

async fn run(cli: Cli) -> Result<(), Failure> {
    let context = Context::new(cli.global);
    match cli.command {
        Command::Client(command) => echelon_cli::run(command, &context).await,
        Command::Role(role) => role.run().await.map_err(|error| failure(&error)),
        Command::Demo(flags) => until_done(async |shutdown| demo::run(flags, shutdown).await).await,
        Command::Bench(which) => until_done(async |shutdown| bench::run(which, shutdown).await).await,
        Command::Storage(verb) => storage::run(verb, context.format()).await,
        Command::Doctor(flags) => doctor::run(flags, context.format()).await,
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "echelon", &mut script);
            output::bytes(&script);
            Ok(())
        }
        Command::Version => {
            output::line(format_args!("echelon {BUILD}"));
            Ok(())
        }
    }
}

/// Runs what holds a federation in this process, until it is done or interrupted.
async fn until_done(run: impl AsyncFnOnce(Shutdown) -> anyhow::Result<()>) -> Result<(), Failure> {
    let shutdown = Shutdown::new(Duration::from_secs(10));
    echelon::process::watch_panics();
    let logging = logs::init("warn", LogFormat::Auto).map_err(anyhow::Error::from);
    descriptors::raise();
    let began = logging.and_then(|()| Ok(shutdown.on_signals()?));
    began.map_err(|error| failure(&error))?;
    match run(shutdown.clone()).await {
        Err(_) if shutdown.token().is_cancelled() => Err(Failure::new(Exit::Interrupted, "")),
        done => done.map_err(|error| failure(&error)),
    }
}

fn failure(error: &anyhow::Error) -> Failure {
    Failure::new(echelon::process::exit_of(error), format!("{error:#}"))
}

fn end(failure: &Failure) -> ExitCode {
    if !failure.message.is_empty() {
        output::remark(format_args!("echelon: {failure}"));
    }
    ExitCode::from(failure.exit as u8)
}
