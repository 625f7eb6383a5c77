//! What others would do with the same hosts and tasks: heuristics of vector bin packing that see all tasks before they place the first,
//! and one from the literature that does not.

use super::{Outcome, Until};
use crate::strategy::number;
use echelon_core_model::{Kind, Resources};

/// In which order tasks are placed by who knows them all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Most GPUs first, then most cores, then most memory.
    Gpus,
    /// Most cores first.
    Cpus,
    /// Most memory first.
    Memory,
    /// Largest sum over all kinds first.
    Sum,
    /// Largest by the kind of which it takes the largest part of a host.
    Largest,
    /// As they come.
    Arrival,
}

impl Order {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Gpus,
        Self::Cpus,
        Self::Memory,
        Self::Sum,
        Self::Largest,
        Self::Arrival,
    ];

    /// The same tasks, the largest first; of the same size in the order of arrival.
    #[must_use]
    pub fn sorted(self, tasks: &[Resources], unit: Resources) -> Vec<Resources> {
        let size = |t: &Resources| match self {
            Self::Gpus => (t.gpus, t.cpus, t.memory),
            Self::Cpus => (t.cpus, t.memory, t.gpus),
            Self::Memory => (t.memory, t.cpus, t.gpus),
            Self::Sum => (parts(*t, unit).iter().sum(), 0, 0),
            Self::Largest => (parts(*t, unit).into_iter().max().unwrap_or_default(), 0, 0),
            Self::Arrival => (0, 0, 0),
        };
        let mut out = tasks.to_vec();
        out.sort_by_key(|t| std::cmp::Reverse(size(t)));
        out
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Gpus => "most GPUs first",
            Self::Cpus => "most cores first",
            Self::Memory => "most memory first",
            Self::Sum => "largest sum first",
            Self::Largest => "largest part first",
            Self::Arrival => "as they come",
        }
    }
}

/// Which of the hosts that have room is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// The first.
    First,
    /// The one with the least left in sum.
    Best,
    /// The one whose room points most nearly the way of the task: the cosine between both.
    Aligned,
    /// The one whose room is least, in squares, once the task is there.
    Closest,
}

impl Fit {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::First, Self::Best, Self::Aligned, Self::Closest];

    /// The less the better; all the same for hosts between which the order tells.
    fn cost(self, task: Resources, free: Resources, unit: Resources) -> i128 {
        let (room, needs) = (parts(free, unit), parts(task, unit));
        match self {
            Self::First => 0,
            Self::Best => i128::from(room.iter().sum::<u64>()),
            // The task is the same for all hosts, and only the order counts: its length and the root are left out.
            Self::Aligned => {
                let dot: i128 = room
                    .iter()
                    .zip(needs)
                    .map(|(a, b)| i128::from(*a) * i128::from(b))
                    .sum();
                -(dot * dot / squares(room).max(1))
            }
            Self::Closest => squares(parts(free.minus(task), unit)),
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::First => "first fit",
            Self::Best => "best fit",
            Self::Aligned => "aligned fit",
            Self::Closest => "closest fit",
        }
    }
}

/// An order and a fit in words.
#[must_use]
pub fn words(order: Order, fit: Fit) -> String {
    format!("{}, {}", fit.words(), order.words())
}

/// Places tasks one after the other by a fit; ties go to the earlier host.
#[must_use]
pub fn place_all(hosts: &[Resources], tasks: &[Resources], until: Until, fit: Fit) -> Outcome {
    let unit = largest(hosts);
    run(hosts, tasks, until, |task, free| fit.cost(task, free, unit))
}

/// The gradient of fragmentation: a task goes where the GPUs that an average task could not use grow least. It knows how often each shape
/// is asked for (`popular`), not what comes next.
#[must_use]
pub fn by_gradient(
    hosts: &[Resources],
    tasks: &[Resources],
    until: Until,
    popular: &[(u32, Resources)],
) -> Outcome {
    let unit = largest(hosts);
    let unusable = |free: Resources| -> i128 {
        let useless = popular.iter().filter(|(_, t)| t.gpus == 0 || !t.fits(free));
        i128::from(free.gpus) * useless.map(|(n, _)| i128::from(*n)).sum::<i128>()
    };
    run(hosts, tasks, until, |task, free| {
        let grown = unusable(free.minus(task)) - unusable(free);
        (grown << 64) + Fit::Best.cost(task, free, unit)
    })
}

fn run(
    hosts: &[Resources],
    tasks: &[Resources],
    until: Until,
    cost: impl Fn(Resources, Resources) -> i128,
) -> Outcome {
    let mut free = hosts.to_vec();
    let mut out = Outcome::default();
    // Of hosts that are all alike another one is begun when none of those in use has room, and they are begun in their order.
    let alike = hosts.windows(2).all(|pair| pair.first() == pair.last());
    for task in tasks {
        let within = if alike { out.hosts + 1 } else { hosts.len() };
        let all = free.iter().zip(hosts).zip(0..).take(within);
        let open = all.filter(|((room, host), _)| task.fits(**room) && !super::is_kept_from(**host, *task));
        let best =
            open.min_by_key(|((room, host), at)| (alike && room == host, cost(*task, **room), number(*at)));
        let Some(((room, _), at)) = best else {
            if until == Until::Refused {
                break;
            }
            continue;
        };
        let left = room.minus(*task);
        out.note(*task, hosts.get(at) == Some(room));
        if let Some(room) = free.get_mut(at) {
            *room = left;
        }
    }
    out
}

/// What the largest host has of each kind.
pub fn largest(hosts: &[Resources]) -> Resources {
    hosts.iter().fold(Resources::ZERO, |most, h| most.max_each(*h))
}

/// Of each kind the part of the unit, in millionths.
fn parts(of: Resources, unit: Resources) -> [u64; 4] {
    Kind::ALL.map(|kind| {
        let (n, all) = (of.get(kind), unit.get(kind).max(1));
        n.saturating_mul(1_000_000) / all
    })
}

fn squares(of: [u64; 4]) -> i128 {
    of.iter().map(|n| i128::from(*n) * i128::from(*n)).sum()
}
