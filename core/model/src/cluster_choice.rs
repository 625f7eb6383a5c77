//! Which clusters a job may use, which it prefers, and how its instances are divided over them.
//!
//! A [selector](matches_selector) names clusters: by name, by id, or by a label, as in `region=eu-west`.

use crate::cluster::Cluster;
use crate::id::ClusterId;
use std::collections::BTreeMap;

/// Most selectors in one list of a job.
pub const MAX_SELECTORS: usize = 1024;
/// Most clusters that a job may require.
pub const MAX_LEAST_CLUSTERS: u32 = 1_000;
/// Largest weight.
pub const MAX_WEIGHT: u32 = 1_000_000;

/// How a group's instances are divided over clusters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Spread {
    /// All on the first cluster that the job prefers, further ones only when it has no capacity.
    #[default]
    None,
    /// As evenly as possible over all clusters that pass the filters.
    Even,
    /// In proportion to these weights, by selector. A cluster that no selector matches gets nothing.
    Weights(BTreeMap<String, u32>),
}

/// Which clusters a job prefers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preference {
    /// The first of these selectors that matches decides; clusters that none matches come last.
    Ordered(Vec<String>),
    /// The cluster with the largest weight comes first; the weight is that of the heaviest selector that
    /// matches, else 0.
    Weighted(BTreeMap<String, u32>),
}

impl Default for Preference {
    /// None: all are equal.
    fn default() -> Self {
        Self::Ordered(Vec::new())
    }
}

/// Whether prices count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum CostRule {
    /// They do not.
    #[default]
    Ignore,
    /// Of clusters that are preferred alike the cheapest comes first. One without a price comes last.
    PreferCheap,
}

/// Which clusters a job may use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterChoice {
    /// Only what one of these selectors matches; all when empty.
    pub only: Vec<String>,
    /// Which it prefers.
    pub prefer: Preference,
    /// How instances are divided.
    pub spread: Spread,
    /// The instances of a group are on at least so many clusters, or each is on one of its own. At least 1.
    pub min_clusters: u32,
    /// Of a group's instances, rounded up: no cluster gets more. 1 to 100 percent.
    pub max_share: u32,
    /// What one of these selectors matches is used only while no other cluster passes the filters.
    pub fail_over_only: Vec<String>,
    /// Labels of the data that it uses. A cluster with more of these labels comes before one with fewer,
    /// among those that are preferred alike.
    pub near: BTreeMap<String, String>,
    /// Whether prices count.
    pub cost: CostRule,
}

impl Default for ClusterChoice {
    fn default() -> Self {
        Self {
            only: Vec::new(),
            prefer: Preference::default(),
            spread: Spread::default(),
            min_clusters: 1,
            max_share: 100,
            fail_over_only: Vec::new(),
            near: BTreeMap::new(),
            cost: CostRule::default(),
        }
    }
}

/// By what a cluster is selected.
#[derive(Debug, Clone, Copy)]
pub struct ClusterIdentity<'a> {
    /// Its id.
    pub id: &'a ClusterId,
    /// Its name.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
}

impl Cluster {
    /// By what it is selected.
    #[must_use]
    pub fn identity(&self) -> ClusterIdentity<'_> {
        ClusterIdentity {
            id: &self.id,
            name: &self.name,
            labels: &self.labels,
        }
    }
}

/// Whether a selector matches a cluster: it is its name or id, or `key=value` of one of its labels. Of a
/// label with several values, separated by commas, one is enough.
#[must_use]
pub fn matches_selector(selector: &str, cluster: ClusterIdentity<'_>) -> bool {
    if let Some((key, value)) = selector.split_once('=') {
        return has_label(cluster.labels, key, value);
    }
    selector == cluster.name || selector == cluster.id.as_str()
}

/// Whether a cluster has a label with this value among its values.
#[must_use]
pub fn has_label(labels: &BTreeMap<String, String>, key: &str, value: &str) -> bool {
    let found = labels.get(key);
    found.is_some_and(|text| text == value || text.split(',').any(|one| one.trim() == value))
}

impl ClusterChoice {
    /// Whether the job may use a cluster at all.
    #[must_use]
    pub fn allows(&self, cluster: ClusterIdentity<'_>) -> bool {
        allows_by_name(&self.only, cluster) && self.weight(cluster) > 0
    }

    /// Its share of the instances relative to other clusters; 1 unless weights are given.
    #[must_use]
    pub fn weight(&self, cluster: ClusterIdentity<'_>) -> u32 {
        match &self.spread {
            Spread::None | Spread::Even => 1,
            Spread::Weights(weights) => heaviest(weights, cluster),
        }
    }

    /// Whether a cluster is kept for the case that no other passes the filters.
    #[must_use]
    pub fn is_fail_over(&self, cluster: ClusterIdentity<'_>) -> bool {
        self.fail_over_only.iter().any(|s| matches_selector(s, cluster))
    }

    /// How far a cluster is from what the job prefers: 0 is best.
    #[must_use]
    pub fn rank(&self, cluster: ClusterIdentity<'_>) -> u32 {
        match &self.prefer {
            Preference::Ordered(selectors) => {
                let found = selectors.iter().position(|s| matches_selector(s, cluster));
                u32::try_from(found.unwrap_or(selectors.len())).unwrap_or(u32::MAX)
            }
            Preference::Weighted(weights) => MAX_WEIGHT.saturating_sub(heaviest(weights, cluster)),
        }
    }

    /// How many labels of the job's data a cluster does not have.
    #[must_use]
    pub fn distance(&self, cluster: ClusterIdentity<'_>) -> u32 {
        let missing = self.near.iter().filter(|(k, v)| !has_label(cluster.labels, k, v));
        u32::try_from(missing.count()).unwrap_or(u32::MAX)
    }

    /// Most instances of a group with so many that one cluster may have.
    ///
    /// The share is one of all instances, not of those that run: so it does not depend on the order in which
    /// they begin, and one more instance never lowers it.
    #[must_use]
    pub fn most_on_one(&self, instances: u64) -> u64 {
        let share = u128::from(instances) * u128::from(self.max_share);
        let by_share = u64::try_from(share.div_ceil(100)).unwrap_or(u64::MAX);
        let others = self.least_clusters(instances).saturating_sub(1);
        by_share.min(instances.saturating_sub(others)).max(1)
    }

    /// On how many clusters a group with so many instances is to be at least.
    #[must_use]
    pub fn least_clusters(&self, instances: u64) -> u64 {
        u64::from(self.min_clusters).min(instances)
    }

    /// Whether what one cluster may get depends on the whole group: then a cluster with capacity may get
    /// nothing.
    #[must_use]
    pub fn bounds_clusters(&self) -> bool {
        matches!(self.spread, Spread::Weights(_)) || self.min_clusters > 1 || self.max_share < 100
    }

    /// Selectors of all clusters that the job may use, in order; empty: it may use all. With weights beside
    /// `only` some clusters that they match may be out of bounds for it.
    #[must_use]
    pub fn bounding_selectors(&self) -> Vec<String> {
        let mut out = self.only.clone();
        if let (true, Spread::Weights(weights)) = (out.is_empty(), &self.spread) {
            let some = weights.iter().filter(|(_, weight)| **weight > 0);
            out.extend(some.map(|(selector, _)| selector.clone()));
        }
        out.sort();
        out
    }

    /// How many instances of a group so many clusters may have, when each has as many as it may.
    #[must_use]
    pub fn most_on(&self, clusters: u64, instances: u64) -> u64 {
        let missing = self.least_clusters(instances).saturating_sub(clusters);
        let by_share = self.most_on_one(instances).saturating_mul(clusters);
        by_share.min(instances.saturating_sub(missing))
    }

    /// All selectors, each with the field that it stands in.
    #[must_use]
    pub fn selectors(&self) -> Vec<(String, &str)> {
        let mut lists = vec![("only", &self.only), ("fail_over_only", &self.fail_over_only)];
        let mut maps = Vec::new();
        match &self.prefer {
            Preference::Ordered(list) => lists.push(("prefer", list)),
            Preference::Weighted(weights) => maps.push(("prefer_weights", weights)),
        }
        if let Spread::Weights(weights) = &self.spread {
            maps.push(("weights", weights));
        }
        let mut out = Vec::new();
        for (field, list) in lists {
            let fields = list.iter().enumerate();
            out.extend(fields.map(|(i, s)| (format!("{field}[{i}]"), s.as_str())));
        }
        for (field, map) in maps {
            out.extend(map.keys().map(|s| (format!("{field}[{s}]"), s.as_str())));
        }
        out
    }
}

/// Whether a list of selectors lets a cluster be used: an empty list lets all.
#[must_use]
pub fn allows_by_name(only: &[String], cluster: ClusterIdentity<'_>) -> bool {
    only.is_empty() || only.iter().any(|s| matches_selector(s, cluster))
}

fn heaviest(weights: &BTreeMap<String, u32>, cluster: ClusterIdentity<'_>) -> u32 {
    let matching = weights.iter().filter(|(s, _)| matches_selector(s, cluster));
    matching.map(|(_, weight)| *weight).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels() -> BTreeMap<String, String> {
        let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
        BTreeMap::from([pair("region", "eu"), pair("gpu_kinds", "a100, h100")])
    }

    fn with_identity<T>(judge: impl Fn(ClusterIdentity<'_>) -> T) -> T {
        let (id, labels) = (ClusterId::new("c-1"), labels());
        judge(ClusterIdentity {
            id: &id,
            name: "east",
            labels: &labels,
        })
    }

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|s| (*s).to_owned()).collect()
    }

    #[test]
    fn a_selector_matches_by_name_id_and_label() {
        let matches = |selector: &str| with_identity(|c| matches_selector(selector, c));
        for selector in ["east", "c-1", "region=eu", "gpu_kinds=a100", "gpu_kinds=h100"] {
            assert!(matches(selector), "{selector}");
        }
        for selector in ["", "west", "region", "region=us", "zone=", "gpu_kinds=a10", "=eu"] {
            assert!(!matches(selector), "{selector}");
        }
    }

    #[test]
    fn preference_is_a_rank() {
        let rank = |prefer: Preference| {
            let choice = ClusterChoice {
                prefer,
                ..ClusterChoice::default()
            };
            with_identity(|c| choice.rank(c))
        };
        assert_eq!(rank(Preference::default()), 0);
        assert_eq!(
            rank(Preference::Ordered(texts(&["west", "region=eu", "east"]))),
            1
        );
        assert_eq!(rank(Preference::Ordered(texts(&["west"]))), 1);
        let weights = |list: &[(&str, u32)]| {
            let pairs = list.iter().map(|(s, w)| ((*s).to_owned(), *w));
            Preference::Weighted(pairs.collect())
        };
        assert_eq!(rank(weights(&[("east", 3), ("region=eu", 5)])), MAX_WEIGHT - 5);
        assert_eq!(rank(weights(&[("west", 3)])), MAX_WEIGHT);
    }

    #[test]
    fn a_cluster_without_weight_gets_nothing() {
        let by = |selector: &str, weight| ClusterChoice {
            spread: Spread::Weights(BTreeMap::from([(selector.to_owned(), weight)])),
            ..ClusterChoice::default()
        };
        assert!(with_identity(|c| by("region=eu", 2).allows(c)));
        assert!(!with_identity(|c| by("east", 0).allows(c)));
        assert!(!with_identity(|c| by("west", 2).allows(c)));
    }

    #[test]
    fn the_most_on_one_cluster_follows_from_share_and_least_count() {
        let choice = |min_clusters, max_share| ClusterChoice {
            min_clusters,
            max_share,
            ..ClusterChoice::default()
        };
        assert_eq!(choice(1, 100).most_on_one(10), 10);
        assert_eq!(choice(1, 40).most_on_one(10), 4);
        assert_eq!(choice(1, 40).most_on_one(11), 5);
        assert_eq!(choice(3, 100).most_on_one(10), 8);
        assert_eq!(choice(3, 100).most_on_one(2), 1);
        assert_eq!(choice(1, 1).most_on_one(1), 1);
        assert_eq!(choice(1, 100).most_on_one(0), 1);
        assert_eq!(choice(1, 100).most_on_one(u64::MAX), u64::MAX);
    }

    #[test]
    fn each_selector_is_named_with_its_field() {
        let choice = ClusterChoice {
            only: texts(&["east"]),
            prefer: Preference::Weighted(BTreeMap::from([("west".to_owned(), 1)])),
            spread: Spread::Weights(BTreeMap::from([("north".to_owned(), 1)])),
            fail_over_only: texts(&["a", "b"]),
            ..ClusterChoice::default()
        };
        let all: Vec<String> = choice
            .selectors()
            .iter()
            .map(|(field, s)| format!("{field} {s}"))
            .collect();
        assert_eq!(
            all,
            [
                "only[0] east",
                "fail_over_only[0] a",
                "fail_over_only[1] b",
                "prefer_weights[west] west",
                "weights[north] north"
            ]
        );
    }
}
