//! The shard's picture of its groups, and the one door through which an instance's record is changed: whoever goes through
//! it cannot forget to store, count, tell and look again.

use crate::Shard;
use crate::group::{Group, times};
use echelon_core_jobs::Tally;
use echelon_core_model::bucket::BLOCK_SIZE;
use echelon_core_model::instance::{InstanceRecord, Run, SliceRow};
use echelon_core_model::pause::Pause;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::store::Event;
use echelon_core_model::{
    AssignedRange, Generation, GroupName, InstanceNumber, JobId, RunNumber, RunState, TaskId, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An instance: its group's number in the picture, and its own.
pub(crate) type At = (u32, InstanceNumber);
/// A run of an instance.
pub(crate) type RunAt = (At, Generation, RunNumber);

/// All groups, and what is to be looked at.
#[derive(Debug, Default)]
pub(crate) struct Picture {
    pub(crate) groups: BTreeMap<u32, Group>,
    by_key: BTreeMap<(JobId, GroupName), u32>,
    last: u32,
    /// All groups of storage are read and served; new ones are served from their beginning.
    pub(crate) complete: bool,
    /// The time between the leader before us and this one.
    pub(crate) pause: Pause,
    pub(crate) specs: BTreeMap<(JobId, u32), Arc<JobSpec>>,
    /// Instances to decide about before the step ends.
    pub(crate) agenda: BTreeSet<At>,
    /// Instances to decide about at a time.
    pub(crate) timers: BTreeSet<(Timestamp, At)>,
    /// Groups whose sums, marks or budgets are to be looked at before the step ends.
    pub(crate) restless: BTreeSet<u32>,
    /// Groups that have something to report.
    pub(crate) unreported: BTreeSet<u32>,
}

impl Picture {
    pub(crate) fn number_of(&self, job: JobId, group: &GroupName) -> Option<u32> {
        self.by_key.get(&(job, group.clone())).copied()
    }

    pub(crate) fn group(&self, job: JobId, name: &GroupName) -> Option<&Group> {
        self.groups.get(&self.number_of(job, name)?)
    }

    /// All groups in order of job and name, from this one on.
    pub(crate) fn groups_from(&self, first: Option<&(JobId, GroupName)>) -> impl Iterator<Item = &Group> {
        let numbers = match first {
            Some(first) => self.by_key.range(first..),
            None => self.by_key.range(..),
        };
        numbers.filter_map(|(_, number)| self.groups.get(number))
    }

    /// The number of a group, which is made if it is not there.
    pub(crate) fn number_or_new(&mut self, job: JobId, name: &GroupName) -> u32 {
        let key = (job, name.clone());
        if let Some(number) = self.by_key.get(&key) {
            return *number;
        }
        self.last += 1;
        let mut group = Group::new(SliceRow::new(job, name.clone()));
        group.served = self.complete;
        group.pause = self.pause;
        self.groups.insert(self.last, group);
        self.by_key.insert(key, self.last);
        self.last
    }

    /// Forgets a group whose rows are gone from storage.
    pub(crate) fn forget(&mut self, number: u32) {
        if let Some(group) = self.groups.remove(&number) {
            self.by_key.remove(&(group.job(), group.name().clone()));
            if self.groups_of(group.job()).is_empty() {
                self.prune_specs(group.job());
            }
        }
        self.restless.remove(&number);
        self.unreported.remove(&number);
    }

    /// The groups of a job.
    pub(crate) fn groups_of(&self, job: JobId) -> Vec<u32> {
        self.by_key
            .range((job, GroupName::new(""))..)
            .take_while(|((j, _), _)| *j == job)
            .map(|(_, n)| *n)
            .collect()
    }

    /// The jobs of all groups.
    pub(crate) fn jobs(&self) -> BTreeSet<JobId> {
        self.by_key.keys().map(|(job, _)| *job).collect()
    }

    pub(crate) fn record(&self, at: At) -> Option<&InstanceRecord> {
        self.groups.get(&at.0)?.record(at.1)
    }

    /// A run that is still in its instance's record.
    pub(crate) fn run(&self, (at, generation, number): RunAt) -> Option<&Run> {
        let record = self.record(at)?;
        let mut runs = record.run.iter().chain(&record.older);
        runs.find(|r| (r.generation, r.number) == (generation, number))
    }

    /// The task id of a run.
    pub(crate) fn task(&self, (at, generation, run): RunAt) -> Option<TaskId> {
        Some(TaskId {
            instance: self.groups.get(&at.0)?.instance(at.1),
            generation,
            run,
        })
    }

    /// The run that a task id names, whether or not it is in the record.
    pub(crate) fn run_at(&self, task: &TaskId) -> Option<RunAt> {
        let number = self.number_of(task.instance.job, &task.instance.group)?;
        Some(((number, task.instance.number), task.generation, task.run))
    }

    /// Has every instance of a group looked at again. `O(records of the group)`.
    pub(crate) fn look_at_all(&mut self, number: u32) {
        if let Some(group) = self.groups.get(&number) {
            self.agenda.extend(group.records().map(|(n, _)| (number, n)));
        }
        self.restless.insert(number);
        self.unreported.insert(number);
    }
}

/// What a run's state began with: another state, or silence that began or ended while it is stopping.
fn began(record: &InstanceRecord) -> Option<(Generation, RunNumber, RunState, Timestamp)> {
    record
        .run
        .as_ref()
        .map(|r| (r.generation, r.number, r.state, r.since))
}

/// What tells one state of a run from another.
fn face(record: &InstanceRecord) -> Option<(Generation, RunNumber, RunState)> {
    record.run.as_ref().map(|r| (r.generation, r.number, r.state))
}

impl Shard {
    /// Changes one record: it is counted anew, written with the next commit of its block along with an event when its run's
    /// state changed, reported, and decided about before the step ends.
    pub(crate) fn edit<R>(&mut self, at: At, change: impl FnOnce(&mut InstanceRecord) -> R) -> Option<R> {
        let group = self.picture.groups.get_mut(&at.0)?;
        let ranged = group.range_of(at.1).map(|r| r.generation);
        let released: Vec<Generation> = group
            .row
            .released
            .iter()
            .filter(|(_, set)| set.contains(at.1))
            .map(|(g, _)| *g)
            .collect();
        let revision = group.revision();
        let held = |r: &InstanceRecord| ranged == Some(r.generation) && !released.contains(&r.generation);
        let cell = group.cell(at.1);
        let lane = cell.lane;
        let fresh = !cell.block.instances.contains_key(&at.1);
        let record = cell.block.instances.entry(at.1).or_default();
        let before = (!fresh).then(|| (record.generation, tally_of(record, held(record), revision)));
        let (was, before_it) = (face(record), began(record));
        let result = change(record);
        if began(record) != before_it
            && let Some(run) = &mut record.run
        {
            run.observed_at = self.own.observed;
        }
        let after = (record.generation, tally_of(record, held(record), revision));
        let times = times(record);
        let changed = (face(record) != was).then(|| record.run.clone()).flatten();
        if let Some((generation, tally)) = before {
            group.tallies.entry(generation).or_default().subtract(&tally);
        }
        group.tallies.entry(after.0).or_default().merge(&after.1);
        if let Some((generation, times)) = times {
            group.note_times(generation, times);
        }
        group.refresh_startable(at.1);
        group.refresh_restarts(at.1, &self.draining, self.now);
        let event = changed.map(|run| event_of(group, at.1, &run, self.now));
        let dirt = self
            .journal
            .touch(lane, self.now, self.config.timing.commit_delay);
        dirt.blocks.insert((at.0, at.1.0 / BLOCK_SIZE));
        dirt.events.extend(event);
        self.picture.agenda.insert(at);
        self.picture.restless.insert(at.0);
        self.picture.unreported.insert(at.0);
        Some(result)
    }

    /// Changes a slice row: it is written with the next commit of its lane, and reported.
    pub(crate) fn edit_row<R>(&mut self, number: u32, change: impl FnOnce(&mut SliceRow) -> R) -> Option<R> {
        let group = self.picture.groups.get_mut(&number)?;
        let result = change(&mut group.row);
        let lane = group.row_lane;
        self.journal
            .touch(lane, self.now, self.config.timing.commit_delay)
            .rows
            .insert(number);
        self.picture.restless.insert(number);
        self.picture.unreported.insert(number);
        Some(result)
    }

    /// Gives a group other ranges and counts it by them: before it is adopted, too, or whoever asks meanwhile is told of numbers
    /// that are not ours.
    pub(crate) fn set_ranges(&mut self, number: u32, ranges: Vec<AssignedRange>) {
        self.edit_row(number, |row| row.ranges = ranges);
        if let Some(group) = self.picture.groups.get_mut(&number) {
            group.recount();
        }
    }

    /// Writes an event about an older run, which is not the face of its instance.
    pub(crate) fn note_older(&mut self, at: At, run: &Run) {
        let Some(group) = self.picture.groups.get_mut(&at.0) else {
            return;
        };
        let event = event_of(group, at.1, run, self.now);
        let lane = group.cell(at.1).lane;
        self.journal
            .touch(lane, self.now, self.config.timing.commit_delay)
            .events
            .push(event);
    }
}

fn tally_of(record: &InstanceRecord, held: bool, revision: u32) -> Tally {
    let mut tally = Tally::default();
    tally.add(record, held, revision);
    tally
}

fn event_of(group: &Group, n: InstanceNumber, run: &Run, now: Timestamp) -> Event {
    Event {
        job: group.job(),
        at: now,
        happened: run.since,
        instance: Some((group.name().clone(), n.0)),
        state: Some(run.state),
        reason: run.reason.clone(),
        hostname: Some(run.hostname.to_string()),
        task: Some(run.task_id(group.instance(n)).to_string()),
    }
}
