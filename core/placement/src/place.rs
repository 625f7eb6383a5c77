//! The whole decision: put groups in order, let each group's strategy seat its instances, then say why the others have no
//! host.

use crate::answer::{Answer, Choice, Flaw, Obstacles, Report, Unplaced};
use crate::bound;
use crate::classes::Classes;
use crate::hosts::HostIdx;
use crate::neighbours::Others;
use crate::problem::{Item, Problem, Wanted};
use crate::reason::explain;
use crate::room::Room;
use crate::rules::Rules;
use crate::search::{Search, Seated};
use crate::strategy::{self, Strategy};
use crate::together::{Region, Regions};
use echelon_core_model::host_pool::HostPoolChoice;
use echelon_core_model::sharing::Sharing;
use echelon_core_model::siting::{Constraint, Preference};
use echelon_core_model::{
    GroupName, InstanceId, InstanceNumber, JobId, RangeSet, Reason, ReasonCode, Resources,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// What two groups share if one of them cannot be placed when the other cannot, where nothing depends on where runs are.
type Class<'a> = (
    bool,
    Resources,
    &'a [Option<u16>],
    &'a HostPoolChoice,
    &'a [Constraint],
);

fn class_of(wanted: &Wanted) -> Class<'_> {
    (
        wanted.revocable,
        wanted.resources,
        &wanted.ports,
        &wanted.siting.host_pool,
        &wanted.constraints,
    )
}

/// Chooses hosts. `O((items + touched hosts) log hosts)` for few groups; a group that is spread over attributes or has preferences
/// costs a look at every host unless another one has the same, and so does each shape and constraint list that finds no room.
pub fn place(problem: &Problem) -> (Answer, Report) {
    place_by(problem, strategy::TABLE)
}

/// The same with strategies of one's own.
pub fn place_by(problem: &Problem, table: &[&'static dyn Strategy]) -> (Answer, Report) {
    let mut report = Report {
        items: problem.items(),
        hosts: problem.hosts.len(),
        ..Report::default()
    };
    let twice = problem.hosts.twice().iter().cloned().map(Flaw::HostTwice);
    report.problems.extend(twice);
    let groups = in_order(&problem.groups, &mut report.problems);
    let mut seating = Seating {
        table,
        sharing: &problem.sharing,
        room: Room::new(&problem.hosts, &problem.otherwise),
        others: Others::new(&problem.others),
        classes: BTreeMap::new(),
        back: BTreeSet::new(),
        full: BTreeSet::new(),
        left_over: Vec::new(),
        answer: Answer {
            token: problem.token,
            choices: Vec::with_capacity(report.items),
            unplaced: Vec::new(),
        },
        report,
    };
    // They have no other host to go to.
    groups
        .iter()
        .filter(|w| !w.bound.is_empty())
        .for_each(|wanted| seating.seat_bound(wanted));
    // Their room was theirs a moment ago.
    groups.iter().for_each(|wanted| seating.seat_back(wanted));
    for of_job in groups.chunk_by(|a, b| a.gang && b.gang && a.job == b.job) {
        match of_job {
            [wanted] if !wanted.gang => seating.seat(wanted),
            gang => seating.seat_gang(gang),
        }
    }
    seating.done()
}

struct Seating<'a, 't> {
    table: &'t [&'static dyn Strategy],
    sharing: &'a Sharing,
    room: Room<'a>,
    others: Others<'a>,
    /// Hosts by what groups are spread over and prefer.
    classes: BTreeMap<(&'a [String], &'a [Preference]), Rc<Classes>>,
    /// Instances that went back to where they were.
    back: BTreeSet<(JobId, &'a GroupName, InstanceNumber)>,
    /// Those for which there is no room any more.
    full: BTreeSet<Class<'a>>,
    left_over: Vec<(&'a Wanted, Vec<InstanceNumber>)>,
    answer: Answer,
    report: Report,
}

impl<'a> Seating<'a, '_> {
    fn seat_bound(&mut self, wanted: &'a Wanted) {
        let rules = Rules::new(wanted, &self.others, &self.room);
        let bound = bound::seat(rules, &mut self.room);
        self.others.seated(wanted, bound.hosts);
        self.answer.choices.extend(bound.choices);
        self.answer.unplaced.extend(bound.unplaced);
    }

    /// Seats those of a group that go back to where they were.
    fn seat_back(&mut self, wanted: &'a Wanted) {
        let of = |i: &&'a Item| i.former.is_some();
        if wanted.gang || !wanted.items.iter().any(|i| of(&i)) {
            return;
        }
        let items = items_in_order(wanted, &mut Vec::new());
        let items: Vec<&Item> = items.into_iter().filter(of).collect();
        let strategy = strategy::of(wanted, self.table);
        let rules = self.rules_for(wanted, strategy);
        let classes = self.classes_of(&rules);
        let seated = Search::new(rules, classes, strategy, &mut self.room, None).seat_back(&items);
        let numbers = seated.iter().map(|s| (wanted.job, &wanted.group, s.item.number));
        self.back.extend(numbers);
        self.note(wanted, &seated);
    }

    /// The items of a group that are not seated yet, by number, each once.
    fn unseated(&mut self, wanted: &'a Wanted) -> Vec<&'a Item> {
        let mut items = items_in_order(wanted, &mut self.report.problems);
        if !self.back.is_empty() {
            items.retain(|i| !self.back.contains(&(wanted.job, &wanted.group, i.number)));
        }
        items
    }

    /// Seats as many of a group as fit.
    fn seat(&mut self, wanted: &'a Wanted) {
        let class = class_of(wanted);
        let rest = if self.full.contains(&class) {
            let items = self.unseated(wanted);
            items.iter().map(|i| i.number).collect()
        } else {
            let (rest, all_alike) = self.seat_some(wanted, None);
            if !rest.is_empty() && all_alike {
                self.full.insert(class);
            }
            rest
        };
        if !rest.is_empty() {
            self.left_over.push((wanted, rest));
        }
    }

    /// Seats as many of a group as fit, on all hosts or within a region; tells the others, and whether who is alike finds no room either.
    fn seat_some(&mut self, wanted: &'a Wanted, within: Option<&Region>) -> (Vec<InstanceNumber>, bool) {
        let items = self.unseated(wanted);
        if items.is_empty() {
            return (Vec::new(), false);
        }
        let strategy = strategy::of(wanted, self.table);
        let rules = self.rules_for(wanted, strategy);
        let all_alike = rules.are_of_hosts_alone();
        let classes = self.classes_of(&rules);
        let seated = Search::new(rules, classes, strategy, &mut self.room, within).seat(&items);
        self.note(wanted, &seated);
        let rest = items.iter().skip(seated.len());
        (rest.map(|i| i.number).collect(), all_alike)
    }

    fn rules_for(&self, wanted: &'a Wanted, strategy: &dyn Strategy) -> Rules<'a> {
        let mut rules = Rules::new(wanted, &self.others, &self.room);
        if strategy.minds_count() {
            rules.count_present(&self.others, &self.room);
        }
        rules
    }

    /// What of the group's wishes depends on other jobs is its own; the rest it may share.
    fn classes_of(&mut self, rules: &Rules<'a>) -> Option<Rc<Classes>> {
        if !rules.rank_hosts() {
            return None;
        }
        if rules.wish_for_others() {
            return Some(Rc::new(Classes::new(rules, &self.room)));
        }
        let siting = &rules.wanted().siting;
        let key = (siting.spread_over.as_slice(), siting.preferences.as_slice());
        let made = || Rc::new(Classes::new(rules, &self.room));
        Some(Rc::clone(self.classes.entry(key).or_insert_with(made)))
    }

    fn note(&mut self, wanted: &'a Wanted, seated: &[Seated<'a>]) {
        self.report.avoided_used += seated.iter().filter(|s| s.avoided).count();
        let room = &self.room;
        let choices = seated.iter().filter_map(|s| {
            Some(Choice {
                instance: instance(wanted, s.item),
                host: room.view(s.host)?.id.clone(),
                ports: s.ports.clone(),
            })
        });
        self.answer.choices.extend(choices);
        let hosts: Vec<HostIdx> = seated.iter().map(|s| s.host).collect();
        self.others.seated(wanted, hosts);
    }

    /// Seats all groups of a gang, or nothing of any of them. Room where some of it are bound to be is kept for it meanwhile.
    fn seat_gang(&mut self, gang: &[&'a Wanted]) {
        let Some(job) = gang.first().map(|w| w.job) else {
            return;
        };
        // One of them may be unable to go where it is bound to.
        let mut short = self.answer.unplaced.iter().any(|u| u.job == job);
        if !short && self.seat_together(gang) {
            return;
        }
        let before = (self.room.clone(), self.answer.choices.len());
        let mut why = None;
        for wanted in gang {
            if !short && !self.seat_some(wanted, None).0.is_empty() {
                short = true;
                let rules = Rules::new(wanted, &self.others, &self.room);
                why = Some((
                    &wanted.group,
                    explain(&rules, &self.others, &self.room, self.sharing),
                ));
            }
        }
        let farthest = gang.first().map(|w| &w.together).filter(|t| t.required);
        let farthest = farthest.and_then(|t| t.levels.last()).filter(|_| !short);
        if !short && farthest.is_none() {
            return;
        }
        self.room = before.0;
        self.others.forget(job);
        self.answer.choices.truncate(before.1);
        self.answer.choices.retain(|c| c.instance.job != job);
        for wanted in gang {
            let (reason, hosts) = match (&why, farthest) {
                (Some((group, why)), _) if **group == wanted.group => why.clone(),
                (Some((group, _)), _) => (waits_for(group), Obstacles::default()),
                (None, Some(by)) => (waits_for_one(by), Obstacles::default()),
                (None, None) => (Reason::new(ReasonCode::GangWaits), Obstacles::default()),
            };
            self.leave(wanted, (job, reason, hosts));
        }
    }

    /// Seats a gang on hosts that share a value, of the nearest attribute that has one with room for all; else nothing of it.
    fn seat_together(&mut self, gang: &[&'a Wanted]) -> bool {
        let levels = gang.first().map_or(&[][..], |w| &w.together.levels);
        if levels.is_empty() {
            return false;
        }
        if gang.iter().all(|w| w.items.is_empty()) {
            return true;
        }
        let rules = gang.iter().map(|w| Rules::new(w, &self.others, &self.room));
        let rules: Vec<Rules<'_>> = rules.collect();
        let regions = Regions::new(gang, &rules, &self.room);
        for level in levels {
            for region in regions.by(level, &self.room) {
                let (before, noted) = (self.room.before(&region.hosts), self.others.noted());
                let (choices, avoided) = (self.answer.choices.len(), self.report.avoided_used);
                let mut all = gang.iter();
                if all.all(|w| self.seat_some(w, Some(&region)).0.is_empty()) {
                    return true;
                }
                self.room.put_back(before);
                self.others.forget_after(noted);
                self.answer.choices.truncate(choices);
                self.report.avoided_used = avoided;
            }
        }
        false
    }

    /// Says of all of a group of which nothing was said yet why it waits.
    fn leave(&mut self, wanted: &Wanted, (job, reason, hosts): (JobId, Reason, Obstacles)) {
        let bound = wanted.bound.iter().map(|b| b.number);
        let told = |n: &InstanceNumber| {
            let of = |u: &&Unplaced| (u.job, &u.group) == (job, &wanted.group);
            let mut told = self.answer.unplaced.iter().filter(of);
            told.any(|u| u.numbers.contains(*n))
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

    fn done(mut self) -> (Answer, Report) {
        self.report.placed = self.answer.choices.len();
        let mut known: BTreeMap<Class<'a>, (Reason, Obstacles)> = BTreeMap::new();
        for (wanted, numbers) in std::mem::take(&mut self.left_over) {
            let rules = Rules::new(wanted, &self.others, &self.room);
            let why = || explain(&rules, &self.others, &self.room, self.sharing);
            let (reason, hosts) = if rules.are_of_hosts_alone() {
                known.entry(class_of(wanted)).or_insert_with(why).clone()
            } else {
                why()
            };
            self.answer.unplaced.push(Unplaced {
                job: wanted.job,
                group: wanted.group.clone(),
                numbers: numbers.into_iter().collect(),
                reason,
                hosts,
            });
        }
        (self.answer, self.report)
    }
}

fn waits_for(group: &GroupName) -> Reason {
    Reason::new(ReasonCode::GangWaits).at(format!("group {group} has no room"))
}

fn waits_for_one(by: &str) -> Reason {
    Reason::new(ReasonCode::GangTopology).at(format!("no {by} has room for all of it"))
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

fn instance(wanted: &Wanted, item: &Item) -> InstanceId {
    InstanceId {
        job: wanted.job,
        group: wanted.group.clone(),
        number: item.number,
    }
}
