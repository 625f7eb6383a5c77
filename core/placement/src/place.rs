//! The whole decision: put groups in order, let each group's strategy seat its instances, then say why the others have no
//! host.

use crate::answer::{Answer, Choice, Flaw, Obstacles, Report, Unplaced};
use crate::bound;
use crate::constraint::Filters;
use crate::problem::{Item, Problem, Wanted};
use crate::reason::explain;
use crate::room::Room;
use crate::strategy::{self, Run};
use echelon_core_model::siting::Constraint;
use echelon_core_model::{GroupName, InstanceId, InstanceNumber, RangeSet, Reason, ReasonCode, Resources};
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
    let room = Room::new(&problem.hosts, floor, &mut report.problems);
    let mut seating = Seating {
        room,
        filters: Filters::default(),
        full: BTreeSet::new(),
        left_over: Vec::new(),
        answer: Answer {
            token: problem.token,
            choices: Vec::with_capacity(report.items),
            unplaced: Vec::new(),
        },
        report,
    };
    for wanted in &groups {
        // They have no other host to go to.
        let bound = bound::seat(wanted, &mut seating.room);
        seating.answer.choices.extend(bound.choices);
        seating.answer.unplaced.extend(bound.unplaced);
    }
    for of_job in groups.chunk_by(|a, b| a.gang && b.gang && a.job == b.job) {
        match of_job {
            [wanted] if !wanted.gang => seating.seat(wanted),
            gang => seating.seat_gang(gang),
        }
    }
    seating.done()
}

struct Seating<'a> {
    room: Room<'a>,
    filters: Filters<'a>,
    /// Those for which there is no room any more.
    full: BTreeSet<Class<'a>>,
    left_over: Vec<(&'a Wanted, Vec<InstanceNumber>)>,
    answer: Answer,
    report: Report,
}

impl<'a> Seating<'a> {
    /// Seats as many of a group as fit.
    fn seat(&mut self, wanted: &'a Wanted) {
        let class = class_of(wanted);
        let rest = if self.full.contains(&class) {
            let items = items_in_order(wanted, &mut self.report.problems);
            items.iter().map(|i| i.number).collect()
        } else {
            self.seat_some(wanted)
        };
        if !rest.is_empty() {
            self.full.insert(class);
            self.left_over.push((wanted, rest));
        }
    }

    /// Seats as many of a group as fit; tells the others.
    fn seat_some(&mut self, wanted: &'a Wanted) -> Vec<InstanceNumber> {
        let run = Run {
            wanted,
            items: items_in_order(wanted, &mut self.report.problems),
            passing: self.filters.passing(&wanted.constraints, self.room.views()),
        };
        let seated = strategy::of(wanted.kind).seat(&run, &mut self.room);
        self.report.avoided_used += seated.iter().filter(|s| s.avoided).count();
        let views = self.room.views();
        let choices = seated.iter().filter_map(|s| {
            Some(Choice {
                instance: instance(wanted, s.item),
                host: views.get(s.host)?.id.clone(),
                ports: s.ports.clone(),
            })
        });
        self.answer.choices.extend(choices);
        let rest = run.items.iter().skip(seated.len());
        rest.map(|i| i.number).collect()
    }

    /// Seats all groups of a gang, or nothing of any of them. Room where some of it are bound to be is kept for it meanwhile.
    fn seat_gang(&mut self, gang: &[&'a Wanted]) {
        let Some(job) = gang.first().map(|w| w.job) else {
            return;
        };
        let before = (self.room.clone(), self.answer.choices.len());
        // One of them may be unable to go where it is bound to.
        let mut short = self.answer.unplaced.iter().any(|u| u.job == job);
        let mut why = None;
        for wanted in gang {
            if !short && !self.seat_some(wanted).is_empty() {
                short = true;
                why = Some((&wanted.group, explain(wanted, &self.room)));
            }
        }
        if !short {
            return;
        }
        self.room = before.0;
        self.answer.choices.truncate(before.1);
        self.answer.choices.retain(|c| c.instance.job != job);
        for wanted in gang {
            let (reason, hosts) = match &why {
                Some((group, why)) if **group == wanted.group => why.clone(),
                Some((group, _)) => (waits_for(group), Obstacles::default()),
                None => (Reason::new(ReasonCode::GangWaits), Obstacles::default()),
            };
            let bound = wanted.bound.iter().map(|b| b.number);
            let told = |n: &InstanceNumber| {
                let of = |u: &&Unplaced| (u.job, &u.group) == (job, &wanted.group);
                self.answer
                    .unplaced
                    .iter()
                    .filter(of)
                    .any(|u| u.numbers.contains(*n))
            };
            let free = wanted.items.iter().map(|i| i.number);
            let numbers: RangeSet = free.chain(bound).filter(|n| !told(n)).collect();
            if !numbers.is_empty() {
                self.answer.unplaced.push(Unplaced {
                    job,
                    group: wanted.group.clone(),
                    numbers,
                    reason,
                    hosts,
                });
            }
        }
    }

    fn done(mut self) -> (Answer, Report) {
        self.report.placed = self.answer.choices.len();
        let rest = with_reasons(self.left_over, &self.room);
        self.answer.unplaced.extend(rest);
        (self.answer, self.report)
    }
}

fn waits_for(group: &GroupName) -> Reason {
    Reason::new(ReasonCode::GangWaits).at(format!("group {group} has no room"))
}

/// Groups by priority, age, name and version, each once.
fn in_order<'a>(groups: &'a [Wanted], flaws: &mut Vec<Flaw>) -> Vec<&'a Wanted> {
    let mut seen = BTreeSet::new();
    let mut out = Vec::with_capacity(groups.len());
    for g in groups {
        if seen.insert((g.job, &g.group, g.version)) {
            out.push(g);
        } else {
            flaws.push(Flaw::GroupTwice(g.job, g.group.clone()));
        }
    }
    out.sort_by_key(|g| (Reverse(g.priority), g.job, &g.group, g.version));
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
