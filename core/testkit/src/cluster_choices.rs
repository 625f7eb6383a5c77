//! Any choice of clusters.

use echelon_core_model::cluster_choice::{ClusterChoice, CostRule, MAX_WEIGHT, Preference, Spread};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

fn weights() -> impl Strategy<Value = std::collections::BTreeMap<String, u32>> {
    btree_map(".{1,4}", 0..=MAX_WEIGHT, 1..3)
}

/// Any choice of clusters.
pub fn cluster_choices() -> impl Strategy<Value = ClusterChoice> {
    let selectors = || vec(".{0,4}", 0..3);
    let prefer = prop_oneof![
        selectors().prop_map(Preference::Ordered),
        weights().prop_map(Preference::Weighted),
    ];
    let spread = prop_oneof![
        Just(Spread::None),
        Just(Spread::Even),
        weights().prop_map(Spread::Weights),
    ];
    let cost = prop_oneof![Just(CostRule::Ignore), Just(CostRule::PreferCheap)];
    let near = btree_map(".{0,4}", ".{0,4}", 0..3);
    let parts = (
        selectors(),
        prefer,
        spread,
        1..1_000u32,
        1..=100u32,
        selectors(),
        near,
        cost,
    );
    parts.prop_map(
        |(only, prefer, spread, min_clusters, max_share, fail_over_only, near, cost)| ClusterChoice {
            only,
            prefer,
            spread,
            min_clusters,
            max_share,
            fail_over_only,
            near,
            cost,
        },
    )
}
