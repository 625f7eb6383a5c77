//! Where a gang goes: all of its groups to one cluster, or nowhere. The same filters as for a single group, and the whole of it must
//! fit into what the cluster's hosts have together.

use crate::filter::{Candidate, Demand, Dropped, filter, nobody};
use crate::route::RoutingOrder;
use echelon_core_model::reason::Shortfall;
use echelon_core_model::{ClusterId, Reason, ReasonCode, Resources};
use std::collections::{BTreeMap, BTreeSet};

/// One group of a gang.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// What an instance of it needs.
    pub demand: Demand<'a>,
    /// How many instances are to go.
    pub count: u64,
    /// The clusters as the group finds them.
    pub clusters: &'a [Candidate],
}

impl Part<'_> {
    fn need(&self) -> Resources {
        self.demand.shape.times(self.count)
    }

    fn room(&self, cluster: &ClusterId) -> Resources {
        let found = self.clusters.iter().find(|c| c.id == *cluster);
        found.map(|c| c.room).unwrap_or_default()
    }
}

/// Where a gang goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// The first of its clusters, from its home on, that has room for all of it; else its home.
    pub cluster: ClusterId,
    /// Whether there is room now.
    pub has_room: bool,
}

/// Chooses a cluster for a gang, none of `from`. `capacity` is what the hosts of a cluster have together.
///
/// # Errors
/// Why no cluster can take all of it.
pub fn route_whole(
    parts: &[Part<'_>],
    capacity: &BTreeMap<ClusterId, Resources>,
    from: &[ClusterId],
    order: RoutingOrder<'_>,
) -> Result<Whole, Reason> {
    let need = parts.iter().fold(Resources::ZERO, |sum, p| sum.plus(p.need()));
    let mut dropped: Vec<Dropped> = Vec::new();
    let mut open: Option<BTreeSet<&ClusterId>> = None;
    for part in parts {
        let (passed, others) = filter(&part.demand, part.clusters);
        let passed: BTreeSet<&ClusterId> = passed.into_iter().map(|c| &c.id).collect();
        open = Some(match open {
            Some(open) => open.intersection(&passed).copied().collect(),
            None => passed,
        });
        let known: BTreeSet<ClusterId> = dropped.iter().map(|d| d.id.clone()).collect();
        dropped.extend(others.into_iter().filter(|d| !known.contains(&d.id)));
    }
    let mut open = open.unwrap_or_default();
    open.retain(|id| !from.contains(id));
    let names = parts.first().map(|p| p.clusters).unwrap_or_default();
    open.retain(|id| {
        let found = names.iter().find(|c| c.id == **id);
        let too_small = found.and_then(|c| never_fits(need, c, capacity));
        let fits = too_small.is_none();
        dropped.extend(found.zip(too_small).map(|(c, reason)| Dropped {
            id: c.id.clone(),
            name: c.name.clone(),
            reason,
        }));
        fits
    });
    let Some(first) = parts.first() else {
        return Err(nobody(&dropped));
    };
    let whole = Demand {
        shape: need,
        ..first.demand
    };
    let open: Vec<&Candidate> = names.iter().filter(|c| open.contains(&c.id)).collect();
    let order = order.sort(&whole, &open);
    let order: Vec<&ClusterId> = order.into_iter().map(|c| &c.id).collect();
    let has_room = |id: &&&ClusterId| {
        let most = parts.iter().map(|p| p.room(id));
        let all = most.fold(Resources::ZERO, Resources::max_each);
        need.fits(all) && parts.iter().all(|p| p.need().fits(p.room(id)))
    };
    let now = order.iter().find(has_room);
    let cluster = now.or_else(|| order.first());
    cluster.map_or_else(
        || Err(nobody(&dropped)),
        |cluster| {
            Ok(Whole {
                cluster: (**cluster).clone(),
                has_room: now.is_some(),
            })
        },
    )
}

/// What all hosts of a cluster together cannot hold. A cluster whose hosts are not known yet drops nobody.
fn never_fits(
    need: Resources,
    cluster: &Candidate,
    capacity: &BTreeMap<ClusterId, Resources>,
) -> Option<Reason> {
    let all = capacity.get(&cluster.id).copied().unwrap_or_default();
    let kind = need.first_lack(all).filter(|_| cluster.hosts > 0)?;
    let reason = Reason::new(ReasonCode::GangTooLarge).at("all its hosts together are too small");
    Some(reason.short(Shortfall {
        kind,
        have: all.get(kind),
        need: need.get(kind),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::tests::{candidate, demand};
    use crate::home::Homes;
    use crate::score::score;
    use echelon_core_model::cluster_choice::ClusterChoice;
    use echelon_core_testkit::build::shape;

    fn with_room(name: &str, cores: u64) -> Candidate {
        Candidate {
            room: shape(cores, 99_999),
            ..candidate(name)
        }
    }

    fn routed(groups: &[(u64, u64)], rooms: &[(&str, u64)], from: &[&str]) -> Result<Whole, String> {
        let any = ClusterChoice::default();
        let clusters: Vec<Candidate> = rooms.iter().map(|(c, n)| with_room(c, *n)).collect();
        let capacity = clusters
            .iter()
            .map(|c| (c.id.clone(), shape(12, 99_999)))
            .collect();
        let parts: Vec<Part<'_>> = groups
            .iter()
            .map(|(cores, count)| Part {
                demand: demand(&any, shape(*cores, 1)),
                count: *count,
                clusters: &clusters,
            })
            .collect();
        let from: Vec<ClusterId> = from.iter().map(|c| ClusterId::new(format!("id-{c}"))).collect();
        let homes = Homes::new(clusters.iter().map(|c| &c.id));
        let order = RoutingOrder { homes: &homes, score };
        route_whole(&parts, &capacity, &from, order).map_err(|r| r.to_string())
    }

    #[test]
    fn all_groups_go_where_there_is_room_for_all_of_them() {
        let out = routed(&[(1, 2), (2, 4)], &[("a", 9), ("b", 10), ("c", 4)], &[]).unwrap();
        assert_eq!((out.cluster.as_str(), out.has_room), ("id-b", true));
        let out = routed(&[(1, 2), (2, 4)], &[("a", 9), ("b", 9)], &[]).unwrap();
        assert!(!out.has_room, "it waits at home");
    }

    #[test]
    fn it_goes_where_it_does_not_come_from() {
        let out = routed(&[(1, 2)], &[("a", 9), ("b", 1)], &["a"]).unwrap();
        assert_eq!((out.cluster.as_str(), out.has_room), ("id-b", false));
    }

    #[test]
    fn what_no_cluster_can_hold_whole_is_told_with_the_shortfall() {
        let told = routed(&[(4, 3), (1, 1)], &[("a", 12)], &[]).unwrap_err();
        assert_eq!(
            told,
            "no cluster is large enough for its whole gang: cpus needs 13, has at most 12 (a: all its hosts together are too small)"
        );
        let told = routed(&[(1, 1), (5, 1)], &[("a", 12)], &[]).unwrap_err();
        assert_eq!(
            told,
            "no cluster has room for it: cpus needs 5, has at most 4 (a: no host is large enough)"
        );
    }
}
