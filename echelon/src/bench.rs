//! `echelon bench ...`: measurements as commands. Each prints a table for people and ends with one line of JSON.

mod mesos;
mod packing;
mod placement;
mod pools;
mod replay;
mod shard;
mod watch;

use crate::{heard, standalone};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use echelon_cli::output;
use echelon_clients_rust::{self as client, Client, v1};
use echelon_core_model::cluster_choice::{ClusterChoice, Spread};
use echelon_core_model::runtime::Runtime;
use echelon_core_model::spec::{GroupSpec, JobKind, JobSpec};
use echelon_core_model::{GroupName, Resources};
use echelon_io_process::Shutdown;
use echelon_proto::convert;
use serde_json::json;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// One service of many instances, from submit to all running, through every part of the system
    E2e(E2e),
    /// What a shard gets through with a simulated master over HTTP: launches, updates, a reconciliation
    Mesos(mesos::Flags),
    /// How well tasks are packed on the shape of a published trace, by the engine and by heuristics that know all of them beforehand
    Packing(packing::Flags),
    /// How many instances find a host in a second, by the engine and by a scan over all hosts
    Placement(placement::Flags),
    /// Entitlement, and what the resource manager's core needs for a cycle over many pools and jobs
    Pools(pools::Flags),
    /// Demands replayed with delays of storage and messages: waits, work done, writes and messages
    Replay(replay::Flags),
    /// What a shard of many running instances takes in memory, at a restart, and while nothing happens
    Shard(shard::Flags),
    /// What watches cost storage while nothing happens, and how soon a short command is known to have ended
    Watch(watch::Flags),
}

/// Flags.
#[derive(Debug, Args)]
pub struct E2e {
    /// Instances
    #[arg(long, default_value_t = 20_000)]
    instances: u32,
    /// Virtual tasks on simulated clusters; real processes otherwise
    #[arg(long = "virtual")]
    is_virtual: bool,
}

const DEADLINE: Duration = Duration::from_secs(600);

/// Runs a measurement.
///
/// # Errors
/// When something could not be started or did not come to its end.
pub async fn run(bench: Bench, shutdown: Shutdown) -> Result<()> {
    match bench {
        Bench::E2e(flags) => e2e(flags, shutdown).await,
        Bench::Mesos(flags) => mesos::run(flags, shutdown).await,
        Bench::Packing(flags) => {
            packing::run(&flags);
            Ok(())
        }
        Bench::Placement(flags) => placement::run(&flags),
        Bench::Pools(flags) => pools::run(&flags).await,
        Bench::Replay(flags) => replay::run(&flags),
        Bench::Shard(flags) => shard::run(&flags).await,
        Bench::Watch(flags) => watch::run(flags, shutdown).await,
    }
}

async fn e2e(flags: E2e, shutdown: Shutdown) -> Result<()> {
    let folder = tempfile::Builder::new()
        .prefix("echelon-bench-")
        .tempdir()
        .context("make a temporary folder")?;
    let config = standalone::Config::bench(folder.path(), flags.instances, flags.is_virtual);
    let heard = heard::Wanted::of(&config);
    let running = standalone::start(config, shutdown).await?;
    let gateway = Client::connect(&format!("http://{}", running.address()), DEADLINE).await?;
    heard.wait(&gateway).await?;
    let (memory_before, writes_before) = (resident_bytes(), running.store_writes());
    let began = Instant::now();
    let submitted_ms = wall_ms();
    let job = gateway
        .create_job(convert::spec::spec(&spec(flags.instances)))
        .await?;
    until_all_run(&gateway, &job).await?;
    let seconds = began.elapsed().as_secs_f64();
    let writes = running.store_writes().saturating_sub(writes_before);
    let memory = resident_bytes().saturating_sub(memory_before);
    let latencies = latencies(&gateway, &job, submitted_ms).await?;
    let n = f64::from(flags.instances);
    let figures = [
        ("tasks_per_s", n / seconds),
        ("submit_to_running_p50_ms", percentile(&latencies, 50)),
        ("submit_to_running_p99_ms", percentile(&latencies, 99)),
        ("bytes_per_task", as_float(memory) / n),
        ("writes_per_task", as_float(writes) / n),
    ];
    print("e2e", &figures);
    running.stop().await;
    Ok(())
}

fn spec(instances: u32) -> JobSpec {
    JobSpec {
        clusters: Box::new(ClusterChoice {
            spread: Spread::Even,
            ..ClusterChoice::default()
        }),
        groups: vec![GroupSpec {
            instances,
            runtime: Runtime::shell("sleep 3600"),
            resources: Resources {
                cpus: 100,
                memory: 32,
                disk: 0,
                gpus: 0,
            },
            ..GroupSpec::new(GroupName::new(GroupName::DEFAULT), JobKind::Service)
        }],
        ..JobSpec::new("bench", JobKind::Service)
    }
}

async fn until_all_run(gateway: &Client, job: &v1::Job) -> Result<()> {
    let all = job.instances;
    let watched = gateway.watch_job(&job.job_id, |change| {
        let counts = change.job.iter().flat_map(|j| &j.groups).flat_map(|g| &g.counts);
        let running: u64 = counts
            .filter(|c| c.state() == v1::RunState::Running)
            .map(|c| c.count)
            .sum();
        running >= all
    });
    match tokio::time::timeout(DEADLINE, watched).await {
        Ok(done) => Ok(done?),
        Err(_) => bail!("not all instances ran within {} s", DEADLINE.as_secs()),
    }
}

/// From the submit to each instance's running, as stored, in milliseconds, sorted.
async fn latencies(gateway: &Client, job: &v1::Job, submitted_ms: u64) -> Result<Vec<u64>> {
    let request = v1::ListInstancesRequest {
        parent: format!("jobs/{}", job.job_id),
        ..v1::ListInstancesRequest::default()
    };
    let all = client::instances(gateway, request, usize::MAX).await?.rows;
    let since = |i: &v1::Instance| {
        let at = i.run.as_ref()?.start_time.or(i.since)?;
        let ms = u64::try_from(at.seconds).ok()? * 1000 + u64::try_from(at.nanos).ok()? / 1_000_000;
        Some(ms.saturating_sub(submitted_ms))
    };
    let mut out: Vec<u64> = all.iter().filter_map(since).collect();
    out.sort_unstable();
    Ok(out)
}

fn percentile(sorted: &[u64], p: usize) -> f64 {
    let at = sorted.len().saturating_mul(p).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().map_or(0.0, as_float)
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn as_float(n: u64) -> f64 {
    n as f64
}

fn wall_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

/// Resident memory of this process; 0 where the system does not tell.
fn resident_bytes() -> u64 {
    status_bytes("VmRSS:")
}

/// Memory of this process by the system's name for it.
fn status_bytes(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix(name));
    let kib = line
        .and_then(|l| l.split_whitespace().next())
        .and_then(|n| n.parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

fn print(bench: &str, figures: &[(&str, f64)]) {
    for (name, figure) in figures {
        output::line(format_args!("{name:<28} {figure:>14.2}"));
    }
    let figures: serde_json::Map<String, serde_json::Value> = figures
        .iter()
        .map(|(name, figure)| ((*name).to_owned(), json!((figure * 100.0).round() / 100.0)))
        .collect();
    output::line(json!({"bench": bench, "figures": figures, "machine": machine()}));
}

fn machine() -> serde_json::Value {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|l| l.strip_prefix("model name"))
        .map(|l| l.trim_start_matches([' ', '\t', ':']).to_owned());
    json!({
        "os": std::env::consts::OS,
        "arch": std::env::consts::ARCH,
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "cpu": model.unwrap_or_default(),
    })
}
