//! What a cluster is worth to a group: the part of routing that can be replaced.
//!
//! A score is a pure function of a group and a cluster that passed the filters. It orders clusters and does
//! nothing else: it cannot break a filter, the division or the ring. docs/routing.md has another one.

use crate::filter::{Candidate, Demand};
use echelon_core_model::Kind;
use echelon_core_model::cluster_choice::CostRule;
use echelon_core_model::cluster_labels::{KnownLabel, price};
use std::collections::BTreeMap;

/// The worth of a cluster: the lowest comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Score {
    /// What the job asks for. A lower class always goes first.
    pub class: u64,
    /// Price inside a class, in any unit; 0 where prices do not count.
    pub cost: u128,
}

/// Scores a cluster for a group.
pub type ScoreFn = fn(&Demand<'_>, &Candidate) -> Score;

/// The score that is used unless another is configured: rank in `prefer`, then labels of `near` that the
/// cluster does not have, then the price of an instance for an hour.
#[must_use]
pub fn score(demand: &Demand<'_>, cluster: &Candidate) -> Score {
    let rank = u64::from(demand.choice.rank(cluster.identity()));
    let distance = u64::from(demand.choice.distance(cluster.identity()));
    Score {
        class: rank << 32 | distance,
        cost: match demand.choice.cost {
            CostRule::Ignore => 0,
            CostRule::PreferCheap => hourly_price(demand, cluster).unwrap_or(u128::MAX),
        },
    }
}

/// The price of one instance for an hour, in thousandths of millionths of the currency. `None` if the cluster
/// does not state the price of a kind that the instance needs.
#[must_use]
pub fn hourly_price(demand: &Demand<'_>, cluster: &Candidate) -> Option<u128> {
    let of = |kind: Kind, label: KnownLabel| -> Option<u128> {
        let amount = u128::from(demand.shape.get(kind));
        if amount == 0 {
            return Some(0);
        }
        price(&cluster.labels, label).map(|price| amount.saturating_mul(u128::from(price.0)))
    };
    let cores = of(Kind::Cpus, KnownLabel::CoreHour)?;
    Some(cores.saturating_add(of(Kind::Gpus, KnownLabel::GpuHour)?))
}

/// Below this load, in thousandths, no cluster is overloaded: there a job stays at home, near the data and
/// images of the ones before.
const ALWAYS_ALLOWED: u64 = 500;

/// The mean loads of clusters with the same score. Consistent hashing with bounded loads: a cluster is
/// overloaded above 5/4 of the mean.
#[derive(Debug, Default)]
pub(crate) struct ByLoad(BTreeMap<Score, (u64, u64)>);

impl ByLoad {
    pub(crate) fn of(loads: impl Iterator<Item = (Score, u32)>) -> Self {
        let mut sums: BTreeMap<Score, (u64, u64)> = BTreeMap::new();
        for (score, load) in loads {
            let (sum, count) = sums.entry(score).or_default();
            *sum = sum.saturating_add(u64::from(load));
            *count = count.saturating_add(1);
        }
        Self(sums)
    }

    pub(crate) fn is_overloaded(&self, score: Score, load: u32) -> bool {
        let (sum, count) = self.0.get(&score).copied().unwrap_or_default();
        let load = u64::from(load);
        load > ALWAYS_ALLOWED && load.saturating_mul(count).saturating_mul(4) > sum.saturating_mul(5)
    }
}
