//! All jobs by id, and which of them were changed since they were last taken. What is summed over jobs
//! follows from these alone, so that no job is looked at that has not changed.

use crate::facts::job::JobView;
use crate::facts::unsent::Unsent;
use echelon_core_model::assignment::Assignment;
use echelon_core_model::bucket::job_bucket;
use echelon_core_model::{ClusterId, Few, JobId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

/// All jobs, a map by id. Each change of a job leaves its id in `changed`.
#[derive(Debug, Clone, Default)]
pub struct Jobs {
    /// Snapshots share them: a job is copied when it changes while one has it.
    all: BTreeMap<JobId, Arc<JobView>>,
    buckets: BTreeMap<u16, Few<JobId, ()>>,
    changed: BTreeSet<JobId>,
    /// Jobs of which a cluster has or had something, by their stored assignments. A snapshot has none.
    held_by: BTreeMap<ClusterId, BTreeSet<JobId>>,
    /// Jobs that the snapshot has not got as they are now.
    unsent: Unsent,
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

    /// Jobs of which a cluster has or had something, by their stored assignments: those with a larger id.
    pub(crate) fn held_by(
        &self,
        cluster: &ClusterId,
        after: JobId,
    ) -> impl Iterator<Item = (JobId, &JobView)> {
        let of_cluster = self.held_by.get(cluster).into_iter();
        let ids = of_cluster.flat_map(move |ids| ids.range((Excluded(after), Unbounded)));
        ids.filter_map(|id| Some((*id, self.get(id)?)))
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
        self.unsent.note(*id);
        Some(Arc::make_mut(job))
    }

    /// A job, to change what no sum depends on.
    pub fn get_aside(&mut self, id: &JobId) -> Option<&mut JobView> {
        let job = self.all.get_mut(id)?;
        self.unsent.note(*id);
        Some(Arc::make_mut(job))
    }

    /// A job, to change it; one of which nothing is known if it was not there.
    pub fn open(&mut self, id: JobId) -> &mut JobView {
        self.changed.insert(id);
        self.buckets.entry(job_bucket(id)).or_default().insert(id, ());
        self.unsent.note(id);
        let job = self.all.entry(id).or_default();
        Arc::make_mut(job)
    }

    /// A job has another stored assignment.
    pub(crate) fn set_durable(&mut self, id: JobId, assignment: Arc<Assignment>) -> &mut JobView {
        let before = self.all.get(&id).map(|job| job.durable.clone());
        let before = before.iter().flat_map(|before| before.holders.keys());
        for cluster in before.filter(|cluster| !assignment.holders.contains_key(*cluster)) {
            self.forget_holder(id, cluster);
        }
        for cluster in assignment.holders.keys() {
            match self.held_by.get_mut(cluster) {
                Some(ids) => _ = ids.insert(id),
                None => _ = self.held_by.insert(cluster.clone(), [id].into()),
            }
        }
        let job = self.open(id);
        job.durable = assignment.into();
        job
    }

    fn forget_holder(&mut self, id: JobId, cluster: &ClusterId) {
        if let Some(ids) = self.held_by.get_mut(cluster) {
            ids.remove(&id);
        }
    }

    /// The number of entries that grow with jobs.
    pub(crate) fn footprint(&self) -> usize {
        let Self {
            all,
            buckets,
            changed,
            held_by,
            unsent,
        } = self;
        let of_buckets: usize = buckets.values().map(Few::len).sum();
        let held: usize = held_by.values().map(BTreeSet::len).sum();
        all.len() + of_buckets + held + changed.len() + unsent.len()
    }

    /// Takes a job out for a change; it has to be put back with `give_back`.
    pub fn lend(&mut self, id: &JobId) -> Option<JobView> {
        let job = self.all.get_mut(id)?;
        let lent = std::mem::take(job);
        Some(Arc::unwrap_or_clone(lent))
    }

    /// Puts a job back that was taken out with `lend`, changed or not.
    pub fn give_back(&mut self, id: JobId, job: JobView, changed: bool) {
        if let Some(slot) = self.all.get_mut(&id) {
            *slot = Arc::new(job);
            self.unsent.note(id);
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
        let job = Arc::unwrap_or_clone(self.all.remove(id)?);
        self.changed.insert(*id);
        self.unsent.note(*id);
        if let Some(bucket) = self.buckets.get_mut(&job_bucket(*id)) {
            bucket.remove(id);
        }
        for cluster in job.durable.holders.keys() {
            self.forget_holder(*id, cluster);
        }
        Some(job)
    }

    /// Something that sums depend on has changed for a job.
    pub fn touch(&mut self, id: JobId) {
        self.changed.insert(id);
    }

    /// Something that sums depend on has changed for a job, outside of it. A snapshot follows that.
    pub(crate) fn touch_all(&mut self, id: JobId) {
        self.changed.insert(id);
        self.unsent.note(id);
    }

    /// The jobs of a bucket.
    pub fn of_bucket(&self, bucket: u16) -> impl Iterator<Item = (JobId, &JobView)> {
        let ids = self.buckets.get(&bucket).into_iter().flat_map(Few::keys);
        ids.filter_map(|id| Some((*id, self.get(id)?)))
    }

    /// The next jobs that a snapshot has not got as they are now. `None`: the job is gone.
    pub(crate) fn take_unsent(&mut self, most: usize) -> Vec<(JobId, Option<Arc<JobView>>)> {
        if !self.unsent.is_followed() {
            self.unsent.follow(self.all.keys().copied());
        }
        let ids = self.unsent.take(most).into_iter();
        ids.map(|id| (id, self.all.get(&id).map(Arc::clone))).collect()
    }

    /// Whether a snapshot has all jobs as they are now.
    pub(crate) fn is_sent(&self) -> bool {
        self.unsent.is_empty()
    }

    /// How many jobs a snapshot has not got as they are now.
    pub(crate) fn unsent(&self) -> usize {
        self.unsent.len()
    }

    /// Whether a snapshot follows the changes of jobs.
    pub(crate) const fn is_followed(&self) -> bool {
        self.unsent.is_followed()
    }

    /// Takes a job over as it is in another set of jobs. `None`: it is gone.
    pub(crate) fn take_over(&mut self, id: JobId, job: Option<Arc<JobView>>) {
        let Some(job) = job else {
            self.remove(&id);
            return;
        };
        self.changed.insert(id);
        self.buckets.entry(job_bucket(id)).or_default().insert(id, ());
        self.all.insert(id, job);
    }

    /// The jobs that were changed since this was last asked, those that are gone with them.
    pub fn take_changed(&mut self) -> BTreeSet<JobId> {
        std::mem::take(&mut self.changed)
    }
}
