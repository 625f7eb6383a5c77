//! Versions of what a group runs: a new spec version that changes no more than numbers and care replaces nothing.

use crate::spec::{GroupSpec, JobSpec};

impl GroupSpec {
    /// Whether runs made from `self` are as good as runs made from `other`: what differs is only how many there are and how they are
    /// looked after.
    #[must_use]
    pub fn runs_as(&self, other: &Self) -> bool {
        let same = Self {
            revision: self.revision,
            ..self.with_runs_of(other, self.revision)
        };
        same == *self
    }

    /// The version that runs are made from, in a spec of that version. 0 is of specs that are older than revisions: their runs
    /// count as made from whatever is wanted.
    #[must_use]
    pub const fn runs_of(&self, spec_version: u32) -> u32 {
        if self.revision == 0 {
            spec_version
        } else {
            self.revision
        }
    }

    /// The same numbers and care with the runs of another version.
    #[must_use]
    pub fn with_runs_of(&self, other: &Self, other_version: u32) -> Self {
        Self {
            instances: self.instances,
            max_running: self.max_running,
            retry: self.retry,
            platform_retry: self.platform_retry,
            drain: self.drain,
            max_unavailable: self.max_unavailable,
            // It cannot change, but for how it is looked after.
            volume: self.volume.clone(),
            revision: other.runs_of(other_version),
            ..other.clone()
        }
    }
}

impl JobSpec {
    /// The same job with the runs of an earlier version: what a rollback puts into force. Groups that the earlier one did not have stay.
    #[must_use]
    pub fn with_runs_of(&self, earlier: &Self, version: u32) -> Self {
        let groups = self.groups.iter().map(|g| match earlier.group(&g.name) {
            Some(of) => g.with_runs_of(of, version),
            None => g.clone(),
        });
        Self {
            groups: groups.collect(),
            ..self.clone()
        }
    }

    /// Gives groups that are new in this version, and run what `earlier` ran, the revision of that: what was never replaced stays.
    pub fn settle_as(&mut self, earlier: &Self, earlier_version: u32, version: u32) {
        for group in self.groups.iter_mut().filter(|g| g.revision == version) {
            let of = earlier.group(&group.name).filter(|of| of.runs_as(group));
            group.revision = of.map_or(version, |of| of.runs_of(earlier_version));
        }
    }

    /// Gives each group its revision, for a spec that follows `before` as this version. True when running instances are to be
    /// replaced.
    pub fn settle_revisions(&mut self, before: Option<&Self>, version: u32) -> bool {
        let mut replaces = false;
        for group in &mut self.groups {
            let known = before.and_then(|b| b.group(&group.name));
            let same = known.filter(|k| k.runs_as(group));
            replaces |= known.is_some() && same.is_none();
            group.revision = same.map_or(version, |k| k.revision);
        }
        replaces && self.kind.runs_for_ever()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::GroupName;
    use crate::runtime::Runtime;
    use crate::spec::JobKind;

    fn group(command: &str, instances: u32) -> GroupSpec {
        GroupSpec {
            instances,
            runtime: Runtime::shell(command),
            ..GroupSpec::new(GroupName::new("main"), JobKind::Service)
        }
    }

    fn job(group: GroupSpec) -> JobSpec {
        JobSpec {
            groups: vec![group],
            ..JobSpec::new("web", JobKind::Service)
        }
    }

    #[test]
    fn scale_is_not_an_update() {
        let first = group("a", 3);
        assert!(first.runs_as(&group("a", 30)));
        assert!(!first.runs_as(&group("b", 3)));
    }

    #[test]
    fn a_revision_is_the_version_that_first_had_the_runs() {
        let mut first = job(group("a", 3));
        assert!(!first.settle_revisions(None, 1), "there is nothing to replace");
        let mut scaled = job(group("a", 5));
        assert!(!scaled.settle_revisions(Some(&first), 2));
        assert_eq!(scaled.groups[0].revision, 1);
        let mut updated = job(group("b", 5));
        assert!(updated.settle_revisions(Some(&scaled), 3));
        assert_eq!(updated.groups[0].revision, 3);
        let back = updated.with_runs_of(&first, 1);
        assert_eq!((back.groups[0].revision, back.groups[0].instances), (1, 5));
        assert!(back.groups[0].runs_as(&first.groups[0]));
    }

    #[test]
    fn a_change_that_follows_a_rollback_has_a_revision_of_its_own() {
        let mut first = job(group("a", 3));
        first.settle_revisions(None, 1);
        let mut updated = job(group("b", 3));
        updated.settle_revisions(Some(&first), 2);
        let back = updated.with_runs_of(&first, 1);
        let mut again = job(group("b", 3));
        assert!(again.settle_revisions(Some(&back), 4));
        assert_eq!(again.groups[0].revision, 4);
    }
}
