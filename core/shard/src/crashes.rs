//! Crash loops: which instances fail again and again, and when they have run well for long enough to be forgiven. All of it follows from
//! the stored record, so a new leader says the same.

use crate::Shard;
use crate::group::Group;
use crate::picture::At;
use echelon_core_jobs::{forgive, forgiven_at};
use echelon_core_model::InstanceNumber;

impl Group {
    /// Whether another run follows whatever one ends with.
    fn runs_for_ever(&self) -> bool {
        let kind = self.spec.as_ref().map(|s| s.kind);
        kind.zip(self.group_spec())
            .is_some_and(|(kind, group)| group.runs_for_ever(kind))
    }

    /// Whether an instance fails again and again, and is here to be tried again.
    pub(crate) fn is_crash_looping(&self, n: InstanceNumber) -> bool {
        let record = self.record(n).filter(|_| self.runs_for_ever());
        record.is_some_and(|r| r.is_crash_looping() && self.holds(n, r.generation))
    }
}

impl Shard {
    /// Forgives an instance that has run well for long enough, or looks at it again when it will have; keeps the list of those that
    /// fail again and again.
    pub(crate) fn watch_crashes(&mut self, at: At) {
        let healthy_after = self.config.timing.healthy_after;
        let Some(group) = self.picture.groups.get(&at.0) else {
            return;
        };
        let record = group.record(at.1).filter(|_| group.runs_for_ever());
        let due = record.and_then(|r| forgiven_at(r, healthy_after, &group.pause, self.now));
        let forgiven = due.is_some_and(|due| due <= self.now);
        if forgiven {
            self.edit(at, forgive);
        } else if let Some(due) = due {
            self.picture.timers.insert((due, at));
        }
        if let Some(group) = self.picture.groups.get_mut(&at.0) {
            if group.is_crash_looping(at.1) {
                group.crash_looping.insert(at.1);
            } else {
                group.crash_looping.remove(&at.1);
            }
        }
    }

    /// Instances that fail again and again.
    #[must_use]
    pub fn crash_looping(&self) -> usize {
        self.picture.groups.values().map(|g| g.crash_looping.len()).sum()
    }
}
