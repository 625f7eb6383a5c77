//! `echelon bench shard`: a shard's core with the embedded storage, of which an earlier leader has left many running instances: what it
//! takes in memory, how long a restart takes, and what it costs while nothing happens. The cluster is in memory and answers at once.

mod cluster;
mod driver;
mod manager;
mod stored;
mod times;

use super::{as_float, print, resident_bytes, status_bytes, wall_ms};
use anyhow::{Context, Result, bail};
use clap::Args;
use driver::Driver;
use echelon_cli::output;
use echelon_core_model::Timestamp;
use echelon_io_storage::open;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use stored::Size;
use times::Times;

/// Flags.
#[derive(Debug, Args)]
pub struct Flags {
    /// Jobs that run
    #[arg(long, default_value_t = 1_000)]
    jobs: u32,
    /// Instances of each
    #[arg(long, default_value_t = 1_000)]
    each: u32,
    /// Instances on each host
    #[arg(long, default_value_t = 20)]
    on_host: u32,
    /// Jobs that have ended and whose records are still there
    #[arg(long, default_value_t = 0)]
    ended: u32,
    /// Seconds in which nothing happens but heartbeats and renewed grants
    #[arg(long, default_value_t = 60)]
    quiet: u64,
    /// Seconds in which tasks fail and are placed again
    #[arg(long, default_value_t = 20)]
    busy: u64,
    /// Tasks that fail a second meanwhile
    #[arg(long, default_value_t = 50)]
    failing: u64,
    /// Seconds in which no resource manager is heard
    #[arg(long, default_value_t = 60)]
    silent: u64,
    /// Only fill a storage in this file
    #[arg(long)]
    fill: Option<PathBuf>,
}

/// Clock ticks a second of the times that the system tells of a process: the same on every Linux.
const TICKS: f64 = 100.0;

pub(super) async fn run(flags: &Flags) -> Result<()> {
    let size = Size {
        jobs: flags.jobs.max(1),
        each: flags.each.max(1),
        on_host: flags.on_host.max(1),
        ended: flags.ended,
    };
    if let Some(file) = &flags.fill {
        let store = open(&format!("file:{}", file.display())).await?;
        return stored::fill(store.as_ref(), size, Timestamp(wall_ms())).await;
    }
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("storage");
    filled(&file, size)?;
    measure(&file, size, flags).await
}

/// Has another process fill the storage: what that takes of memory is not to be counted.
fn filled(file: &Path, size: Size) -> Result<()> {
    let began = Instant::now();
    let program = std::env::current_exe().context("find this program")?;
    let mut filling = std::process::Command::new(program);
    filling.args(["bench", "shard", "--fill"]).arg(file);
    for (flag, n) in [
        ("--jobs", size.jobs),
        ("--each", size.each),
        ("--on-host", size.on_host),
        ("--ended", size.ended),
    ] {
        filling.arg(flag).arg(n.to_string());
    }
    if !filling.status().context("fill the storage")?.success() {
        bail!("the storage could not be filled");
    }
    output::line(format_args!(
        "{} instances of {} jobs on {} hosts, stored within {:.0} s",
        size.instances(),
        size.jobs,
        size.hosts(),
        began.elapsed().as_secs_f64()
    ));
    Ok(())
}

async fn measure(file: &Path, size: Size, flags: &Flags) -> Result<()> {
    let quiet = Duration::from_secs(flags.quiet);
    let memory_before = resident_bytes();
    let bytes = std::fs::metadata(file).map_or(0, |m| m.len());
    let began = Instant::now();
    let store = open(&format!("file:{}", file.display())).await?;
    let opened = began.elapsed();
    let mut driver = Driver::new(size, std::sync::Arc::clone(&store));
    driver.begin();
    driver.until("that all is read", Driver::is_loaded).await?;
    let loaded = began.elapsed();
    driver.until("a launch", |d| d.cluster.launched.is_some()).await?;
    let launched = driver
        .cluster
        .launched
        .map_or(Duration::ZERO, |at| at.duration_since(began));
    let restart = cpu_seconds();
    driver.until("that all is settled", Driver::is_settled).await?;
    let settled = began.elapsed();
    let peak = status_bytes("VmHWM:");
    output::line(format_args!(
        "a file of {} MiB opened after {:.1} s; {restart:.1} s of processors until the first launch",
        bytes >> 20,
        opened.as_secs_f64(),
    ));
    let restarting = told("restart", driver.take_times());
    // What is deferred by some seconds, as rows of hosts, is no part of a quiet time.
    rest(&mut driver, Duration::from_secs(10)).await?;
    let memory = resident_bytes().saturating_sub(memory_before);
    let resting = told("rest", driver.take_times());
    let cpu_before = cpu_seconds();
    rest(&mut driver, quiet).await?;
    let quiet_seconds = quiet.as_secs_f64().max(1.0);
    let cpu = (cpu_seconds() - cpu_before) / quiet_seconds * 100.0;
    let quieting = told("quiet time", driver.take_times());
    let core = quieting.sum.as_secs_f64() / quiet_seconds * 100.0;
    let launched_before = driver.cluster.launches;
    output::line(format_args!("{launched_before} of the new job launched"));
    let busying = busy(&mut driver, flags).await?;
    let silent = silent(&mut driver, flags).await?;
    drop(driver);
    let takeover = manager::take_over(store).await?;
    output::line(format_args!(
        "a new resource manager holds {} jobs, and of {} that they have ended",
        takeover.jobs, takeover.ended
    ));
    let instances = as_float(size.instances());
    let all = [restarting, resting, quieting, busying.times, silent.times];
    let worst = all.iter().map(|times| times.worst).max().unwrap_or_default();
    print(
        "shard",
        &[
            ("bytes_per_instance", as_float(memory) / instances),
            (
                "peak_bytes_per_instance",
                as_float(peak.saturating_sub(memory_before)) / instances,
            ),
            ("quiet_cpu_percent", cpu),
            ("quiet_core_percent", core),
            ("loaded_s", loaded.as_secs_f64()),
            ("first_launch_s", launched.as_secs_f64()),
            ("all_reconciled_s", settled.as_secs_f64()),
            ("manager_leads_s", takeover.took.as_secs_f64()),
            ("resident_mib", as_float(memory >> 20)),
            ("worst_step_ms", worst.as_secs_f64() * 1e3),
            ("busy_median_step_us", busying.median_us),
            ("busy_worst_step_ms", busying.worst_ms),
            ("views_per_launch", busying.views_a_launch),
            ("silent_reads_per_minute", silent.reads_a_minute),
        ],
    );
    Ok(())
}

/// Says how long the steps of a time took.
fn told(what: &str, times: Times) -> Times {
    output::line(format_args!(
        "{what}: {} steps took {:.1} s; median {:.0} us, 999 of 1000 within {:.1} ms, the worst {:.1} ms",
        times.steps,
        times.sum.as_secs_f64(),
        times.within(500).as_secs_f64() * 1e6,
        times.within(999).as_secs_f64() * 1e3,
        times.worst.as_secs_f64() * 1e3
    ));
    times
}

/// A time in which tasks fail and are placed again.
struct Busy {
    times: Times,
    median_us: f64,
    worst_ms: f64,
    /// Views of hosts that placement's questions renewed, by launches.
    views_a_launch: f64,
}

async fn busy(driver: &mut Driver, flags: &Flags) -> Result<Busy> {
    let (launches, views) = (driver.cluster.launches, driver.shard.views_renewed());
    driver.set_failing(flags.failing);
    rest(driver, Duration::from_secs(flags.busy)).await?;
    driver.set_failing(0);
    rest(driver, Duration::from_secs(5)).await?;
    let times = told("busy time", driver.take_times());
    let launches = driver.cluster.launches - launches;
    output::line(format_args!("{launches} launches in the busy time"));
    let views = driver.shard.views_renewed() - views;
    Ok(Busy {
        median_us: times.within(500).as_secs_f64() * 1e6,
        worst_ms: times.worst.as_secs_f64() * 1e3,
        views_a_launch: as_float(views) / as_float(launches.max(1)),
        times,
    })
}

/// A time in which no resource manager is heard.
struct Silent {
    times: Times,
    /// Reads of storage in its second half.
    reads_a_minute: f64,
}

async fn silent(driver: &mut Driver, flags: &Flags) -> Result<Silent> {
    driver.silence_manager();
    let half = Duration::from_secs(flags.silent.max(2)) / 2;
    rest(driver, half).await?;
    let reads = driver.reads;
    rest(driver, half).await?;
    let reads = as_float(driver.reads - reads);
    Ok(Silent {
        times: told("without a resource manager", driver.take_times()),
        reads_a_minute: reads / half.as_secs_f64() * 60.0,
    })
}

async fn rest(driver: &mut Driver, time: Duration) -> Result<()> {
    let end = Instant::now() + time;
    driver
        .until("the end of a rest", |_| Instant::now() >= end)
        .await?;
    Ok(())
}

/// Processor time of this process so far; 0 where the system does not tell.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name may have spaces: fields are counted from behind it.
    let fields = text.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.filter_map(|n| n.parse::<f64>().ok()).sum::<f64>() / TICKS
}
