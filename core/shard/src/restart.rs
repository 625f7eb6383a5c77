//! Runs of a group here that are to be replaced, since they are of another version, from before the last restart asked for, or since
//! their host is to be empty: which they are, how many of them may be stopped now, and what part of the job-wide `max_unavailable` that takes.

use crate::Shard;
use crate::group::{Group, Wish};
use crate::sets::Replacement;
use echelon_core_hosts::Drain;
use echelon_core_jobs::{Standing, standing};
use echelon_core_model::instance::Run;
use echelon_core_model::spec::JobKind;
use echelon_core_model::{HostId, InstanceNumber, ReasonCode, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

impl Shard {
    /// Stops outdated runs, lowest first, as long as no more than the group's part of `max_unavailable` are down.
    pub(crate) fn restart_some(&mut self, number: u32) {
        // What is stopped now might not be replaced.
        if self.withholds() {
            return;
        }
        loop {
            let Some(group) = self.picture.groups.get(&number) else {
                return;
            };
            let budget = u64::from(group.max_unavailable).saturating_sub(group.unavailable());
            let Some(n) = self.first_outdated(group, number, budget) else {
                return;
            };
            let code = group.why_outdated(n);
            self.stop((number, n), code.into());
            if self
                .picture
                .groups
                .get(&number)
                .is_some_and(|g| g.outdated.contains(&n))
            {
                return;
            }
        }
    }

    /// The lowest outdated run that may be stopped. One that is not available is counted as unavailable already, whatever stops it, so
    /// it costs nothing of the budget; but where no part was given nothing is stopped at all. A batch instance whose host goes away
    /// would end with it: its job has nothing that could be unavailable.
    fn first_outdated(&self, group: &Group, number: u32, budget: u64) -> Option<InstanceNumber> {
        let batch = group.kind() == Some(JobKind::Batch);
        let none_may = budget == 0 && group.max_unavailable == 0 && !batch;
        // Without the spec it is not known what is good enough to count as up.
        if self.is_frozen() || group.spec.is_none() || group.outdated.is_empty() || none_may {
            return None;
        }
        let may = |n: &InstanceNumber| {
            let run = group.record(*n).and_then(|r| r.run.as_ref());
            let down = run.is_some_and(|r| !r.is_available()) && group.max_unavailable > 0;
            let drained = batch && group.why_outdated(*n) == ReasonCode::HostMaintenance;
            (budget > 0 || down || drained) && self.is_observed((number, *n))
        };
        group.outdated.iter().copied().find(may)
    }
}

impl Group {
    /// Whether a run began before a restart that is about it, of all or of some.
    fn is_before_restart(&self, n: InstanceNumber, run: &Run) -> bool {
        let before = |w: &Wish| run.restarts < w.goal.restarts || run.head_version < w.restarts.wanted(n);
        self.wish.as_ref().is_some_and(before)
    }

    /// Instances that are being replaced, or were and are not good yet. One that has ended meanwhile, or that this cluster no longer
    /// holds, is nobody's to wait for.
    pub(crate) fn being_replaced(&self) -> impl Iterator<Item = InstanceNumber> {
        let counts = |n: &InstanceNumber| {
            let record = self.record(*n);
            record.is_some_and(|r| standing(r) == Standing::Active && self.holds(*n, r.generation))
        };
        self.restarting.iter().copied().filter(counts)
    }

    /// Instances that are still to be restarted, or were replaced and are not good yet.
    pub(crate) fn under_restart(&self) -> u64 {
        let others = self.being_replaced().filter(|n| !self.unrestarted.contains(n));
        u64::try_from(self.unrestarted.len() + others.count()).unwrap_or(u64::MAX)
    }

    pub(crate) fn kind(&self) -> Option<JobKind> {
        self.spec.as_ref().map(|s| s.kind)
    }

    /// Why an outdated run is to be replaced.
    fn why_outdated(&self, n: InstanceNumber) -> ReasonCode {
        let run = self.record(n).and_then(|r| r.run.as_ref());
        if run.is_some_and(|r| self.is_before_restart(n, r)) {
            ReasonCode::RestartRequested
        } else if self.is_out_of_version(n) {
            ReasonCode::RolloutUpdate
        } else {
            ReasonCode::HostMaintenance
        }
    }

    /// How many runs may be stopped now for the good of others: nothing of a batch job can be unavailable.
    pub(crate) fn may_lose(&self) -> u64 {
        match self.kind() {
            Some(JobKind::Batch) => u64::MAX,
            Some(JobKind::Service | JobKind::Stateful | JobKind::Daemon) => {
                u64::from(self.max_unavailable).saturating_sub(self.unavailable())
            }
            None => 0,
        }
    }

    /// The part of `max_unavailable` in force: the one given, or more while restarts that began under a larger one go on. What
    /// this cluster no longer holds is another's to count.
    pub(crate) fn part_in_force(&self) -> u32 {
        let restarting = self.being_replaced().count();
        self.max_unavailable
            .max(u32::try_from(restarting).unwrap_or(u32::MAX))
    }

    /// The same for all numbers: what is outdated depends on wish, kind and hosts.
    pub(crate) fn refresh_all_restarts(&mut self, draining: &BTreeMap<HostId, Drain>, now: Timestamp) {
        let numbers: Vec<_> = self.records().map(|(n, _)| n).collect();
        for n in numbers {
            self.refresh_restarts(n, draining, now);
        }
    }

    /// Brings the sets of outdated runs and of instances under replacement up to date for one number.
    pub(crate) fn refresh_restarts(
        &mut self,
        n: InstanceNumber,
        draining: &BTreeMap<HostId, Drain>,
        now: Timestamp,
    ) {
        let Replacement {
            outdated,
            behind,
            unrestarted,
            restarting,
            settling,
        } = self.replacement(n, draining, now);
        keep(&mut self.unrestarted, n, unrestarted);
        keep(&mut self.behind, n, behind);
        keep(&mut self.outdated, n, outdated);
        keep(&mut self.restarting, n, restarting);
        keep(&mut self.settling, n, settling);
    }

    /// Which sets about replacing its run a number belongs to.
    pub(crate) fn replacement(
        &self,
        n: InstanceNumber,
        draining: &BTreeMap<HostId, Drain>,
        now: Timestamp,
    ) -> Replacement {
        let drained = |r: &Run| match (draining.get(&r.host), self.kind()) {
            (Some(Drain::Services), kind) => kind == Some(JobKind::Service),
            (Some(Drain::Others), kind) => kind.is_some_and(|k| k != JobKind::Daemon),
            (Some(Drain::All), kind) => kind.is_some(),
            (None, _) => false,
        };
        let other = self.is_out_of_version(n);
        let old = |r: &Run| {
            let live = r.may_have_task() && r.stopping.is_none();
            live && (self.is_before_restart(n, r) || other || drained(r))
        };
        let settling = self.is_settling(n, now);
        let run = self.record(n).and_then(|r| r.run.as_ref());
        Replacement {
            outdated: run.is_some_and(old),
            behind: self.is_behind(n),
            unrestarted: run.is_some_and(|r| r.may_have_task() && self.is_before_restart(n, r)),
            restarting: settling || run.is_some_and(is_down_for_us),
            settling,
        }
    }
}

fn keep(set: &mut BTreeSet<InstanceNumber>, n: InstanceNumber, member: bool) {
    if member {
        set.insert(n);
    } else {
        set.remove(&n);
    }
}

/// Whether a run was stopped to be replaced, or follows such a one and nobody can rely on it at the moment.
fn is_down_for_us(run: &Run) -> bool {
    let stopped = run
        .stopping
        .as_ref()
        .is_some_and(|s| s.reason.code.is_replacement());
    let follows = run.replaces && run.available_since().is_none();
    stopped || follows
}
