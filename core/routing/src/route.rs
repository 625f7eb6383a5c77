//! Which clusters get instances that are bound nowhere, or that are to leave the cluster where they run.

use crate::filter::{Candidate, Demand, Dropped, filter, nobody};
use crate::home::Homes;
use crate::score::{ByLoad, Score, ScoreFn};
use crate::split::{Place, SplitOrder, SplitRule, add};
use echelon_core_model::cluster_choice::Spread;
use echelon_core_model::{ClusterId, Reason};
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
    /// Counts by cluster, the most preferred first; together what was asked, or as many as have capacity.
    /// Clusters that get none are left out.
    pub shares: Vec<Share>,
    /// Clusters that cannot take it.
    pub dropped: Vec<Dropped>,
    /// Why no cluster can take it at all.
    pub refused: Option<Reason>,
}

/// In which order clusters are tried.
#[derive(Debug, Clone, Copy)]
pub struct RoutingOrder<'a> {
    /// The ring of all clusters.
    pub homes: &'a Homes,
    /// What a cluster is worth to a group.
    pub score: ScoreFn,
}

impl RoutingOrder<'_> {
    /// Clusters that passed the filters in the order in which a group prefers them: the lowest score first;
    /// of equals those that are not overloaded; of these the next on the ring.
    #[must_use]
    pub fn sort<'c>(&self, demand: &Demand<'_>, passed: &[&'c Candidate]) -> Vec<&'c Candidate> {
        if passed.len() < 2 {
            return passed.to_vec();
        }
        // Of a ring those that did not pass are left out: without them it would be in the same order.
        let ring = self.homes.order(demand.home);
        let find = |id: &ClusterId| passed.iter().find(|c| c.id == *id).copied();
        let scored = ring.iter().filter_map(find).map(|c| ((self.score)(demand, c), c));
        let mut scored: Vec<(Score, &Candidate)> = scored.collect();
        let loads = ByLoad::of(scored.iter().map(|(score, c)| (*score, c.load)));
        scored.sort_by_key(|(score, c)| (*score, loads.is_overloaded(*score, c.load)));
        scored.into_iter().map(|(_, c)| c).collect()
    }
}

/// Divides at most `n` more instances of a group, which has `have` already, over the clusters that have capacity for them:
/// never over one of `avoid`.
pub fn route(
    demand: &Demand<'_>,
    n: u64,
    have: &BTreeMap<ClusterId, u64>,
    avoid: &[ClusterId],
    clusters: &[Candidate],
    order: RoutingOrder<'_>,
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
    let ordered = order.sort(demand, &passed);
    let places = places(demand, &ordered, have);
    let split = add(&places, n, rule(demand));
    let added = ordered.iter().zip(split).filter(|(_, n)| *n > 0);
    let shares = added.map(|(c, count)| Share {
        cluster: c.id.clone(),
        count,
    });
    Routed {
        shares: shares.collect(),
        dropped,
        refused: None,
    }
}

/// The clusters in their order, and after them, without capacity, those that have something of the group and
/// take nothing now: these count for how it is divided.
fn places(demand: &Demand<'_>, ordered: &[&Candidate], have: &BTreeMap<ClusterId, u64>) -> Vec<Place> {
    let open = ordered.iter().map(|c| Place {
        have: have.get(&c.id).copied().unwrap_or_default(),
        room: demand.shape.count_in(c.room),
        weight: demand.choice.weight(c.identity()).max(1),
    });
    let others = have.iter().filter(|(id, _)| ordered.iter().all(|c| c.id != **id));
    let others = others.map(|(_, have)| Place {
        have: *have,
        room: 0,
        weight: 1,
    });
    open.chain(others).collect()
}

fn rule(demand: &Demand<'_>) -> SplitRule {
    SplitRule {
        order: match demand.choice.spread {
            Spread::None => SplitOrder::First,
            Spread::Even | Spread::Weights(_) => SplitOrder::ByWeight,
        },
        instances: demand.instances,
        least_places: demand.choice.least_clusters(demand.instances),
        most_on_one: demand.choice.most_on_one(demand.instances),
    }
}

/// Why no cluster can ever take what is asked for; `None` where one can.
#[must_use]
pub fn refusal(demand: &Demand<'_>, clusters: &[Candidate]) -> Option<Reason> {
    let (passed, dropped) = filter(demand, clusters);
    passed.is_empty().then(|| nobody(&dropped))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::tests::{candidate, demand};
    use echelon_core_model::Resources;
    use echelon_core_model::cluster::DesiredState;
    use echelon_core_model::cluster_choice::{ClusterChoice, CostRule, Preference};
    use echelon_core_testkit::build::shape;
    use std::sync::Arc;

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

    fn order(homes: &Homes) -> RoutingOrder<'_> {
        RoutingOrder {
            homes,
            score: crate::score::score,
        }
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
                order(&ring(clusters)),
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
            order(&ring(&clusters)),
        );
        assert_eq!(counts(&more.shares), map(&[("b", 3), ("c", 1)]));
    }

    #[test]
    fn nobody_left_is_a_reason() {
        let clusters = [Candidate {
            desired_state: DesiredState::Cordoned,
            ..candidate("a")
        }];
        let out = route(
            &demand(&even(), shape(1, 1)),
            3,
            &BTreeMap::new(),
            &[],
            &clusters,
            order(&ring(&clusters)),
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
            route(
                &demand(&any, shape),
                5,
                &none,
                &avoid,
                clusters,
                order(&ring(clusters)),
            )
        };
        assert_eq!(counts(&place(shape(1, 1), &clusters).shares), map(&[("b", 2)]));
        let only = place(Resources::ZERO, &clusters[..1]);
        assert_eq!((only.shares, only.refused), (Vec::new(), None));
    }

    fn names(choice: &ClusterChoice, clusters: &[Candidate]) -> Vec<String> {
        let passed: Vec<&Candidate> = clusters.iter().collect();
        let ring = ring(clusters);
        let sorted = order(&ring).sort(&demand(choice, shape(1, 1)), &passed);
        sorted.iter().map(|c| c.name.clone()).collect()
    }

    fn labelled(name: &str, labels: &[(&str, &str)]) -> Candidate {
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        Candidate {
            labels: Arc::new(labels.collect()),
            ..candidate(name)
        }
    }

    #[test]
    fn preference_goes_before_the_ring() {
        let any = ClusterChoice::default();
        let clusters = ["a", "b", "c"].map(candidate);
        let mut by_ring = names(&any, &clusters);
        let last = by_ring.pop().unwrap();
        let choice = ClusterChoice {
            prefer: Preference::Ordered(vec![last.clone()]),
            ..ClusterChoice::default()
        };
        by_ring.insert(0, last);
        assert_eq!(names(&choice, &clusters), by_ring, "the others keep their order");
    }

    #[test]
    fn nearer_goes_before_cheaper_and_cheaper_before_the_ring() {
        let choice = ClusterChoice {
            near: BTreeMap::from([("region".to_owned(), "eu".to_owned())]),
            cost: CostRule::PreferCheap,
            ..ClusterChoice::default()
        };
        let clusters = [
            labelled("free", &[("cost_core_hour", "0")]),
            labelled("dear", &[("region", "eu"), ("cost_core_hour", "0.9")]),
            labelled("unknown", &[("region", "eu")]),
            labelled("cheap", &[("region", "eu"), ("cost_core_hour", "0.1")]),
        ];
        assert_eq!(names(&choice, &clusters), ["cheap", "dear", "unknown", "free"]);
    }

    #[test]
    fn an_overloaded_cluster_comes_after_the_others_of_its_score() {
        let any = ClusterChoice::default();
        let clusters = ["a", "b", "c"].map(candidate);
        let by_ring = names(&any, &clusters);
        let loaded = |loads: [u32; 3]| {
            let with = by_ring.iter().zip(loads).map(|(name, load)| Candidate {
                load,
                ..candidate(name)
            });
            names(&any, &with.collect::<Vec<_>>())
        };
        assert_eq!(
            loaded([500, 0, 0]),
            by_ring,
            "half of it may be in use at any time"
        );
        assert_eq!(loaded([900, 800, 800]), by_ring, "it is near the mean");
        assert_eq!(loaded([900, 300, 300])[2], by_ring[0]);
    }

    #[test]
    fn a_cluster_that_takes_nothing_now_counts_for_the_division() {
        let clusters = [with_room("a", 8), with_room("b", 8)];
        let choice = ClusterChoice {
            min_clusters: 2,
            ..ClusterChoice::default()
        };
        let have = BTreeMap::from([(ClusterId::new("id-gone"), 3)]);
        let ring = ring(&clusters);
        let more = route(
            &demand(&choice, shape(1, 1)),
            7,
            &have,
            &[],
            &clusters,
            order(&ring),
        );
        assert_eq!(more.shares.iter().map(|s| s.count).sum::<u64>(), 7);
    }
}
