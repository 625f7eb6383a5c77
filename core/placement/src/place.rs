//! The whole decision: put groups in order, let each group's strategy seat its instances, then say why the others have no
//! host.

use crate::answer::{Answer, Choice, Flaw, Obstacles, Report, Unplaced};
use crate::bound;
use crate::constraint::Filters;
use crate::problem::{Item, Problem, Wanted};
use crate::reason::explain;
use crate::room::Room;
use crate::strategy::{self, Run};
use echelon_core_model::spec::Constraint;
use echelon_core_model::{InstanceId, InstanceNumber, Reason, Resources};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What two groups share if one of them cannot be placed when the other cannot.
type Class<'a> = (bool, Resources, &'a [Option<u16>], &'a [Constraint]);

fn class_of(wanted: &Wanted) -> Class<'_> {
    (
        wanted.revocable,
        wanted.resources,
        &wanted.ports,
        &wanted.constraints,
    )
}

/// The least that an instance takes of any host's ordinary room.
const fn least(wanted: &Wanted) -> Resources {
    if wanted.revocable {
        Resources::ZERO
    } else {
        wanted.resources
    }
}

/// Chooses hosts. `O((items + hosts) log hosts)` for few groups; each different constraint list costs a look at every
/// host, and so does each shape and constraint list that finds no room.
pub fn place(problem: &Problem) -> (Answer, Report) {
    let mut report = Report {
        items: problem.items(),
        hosts: problem.hosts.len(),
        ..Report::default()
    };
    let groups = in_order(&problem.groups, &mut report.problems);
    let floor = groups.iter().fold(Resources::MAX, |floor, g| {
        floor.min_each(least(g)).min_each(g.beside_volume())
    });
    let mut room = Room::new(&problem.hosts, floor, &mut report.problems);
    let mut filters = Filters::default();
    let mut full: BTreeSet<Class<'_>> = BTreeSet::new();
    let mut choices = Vec::with_capacity(report.items);
    let mut unplaced: Vec<Unplaced> = Vec::new();
    let mut left_over: Vec<(&Wanted, Vec<InstanceNumber>)> = Vec::new();
    for wanted in &groups {
        // They have no other host to go to.
        let bound = bound::seat(wanted, &mut room);
        choices.extend(bound.choices);
        unplaced.extend(bound.unplaced);
    }
    for wanted in groups {
        let class = class_of(wanted);
        let run = Run {
            wanted,
            items: items_in_order(wanted, &mut report.problems),
            passing: filters.passing(&wanted.constraints, room.views()),
        };
        let seated = if full.contains(&class) {
            Vec::new()
        } else {
            strategy::of(wanted.kind).seat(&run, &mut room)
        };
        let n_seated = seated.len();
        report.avoided_used += seated.iter().filter(|s| s.avoided).count();
        for s in seated {
            let Some(view) = room.views().get(s.host) else {
                continue;
            };
            choices.push(Choice {
                instance: instance(wanted, s.item),
                host: view.id.clone(),
                ports: s.ports,
            });
        }
        let rest: Vec<InstanceNumber> = run.items.iter().skip(n_seated).map(|i| i.number).collect();
        if !rest.is_empty() {
            full.insert(class);
            left_over.push((wanted, rest));
        }
    }
    report.placed = choices.len();
    unplaced.extend(with_reasons(left_over, &room));
    let answer = Answer {
        token: problem.token,
        choices,
        unplaced,
    };
    (answer, report)
}

/// Groups by priority, age and name, each once.
fn in_order<'a>(groups: &'a [Wanted], flaws: &mut Vec<Flaw>) -> Vec<&'a Wanted> {
    let mut seen = BTreeSet::new();
    let mut out = Vec::with_capacity(groups.len());
    for g in groups {
        if seen.insert((g.job, &g.group)) {
            out.push(g);
        } else {
            flaws.push(Flaw::GroupTwice(g.job, g.group.clone()));
        }
    }
    out.sort_by_key(|g| (Reverse(g.priority), g.job, &g.group));
    out
}

/// A group's items by number, each once.
fn items_in_order<'a>(wanted: &'a Wanted, flaws: &mut Vec<Flaw>) -> Vec<&'a Item> {
    let mut items: Vec<&Item> = wanted.items.iter().collect();
    items.sort_by_key(|i| i.number);
    items.dedup_by(|later, first| {
        let twice = later.number == first.number;
        if twice {
            flaws.push(Flaw::ItemTwice(instance(wanted, later)));
        }
        twice
    });
    items
}

fn with_reasons(left_over: Vec<(&Wanted, Vec<InstanceNumber>)>, room: &Room<'_>) -> Vec<Unplaced> {
    let mut known: BTreeMap<Class<'_>, (Reason, Obstacles)> = BTreeMap::new();
    left_over
        .into_iter()
        .map(|(wanted, numbers)| {
            let class = class_of(wanted);
            let (reason, hosts) = known
                .entry(class)
                .or_insert_with(|| explain(wanted, room))
                .clone();
            Unplaced {
                job: wanted.job,
                group: wanted.group.clone(),
                numbers: numbers.into_iter().collect(),
                reason,
                hosts,
            }
        })
        .collect()
}

fn instance(wanted: &Wanted, item: &Item) -> InstanceId {
    InstanceId {
        job: wanted.job,
        group: wanted.group.clone(),
        number: item.number,
    }
}
