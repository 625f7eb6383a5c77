//! The judge's own view of rules that depend on where runs are: how many of a group are where, and who is near to whom.

use super::{Broken, GroupKey, Judge, bound, instance, key, meets_rule};
use crate::answer::{Answer, Choice};
use crate::problem::{Problem, Wanted};
use echelon_core_model::cluster::HostView;
use echelon_core_model::siting::{Affinity, HOSTNAME};
use echelon_core_model::{HostId, JobId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A run of some job on a host, and when it came there: before the question, with who is bound, or with its group's turn.
struct Run<'a> {
    job: JobId,
    labels: &'a BTreeMap<String, String>,
    exclusive: bool,
    away_from: Vec<&'a Affinity>,
    host: &'a HostView,
    came: Turn,
}

/// When an instance is seated: 0 before the question, 1 when it is bound, else 2; then by group.
type Turn = (u8, usize);

/// All runs there are with an answer.
pub(super) struct Runs<'a> {
    all: Vec<Run<'a>>,
    order: BTreeMap<GroupKey<'a>, usize>,
}

/// What hosts share by an attribute; by their names those that are on one machine.
pub(super) fn place<'h>(attribute: &str, host: &'h HostView) -> Option<&'h str> {
    if attribute == HOSTNAME {
        let name: &str = &host.hostname;
        Some(if name.is_empty() { host.id.as_str() } else { name })
    } else {
        host.attributes.get(attribute).map(String::as_str)
    }
}

fn are_near(attribute: &str, a: &HostView, b: &HostView) -> bool {
    place(attribute, a).is_some_and(|value| place(attribute, b) == Some(value))
}

impl<'a> Runs<'a> {
    pub(super) fn new(problem: &'a Problem, answer: &'a Answer, judge: &Judge<'a>) -> Self {
        let mut groups: Vec<&Wanted> = problem.groups.iter().collect();
        groups.sort_by_key(|g| (Reverse(g.priority), key(g)));
        let keys = groups.into_iter().map(key);
        let mut out = Self {
            all: Vec::new(),
            order: keys.zip(0..).collect(),
        };
        for of in &problem.others {
            let hosts = of.hosts.iter().filter_map(|id| judge.hosts.get(id));
            let runs = hosts.map(|host| Run {
                job: of.job,
                labels: &of.labels,
                exclusive: of.exclusive,
                away_from: of.away_from.iter().collect(),
                host,
                came: (0, 0),
            });
            out.all.extend(runs);
        }
        for choice in &answer.choices {
            let Some((wanted, host)) = judge.find(choice) else {
                continue;
            };
            let hard = wanted.siting.anti_affinity.iter().filter(|a| a.weight.is_none());
            out.all.push(Run {
                job: wanted.job,
                labels: &wanted.labels,
                exclusive: wanted.siting.exclusive,
                away_from: hard.collect(),
                host,
                came: out.turn(wanted, choice),
            });
        }
        out
    }

    fn turn(&self, wanted: &Wanted, choice: &Choice) -> Turn {
        let at = self.order.get(&key(wanted));
        let class = if bound(wanted, choice.instance.number).is_some() {
            1
        } else {
            2
        };
        (class, at.copied().unwrap_or_default())
    }

    fn of_others(&self, job: JobId) -> impl Iterator<Item = &Run<'a>> {
        self.all.iter().filter(move |r| r.job != job)
    }

    fn is_near_enough(&self, wanted: &Wanted, host: &HostView, until: Turn) -> bool {
        let hard = wanted.siting.affinity.iter().filter(|a| a.weight.is_none());
        hard.into_iter().all(|rule| {
            let mut runs = self.of_others(wanted.job).filter(|r| r.came < until);
            runs.any(|r| has_labels(rule, r.labels) && are_near(&rule.topology, host, r.host))
        })
    }

    fn is_too_near(&self, wanted: &Wanted, host: &HostView) -> bool {
        let own: Vec<&Affinity> = wanted
            .siting
            .anti_affinity
            .iter()
            .filter(|a| a.weight.is_none())
            .collect();
        self.of_others(wanted.job).any(|run| {
            let we_mind = own
                .iter()
                .any(|rule| has_labels(rule, run.labels) && are_near(&rule.topology, host, run.host));
            let they_mind = run
                .away_from
                .iter()
                .any(|rule| has_labels(rule, &wanted.labels) && are_near(&rule.topology, host, run.host));
            we_mind || they_mind
        })
    }

    fn is_shared(&self, wanted: &Wanted, host: &HostView) -> bool {
        self.of_others(wanted.job)
            .any(|r| are_near(HOSTNAME, r.host, host) && (r.exclusive || wanted.siting.exclusive))
    }
}

fn has_labels(rule: &Affinity, labels: &BTreeMap<String, String>) -> bool {
    rule.labels
        .iter()
        .all(|(key, value)| labels.get(key).is_some_and(|v| v == value))
}

impl<'a> Judge<'a> {
    /// How many of a group are where this host is by an attribute, and how many of these came with the answer by their own choice.
    fn counted(&self, wanted: &Wanted, attribute: &str, host: &HostView) -> (u32, u32) {
        let here = |id: &HostId| {
            let view = self.hosts.get(id);
            view.is_some_and(|v| place(attribute, v) == place(attribute, host))
        };
        let before = wanted.present.iter().filter(|(id, _)| here(id)).map(|(_, n)| *n);
        let of = |((job, group, _), id): &(GroupKey<'_>, &HostId)| {
            *job == wanted.job && **group == wanted.group && here(id)
        };
        let new: u32 = self
            .placed
            .iter()
            .filter(|(key, _)| of(key))
            .map(|(_, n)| *n)
            .sum();
        (before.sum::<u32>() + new, new)
    }

    /// How many of a group machines have, by name.
    pub(super) fn on_machines(&self, wanted: &Wanted) -> BTreeMap<&'a str, u32> {
        let key = key(wanted);
        let new = self.placed.iter().filter(|((of, _), _)| *of == key);
        let new = new.map(|((_, host), n)| (*host, *n));
        let all = wanted.present.iter().map(|(host, n)| (host, *n)).chain(new);
        let mut out = BTreeMap::new();
        for (host, n) in all {
            if let Some(name) = self.hosts.get(host).and_then(|view| place(HOSTNAME, view)) {
                *out.entry(name).or_default() += n;
            }
        }
        out
    }

    /// Whether the instances of a group that are asked about are alike: others come before or after, and may have other hosts.
    pub(super) fn is_of_one_version(&self, wanted: &Wanted) -> bool {
        let of = |key: &&GroupKey<'_>| key.0 == wanted.job && *key.1 == wanted.group;
        self.groups.keys().filter(of).count() == 1
    }

    /// Whether one more of a group may be where a host is.
    pub(super) fn has_place(&self, wanted: &Wanted, host: &HostView) -> bool {
        let mut caps = wanted.siting.max_per.iter();
        caps.all(|(attribute, most)| self.counted(wanted, attribute, host).0 < *most)
    }

    /// Whether the runs of others let one more of a group be on a host at its turn.
    pub(super) fn others_let(&self, wanted: &Wanted, host: &HostView) -> bool {
        let Some(runs) = &self.runs else { return true };
        let turn = runs.order.get(&key(wanted));
        runs.is_near_enough(wanted, host, (2, turn.copied().unwrap_or_default()))
            && !runs.is_too_near(wanted, host)
            && !runs.is_shared(wanted, host)
    }

    /// Each choice keeps what its group and the others want of each other.
    pub(super) fn nearness(&mut self, answer: &Answer) {
        let Some(runs) = self.runs.take() else { return };
        for choice in &answer.choices {
            let Some((wanted, host)) = self.find(choice) else {
                continue;
            };
            let at = || (choice.instance.clone(), choice.host.clone());
            if !runs.is_near_enough(wanted, host, runs.turn(wanted, choice)) {
                self.broken.push(Broken::Far(at().0, at().1));
            }
            if runs.is_too_near(wanted, host) {
                self.broken.push(Broken::Near(at().0, at().1));
            }
            if runs.is_shared(wanted, host) {
                self.broken.push(Broken::Shared(at().0, at().1));
            }
            for (attribute, most) in &wanted.siting.max_per {
                if self.counted(wanted, attribute, host).0 > *most {
                    self.broken.push(Broken::TooMany(at().0, at().1));
                }
            }
        }
        self.runs = Some(runs);
    }

    /// A group that is spread over an attribute has not two more by one value than by another where a host still fits. Only by the first
    /// attribute, which goes before the others, and where no instance avoids a host.
    pub(super) fn spreading(&mut self, wanted: &'a Wanted) {
        let mut over = wanted.siting.spread_over.iter().filter(|a| *a != HOSTNAME);
        let Some(attribute) = over.next() else { return };
        if wanted.items.iter().any(|i| !i.avoid.is_empty()) || !self.is_of_one_version(wanted) {
            return;
        }
        let open: Vec<&HostView> = self
            .open(wanted)
            .filter_map(|id| self.hosts.get(id).copied())
            .collect();
        let least = open.iter().map(|h| self.counted(wanted, attribute, h).0).min();
        let bound: BTreeSet<Option<&str>> = wanted
            .bound
            .iter()
            .filter_map(|b| Some(place(attribute, self.hosts.get(&b.host)?)))
            .collect();
        let chosen = self
            .hosts
            .values()
            .filter(|h| !bound.contains(&place(attribute, h)));
        let counts = chosen.map(|h| self.counted(wanted, attribute, h));
        let most = counts.filter(|(_, new)| *new > 0).map(|(all, _)| all).max();
        if let (Some(most), Some(least)) = (most, least)
            && least + 1 < most
        {
            let of = (wanted.job, wanted.group.clone());
            self.broken.push(Broken::Lopsided(of.0, of.1, attribute.clone()));
        }
    }

    /// A gang that has to be together is on hosts that share a value of one of its attributes, those of its other members among them.
    pub(super) fn togetherness(&mut self, answer: &Answer) {
        let required = self.groups.values().filter(|w| w.together.required);
        let gangs: BTreeMap<JobId, &Wanted> = required.map(|w| (w.job, *w)).collect();
        for (job, wanted) in gangs {
            let new = answer.choices.iter().filter(|c| c.instance.job == job);
            let new: BTreeSet<&HostId> = new.map(|c| &c.host).collect();
            let hosts = || new.iter().copied().chain(&wanted.together.with);
            let views: Vec<&HostView> = hosts().filter_map(|id| self.hosts.get(id).copied()).collect();
            let (Some(first), false) = (views.first(), new.is_empty()) else {
                continue;
            };
            let mut levels = wanted.together.levels.iter();
            if !levels.any(|by| views.iter().all(|v| are_near(by, first, v))) {
                self.broken.push(Broken::Scattered(job));
            }
        }
    }

    /// Nobody is on a host that is preferred less than one that still fits, where nothing goes before that.
    pub(super) fn preferences(&mut self, wanted: &'a Wanted, answer: &Answer) {
        let siting = &wanted.siting;
        let soft = |list: &[Affinity]| list.iter().any(|a| a.weight.is_some());
        let others = soft(&siting.affinity) || soft(&siting.anti_affinity) || !siting.spread_over.is_empty();
        if siting.preferences.is_empty() || others {
            return;
        }
        let score = |host: &HostView| -> i64 {
            let of = siting.preferences.iter().filter(|p| meets_rule(&p.rule, host));
            of.map(|p| i64::from(p.weight)).sum()
        };
        let open = self.open(wanted).filter_map(|id| self.hosts.get(id).copied());
        let Some(best) = open.max_by_key(|h| score(h)) else {
            return;
        };
        for item in wanted.items.iter().filter(|i| i.avoid.is_empty()) {
            let id = instance(wanted, item.number);
            let choice = answer.choices.iter().find(|c| c.instance == id);
            let host = choice.and_then(|c| self.hosts.get(&c.host));
            if host.is_some_and(|h| score(h) < score(best)) {
                self.broken.push(Broken::Unpreferred(id, best.id.clone()));
            }
        }
    }
}
