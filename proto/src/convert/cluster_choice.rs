//! Which clusters a job may use, to and from the wire.

use super::{Problems, at};
use crate::echelon::v1;
use echelon_core_model::cluster_choice::{
    ClusterChoice, CostRule, MAX_LEAST_CLUSTERS, MAX_WEIGHT, Preference, Spread,
};
use std::collections::BTreeMap;

pub(super) fn cluster_choice(c: &ClusterChoice) -> v1::ClusterChoice {
    let (prefer, prefer_weights) = match &c.prefer {
        Preference::Ordered(selectors) => (selectors.clone(), BTreeMap::new()),
        Preference::Weighted(weights) => (Vec::new(), weights.clone()),
    };
    let (spread, weights) = match &c.spread {
        Spread::None => (v1::Spread::None, BTreeMap::new()),
        Spread::Even => (v1::Spread::Even, BTreeMap::new()),
        Spread::Weights(weights) => (v1::Spread::Unspecified, weights.clone()),
    };
    v1::ClusterChoice {
        only: c.only.clone(),
        spread: spread.into(),
        weights,
        prefer,
        prefer_weights,
        min_clusters: c.min_clusters,
        max_share: c.max_share,
        fail_over_only: c.fail_over_only.clone(),
        near: c.near.clone(),
        cost: match c.cost {
            CostRule::Ignore => v1::CostRule::Ignore,
            CostRule::PreferCheap => v1::CostRule::PreferCheap,
        }
        .into(),
    }
}

pub(super) fn read_cluster_choice(
    c: v1::ClusterChoice,
    path: &str,
    problems: &mut Problems,
) -> ClusterChoice {
    let spread = read_spread(c.spread, c.weights, path, problems);
    ClusterChoice {
        only: c.only,
        prefer: read_preference(c.prefer, c.prefer_weights, path, problems),
        spread,
        min_clusters: read_least(c.min_clusters, path, problems),
        max_share: read_share(c.max_share, path, problems),
        fail_over_only: c.fail_over_only,
        near: c.near,
        cost: match v1::CostRule::try_from(c.cost) {
            Ok(v1::CostRule::Unspecified | v1::CostRule::Ignore) => CostRule::Ignore,
            Ok(v1::CostRule::PreferCheap) => CostRule::PreferCheap,
            Err(_) => {
                problems.add(at(path, "cost"), "must be ignore or prefer_cheap");
                CostRule::Ignore
            }
        },
    }
}

fn read_spread(spread: i32, weights: BTreeMap<String, u32>, path: &str, problems: &mut Problems) -> Spread {
    let plain = match v1::Spread::try_from(spread) {
        Ok(v1::Spread::Unspecified | v1::Spread::None) => Spread::None,
        Ok(v1::Spread::Even) => Spread::Even,
        Err(_) => {
            problems.add(at(path, "spread"), "must be none or even");
            Spread::None
        }
    };
    if weights.is_empty() {
        return plain;
    }
    if plain == Spread::Even {
        problems.add(at(path, "weights"), "must be left out where `spread` is even");
    }
    Spread::Weights(read_weights(weights, &at(path, "weights"), problems))
}

fn read_preference(
    ordered: Vec<String>,
    weights: BTreeMap<String, u32>,
    path: &str,
    problems: &mut Problems,
) -> Preference {
    if weights.is_empty() {
        return Preference::Ordered(ordered);
    }
    if !ordered.is_empty() {
        problems.add(
            at(path, "prefer_weights"),
            "must be left out where `prefer` is given",
        );
    }
    Preference::Weighted(read_weights(weights, &at(path, "prefer_weights"), problems))
}

fn read_weights(
    weights: BTreeMap<String, u32>,
    path: &str,
    problems: &mut Problems,
) -> BTreeMap<String, u32> {
    for (selector, weight) in &weights {
        if *weight > MAX_WEIGHT {
            problems.add(
                format!("{path}[{selector}]"),
                format!("must be 0 to {MAX_WEIGHT}"),
            );
        }
    }
    weights
}

fn read_least(clusters: u32, path: &str, problems: &mut Problems) -> u32 {
    match clusters {
        0 => 1,
        1..=MAX_LEAST_CLUSTERS => clusters,
        _ => {
            let text = format!("must be 1 to {MAX_LEAST_CLUSTERS}");
            problems.add(at(path, "min_clusters"), text);
            1
        }
    }
}

fn read_share(percent: u32, path: &str, problems: &mut Problems) -> u32 {
    match percent {
        0 => 100,
        1..=100 => percent,
        _ => {
            problems.add(at(path, "max_share"), "must be 1 to 100 percent");
            100
        }
    }
}
