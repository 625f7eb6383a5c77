//! Which versions of a job's spec a shard keeps: what is in force, what a rollout began from, and what anything of the job here was made
//! from. Another one that is needed later is read again.

use crate::Shard;
use crate::event::{Alarm, Effect};
use crate::group::Group;
use crate::picture::Picture;
use echelon_core_model::time::Span;
use echelon_core_model::{JobId, Timestamp};
use std::collections::BTreeSet;

/// A spec that is awaited for longer is worth an alarm.
const AWAITED: Span = Span::seconds(30);

/// A spec that was asked for and is not read.
#[derive(Debug)]
pub(crate) struct UnreadSpec {
    /// Since when it is wanted.
    since: Timestamp,
    /// A read is under way. Otherwise storage has answered that it is not there.
    pub(crate) is_asked: bool,
    is_told: bool,
}

impl UnreadSpec {
    pub(crate) const fn new(since: Timestamp) -> Self {
        Self {
            since,
            is_asked: false,
            is_told: false,
        }
    }
}

impl Shard {
    /// Whether a read of a spec is under way.
    pub(crate) fn reads_specs(&self) -> bool {
        self.unread_specs.values().any(|s| s.is_asked)
    }

    /// Whether all runs are counted at their hosts. Without its spec the size of a run is not
    /// known.
    pub(crate) fn has_counted_runs(&self) -> bool {
        !self.is_recovering() && !self.reads_specs()
    }

    /// Gives an alarm for each spec that is awaited for too long, and forgets those of jobs that are not here any more.
    pub(crate) fn tell_unread_specs(&mut self) {
        if self.unread_specs.is_empty() {
            return;
        }
        let (now, picture) = (self.now, &self.picture);
        self.unread_specs
            .retain(|(job, _), s| s.is_asked || !picture.groups_of(*job).is_empty());
        for ((job, version), spec) in &mut self.unread_specs {
            if !spec.is_told && now.since(spec.since) >= AWAITED {
                spec.is_told = true;
                let (job, version) = (*job, *version);
                self.out.push(Effect::Alarm(Alarm::SpecUnread { job, version }));
            }
        }
    }
}

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
