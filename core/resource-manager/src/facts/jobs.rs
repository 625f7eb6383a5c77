//! All jobs by id, and which of them were changed since they were last taken. What is summed over jobs
//! follows from these alone, so that no job is looked at that has not changed.

use crate::facts::job::JobView;
use echelon_core_model::JobId;
use echelon_core_model::bucket::job_bucket;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

/// All jobs, a map by id. Each change of a job leaves its id in `changed`.
#[derive(Debug, Clone, Default)]
pub struct Jobs {
    all: BTreeMap<JobId, Box<JobView>>,
    buckets: BTreeMap<u16, BTreeSet<JobId>>,
    changed: BTreeSet<JobId>,
}

impl Jobs {
    /// A job.
    #[must_use]
    pub fn get(&self, id: &JobId) -> Option<&JobView> {
        self.all.get(id).map(AsRef::as_ref)
    }

    /// Whether there is such a job.
    #[must_use]
    pub fn contains_key(&self, id: &JobId) -> bool {
        self.all.contains_key(id)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All of them, by id.
    pub fn iter(&self) -> impl Iterator<Item = (&JobId, &JobView)> {
        self.all.iter().map(|(id, job)| (id, job.as_ref()))
    }

    /// Those with a larger id.
    pub fn after(&self, id: JobId) -> impl Iterator<Item = (&JobId, &JobView)> {
        let after = self.all.range((Excluded(id), Unbounded));
        after.map(|(id, job)| (id, job.as_ref()))
    }

    /// All ids.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &JobId> {
        self.all.keys()
    }

    /// All jobs, by id.
    pub fn values(&self) -> impl Iterator<Item = &JobView> {
        self.all.values().map(AsRef::as_ref)
    }

    /// A job, to change it.
    pub fn get_mut(&mut self, id: &JobId) -> Option<&mut JobView> {
        let job = self.all.get_mut(id)?;
        self.changed.insert(*id);
        Some(job.as_mut())
    }

    /// A job, to change what no sum depends on.
    pub fn get_aside(&mut self, id: &JobId) -> Option<&mut JobView> {
        self.all.get_mut(id).map(AsMut::as_mut)
    }

    /// A job, to change it; one of which nothing is known if it was not there.
    pub fn open(&mut self, id: JobId) -> &mut JobView {
        self.changed.insert(id);
        self.buckets.entry(job_bucket(id)).or_default().insert(id);
        self.all.entry(id).or_insert_with(|| Box::new(JobView::new(id)))
    }

    /// The number of entries that grow with jobs.
    pub(crate) fn footprint(&self) -> usize {
        let Self {
            all,
            buckets,
            changed,
        } = self;
        all.len() + buckets.values().map(BTreeSet::len).sum::<usize>() + changed.len()
    }

    /// Takes a job out for a change; it has to be put back with `give_back`.
    pub fn lend(&mut self, id: &JobId) -> Option<JobView> {
        let job = self.all.get_mut(id)?;
        Some(std::mem::replace(job.as_mut(), JobView::new(*id)))
    }

    /// Puts a job back that was taken out with `lend`, changed or not.
    pub fn give_back(&mut self, id: JobId, job: JobView, changed: bool) {
        if let Some(slot) = self.all.get_mut(&id) {
            **slot = job;
        }
        if changed {
            self.changed.insert(id);
        }
    }

    /// Puts a job in, or back.
    pub fn insert(&mut self, id: JobId, job: JobView) {
        *self.open(id) = job;
    }

    /// Takes a job out.
    pub fn remove(&mut self, id: &JobId) -> Option<JobView> {
        let job = *self.all.remove(id)?;
        self.changed.insert(*id);
        if let Some(bucket) = self.buckets.get_mut(&job_bucket(*id)) {
            bucket.remove(id);
        }
        Some(job)
    }

    /// Something that sums depend on has changed for a job.
    pub fn touch(&mut self, id: JobId) {
        self.changed.insert(id);
    }

    /// The jobs of a bucket.
    pub fn of_bucket(&self, bucket: u16) -> impl Iterator<Item = (JobId, &JobView)> {
        let ids = self.buckets.get(&bucket).into_iter().flatten();
        ids.filter_map(|id| Some((*id, self.get(id)?)))
    }

    /// The jobs that were changed since this was last asked, those that are gone with them.
    pub fn take_changed(&mut self) -> BTreeSet<JobId> {
        std::mem::take(&mut self.changed)
    }
}
