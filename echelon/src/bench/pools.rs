//! `echelon bench pools`: entitlement by itself, and the resource manager's core with the embedded storage in a file and shards in
//! memory. What is measured is what deciding costs: the time of each step that the thread takes that decides, and never that of storage.

mod entitled;
mod federation;
mod shard;
mod stored;

use super::{as_float, percentile, print, resident_bytes};
use anyhow::{Context, Result, bail};
use clap::Args;
use echelon_cli::output;
use echelon_core_resource_manager::PictureSnapshot;
use echelon_io_storage::{Store, open};
use federation::{Federation, Took};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stored::FederationSize;

/// Flags.
#[derive(Debug, Clone, Args)]
pub struct Flags {
    /// Pools, a hundredth of which have the others below them
    #[arg(long, default_value_t = 10_000)]
    pools: u32,
    /// Waiting jobs, of ten instances each
    #[arg(long, visible_alias = "waiting", default_value_t = 100_000)]
    jobs: u32,
    /// Active instances, a hundred a job
    #[arg(long, default_value_t = 1_000_000)]
    active: u32,
    /// Jobs that have ended and whose records are still stored
    #[arg(long, default_value_t = 100_000)]
    ended: u32,
    /// Clusters
    #[arg(long, default_value_t = 20)]
    clusters: u32,
    /// Cycles that are measured, twenty in each second of the federation's time
    #[arg(long, default_value_t = 200)]
    cycles: u32,
    /// Times that a pool changes, a stream opens again, a plan is made, and a period has many ends
    #[arg(long, default_value_t = 11)]
    times: u32,
    /// Specs of jobs that are never submitted. Reading them fills what storage keeps in memory
    #[arg(long, default_value_t = 0)]
    spare: u32,
    /// Only fill a storage in this file
    #[arg(long)]
    fill: Option<PathBuf>,
}

impl Flags {
    /// A federation in which no jobs have ended.
    /// A new leader reads those and frees their memory, and jobs that come later would take it unseen.
    /// Storage has all pages in memory that it keeps once the spare specs are read.
    fn without_ended(&self) -> Self {
        Self {
            ended: 0,
            spare: self.spare.max(SPARE),
            ..self.clone()
        }
    }

    fn size(&self) -> FederationSize {
        FederationSize {
            pools: self.pools,
            clusters: self.clusters.max(1),
            wide: self.active.div_ceil(stored::WIDE),
            narrow: self.jobs,
            ended: self.ended,
            large: 0,
            spare: self.spare,
        }
    }
}

/// Specs of more bytes than storage keeps in memory.
const SPARE: u32 = 150_000;
/// Of the job that is followed to its first grant.
const MANY_INSTANCES: u32 = 1_000_000;
/// Instances that end in one period.
const ENDS: u32 = 1_000;
/// Cycles after which all of them were looked at.
const SETTLED_AFTER: u32 = 40;

pub(super) async fn run(flags: &Flags) -> Result<()> {
    if let Some(file) = &flags.fill {
        return stored::fill(opened(file).await?.as_ref(), flags.size()).await;
    }
    let folder = tempfile::tempdir()?;
    // Memory comes first. What is freed later is resident, and would be used again unseen.
    let file = folder.path().join("memory");
    let alone = flags.without_ended();
    filled(&file, &alone)?;
    let memory = memory(opened(&file).await?, &alone).await?;
    let file = folder.path().join("storage");
    filled(&file, flags)?;
    let entitlement = entitled::full(flags.pools);
    let incremental = entitled::one_change(flags.pools);
    let mut figures = measure(opened(&file).await?, flags).await?;
    figures.extend(memory);
    let first_grant = first_grant(&folder.path().join("empty"), flags).await?;
    let name = format!("entitlement_{}k_ms", flags.pools / 1000);
    figures.extend([
        (name, ms(entitlement)),
        ("incremental_us".to_owned(), ms(incremental) * 1000.0),
        ("million_first_grant_ms".to_owned(), ms(first_grant)),
    ]);
    let figures: Vec<(&str, f64)> = figures.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    print("pools", &figures);
    Ok(())
}

async fn opened(file: &Path) -> Result<Arc<dyn Store>> {
    Ok(open(&format!("file:{}", file.display())).await?)
}

/// Has another process fill the storage: what that takes of memory is not to be counted.
fn filled(file: &Path, flags: &Flags) -> Result<()> {
    let began = Instant::now();
    let program = std::env::current_exe().context("find this program")?;
    let mut filling = std::process::Command::new(program);
    filling.args(["bench", "pools", "--fill"]).arg(file);
    for (flag, n) in [
        ("--pools", flags.pools),
        ("--jobs", flags.jobs),
        ("--active", flags.active),
        ("--ended", flags.ended),
        ("--spare", flags.spare),
        ("--clusters", flags.clusters),
    ] {
        filling.arg(flag).arg(n.to_string());
    }
    if !filling.status().context("fill the storage")?.success() {
        bail!("the storage could not be filled");
    }
    output::line(format_args!(
        "filled within {:.0} s",
        began.elapsed().as_secs_f64()
    ));
    Ok(())
}

/// What the first grant of a large job costs, in a federation of its own: it is to show no cost of other jobs.
async fn first_grant(file: &Path, flags: &Flags) -> Result<Duration> {
    let size = FederationSize {
        wide: 0,
        narrow: 0,
        ended: 0,
        large: MANY_INSTANCES,
        ..flags.size()
    };
    let store = opened(file).await?;
    stored::fill(store.as_ref(), size).await?;
    let mut world = Federation::new(store, size, MANY_INSTANCES);
    world.start().await?;
    world.first_grant().await
}

/// What a resource manager takes of memory: for pools and clusters once it leads, and for the jobs that come
/// then.
async fn memory(store: Arc<dyn Store>, flags: &Flags) -> Result<Vec<(String, f64)>> {
    let size = flags.size();
    let mut world = Federation::new(store, size, flags.active);
    world.warm_up().await?;
    let empty = resident_bytes();
    world.start().await?;
    world.look_at_all().await?;
    let leads = resident_bytes();
    world.submit(size.wide_jobs()).await?;
    world.look_at_all().await?;
    let bound = resident_bytes();
    world.submit(size.narrow_jobs()).await?;
    world.look_at_all().await?;
    let waiting = resident_bytes();
    let growth = |from: u64, to: u64, jobs: u32| as_float(to.saturating_sub(from)) / f64::from(jobs.max(1));
    let rows = [
        ("bytes_of_pools", growth(empty, leads, 1)),
        ("bytes_per_bound_job", growth(leads, bound, size.wide)),
        ("bytes_per_waiting_job", growth(bound, waiting, size.narrow)),
    ];
    Ok(rows.map(|(name, n)| (name.to_owned(), n)).to_vec())
}

async fn measure(store: Arc<dyn Store>, flags: &Flags) -> Result<Vec<(String, f64)>> {
    let size = flags.size();
    let mut tree = entitled::tree(size.pools);
    let mut world = Federation::new(store, size, flags.active);
    world.warm_up().await?;
    world.start().await?;
    world.submit(size.wide_jobs()).await?;
    world.submit(size.narrow_jobs()).await?;
    output::line(format_args!(
        "{} active instances, {} jobs, {} of them wait whole; {:.1} s spent in deciding, the longest step {:.0} ms",
        world.active(),
        world.live(),
        world.waiting(),
        world.spent.as_secs_f64(),
        ms(world.take_longest()),
    ));
    let cycles = world.cycles(flags.cycles).await?;
    let in_cycles = world.take_longest();
    let mut rows: [Vec<Took>; 4] = Default::default();
    let [ends, changes, reopened, reads] = &mut rows;
    for _ in 0..flags.times {
        ends.push(world.end_instances(ENDS).await);
        world.rest(2).await;
    }
    // Nothing of these ends is left to be looked at when pools change.
    world.rest(SETTLED_AFTER).await;
    for i in 0..flags.times {
        changes.push(world.change_pool(&mut tree, i * 7).await?);
    }
    for i in 0..flags.times {
        reopened.push(world.reopen(i % size.clusters).await?);
    }
    let worst = in_cycles.max(world.take_longest());
    let mut snapshot = PictureSnapshot::default();
    let first_read = world.update(&mut snapshot);
    let (mut plans, mut figures) = (Vec::new(), Vec::new());
    for i in 0..flags.times {
        // As a second of queries: the snapshot is brought up to date once.
        world.cycles(20).await?;
        reads.push(world.update(&mut snapshot));
        let (plan, of_pools) = world.query(&snapshot, i);
        plans.push(plan);
        figures.push(of_pools);
    }
    drop(snapshot);
    let ended = world.ended();
    world.take_longest();
    let failover = world.fail_over().await?;
    let in_failover = world.take_longest();
    let figure = |name: &str, n: f64| (name.to_owned(), n);
    Ok(vec![
        figure("cycle_p50_ms", percentile(&cycles, 50) / 1000.0),
        figure("cycle_p99_ms", percentile(&cycles, 99) / 1000.0),
        figure("worst_step_ms", ms(worst)),
        figure("pool_change_ms", median(changes, |took| took.longest)),
        figure("stream_reopen_ms", median(reopened, |took| took.longest)),
        figure("period_of_1000_ends_ms", median(ends, |took| took.total)),
        figure("read_ms", median(reads, |took| took.longest)),
        figure("first_read_ms", ms(first_read.longest)),
        figure("plan_elsewhere_ms", median(&plans, |took| *took)),
        figure("figures_elsewhere_ms", median(&figures, |took| *took)),
        figure("ended_in_memory", as_float(u64::try_from(ended)?)),
        figure("failover_first_grant_s", failover.as_secs_f64()),
        figure("failover_longest_step_ms", ms(in_failover)),
    ])
}

fn median<T>(all: &[T], of: impl Fn(&T) -> Duration) -> f64 {
    let mut all: Vec<Duration> = all.iter().map(of).collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied().map_or(0.0, ms)
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_small_federation_fills_up_and_the_rest_waits() {
        let size = FederationSize {
            pools: 200,
            clusters: 2,
            wide: 10,
            narrow: 20,
            // More than leave memory in one cycle.
            ended: 2_500,
            large: 0,
            spare: 0,
        };
        let folder = tempfile::tempdir().unwrap();
        let store = opened(&folder.path().join("storage")).await.unwrap();
        stored::fill(store.as_ref(), size).await.unwrap();
        let mut world = Federation::new(store, size, 1_000);
        world.start().await.unwrap();
        world.submit(size.wide_jobs()).await.unwrap();
        world.submit(size.narrow_jobs()).await.unwrap();
        world.look_at_all().await.unwrap();
        assert_eq!((world.active(), world.live(), world.waiting()), (1_000, 30, 20));
        assert_eq!(world.cycles(3).await.unwrap().len(), 3);
        assert!(
            world.waiting() < 20,
            "work that ended has left capacity for other jobs"
        );
        let mut tree = entitled::tree(size.pools);
        let steps = [
            world.end_instances(10).await,
            world.change_pool(&mut tree, 1).await.unwrap(),
            world.reopen(1).await.unwrap(),
            world.update(&mut PictureSnapshot::default()),
        ];
        assert!(steps.iter().all(|took| took.longest > Duration::ZERO));
        world.fail_over().await.unwrap();
        assert_eq!(world.live(), 30);
    }
}
