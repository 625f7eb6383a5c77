//! The hosts of a cluster, as placement sees them, with what instances and volumes take of each.

use crate::trace::{ClusterCapacity, HostClass};
use echelon_core_model::cluster::{HostView, Slack};
use echelon_core_model::directive::{Capacity, Part};
use echelon_core_model::ports::PortSet;
use echelon_core_model::{ClusterId, HostId, HostPoolName, Resources};
use echelon_core_placement::Hosts;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What an instance takes of a host: of what it has, and of what it lends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Ordinary capacity.
    pub own: Resources,
    /// Revocable capacity.
    pub lent: Resources,
}

/// All hosts of a cluster. A host that leaves takes nothing new, and is gone when nothing is left on it.
#[derive(Debug)]
pub struct ClusterHosts {
    cluster: ClusterId,
    hosts: Arc<Hosts>,
    /// The class of each host, by id; of the one host that stands for an unknown number there is none.
    classes: BTreeMap<HostId, HostClass>,
    added: u64,
    revision: u64,
}

impl ClusterHosts {
    /// None yet.
    pub fn new(cluster: ClusterId) -> Self {
        Self {
            cluster,
            hosts: Arc::default(),
            classes: BTreeMap::new(),
            added: 0,
            revision: 0,
        }
    }

    /// Grows when hosts come or go, or become larger or smaller.
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// The hosts, for a question to placement.
    pub fn shared(&self) -> Arc<Hosts> {
        Arc::clone(&self.hosts)
    }

    /// All hosts.
    pub fn views(&self) -> &[HostView] {
        self.hosts.views()
    }

    /// A host.
    pub fn view(&self, host: &HostId) -> Option<&HostView> {
        self.hosts.views().get(self.hosts.find(host)?)
    }

    /// What an instance of this shape takes of a host.
    pub fn parts(&self, host: &HostId, shape: Resources, revocable: bool) -> Taken {
        let lends = self.view(host).map(|v| v.slack.capacity);
        let lent = lends
            .filter(|_| revocable)
            .map_or(Resources::ZERO, |lends| shape.lent_part(lends));
        Taken {
            own: shape.minus(lent),
            lent,
        }
    }

    /// An instance or a volume takes so much of a host.
    pub fn take(&mut self, host: &HostId, taken: Taken) {
        self.change(host, |view| {
            view.used = view.used.plus(taken.own);
            view.slack.used = view.slack.used.plus(taken.lent);
        });
    }

    /// The same is free again. A host that leaves is gone when nothing is left on it.
    pub fn give_back(&mut self, host: &HostId, taken: Taken) {
        self.change(host, |view| {
            view.used = view.used.minus(taken.own);
            view.slack.used = view.slack.used.minus(taken.lent);
        });
        if self.view(host).is_some_and(|v| v.draining && is_empty(v)) {
            self.classes.remove(host);
            Arc::make_mut(&mut self.hosts).remove(host);
            self.revision += 1;
        }
    }

    fn change(&mut self, host: &HostId, change: impl FnOnce(&mut HostView)) {
        let Some(mut view) = self.view(host).cloned() else {
            return;
        };
        change(&mut view);
        view.free = view.capacity.minus(view.used);
        view.slack.free = view.slack.capacity.minus(view.slack.used);
        Arc::make_mut(&mut self.hosts).update(view);
    }

    /// The cluster has this from now on.
    pub fn set(&mut self, to: &ClusterCapacity) {
        self.revision += 1;
        match to {
            ClusterCapacity::Sum(sum) => self.set_sum(*sum),
            ClusterCapacity::Hosts(classes) => self.set_classes(classes),
        }
    }

    /// One host stands for all. What runs stays where it shrinks below that.
    fn set_sum(&mut self, sum: Resources) {
        let one = HostId::new(self.cluster.as_str());
        let mut views: Vec<HostView> = self.views().to_vec();
        for view in views.iter_mut().filter(|v| v.id != one) {
            view.draining = true;
        }
        match views.iter_mut().find(|v| v.id == one) {
            Some(view) => {
                view.capacity = sum;
                view.free = sum.minus(view.used);
                view.draining = false;
            }
            None => views.push(host(one, sum, Resources::ZERO, HostPoolName::default())),
        }
        self.replace(views);
    }

    /// Of each class those hosts stay that are in use, the others leave.
    fn set_classes(&mut self, classes: &[HostClass]) {
        let mut views: Vec<HostView> = self.views().to_vec();
        let mut staying: BTreeSet<HostId> = BTreeSet::new();
        let mut missing: Vec<(HostClass, u32)> = Vec::new();
        for class in classes {
            let is_alike = |v: &&HostView| self.classes.get(&v.id).is_some_and(|c| is_same(c, class));
            let mut alike: Vec<&HostView> = views.iter().filter(is_alike).collect();
            alike.sort_by_key(|v| (v.draining, is_empty(v), v.id.clone()));
            let count = usize::try_from(class.count).unwrap_or(usize::MAX);
            let kept = alike.iter().take(count).map(|v| v.id.clone());
            staying.extend(kept);
            let more = class
                .count
                .saturating_sub(u32::try_from(alike.len()).unwrap_or(u32::MAX));
            missing.push((class.clone(), more));
        }
        for view in &mut views {
            view.draining = !staying.contains(&view.id);
        }
        for (class, count) in missing {
            for _ in 0..count {
                self.added += 1;
                let id = HostId::new(format!("{}-{:06}", self.cluster, self.added));
                views.push(HostView {
                    kept: class.capacity.gpus > 0,
                    ..host(id.clone(), class.capacity, class.lent, class.pool.clone())
                });
                self.classes.insert(id, class.clone());
            }
        }
        self.replace(views);
    }

    fn replace(&mut self, mut views: Vec<HostView>) {
        views.retain(|v| !(v.draining && is_empty(v)));
        self.hosts = Arc::new(Hosts::new(views));
        let hosts = &self.hosts;
        self.classes.retain(|id, _| hosts.find(id).is_some());
    }

    /// The sums that a shard reports. What is used follows from the slices: the resource manager counts what
    /// it granted.
    pub fn capacity(&self) -> Capacity {
        let mut out = Capacity {
            ..Capacity::default()
        };
        let by_pool = self
            .views()
            .iter()
            .any(|v| v.host_pool != HostPoolName::default());
        for view in self.views() {
            let usable = if view.draining { view.used } else { view.capacity };
            let lent = if view.draining {
                view.slack.used
            } else {
                view.slack.capacity
            };
            out.total = out.total.plus(usable);
            out.closed = out.closed.plus(view.capacity.minus(usable));
            let mut parts: Vec<&mut Part> = Vec::new();
            if !view.kept {
                parts.push(&mut out.without_gpus);
            }
            if by_pool {
                parts.push(out.host_pools.entry(view.host_pool.clone()).or_default());
            }
            for part in parts {
                part.total = part.total.plus(usable);
                if !view.draining {
                    part.largest_host = part.largest_host.max_each(view.capacity);
                }
            }
            if !view.kept {
                out.slack.total = out.slack.total.plus(lent);
            }
            if view.draining {
                continue;
            }
            if !view.kept {
                out.slack.largest_host = out.slack.largest_host.max_each(lent);
            }
            // An idle shard holds no offers: what is free is not told.
            out.largest_free = out.largest_free.max_each(view.capacity);
            out.largest_host = out.largest_host.max_each(view.capacity);
            out.hosts = out.hosts.saturating_add(1);
        }
        out
    }
}

fn is_empty(view: &HostView) -> bool {
    view.used.is_zero() && view.slack.used.is_zero()
}

/// Whether two classes differ in nothing but their count.
fn is_same(a: &HostClass, b: &HostClass) -> bool {
    (a.capacity, a.lent, &a.pool) == (b.capacity, b.lent, &b.pool)
}

fn host(id: HostId, capacity: Resources, lent: Resources, host_pool: HostPoolName) -> HostView {
    HostView {
        hostname: Arc::from(id.as_str()),
        id,
        attributes: Arc::default(),
        host_pool,
        free: capacity,
        capacity,
        used: Resources::ZERO,
        slack: Slack {
            free: lent,
            capacity: lent,
            used: Resources::ZERO,
        },
        draining: false,
        kept: false,
        others: echelon_core_model::sharing::Others::default(),
        ports: PortSet::default(),
        ports_left: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(count: u32, cores: u64) -> HostClass {
        HostClass {
            count,
            capacity: Resources {
                cpus: cores,
                ..Resources::ZERO
            },
            lent: Resources::ZERO,
            pool: HostPoolName::default(),
        }
    }

    fn own(cpus: u64) -> Taken {
        Taken {
            own: Resources {
                cpus,
                ..Resources::ZERO
            },
            lent: Resources::ZERO,
        }
    }

    #[test]
    fn a_host_in_use_stays_before_an_empty_one_and_leaves_when_it_is_empty() {
        let mut hosts = ClusterHosts::new(ClusterId::new("east"));
        hosts.set(&ClusterCapacity::Hosts(vec![class(3, 4)]));
        let ids: Vec<HostId> = hosts.views().iter().map(|v| v.id.clone()).collect();
        hosts.take(&ids[1], own(1));
        hosts.take(&ids[2], own(3));
        hosts.set(&ClusterCapacity::Hosts(vec![class(1, 4)]));
        let left = |hosts: &ClusterHosts| -> Vec<(HostId, bool)> {
            hosts.views().iter().map(|v| (v.id.clone(), v.draining)).collect()
        };
        assert_eq!(left(&hosts), [(ids[1].clone(), false), (ids[2].clone(), true)]);
        let capacity = hosts.capacity();
        assert_eq!(
            (capacity.total.cpus, capacity.closed.cpus, capacity.hosts),
            (7, 1, 1)
        );
        hosts.give_back(&ids[2], own(3));
        assert_eq!(left(&hosts), [(ids[1].clone(), false)]);
    }

    #[test]
    fn a_host_that_leaves_comes_back_with_what_is_on_it() {
        let mut hosts = ClusterHosts::new(ClusterId::new("east"));
        hosts.set(&ClusterCapacity::Hosts(vec![class(1, 4)]));
        let id = hosts.views()[0].id.clone();
        hosts.take(&id, own(1));
        hosts.set(&ClusterCapacity::Hosts(Vec::new()));
        assert!(hosts.views()[0].draining);
        hosts.set(&ClusterCapacity::Hosts(vec![class(1, 4)]));
        assert_eq!(hosts.views().len(), 1);
        assert!(!hosts.views()[0].draining && hosts.views()[0].free.cpus == 3);
    }
}
