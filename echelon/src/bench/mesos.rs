//! `echelon bench mesos`: the product's own shard, with state in memory, against a simulated master over loopback HTTP. Jobs come
//! through gateway and resource manager of the same process, so their share of the two cores is in every figure.

use super::{DEADLINE, print, spec, until_all_run, wall_ms};
use crate::heard::Wanted;
use crate::standalone::{self, Running};
use anyhow::{Result, bail};
use clap::Args;
use echelon_clients_rust::{Client, v1};
use echelon_core_model::spec::{JobKind, JobSpec, defaults};
use echelon_io_process::Shutdown;
use echelon_proto::convert;
use std::time::{Duration, Instant};

/// Flags.
#[derive(Debug, Args)]
pub struct Flags {
    /// Tasks that are launched, stay running, and are reconciled
    #[arg(long, default_value_t = 100_000)]
    running: u32,
    /// Tasks that end all at once: an update each
    #[arg(long, default_value_t = 50_000)]
    updates: u32,
}

/// The gauge of a reconciliation under way.
const UNANSWERED: &str = "echelon_shard_unanswered_tasks";
/// The gauge of the subscription.
const SUBSCRIBED: &str = "echelon_mesos_subscribed";
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Tasks that are to end together are all launched by then, if at least a thousand a second are.
const SLOWEST_LAUNCHES_PER_S: u64 = 1_000;

pub(super) async fn run(flags: Flags, shutdown: Shutdown) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let all = flags.running.saturating_add(flags.updates);
    let config = standalone::Config::bench_mesos(folder.path(), all);
    let heard = Wanted::of(&config);
    let running = standalone::start(config, shutdown).await?;
    let gateway = Client::connect(&format!("http://{}", running.address()), DEADLINE).await?;
    heard.wait(&gateway).await?;
    let launched_in = launches(&gateway, flags.running).await?;
    let reconciled_in = reconciliation(&running).await?;
    let updated_in = updates(&gateway, &running, &flags).await?;
    print(
        "mesos",
        &[
            (
                "launches_per_s",
                f64::from(flags.running) / launched_in.as_secs_f64(),
            ),
            (
                "updates_per_s",
                f64::from(flags.updates) / updated_in.as_secs_f64(),
            ),
            (
                &format!("reconcile_{}k_s", flags.running / 1000),
                reconciled_in.as_secs_f64(),
            ),
        ],
    );
    running.stop().await;
    Ok(())
}

/// From submit to all running, one update each.
async fn launches(gateway: &Client, instances: u32) -> Result<Duration> {
    let began = Instant::now();
    let mut job = spec(instances);
    for group in &mut job.groups {
        group
            .runtime
            .env
            .insert("SIM_SKIPS_STARTING".to_owned(), "1".to_owned());
    }
    let job = submit(gateway, job).await?;
    until_all_run(gateway, &job).await?;
    Ok(began.elapsed())
}

/// From the break of the stream to Mesos' answer for every task and its word that it has told all.
async fn reconciliation(running: &Running) -> Result<Duration> {
    until(|| gauge(running, UNANSWERED) == Some(0.0)).await?;
    let began = Instant::now();
    running.cut_streams();
    until(|| gauge(running, SUBSCRIBED) == Some(0.0) || gauge(running, UNANSWERED) > Some(0.0)).await?;
    until(|| gauge(running, SUBSCRIBED) == Some(1.0) && gauge(running, UNANSWERED) == Some(0.0)).await?;
    Ok(began.elapsed())
}

/// From the common end of many tasks until the last update is committed and acknowledged.
async fn updates(gateway: &Client, running: &Running, flags: &Flags) -> Result<Duration> {
    let ends_at = wall_ms() + u64::from(flags.updates) * 1000 / SLOWEST_LAUNCHES_PER_S + 5_000;
    let mut job = spec(flags.updates);
    job.name = "burst".to_owned();
    job.kind = JobKind::Batch;
    for group in &mut job.groups {
        group.retry = defaults::retry(JobKind::Batch);
        group
            .runtime
            .env
            .insert("SIM_ENDS_AT_MS".to_owned(), ends_at.to_string());
    }
    let job = submit(gateway, job).await?;
    until_all_run(gateway, &job).await?;
    let Some(left) = ends_at.checked_sub(wall_ms()) else {
        bail!("launching was too slow: tasks that were to end together were not all running by then");
    };
    tokio::time::sleep(Duration::from_millis(left)).await;
    let began = Instant::now();
    let staying = usize::try_from(flags.running)?;
    until(|| running.n_tracked() <= staying).await?;
    Ok(began.elapsed())
}

async fn submit(gateway: &Client, spec: JobSpec) -> Result<v1::Job> {
    Ok(gateway.create_job(convert::spec::spec(&spec)).await?)
}

async fn until(holds: impl Fn() -> bool) -> Result<()> {
    let began = Instant::now();
    while !holds() {
        if began.elapsed() > DEADLINE {
            bail!("it did not come to its end within {} s", DEADLINE.as_secs());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

/// The value of a gauge of the one shard.
fn gauge(running: &Running, name: &str) -> Option<f64> {
    let text = running.exposition();
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.rsplit(' ').next()?.parse().ok()
}
