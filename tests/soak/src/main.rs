//! `echelon-soak`: what `cargo xtask soak` runs.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use echelon_tests::servers::MesosPrograms;
use echelon_tests_judge::History;
use echelon_tests_soak::fault::{Fault, MesosKind, Shape};
use echelon_tests_soak::federation::{Federation, Setting};
use echelon_tests_soak::play::{Plan, play, rounds};
use echelon_tests_soak::recorder::Recorder;
use echelon_tests_soak::report;
use echelon_tests_soak::standalone::Standalone;
use echelon_tests_soak::world::World;

/// Play faults on real servers and processes, and judge from outside what was lost, doubled or answered wrongly
#[derive(Parser)]
#[command(name = "cargo xtask soak", bin_name = "cargo xtask soak")]
struct Arguments {
    /// How long faults are played; each is played at least once
    #[arg(long, default_value_t = 5)]
    minutes: u64,
    /// Faults, with commas between them; `ci`: the few of CI; `all`: every one
    #[arg(long, default_value = "ci")]
    faults: String,
    /// Pairs of these faults that are played together after each alone
    #[arg(long, default_value_t = 0)]
    pairs: u32,
    /// What pairs are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Processes that are started
    #[arg(long, value_enum, default_value_t = Shape::Federation)]
    shape: Shape,
    /// What drives the hosts; `real`: ECHELON_TEST_MESOS names a folder with the programs of Mesos
    #[arg(long, value_enum, default_value_t = MesosKind::Simulated)]
    mesos: MesosKind,
    /// Cassandra nodes, 1 to 3
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=3))]
    cassandra: u8,
    /// Watchers of jobs
    #[arg(long, default_value_t = 100)]
    watchers: u32,
    /// New instances of batch jobs a second
    #[arg(long, default_value_t = 2)]
    load: u32,
    /// Seconds that the clocks of processes are ahead or behind: one in three is right; federation only
    #[arg(long, default_value_t = 0)]
    clocks_apart: u16,
    /// Longest recovery in seconds: from a fault to a fresh job that runs, or from its end where it blocks all
    #[arg(long, default_value_t = 18)]
    recover_within: u64,
    /// Add a row for each fault to this file
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// Write the history to this file [default: a file in the folder for temporary files]
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Only print the rows of this file as a table
    #[arg(long, value_name = "FILE", exclusive = true)]
    show: Option<PathBuf>,
    /// Only judge a history that was written before
    #[arg(long, value_name = "FILE")]
    judge: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool> {
    if let Some(path) = &arguments.show {
        print!("{}", report::table(path)?);
        return Ok(true);
    }
    let history = match &arguments.judge {
        Some(path) => {
            let file = std::fs::File::open(path).with_context(|| format!("open {}", path.display()))?;
            History::read(std::io::BufReader::new(file))?
        }
        None => soak(arguments)?,
    };
    let within = Duration::from_secs(arguments.recover_within);
    report::report(&history, within, arguments.table.as_deref())
}

fn soak(arguments: &Arguments) -> Result<History> {
    let programs = real_mesos(arguments)?;
    let faults = Fault::list(&arguments.faults, arguments.shape, arguments.mesos)?;
    let plan = Plan {
        rounds: rounds(&faults, arguments.pairs, arguments.seed),
        lasts: Duration::from_secs(arguments.minutes * 60),
        load: arguments.load,
        watchers: arguments.watchers,
        n_cassandra: arguments.cassandra,
    };
    let own = std::env::current_exe()?;
    let program = own
        .with_file_name("echelon-marks")
        .canonicalize()
        .context("no echelon-marks beside this program: build it with `cargo build -p echelon-tests-soak`")?;
    let path = arguments.history.clone().unwrap_or_else(|| {
        let name = format!("echelon-soak-{}.jsonl", std::process::id());
        std::env::temp_dir().join(name)
    });
    let recorder = Arc::new(Recorder::new(&path)?);
    recorder.tell(report::started(arguments.shape)?)?;
    println!("the history is written to {}", path.display());
    match arguments.shape {
        Shape::Federation => {
            let mut world = {
                let setting = Setting {
                    n_cassandra: arguments.cassandra,
                    clocks_apart: arguments.clocks_apart,
                };
                Federation::start(&setting, &recorder, programs.as_ref())?
            };
            let folder = world.folder("marks")?;
            played(&mut world, &plan, &recorder, (&program, &folder))
        }
        Shape::Standalone => {
            let mut world = Standalone::start(&recorder)?;
            let folder = world.folder("marks")?;
            played(&mut world, &plan, &recorder, (&program, &folder))
        }
    }
}

/// The programs of real Mesos, where it is to be played.
fn real_mesos(arguments: &Arguments) -> Result<Option<MesosPrograms>> {
    match (arguments.mesos, arguments.shape) {
        (MesosKind::Simulated, _) => Ok(None),
        (MesosKind::Real, Shape::Standalone) => {
            bail!(
                "the shape standalone has simulated clusters in it: play `--mesos real` with `--shape federation`"
            )
        }
        (MesosKind::Real, Shape::Federation) => MesosPrograms::find().map(Some),
    }
}

fn played(
    world: &mut dyn World,
    plan: &Plan,
    recorder: &Arc<Recorder>,
    marks: (&PathBuf, &PathBuf),
) -> Result<History> {
    println!(
        "everything is ready; playing {} rounds or more",
        plan.rounds.len()
    );
    play(world, plan, recorder, (marks.0, marks.1))?;
    recorder.finish()
}
