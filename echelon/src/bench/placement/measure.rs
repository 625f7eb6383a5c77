//! What placing costs, by itself and beside a scan over all hosts.

use super::world::{Dice, gang, id, noisy};
use echelon_core_model::{HostId, Resources};
use echelon_core_placement::{Choice, Hosts, Item, Problem, Wanted, place};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Instances that a shard asks for in one question.
const QUESTION: usize = 2_000;

/// So many placements took so long.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    pub(super) placed: u32,
    pub(super) took: Duration,
}

impl Pace {
    pub(super) fn per_second(self) -> f64 {
        f64::from(self.placed) / self.took.as_secs_f64().max(f64::EPSILON)
    }
}

/// Places a group as a shard does: question by question, each on the hosts as the one before left them. What is counted is the answers
/// and the changes of the hosts that follow from them.
pub(super) fn pace(mut hosts: Hosts, mut wanted: Wanted) -> Pace {
    let others = vec![noisy(u32::try_from(hosts.len()).unwrap_or(u32::MAX))];
    let mut out = Pace::default();
    let items: Vec<Item> = std::mem::take(&mut wanted.items);
    for part in items.chunks(QUESTION) {
        wanted.items = part.to_vec();
        let kept = Arc::new(std::mem::take(&mut hosts));
        let problem = Problem {
            token: 0,
            groups: vec![wanted.clone()],
            hosts: kept,
            otherwise: Vec::new(),
            sharing: echelon_core_model::sharing::Sharing::default(),
            others: others.clone(),
        };
        let began = Instant::now();
        let (answer, _) = place(&problem);
        out.took += began.elapsed();
        hosts = Arc::unwrap_or_clone(problem.hosts);
        let began = Instant::now();
        take(&mut hosts, &answer.choices, wanted.resources);
        out.took += began.elapsed();
        out.placed = out
            .placed
            .saturating_add(u32::try_from(answer.choices.len()).unwrap_or(u32::MAX));
        for choice in answer.choices {
            *wanted.present.entry(choice.host).or_default() += 1;
        }
    }
    out
}

/// Takes the room of placed instances out of their hosts, host by host.
fn take(hosts: &mut Hosts, choices: &[Choice], shape: Resources) {
    for of_host in choices.chunk_by(|a, b| a.host == b.host) {
        let found = of_host.first().and_then(|c| hosts.find(&c.host));
        let Some(view) = found.and_then(|h| hosts.views().get(h)) else {
            continue;
        };
        let mut view = view.clone();
        let room = shape.times(u64::try_from(of_host.len()).unwrap_or(u64::MAX));
        (view.free, view.used) = (view.free.minus(room), view.used.plus(room));
        hosts.update(view);
    }
}

/// The same instances by the scheduler that everybody writes first: for each of them a look at one host after the other.
pub(super) fn scan(hosts: &Hosts, wanted: &Wanted) -> Pace {
    let mut free: Vec<(bool, Resources)> = hosts.views().iter().map(|v| (v.kept, v.free)).collect();
    let mut placed = 0u32;
    let began = Instant::now();
    for _ in &wanted.items {
        let fits = |(kept, room): &&mut (bool, Resources)| !*kept && wanted.resources.fits(*room);
        if let Some((_, room)) = free.iter_mut().find(fits) {
            *room = room.minus(wanted.resources);
            placed += 1;
        }
    }
    Pace {
        placed,
        took: began.elapsed(),
    }
}

/// The longest of: a gang of a thousand instances with GPUs that finds hosts, and one that is refused with reasons.
pub(super) fn gangs(hosts: &Arc<Hosts>) -> Duration {
    let asked = |wanted: Wanted| {
        let problem = Problem {
            token: 0,
            groups: vec![wanted],
            hosts: Arc::clone(hosts),
            ..Problem::default()
        };
        let began = Instant::now();
        let answer = std::hint::black_box(place(&problem));
        drop(answer);
        began.elapsed()
    };
    asked(gang(1_000, 1)).max(asked(gang(1_000, 9)))
}

/// What it costs on average that one host is otherwise.
pub(super) fn host_update(hosts: &mut Hosts, times: u32) -> Duration {
    let n = u64::try_from(hosts.len()).unwrap_or(u64::MAX).max(1);
    let mut dice = Dice(11);
    let changes: Vec<(HostId, u64)> = (0..times)
        .map(|_| {
            (
                id(u32::try_from(dice.below(n)).unwrap_or_default()),
                500 * (1 + dice.below(9)),
            )
        })
        .collect();
    let found = |(id, cpus): (HostId, u64)| {
        let mut view = hosts.views().get(hosts.find(&id)?)?.clone();
        view.free.cpus = view.capacity.cpus.saturating_sub(cpus);
        Some(view)
    };
    let views: Vec<_> = changes.into_iter().filter_map(found).collect();
    let began = Instant::now();
    views.into_iter().for_each(|view| hosts.update(view));
    began.elapsed() / times.max(1)
}
