//! Why one more of somebody does not fit into the rooms that are left.

use super::{ClusterIdx, Left, Rooms};
use crate::hierarchy::PoolIdx;
use crate::queue::Likeness;
use crate::terms::{Terms, Unit};
use echelon_core_model::reason::Shortfall;
use echelon_core_model::resources::Resources;
use echelon_core_model::{ClusterId, Reason, ReasonCode};

impl Rooms {
    /// Whether a cluster where they wait has room for one more of those who are alike.
    fn have_room(&self, like: &Likeness) -> bool {
        let (side, unit) = (like.terms.side, like.unit);
        let is_closed = |c: &ClusterIdx| like.class.is_some_and(|class| self.closed.contains(&(class, *c)));
        let has_room = |c: &ClusterIdx| unit.shape.fits(self.cluster_at(*c, side, unit)) && !is_closed(c);
        like.clusters.iter().any(has_room)
    }

    /// What one more of those who are alike waits for, where so much is left in its pool: a bound of the pool, a cluster, or the
    /// pool's entitlement. `None` when there is room.
    #[must_use]
    pub fn lacking(&self, left: &Left, like: &Likeness) -> Option<ReasonCode> {
        self.lacking_within(left, like, Resources::MAX)
    }

    /// The same, where it is known that no unit of that side fits into any cluster that takes more than `most`.
    #[must_use]
    pub fn lacking_within(&self, left: &Left, like: &Likeness, most: Resources) -> Option<ReasonCode> {
        let (terms, shape) = (like.terms, like.unit.shape);
        let bound = left.bounds(terms).find(|(_, left)| !shape.fits(*left));
        if let Some((code, _)) = bound {
            Some(code)
        } else if let Some(code) = left.reached(terms, like.unit) {
            Some(code)
        } else if !shape.fits(most) || !self.have_room(like) {
            Some(ReasonCode::NoClusterCapacity)
        } else if !shape.fits(left.by_entitlement) {
            Some(ReasonCode::PoolEntitlement)
        } else {
            None
        }
    }

    /// Why one more unit does not fit into a pool and a cluster, `None` when it does. A bound is told before a cluster
    /// without room, since nothing but a change of the pool helps; entitlement after it.
    #[must_use]
    pub fn refusal(&self, pool: PoolIdx, terms: Terms, unit: Unit, cluster: &ClusterId) -> Option<Reason> {
        let shape = unit.shape;
        let codes = Left::MOST.bounds(terms).map(|(code, _)| code);
        let bound = codes.flat_map(|code| self.chain(pool).map(move |at| (code, at)));
        let bound = bound.into_iter().find_map(|(code, (i, room))| {
            let left = self.left_by(i, room, terms.side);
            let (_, left) = left.bounds(terms).find(|(c, _)| *c == code)?;
            self.lack(code, i, left, shape)
        });
        let reached = || {
            self.chain(pool).find_map(|(i, room)| {
                let code = self.left_by(i, room, terms.side).reached(terms, unit)?;
                let path = self.hierarchy.pool(i).map_or("/", |p| p.path.as_str());
                let (have, most, of) = match code {
                    ReasonCode::PoolJobs => (room.taken.jobs, room.bounds.max_jobs, "jobs"),
                    _ => (room.taken.instances, room.bounds.max_instances, "instances"),
                };
                Some(Reason::new(code).at(format!("{path}: {have} of at most {most} {of}")))
            })
        };
        let in_cluster = || {
            let left = self.cluster(cluster, terms.side, unit);
            let short = shortfall(left, shape)?;
            let elsewhere = shape.fits(self.cluster(cluster, terms.side, unit.on(None)));
            let reason = Reason::new(ReasonCode::NoClusterCapacity);
            let reason = if elsewhere {
                reason.at(format!("{cluster}: on hosts of its host pool; others have room"))
            } else {
                reason.at(cluster.as_str())
            };
            Some(reason.short(short))
        };
        let entitlement = || {
            self.chain(pool).find_map(|(i, room)| {
                let left = self.left_by(i, room, terms.side).by_entitlement;
                self.lack(ReasonCode::PoolEntitlement, i, left, shape)
            })
        };
        bound.or_else(reached).or_else(in_cluster).or_else(entitlement)
    }

    fn lack(&self, code: ReasonCode, pool: PoolIdx, left: Resources, shape: Resources) -> Option<Reason> {
        let short = shortfall(left, shape)?;
        let path = self.hierarchy.pool(pool).map_or("/", |p| p.path.as_str());
        Some(Reason::new(code).at(path).short(short))
    }
}

fn shortfall(left: Resources, shape: Resources) -> Option<Shortfall> {
    let kind = shape.first_lack(left)?;
    Some(Shortfall {
        kind,
        have: left.get(kind),
        need: shape.get(kind),
    })
}
