//! A job as it is known: its rows as far as they are decided by, what is decided of it, and what was ordered.

use crate::event::LinkId;
use crate::facts::known::{KnownHead, KnownProgress};
use crate::facts::known_assignment::KnownAssignment;
use crate::facts::slice::{SliceKey, slices_of};
use echelon_core_model::assignment::AssignedRange;
use echelon_core_model::job::Desired;
use echelon_core_model::spec::{JobKind, JobSpec};
use echelon_core_model::{ClusterId, Few, GroupName, Nothing, RangeSet, Seldom, Timestamp, Version};
use echelon_core_pools::GrantLine;
use echelon_core_routing::HomeKey;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What was ordered last of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Over which stream.
    pub link: LinkId,
    /// A digest of the orders, without the numbers of grants.
    pub digest: u64,
    /// When.
    pub at: Timestamp,
}

/// A cluster to which instances of a group are not bound for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Avoided {
    /// Until then.
    pub until: Timestamp,
    /// How often in a row it was tried in vain.
    pub tries: u32,
    /// The time is over. It is remembered until something of the group runs there,
    /// so that the next time is longer.
    pub is_over: bool,
    /// The fewest instances like its own that the hosts there had free capacity for since then. `None`: not
    /// reported.
    pub fewest_free: Option<u64>,
}

/// A job as it is known. The default is one of which nothing is known yet.
#[derive(Debug, Clone, Default)]
pub struct JobView {
    /// The head that is acted on; `None` when only an assignment or a progress row was found.
    pub head: Option<KnownHead>,
    /// A newer head that waits for its spec version.
    pub next_head: Option<Box<KnownHead>>,
    /// The spec of `head`, as far as it is decided by; `None` for an ended job, or while it is being read.
    pub spec: Option<Arc<JobSpec>>,
    /// The version of `spec`; 0 while there is none.
    pub spec_version: u32,
    /// The assignment as it is stored.
    pub durable: KnownAssignment,
    /// The assignment as it is decided. It differs from `durable` while a write is under way or due, and is
    /// the same one otherwise.
    pub decided: KnownAssignment,
    /// Grants by slice.
    pub grants: Few<SliceKey, GrantLine>,
    /// Clusters of which no host took instances of a group.
    pub avoid: Few<(GroupName, ClusterId), Avoided>,
    /// Since when instances of a slice are bound without a grant.
    pub idle: Few<SliceKey, Timestamp>,
    /// What a job has that is bound.
    pub bound: Seldom<BoundJob>,
    /// When this leader read it first; `None`: it was there when it took over.
    pub first_seen: Option<Timestamp>,
    /// What became of it.
    pub progress: Option<KnownProgress>,
    /// What few jobs have.
    pub rare: Seldom<RareJob>,
}

/// What a job has that is bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundJob {
    /// Allotments of `max_unavailable` by group and cluster.
    pub parts: Few<(GroupName, ClusterId), GrantLine>,
    /// What was ordered last, by cluster.
    pub sent: Few<ClusterId, Sent>,
    /// When its grants are renewed.
    pub renew_at: Option<Timestamp>,
}

impl Nothing for BoundJob {
    const NOTHING: &'static Self = &Self {
        parts: Few::new(),
        sent: Few::new(),
        renew_at: None,
    };
}

/// What few jobs have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RareJob {
    /// How many instances `spec` has beyond those that are asked for, while a rollout is under way.
    /// Groups without any are left out.
    pub surge: Few<GroupName, u32>,
    /// The head version that a read at SERIAL confirmed before the job ends.
    pub confirmed: Option<Version>,
    /// Whether it may begin, for all that it was submitted to wait for.
    pub release: Release,
    /// How many rows its assignment may have among those of ended jobs.
    pub filed_rows: u32,
    /// Its end as deleted is stored: the assignment goes, and then only the tombstone is left.
    pub tombstone: bool,
    /// An alarm about an unexplained absence of the head was raised.
    pub alarmed: bool,
    /// Storage has refused an assignment of it.
    pub refused: Option<Box<RefusedAssignment>>,
    /// A row of it cannot be understood: what is known all the same, to count what runs of it.
    pub aside: Option<Box<AsideJob>>,
    /// What groups need of `max_unavailable` for what leaves clusters. Groups that need nothing are left out.
    pub moves: BTreeMap<GroupName, GroupMoves>,
    /// Slices of which something is granted and has not begun.
    pub unbegun: BTreeMap<SliceKey, UnbegunSince>,
}

/// Since when something of a slice is granted and has not begun, by the clock of the resource manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnbegunSince {
    /// Since then, and since no more was granted.
    pub since: Timestamp,
    /// How many of the slice were granted then.
    pub granted: u64,
}

/// What a group needs of `max_unavailable` for what leaves clusters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupMoves {
    /// A draining cluster has instances of it that another cluster has capacity for.
    pub drains: bool,
    /// So many could not begin where they were, and have been asked back to begin elsewhere.
    pub sent_on: u64,
    /// They count as unavailable until then: by that time they are bound again, or wait for quota.
    pub until: Timestamp,
    /// Instances that a drain has told to leave where they ran, and that have not begun again since.
    pub moving: RangeSet,
}

impl Nothing for RareJob {
    const NOTHING: &'static Self = &Self {
        surge: Few::new(),
        confirmed: None,
        release: Release::Held,
        filed_rows: 0,
        tombstone: false,
        alarmed: false,
        refused: None,
        aside: None,
        moves: BTreeMap::new(),
        unbegun: BTreeMap::new(),
    };
}

impl JobView {
    /// Whether it may begin, for all that it was submitted to wait for.
    pub(crate) fn set_release(&mut self, release: Release) {
        if self.rare.release != release {
            self.rare.release = release;
        }
    }

    /// The version of the newest head that was read, acted on or not.
    #[must_use]
    pub fn newest_version(&self) -> Version {
        let heads = self.head.iter().chain(self.next_head.as_deref());
        heads.map(|h| h.version).max().unwrap_or_default()
    }

    /// Where it is at home. While its head is not known nothing of it is assigned, and any home will do.
    #[must_use]
    pub fn home(&self) -> HomeKey {
        self.head.as_ref().map(|head| head.home).unwrap_or_default()
    }

    /// Whether nothing of it is assigned or moved,
    /// because storage refused that and its head is still the same.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        let head = self.newest_version();
        self.rare.refused.as_ref().is_some_and(|r| r.head == head)
    }

    /// What the user wants.
    #[must_use]
    pub fn desired(&self) -> Desired {
        self.head.as_ref().map(|h| h.goal.desired).unwrap_or_default()
    }

    /// Whether it is wanted running, may begin, and is known well enough to act on.
    #[must_use]
    pub fn running_spec(&self) -> Option<&JobSpec> {
        let running = self.desired() == Desired::Running && self.is_live() && !self.is_held();
        self.spec.as_deref().filter(|_| running)
    }

    /// Whether it waits for other jobs, or for ever since it is a template.
    /// A release that is not stored yet may be decided again.
    #[must_use]
    pub fn is_held(&self) -> bool {
        if self.spec.as_ref().is_some_and(|s| s.is_template()) {
            return true;
        }
        let waits = self.spec.as_ref().is_some_and(|s| !s.rules.after.is_empty());
        waits && !matches!(self.rare.release, Release::Stored(_))
    }

    /// The same, as a shared copy.
    #[must_use]
    pub fn running(&self) -> Option<Arc<JobSpec>> {
        self.running_spec()?;
        self.spec.clone()
    }

    /// Whether something is still to be done for it.
    #[must_use]
    pub fn is_live(&self) -> bool {
        let ended = self.progress.as_ref().is_some_and(|p| p.state().is_ended());
        self.head
            .as_ref()
            .is_some_and(|h| !h.void && (!ended || h.goal.desired == Desired::Deleted))
    }

    /// Whether none of its instances is bound to a cluster, as it is decided.
    #[must_use]
    pub fn is_unbound(&self) -> bool {
        self.decided.groups.is_empty()
    }

    /// Whether it has an instance on each host.
    pub(crate) fn is_daemon(&self) -> bool {
        self.spec
            .as_ref()
            .is_some_and(|spec| spec.kind == JobKind::Daemon)
    }

    /// Slices of the stored assignment.
    #[must_use]
    pub fn slices(&self) -> Few<SliceKey, Vec<&AssignedRange>> {
        slices_of(&self.durable)
    }

    /// Slices of the assignment as it is decided.
    #[must_use]
    pub fn decided_slices(&self) -> Few<SliceKey, Vec<&AssignedRange>> {
        slices_of(&self.decided)
    }

    /// Forgets the grants of slices that are in neither assignment.
    pub(crate) fn forget_grants(&mut self) {
        let (stored, decided) = (slices_of(&self.durable), slices_of(&self.decided));
        self.grants
            .retain(|key, _| stored.contains_key(key) || decided.contains_key(key));
    }

    /// Wanted instances of a group: none once the goal is another.
    #[must_use]
    pub fn wanted(&self, group: &GroupName) -> u64 {
        let spec = self.running_spec().and_then(|s| s.group(group));
        spec.map_or(0, |g| u64::from(g.instances))
    }

    /// Every group that its spec or its assignment names.
    #[must_use]
    pub fn groups(&self) -> BTreeSet<GroupName> {
        let spec = self
            .spec
            .iter()
            .flat_map(|s| s.groups.iter().map(|g| g.name.clone()));
        let assigned = self.durable.groups.keys().chain(self.decided.groups.keys());
        let released = self.durable.released.keys();
        spec.chain(assigned.chain(released).cloned()).collect()
    }
}

/// Whether a job may begin, for all that it was submitted to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Release {
    /// It waits, if there is anything to wait for.
    #[default]
    Held,
    /// All of it was met then; not stored yet.
    Decided(Timestamp),
    /// And that is stored.
    Stored(Timestamp),
}

impl Release {
    /// When all of it was met.
    #[must_use]
    pub const fn at(self) -> Option<Timestamp> {
        match self {
            Self::Held => None,
            Self::Decided(at) | Self::Stored(at) => Some(at),
        }
    }
}

/// A row that storage refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedAssignment {
    /// The newest head when it was refused. Nothing of the job is assigned or moved
    /// before there is another one.
    pub head: Version,
    /// Which row, and why, as text for operators.
    pub why: String,
}

/// What is known of a job that is set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AsideJob {
    /// Its head, if that can be read.
    pub head: Option<KnownHead>,
    /// Its spec, once it is read.
    pub spec: Option<Arc<JobSpec>>,
    /// The version of the spec that was asked for last.
    pub asked: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There are very many jobs that only wait. What they have nothing of belongs into `bound` or `rare`.
    #[test]
    fn the_view_of_a_job_that_waits_is_small() {
        assert!(size_of::<JobView>() <= 168, "{}", size_of::<JobView>());
        assert!(size_of::<KnownHead>() <= 40, "{}", size_of::<KnownHead>());
        assert!(size_of::<KnownProgress>() <= 32, "{}", size_of::<KnownProgress>());
        let view = JobView::default();
        assert_eq!((view.bound.get(), view.rare.get()), (None, None));
    }
}
