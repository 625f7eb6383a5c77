//! What must never be, looked at after each step. The truth is taken from where it is: from the
//! agents' own tasks, from what storage holds, and from what users were told.

use crate::backups::done_while_behind;
use crate::drains::drained_too_early;
use crate::gangs::launched_without_its_gang;
use crate::host_pools::launched_in_other_pool;
use crate::process::Who;
use crate::rules::launched_too_early;
use crate::world::World;
use echelon_core_hosts::{Call, Launch, Reserved, TaskState, TaskStatus};
use echelon_core_model::instance::{BlockKey, InstanceRecord, Run};
use echelon_core_model::job::Desired;
use echelon_core_model::spec::JobKind;
use echelon_core_model::store::{Answer, Query};
use echelon_core_model::volume::VolumeWish;
use echelon_core_model::{ClusterId, InstanceId, Kind, MemberId, RunState, Span, TaskId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// An older run that is just back may live this long beside the newer one.
const SETTLE: Span = Span::minutes(2);
/// All sets of a shard are looked at with each so manieth step of the world, and at its end.
const SETS_EVERY: u64 = 64;

/// A broken invariant, with its number in ARCHITECTURE.md.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The number.
    pub invariant: u8,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invariant {}: {}", self.invariant, self.what)
    }
}

/// What the world remembers to judge by.
#[derive(Debug, Default)]
pub struct Facts {
    /// State that each update told, by its uuid.
    updates: BTreeMap<[u8; 16], (String, TaskState)>,
    /// Agents that were away, and when they came back.
    away: BTreeMap<String, Option<Timestamp>>,
    /// When each of them fell silent last.
    lost_at: BTreeMap<String, Timestamp>,
    /// Instances of batch jobs of which a run is stored as succeeded and acknowledged, with that run.
    finished: BTreeMap<InstanceId, TaskId>,
}

/// What a step may have changed, and so is to be judged after it.
#[derive(Debug, Clone, Default)]
pub struct Touched {
    /// Which tasks live, or whether their agents are excused.
    pub runs: bool,
    /// Processes whose drivers took a step.
    pub processes: BTreeSet<Who>,
}

impl Facts {
    /// An update is on its way to a shard.
    pub fn told(&mut self, status: &TaskStatus) {
        if let Some(uuid) = status.uuid {
            self.updates.insert(uuid, (status.task.clone(), status.state));
        }
    }

    /// An agent fell silent.
    pub fn agent_lost(&mut self, agent: &str, now: Timestamp) {
        self.away.insert(agent.to_owned(), None);
        self.lost_at.insert(agent.to_owned(), now);
    }

    /// It is back.
    pub fn agent_back(&mut self, agent: &str, now: Timestamp) {
        self.away.insert(agent.to_owned(), Some(now));
    }

    /// Since when an agent is away; `None`: it is there.
    pub(crate) fn away_since(&self, agent: &str) -> Option<Timestamp> {
        let is_away = self.away.get(agent).is_some_and(Option::is_none);
        self.lost_at.get(agent).copied().filter(|_| is_away)
    }

    /// Whether an agent is away, or ever was.
    pub(crate) fn was_away(&self, agent: &str) -> bool {
        self.away.contains_key(agent)
    }

    /// Whether what runs on an agent is excused: it is away, or just back.
    pub(crate) fn excused(&self, agent: &str, now: Timestamp) -> bool {
        match self.away.get(agent) {
            None => false,
            Some(None) => true,
            Some(Some(back)) => now.since(*back) < SETTLE,
        }
    }

    /// A call has reached a master: was it allowed to be made?
    pub fn judge_call(world: &mut World, cluster: usize, call: &Call) {
        let id = world.cluster_id(cluster);
        let wrong = match call {
            Call::Accept { host, launches, .. } => launches.iter().find_map(|l| {
                launched_without_intent(world, &id, &l.task)
                    .or_else(|| launched_without_its_gang(world, &id, &l.task))
                    .or_else(|| launched_too_early(world, &l.task))
                    .or_else(|| launched_on_wrong_room(world, l))
                    .or_else(|| launched_after_success(world, &l.task))
                    .or_else(|| launched_in_other_pool(world, (&id, host), l))
                    .or_else(|| wrong_volume(world, &id, l))
            }),
            Call::Discard { reserved, .. } => reserved
                .iter()
                .find_map(|r| destroyed_without_wish(world, &id, r)),
            Call::Acknowledge { task, uuid, .. } => {
                let wrong = acknowledged_too_early(world, &id, task, uuid);
                note_finished(world, &id, task, uuid);
                wrong
            }
            Call::DrainAgent { host } => drained_too_early(world, cluster, host),
            Call::Kill { task, .. } => {
                world.judge_stop(task);
                killed_without_evidence(world, &id, task)
            }
            _ => None,
        };
        world.broken.extend(wrong);
        world.note_pressure(&id, call);
        let behind = done_while_behind(world, call);
        world.broken.extend(behind);
    }
}

impl World {
    /// Storage was put back: what succeeded and is not stored runs again.
    pub(crate) fn forget_unstored_ends(&mut self) {
        let finished = std::mem::take(&mut self.facts.finished);
        let ids: Vec<ClusterId> = self.clusters.iter().map(|c| c.id.clone()).collect();
        let is_stored = |instance: &InstanceId, task: &TaskId| {
            let records = ids.iter().filter_map(|id| stored(self, id, instance));
            let mut runs = records.filter_map(|r| stored_run(&r, task));
            runs.any(|run| run.state == RunState::Succeeded)
        };
        let kept = finished
            .into_iter()
            .filter(|(instance, task)| is_stored(instance, task));
        let kept = kept.collect();
        self.facts.finished = kept;
    }
}

pub(crate) fn stored(world: &World, cluster: &ClusterId, instance: &InstanceId) -> Option<InstanceRecord> {
    let key = BlockKey::of(instance.job, &instance.group, instance.number);
    let query = Query::GroupBlocks {
        cluster: cluster.clone(),
        job: instance.job,
        group: instance.group.clone(),
        first: key.number,
        last: key.number,
    };
    match world.store.read(&query) {
        Answer::Blocks(blocks, _) => blocks
            .into_iter()
            .find_map(|mut b| b.instances.remove(&instance.number)),
        _ => None,
    }
}

pub(crate) fn stored_run(record: &InstanceRecord, task: &TaskId) -> Option<Run> {
    let same = |r: &&Run| r.generation == task.generation && r.number == task.run;
    record.run.iter().chain(&record.older).find(same).cloned()
}

/// Whether storage knows a run of the instance that came after the task's.
fn superseded(record: &InstanceRecord, task: &TaskId) -> bool {
    let newer = |r: &Run| (r.generation, r.number) > (task.generation, task.run);
    record.generation > task.generation || record.run.as_ref().is_some_and(newer)
}

fn launched_without_intent(world: &World, cluster: &ClusterId, task: &TaskId) -> Option<Broken> {
    let record = stored(world, cluster, &task.instance);
    let known = record.is_some_and(|r| stored_run(&r, task).is_some() || superseded(&r, task));
    (!known).then(|| Broken {
        invariant: 5,
        what: format!("ACCEPT of {task} without a stored intent"),
    })
}

/// Keeps in mind that an instance of a batch job has succeeded: storage says so, and Mesos is told that it does.
fn note_finished(world: &mut World, cluster: &ClusterId, task: &str, uuid: &[u8; 16]) {
    let finished = world
        .facts
        .updates
        .get(uuid)
        .is_some_and(|(_, state)| *state == TaskState::Finished);
    let Ok(MemberId {
        run: task,
        sidecar: None,
    }) = task.parse()
    else {
        return;
    };
    let run = stored(world, cluster, &task.instance).and_then(|r| r.run);
    let is_it = |r: &Run| (r.generation, r.number) == (task.generation, task.run);
    let succeeded = run.is_some_and(|r| is_it(&r) && r.state == RunState::Succeeded);
    if finished && succeeded && ends_with_success(world, &task) {
        world.facts.finished.insert(task.instance.clone(), task);
    }
}

/// Whether nothing follows the success of an instance: not of what is to run for ever, nor of a gang that is tried as a whole.
fn ends_with_success(world: &World, task: &TaskId) -> bool {
    let Some((_, spec)) = world.head_and_spec(task.instance.job) else {
        return false;
    };
    let group = spec.group(&task.instance.group);
    let once = group.is_some_and(|g| !g.runs_for_ever(spec.kind));
    let tried_whole = spec.gang.as_ref().is_some_and(|g| g.on_failure.is_of_all());
    spec.kind == JobKind::Batch && once && !tried_whole
}

/// Invariant 26: a finished batch instance is not launched again.
fn launched_after_success(world: &World, task: &TaskId) -> Option<Broken> {
    let finished = world.facts.finished.get(&task.instance)?;
    let later = (task.generation, task.run) > (finished.generation, finished.run);
    (later && ends_with_success(world, task)).then(|| Broken {
        invariant: 26,
        what: format!("{task} is launched after {finished} has succeeded"),
    })
}

/// Ordinary work never runs on lent room, revocable work takes its processor time from nowhere else, and no kind comes from both.
fn launched_on_wrong_room(world: &World, launch: &Launch) -> Option<Broken> {
    let job = launch.task.instance.job;
    let Answer::Head(Some(head)) = world.store.read(&Query::Head(job)) else {
        return None;
    };
    let Answer::Spec(Some(spec)) = world.store.read(&Query::Spec(job, head.spec_version)) else {
        return None;
    };
    let (all, lent) = (launch.room_of_tasks(), launch.revocable);
    let apart = Kind::ALL
        .into_iter()
        .all(|kind| lent.get(kind) == 0 || lent.get(kind) == all.get(kind));
    let right = if spec.revocable {
        apart && lent.cpus == all.cpus
    } else {
        lent.is_zero()
    };
    (!right).then(|| Broken {
        invariant: 4,
        what: format!("ACCEPT of {} takes {lent} of lent room for {all}", launch.task),
    })
}

/// A volume that something may have been written to is never made anew, and no run has another one than its instance.
fn wrong_volume(world: &World, cluster: &ClusterId, launch: &Launch) -> Option<Broken> {
    let record = stored(world, cluster, &launch.task.instance)?;
    if superseded(&record, &launch.task) {
        return None;
    }
    let volume = launch.volume.as_ref()?;
    let held = record.volume.as_ref();
    let anew = volume.offered.as_ref().is_none_or(|r| r.volume.is_none());
    let wrong = held.is_none_or(|h| h.id != volume.id || (h.used && anew));
    wrong.then(|| Broken {
        invariant: 11,
        what: format!(
            "{} is launched with {volume:?} while it holds {held:?}",
            launch.task
        ),
    })
}

fn destroyed_without_wish(world: &World, cluster: &ClusterId, reserved: &Reserved) -> Option<Broken> {
    let volume = reserved.volume.as_ref()?;
    let wished = match world.store.read(&Query::Shard(cluster.clone())) {
        Answer::Shard(row) => row.volumes.get(&volume.id) == Some(&VolumeWish::Destroy),
        _ => false,
    };
    (!wished).then(|| Broken {
        invariant: 11,
        what: format!("volume {} is destroyed without a stored wish", volume.id),
    })
}

fn acknowledged_too_early(world: &World, cluster: &ClusterId, task: &str, uuid: &[u8; 16]) -> Option<Broken> {
    let (_, told) = world.facts.updates.get(uuid)?;
    let MemberId { run: task, sidecar } = task.parse().ok()?;
    let record = stored(world, cluster, &task.instance)?;
    if superseded(&record, &task) {
        return None;
    }
    let run = stored_run(&record, &task)?;
    let member = run.members.iter().find(|m| m.sidecar == sidecar);
    let state = member.map_or(run.state, |m| m.state);
    let reflected = if told.is_proof_of_death() {
        state.is_ended()
    } else {
        state != RunState::Launching
    };
    (!reflected).then(|| Broken {
        invariant: 5,
        what: format!("ACKNOWLEDGE of {told:?} for {task} while storage says {state}"),
    })
}

fn killed_without_evidence(world: &World, cluster: &ClusterId, task: &str) -> Option<Broken> {
    let wrong = |why: &str| {
        Some(Broken {
            invariant: 7,
            what: format!("KILL of {task}: {why}"),
        })
    };
    let Ok(MemberId { run: task, .. }) = task.parse() else {
        return wrong("not our naming");
    };
    let head = match world.store.read(&Query::Head(task.instance.job)) {
        Answer::Head(head) => head,
        _ => None,
    };
    if head.is_some_and(|h| h.goal.desired != Desired::Running) || moved_away(world, cluster, &task) {
        return None;
    }
    let Some(record) = stored(world, cluster, &task.instance) else {
        return wrong("no record of its instance");
    };
    match stored_run(&record, &task) {
        Some(run) if run.stopping.is_some() => None,
        // One of its members ended it, and perhaps the others have ended meanwhile, too.
        Some(run) if run.ending.is_some() || (!run.members.is_empty() && run.state.is_ended()) => None,
        Some(run) if run.state == RunState::Lost => None,
        None if superseded(&record, &task) => None,
        Some(run) => wrong(&format!("storage says {} and no wish to stop", run.state)),
        None => wrong("storage does not know this run"),
    }
}

fn moved_away(world: &World, cluster: &ClusterId, task: &TaskId) -> bool {
    let Answer::Assignments(_, all) = world.store.read(&Query::Assignment(task.instance.job)) else {
        return false;
    };
    let mut ranges = all.iter().flat_map(|a| a.ranges(&task.instance.group));
    match ranges.find(|r| r.range.contains(task.instance.number)) {
        None => true,
        Some(r) => r.cluster != *cluster || r.generation > task.generation || r.releasing.is_some(),
    }
}

impl World {
    /// After a step: looks at what it may have changed.
    pub(crate) fn judge_step(&mut self) {
        let touched = std::mem::take(&mut self.touched);
        if touched.runs {
            self.note_runs();
            self.judge_double_runs();
            self.judge_hosts();
            self.judge_bounds();
        }
        if touched.processes.iter().any(|w| matches!(w, Who::Shard { .. })) {
            self.judge_parts();
        }
        for who in touched.processes {
            match who {
                Who::Manager(index) => self.judge_manager(index),
                Who::Shard { cluster, index } => self.judge_shard(cluster, index),
            }
        }
    }

    /// Invariant 4, in the end: all sets of all shards.
    pub(crate) fn judge_sets(&mut self) {
        for c in &self.clusters {
            let shards = c.shards.iter().filter_map(|p| p.driver.as_ref());
            let found = shards.flat_map(echelon_core_shard::check_sets);
            self.broken.extend(found.map(|b| Broken {
                invariant: 4,
                what: format!("{}: {b}", c.id),
            }));
        }
    }

    fn judge_shard(&mut self, cluster: usize, index: usize) {
        let Some(c) = self.clusters.get(cluster) else {
            return;
        };
        if let Some(shard) = c.shards.get(index).and_then(|p| p.driver.as_ref()) {
            let mut found = echelon_core_shard::check(shard);
            if self.steps.is_multiple_of(SETS_EVERY) {
                found.extend(echelon_core_shard::check_sets(shard));
            }
            self.broken.extend(found.into_iter().map(|b| Broken {
                invariant: 4,
                what: format!("{}: {b}", c.id),
            }));
        }
    }

    /// What a resource manager knows is looked at when it has changed: the checker makes all sums anew.
    fn judge_manager(&mut self, index: usize) {
        let Some(process) = self.managers.get(index) else {
            return;
        };
        if let Some(manager) = process.driver.as_ref() {
            let seen = (process.life, manager.picture().revision);
            if self.judged.insert(index, seen) == Some(seen) {
                return;
            }
            let found = echelon_core_resource_manager::check(manager.picture(), manager.last_cycle());
            self.broken.extend(found.into_iter().map(|b| Broken {
                invariant: 4,
                what: format!("resource manager: {b}"),
            }));
            if self.options.pressure {
                self.judge_grants(index);
            }
        }
    }

    /// Invariant 4: no host's own or lent room is given out twice.
    fn judge_hosts(&mut self) {
        for c in &self.clusters {
            let over = c.mesos.over_committed().map(|agent| Broken {
                invariant: 4,
                what: format!("{}: agent {agent} is over-committed", c.id),
            });
            self.broken.extend(over);
        }
    }

    /// Invariant 1: no two live runs of an instance, unless all but one are on agents that are or were just away, or at a cluster that
    /// is or was just lost to its job. A run of which tasks are on two hosts is two.
    fn judge_double_runs(&mut self) {
        if self.settles_after_resume() {
            return;
        }
        let mut live: BTreeMap<InstanceId, BTreeSet<(TaskId, String)>> = BTreeMap::new();
        for c in &self.clusters {
            for (agent, task) in c.mesos.live_tasks() {
                if let Ok(MemberId { run, .. }) = task.as_str().parse() {
                    live.entry(run.instance.clone())
                        .or_default()
                        .insert((run, agent.as_str().to_owned()));
                }
            }
        }
        for (instance, runs) in live.into_iter().filter(|(_, runs)| runs.len() > 1) {
            let inexcusable = runs
                .iter()
                .filter(|(_, agent)| {
                    !self.facts.excused(agent, self.now)
                        && !self.is_lost_to(&instance, agent)
                        && !self.is_gone_to(&instance, agent)
                })
                .count();
            if inexcusable > 1 {
                let what = format!("{instance} has {} live runs: {runs:?}", runs.len());
                self.broken.push(Broken { invariant: 1, what });
            }
        }
    }
}
