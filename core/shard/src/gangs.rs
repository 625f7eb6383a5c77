//! Gangs at this cluster: whether all of one may begin together now, what of it wants hosts, and those that have been incomplete for
//! too long and are stopped whole. What is counted follows from the records of instances, so it outlives leaders.

use crate::Shard;
use crate::group::Group;
use crate::picture::At;
use crate::place::Hungry;
use echelon_core_jobs::{Standing, standing};
use echelon_core_model::instance::{InstanceRecord, Run};
use echelon_core_model::job::Desired;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::time::Span;
use echelon_core_model::{InstanceNumber, JobId, RangeSet, Reason, ReasonCode, RunState, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How often gangs are looked through for incomplete ones.
const LOOK: Span = Span::seconds(2);

/// The gangs that have groups here.
#[derive(Debug, Default)]
pub(crate) struct Gangs {
    jobs: BTreeSet<JobId>,
    look_at: Timestamp,
}

impl Gangs {
    /// A spec was read.
    pub(crate) fn note(&mut self, job: JobId, spec: &JobSpec) {
        if spec.gang.is_some() {
            self.jobs.insert(job);
        }
    }

    /// When they are looked through next.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        (!self.jobs.is_empty()).then_some(self.look_at)
    }
}

/// A gang that is here whole: its spec, and its groups with their numbers in the picture.
type Whole<'a> = (Arc<JobSpec>, Vec<(u32, &'a Group)>);

/// Whether a run may be doing its work, or is about to.
const fn is_up(run: &Run) -> bool {
    matches!(
        run.state,
        RunState::Launching | RunState::Starting | RunState::Running
    ) && run.stopping.is_none()
}

/// Whether a run is on its way to its end together with its gang.
fn is_going_down(run: &Run) -> bool {
    let with_all = |code| {
        matches!(
            code,
            ReasonCode::GangIncomplete | ReasonCode::PoolPreempted | ReasonCode::PoolEntitlement
        )
    };
    run.may_have_task() && run.stopping.as_ref().is_some_and(|s| with_all(s.reason.code))
}

impl Group {
    /// Whether all of its numbers are here to stay, and everything is known of them.
    fn is_whole(&self, instances: u32) -> bool {
        let held: u64 = self.row.ranges.iter().map(|r| r.range.count()).sum();
        let stays = self.row.ranges.iter().all(|r| r.releasing.is_none());
        let known = self.held().keys().all(|g| self.untaken(*g).is_empty());
        let runs = self
            .wish
            .as_ref()
            .is_some_and(|w| w.goal.desired == Desired::Running);
        self.served && runs && stays && known && held == u64::from(instances)
    }

    /// Numbers that want a host.
    fn hungry(&self) -> RangeSet {
        let startable = self.startable.values();
        let ready: RangeSet = self.ready.iter().copied().collect();
        startable.fold(ready, |sum, set| sum.union(set))
    }

    /// Since when a member does not run, if it is to.
    fn down_since(&self, record: &InstanceRecord) -> Option<Timestamp> {
        let run = record.run.as_ref()?;
        let active = standing(record) == Standing::Active && run.state != RunState::Running;
        active.then(|| run.ended_at.unwrap_or(run.since))
    }
}

impl Shard {
    /// The groups of a gang, if all of it is here.
    fn gang(&self, job: JobId) -> Option<Whole<'_>> {
        let known = self.picture.groups_of(job).into_iter().find_map(|n| {
            let spec = self.picture.groups.get(&n)?.spec.as_ref()?;
            spec.gang.is_some().then(|| Arc::clone(spec))
        });
        let spec = known?;
        let groups: Option<Vec<(u32, &Group)>> = spec
            .groups
            .iter()
            .map(|g| {
                let number = self.picture.number_of(job, &g.name)?;
                let group = self.picture.groups.get(&number)?;
                let whole = group.is_whole(g.instances) && group.group_spec().is_some();
                whole.then_some((number, group))
            })
            .collect();
        groups.map(|groups| (spec, groups))
    }

    /// What of a gang wants hosts, by group, if it may be given any: all of it that has not ended, together, or what has fallen out of
    /// one that runs.
    pub(crate) fn gang_hunger(&self, job: JobId) -> Option<Vec<Hungry>> {
        let (_, groups) = self.gang(job)?;
        if !groups.iter().all(|(_, g)| self.is_fresh(g)) {
            return None;
        }
        let records = || groups.iter().flat_map(|(_, g)| g.records().map(|(_, r)| r));
        let runs = || records().filter_map(|r| r.run.as_ref());
        if runs().any(is_going_down) {
            return None;
        }
        let all_granted = groups.iter().all(|(_, g)| {
            let mut sets = g.startable.iter();
            sets.all(|(generation, set)| g.openings(*generation, self.now) == set.count())
        });
        let hunger: Vec<Hungry> = groups
            .iter()
            .map(|(number, g)| Hungry {
                group: *number,
                numbers: g.hungry().numbers().collect(),
            })
            .collect();
        let blocked = |(of, (_, g)): (&Hungry, &(u32, &Group))| {
            let block = |n: &InstanceNumber| self.strangers.block(&g.instance(*n));
            of.numbers.iter().any(block)
        };
        if !all_granted || hunger.iter().zip(&groups).any(blocked) {
            return None;
        }
        let ended = records()
            .filter(|r| matches!(standing(r), Standing::Ended(_)))
            .count();
        let wants: usize = hunger.iter().map(|h| h.numbers.len()).sum();
        let all: u64 = groups
            .iter()
            .map(|(_, g)| u64::from(g.group_spec().map_or(0, |s| s.instances)))
            .sum();
        let complete = u64::try_from(wants + ended).is_ok_and(|n| n == all);
        (complete || runs().any(is_up)).then_some(hunger)
    }

    /// Stops gangs whole of which a part has not run for too long while another did.
    pub(crate) fn keep_gangs(&mut self) {
        if self.now < self.gangs.look_at || self.gangs.jobs.is_empty() {
            return;
        }
        self.gangs.look_at = self.now.plus(LOOK);
        if !self.may_act() || !self.may_kill() || self.frozen || self.withholds() {
            return;
        }
        let jobs = std::mem::take(&mut self.gangs.jobs);
        let known = |job: &JobId| !self.picture.groups_of(*job).is_empty();
        let jobs: BTreeSet<JobId> = jobs.into_iter().filter(known).collect();
        for job in &jobs {
            self.wake_gang(*job);
            for at in self.overdue_members(*job) {
                self.stop(at, ReasonCode::GangIncomplete.into());
            }
        }
        self.gangs.jobs = jobs;
    }

    /// A gang that may begin, or go on, and was not asked about has a round of placement.
    fn wake_gang(&mut self, job: JobId) {
        let numbers = self.picture.groups_of(job);
        let groups = numbers.iter().filter_map(|n| self.picture.groups.get(n));
        let asked = groups.clone().any(|g| !g.unplaced.is_empty());
        let waited = groups.clone().any(|g| g.gang_waits);
        let hungry = |hunger: Vec<Hungry>| hunger.iter().any(|h| !h.numbers.is_empty());
        if (waited || !asked) && self.gang_hunger(job).is_some_and(hungry) {
            self.note_gang_waits(job, false);
            for number in numbers {
                self.placing.hunger_anew(number, self.hosts.revivals());
            }
            self.placing.hungrier(self.now, self.config.timing.commit_delay);
        }
    }

    /// What runs of a gang that has been incomplete for too long.
    fn overdue_members(&self, job: JobId) -> Vec<At> {
        let Some((spec, groups)) = self.gang(job) else {
            return Vec::new();
        };
        let Some(gang) = spec.gang else { return Vec::new() };
        let mut up: Vec<(At, &Run)> = Vec::new();
        let mut down: Option<Timestamp> = None;
        let mut unstarted = false;
        for (number, group) in &groups {
            unstarted |= group.startable.values().any(|set| !set.is_empty());
            for (n, record) in group.records() {
                let since = group.down_since(record);
                down = down.into_iter().chain(since).min();
                let run = record.run.as_ref().filter(|r| is_up(r));
                up.extend(run.map(|run| ((*number, n), run)));
            }
        }
        // What never began is missing since the first of the others did.
        let began = up.iter().filter(|(_, r)| r.state == RunState::Running);
        let began = began.map(|(_, r)| r.started_at.unwrap_or(r.since)).min();
        let down = down.into_iter().chain(began.filter(|_| unstarted)).min();
        let overdue = began.is_some() && down.is_some_and(|at| self.now.since(at) >= gang.start_within);
        if !overdue {
            return Vec::new();
        }
        let stops = up.into_iter().map(|(at, _)| at);
        stops.filter(|at| self.is_observed(*at)).collect()
    }

    /// Notes of all groups of a gang whether they wait for the rest of it.
    pub(crate) fn note_gang_waits(&mut self, job: JobId, waits: bool) {
        for number in self.picture.groups_of(job) {
            if let Some(group) = self.picture.groups.get_mut(&number)
                && group.gang_waits != waits
            {
                group.gang_waits = waits;
                self.picture.unreported.insert(number);
            }
        }
    }
}

/// Why a member waits whose gang cannot begin yet.
pub(crate) fn waits() -> Reason {
    Reason::new(ReasonCode::GangWaits)
}
