//! How many instances of a class the hosts of a cluster hold: beside what runs there, and if nothing ran there. A host is counted
//! again only when it changed. Rules about where runs are do not count: not the job's own (`max_per`), and of other jobs' only that
//! an exclusive instance starts on no host that is in use.

use crate::constraint::Rule;
use crate::hosts::machine_of;
use echelon_core_model::class::{ClassDigest, ClassFit, InstanceClass, MOST_A_CLUSTER, MOST_A_HOST};
use echelon_core_model::cluster::HostView;
use echelon_core_model::{HostId, PortSet};
use std::collections::BTreeMap;

/// A host as it counts here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FitHost {
    /// The host. `free` is what tasks leave of it, offered at the moment or not; so is the free part of what it lends.
    pub view: HostView,
    /// All its ports. `None`: not known; then no class is short of them.
    pub ports: Option<PortSet>,
}

/// A host as it was counted, with what it holds of each class, in order of the digests.
#[derive(Debug, Clone)]
struct Counted {
    host: FitHost,
    /// Another host of its machine is in use.
    is_beside_work: bool,
    fits: Vec<ClassFit>,
}

impl FitHost {
    /// Whether nothing but what runs there differs, so that a host of another revision is no other one.
    fn is_same_host(&self, other: &Self) -> bool {
        let (a, b) = (&self.view, &other.view);
        a.capacity == b.capacity
            && a.host_pool == b.host_pool
            && a.kept == b.kept
            && a.hostname == b.hostname
            && (std::sync::Arc::ptr_eq(&a.attributes, &b.attributes) || a.attributes == b.attributes)
            && self.ports == other.ports
    }
}

/// How many instances of each class fit, kept up to date host by host.
#[derive(Debug, Clone, Default)]
pub struct FitCounts {
    classes: BTreeMap<ClassDigest, InstanceClass>,
    hosts: BTreeMap<HostId, Counted>,
    sums: Vec<ClassFit>,
    revision: u64,
}

impl FitCounts {
    /// The classes that are counted.
    #[must_use]
    pub const fn classes(&self) -> &BTreeMap<ClassDigest, InstanceClass> {
        &self.classes
    }

    /// Grows when hosts come or go, or when their size, attributes, ports or host pools change.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// How many instances of each class fit in sum.
    #[must_use]
    pub fn fits(&self) -> BTreeMap<ClassDigest, ClassFit> {
        let bounded = |fit: &ClassFit| ClassFit {
            now: fit.now.min(MOST_A_CLUSTER),
            ever: fit.ever.min(MOST_A_CLUSTER),
        };
        let sums = self.sums.iter().map(bounded);
        self.classes.keys().copied().zip(sums).collect()
    }

    /// Counts these classes from now on, and no others. `O(hosts classes)` unless they are those of before.
    pub fn set_classes(&mut self, classes: BTreeMap<ClassDigest, InstanceClass>) {
        if classes == self.classes {
            return;
        }
        self.classes = classes;
        let rules = rules_of(&self.classes);
        for of in self.hosts.values_mut() {
            of.fits = count(&rules, &of.host, of.is_beside_work);
        }
        let zero = vec![ClassFit::default(); self.classes.len()];
        let all = self.hosts.values().map(|of| &of.fits);
        self.sums = all.fold(zero, |sums, fits| zip(sums, fits, ClassFit::plus));
    }

    /// Takes in all hosts that may be used. `O(hosts)` comparisons, and one count of each class for each host that changed.
    pub fn set_hosts(&mut self, hosts: Vec<FitHost>) {
        let beside = beside_work(&hosts);
        let classes = std::mem::take(&mut self.classes);
        let mut rules = None;
        let mut before = std::mem::take(&mut self.hosts);
        let mut sums = std::mem::take(&mut self.sums);
        sums.resize(classes.len(), ClassFit::default());
        let mut is_other = false;
        for (host, is_beside_work) in hosts.into_iter().zip(beside) {
            let id = host.view.id.clone();
            let known = before.remove(&id);
            let is_same = |was: &Counted| was.host == host && was.is_beside_work == is_beside_work;
            if known.as_ref().is_some_and(is_same) {
                self.hosts.extend(known.map(|was| (id, was)));
                continue;
            }
            is_other |= known.as_ref().is_none_or(|was| !was.host.is_same_host(&host));
            if let Some(was) = known {
                sums = zip(sums, &was.fits, ClassFit::minus);
            }
            let rules = rules.get_or_insert_with(|| rules_of(&classes));
            let fits = count(rules, &host, is_beside_work);
            sums = zip(sums, &fits, ClassFit::plus);
            let counted = Counted {
                host,
                is_beside_work,
                fits,
            };
            self.hosts.insert(id, counted);
        }
        is_other |= !before.is_empty();
        for was in before.into_values() {
            sums = zip(sums, &was.fits, ClassFit::minus);
        }
        self.revision += u64::from(is_other);
        drop(rules);
        self.classes = classes;
        self.sums = sums;
    }
}

/// A class with its rules made ready.
type Ready<'a> = (&'a InstanceClass, Vec<Rule<'a>>);

fn rules_of(classes: &BTreeMap<ClassDigest, InstanceClass>) -> Vec<Ready<'_>> {
    classes.values().map(ready).collect()
}

fn ready(class: &InstanceClass) -> Ready<'_> {
    (class, class.constraints.iter().map(Rule::new).collect())
}

fn count(classes: &[Ready<'_>], host: &FitHost, is_beside_work: bool) -> Vec<ClassFit> {
    let is_taken = |class: &InstanceClass| class.exclusive && (is_beside_work || is_in_use(&host.view));
    let fit = |ready: &Ready<'_>| {
        let fit = count_class(ready, host);
        if is_taken(ready.0) {
            ClassFit { now: 0, ..fit }
        } else {
            fit
        }
    };
    classes.iter().map(fit).collect()
}

fn zip(sums: Vec<ClassFit>, counts: &[ClassFit], f: fn(ClassFit, ClassFit) -> ClassFit) -> Vec<ClassFit> {
    sums.into_iter().zip(counts).map(|(sum, n)| f(sum, *n)).collect()
}

/// How many instances of a class one host holds, were it the only one of its machine.
#[must_use]
pub fn fits_on(class: &InstanceClass, host: &FitHost) -> ClassFit {
    count(&[ready(class)], host, false)
        .first()
        .copied()
        .unwrap_or_default()
}

fn count_class((class, rules): &Ready<'_>, host: &FitHost) -> ClassFit {
    let view = &host.view;
    let is_out = view.draining
        || view.kept && class.shape.gpus == 0
        || !class.host_pool.lets(&view.host_pool)
        || !rules.iter().all(|rule| rule.holds(view));
    if is_out {
        return ClassFit::default();
    }
    let lent = if class.revocable {
        class.shape.lent_part(view.slack.capacity)
    } else {
        Default::default()
    };
    let own = class.shape.minus(lent);
    let ever = own
        .count_in(view.capacity)
        .min(lent.count_in(view.slack.capacity))
        .min(count_ports(&class.ports, host.ports.as_ref()))
        .min(MOST_A_HOST);
    let now = own
        .count_in(view.free)
        .min(lent.count_in(view.slack.free))
        .min(count_ports(&class.ports, view.ports_left.as_ref()));
    ClassFit {
        now: now.min(ever),
        ever,
    }
}

fn is_in_use(view: &HostView) -> bool {
    !(view.used.is_zero() && view.slack.used.is_zero())
}

/// Of each host whether another one of its machine is in use.
fn beside_work(hosts: &[FitHost]) -> Vec<bool> {
    let mut in_use: BTreeMap<&str, u32> = BTreeMap::new();
    for host in hosts.iter().filter(|host| is_in_use(&host.view)) {
        *in_use.entry(machine_of(&host.view)).or_default() += 1;
    }
    let beside = |host: &FitHost| {
        let of_machine = in_use.get(machine_of(&host.view)).copied();
        of_machine.is_some_and(|n| n > u32::from(is_in_use(&host.view)))
    };
    hosts.iter().map(beside).collect()
}

/// How many instances find their ports. Of a certain port a host has one.
fn count_ports(wishes: &[Option<u16>], ports: Option<&PortSet>) -> u64 {
    let Some(ports) = ports.filter(|_| !wishes.is_empty()) else {
        return u64::MAX;
    };
    if wishes.iter().any(Option::is_some) {
        return u64::from(echelon_core_model::ports::choose(wishes, ports).is_some());
    }
    let each = u64::try_from(wishes.len()).unwrap_or(u64::MAX);
    ports.count().checked_div(each).unwrap_or(u64::MAX)
}
