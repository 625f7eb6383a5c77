//! How much room clusters have, and for which work: hosts with GPUs may be kept for work that asks for some, so that the same
//! cluster has less room for all other work; and what hosts lend is for revocable work only.

use crate::picture::{ClusterView, Picture};
use echelon_core_model::cluster::{Contact, Wish};
use echelon_core_model::directive::Part;
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::{ClusterId, Kind, Resources};
use echelon_core_pools::ClusterRoom;
use echelon_core_routing::{Candidate, Homes};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is taken of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Taken {
    /// By all work.
    pub all: Resources,
    /// Of this, by work that asks for no GPUs.
    pub without_gpus: Resources,
    /// Of what hosts lend, by revocable work.
    pub slack: Resources,
}

/// Who asks for room, which decides what there is for him.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// Work that asks for GPUs.
    Gpus,
    /// Work that asks for none.
    Plain,
    /// Work that runs on what hosts lend.
    Revocable,
}

impl Asker {
    /// A job's group.
    #[must_use]
    pub const fn of(job: &JobSpec, group: &GroupSpec) -> Self {
        if job.revocable {
            Self::Revocable
        } else if group.resources.gpus > 0 {
            Self::Gpus
        } else {
            Self::Plain
        }
    }
}

impl Taken {
    /// Adds room of a job's work, in sum, at a cluster that lends so much.
    pub fn add_of(&mut self, job: &JobSpec, room: Resources, lends: Resources) {
        if job.revocable {
            let lent = room.lent_part(lends);
            self.add(room.minus(lent));
            self.slack = self.slack.plus(lent);
        } else {
            self.add(room);
        }
    }

    /// Adds ordinary room of work, in sum.
    pub fn add(&mut self, room: Resources) {
        self.all = self.all.plus(room);
        if room.gpus == 0 {
            self.without_gpus = self.without_gpus.plus(room);
        }
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            all: self.all.plus(other.all),
            without_gpus: self.without_gpus.plus(other.without_gpus),
            slack: self.slack.plus(other.slack),
        }
    }

    /// What is left.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            all: self.all.minus(other.all),
            without_gpus: self.without_gpus.minus(other.without_gpus),
            slack: self.slack.minus(other.slack),
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
            slack: self
                .slack
                .max_each(told.map(|c| c.slack.used).unwrap_or_default()),
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

/// What a cluster's hosts lend.
#[must_use]
pub fn lends(cluster: &ClusterView) -> Resources {
    let told = cluster.capacity.as_ref();
    told.map(|c| c.slack.total).unwrap_or_default()
}

/// What all clusters lend that can be given work.
#[must_use]
pub fn lent(picture: &Picture) -> Resources {
    let there = picture.clusters.values().filter(|c| c.takes_grants());
    there.fold(Resources::ZERO, |sum, c| sum.plus(lends(c)))
}

/// What is left of a cluster.
#[must_use]
pub fn left(cluster: &ClusterView, taken: Taken) -> ClusterRoom {
    ClusterRoom {
        all: total(cluster).minus(taken.all),
        without_gpus: without_gpus(cluster).total.minus(taken.without_gpus),
        lent: lends(cluster).minus(taken.slack),
        lends: lends(cluster),
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
    revocable: Vec<Candidate>,
    capacity: BTreeMap<ClusterId, Resources>,
    homes: Arc<Homes>,
}

impl Candidates {
    /// The clusters with what `taken` leaves of each.
    #[must_use]
    pub fn new(picture: &Picture, taken: impl Fn(&ClusterId) -> Taken) -> Self {
        let clusters = picture.clusters.iter();
        let known = clusters.filter_map(|(id, c)| Some((id, c, c.row.as_ref()?)));
        let mut out = Self {
            homes: Arc::clone(&picture.homes),
            ..Self::default()
        };
        for (id, c, row) in known {
            let left = left(c, taken(id));
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
            // What is lent changes from minute to minute: nothing is ever too large for it, only for a host.
            let open = Candidate {
                largest_host: without_gpus(c).largest_host,
                room: left.all.min_each(left.without_gpus),
                ..all.clone()
            };
            out.revocable.push(Candidate {
                room: left.lent.where_lent(left.lends, open.room),
                ..open.clone()
            });
            out.without_gpus.push(open);
            out.with_gpus.push(all);
            out.capacity.insert(id.clone(), total(c));
        }
        out
    }

    /// The clusters as somebody finds them.
    #[must_use]
    pub fn of(&self, asker: Asker) -> &[Candidate] {
        match asker {
            Asker::Gpus => &self.with_gpus,
            Asker::Plain => &self.without_gpus,
            Asker::Revocable => &self.revocable,
        }
    }

    /// The ring of all clusters.
    #[must_use]
    pub fn homes(&self) -> &Homes {
        &self.homes
    }

    /// What the hosts of each have together.
    #[must_use]
    pub const fn capacity(&self) -> &BTreeMap<ClusterId, Resources> {
        &self.capacity
    }

    /// Takes somebody's room, in sum, out of a cluster. What revocable work takes of ordinary room is counted by the next cycle.
    pub fn take(&mut self, cluster: &ClusterId, asker: Asker, taken: Resources) {
        if asker == Asker::Revocable {
            for lending in self.revocable.iter_mut().filter(|c| c.id == *cluster) {
                lending.room = lending.room.minus(taken);
            }
            return;
        }
        let pairs = self.with_gpus.iter_mut().zip(&mut self.without_gpus);
        for (all, open) in pairs.filter(|(all, _)| all.id == *cluster) {
            all.room = all.room.minus(taken);
            if asker == Asker::Plain {
                open.room = open.room.minus(taken);
            }
            open.room = open.room.min_each(all.room);
        }
    }
}
