//! The loop: what the trace tells happens, the resource manager decides, storage and shards answer at once. Time goes on to the next
//! thing that happens; the resource manager's own clockwork is followed only while something may still come of it.

use crate::agenda::{Agenda, Happening};
use crate::jobs::{self, Submitted};
use crate::outcome::{ALL, Begun, Meter, Outcome};
use crate::running::{Running, Spans};
use crate::shard::{Change, Shard, SliceId};
use crate::store::{Store, cluster};
use crate::trace::{Group, Trace};
use echelon_core_model::pool::PoolTree;
use echelon_core_model::store::Stamp;
use echelon_core_model::{ClusterId, Span, Timestamp};
use echelon_core_resource_manager::{Config, Effect, Event, LinkId, ResourceManager};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use thiserror::Error;

/// The trace's time 0: before it the resource manager begins to lead.
const BEGIN: Span = Span::minutes(10);
/// Steps within which it leads.
const PATIENCE: u32 = 1_000;
/// How long after the last thing that happened something may come of waiting: a spill after 15 s, what is given out again after twice
/// that, and room that is made for who has waited for 30 s, perhaps elsewhere before.
const SETTLED: Span = Span::seconds(121);
/// The same where nobody waits: the cycles that store and tell what has happened.
const IDLE: Span = Span::seconds(1);
/// For what only leadership, silence and lost messages ask for: none of them is here.
const NOT_HERE: Span = Span(u64::MAX / 8);
/// Fewer than in production, where they are looked at for what storage and people are told, too; here they are to find who cannot
/// run where he is.
const TURNS: usize = 16;

/// Why a trace was not replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotReplayed {
    /// No resource manager began to lead.
    #[error("the resource manager does not begin: its clusters do not answer it")]
    NoLeader,
}

/// What would have come of a trace's demand under this tree, with the trace's capacity.
///
/// # Errors
/// See `NotReplayed`.
pub fn replay(trace: &Trace, tree: &PoolTree) -> Result<Outcome, NotReplayed> {
    let mut replay = Replay::new(trace, tree);
    replay.lead()?;
    replay.run();
    Ok(replay.outcome())
}

fn config() -> Config {
    let usual = Config::new("replay", 1);
    Config {
        lease: NOT_HERE,
        grant_lease: NOT_HERE,
        renew: NOT_HERE,
        heads_within: NOT_HERE,
        reread: NOT_HERE,
        silent_after: NOT_HERE,
        unreachable_after: NOT_HERE,
        progress_every: Span::ZERO,
        tombstones: NOT_HERE,
        turns: TURNS,
        ..usual
    }
}

struct Replay<'a> {
    trace: &'a Trace,
    manager: ResourceManager,
    store: Store<Submitted<'a>>,
    shards: Vec<Shard<'a>>,
    agenda: Agenda,
    now: Timestamp,
    todo: VecDeque<Event>,
    /// When something happened last.
    changed: Timestamp,
    /// Instances that were submitted and have not begun.
    waiting: u64,
    /// By job and group.
    begun: Vec<Vec<GroupState>>,
    running: Running,
    used: BTreeMap<&'a str, Meter>,
    /// Instances that were preempted, and the milliseconds that they ran in vain.
    preempted: BTreeMap<&'a str, (u64, u128)>,
    capacity: Meter,
}

/// How far a group is.
#[derive(Debug, Clone, Copy, Default)]
struct GroupState {
    begun: u64,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
}

/// A moment of the trace, in the replay's time.
fn moment(at: Timestamp) -> Timestamp {
    at.plus(BEGIN)
}

impl<'a> Replay<'a> {
    fn new(trace: &'a Trace, tree: &'a PoolTree) -> Self {
        let names: BTreeSet<&String> = trace.capacities.iter().map(|c| &c.cluster).collect();
        let names: Vec<String> = names.into_iter().cloned().collect();
        let mut agenda = Agenda::default();
        for change in &trace.capacities {
            if let Some(n) = names.iter().position(|name| *name == change.cluster) {
                agenda.add(moment(change.at), Happening::Capacity(n, change.capacity));
            }
        }
        for (n, job) in trace.jobs.iter().enumerate() {
            agenda.add(moment(job.submitted), Happening::Submit(n));
        }
        for (n, job) in trace.jobs.iter().enumerate() {
            if let Some(at) = job.stopped {
                agenda.add(moment(at), Happening::Stop(n));
            }
        }
        let groups = |job: &crate::trace::Job| vec![GroupState::default(); job.groups.len()];
        Self {
            trace,
            manager: ResourceManager::new(config()),
            store: Store::new(
                tree.clone(),
                names.iter().map(|name| cluster(name)).collect(),
                Submitted::new(trace),
            ),
            shards: names
                .iter()
                .map(|name| Shard::new(trace, ClusterId::new(name.as_str())))
                .collect(),
            agenda,
            now: Timestamp(1),
            todo: VecDeque::new(),
            changed: Timestamp(0),
            waiting: 0,
            begun: trace.jobs.iter().map(groups).collect(),
            running: Running::default(),
            used: BTreeMap::new(),
            preempted: BTreeMap::new(),
            capacity: Meter::default(),
        }
    }

    /// Until the resource manager leads and knows every shard.
    fn lead(&mut self) -> Result<(), NotReplayed> {
        self.todo.push_back(Event::Elected {
            published: Stamp::default(),
        });
        for _ in 0..PATIENCE {
            self.settle();
            let known = self.manager.picture().clusters.values();
            let open = known.filter(|c| c.takes_grants()).count();
            if self.manager.leading().is_some() && open == self.shards.len() {
                return Ok(());
            }
            self.now = self.now.plus(Span::millis(50));
            self.todo.push_back(Event::Wake);
        }
        Err(NotReplayed::NoLeader)
    }

    fn run(&mut self) {
        while let Some(at) = self.next() {
            self.now = at;
            while let Some(happening) = self.agenda.pop(at) {
                self.changed = at;
                self.happen(happening);
            }
            self.todo.push_back(Event::Wake);
            self.settle();
        }
    }

    fn next(&self) -> Option<Timestamp> {
        let patience = if self.waiting > 0 { SETTLED } else { IDLE };
        let soon = self.now.plus(Span::millis(1));
        let wake = self.manager.next_wake().map(|at| at.max(soon));
        let wake = wake.filter(|at| *at <= self.changed.plus(patience));
        self.agenda.next().into_iter().chain(wake).min()
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Capacity(n, capacity) => {
                let Some(shard) = self.shards.get_mut(n) else {
                    return;
                };
                let before = std::mem::replace(&mut shard.capacity, capacity);
                self.todo
                    .push_back(Event::Report(link(n), shard.tell_room(self.now)));
                let other = |sum: u64, kind| (sum + capacity.get(kind)).saturating_sub(before.get(kind));
                self.capacity
                    .change(self.now.min(moment(self.trace.until)), other);
            }
            Happening::Submit(n) => {
                self.store.jobs.submit();
                self.todo.push_back(Event::Hint(jobs::id(n)));
                let job = self.trace.jobs.get(n);
                let groups = job.into_iter().flat_map(|j| &j.groups);
                self.waiting += groups.map(|g| u64::from(g.instances)).sum::<u64>();
            }
            Happening::Stop(n) => {
                self.store.jobs.stop(n);
                self.todo.push_back(Event::Hint(jobs::id(n)));
                let groups = self.trace.jobs.get(n).into_iter().flat_map(|j| &j.groups);
                let states = self.begun.get(n).into_iter().flatten();
                for (group, state) in groups.zip(states) {
                    self.waiting = self
                        .waiting
                        .saturating_sub(u64::from(group.instances) - state.begun);
                }
                let again = self.running.forget(jobs::id(n));
                self.waiting = self.waiting.saturating_sub(again);
            }
            Happening::End(n, id, batch) => {
                let mut done = Vec::new();
                let count = self.running.end(n, &id, batch);
                let ended = self.shards.get_mut(n).map_or(0, |s| s.end(&id, count, &mut done));
                self.meter(&id, |now, shape| now.saturating_sub(shape * ended));
                done.into_iter().for_each(|change| self.note(n, change));
            }
        }
    }

    /// Until nothing more follows at this moment.
    fn settle(&mut self) {
        let mut out = Vec::new();
        loop {
            while let Some(event) = self.todo.pop_front() {
                self.manager.step(event, self.now, &mut out);
                for effect in out.drain(..) {
                    self.perform(effect);
                }
            }
            for (n, shard) in self.shards.iter_mut().enumerate() {
                let told = shard.tell().into_iter();
                self.todo
                    .extend(told.map(|report| Event::Report(link(n), report)));
            }
            if self.todo.is_empty() {
                return;
            }
        }
    }
}

impl<'a> Replay<'a> {
    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Storage(id, op) => self.todo.push_back(Event::Storage(id, self.store.perform(op))),
            Effect::Watch(cluster) => {
                let found = self.shards.iter().position(|s| s.cluster == cluster);
                self.todo.extend(found.map(|n| Event::ShardOpened {
                    cluster,
                    link: link(n),
                }));
            }
            Effect::Send(to, directive) => {
                let mut done = Vec::new();
                let n = number(to);
                let said = self.shards.get_mut(n);
                let said = said.map(|s| s.obey(directive, self.now, &mut done));
                let said = said.unwrap_or_default().into_iter();
                self.todo.extend(said.map(|report| Event::Report(to, report)));
                for change in done {
                    self.changed = self.now;
                    self.note(n, change);
                }
            }
            _ => {}
        }
    }

    /// What a shard has done is counted, and what it has begun is going to end.
    fn note(&mut self, shard: usize, change: Change) {
        match change {
            Change::Stopped(id, n) => {
                self.running.stop(shard, &id);
                self.meter(&id, |now, shape| now.saturating_sub(shape * n));
            }
            Change::Preempted(id, n) => {
                let lost = self.running.preempt(shard, &id, n, self.now);
                self.waiting += n;
                self.meter(&id, |now, shape| now.saturating_sub(shape * n));
                let job = self.trace.jobs.get(jobs::number(id.0));
                for path in job.iter().flat_map(|j| [ALL, j.pool.as_str()]) {
                    let sum = self.preempted.entry(path).or_default();
                    *sum = (sum.0 + n, sum.1 + lost);
                }
            }
            Change::Begun(id, n) => self.note_begun(shard, &id, n),
        }
    }

    /// Those that were preempted begin again first; the others for the first time.
    fn note_begun(&mut self, shard: usize, id: &SliceId, n: u64) {
        self.meter(id, |now, shape| now + shape * n);
        let Some((group, state)) = self.group(id) else {
            return;
        };
        let mut begun = self.running.take_again(id, n);
        let fresh = n.saturating_sub(begun.iter().map(|(_, count)| count).sum());
        begun.extend(ends(group, state.begun, fresh));
        let now = self.now;
        if let Some(state) = self.state(id).filter(|_| fresh > 0) {
            state.begun += fresh;
            state.first = state.first.or(Some(now));
            state.last = (state.begun >= u64::from(group.instances)).then_some(now);
        }
        self.waiting = self.waiting.saturating_sub(n);
        for (span, count) in begun {
            let batch = self.running.begin(shard, id, now, (span, count));
            if let Some(span) = span {
                let end = Happening::End(shard, id.clone(), batch);
                self.agenda.add(now.plus(span), end);
            }
        }
    }

    fn group(&self, (job, group, _): &SliceId) -> Option<(&'a Group, GroupState)> {
        let n = jobs::number(*job);
        let groups = &self.trace.jobs.get(n)?.groups;
        let at = groups.iter().position(|g| g.name == group.as_str())?;
        Some((groups.get(at)?, *self.begun.get(n)?.get(at)?))
    }

    fn state(&mut self, (job, group, _): &SliceId) -> Option<&mut GroupState> {
        let n = jobs::number(*job);
        let groups = &self.trace.jobs.get(n)?.groups;
        let at = groups.iter().position(|g| g.name == group.as_str())?;
        self.begun.get_mut(n)?.get_mut(at)
    }

    /// What runs of a slice's pool is something else from now on.
    fn meter(&mut self, id: &SliceId, change: impl Fn(u64, u64) -> u64) {
        let Some((group, _)) = self.group(id) else { return };
        let Some(job) = self.trace.jobs.get(jobs::number(id.0)) else {
            return;
        };
        let now = self.now.min(moment(self.trace.until));
        for path in [ALL, job.pool.as_str()] {
            let meter = self.used.entry(path).or_default();
            meter.change(now, |sum, kind| change(sum, group.shape.get(kind)));
        }
    }

    fn outcome(&self) -> Outcome {
        let begun: Vec<Begun> = self.begun.iter().map(|groups| begun(groups)).collect();
        let until = moment(self.trace.until);
        let mut out = Outcome {
            capacity: self.capacity.sum(until),
            ..Outcome::default()
        };
        out.add_waits(self.trace, &begun);
        for (path, meter) in &self.used {
            out.pools.entry((*path).to_owned()).or_default().used = meter.sum(until);
        }
        for (path, (n, lost)) in &self.preempted {
            let pool = out.pools.entry((*path).to_owned()).or_default();
            (pool.preempted, pool.lost) = (*n, *lost);
        }
        out
    }
}

const fn link(shard: usize) -> LinkId {
    LinkId(shard as u64)
}

fn number(link: LinkId) -> usize {
    usize::try_from(link.0).unwrap_or(usize::MAX)
}

/// How long the next `n` instances of a group run, after those that have begun `before`; those that the trace does not tell of run until
/// they are stopped.
fn ends(group: &Group, before: u64, n: u64) -> Vec<Spans> {
    let (mut skip, mut left) = (before, n);
    let mut out = Vec::new();
    for runs in &group.runs {
        let count = u64::from(runs.count);
        let here = count.saturating_sub(skip).min(left);
        skip = skip.saturating_sub(count);
        left -= here;
        out.extend((here > 0).then_some((Some(runs.span), here)));
    }
    out.extend((left > 0).then_some((None, left)));
    out
}

/// When a job's instances began, in the trace's time.
fn begun(groups: &[GroupState]) -> Begun {
    let told = |at: Timestamp| Timestamp(at.since(Timestamp(BEGIN.0)).0);
    let last: Option<Vec<Timestamp>> = groups.iter().map(|g| g.last).collect();
    Begun {
        first: groups.iter().filter_map(|g| g.first).min().map(told),
        last: last.and_then(|all| all.into_iter().max()).map(told),
    }
}
