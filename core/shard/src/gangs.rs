//! Gangs at this cluster: whether all of one may begin together now, what of it wants hosts, and those that are stopped whole: since they
//! have been incomplete for too long, or since a member has fallen out of one that is tried as a whole. All of that follows from the
//! records of instances, so it outlives leaders, and what is half stored when its leader dies is ended by the next.

use crate::Shard;
use crate::group::Group;
use crate::picture::At;
use crate::place::Hungry;
use echelon_core_jobs::{Standing, give_back, standing};
use echelon_core_model::instance::{Ended, InstanceRecord, Run};
use echelon_core_model::job::Desired;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::time::Span;
use echelon_core_model::{InstanceNumber, JobId, RangeSet, Reason, ReasonCode, RunState, Timestamp};
use echelon_core_placement::{Answer, Together, Wanted};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How often gangs are looked through for incomplete ones.
const LOOK: Span = Span::seconds(2);

/// The gangs that have groups here.
#[derive(Debug, Default)]
pub(crate) struct Gangs {
    jobs: BTreeSet<JobId>,
    look_at: Timestamp,
    /// Of those that an answer of placement is about and that are tried as wholes: the number of the try that begins.
    tries: BTreeMap<JobId, u32>,
}

impl Gangs {
    /// A spec was read.
    pub(crate) fn note(&mut self, job: JobId, spec: &JobSpec) {
        if spec.gang.is_some() {
            self.jobs.insert(job);
        }
    }

    /// To which try of its gang a run belongs that begins now; 0: to none.
    pub(crate) fn try_of(&self, job: JobId) -> u32 {
        self.tries.get(&job).copied().unwrap_or_default()
    }

    /// When they are looked through next.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        (!self.jobs.is_empty()).then_some(self.look_at)
    }
}

/// A gang that is here whole: its spec, and its groups with their numbers in the picture.
type Whole<'a> = (Arc<JobSpec>, Vec<(u32, &'a Group)>);

/// Whether no member of a gang begins beside others that go on.
fn is_tried_whole(spec: &JobSpec) -> bool {
    spec.gang.as_ref().is_some_and(|g| g.on_failure.is_of_all())
}

/// A member that has succeeded waits for its gang's next try; what its place was granted for has ended.
fn begin_anew(record: &mut InstanceRecord, now: Timestamp) {
    record.ended = None;
    give_back(record, ReasonCode::GangIncomplete.into(), now);
}

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
            ReasonCode::GangIncomplete
                | ReasonCode::GangRestart
                | ReasonCode::PoolPreempted
                | ReasonCode::PoolEntitlement
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
        let settled = || self.records().all(|(_, r)| !r.unsettled);
        self.served && runs && stays && known && held == u64::from(instances) && settled()
    }

    /// The records of numbers that are its members now.
    fn members(&self) -> impl Iterator<Item = (InstanceNumber, &InstanceRecord)> {
        self.records().filter(|(n, _)| self.range_of(*n).is_some())
    }

    /// Numbers that want a host.
    fn hungry(&self) -> RangeSet {
        let startable = self.startable.values();
        let ready: RangeSet = self.ready.iter().copied().collect();
        startable.fold(ready, |sum, set| sum.union(set))
    }

    /// Whether an instance that is to run has no run that goes on: it has ended, or is given up as soon as another begins.
    fn has_fallen(&self, n: InstanceNumber, record: &InstanceRecord) -> bool {
        let gone = record.run.as_ref().is_none_or(|r| r.state.is_ended());
        standing(record) == Standing::Active && (gone || self.ready.contains(&n))
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

    /// What of a gang wants hosts, by group, if it may be given any: all of it together, but for what has ended of one whose members are
    /// tried by themselves; of such a one also what has fallen out of it while it runs.
    pub(crate) fn gang_hunger(&self, job: JobId) -> Option<Vec<Hungry>> {
        let (spec, groups) = self.gang(job)?;
        let tried_whole = is_tried_whole(&spec);
        if !groups.iter().all(|(_, g)| self.is_fresh(g)) {
            return None;
        }
        let records = || groups.iter().flat_map(|(_, g)| g.members().map(|(_, r)| r));
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
            let starts = |n: &InstanceNumber| {
                let range = g.range_of(*n);
                range.is_some_and(|r| self.may_start((of.group, *n), r.generation))
            };
            let block = |n: &InstanceNumber| self.strangers.block(&g.instance(*n)) || !starts(n);
            of.numbers.iter().any(block)
        };
        if !all_granted || hunger.iter().zip(&groups).any(blocked) {
            return None;
        }
        let ended = records().filter(|r| r.ended.is_some()).count();
        let wants: usize = hunger.iter().map(|h| h.numbers.len()).sum();
        let all: u64 = groups
            .iter()
            .map(|(_, g)| u64::from(g.group_spec().map_or(0, |s| s.instances)))
            .sum();
        let complete = u64::try_from(wants + ended).is_ok_and(|n| n == all);
        let may = if tried_whole {
            complete && ended == 0
        } else {
            complete || runs().any(is_up)
        };
        may.then_some(hunger)
    }

    /// Notes which tries begin with an answer of placement: one more than those in which a member has failed.
    pub(crate) fn note_tries(&mut self, answer: &Answer) {
        let jobs: BTreeSet<JobId> = answer.choices.iter().map(|c| c.instance.job).collect();
        let next = |job: JobId| {
            let (_, groups) = self.gang(job).filter(|(spec, _)| is_tried_whole(spec))?;
            let failed = groups.iter().flat_map(|(_, g)| g.records());
            let failed = failed.map(|(_, r)| r.attempts).max().unwrap_or_default();
            Some((job, failed.saturating_add(1)))
        };
        self.gangs.tries = jobs.into_iter().filter_map(next).collect();
    }

    /// Stops gangs whole of which a part has not run for too long while another did, or a member has fallen out.
    pub(crate) fn keep_gangs(&mut self) {
        if self.now < self.gangs.look_at || self.gangs.jobs.is_empty() {
            return;
        }
        self.gangs.look_at = self.now.plus(LOOK);
        if !self.may_act() || !self.may_kill() || self.is_frozen() || self.withholds() {
            return;
        }
        let jobs = std::mem::take(&mut self.gangs.jobs);
        let known = |job: &JobId| !self.picture.groups_of(*job).is_empty();
        let jobs: BTreeSet<JobId> = jobs.into_iter().filter(known).collect();
        for job in &jobs {
            self.wake_gang(*job);
            for at in self.members_left(*job) {
                self.stop(at, ReasonCode::GangRestart.into());
            }
            let now = self.now;
            for at in self.members_begun_anew(*job) {
                self.edit(at, |r| begin_anew(r, now));
            }
            for at in self.overdue_members(*job) {
                self.stop(at, ReasonCode::GangIncomplete.into());
            }
            for at in self.stranded_members(*job) {
                self.edit(at, |r| give_back(r, ReasonCode::GangIncomplete.into(), now));
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

    /// What goes on of a gang that is tried as a whole, and that a member has fallen out of.
    fn members_left(&self, job: JobId) -> Vec<At> {
        let Some((_, groups)) = self.gang(job).filter(|(spec, _)| is_tried_whole(spec)) else {
            return Vec::new();
        };
        let mut left: Vec<At> = Vec::new();
        let mut fallen = false;
        for (number, group) in &groups {
            for (n, record) in group.records() {
                let has_fallen = group.has_fallen(n, record);
                fallen |= has_fallen;
                let silent = |r: &Run| r.state == RunState::Unreachable && r.stopping.is_none();
                let goes_on = record.run.as_ref().is_some_and(|r| is_up(r) || silent(r));
                left.extend((goes_on && !has_fallen).then_some((*number, n)));
            }
        }
        left.retain(|at| fallen && self.is_observed(*at));
        left
    }

    /// Members that have succeeded of a gang that is tried as a whole, and that is about to begin anew since not all others go on: they
    /// begin again, too, or the others would miss them. Nobody does where a member has failed for good, or enough have succeeded: the
    /// resource manager ends the job.
    fn members_begun_anew(&self, job: JobId) -> Vec<At> {
        let Some((spec, groups)) = self.gang(job).filter(|(spec, _)| is_tried_whole(spec)) else {
            return Vec::new();
        };
        let mut done: Vec<At> = Vec::new();
        let (mut counted, mut going): (u64, u64) = (0, 0);
        for (number, group) in &groups {
            let counts = group.group_spec().is_some_and(|g| spec.waits_for(g));
            for (n, record) in group.members() {
                match record.ended {
                    Some(Ended::Failed) => return Vec::new(),
                    Some(Ended::Succeeded) => {
                        done.push((*number, n));
                        counted += u64::from(counts);
                    }
                    Some(Ended::Stopped) | None => {
                        going += u64::from(record.may_have_task() && !group.ready.contains(&n));
                    }
                }
            }
        }
        let met = counted >= spec.rules.completion.needed(spec.counted());
        let ended = u64::try_from(done.len()).unwrap_or(u64::MAX);
        if met || going.saturating_add(ended) == spec.instances() {
            done.clear();
        }
        done
    }

    /// Members of a gang that is tried as a whole, and that has found no room together for too long: it gives back what it was granted, to
    /// begin where there is room.
    fn stranded_members(&self, job: JobId) -> Vec<At> {
        let Some((spec, groups)) = self.gang(job).filter(|(spec, _)| is_tried_whole(spec)) else {
            return Vec::new();
        };
        let mut fallen: Vec<At> = Vec::new();
        let mut since = Timestamp(0);
        for (number, group) in &groups {
            for (n, record) in group.records() {
                if record.may_have_task() {
                    return Vec::new();
                }
                let ended = record.run.as_ref().and_then(|r| r.ended_at);
                let ended = ended.map(|at| group.pause.counted_from(at, self.now));
                since = since.max(record.not_before).max(ended.unwrap_or_default());
                // Of what was given up, and has no run of its own, nothing can be given back.
                let gives = record.run.is_some() && group.has_fallen(n, record);
                fallen.extend(gives.then_some((*number, n)));
            }
        }
        let within = spec.gang.as_ref().map_or(Span::ZERO, |g| g.start_within);
        if self.now < since.plus(within) {
            fallen.clear();
        }
        fallen
    }

    /// What runs of a gang that has been incomplete for too long.
    fn overdue_members(&self, job: JobId) -> Vec<At> {
        let Some((spec, groups)) = self.gang(job) else {
            return Vec::new();
        };
        let Some(gang) = &spec.gang else {
            return Vec::new();
        };
        let mut up: Vec<(At, &Run)> = Vec::new();
        let mut down: Option<Timestamp> = None;
        let mut unstarted = false;
        for (number, group) in &groups {
            unstarted |= group.startable.values().any(|set| !set.is_empty());
            for (n, record) in group.records() {
                let since = group
                    .down_since(record)
                    .map(|at| group.pause.counted_from(at, self.now));
                down = down.into_iter().chain(since).min();
                let run = record.run.as_ref().filter(|r| is_up(r));
                up.extend(run.map(|run| ((*number, n), run)));
            }
        }
        // What never began is missing since the first of the others did.
        let began = up.iter().filter(|(_, r)| r.state == RunState::Running);
        let began = began.map(|(_, r)| r.started_at.unwrap_or(r.since));
        let began = began
            .map(|at| self.picture.pause.counted_from(at, self.now))
            .min();
        let down = down.into_iter().chain(began.filter(|_| unstarted)).min();
        let overdue = began.is_some() && down.is_some_and(|at| self.now.since(at) >= gang.start_within);
        if !overdue {
            return Vec::new();
        }
        let stops = up.into_iter().map(|(at, _)| at);
        stops.filter(|at| self.is_observed(*at)).collect()
    }

    /// Tells of each group of a gang where its members are to be together, and where those are that are not to be placed.
    pub(crate) fn note_together(&self, job: JobId, wanted: &mut [Wanted]) {
        let Some((spec, groups)) = self.gang(job) else {
            return;
        };
        let Some(gang) = spec.gang.as_ref().filter(|g| !g.topology.levels.is_empty()) else {
            return;
        };
        let runs = groups.iter().flat_map(|(_, g)| g.records());
        let runs = runs.filter_map(|(_, r)| r.run.as_ref()).filter(|r| is_up(r));
        let together = Together {
            levels: gang.topology.levels.clone(),
            required: gang.topology.required,
            with: runs.map(|r| r.host.clone()).collect(),
        };
        for wanted in wanted {
            wanted.together = together.clone();
        }
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
