//! Demands made from a seed, to compare how two ways of deciding do. The same seed gives the same demand, to
//! the byte.

mod draw;
mod kinds;
mod large;
mod nested;
mod small;

use crate::trace::{CapacityChange, ClusterCapacity, Group, Job, Runs, Trace};
use draw::Draw;
use echelon_core_model::pool::{Pool, PoolTree};
use echelon_core_model::{PoolId, Resources, Span, Timestamp, Version};
use std::collections::BTreeMap;

/// A kind of demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Demand {
    /// Pools in three levels with unequal shares, reservations and limits; several shapes and priorities,
    /// services among them; for an hour more than the capacity of three clusters.
    Nested,
    /// 20,000 jobs of 1 to 4 instances that run 5 to 60 s, of 40 pools on three clusters, in waves.
    Small,
    /// Twenty jobs of 5,000 to 100,000 instances on four clusters, of which one joins and one leaves in the
    /// middle.
    Large,
    /// Batch work, services and stateful services, each bound to a cluster of its own.
    Dedicated,
    /// The same work on the same clusters, where each pool has reserved what its own cluster had.
    Shared,
}

impl Demand {
    /// All.
    pub const ALL: [Self; 5] = [
        Self::Nested,
        Self::Small,
        Self::Large,
        Self::Dedicated,
        Self::Shared,
    ];

    /// Its name in commands and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nested => "nested",
            Self::Small => "small",
            Self::Large => "large",
            Self::Dedicated => "dedicated",
            Self::Shared => "shared",
        }
    }

    /// The trace, and the tree of its pools.
    #[must_use]
    pub fn make(self, seed: u64) -> (Trace, PoolTree) {
        match self {
            Self::Nested => nested::make(seed),
            Self::Small => small::make(seed, small::JOBS),
            Self::Large => large::make(seed),
            Self::Dedicated => kinds::make(seed, true),
            Self::Shared => kinds::make(seed, false),
        }
    }
}

/// An amount of so many cores and GiB.
const fn amount(cores: u64, gib: u64) -> Resources {
    Resources {
        cpus: cores * 1_000,
        memory: gib * 1_024,
        disk: 0,
        gpus: 0,
    }
}

/// A cluster of so many cores, with 4 GiB for each.
fn cluster(name: &str, at: Timestamp, cores: u64) -> CapacityChange {
    CapacityChange {
        at,
        cluster: name.to_owned(),
        capacity: ClusterCapacity::Sum(amount(cores, 4 * cores)),
    }
}

/// An elastic pool of this share in all kinds, which reserves nothing.
fn pool(path: &str, share: u64) -> Pool {
    let all = Resources {
        cpus: share,
        memory: share,
        disk: share,
        gpus: share,
    };
    Pool {
        share: all,
        ..Pool::new(PoolId::new(path), path)
    }
}

fn tree(pools: Vec<Pool>) -> PoolTree {
    PoolTree {
        version: Version(1),
        pools: pools
            .into_iter()
            .map(|p| (p.path.clone(), p))
            .collect::<BTreeMap<_, _>>(),
    }
}

/// A batch job of one group. Its instances run for these times, in the order in which they begin.
fn batch(submitted: Timestamp, pool: String, shape: Resources, runs: Vec<Runs>) -> Job {
    let instances = runs.iter().map(|r| r.count).sum();
    Job {
        groups: vec![Group::new("main", instances, shape, runs)],
        ..Job::new(submitted, pool)
    }
}

/// So many instances in parts of at most `of`, each part with a span of its own.
fn runs(draw: &mut Draw, instances: u32, of: u32, seconds: (u64, u64)) -> Vec<Runs> {
    let mut left = instances;
    let mut out = Vec::new();
    while left > 0 {
        let count = left.min(of);
        left -= count;
        let span = Span::millis(draw.between(seconds.0 * 1_000, seconds.1 * 1_000));
        out.push(Runs { count, span });
    }
    out
}

#[cfg(test)]
mod tests;
