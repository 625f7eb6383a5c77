//! Which versions of a job's spec a shard keeps: what is in force, what a rollout began from, and what anything of the job here was made
//! from. Another one that is needed later is read again.

use crate::group::Group;
use crate::picture::Picture;
use echelon_core_model::JobId;
use std::collections::BTreeSet;

impl Group {
    /// Versions that this group may need.
    fn versions_in_use(&self) -> impl Iterator<Item = u32> + '_ {
        let wish = self.wish.iter();
        let wanted = wish.flat_map(|w| [Some(w.spec_version), w.rollout.map(|r| r.base)]);
        let runs = self.records().flat_map(|(_, r)| r.run.iter().chain(&r.older));
        wanted.flatten().chain(runs.map(|run| run.spec_version))
    }
}

impl Picture {
    /// Lets go of versions that nothing of a job here needs; of a job of which nothing is here, of all. `O(records of the job)`.
    pub(crate) fn prune_specs(&mut self, job: JobId) {
        let groups: Vec<&Group> = self
            .groups_of(job)
            .iter()
            .filter_map(|n| self.groups.get(n))
            .collect();
        // What is not known yet may need any.
        if groups.iter().any(|g| !g.served || g.wish.is_none()) {
            return;
        }
        let of_base = groups.iter().filter_map(|g| self.base_of(g));
        let used = groups.iter().flat_map(|g| g.versions_in_use());
        let used: BTreeSet<u32> = used.chain(of_base).collect();
        let kept = self.specs.range((job, 0)..=(job, u32::MAX));
        let unused = kept.filter(|((_, version), _)| !used.contains(version));
        let unused: Vec<(JobId, u32)> = unused.map(|(key, _)| *key).collect();
        for key in unused {
            self.specs.remove(&key);
        }
    }
}
