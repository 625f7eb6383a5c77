//! Whether other work would use what a grant that finds no host sets aside: capacity of its pools, or capacity
//! of its cluster in pieces that are too small for it.

use crate::picture::Picture;
use echelon_core_model::reason::Layer;
use echelon_core_model::{ClusterId, ReasonCode, Resources};
use echelon_core_pools::queue::{Clusters, Likeness};
use echelon_core_pools::{Side, Unit};
use std::collections::BTreeSet;

/// What waiting work lacks, as of the last admission.
#[derive(Debug, Default)]
pub(super) struct Contention {
    /// The outermost pools in which work is refused by a pool's limit or entitlement.
    pools: BTreeSet<String>,
    /// Ordinary work that its pools have capacity for and no cluster, and the clusters that it may use.
    at_clusters: BTreeSet<(Unit, Clusters)>,
}

impl Contention {
    pub(super) fn new(picture: &Picture) -> Self {
        let rooms = &picture.admission.rooms;
        let mut out = Self::default();
        for (pool, queue) in picture.demand.ledger.queue().pools() {
            let left = [Side::Ordinary, Side::Revocable].map(|side| (side, rooms.left(pool, side)));
            for like in queue.likenesses().filter(|like| may_begin(picture, like)) {
                let of_side = left.iter().find(|(side, _)| *side == like.terms.side);
                let code = of_side.and_then(|(_, left)| rooms.lacking(left, like));
                if code == Some(ReasonCode::NoClusterCapacity) && like.terms.side == Side::Ordinary {
                    out.at_clusters.insert((like.unit, like.clusters.clone()));
                } else if code.is_some_and(|code| code.layer() == Layer::Pool) {
                    let path = picture.facts.hierarchy.pool(pool).map(|p| outermost(&p.path));
                    out.pools.extend(path.map(str::to_owned));
                }
            }
        }
        out
    }

    /// Whether a pool's capacity is of use to other work of the same outermost pool.
    pub(super) fn is_about_pool(&self, path: &str) -> bool {
        self.pools.contains(outermost(path))
    }

    /// Whether something would begin on a host of a cluster if so much more of the cluster were free.
    pub(super) fn is_about_cluster(&self, picture: &Picture, cluster: &ClusterId, freed: Resources) -> bool {
        let mut clusters = picture.facts.clusters.iter().enumerate();
        let Some((index, (_, view))) = clusters.find(|(_, (id, _))| *id == cluster) else {
            return false;
        };
        // Without a report of the cluster no host is known to have anything.
        let Some(capacity) = view.capacity.as_ref() else {
            return false;
        };
        let rooms = &picture.admission.rooms;
        self.at_clusters.iter().any(|(unit, at)| {
            let free = rooms.cluster(cluster, Side::Ordinary, *unit).plus(freed);
            at.contains(&index) && unit.shape.fits(free) && unit.shape.fits(capacity.largest_free)
        })
    }
}

/// Whether work finds a host at any cluster that it may use, as far as the largest free host of each decides that.
/// Where that is not known it may.
fn may_begin(picture: &Picture, like: &Likeness) -> bool {
    let mut clusters = picture.facts.clusters.values().enumerate();
    like.terms.side != Side::Ordinary
        || clusters.any(|(index, view)| {
            let capacity = view.capacity.as_ref();
            let has_host = capacity.is_none_or(|c| like.unit.shape.fits(c.largest_free));
            like.clusters.contains(&index) && has_host
        })
}

fn outermost(path: &str) -> &str {
    path.trim_start_matches('/').split('/').next().unwrap_or_default()
}
