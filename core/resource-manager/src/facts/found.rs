//! What a shard found since storage was resumed.

use echelon_core_model::directive::Found;
use echelon_core_model::{Epoch, Generation, GroupName, JobId, RangeSet};
use std::collections::{BTreeMap, BTreeSet};

type Slices = BTreeMap<(JobId, GroupName, Generation), RangeSet>;

/// What a cluster has found.
#[derive(Debug, Clone, Default)]
pub struct Word {
    /// The last complete list.
    pub(crate) slices: Slices,
    /// The list that is being reported.
    pub(crate) incoming: Option<Slices>,
    /// The epoch of the shard leader that reported a complete list.
    pub(crate) told_by: Option<Epoch>,
    /// The epoch at which the shard's storage was resumed, as it is stored; `None` until it is read.
    pub(crate) resumed: Option<Epoch>,
}

impl Word {
    /// Takes a part of a list in. Returns the jobs with a list that may have changed,
    /// when it was the last part.
    pub(crate) fn hear(&mut self, part: Found, epoch: Epoch) -> BTreeSet<JobId> {
        if part.begins {
            self.incoming = Some(Slices::new());
        }
        // The beginning was lost: the next list counts.
        let Some(incoming) = &mut self.incoming else {
            return BTreeSet::new();
        };
        for slice in part.slices {
            let key = (slice.job, slice.group, slice.generation);
            let numbers = incoming.entry(key).or_default();
            *numbers = numbers.union(&slice.numbers);
        }
        if !part.ends {
            return BTreeSet::new();
        }
        let whole = self.incoming.take().unwrap_or_default();
        let before = std::mem::replace(&mut self.slices, whole);
        self.told_by = Some(epoch);
        let jobs = before.keys().chain(self.slices.keys()).map(|(job, ..)| *job);
        jobs.collect()
    }

    /// The number of slices in the lists.
    pub(crate) fn len(&self) -> usize {
        self.slices.len() + self.incoming.as_ref().map_or(0, BTreeMap::len)
    }

    /// Whether the last complete list has anything.
    pub(crate) fn has_some(&self) -> bool {
        !self.slices.is_empty()
    }

    /// The stream was lost: a list that was being reported is void.
    pub(crate) fn interrupt(&mut self) {
        self.incoming = None;
    }

    /// Whether a shard leader that was elected after the resume has reported a list.
    pub(crate) fn counts(&self) -> bool {
        self.told_by
            .zip(self.resumed)
            .is_some_and(|(told, resumed)| told > resumed)
    }

    pub(crate) fn of_job(&self, job: JobId) -> impl Iterator<Item = (&GroupName, Generation, &RangeSet)> {
        let first = (job, GroupName::new(""), Generation(0));
        let from = self.slices.range(first..);
        let of = from.take_while(move |((of, ..), _)| *of == job);
        of.map(|((_, group, generation), numbers)| (group, *generation, numbers))
    }
}
