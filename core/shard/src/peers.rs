//! What members of a gang find in their environment of each other. It is made from the records of all of them, which are durable before
//! the first of them is launched, so whoever leads by then tells the same.

use crate::Shard;
use crate::picture::RunAt;
use echelon_core_model::gang::{Peers, Place};
use echelon_core_model::{GroupName, InstanceNumber, JobId};
use std::collections::{BTreeMap, BTreeSet};

impl Shard {
    /// Makes what these runs are told of their gangs, unless it was made in this step: a gang is launched host by host, and all of it at
    /// once. `O(members)` for each gang.
    pub(crate) fn make_peers(&mut self, runs: &[RunAt]) {
        let groups = runs.iter().filter_map(|(at, ..)| self.picture.groups.get(&at.0));
        let of_gangs = groups.filter(|g| g.spec.as_ref().is_some_and(|s| s.gang.is_some()));
        let jobs: BTreeSet<JobId> = of_gangs.map(|g| g.job()).collect();
        for job in jobs {
            if !self.peers.contains_key(&job)
                && let Some(peers) = self.peers(job)
            {
                self.peers.insert(job, peers);
            }
        }
    }

    fn peers(&self, job: JobId) -> Option<Peers> {
        let of_job = self.picture.groups_of(job);
        let spec = of_job
            .iter()
            .find_map(|n| self.picture.groups.get(n)?.spec.as_ref())?;
        let places = spec.groups.iter().map(|g| {
            let group = self.picture.group(job, &g.name);
            let place = |n: u32| {
                let run = group?.record(InstanceNumber(n))?.run.as_ref()?;
                Some(Place {
                    hostname: &run.hostname,
                    ports: &run.ports,
                })
            };
            (g.name.clone(), (0..g.instances).map(place).collect())
        });
        Some(Peers::new(&places.collect::<BTreeMap<GroupName, Vec<_>>>()))
    }
}
