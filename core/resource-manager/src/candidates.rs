//! Clusters as routing sees them: for each kind of work, and for who needs hosts of a host pool, what he finds there.

use crate::host_pools::HostPools;
use crate::picture::{ClusterView, JobView, Picture, SliceKey};
use crate::room::{Asker, Taken, Work, left, total, without_gpus};
use echelon_core_model::cluster::{Cluster, Contact};
use echelon_core_model::directive::Part;
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::{ClusterId, Resources};
use echelon_core_pools::{ClusterRoom, HostPoolIdx};
use echelon_core_routing::{Candidate, Homes};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Clusters as routing sees them.
#[derive(Debug, Clone, Default)]
pub struct Candidates {
    all: Lists,
    /// For who needs hosts of a host pool that some cluster has.
    by_host_pool: BTreeMap<HostPoolIdx, Lists>,
    /// For who needs those of one that no cluster has.
    nowhere: Vec<Candidate>,
    host_pools: HostPools,
    capacity: BTreeMap<ClusterId, Resources>,
    homes: Arc<Homes>,
}

/// All clusters, for each kind of work.
#[derive(Debug, Clone, Default)]
struct Lists {
    with_gpus: Vec<Candidate>,
    without_gpus: Vec<Candidate>,
    revocable: Vec<Candidate>,
}

/// One cluster, for each kind of work.
struct Three {
    with_gpus: Candidate,
    without_gpus: Candidate,
    revocable: Candidate,
}

impl Three {
    fn new(row: &Cluster, c: &ClusterView, left: &ClusterRoom) -> Self {
        let told = c.capacity.as_ref();
        let with_gpus = Candidate {
            id: row.id.clone(),
            name: row.name.clone(),
            wish: row.wish,
            contact: told.map_or(Contact::Joining, |_| c.contact()),
            hosts: told.map_or(0, |c| c.hosts),
            largest_host: told.map(|c| c.largest_host).unwrap_or_default(),
            room: left.all,
            has_host_pool: true,
        };
        // What is lent changes from minute to minute: nothing is ever too large for it, only for a host.
        let without_gpus = Candidate {
            largest_host: without_gpus(c).largest_host,
            room: left.all.min_each(left.without_gpus),
            ..with_gpus.clone()
        };
        Self {
            revocable: Candidate {
                room: left.lent.where_lent(left.lends, without_gpus.room),
                ..without_gpus.clone()
            },
            with_gpus,
            without_gpus,
        }
    }

    /// The same for who needs hosts of a host pool, where these have so much in sum; `None` when there are none.
    fn on(&self, part: Option<&(Part, Resources)>, left: &ClusterRoom) -> Self {
        let narrow = |c: &Candidate| match part {
            None => Candidate {
                has_host_pool: false,
                room: Resources::ZERO,
                ..c.clone()
            },
            Some((part, room)) => Candidate {
                // Of hosts that take nothing now nobody knows how large they are.
                hosts: if part.largest_host.is_zero() { 0 } else { c.hosts },
                largest_host: c.largest_host.min_each(part.largest_host),
                room: c.room.min_each(*room),
                ..c.clone()
            },
        };
        let without_gpus = narrow(&self.without_gpus);
        Self {
            revocable: Candidate {
                room: left.lent.where_lent(left.lends, without_gpus.room),
                ..without_gpus.clone()
            },
            with_gpus: narrow(&self.with_gpus),
            without_gpus,
        }
    }
}

impl Lists {
    fn push(&mut self, three: Three) {
        self.with_gpus.push(three.with_gpus);
        self.without_gpus.push(three.without_gpus);
        self.revocable.push(three.revocable);
    }

    fn of(&self, work: Work) -> &[Candidate] {
        match work {
            Work::Gpus => &self.with_gpus,
            Work::Plain => &self.without_gpus,
            Work::Revocable => &self.revocable,
        }
    }

    fn take(&mut self, cluster: &ClusterId, work: Work, taken: Resources) {
        if work == Work::Revocable {
            for lending in self.revocable.iter_mut().filter(|c| c.id == *cluster) {
                lending.room = lending.room.minus(taken);
            }
            return;
        }
        let pairs = self.with_gpus.iter_mut().zip(&mut self.without_gpus);
        for (all, open) in pairs.filter(|(all, _)| all.id == *cluster) {
            all.room = all.room.minus(taken);
            if work == Work::Plain {
                open.room = open.room.minus(taken);
            }
            open.room = open.room.min_each(all.room);
        }
    }

    /// Hosts of one host pool leave no more than all hosts do.
    fn bound(&mut self, all: &Self, cluster: &ClusterId) {
        let lists = [
            (&mut self.with_gpus, &all.with_gpus),
            (&mut self.without_gpus, &all.without_gpus),
            (&mut self.revocable, &all.revocable),
        ];
        for (some, all) in lists {
            let pairs = some.iter_mut().zip(all).filter(|(c, _)| c.id == *cluster);
            pairs.for_each(|(some, all)| some.room = some.room.min_each(all.room));
        }
    }
}

impl Candidates {
    /// The clusters with what `taken` leaves of each: what is taken of it, and of that by who needs hosts of a host pool.
    #[must_use]
    pub fn new(picture: &Picture, taken: impl Fn(&ClusterId, Option<HostPoolIdx>) -> Taken) -> Self {
        let clusters = picture.clusters.iter();
        let known = clusters.filter_map(|(id, c)| Some((id, c, c.row.as_ref()?)));
        let mut out = Self {
            homes: Arc::clone(&picture.homes),
            host_pools: picture.host_pools.clone(),
            ..Self::default()
        };
        for (id, c, row) in known {
            let left = left(c, &picture.host_pools, |on| taken(id, on));
            let three = Three::new(row, c, &left);
            let parts = picture.host_pools.parts(c);
            let parts: BTreeMap<HostPoolIdx, (Part, Resources)> = parts
                .filter_map(|(i, part)| Some((i, (part, *left.host_pools.get(&i)?))))
                .collect();
            for i in picture.host_pools.indexes() {
                let lists = out.by_host_pool.entry(i).or_default();
                lists.push(three.on(parts.get(&i), &left));
            }
            out.nowhere.push(three.on(None, &left).with_gpus);
            out.capacity.insert(id.clone(), total(c));
            out.all.push(three);
        }
        out
    }

    /// Who a job's group is to routing.
    #[must_use]
    pub fn asker(&self, job: &JobSpec, group: &GroupSpec) -> Asker {
        Asker {
            work: Work::of(job, group),
            host_pool: self.host_pools.index(&group.siting.host_pool),
        }
    }

    /// Who a slice's group is to routing.
    pub(crate) fn asker_of(&self, job: &JobView, key: &SliceKey) -> Asker {
        let spec = job.spec.as_deref();
        let group = spec.and_then(|s| Some((s, s.group(&key.group)?)));
        let plain = Asker {
            work: Work::Plain,
            host_pool: None,
        };
        group.map_or(plain, |(spec, group)| self.asker(spec, group))
    }

    /// The clusters as somebody finds them.
    #[must_use]
    pub fn of(&self, asker: Asker) -> &[Candidate] {
        match asker.host_pool {
            None => self.all.of(asker.work),
            Some(i) => {
                let lists = self.by_host_pool.get(&i);
                lists.map_or(self.nowhere.as_slice(), |lists| lists.of(asker.work))
            }
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
        self.all.take(cluster, asker.work, taken);
        if let Some(lists) = asker.host_pool.and_then(|i| self.by_host_pool.get_mut(&i)) {
            lists.take(cluster, asker.work, taken);
        }
        for lists in self.by_host_pool.values_mut() {
            lists.bound(&self.all, cluster);
        }
    }
}
