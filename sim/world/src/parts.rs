//! Invariant 10: what clusters may make unavailable by a restart sums to no more than the job allows.

use crate::invariants::Broken;
use crate::rollouts::MOST_SURGE;
use crate::world::World;
use echelon_core_model::spec::defaults;
use echelon_core_model::store::{Answer, Query, Role};
use echelon_core_model::{ClusterId, Epoch, GroupName, JobId};
use std::collections::BTreeMap;

impl World {
    /// The epoch of the leader of a cluster's shard that came last.
    fn shard_epoch(&self, cluster: &ClusterId) -> Epoch {
        match self.store.read(&Query::Leadership(Role::Shard(cluster.clone()))) {
            Answer::Leadership(stored) => stored.epoch,
            _ => Epoch::default(),
        }
    }

    pub(crate) fn judge_parts(&mut self) {
        let mut sums: BTreeMap<(JobId, &GroupName), u32> = BTreeMap::new();
        for c in &self.clusters {
            // An older leader of the shard may not know yet that it is none, also where the newer one has
            // crashed: storage refuses what it decides.
            let newest = self.shard_epoch(&c.id);
            let shards = c.shards.iter().filter_map(|p| p.driver.as_ref());
            let leader = shards.filter(|s| s.epoch() >= newest).max_by_key(|s| s.epoch());
            // What was given up at a cluster is no instance of its job any more.
            let parts = leader.into_iter().flat_map(|s| s.restart_parts());
            let parts = parts.filter(|(job, group, part)| *part > 0 && self.is_held(*job, group, &c.id));
            for (job, group, part) in parts {
                *sums.entry((job, group)).or_default() += part;
            }
        }
        let most = |job, group: &GroupName| {
            let Some((head, spec)) = self.head_and_spec(job) else {
                return defaults::MAX_UNAVAILABLE.of(1);
            };
            // Who runs beyond the number of a group while it is updated makes up for as many, by any of the policies that were in force.
            let surge = if head.rollout.is_some() { MOST_SURGE } else { 0 };
            let group = spec.group(group);
            group.map_or(0, |g| g.most_unavailable(g.instances) + surge)
        };
        let above = sums.iter().filter(|((job, group), n)| **n > most(*job, group));
        let found: Vec<Broken> = above
            .map(|((job, group), n)| Broken {
                invariant: 10,
                what: format!("{job} {group}: parts of max_unavailable sum to {n}"),
            })
            .collect();
        self.broken.extend(found);
    }

    /// Whether instances of a group are assigned to a cluster.
    fn is_held(&self, job: JobId, group: &GroupName, cluster: &ClusterId) -> bool {
        let Answer::Assignments(_, all) = self.store.read(&Query::Assignment(job)) else {
            return true;
        };
        let mut ranges = all.iter().flat_map(|a| a.ranges(group));
        ranges.any(|r| r.cluster == *cluster)
    }
}
