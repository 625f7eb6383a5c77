//! Pools that want more than there is, and what each of them has of it in the end: its fair part. Every instance is of one
//! core here.

use crate::invariants::Broken;
use crate::options::Options;
use crate::world::World;
use echelon_core_model::Resources;
use echelon_core_model::job::Desired;
use echelon_core_testkit::build::shape;

/// Batch work still comes and goes in the end: an instance may just be on its way to where somebody's has ended, and a pool has one
/// less meanwhile.
const ON_THE_WAY: u64 = 1;
/// MiB of an instance of one core.
const MEMORY: u64 = 64;
/// Cores of a host.
pub(crate) const CORES: u64 = 4;

/// The pool of the nth of anything that belongs to pools in turn.
pub(crate) fn pool_of(options: &Options, n: usize) -> String {
    match n % options.pools.max(1) {
        0 => "/default".to_owned(),
        n => format!("/p{n}"),
    }
}

/// What each pool has reserved: room for instances of one core.
pub(crate) const fn reservation(options: &Options) -> Resources {
    let cores = options.reserved;
    shape(cores, cores.saturating_mul(MEMORY))
}

/// What a pool wants and has, in instances.
#[derive(Debug, Clone, Copy, Default)]
struct Pool {
    wants: u64,
    has: u64,
}

impl World {
    /// Pools that have less than their fair part.
    pub(crate) fn judge_shares(&self) -> Vec<Broken> {
        if self.options.pools < 2 {
            return Vec::new();
        }
        let mut pools = vec![Pool::default(); self.options.pools];
        for (n, user) in self.users.0.iter().enumerate() {
            let (wants, has) = user.job.map_or((0, 0), |job| self.wants_and_has(job));
            if let Some(pool) = pools.get_mut(n % self.options.pools) {
                pool.wants += wants;
                pool.has += has;
            }
        }
        let hosts = self.options.clusters * self.options.hosts;
        let there = CORES * u64::try_from(hosts).unwrap_or(u64::MAX);
        let parts = fair(there, &pools);
        let short = pools
            .iter()
            .zip(parts)
            .filter(|(pool, part)| pool.has.saturating_add(ON_THE_WAY) < *part);
        short
            .map(|(pool, part)| Broken {
                invariant: 14,
                what: format!(
                    "a pool has {} of its {part}; of {there} all have {pools:?}",
                    pool.has
                ),
            })
            .collect()
    }

    /// Instances of a job that should run, and that do; none of one that has ended.
    fn wants_and_has(&self, job: echelon_core_model::JobId) -> (u64, u64) {
        let (Some(head), Some(progress)) = (self.head(job), self.progress(job)) else {
            return (0, 0);
        };
        if progress.state.is_ended() || head.goal.desired != Desired::Running {
            return (0, 0);
        }
        let wanted = self.wanted(job, head.spec_version);
        (
            self.unended_of(&progress, &head, wanted),
            self.live_instances(job),
        )
    }
}

/// Equal parts of what is there, of which nobody gets more than he wants; what is too little for one more each goes to nobody.
fn fair(there: u64, pools: &[Pool]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..pools.len()).collect();
    order.sort_by_key(|i| pools.get(*i).map(|p| p.wants));
    let mut out = vec![0; pools.len()];
    let mut left = there;
    for (done, i) in order.iter().enumerate() {
        let sharers = u64::try_from(pools.len() - done).unwrap_or(u64::MAX);
        let wants = pools.get(*i).map_or(0, |p| p.wants);
        let part = wants.min(left / sharers);
        left -= part;
        if let Some(slot) = out.get_mut(*i) {
            *slot = part;
        }
    }
    out
}
