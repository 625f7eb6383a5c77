//! `echelon bench watch`: the standalone form with simulated clusters, over the storage that is named.
//!
//! First services of one instance are watched by more and more watches, and the reads of storage are counted
//! while nothing happens. Then short commands are run one after the other, each on an idle system, from the
//! submit until a watch says that the job has ended.

use super::{as_float, percentile, print};
use crate::{heard, standalone};
use anyhow::{Context, Result, bail};
use clap::Args;
use echelon_clients_rust::{Client, v1};
use echelon_core_model::runtime::Runtime;
use echelon_core_model::spec::{GroupSpec, JobKind, JobSpec};
use echelon_core_model::{GroupName, Resources};
use echelon_io_process::Shutdown;
use echelon_proto::convert;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Flags.
#[derive(Debug, Args)]
pub struct Flags {
    /// Watches
    #[arg(long, default_value_t = 1_000)]
    watches: u32,
    /// Jobs that they watch
    #[arg(long, default_value_t = 100)]
    jobs: u32,
    /// For how long reads are counted, in seconds
    #[arg(long, default_value_t = 20)]
    idle: u64,
    /// Short commands
    #[arg(long, default_value_t = 40)]
    commands: u32,
    /// Storage: a file of its own without it
    #[arg(long)]
    storage: Option<String>,
}

/// Between two short commands. The system is idle again: what the one before has freed is offered again, and
/// offers may be revived at once (`revive_gap` of `core/hosts`).
const REST: Duration = Duration::from_secs(6);
/// Watches of one connection: a gateway takes 100 streams.
const A_CONNECTION: u32 = 50;
const DEADLINE: Duration = Duration::from_secs(60);

/// Runs the measurement.
pub(super) async fn run(flags: Flags, shutdown: Shutdown) -> Result<()> {
    let folder = tempfile::Builder::new()
        .prefix("echelon-bench-")
        .tempdir()
        .context("make a temporary folder")?;
    let mut config = standalone::Config::bench(folder.path(), flags.jobs, false);
    config.storage.clone_from(&flags.storage);
    let heard = heard::Wanted::of(&config);
    let running = standalone::start(config, shutdown).await?;
    let address = format!("http://{}", running.address());
    let gateway = Client::connect(&address, DEADLINE).await?;
    heard.wait(&gateway).await?;

    let mut jobs = Vec::new();
    for n in 0..flags.jobs.max(1) {
        let job = job(&format!("watched-{n}"), JobKind::Service, "sleep 3600");
        jobs.push(gateway.create_job(convert::spec::spec(&job)).await?.job_id);
    }
    for job in &jobs {
        until(&gateway, job, |job| job.state() == v1::JobState::Running).await?;
    }
    let mut watches = JoinSet::new();
    let mut watching = gateway.clone();
    let mut figures = Vec::new();
    for (name, wanted) in [
        ("reads_per_s_no_watch", 0),
        ("reads_per_s_one_watch", 1),
        ("reads_per_s_all_watches", flags.watches),
    ] {
        for n in u32::try_from(watches.len())?..wanted {
            if n % A_CONNECTION == 0 {
                watching = Client::connect(&address, DEADLINE).await?;
            }
            let job = jobs
                .get(usize::try_from(n)? % jobs.len())
                .cloned()
                .unwrap_or_default();
            let client = watching.clone();
            watches.spawn(async move { client.watch_job(&job, |_| false).await });
        }
        // They begin, and what has just changed is heard.
        tokio::time::sleep(Duration::from_secs(10)).await;
        let before = running.store_reads();
        tokio::time::sleep(Duration::from_secs(flags.idle)).await;
        let reads = running.store_reads().saturating_sub(before);
        figures.push((name, as_float(reads) / as_float(flags.idle)));
    }
    let mut took = Vec::new();
    for n in 0..flags.commands {
        tokio::time::sleep(REST).await;
        let began = Instant::now();
        let job = job(&format!("short-{n}"), JobKind::Batch, "true");
        let made = gateway.create_job(convert::spec::spec(&job)).await?;
        until(&gateway, &made.job_id, |job| {
            job.state() == v1::JobState::Succeeded
        })
        .await?;
        took.push(u64::try_from(began.elapsed().as_millis())?);
    }
    took.sort_unstable();
    for (name, p) in [
        ("command_p50_ms", 50),
        ("command_p90_ms", 90),
        ("command_worst_ms", 100),
    ] {
        figures.push((name, percentile(&took, p)));
    }
    watches.shutdown().await;
    print("watch", &figures);
    running.stop_with_tasks().await
}

fn job(name: &str, kind: JobKind, command: &str) -> JobSpec {
    JobSpec {
        groups: vec![GroupSpec {
            instances: 1,
            runtime: Runtime::shell(command),
            resources: Resources {
                cpus: 100,
                memory: 32,
                disk: 0,
                gpus: 0,
            },
            ..GroupSpec::new(GroupName::new(GroupName::DEFAULT), kind)
        }],
        ..JobSpec::new(name, kind)
    }
}

/// Watches a job until it is as wanted.
async fn until(gateway: &Client, job: &str, wanted: impl Fn(&v1::Job) -> bool) -> Result<()> {
    let watched = gateway.watch_job(job, |change| change.job.as_ref().is_some_and(&wanted));
    match tokio::time::timeout(DEADLINE, watched).await {
        Ok(done) => Ok(done?),
        Err(_) => bail!("job {job} is not as wanted within {} s", DEADLINE.as_secs()),
    }
}
