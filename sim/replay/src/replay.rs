//! The loop: what the trace states happens, the resource manager decides, storage and shards answer after
//! their delays. Time goes on to the next thing that happens; the resource manager's own timers are followed
//! only while something may still come of it.

use crate::agenda::{Agenda, Happening};
use crate::allowed::allowed;
use crate::counts::{Counter, count};
use crate::delays::Delays;
use crate::jobs::{self, Submitted};
use crate::outcome::{ALL, Begun, Meter, Outcome, Work};
use crate::running::{Running, Spans};
use crate::series::Series;
use crate::shard::{Change, OnHost, Shard, SliceId};
use crate::store::{Store, cluster};
use crate::trace::{Group, Trace};
use echelon_core_model::pool::PoolTree;
use echelon_core_model::resources::Kind;
use echelon_core_model::store::Stamp;
use echelon_core_model::{ClusterId, HostId, Resources, Span, Timestamp};
use echelon_core_resource_manager::{Config, Effect, Event, LinkId, ResourceManager};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use thiserror::Error;

/// The trace's time 0: before it the resource manager begins to lead.
const BEGIN: Span = Span::minutes(10);
/// How long after the last thing that happened something may come of waiting: a return after 15 s, another
/// try at that cluster after twice that, and preemption for what has waited for 30 s.
const SETTLED: Span = Span::seconds(121);
/// The same where nothing waits: the cycles that store and order what has happened.
const IDLE: Span = Span::seconds(2);
/// For what only leadership, silence and lost messages ask for: none of them is here.
const NOT_HERE: Span = Span(u64::MAX / 8);
/// Fewer than in production, where they are looked at for what storage and people read, too; here they are to
/// find what cannot run where it is.
const TURNS: usize = 16;
/// How often the resource manager's footprint is looked at.
const LOOK: Span = Span::minutes(1);

/// Why a trace was not replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotReplayed {
    /// No resource manager began to lead.
    #[error("the resource manager does not begin: its clusters do not answer it")]
    NoLeader,
}

/// Calls a step of the resource manager, once: a caller may time it.
pub type Around<'a> = &'a mut dyn FnMut(&mut dyn FnMut());

/// What would have come of a trace's demand under this tree, with the trace's capacity.
///
/// # Errors
/// See `NotReplayed`.
pub fn replay(trace: &Trace, tree: &PoolTree, delays: Delays) -> Result<Outcome, NotReplayed> {
    replay_around(trace, tree, delays, &mut |step| step())
}

/// The same; each step of the resource manager is called by `around`.
///
/// # Errors
/// See `NotReplayed`.
pub fn replay_around(
    trace: &Trace,
    tree: &PoolTree,
    delays: Delays,
    around: Around,
) -> Result<Outcome, NotReplayed> {
    let mut replay = Replay::new(trace, tree, delays, around);
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
        heartbeats: NOT_HERE,
        lost_after: NOT_HERE,
        tombstones: NOT_HERE,
        turns: TURNS,
        ..usual
    }
}

struct Replay<'a, 'b> {
    trace: &'a Trace,
    delays: Delays,
    around: Around<'b>,
    manager: ResourceManager,
    store: Store<Submitted<'a>>,
    shards: Vec<Shard<'a>>,
    /// Shards with a report that is due at a known time.
    reporting: BTreeSet<usize>,
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
    used: BTreeMap<&'a str, Used>,
    /// Instances that were preempted, and the milliseconds that they ran in vain.
    preempted: BTreeMap<&'a str, (u64, u128)>,
    capacity: Meter,
    /// What each cluster has, by number.
    there: BTreeMap<usize, Resources>,
    counter: Counter,
    looked: Timestamp,
    /// Instances that ran, times milliseconds; and what of that and of each kind was in vain, as far as the
    /// trace goes.
    ran: u128,
    active: (u64, Timestamp),
    in_vain: (u128, [u128; 4]),
}

/// What ran of a pool: the sum over time, and by second.
#[derive(Debug, Default)]
struct Used {
    meter: Meter,
    series: [Series; 4],
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

/// A moment of the replay, in the trace's time.
fn traced(at: Timestamp) -> Timestamp {
    Timestamp(at.since(Timestamp(BEGIN.0)).0)
}

impl<'a, 'b> Replay<'a, 'b> {
    fn new(trace: &'a Trace, tree: &'a PoolTree, delays: Delays, around: Around<'b>) -> Self {
        let names: BTreeSet<&String> = trace.capacities.iter().map(|c| &c.cluster).collect();
        let names: Vec<String> = names.into_iter().cloned().collect();
        let mut agenda = Agenda::default();
        for (at_change, change) in trace.capacities.iter().enumerate() {
            if let Some(n) = names.iter().position(|name| *name == change.cluster) {
                // What is there from the beginning is known to the resource manager before the first job
                // comes.
                let at = if change.at == Timestamp(0) {
                    Timestamp(1)
                } else {
                    moment(change.at)
                };
                agenda.add(at, Happening::Capacity(n, at_change));
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
            delays,
            around,
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
            reporting: BTreeSet::new(),
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
            there: BTreeMap::new(),
            counter: Counter::default(),
            looked: Timestamp(0),
            ran: 0,
            active: (0, Timestamp(0)),
            in_vain: (0, [0; 4]),
        }
    }

    /// Until the resource manager leads and knows every shard, which is before the trace begins.
    fn lead(&mut self) -> Result<(), NotReplayed> {
        self.todo.push_back(Event::Elected {
            published: Stamp::default(),
        });
        self.settle();
        loop {
            let known = self.manager.picture().facts.clusters.values();
            let open = known.filter(|c| c.takes_grants()).count();
            if self.manager.leading().is_some() && open == self.shards.len() {
                self.counter = Counter::default();
                return Ok(());
            }
            let next = self.agenda.next().into_iter().chain(self.next_wake()).min();
            let Some(at) = next.filter(|at| *at < moment(Timestamp(0))) else {
                return Err(NotReplayed::NoLeader);
            };
            self.go_to(at);
        }
    }

    fn run(&mut self) {
        while let Some(at) = self.next() {
            self.go_to(at);
            if self.now.since(self.looked) >= LOOK {
                self.looked = self.now;
                let held = count(self.manager.footprint().values().sum());
                let peak = &mut self.counter.sums.peak_held;
                *peak = (*peak).max(held);
            }
        }
    }

    /// Does all that happens at a moment.
    fn go_to(&mut self, at: Timestamp) {
        self.now = at;
        while let Some(happening) = self.agenda.pop(at) {
            self.happen(happening);
        }
        if self.manager.next_wake().is_some_and(|wake| wake <= at) {
            self.todo.push_back(Event::Wake);
        }
        self.settle();
        let peak = &mut self.counter.sums.peak_waiting;
        *peak = (*peak).max(self.waiting);
    }

    fn next_wake(&self) -> Option<Timestamp> {
        let soon = self.now.plus(Span::millis(1));
        self.manager.next_wake().map(|at| at.max(soon))
    }

    fn next(&self) -> Option<Timestamp> {
        let patience = if self.waiting > 0 { SETTLED } else { IDLE };
        let wake = self.next_wake();
        let wake = wake.filter(|at| *at <= self.changed.plus(patience));
        self.agenda.next().into_iter().chain(wake).min()
    }

    fn happen(&mut self, happening: Happening) {
        let is_message = matches!(
            happening,
            Happening::Answer(..) | Happening::Directive(..) | Happening::Report(_)
        );
        if !is_message {
            self.changed = self.now;
        }
        match happening {
            Happening::Capacity(n, change) => self.change_capacity(n, change),
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
                let ended = self.running.end(n, &id, batch).map(|b| OnHost {
                    host: b.host,
                    began: b.began,
                    count: b.count,
                });
                let now = self.now;
                let shard = self.shards.get_mut(n);
                let ended = shard.zip(ended);
                let ended = ended.map_or(0, |(s, batch)| s.end(&id, &batch, now, &mut done));
                self.meter(&id, |now, one| now.saturating_sub(one * ended));
                self.note_all(n, done);
            }
            Happening::Answer(id, result) => self.todo.push_back(Event::Storage(id, *result)),
            Happening::Directive(n, directive) => {
                let mut done = Vec::new();
                if let Some(shard) = self.shards.get_mut(n) {
                    shard.obey(*directive, self.now, &mut done);
                }
                self.note_all(n, done);
            }
            Happening::Report(n) => {
                self.reporting.remove(&n);
                let reports = self.shards.get_mut(n).map(|s| s.report());
                for report in reports.into_iter().flatten() {
                    self.counter.report(&report);
                    self.todo.push_back(Event::Report(link(n), report));
                }
            }
        }
    }

    fn change_capacity(&mut self, n: usize, change: usize) {
        let mut done = Vec::new();
        let (Some(shard), Some(change)) = (self.shards.get_mut(n), self.trace.capacities.get(change)) else {
            return;
        };
        shard.set_capacity(&change.capacity, self.now, &mut done);
        let to = change.capacity.sum();
        let before = self.there.insert(n, to).unwrap_or_default();
        let other = |sum: u64, kind| sum.saturating_add(to.get(kind)).saturating_sub(before.get(kind));
        let begin = moment(Timestamp(0));
        let at = self.now.max(begin).min(moment(self.trace.until));
        self.capacity.change(at, other);
        self.note_all(n, done);
    }

    /// Until nothing more follows at this moment.
    fn settle(&mut self) {
        let mut out = Vec::new();
        while let Some(event) = self.todo.pop_front() {
            let mut event = Some(event);
            let (manager, now) = (&mut self.manager, self.now);
            (self.around)(&mut || {
                if let Some(event) = event.take() {
                    manager.step(event, now, &mut out);
                }
            });
            for effect in out.drain(..) {
                self.perform(effect);
            }
        }
        for (n, shard) in self.shards.iter().enumerate() {
            if shard.has_news() && self.reporting.insert(n) {
                let at = self.now.plus(self.delays.report);
                self.agenda.add(at, Happening::Report(n));
            }
        }
    }
}

impl<'a> Replay<'a, '_> {
    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Storage(id, op) => {
                self.counter.operation(&op);
                let result = Box::new(self.store.perform(op));
                let at = self.now.plus(self.delays.storage);
                self.agenda.add(at, Happening::Answer(id, result));
            }
            Effect::Watch(cluster) => {
                let found = self.shards.iter().position(|s| s.cluster == cluster);
                self.todo.extend(found.map(|n| Event::ShardOpened {
                    cluster,
                    link: link(n),
                }));
            }
            Effect::Send(to, directive) => {
                self.counter.directive(&directive);
                let at = self.now.plus(self.delays.order);
                self.agenda
                    .add(at, Happening::Directive(number(to), Box::new(directive)));
            }
            _ => {}
        }
    }

    fn note_all(&mut self, shard: usize, done: Vec<Change>) {
        for change in done {
            self.changed = self.now;
            self.note(shard, change);
        }
    }

    /// What a shard has done is counted, and what it has begun is going to end.
    fn note(&mut self, shard: usize, change: Change) {
        match change {
            Change::Stopped(id, n) => {
                self.running.stop(shard, &id);
                self.meter(&id, |now, one| now.saturating_sub(one * n));
            }
            Change::Preempted(id, host, n) => {
                let lost = self.running.preempt(shard, &id, &host, n);
                self.waiting += n;
                self.meter(&id, |now, one| now.saturating_sub(one * n));
                let until = moment(self.trace.until);
                let in_vain = lost
                    .iter()
                    .map(|(began, n)| u128::from(*n) * u128::from(self.now.min(until).since(*began).0));
                let in_vain: u128 = in_vain.sum();
                self.in_vain.0 += in_vain;
                if let Some((group, _)) = self.group(&id) {
                    for (sum, kind) in self.in_vain.1.iter_mut().zip(Kind::ALL) {
                        *sum += in_vain * u128::from(group.shape.get(kind));
                    }
                }
                let ran =
                    |(began, n): &(Timestamp, u64)| u128::from(*n) * u128::from(self.now.since(*began).0);
                let lost: u128 = lost.iter().map(ran).sum();
                let job = self.trace.jobs.get(jobs::number(id.0));
                for path in job.iter().flat_map(|j| [ALL, j.pool.as_str()]) {
                    let sum = self.preempted.entry(path).or_default();
                    *sum = (sum.0 + n, sum.1 + lost);
                }
            }
            Change::Begun(id, host, n) => self.note_begun(shard, &id, &host, n),
        }
    }

    /// Those that were preempted begin again first; the others for the first time.
    fn note_begun(&mut self, shard: usize, id: &SliceId, host: &HostId, n: u64) {
        self.counter.sums.starts += n;
        self.meter(id, |now, one| now + one * n);
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
            let batch = self.running.begin(shard, id, (host, now), (span, count));
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

    /// What runs of a slice's pool is something else from now on: `change` makes it of what ran and of one
    /// instance's amount.
    fn meter(&mut self, id: &SliceId, change: impl Fn(u64, u64) -> u64) {
        let Some((group, _)) = self.group(id) else { return };
        let Some(job) = self.trace.jobs.get(jobs::number(id.0)) else {
            return;
        };
        let now = self.now.min(moment(self.trace.until));
        self.ran += u128::from(self.active.0) * u128::from(now.since(self.active.1).0);
        self.active = (change(self.active.0, 1), now);
        for path in [ALL, job.pool.as_str()] {
            let used = self.used.entry(path).or_default();
            used.meter
                .change(now, |sum, kind| change(sum, group.shape.get(kind)));
            for (series, amount) in used.series.iter_mut().zip(used.meter.amounts()) {
                series.set(traced(now), amount);
            }
        }
    }

    fn outcome(mut self) -> Outcome {
        let begun: Vec<Begun> = self.begun.iter().map(|groups| begun(groups)).collect();
        let until = moment(self.trace.until);
        self.ran += u128::from(self.active.0) * u128::from(until.since(self.active.1).0);
        let used = self.used.get(ALL).map(|used| used.meter.sum(until));
        let mut done = used.unwrap_or_default();
        for (done, in_vain) in done.iter_mut().zip(self.in_vain.1) {
            *done = done.saturating_sub(in_vain);
        }
        let mut out = Outcome {
            capacity: self.capacity.sum(until),
            counts: self.counter.sums,
            work: Work {
                instances: self.ran.saturating_sub(self.in_vain.0),
                done,
                allowed: allowed(self.trace),
            },
            ..Outcome::default()
        };
        out.add_waits(self.trace, &begun);
        for (path, used) in self.used {
            let pool = out.pools.entry(path.to_owned()).or_default();
            pool.used = used.meter.sum(until);
            pool.amounts = used.series.map(|series| series.levels(self.trace.until));
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

/// How long the next `n` instances of a group run, after those that have begun `before`; those that the trace
/// does not name run until they are stopped.
fn ends(group: &Group, before: u64, n: u64) -> Vec<Spans> {
    let (mut skip, mut left) = (before, n);
    let mut out = Vec::new();
    for runs in &group.runs {
        if left == 0 {
            break;
        }
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
    let last: Option<Vec<Timestamp>> = groups.iter().map(|g| g.last).collect();
    Begun {
        first: groups.iter().filter_map(|g| g.first).min().map(traced),
        last: last.and_then(|all| all.into_iter().max()).map(traced),
    }
}
