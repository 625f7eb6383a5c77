//! The plain model: a placer that looks at every host for every instance and judges each rule from its words. The engine finds hosts for
//! the same instances, and for each the very host that is best by the documented order.

use super::{group, host, in_pool, judged, problem, rule, with_attribute};
use crate::{Neighbour, Problem, Wanted, place};
use echelon_core_model::cluster::HostView;
use echelon_core_model::host_pool::HostPoolChoice;
use echelon_core_model::siting::{Affinity, Comparison, Constraint, Number, Preference, Test};
use echelon_core_model::spec::JobKind;
use echelon_core_model::{GroupName, HostId, HostPoolName, JobId, Kind, Resources};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

const CASES: u64 = 10_000;

struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[usize::try_from(self.below(texts.len() as u64)).unwrap()]
    }
}

fn label(text: &str) -> BTreeMap<String, String> {
    [("app".to_owned(), text.to_owned())].into()
}

fn a_host(dice: &mut Dice, n: u64) -> HostView {
    let mut room = |most: u64| Resources {
        cpus: dice.below(most),
        memory: dice.below(most),
        ..Resources::ZERO
    };
    let (free, used) = (room(9), room(4));
    let mut view = host(&format!("h{n}"), free);
    view.capacity = free.plus(used);
    view.used = used;
    // Some agents share a machine.
    if dice.one_in(5) {
        view.hostname = "h0.example".into();
    }
    for (name, values) in [
        ("zone", &["a", "b"][..]),
        ("rack", &["r1", "r2", "r3"]),
        ("cores", &["4", "8", "x"]),
    ] {
        if !dice.one_in(4) {
            view = with_attribute(view, name, dice.of(values));
        }
    }
    if dice.one_in(4) {
        view = in_pool(view, "batch");
    }
    view
}

fn an_affinity(dice: &mut Dice, soft: bool) -> Affinity {
    Affinity {
        labels: label(dice.of(&["db", "web"])),
        topology: dice.of(&["hostname", "rack", "zone"]).to_owned(),
        weight: (soft || dice.one_in(3)).then(|| u32::try_from(1 + dice.below(9)).unwrap()),
    }
}

fn a_constraint(dice: &mut Dice) -> Constraint {
    let of = |attribute: &str, test| Constraint {
        test,
        ..rule(attribute, &[], false)
    };
    let rule = match dice.below(4) {
        0 => rule("zone", &["a"], false),
        1 => of("rack", Test::Exists),
        2 => of("cores", Test::Compares(Comparison::AtLeast, Number(5_000_000))),
        _ => of("rack", Test::Matches("r[12]".to_owned())),
    };
    if dice.one_in(2) { rule.turned() } else { rule }
}

fn a_group(dice: &mut Dice, job: u64, hosts: u64) -> Wanted {
    let kind = if dice.one_in(2) {
        JobKind::Service
    } else {
        JobKind::Batch
    };
    let shape = Resources {
        cpus: dice.below(4),
        memory: dice.below(4),
        ..Resources::ZERO
    };
    let mut wanted = group(job.into(), kind, u32::try_from(dice.below(6)).unwrap(), shape);
    wanted.priority = u32::try_from(dice.below(2)).unwrap();
    wanted.labels = Arc::new(label(dice.of(&["db", "web", "other"])));
    if dice.one_in(3) {
        wanted.constraints.push(a_constraint(dice));
    }
    if dice.one_in(5) {
        let at = HostId::new(format!("h{}", dice.below(hosts)));
        wanted
            .present
            .insert(at, u32::try_from(1 + dice.below(2)).unwrap());
    }
    let siting = &mut wanted.siting;
    if dice.one_in(3) {
        let by = dice.of(&["hostname", "rack", "zone", "nothing"]);
        siting
            .max_per
            .insert(by.to_owned(), u32::try_from(1 + dice.below(3)).unwrap());
    }
    if dice.one_in(3) {
        siting.spread_over.push("zone".to_owned());
    }
    if dice.one_in(4) {
        siting.spread_over.push(dice.of(&["rack", "hostname"]).to_owned());
    }
    if dice.one_in(3) {
        let weight = [-5, 3][usize::from(dice.one_in(2))];
        siting.preferences.push(Preference {
            rule: a_constraint(dice),
            weight,
        });
    }
    if dice.one_in(5) {
        siting.affinity.push(an_affinity(dice, false));
    }
    if dice.one_in(4) {
        siting.anti_affinity.push(an_affinity(dice, false));
    }
    siting.host_pool = match dice.below(6) {
        0 => HostPoolChoice::Any,
        1 => HostPoolChoice::Only(HostPoolName::new("batch")),
        2 => HostPoolChoice::Only(HostPoolName::new("none")),
        _ => HostPoolChoice::default(),
    };
    siting.exclusive = dice.one_in(8);
    siting.strategy = [None, None, Some("pack"), Some("spread"), Some("first-fit")]
        [usize::try_from(dice.below(5)).unwrap()]
    .map(str::to_owned);
    wanted
}

fn a_case(seed: u64) -> Problem {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let n = 1 + dice.below(7);
    let hosts = (0..n).map(|h| a_host(&mut dice, h)).collect();
    let groups = (0..1 + dice.below(4))
        .map(|job| a_group(&mut dice, job, n))
        .collect();
    let mut out = problem(seed, groups, hosts);
    // A job that is there, and one that is asked about and has something there, too.
    for job in [90, 0] {
        if dice.one_in(2) {
            let away = dice
                .one_in(3)
                .then(|| an_affinity(&mut dice, false))
                .filter(|a| a.weight.is_none());
            out.others.push(Neighbour {
                job: JobId(job),
                labels: Arc::new(label(dice.of(&["db", "web"]))),
                exclusive: dice.one_in(5),
                away_from: away.into_iter().collect(),
                hosts: vec![HostId::new(format!("h{}", dice.below(n)))],
            });
        }
    }
    out
}

/// A run as the model knows it.
#[derive(Clone)]
struct Run {
    job: JobId,
    group: Option<GroupName>,
    labels: Arc<BTreeMap<String, String>>,
    exclusive: bool,
    away_from: Vec<Affinity>,
    host: usize,
}

struct Model<'p> {
    problem: &'p Problem,
    free: Vec<Resources>,
    runs: Vec<Run>,
}

impl<'p> Model<'p> {
    fn new(problem: &'p Problem) -> Self {
        let mut runs = Vec::new();
        let at = |id: &HostId| problem.hosts.views().iter().position(|h| h.id == *id);
        for other in &problem.others {
            runs.extend(other.hosts.iter().filter_map(at).map(|host| Run {
                job: other.job,
                group: None,
                labels: Arc::clone(&other.labels),
                exclusive: other.exclusive,
                away_from: other.away_from.clone(),
                host,
            }));
        }
        Self {
            problem,
            free: problem.hosts.views().iter().map(|h| h.free).collect(),
            runs,
        }
    }

    fn value(&self, attribute: &str, host: usize) -> Option<String> {
        let view = &self.problem.hosts.views()[host];
        match attribute {
            "hostname" => Some(view.hostname.to_string()),
            name => view.attributes.get(name).cloned(),
        }
    }

    fn near(&self, attribute: &str, a: usize, b: usize) -> bool {
        self.value(attribute, a)
            .is_some_and(|v| self.value(attribute, b) == Some(v))
    }

    /// How many of the group are where the host is.
    fn count(&self, wanted: &Wanted, attribute: &str, host: usize) -> u32 {
        let here = |h: usize| self.value(attribute, h) == self.value(attribute, host);
        let views = self.problem.hosts.views();
        let present = wanted
            .present
            .iter()
            .filter_map(|(id, n)| Some((views.iter().position(|v| v.id == *id)?, n)));
        let before: u32 = present.filter(|(h, _)| here(*h)).map(|(_, n)| *n).sum();
        let own = |r: &&Run| r.job == wanted.job && r.group.as_ref() == Some(&wanted.group) && here(r.host);
        before + u32::try_from(self.runs.iter().filter(own).count()).unwrap()
    }

    fn others(&self, wanted: &Wanted) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|r| r.job != wanted.job)
    }

    fn holds(&self, rule: &Affinity, wanted: &Wanted, host: usize) -> bool {
        let mut meant = self.others(wanted).filter(|r| rule.means(&r.labels));
        meant.any(|r| self.near(&rule.topology, host, r.host))
    }

    fn allows(&self, wanted: &Wanted, host: usize) -> bool {
        let view = &self.problem.hosts.views()[host];
        let siting = &wanted.siting;
        let hard = |list: &'_ [Affinity]| {
            list.iter()
                .filter(|a| a.weight.is_none())
                .cloned()
                .collect::<Vec<_>>()
        };
        wanted.resources.fits(self.free[host])
            && (siting.host_pool == HostPoolChoice::Any
                || siting.host_pool.to_string() == view.host_pool.to_string())
            && wanted.constraints.iter().all(|c| crate::holds(c, view))
            && siting
                .max_per
                .iter()
                .all(|(by, most)| self.count(wanted, by, host) < *most)
            && hard(&siting.affinity)
                .iter()
                .all(|rule| self.holds(rule, wanted, host))
            && !hard(&siting.anti_affinity)
                .iter()
                .any(|rule| self.holds(rule, wanted, host))
            && !self.others(wanted).any(|r| {
                let minds =
                    |rule: &Affinity| rule.means(&wanted.labels) && self.near(&rule.topology, host, r.host);
                r.away_from.iter().any(minds)
                    || self.near("hostname", host, r.host) && (r.exclusive || siting.exclusive)
            })
    }

    fn score(&self, wanted: &Wanted, host: usize) -> i64 {
        let view = &self.problem.hosts.views()[host];
        let siting = &wanted.siting;
        let preferred = siting.preferences.iter().filter(|p| crate::holds(&p.rule, view));
        let weight = |list: &[Affinity]| -> i64 {
            let soft = list.iter().filter(|a| self.holds(a, wanted, host));
            soft.map(|a| i64::from(a.weight.unwrap_or_default())).sum()
        };
        preferred.map(|p| i64::from(p.weight)).sum::<i64>() + weight(&siting.affinity)
            - weight(&siting.anti_affinity)
    }

    fn size(&self, host: usize) -> u64 {
        let of = |kind: Kind| {
            let views = self.problem.hosts.views().iter();
            let most = views
                .map(|h| h.capacity.get(kind).max(h.free.get(kind)))
                .max()
                .unwrap_or(0);
            (self.free[host].get(kind) * 1_000_000)
                .checked_div(most)
                .unwrap_or(0)
        };
        Kind::ALL.into_iter().map(of).sum()
    }

    /// The documented order: evenness over each attribute, names last; weights; the strategy.
    fn best(&self, wanted: &Wanted) -> Option<usize> {
        let over = &wanted.siting.spread_over;
        let by_kind = if wanted.kind == JobKind::Batch {
            "pack"
        } else {
            "spread"
        };
        let strategy = wanted.siting.strategy.as_deref().unwrap_or(by_kind);
        let open = (0..self.free.len()).filter(|h| self.allows(wanted, *h));
        open.min_by_key(|h| {
            let attributes = over.iter().filter(|a| *a != "hostname");
            let even: Vec<u32> = attributes.map(|a| self.count(wanted, a, *h)).collect();
            let count = self.count(wanted, "hostname", *h);
            let by_host = if over.iter().any(|a| a == "hostname") {
                count
            } else {
                0
            };
            let by_strategy = match strategy {
                "pack" => (
                    0,
                    i64::try_from(self.size(*h)).unwrap(),
                    i64::try_from(*h).unwrap(),
                ),
                "spread" => (
                    i64::from(count),
                    -i64::try_from(self.size(*h)).unwrap(),
                    -i64::try_from(*h).unwrap(),
                ),
                _ => (0, 0, i64::try_from(*h).unwrap()),
            };
            (even, -self.score(wanted, *h), by_host, by_strategy)
        })
    }

    fn place(mut self) -> BTreeMap<(JobId, u32), HostId> {
        let mut groups: Vec<&Wanted> = self.problem.groups.iter().collect();
        groups.sort_by_key(|g| (Reverse(g.priority), g.job));
        let mut out = BTreeMap::new();
        for wanted in groups {
            // What others have is looked at once for a group, when it is its turn: none of them comes or goes meanwhile.
            for item in &wanted.items {
                let Some(host) = self.best(wanted) else { break };
                self.free[host] = self.free[host].minus(wanted.resources);
                let hard = wanted.siting.anti_affinity.iter().filter(|a| a.weight.is_none());
                self.runs.push(Run {
                    job: wanted.job,
                    group: Some(wanted.group.clone()),
                    labels: Arc::clone(&wanted.labels),
                    exclusive: wanted.siting.exclusive,
                    away_from: hard.cloned().collect(),
                    host,
                });
                let id = self.problem.hosts.views()[host].id.clone();
                out.insert((wanted.job, item.number.0), id);
            }
        }
        out
    }
}

#[test]
fn ten_thousand_small_cases_are_placed_as_the_plain_model_places_them() {
    let (mut placed, mut waiting) = (0, 0);
    for seed in 0..CASES {
        let case = a_case(seed);
        let answer = judged(&case);
        waiting += answer.unplaced.len();
        placed += answer.choices.len();
        let choices = answer.choices.into_iter();
        let places: BTreeMap<(JobId, u32), HostId> = choices
            .map(|c| ((c.instance.job, c.instance.number.0), c.host))
            .collect();
        assert_eq!(
            places,
            Model::new(&case).place(),
            "seed {seed}: {:#?}",
            case.groups
        );
    }
    assert!(
        placed > 20_000 && waiting > 3_000,
        "{placed} placed, {waiting} groups with waiting ones"
    );
}

/// What is said to be enough is put to the whole engine: one more instance of the group finds a host then.
#[test]
fn the_smallest_change_is_enough_in_ten_thousand_small_cases() {
    let (mut lowered, mut dropped, mut moved) = (0, 0, 0);
    for seed in 0..CASES {
        let case = a_case(seed);
        let [wanted] = case.groups.as_slice() else {
            continue;
        };
        let answer = place(&case).0;
        let Some(left) = answer.unplaced.first() else {
            continue;
        };
        let detail = left.reason.detail.clone().unwrap_or_default();
        let Some((_, change)) = detail.split_once("one would fit ") else {
            continue;
        };
        let mut asked = wanted.clone();
        match change.split_once(' ') {
            Some(("with", how)) => {
                lowered += 1;
                let (kind, to) = how.split_once(' ').unwrap();
                let kind = Kind::ALL.into_iter().find(|k| k.word() == kind).unwrap();
                let to = (0..20).find(|n| kind.show(*n) == to).unwrap();
                asked.resources = asked.resources.with(kind, to);
            }
            Some(("in", pool)) => {
                moved += 1;
                let name = pool.strip_prefix("host pool ").unwrap();
                asked.siting.host_pool = HostPoolChoice::parse(name).unwrap();
            }
            _ => {
                dropped += 1;
                without(&mut asked, change.strip_prefix("without ").unwrap());
            }
        }
        // The others of it are where they are; one is asked for anew.
        let mut hosts = case.hosts.views().to_vec();
        for choice in &answer.choices {
            let view = hosts.iter_mut().find(|h| h.id == choice.host).unwrap();
            view.free = view.free.minus(wanted.resources);
            *asked.present.entry(choice.host.clone()).or_default() += 1;
        }
        asked.items.truncate(1);
        let mut again = problem(seed, vec![asked], hosts);
        again.others.clone_from(&case.others);
        assert_eq!(
            judged(&again).choices.len(),
            1,
            "seed {seed}: {change}: {:#?}",
            again.groups
        );
    }
    assert!(
        lowered > 100 && dropped > 100 && moved > 100,
        "{lowered} lowered, {dropped} dropped, {moved} in another host pool"
    );
}

fn without(asked: &mut Wanted, rule: &str) {
    let siting = &mut asked.siting;
    if rule == "exclusive" {
        siting.exclusive = false;
    } else if let Some(cap) = rule.strip_prefix("max_per ") {
        siting.max_per.remove(cap.split_once(' ').unwrap().0);
    } else if let Some(near) = rule.strip_prefix("affinity ") {
        siting.affinity.retain(|a| a.to_string() != near);
    } else if let Some(away) = rule.strip_prefix("anti_affinity ") {
        siting.anti_affinity.retain(|a| a.to_string() != away);
    } else {
        asked.constraints.retain(|c| c.to_string() != rule);
    }
}
