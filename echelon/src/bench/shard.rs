//! `echelon bench shard`: a shard's core with the embedded storage, of which an earlier leader has left many running instances: what it
//! takes in memory, how long a restart takes, and what it costs while nothing happens. The cluster is in memory and answers at once.

mod cluster;
mod driver;
mod manager;
mod stored;

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
    measure(&file, size, Duration::from_secs(flags.quiet)).await
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

async fn measure(file: &Path, size: Size, quiet: Duration) -> Result<()> {
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
    let (steps, stepping, longest) = (driver.steps, driver.stepping, driver.longest);
    output::line(format_args!(
        "a file of {} MiB opened after {:.1} s; {steps} steps took {:.1} s, the longest turn {:.0} ms; {restart:.1} s of processors until the first launch",
        bytes >> 20,
        opened.as_secs_f64(),
        stepping.as_secs_f64(),
        longest.as_secs_f64() * 1e3
    ));
    // What is deferred by some seconds, as rows of hosts, is no part of a quiet time.
    rest(&mut driver, Duration::from_secs(10)).await?;
    let memory = resident_bytes().saturating_sub(memory_before);
    let (cpu_before, steps_before) = (cpu_seconds(), driver.steps);
    let stepping_before = driver.stepping;
    rest(&mut driver, quiet).await?;
    let quiet_seconds = quiet.as_secs_f64().max(1.0);
    let cpu = (cpu_seconds() - cpu_before) / quiet_seconds * 100.0;
    let core = (driver.stepping - stepping_before).as_secs_f64() / quiet_seconds * 100.0;
    output::line(format_args!(
        "{} steps in {quiet_seconds:.0} quiet seconds; {} of the new job launched",
        driver.steps - steps_before,
        driver.cluster.launches
    ));
    drop(driver);
    let takeover = manager::take_over(store).await?;
    output::line(format_args!(
        "a new resource manager holds {} jobs, and of {} that they have ended",
        takeover.jobs, takeover.ended
    ));
    let instances = as_float(size.instances());
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
        ],
    );
    Ok(())
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
