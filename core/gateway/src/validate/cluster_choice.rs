//! What a choice of clusters may be, whatever clusters there are.

use super::Violations;
use super::text::is_line;
use echelon_core_model::cluster_choice::{
    ClusterChoice, MAX_LEAST_CLUSTERS, MAX_SELECTORS, Preference, Spread,
};
use echelon_core_model::limits::LABELS;
use std::collections::{BTreeMap, BTreeSet};

/// Checks a choice that stands at `path` in its request.
pub(super) fn cluster_choice(c: &ClusterChoice, path: &str, out: &mut Violations) {
    let mut lists = vec![("only", &c.only), ("fail_over_only", &c.fail_over_only)];
    let mut maps = Vec::new();
    match &c.prefer {
        Preference::Ordered(list) => lists.push(("prefer", list)),
        Preference::Weighted(weights) => maps.push(("prefer_weights", weights)),
    }
    if let Spread::Weights(weights) = &c.spread {
        maps.push(("weights", weights));
        out.check(
            weights.values().any(|weight| *weight > 0),
            format!("{path}.weights"),
            "must give a weight to some cluster",
        );
    }
    for (field, list) in lists {
        selectors(list, &format!("{path}.{field}"), out);
    }
    for (field, weights) in maps {
        let keys: Vec<String> = weights.keys().cloned().collect();
        selectors(&keys, &format!("{path}.{field}"), out);
    }
    out.check(
        (1..=MAX_LEAST_CLUSTERS).contains(&c.min_clusters),
        format!("{path}.min_clusters"),
        format!("must be 1 to {MAX_LEAST_CLUSTERS}"),
    );
    near(&c.near, &format!("{path}.near"), out);
}

fn selectors(list: &[String], path: &str, out: &mut Violations) {
    let different: BTreeSet<&String> = list.iter().collect();
    out.check(
        list.len() <= MAX_SELECTORS,
        path,
        format!("must be at most {MAX_SELECTORS} clusters"),
    );
    out.check(
        different.len() == list.len(),
        path,
        "must not name a cluster twice",
    );
    let named = list.iter().all(|c| !c.is_empty() && is_line(c, 255));
    out.check(
        named,
        path,
        "must be names or ids of clusters, or labels such as `region=eu`",
    );
}

fn near(labels: &BTreeMap<String, String>, path: &str, out: &mut Violations) {
    out.check(
        labels.len() <= LABELS,
        path,
        format!("must be at most {LABELS} labels"),
    );
    let lines = labels
        .iter()
        .all(|(k, v)| !k.is_empty() && is_line(k, 63) && is_line(v, 255));
    out.check(lines, path, "must be keys and values of labels of clusters");
}

/// Checks that a job is not divided over clusters, since its instances belong together or to hosts.
pub(super) fn undivided(c: &ClusterChoice, path: &str, why: &str, out: &mut Violations) {
    let fields = [
        ("spread", c.spread != Spread::Even),
        ("weights", !matches!(c.spread, Spread::Weights(_))),
        ("min_clusters", c.min_clusters == 1),
        ("max_share", c.max_share == 100),
    ];
    for (field, holds) in fields {
        out.check(holds, format!("{path}.{field}"), why);
    }
}
