//! How well the engine packs, on the shape of a published trace: tasks arrive one by one and are placed for good by `pack`, and beside it
//! by heuristics that know all of them beforehand. Measured by `echelon bench packing`, and held by a test.

pub mod offline;
mod trace;

use crate::hosts::Hosts;
use crate::problem::{Problem, Wanted};
use crate::{Choice, place};
use echelon_core_model::cluster::{HostView, Slack};
use echelon_core_model::sharing::Others;
use echelon_core_model::spec::JobKind;
use echelon_core_model::{HostId, HostPoolName, JobId, Kind, PortSet, Resources};
use offline::{Fit, Order};
use std::sync::Arc;

/// When placing ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// With the first task that finds no host.
    Refused,
    /// With the last task; who finds no host is left out.
    Over,
}

/// What came of placing tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Tasks that found a host.
    pub placed: usize,
    /// What they hold.
    pub held: Resources,
    /// Hosts with any of them.
    pub hosts: usize,
}

impl Outcome {
    fn note(&mut self, task: Resources, on_an_empty_host: bool) {
        self.placed += 1;
        self.held = self.held.plus(task);
        self.hosts += usize::from(on_an_empty_host);
    }
}

/// Hosts, and tasks in the order of their arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct World {
    /// The hosts, in no particular order.
    pub hosts: Vec<Resources>,
    /// The tasks.
    pub tasks: Vec<Resources>,
}

/// A stream of numbers.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    const fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % if n == 0 { 1 } else { n }
    }
}

/// GPUs asked for by all tasks together, in hundredths of what there is: as much as the paper lets arrive.
const ASKED: u64 = 130;

impl World {
    /// One of `part` hosts of each size of the trace, and tasks that are drawn by how often each shape was submitted, until they
    /// ask for 130 % of the GPUs.
    #[must_use]
    pub fn of_trace(part: u32, seed: u64) -> Self {
        let mut dice = Dice(seed);
        let part = part.max(1);
        let some = |(n, room): (u32, Resources)| {
            std::iter::repeat_n(room, usize::try_from((n + part / 2) / part).unwrap_or_default())
        };
        let mut hosts: Vec<Resources> = trace::hosts().into_iter().flat_map(some).collect();
        for i in (1..hosts.len()).rev() {
            let other = dice.below(u64::try_from(i).unwrap_or_default() + 1);
            hosts.swap(i, usize::try_from(other).unwrap_or_default());
        }
        let enough = total(&hosts).gpus.saturating_mul(ASKED) / 100;
        let (shapes, mut asked) = (trace::tasks(), 0u64);
        let mut tasks = Vec::new();
        while asked < enough {
            let task = drawn(&shapes, &mut dice);
            asked = asked.saturating_add(task.gpus);
            tasks.push(task);
        }
        Self { hosts, tasks }
    }

    /// Those of the tasks that such a host has room for and that `of` lets through, and as many of these hosts as there are tasks.
    #[must_use]
    pub fn on_hosts_alike(&self, host: Resources, of: impl Fn(&Resources) -> bool) -> Self {
        let tasks: Vec<Resources> = self
            .tasks
            .iter()
            .copied()
            .filter(|t| t.fits(host) && of(t))
            .collect();
        Self {
            hosts: vec![host; tasks.len()],
            tasks,
        }
    }

    /// The same hosts, and the tasks that come first.
    fn first(&self, n: usize) -> Vec<Resources> {
        self.tasks.iter().take(n).copied().collect()
    }
}

fn drawn(shapes: &[(u32, Resources)], dice: &mut Dice) -> Resources {
    let all: u64 = shapes.iter().map(|(n, _)| u64::from(*n)).sum();
    let mut at = dice.below(all);
    for (n, shape) in shapes {
        match at.checked_sub(u64::from(*n)) {
            None => return *shape,
            Some(rest) => at = rest,
        }
    }
    Resources::ZERO
}

/// All of them together.
#[must_use]
pub fn total(of: &[Resources]) -> Resources {
    of.iter().fold(Resources::ZERO, |sum, r| sum.plus(*r))
}

/// The size of host that most cores of the trace are on, of those with GPUs or of those without.
#[must_use]
pub fn commonest_host(gpus: bool) -> Resources {
    let all = trace::hosts()
        .into_iter()
        .filter(|(_, room)| (room.gpus > 0) == gpus);
    all.max_by_key(|(n, room)| u64::from(*n) * room.cpus)
        .map_or(Resources::ZERO, |(_, room)| room)
}

/// Whether a host is set aside for others, as hosts with GPUs are.
fn is_kept_from(host: Resources, task: Resources) -> bool {
    host.gpus > 0 && task.gpus == 0
}

/// Places tasks one after the other by the engine, each in a question of its own, as a batch job of one instance.
#[must_use]
pub fn by_engine(rooms: &[Resources], tasks: &[Resources], until: Until) -> Outcome {
    let mut hosts = Hosts::new((0..).zip(rooms).map(|(n, room)| view(n, *room)));
    let mut out = Outcome::default();
    for task in tasks {
        let problem = Problem {
            groups: vec![wanted(*task)],
            hosts: Arc::new(std::mem::take(&mut hosts)),
            ..Problem::default()
        };
        let (answer, _) = place(&problem);
        hosts = Arc::unwrap_or_clone(problem.hosts);
        match answer.choices.first() {
            Some(choice) => take(&mut hosts, choice, *task, &mut out),
            None if until == Until::Refused => break,
            None => {}
        }
    }
    out
}

fn take(hosts: &mut Hosts, choice: &Choice, task: Resources, out: &mut Outcome) {
    let found = hosts.find(&choice.host).and_then(|h| hosts.views().get(h));
    if let Some(mut view) = found.cloned() {
        out.note(task, view.used.is_zero());
        (view.free, view.used) = (view.free.minus(task), view.used.plus(task));
        hosts.update(view);
    }
}

fn view(n: u32, room: Resources) -> HostView {
    HostView {
        id: HostId::new(format!("h{n:06}")),
        hostname: Arc::from(""),
        attributes: Arc::default(),
        host_pool: HostPoolName::default(),
        free: room,
        capacity: room,
        used: Resources::ZERO,
        slack: Slack::default(),
        draining: false,
        kept: room.gpus > 0,
        others: Others::default(),
        ports: PortSet::new(),
        ports_left: None,
    }
}

fn wanted(resources: Resources) -> Wanted {
    Wanted::plain(JobId(1), JobKind::Batch, 1, resources)
}

/// What the engine reached, and what the best of the others did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// By the engine.
    pub engine: u64,
    /// By the best heuristic that knows all tasks beforehand, or no worse.
    pub best: u64,
    /// Which that is.
    pub by: String,
    /// By the gradient of fragmentation, which does not know them.
    pub gradient: u64,
    /// What nobody can pass.
    pub bound: u64,
    /// The least is best, not the most.
    pub least: bool,
}

impl Compared {
    /// By how much the engine is worse than the best, in hundredths of a percent: below 0 it is better.
    #[must_use]
    pub fn worse_by(&self) -> i64 {
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let more = signed(self.engine) - signed(self.best);
        let worse = if self.least { more } else { -more };
        worse.saturating_mul(10_000) / signed(self.best).max(1)
    }
}

/// GPUs given out, in thousandths, when the first task of the arrivals finds no host. Who knows them all beforehand gives out as many as the
/// longest beginning of the arrivals asks for that it places whole.
#[must_use]
pub fn until_refused(world: &World) -> Compared {
    let engine = by_engine(&world.hosts, &world.tasks, Until::Refused);
    let mut longest = 0;
    let whole = |order, fit| {
        longest = longest_whole(world, (order, fit), longest);
        total(&world.first(longest)).gpus
    };
    let (best, by) = best_of(whole, |a, b| a > b);
    let gradient = offline::by_gradient(&world.hosts, &world.tasks, Until::Refused, &trace::tasks());
    Compared {
        engine: engine.held.gpus,
        best,
        by,
        gradient: gradient.held.gpus,
        bound: total(&world.hosts).gpus,
        least: false,
    }
}

/// GPUs given out, in thousandths, when all have arrived and many were refused.
#[must_use]
pub fn overloaded(world: &World) -> Compared {
    let unit = offline::largest(&world.hosts);
    let by_order = |order: Order, fit| {
        let tasks = order.sorted(&world.tasks, unit);
        offline::place_all(&world.hosts, &tasks, Until::Over, fit)
            .held
            .gpus
    };
    let (best, by) = best_of(by_order, |a, b| a > b);
    let gradient = offline::by_gradient(&world.hosts, &world.tasks, Until::Over, &trace::tasks());
    Compared {
        engine: by_engine(&world.hosts, &world.tasks, Until::Over).held.gpus,
        best,
        by,
        gradient: gradient.held.gpus,
        bound: total(&world.hosts).gpus,
        least: false,
    }
}

/// Hosts used, of hosts that are all alike, when all tasks are placed.
#[must_use]
pub fn hosts_used(world: &World) -> Compared {
    let unit = offline::largest(&world.hosts);
    let count = |outcome: Outcome| u64::try_from(outcome.hosts).unwrap_or(u64::MAX);
    let by_order = |order: Order, fit| {
        let tasks = order.sorted(&world.tasks, unit);
        count(offline::place_all(&world.hosts, &tasks, Until::Over, fit))
    };
    let (best, by) = best_of(by_order, |a, b| a < b);
    let asked = total(&world.tasks);
    let least = |kind: Kind| asked.get(kind).div_ceil(unit.get(kind).max(1));
    let gradient = offline::by_gradient(&world.hosts, &world.tasks, Until::Over, &trace::tasks());
    Compared {
        engine: count(by_engine(&world.hosts, &world.tasks, Until::Over)),
        best,
        by,
        gradient: count(gradient),
        bound: Kind::ALL.into_iter().map(least).max().unwrap_or_default(),
        least: true,
    }
}

/// The best of all orders and fits.
fn best_of(mut measure: impl FnMut(Order, Fit) -> u64, better: impl Fn(u64, u64) -> bool) -> (u64, String) {
    let mut best: Option<(u64, String)> = None;
    for order in Order::ALL {
        for fit in Fit::ALL {
            let figure = measure(order, fit);
            if best.as_ref().is_none_or(|(of, _)| better(figure, *of)) {
                best = Some((figure, offline::words(order, fit)));
            }
        }
    }
    best.unwrap_or_default()
}

/// How many of the first arrivals a heuristic places whole, found by halving; `at_least` where they are no more than that.
fn longest_whole(world: &World, (order, fit): (Order, Fit), at_least: usize) -> usize {
    let unit = offline::largest(&world.hosts);
    let whole = |n: usize| {
        let tasks = order.sorted(&world.first(n), unit);
        offline::place_all(&world.hosts, &tasks, Until::Refused, fit).placed == n
    };
    let (mut placed, mut refused) = (at_least, world.tasks.len() + 1);
    if refused <= placed + 1 || !whole(placed + 1) {
        return placed;
    }
    while refused - placed > 1 {
        let n = usize::midpoint(placed, refused);
        if whole(n) {
            placed = n;
        } else {
            refused = n;
        }
    }
    placed
}
