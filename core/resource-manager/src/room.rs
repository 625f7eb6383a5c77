//! How much room clusters have, and for which work: hosts with GPUs may be kept for work that asks for some, so that the same
//! cluster has less room for all other work.

use crate::picture::{ClusterView, Picture};
use echelon_core_model::cluster::{Contact, Wish};
use echelon_core_model::directive::Part;
use echelon_core_model::{ClusterId, Kind, Resources};
use echelon_core_pools::ClusterRoom;
use echelon_core_routing::Candidate;
use std::collections::BTreeMap;

/// What is taken of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Taken {
    /// By all work.
    pub all: Resources,
    /// Of this, by work that asks for no GPUs.
    pub without_gpus: Resources,
}

impl Taken {
    /// Adds room of work, in sum.
    pub fn add(&mut self, room: Resources) {
        self.all = self.all.plus(room);
        if room.gpus == 0 {
            self.without_gpus = self.without_gpus.plus(room);
        }
    }

    /// At least what the cluster's own tasks take, by its shard's word.
    #[must_use]
    pub fn or_used(self, cluster: &ClusterView) -> Self {
        let told = cluster.capacity.as_ref();
        Self {
            all: self.all.max_each(told.map(|c| c.used).unwrap_or_default()),
            without_gpus: self
                .without_gpus
                .max_each(told.map(|c| c.without_gpus.used).unwrap_or_default()),
        }
    }
}

/// All that a cluster's hosts have, as reported, or as stored until this leader has heard of it.
#[must_use]
pub fn total(cluster: &ClusterView) -> Resources {
    let stored = cluster.state.as_ref().map(|s| s.capacity);
    cluster
        .capacity
        .as_ref()
        .map(|c| c.total)
        .or(stored)
        .unwrap_or_default()
}

/// The part of it that is for work that asks for no GPUs. Until its shard was heard nothing is known of kept hosts.
fn without_gpus(cluster: &ClusterView) -> Part {
    let known = cluster.capacity.as_ref().map(|c| c.without_gpus);
    known.unwrap_or(Part {
        total: total(cluster),
        ..Part::default()
    })
}

/// What is left of a cluster.
#[must_use]
pub fn left(cluster: &ClusterView, taken: Taken) -> ClusterRoom {
    ClusterRoom {
        all: total(cluster).minus(taken.all),
        without_gpus: without_gpus(cluster).total.minus(taken.without_gpus),
    }
}

/// What there is to divide: an unreachable cluster counts until it has left. What hosts that are kept for work with GPUs have
/// beside these counts as far as such work wants it: nobody else can use it.
#[must_use]
pub fn capacity(picture: &Picture, wanted_with_gpus: Resources) -> Resources {
    let there = picture.clusters.values().filter(|c| c.wish() != Wish::Left);
    let (all, open) = there.fold((Resources::ZERO, Resources::ZERO), |(all, open), c| {
        (all.plus(total(c)), open.plus(without_gpus(c).total))
    });
    let kept = all.minus(open);
    open.plus(kept.min_each(wanted_with_gpus))
        .with(Kind::Gpus, all.gpus)
}

/// Clusters as routing sees them.
#[derive(Debug, Clone, Default)]
pub struct Candidates {
    with_gpus: Vec<Candidate>,
    without_gpus: Vec<Candidate>,
}

impl Candidates {
    /// The clusters with what `taken` leaves of each.
    #[must_use]
    pub fn new(picture: &Picture, taken: &BTreeMap<ClusterId, Taken>) -> Self {
        let clusters = picture.clusters.iter();
        let known = clusters.filter_map(|(id, c)| Some((id, c, c.row.as_ref()?)));
        let mut out = Self::default();
        for (id, c, row) in known {
            let left = left(c, taken.get(id).copied().unwrap_or_default());
            let all = Candidate {
                id: id.clone(),
                name: row.name.clone(),
                wish: row.wish,
                contact: if c.capacity.is_some() {
                    c.contact()
                } else {
                    Contact::Joining
                },
                hosts: c.capacity.as_ref().map_or(0, |c| c.hosts),
                largest_host: c.capacity.as_ref().map(|c| c.largest_host).unwrap_or_default(),
                room: left.all,
            };
            out.without_gpus.push(Candidate {
                largest_host: without_gpus(c).largest_host,
                room: left.all.min_each(left.without_gpus),
                ..all.clone()
            });
            out.with_gpus.push(all);
        }
        out
    }

    /// The clusters as work of a shape finds them.
    #[must_use]
    pub fn of(&self, shape: Resources) -> &[Candidate] {
        if shape.gpus > 0 {
            &self.with_gpus
        } else {
            &self.without_gpus
        }
    }

    /// Takes room of work, in sum, out of a cluster.
    pub fn take(&mut self, cluster: &ClusterId, taken: Resources) {
        let pairs = self.with_gpus.iter_mut().zip(&mut self.without_gpus);
        for (all, open) in pairs.filter(|(all, _)| all.id == *cluster) {
            all.room = all.room.minus(taken);
            if taken.gpus == 0 {
                open.room = open.room.minus(taken);
            }
            open.room = open.room.min_each(all.room);
        }
    }
}
