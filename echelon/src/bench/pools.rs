//! `echelon bench pools`: entitlement by itself, and the resource manager's core with storage and shards in memory. One thread, no
//! sockets: what is measured is what deciding costs.

mod entitled;
mod federation;
mod jobs;
mod shard;

use super::{as_float, percentile, print, resident_bytes};
use anyhow::Result;
use clap::Args;
use echelon_cli::output;
use federation::Federation;
use std::time::Duration;

/// Flags.
#[derive(Debug, Args)]
pub struct Flags {
    /// Pools, a hundredth of which have the others below them
    #[arg(long, default_value_t = 10_000)]
    pools: u32,
    /// Waiting jobs, of ten instances each
    #[arg(long, default_value_t = 100_000)]
    waiting: u32,
    /// Active instances, a hundred a job
    #[arg(long, default_value_t = 1_000_000)]
    active: u32,
    /// Clusters
    #[arg(long, default_value_t = 20)]
    clusters: u32,
    /// Cycles that are measured, twenty in each second of the federation's time
    #[arg(long, default_value_t = 200)]
    cycles: u32,
}

/// Of the job that is followed to its first grant.
const MANY_INSTANCES: u32 = 1_000_000;

pub(super) fn run(flags: &Flags) -> Result<()> {
    let entitlement = entitled::full(flags.pools);
    let incremental = entitled::one_change(flags.pools);
    let memory_before = resident_bytes();
    let mut world = Federation::new(flags.pools, flags.clusters, flags.active);
    world.start()?;
    world.submit(flags.active.div_ceil(federation::WIDE), federation::WIDE)?;
    world.submit(flags.waiting, federation::NARROW)?;
    let memory = resident_bytes().saturating_sub(memory_before);
    let jobs = world.jobs();
    output::line(format_args!(
        "{} active instances, {jobs} jobs, {} of them wait whole",
        world.active(),
        world.waiting()
    ));
    let cycles = world.cycles(flags.cycles)?;
    // A federation of its own: what the first grant of a large job costs is to show no cost of others.
    let mut world = Federation::new(flags.pools, flags.clusters, MANY_INSTANCES);
    world.start()?;
    let first_grant = world.first_grant(MANY_INSTANCES)?;
    print(
        "pools",
        &[
            (
                &format!("entitlement_{}k_ms", flags.pools / 1000),
                ms(entitlement),
            ),
            ("incremental_us", ms(incremental) * 1000.0),
            ("cycle_p50_ms", percentile(&cycles, 50) / 1000.0),
            ("cycle_p99_ms", percentile(&cycles, 99) / 1000.0),
            ("bytes_per_job", as_float(memory) / f64::from(jobs.max(1))),
            ("million_first_grant_ms", ms(first_grant)),
        ],
    );
    Ok(())
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_federation_fills_up_and_the_rest_waits() {
        let mut world = Federation::new(200, 2, 1_000);
        world.start().unwrap();
        world.submit(10, federation::WIDE).unwrap();
        world.submit(20, federation::NARROW).unwrap();
        assert_eq!((world.active(), world.jobs(), world.waiting()), (1_000, 30, 20));
        assert_eq!(world.cycles(3).unwrap().len(), 3);
        assert!(world.waiting() < 20, "what ended has made room");
    }
}
