//! Restarts of a group here: which runs are from before the last one asked for, how many of them may be stopped now, and what
//! part of the job-wide `max_unavailable` that takes.

use crate::Shard;
use crate::group::Group;
use echelon_core_jobs::{Standing, standing};
use echelon_core_model::instance::Run;
use echelon_core_model::{InstanceNumber, ReasonCode, RunNumber, RunState};

impl Shard {
    /// Stops runs from before the last restart, lowest first, as long as no more than the group's part of `max_unavailable`
    /// are down.
    pub(crate) fn restart_some(&mut self, number: u32) {
        loop {
            let Some(group) = self.picture.groups.get(&number) else {
                return;
            };
            let budget = u64::from(group.max_unavailable).saturating_sub(group.unavailable());
            let Some(n) = self.first_outdated(group, number, budget) else {
                return;
            };
            self.stop((number, n), ReasonCode::RestartRequested.into());
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

    /// The lowest outdated run that may be stopped. One that does not run is counted as unavailable already, whatever stops it, so
    /// it costs nothing of the budget; but where no part was given nothing is stopped at all.
    fn first_outdated(&self, group: &Group, number: u32, budget: u64) -> Option<InstanceNumber> {
        if self.frozen || group.outdated.is_empty() || (budget == 0 && group.max_unavailable == 0) {
            return None;
        }
        let may = |n: &InstanceNumber| {
            let run = group.record(*n).and_then(|r| r.run.as_ref());
            let down = run.is_some_and(|r| r.state != RunState::Running);
            (budget > 0 || down) && self.is_observed((number, *n))
        };
        group.outdated.iter().copied().find(may)
    }
}

impl Group {
    /// The part of `max_unavailable` in force: the one given, or more while restarts that began under a larger one go on. What
    /// this cluster no longer holds is another's to count.
    pub(crate) fn part_in_force(&self) -> u32 {
        let counts = |n: &&InstanceNumber| {
            let record = self.record(**n);
            record.is_some_and(|r| standing(r) == Standing::Active && self.holds(**n, r.generation))
        };
        let restarting = self.restarting.iter().filter(counts).count();
        self.max_unavailable
            .max(u32::try_from(restarting).unwrap_or(u32::MAX))
    }

    /// Brings the sets of outdated runs and of instances under restart up to date for one number.
    pub(crate) fn refresh_restarts(&mut self, n: InstanceNumber) {
        let asked = self.wish.as_ref().map_or(0, |w| w.goal.restarts);
        let old = |r: &Run| r.may_have_task() && r.stopping.is_none() && r.restarts < asked;
        if self.record(n).and_then(|r| r.run.as_ref()).is_some_and(old) {
            self.outdated.insert(n);
        } else {
            self.outdated.remove(&n);
        }
        if self
            .record(n)
            .and_then(|r| r.run.as_ref())
            .is_some_and(is_restarting)
        {
            self.restarting.insert(n);
        } else {
            self.restarting.remove(&n);
        }
    }
}

/// Whether a run is what a restart stopped, or what follows it and has not run yet. A run that follows a failure cannot be told
/// from the latter by its record: until it runs it counts too, which only makes others wait.
fn is_restarting(run: &Run) -> bool {
    let stopped = run
        .stopping
        .as_ref()
        .is_some_and(|s| s.reason.code == ReasonCode::RestartRequested);
    let follows = run.restarts > 0 && run.number > RunNumber(1) && run.started_at.is_none();
    run.state != RunState::Running && (stopped || follows)
}
