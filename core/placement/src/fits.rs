//! How many instances of a class the hosts of a cluster hold: beside what runs there, and if nothing ran there. A host is counted
//! again only when it changed. Rules about where runs are do not count: not the job's own (`max_per`), and of other jobs' only that
//! an exclusive instance starts on no host that is in use.

use crate::constraint::Rule;
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
    /// Each host as it was counted, with what it holds of each class, in order of the digests.
    hosts: BTreeMap<HostId, (FitHost, Vec<ClassFit>)>,
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
        for (host, counts) in self.hosts.values_mut() {
            *counts = count(&rules, host);
        }
        let zero = vec![ClassFit::default(); self.classes.len()];
        let all = self.hosts.values().map(|(_, counts)| counts);
        self.sums = all.fold(zero, |sums, counts| zip(sums, counts, ClassFit::plus));
    }

    /// Takes in all hosts that may be used. `O(hosts)` comparisons, and one count of each class for each host that changed.
    pub fn set_hosts(&mut self, hosts: Vec<FitHost>) {
        let classes = std::mem::take(&mut self.classes);
        let mut rules = None;
        let mut before = std::mem::take(&mut self.hosts);
        let mut sums = std::mem::take(&mut self.sums);
        sums.resize(classes.len(), ClassFit::default());
        let mut is_other = false;
        for host in hosts {
            let id = host.view.id.clone();
            let known = before.remove(&id);
            if let Some((_, counts)) = known.as_ref().filter(|(was, _)| *was == host) {
                let counts = counts.clone();
                self.hosts.insert(id, (host, counts));
                continue;
            }
            is_other |= known.as_ref().is_none_or(|(was, _)| !was.is_same_host(&host));
            if let Some((_, counts)) = known {
                sums = zip(sums, &counts, ClassFit::minus);
            }
            let counts = count(rules.get_or_insert_with(|| rules_of(&classes)), &host);
            sums = zip(sums, &counts, ClassFit::plus);
            self.hosts.insert(id, (host, counts));
        }
        is_other |= !before.is_empty();
        for (_, counts) in before.into_values() {
            sums = zip(sums, &counts, ClassFit::minus);
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

fn count(classes: &[Ready<'_>], host: &FitHost) -> Vec<ClassFit> {
    classes.iter().map(|class| count_class(class, host)).collect()
}

fn zip(sums: Vec<ClassFit>, counts: &[ClassFit], f: fn(ClassFit, ClassFit) -> ClassFit) -> Vec<ClassFit> {
    sums.into_iter().zip(counts).map(|(sum, n)| f(sum, *n)).collect()
}

/// How many instances of a class one host holds.
#[must_use]
pub fn fits_on(class: &InstanceClass, host: &FitHost) -> ClassFit {
    count_class(&ready(class), host)
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
    let is_taken = class.exclusive && !(view.used.is_zero() && view.slack.used.is_zero());
    let now = own
        .count_in(view.free)
        .min(lent.count_in(view.slack.free))
        .min(count_ports(&class.ports, view.ports_left.as_ref()));
    ClassFit {
        now: if is_taken { 0 } else { now.min(ever) },
        ever,
    }
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
