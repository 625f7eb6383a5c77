//! What has changed since a snapshot took it. Nothing is noted before the first snapshot is asked for.

use echelon_core_model::JobId;
use std::collections::BTreeSet;

/// Jobs of which something has changed since a snapshot took it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unsent(Option<BTreeSet<JobId>>);

impl Unsent {
    /// Whether changes are noted.
    pub(crate) const fn is_followed(&self) -> bool {
        self.0.is_some()
    }

    /// Notes changes from now on. All that there is counts as changed.
    pub(crate) fn follow(&mut self, all: impl Iterator<Item = JobId>) {
        self.0 = Some(all.collect());
    }

    /// Something of a job has changed.
    pub(crate) fn note(&mut self, id: JobId) {
        if let Some(ids) = &mut self.0 {
            ids.insert(id);
        }
    }

    /// Takes some of them out.
    pub(crate) fn take(&mut self, most: usize) -> Vec<JobId> {
        let ids = self.0.as_mut();
        let next = |ids: &mut BTreeSet<JobId>| std::iter::from_fn(|| ids.pop_first()).take(most).collect();
        ids.map(next).unwrap_or_default()
    }

    /// Whether a snapshot has everything as it is now.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_ref().is_some_and(BTreeSet::is_empty)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, BTreeSet::len)
    }
}
