//! The assignment of a job in memory. A job that only waits has none, and takes no memory for it.

use echelon_core_model::assignment::{AssignedRange, Assignment};
use echelon_core_model::{GroupName, JobId};
use std::ops::Deref;
use std::sync::Arc;

/// What is read where nothing is assigned. It is of no job.
static NOTHING: Assignment = Assignment::new(JobId(0));

/// The assignment of a job, shared where it is the same one. The default is that nothing is assigned.
#[derive(Debug, Clone, Default)]
pub struct KnownAssignment(Option<Arc<Assignment>>);

impl KnownAssignment {
    /// Whether nothing is assigned or released, and no cluster ever had a part.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        let Assignment {
            job: _,
            groups,
            released,
            holders,
        } = &**self;
        groups.is_empty() && released.is_empty() && holders.is_empty()
    }

    /// The assignment of a job, to change it.
    pub fn make_mut(&mut self, job: JobId) -> &mut Assignment {
        Arc::make_mut(self.0.get_or_insert_with(|| Arc::new(Assignment::new(job))))
    }

    /// The ranges of a group, to change them, if it has any.
    pub fn ranges_mut(&mut self, group: &GroupName) -> Option<&mut Vec<AssignedRange>> {
        Arc::make_mut(self.0.as_mut()?).groups.get_mut(group)
    }

    /// The assignment of a job, to be stored.
    #[must_use]
    pub fn to_row(&self, job: JobId) -> Arc<Assignment> {
        let known = self.0.as_ref().map(Arc::clone);
        known.unwrap_or_else(|| Arc::new(Assignment::new(job)))
    }
}

impl From<Arc<Assignment>> for KnownAssignment {
    fn from(row: Arc<Assignment>) -> Self {
        let known = Self(Some(row));
        if known.is_nothing() {
            Self::default()
        } else {
            known
        }
    }
}

impl Deref for KnownAssignment {
    type Target = Assignment;

    fn deref(&self) -> &Assignment {
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}

impl PartialEq for KnownAssignment {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => a == b,
            _ => self.is_nothing() && other.is_nothing(),
        }
    }
}

impl Eq for KnownAssignment {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_the_same_with_and_without_memory_of_its_own() {
        let mut known = KnownAssignment::default();
        assert_eq!(size_of_val(&known), size_of::<usize>());
        assert!(known.ranges_mut(&GroupName::new("a")).is_none());
        assert_eq!(*known.to_row(JobId(7)), Assignment::new(JobId(7)));
        assert_eq!(known.make_mut(JobId(7)).job, JobId(7));
        assert_eq!(known, KnownAssignment::default());
        assert_eq!(KnownAssignment::from(known.to_row(JobId(7))).0, None);
        known
            .make_mut(JobId(7))
            .groups
            .insert(GroupName::new("a"), Vec::new());
        assert_ne!(known, KnownAssignment::default());
        assert_eq!(KnownAssignment::from(known.to_row(JobId(7))), known);
    }
}
