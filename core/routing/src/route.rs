//! Which clusters get instances that are bound nowhere, or that are to leave the cluster where they run.

use crate::filter::{Candidate, Demand, Dropped, filter, nobody};
use crate::home::Homes;
use crate::split::{Place, add_evenly, add_in_order};
use echelon_core_model::spec::Spread;
use echelon_core_model::{ClusterId, JobId, Reason};
use std::collections::BTreeMap;

/// A cluster's part of what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The cluster.
    pub cluster: ClusterId,
    /// How many.
    pub count: u64,
}

/// Where instances of a group go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use]
pub struct Routed {
    /// Counts by cluster, the home first; together what was asked, or as many as have capacity. Clusters that get none are
    /// left out.
    pub shares: Vec<Share>,
    /// Clusters that cannot take it.
    pub dropped: Vec<Dropped>,
    /// Why no cluster can take it at all.
    pub refused: Option<Reason>,
}

/// Divides at most `n` more instances of a group, which has `have` already, over the clusters that have capacity for them:
/// never over one of `avoid`. `homes` is the ring of all clusters.
pub fn route(
    demand: &Demand<'_>,
    n: u64,
    have: &BTreeMap<ClusterId, u64>,
    avoid: &[ClusterId],
    clusters: &[Candidate],
    homes: &Homes,
) -> Routed {
    let (mut passed, dropped) = filter(demand, clusters);
    if passed.is_empty() {
        return Routed {
            refused: Some(nobody(&dropped)),
            shares: Vec::new(),
            dropped,
        };
    }
    passed.retain(|c| !avoid.contains(&c.id));
    let ordered = in_order(demand.job, &passed, homes);
    let places: Vec<Place> = ordered
        .iter()
        .map(|c| Place {
            have: have.get(&c.id).copied().unwrap_or_default(),
            room: demand.shape.count_in(c.room),
        })
        .collect();
    let split = match demand.choice.spread {
        Spread::None => add_in_order(&places, n),
        Spread::Even => add_evenly(&places, n),
    };
    Routed {
        shares: shares(&ordered, split),
        dropped,
        refused: None,
    }
}

/// Why no cluster can ever take what is asked for; `None` where one can.
#[must_use]
pub fn refusal(demand: &Demand<'_>, clusters: &[Candidate]) -> Option<Reason> {
    let (passed, dropped) = filter(demand, clusters);
    passed.is_empty().then(|| nobody(&dropped))
}

/// In the order in which a job prefers them. Of a ring those that did not pass are left out: without them it would be in the same order.
fn in_order<'a>(job: JobId, passed: &[&'a Candidate], homes: &Homes) -> Vec<&'a Candidate> {
    if passed.len() < 2 {
        return passed.to_vec();
    }
    let order = homes.order(job);
    let find = |id: &ClusterId| passed.iter().find(|c| c.id == *id).copied();
    order.iter().filter_map(find).collect()
}

fn shares(ordered: &[&Candidate], split: Vec<u64>) -> Vec<Share> {
    let pairs = ordered.iter().zip(split).filter(|(_, n)| *n > 0);
    pairs
        .map(|(c, count)| Share {
            cluster: c.id.clone(),
            count,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::tests::{candidate, demand};
    use echelon_core_model::Resources;
    use echelon_core_model::cluster::Wish;
    use echelon_core_model::spec::ClusterChoice;
    use echelon_core_testkit::build::shape;

    fn even() -> ClusterChoice {
        ClusterChoice {
            spread: Spread::Even,
            ..ClusterChoice::default()
        }
    }

    fn with_room(name: &str, cores: u64) -> Candidate {
        Candidate {
            room: shape(cores, 99_999),
            ..candidate(name)
        }
    }

    fn ring(clusters: &[Candidate]) -> Homes {
        Homes::new(clusters.iter().map(|c| &c.id))
    }

    fn counts(shares: &[Share]) -> BTreeMap<String, u64> {
        shares.iter().map(|s| (s.cluster.to_string(), s.count)).collect()
    }

    fn map(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs.iter().map(|(c, n)| (format!("id-{c}"), *n)).collect()
    }

    fn routed(choice: &ClusterChoice, n: u64, clusters: &[Candidate]) -> BTreeMap<String, u64> {
        counts(
            &route(
                &demand(choice, shape(1, 1)),
                n,
                &BTreeMap::new(),
                &[],
                clusters,
                &ring(clusters),
            )
            .shares,
        )
    }

    #[test]
    fn all_at_home_while_there_is_room() {
        let any = ClusterChoice::default();
        let clusters = [with_room("a", 8), with_room("b", 8)];
        let home = routed(&any, 1, &clusters).into_keys().next().unwrap();
        assert_eq!(routed(&any, 8, &clusters), BTreeMap::from([(home.clone(), 8)]));
        let moved_on = routed(&any, 11, &clusters);
        assert_eq!((moved_on[&home], moved_on.len()), (8, 2));
        let full = routed(&any, 20, &clusters);
        assert_eq!(full.values().sum::<u64>(), 16, "the others stay bound nowhere");
    }

    #[test]
    fn even_means_even_within_room() {
        let clusters = [with_room("a", 8), with_room("b", 8), with_room("c", 1)];
        assert_eq!(
            routed(&even(), 9, &clusters),
            map(&[("a", 4), ("b", 4), ("c", 1)])
        );
        let have = BTreeMap::from([(ClusterId::new("id-a"), 4)]);
        let more = route(
            &demand(&even(), shape(1, 1)),
            4,
            &have,
            &[],
            &clusters,
            &ring(&clusters),
        );
        assert_eq!(counts(&more.shares), map(&[("b", 3), ("c", 1)]));
    }

    #[test]
    fn nobody_left_is_a_reason() {
        let clusters = [Candidate {
            wish: Wish::Cordoned,
            ..candidate("a")
        }];
        let out = route(
            &demand(&even(), shape(1, 1)),
            3,
            &BTreeMap::new(),
            &[],
            &clusters,
            &ring(&clusters),
        );
        assert_eq!(out.shares, []);
        assert_eq!(
            out.refused.unwrap().to_string(),
            "the cluster takes no new work (a: cordoned)"
        );
    }

    #[test]
    fn an_avoided_cluster_gets_nothing_although_it_has_capacity() {
        let clusters = [with_room("a", 8), with_room("b", 2), with_room("c", 0)];
        let (any, none) = (ClusterChoice::default(), BTreeMap::new());
        let avoid = [ClusterId::new("id-a")];
        let place = |shape, clusters: &[Candidate]| {
            route(&demand(&any, shape), 5, &none, &avoid, clusters, &ring(clusters))
        };
        assert_eq!(counts(&place(shape(1, 1), &clusters).shares), map(&[("b", 2)]));
        let only = place(Resources::ZERO, &clusters[..1]);
        assert_eq!((only.shares, only.refused), (Vec::new(), None));
    }
}
