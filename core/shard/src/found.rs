//! What the cluster runs beyond what storage assigns to it, after an operator has resumed an older storage. The resource manager
//! is told of it and gives these instances to this cluster; then each of them is adopted (`stranger.rs`). Until none is left the
//! takeover stays open: also the next leader adopts.

use crate::Shard;
use crate::journal::Lane;
use echelon_core_hosts::TaskStatus;
use echelon_core_model::directive::{Found, FoundSlice, ReportPart};
use echelon_core_model::time::Span;
use echelon_core_model::{
    Generation, GroupName, InstanceRange, JobId, MemberId, RangeSet, TaskId, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};

/// Slices a part.
const SLICES_A_PART: usize = 256;

/// What is told of what was found.
#[derive(Debug, Default)]
pub(crate) struct Finding {
    /// The list that was told last.
    told: Option<Vec<FoundSlice>>,
    /// When storage is asked again about the jobs of what was found.
    ask_at: Timestamp,
    /// What is to be adopted when the list that is under way has ended: only then all tasks of a pod are known.
    listed: BTreeSet<TaskId>,
    /// The last update of each task that no record knows, while its run may still be adopted.
    unacknowledged: BTreeMap<MemberId, TaskStatus>,
}

impl Finding {
    /// The tasks of a run that have an update which is not acknowledged.
    pub(crate) fn unacknowledged_of<'a>(&'a self, run: &'a TaskId) -> impl Iterator<Item = &'a MemberId> {
        self.unacknowledged
            .keys()
            .filter(move |member| member.run == *run)
    }
}

impl Shard {
    /// Whether runs that the cluster has and storage does not are taken over. That begins when an operator resumes the
    /// storage. It ends when the cluster has listed all runs and answered for each stored one, and nothing is left to
    /// be taken over.
    pub(crate) fn adopts(&self) -> bool {
        self.own.adopted < self.resumed
    }

    /// Has a task adopted, with all others of its pod that the cluster lists.
    pub(crate) fn adopt_soon(&mut self, task: TaskId) {
        self.finding.listed.insert(task);
    }

    /// Acknowledges an update of a task that no record knows. While storage may be an older one, that waits
    /// until it is known whether the run is adopted: adoption stores what the update says, and Mesos forgets
    /// an end that is acknowledged.
    pub(crate) fn acknowledge_stranger(&mut self, member: &MemberId, status: &TaskStatus) {
        if status.uuid.is_some() && self.may_adopt_runs() {
            self.finding.unacknowledged.insert(member.clone(), status.clone());
        } else {
            // Its record may have gone on to a newer run, but not yet in storage: what is written of the
            // instance comes first.
            self.acknowledge(status, self.picture.run_at(&member.run));
        }
    }

    /// Whether an unknown run that lives may be adopted, now or after an operator has resumed the storage.
    fn may_adopt_runs(&self) -> bool {
        self.is_frozen() || self.adopts()
    }

    /// Adopts what was listed, unless a list is under way.
    pub(crate) fn adopt_listed(&mut self) {
        let is_idle = self.finding.listed.is_empty() && self.finding.unacknowledged.is_empty();
        if is_idle || self.reconcile.is_listing() || !self.contact.subscribed {
            return;
        }
        for task in std::mem::take(&mut self.finding.listed) {
            if self.is_adoptable(&task) {
                self.adopt_task(&task);
            }
        }
        for (member, status) in std::mem::take(&mut self.finding.unacknowledged) {
            self.apply_or_acknowledge(member, status);
        }
    }

    /// Takes in an update that has waited, if its run was adopted. One of a run that is not adopted changes
    /// nothing that is stored.
    fn apply_or_acknowledge(&mut self, member: MemberId, status: TaskStatus) {
        let run = self.picture.run_at(&member.run);
        if run.is_some_and(|run| self.picture.run(run).is_some()) {
            self.on_update(status);
        } else if self.may_adopt_runs() && self.strangers.is_undecided(&member.run) {
            self.finding.unacknowledged.insert(member, status);
        } else {
            self.acknowledge(&status, run);
        }
    }

    /// Tells what was found when that is another list, and ends the takeover when nothing is left. What the cluster has beyond
    /// storage after this is new evidence.
    pub(crate) fn keep_finding(&mut self) {
        let Some(found) = self.found() else {
            return;
        };
        if found.is_empty() && self.adopts() && self.reconcile.unobserved() == 0 {
            self.own.adopted = self.resumed;
            self.journal
                .touch(Lane::OWN, self.now, self.config.timing.commit_delay);
        }
        if self.finding.told.as_ref() != Some(&found) {
            let parts = parts(&found);
            self.finding.told = Some(found);
            for link in self.links.proven() {
                self.enqueue(parts.iter().map(|part| (link, part.clone())).collect());
            }
        }
        self.ask_again();
    }

    /// The whole list for one link; empty while the cluster has not listed all.
    pub(crate) fn found_parts(&self) -> Vec<ReportPart> {
        self.found().map_or_else(Vec::new, |found| parts(&found))
    }

    /// What runs and is not assigned here; `None` while that is not known. Jobs that storage does not have, or that are to end,
    /// are not the resource manager's to decide.
    fn found(&self) -> Option<Vec<FoundSlice>> {
        if self.is_frozen() {
            return None;
        }
        if !self.adopts() {
            return Some(Vec::new());
        }
        if self.is_recovering() || !self.reconcile.has_whole_list() || self.strangers.are_asked_about() {
            return None;
        }
        let mut slices: BTreeMap<(JobId, GroupName, Generation), RangeSet> = BTreeMap::new();
        for TaskId {
            instance, generation, ..
        } in self.strangers.wanted()
        {
            let key = (instance.job, instance.group.clone(), *generation);
            let numbers = slices.entry(key).or_default();
            numbers.insert(InstanceRange::one(instance.number));
        }
        let slices = slices.into_iter();
        let slices = slices.map(|((job, group, generation), numbers)| FoundSlice {
            job,
            group,
            generation,
            numbers,
        });
        Some(slices.collect())
    }

    /// Asks storage again about what is left: where else it may have been assigned no order tells us.
    fn ask_again(&mut self) {
        if self.now < self.finding.ask_at {
            return;
        }
        self.finding.ask_at = self.now.plus(self.ask_every());
        let told = self.finding.told.iter().flatten();
        let jobs: BTreeSet<JobId> = told.map(|slice| slice.job).collect();
        jobs.into_iter().for_each(|job| self.inquire(job));
    }

    const fn ask_every(&self) -> Span {
        Span(self.config.timing.reread.0 / 3)
    }

    /// When storage is asked again, while something is left.
    pub(crate) fn next_finding(&self) -> Option<Timestamp> {
        let any = self.finding.told.as_ref().is_some_and(|told| !told.is_empty());
        any.then_some(self.finding.ask_at)
    }
}

fn parts(slices: &[FoundSlice]) -> Vec<ReportPart> {
    let last = slices.len().div_ceil(SLICES_A_PART).max(1) - 1;
    let part = |i: usize| Found {
        begins: i == 0,
        ends: i == last,
        slices: slices
            .iter()
            .skip(i * SLICES_A_PART)
            .take(SLICES_A_PART)
            .cloned()
            .collect(),
    };
    (0..=last).map(|i| ReportPart::Found(part(i))).collect()
}
