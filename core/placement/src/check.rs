//! Judges an answer against its problem, with code of its own: it shares no arithmetic, no order and no constraint test with
//! the rooms that make answers. For tests and the simulation; a shard has it judge one answer a minute.

mod topology;
mod words;

use crate::answer::{Answer, Choice, Unplaced};
use crate::problem::{Bound, Problem, Wanted};
use echelon_core_model::cluster::HostView;
use echelon_core_model::siting::{Affinity, Comparison, Constraint, HOSTNAME, Number, Test, pattern};
use echelon_core_model::spec::JobKind;
use echelon_core_model::{GroupName, HostId, InstanceId, InstanceNumber, JobId, Kind, ReasonCode, Resources};
use std::collections::{BTreeMap, BTreeSet};
use topology::{Runs, place};

/// A rule that an answer breaks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Broken {
    /// The token differs from the problem's.
    Token,
    /// An instance or host that is not in the problem.
    Unknown(InstanceId, HostId),
    /// An instance was answered twice, or not at all.
    Answered(InstanceId, u32),
    /// A host was given more than it offered.
    OverCommitted(HostId, Kind),
    /// Ports that were not offered, or given twice, or not those that were asked for.
    Ports(InstanceId, HostId),
    /// A host that breaks a constraint was chosen.
    Constraint(InstanceId, HostId),
    /// An instance has no host although this one still fits.
    RoomLeft(InstanceId, HostId),
    /// An instance is on a host that it should avoid although this other one still fits.
    Avoidable(InstanceId, HostId),
    /// A service has two more instances on the first host than on the second, which still fits.
    Uneven(JobId, GroupName, HostId, HostId),
    /// More of a group than may be are on this host, or where it is.
    TooMany(InstanceId, HostId),
    /// It is on a host that is far from what it has to be near to.
    Far(InstanceId, HostId),
    /// It is on a host that is near to what it has to be away from, or what has to be away from it.
    Near(InstanceId, HostId),
    /// It shares a host with another job, and one of both wants it for itself.
    Shared(InstanceId, HostId),
    /// A group has two more by one value of this attribute than by another, by which a host still fits.
    Lopsided(JobId, GroupName, String),
    /// An instance is on a host that is preferred less than this one, which still fits.
    Unpreferred(InstanceId, HostId),
    /// A gang is placed in part.
    Parted(JobId),
    /// A gang that has to be together by one of its attributes is not by any.
    Scattered(JobId),
    /// A reason names a shortfall that is none.
    FalseReason(JobId, GroupName),
}

/// The rules that an answer breaks; empty for a good one. `O((items + groups) * hosts)`.
#[must_use]
pub fn check(problem: &Problem, answer: &Answer) -> Vec<Broken> {
    let mut judge = Judge::new(problem);
    if problem.token != answer.token {
        judge.broken.push(Broken::Token);
    }
    answer.choices.iter().for_each(|c| judge.choice(c));
    judge.over_commitment();
    judge.runs = Some(Runs::new(problem, answer, &judge));
    judge.nearness(answer);
    judge.answered_once(answer);
    judge.room_left(answer);
    answer.choices.iter().for_each(|c| judge.avoidance(c));
    // Nearness of a gang's members goes before all of these.
    let apart = |w: &&Wanted| w.together.levels.is_empty();
    for group in problem.groups.iter().filter(apart) {
        judge.evenness(group);
        judge.spreading(group);
        judge.preferences(group, answer);
    }
    judge.gangs(answer);
    judge.togetherness(answer);
    judge.reasons(answer);
    judge.broken
}

type GroupKey<'a> = (JobId, &'a GroupName, u32);

struct Judge<'a> {
    groups: BTreeMap<GroupKey<'a>, &'a Wanted>,
    /// The version of each instance.
    versions: BTreeMap<(JobId, &'a GroupName, InstanceNumber), u32>,
    hosts: BTreeMap<&'a HostId, &'a HostView>,
    /// Left of the offers; negative when over-committed.
    left: BTreeMap<&'a HostId, [i128; 4]>,
    /// Left of what is offered to be lent.
    lent: BTreeMap<&'a HostId, [i128; 4]>,
    /// Ports of the offers that nobody was given.
    ports: BTreeMap<&'a HostId, BTreeSet<u16>>,
    placed: BTreeMap<(GroupKey<'a>, &'a HostId), u32>,
    runs: Option<Runs<'a>>,
    broken: Vec<Broken>,
}

impl<'a> Judge<'a> {
    fn new(problem: &'a Problem) -> Self {
        let kept = problem.hosts.views().iter().map(|h| (&h.id, h));
        let mut hosts: BTreeMap<&HostId, &HostView> = kept.collect();
        for view in &problem.otherwise {
            hosts.entry(&view.id).and_modify(|at| *at = view);
        }
        let of_all = || hosts.values().copied();
        Self {
            groups: problem.groups.iter().map(|g| (key(g), g)).collect(),
            versions: problem.groups.iter().flat_map(versions).collect(),
            left: of_all().map(|h| (&h.id, amounts(h.free))).collect(),
            lent: of_all().map(|h| (&h.id, amounts(h.slack.free))).collect(),
            ports: of_all().map(|h| (&h.id, h.ports.iter().collect())).collect(),
            hosts,
            placed: BTreeMap::new(),
            runs: None,
            broken: Vec::new(),
        }
    }

    fn find(&self, choice: &Choice) -> Option<(&'a Wanted, &'a HostView)> {
        let InstanceId { job, group, number } = &choice.instance;
        let wanted = self.wish(*job, group, *number)?;
        Some((wanted, self.hosts.get(&choice.host)?))
    }

    /// The wish that an instance is part of.
    fn wish(&self, job: JobId, group: &GroupName, number: InstanceNumber) -> Option<&'a Wanted> {
        let version = self.versions.get(&(job, group, number))?;
        self.groups.get(&(job, group, *version)).copied()
    }

    fn wish_of(&self, unplaced: &Unplaced) -> Option<&'a Wanted> {
        let first = unplaced.numbers.numbers().next()?;
        self.wish(unplaced.job, &unplaced.group, first)
    }

    fn choice(&mut self, choice: &Choice) {
        let (instance, host) = (choice.instance.clone(), choice.host.clone());
        let Some((wanted, view)) = self.find(choice) else {
            self.broken.push(Broken::Unknown(instance, host));
            return;
        };
        let bound = bound(wanted, choice.instance.number);
        let wrong = match bound {
            Some(b) => b.host != view.id || !b.offered || view.draining || !meets(wanted, view),
            None => !allowed(wanted, view),
        };
        if wrong {
            self.broken
                .push(Broken::Constraint(instance.clone(), host.clone()));
        }
        let (needs, lent) = sides(wanted, view, shape(wanted, choice.instance.number));
        for (room, needs) in [(&mut self.left, needs), (&mut self.lent, lent)] {
            let have = room.get_mut(&view.id).into_iter().flatten();
            have.zip(needs).for_each(|(have, need)| *have -= need);
        }
        let free = self.ports.entry(&view.id).or_default();
        let as_wished = wanted.ports.len() == choice.ports.len()
            && wanted
                .ports
                .iter()
                .zip(&choice.ports)
                .all(|(w, p)| w.unwrap_or(*p) == *p);
        let given = choice.ports.iter().filter(|p| free.remove(p)).count();
        if !as_wished || given != choice.ports.len() {
            self.broken.push(Broken::Ports(instance, host));
        }
        *self.placed.entry((key(wanted), &view.id)).or_default() += 1;
    }

    fn over_commitment(&mut self) {
        for (host, left) in self.left.iter().chain(&self.lent) {
            for (kind, have) in Kind::ALL.into_iter().zip(left) {
                if *have < 0 {
                    self.broken.push(Broken::OverCommitted((*host).clone(), kind));
                }
            }
        }
    }

    fn answered_once(&mut self, answer: &Answer) {
        let mut times: BTreeMap<InstanceId, u32> = BTreeMap::new();
        for wanted in self.groups.values() {
            times.extend(wanted.items.iter().map(|i| (instance(wanted, i.number), 0)));
            times.extend(wanted.bound.iter().map(|b| (instance(wanted, b.number), 0)));
        }
        let placed = answer.choices.iter().map(|c| c.instance.clone());
        let unplaced = answer.unplaced.iter().flat_map(|u| {
            u.numbers.numbers().map(|number| InstanceId {
                job: u.job,
                group: u.group.clone(),
                number,
            })
        });
        for id in placed.chain(unplaced) {
            *times.entry(id).or_default() += 1;
        }
        let wrong = times.into_iter().filter(|(_, n)| *n != 1);
        self.broken.extend(wrong.map(|(id, n)| Broken::Answered(id, n)));
    }

    /// A host that a group may use and that still fits one more of its instances.
    fn open(&self, wanted: &Wanted) -> impl Iterator<Item = &'a HostId> {
        let has = |left: Option<&[i128; 4]>, needs: [i128; 4]| {
            left.is_some_and(|l| needs.iter().zip(l).all(|(need, have)| need <= have))
        };
        self.hosts
            .values()
            .filter(move |view| {
                let (needs, lent) = sides(wanted, view, wanted.resources);
                let ports = self.ports.get(&view.id);
                ports.is_some_and(|free| has_ports(wanted, free))
                    && allowed(wanted, view)
                    && self.has_place(wanted, view)
                    && self.others_let(wanted, view)
                    && has(self.left.get(&view.id), needs)
                    && has(self.lent.get(&view.id), lent)
            })
            .map(|view| &view.id)
    }

    /// The host of a bound instance, if it could run there after all.
    fn still_fits(&self, wanted: &Wanted, b: &Bound) -> Option<&'a HostId> {
        let view = self
            .hosts
            .get(&b.host)
            .filter(|v| !v.draining && b.offered && meets(wanted, v))?;
        let (left, ports) = (self.left.get(&view.id)?, self.ports.get(&view.id)?);
        let need = amounts(wanted.beside_volume());
        let fits = need.iter().zip(left).all(|(n, have)| n <= have) && has_ports(wanted, ports);
        // By others it is judged only where nobody is: what came after its turn may have brought it near.
        let near = wanted.siting.affinity.iter().any(|a| a.weight.is_none());
        let fits = fits && !near && self.has_place(wanted, view) && self.others_let(wanted, view);
        fits.then_some(&view.id)
    }

    fn room_left(&mut self, answer: &Answer) {
        for u in &answer.unplaced {
            let Some(wanted) = self.wish_of(u) else {
                continue;
            };
            // What fits is not enough for the rest of it.
            if wanted.gang {
                continue;
            }
            let first = u.numbers.numbers().next();
            let found = match first.and_then(|n| bound(wanted, n)) {
                Some(b) => self.still_fits(wanted, b),
                None => self.open(wanted).next(),
            };
            if let (Some(host), Some(number)) = (found, first) {
                let id = instance(wanted, number);
                self.broken.push(Broken::RoomLeft(id, host.clone()));
            }
        }
    }

    fn gangs(&mut self, answer: &Answer) {
        let placed: BTreeSet<JobId> = answer.choices.iter().map(|c| c.instance.job).collect();
        let left: BTreeSet<JobId> = answer.unplaced.iter().map(|u| u.job).collect();
        let gangs: BTreeSet<JobId> = self.groups.values().filter(|g| g.gang).map(|g| g.job).collect();
        let parted = gangs
            .into_iter()
            .filter(|g| placed.contains(g) && left.contains(g));
        self.broken.extend(parted.map(Broken::Parted));
    }

    fn avoidance(&mut self, choice: &Choice) {
        let found = self.find(choice).filter(|(w, _)| w.together.levels.is_empty());
        let Some((wanted, _)) = found else { return };
        let number = choice.instance.number;
        let Some(item) = wanted.items.iter().find(|i| i.number == number) else {
            return;
        };
        if !item.avoid.contains(&choice.host) {
            return;
        }
        let other = self.open(wanted).find(|h| !item.avoid.contains(h)).cloned();
        if let Some(host) = other {
            self.broken.push(Broken::Avoidable(choice.instance.clone(), host));
        }
    }

    /// Only where no instance avoids a host: avoiding goes before evenness.
    fn evenness(&mut self, wanted: &'a Wanted) {
        let siting = &wanted.siting;
        let soft = |list: &[Affinity]| list.iter().any(|a| a.weight.is_some());
        let others_first = !siting.spread_over.is_empty()
            || !siting.preferences.is_empty()
            || soft(&siting.affinity)
            || soft(&siting.anti_affinity);
        let spread = siting.strategy.as_deref().unwrap_or("spread") == "spread";
        if others_first
            || !spread
            || !self.is_of_one_version(wanted)
            || wanted.kind != JobKind::Service
            || wanted.items.iter().any(|i| !i.avoid.is_empty())
        {
            return;
        }
        let key = key(wanted);
        let newly = |host: &HostId| self.placed.get(&(key, host)).copied().unwrap_or(0);
        let on_machines = self.on_machines(wanted);
        let count = |host: &HostId| {
            let machine = self.hosts.get(host).and_then(|view| place(HOSTNAME, view));
            machine
                .and_then(|name| on_machines.get(name))
                .copied()
                .unwrap_or(0)
        };
        // Who is bound to a host had no choice.
        let bound = |host: &HostId| wanted.bound.iter().filter(|b| b.host == *host).count();
        let most = self
            .hosts
            .keys()
            .filter(|h| newly(h) as usize > bound(h))
            .max_by_key(|h| count(h));
        let least = self.open(wanted).min_by_key(|h| count(h));
        if let (Some(most), Some(least)) = (most, least)
            && count(least) + 1 < count(most)
        {
            let (most, least) = ((*most).clone(), least.clone());
            self.broken
                .push(Broken::Uneven(wanted.job, wanted.group.clone(), most, least));
        }
    }

    fn reasons(&mut self, answer: &Answer) {
        for u in &answer.unplaced {
            let wanted = self.wish_of(u);
            let first = u.numbers.numbers().next();
            let alone = wanted.zip(first).is_some_and(|(w, n)| bound(w, n).is_some());
            let shape = wanted.zip(first).map(|(w, n)| shape(w, n));
            let real = u
                .reason
                .shortfall
                .as_ref()
                .is_none_or(|s| s.have < s.need && shape.is_some_and(|r| r.get(s.kind) == s.need));
            let o = &u.hosts;
            let rules = [o.affinity, o.anti_affinity, o.exclusive, o.max_per];
            let closed = [o.host_pool, o.constraint, o.kept, o.maintenance];
            let room = [o.slack, o.capacity, o.room, o.ports, o.not_offered()];
            let counted = rules.iter().chain(&closed).chain(&room).sum::<u32>() == o.hosts;
            // It waits for another group, whose reason is judged.
            if matches!(u.reason.code, ReasonCode::GangWaits | ReasonCode::GangTopology) {
                continue;
            }
            let all = if alone { 1 } else { self.hosts.len() };
            if !real || !counted || all != o.hosts as usize {
                self.broken.push(Broken::FalseReason(u.job, u.group.clone()));
            }
        }
    }
}

const fn key(wanted: &Wanted) -> GroupKey<'_> {
    (wanted.job, &wanted.group, wanted.version)
}

fn versions(wanted: &Wanted) -> impl Iterator<Item = ((JobId, &GroupName, InstanceNumber), u32)> {
    let items = wanted.items.iter().map(|i| i.number);
    let all = items.chain(wanted.bound.iter().map(|b| b.number));
    all.map(|n| ((wanted.job, &wanted.group, n), wanted.version))
}

fn bound(wanted: &Wanted, number: InstanceNumber) -> Option<&Bound> {
    wanted.bound.iter().find(|b| b.number == number)
}

fn shape(wanted: &Wanted, number: InstanceNumber) -> Resources {
    match bound(wanted, number) {
        Some(_) => wanted.resources.minus(wanted.held),
        None => wanted.resources,
    }
}

fn has_ports(wanted: &Wanted, free: &BTreeSet<u16>) -> bool {
    let certain: BTreeSet<u16> = wanted.ports.iter().flatten().copied().collect();
    let different = certain.len() == wanted.ports.iter().flatten().count();
    different && certain.is_subset(free) && wanted.ports.len() <= free.len()
}

fn amounts(r: Resources) -> [i128; 4] {
    [r.cpus, r.memory, r.disk, r.gpus].map(i128::from)
}

/// What is needed of a host's ordinary room and of what it lends: no kind of both.
fn sides(wanted: &Wanted, host: &HostView, shape: Resources) -> ([i128; 4], [i128; 4]) {
    let mut ordinary = amounts(shape);
    let mut lent = [0; 4];
    let lends = amounts(host.slack.capacity);
    let of_kinds = ordinary.iter_mut().zip(&mut lent).zip(lends);
    for (at, ((ordinary, lent), lends)) in of_kinds.enumerate() {
        if wanted.revocable && (at == 0 || lends > 0) {
            *lent = std::mem::take(ordinary);
        }
    }
    (ordinary, lent)
}

fn allowed(wanted: &Wanted, host: &HostView) -> bool {
    let set_aside = host.kept && wanted.resources.gpus < 1;
    !set_aside && meets(wanted, host)
}

fn meets(wanted: &Wanted, host: &HostView) -> bool {
    let pool = wanted.siting.host_pool.to_string();
    let in_pool = pool == "*" || pool == host.host_pool.as_str();
    in_pool && wanted.constraints.iter().all(|rule| meets_rule(rule, host))
}

fn meets_rule(rule: &Constraint, host: &HostView) -> bool {
    let passes = values(rule, host).is_some_and(|text| {
        let mut parts = text.split(',').chain([text]);
        parts.any(|part| passes(rule, part))
    });
    if rule.negate { !passes } else { passes }
}

fn passes(rule: &Constraint, value: &str) -> bool {
    match &rule.test {
        Test::In(values) => values.iter().any(|v| v == value),
        Test::Exists => true,
        Test::Compares(how, n) => match (Number::parse(value), how) {
            (None, _) => false,
            (Some(v), Comparison::Less) => v.0 < n.0,
            (Some(v), Comparison::AtMost) => v.0 <= n.0,
            (Some(v), Comparison::More) => v.0 > n.0,
            (Some(v), Comparison::AtLeast) => v.0 >= n.0,
        },
        Test::Matches(text) => pattern(text).is_ok_and(|p| p.is_match(value)),
    }
}

fn values<'h>(rule: &Constraint, host: &'h HostView) -> Option<&'h str> {
    match rule.attribute.as_str() {
        "hostname" => Some(&host.hostname),
        name => host.attributes.get(name).map(String::as_str),
    }
}

fn instance(wanted: &Wanted, number: InstanceNumber) -> InstanceId {
    InstanceId {
        job: wanted.job,
        group: wanted.group.clone(),
        number,
    }
}
