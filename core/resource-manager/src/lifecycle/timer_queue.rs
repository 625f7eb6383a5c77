//! Jobs that are looked at again when only time has changed what follows for them.

use echelon_core_model::{JobId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Jobs to be looked at when a time has come, one time each.
#[derive(Debug, Clone, Default)]
pub(crate) struct Agenda {
    of: BTreeMap<JobId, Timestamp>,
    due: BTreeSet<(Timestamp, JobId)>,
}

impl Agenda {
    pub(crate) fn put(&mut self, id: JobId, at: Option<Timestamp>) {
        let before = match at {
            Some(at) => self.of.insert(id, at),
            None => self.of.remove(&id),
        };
        if before != at {
            before.map(|at| self.due.remove(&(at, id)));
            self.due.extend(at.map(|at| (at, id)));
        }
    }

    pub(crate) fn len(&self) -> usize {
        let Self { of, due } = self;
        of.len() + due.len()
    }

    pub(crate) fn take_due(&mut self, now: Timestamp) -> Vec<JobId> {
        let due = self.due.iter().take_while(|(at, _)| *at <= now);
        let due: Vec<JobId> = due.map(|(_, id)| *id).collect();
        due.iter().for_each(|id| self.put(*id, None));
        due
    }
}
