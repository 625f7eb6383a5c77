//! Daemons: on which hosts one of a group belongs, whose room is set aside for it there, and which instances have no host any more. How
//! many there are follows from the hosts: the resource manager is told that number and gives as many numbers.

use crate::Shard;
use crate::group::Group;
use echelon_core_hosts::Drain;
use echelon_core_jobs::{Standing, leave_host, may_leave_host, standing};
use echelon_core_model::cluster::HostView;
use echelon_core_model::instance::{InstanceRecord, Run};
use echelon_core_model::job::Desired;
use echelon_core_model::spec::{JobKind, JobSpec};
use echelon_core_model::time::Span;
use echelon_core_model::{HostId, InstanceNumber, RangeSet, Resources, Timestamp};
use echelon_core_placement::{Rule, Wanted};
use std::collections::{BTreeMap, BTreeSet};

/// Changes of runs are looked at together.
const LOOK_AFTER: Span = Span::millis(100);
/// How often hosts that are to be empty are looked at, whether only daemons are left.
const LOOK_AT_DRAINS: Span = Span::seconds(1);

/// The hosts of a daemon's group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Homes {
    /// How many have one of it, or are to have one.
    pub(crate) count: u32,
    /// Of these, those without one.
    lacking: BTreeSet<HostId>,
}

/// The daemons' groups, and when their hosts are counted.
#[derive(Debug, Default)]
pub(crate) struct Daemons {
    groups: BTreeSet<u32>,
    restless: BTreeSet<u32>,
    due: Option<Timestamp>,
    /// What was known of hosts when they were looked at last, and whether they were counted since.
    news: u64,
    stale: bool,
    /// Hosts that are to be empty and on which only daemons are left, and when that is looked at again.
    last_on: BTreeSet<HostId>,
    drains_at: Option<Timestamp>,
}

impl Daemons {
    /// The spec of a group was read.
    pub(crate) fn note(&mut self, number: u32, spec: &JobSpec) {
        if spec.kind == JobKind::Daemon {
            self.groups.insert(number);
        }
    }

    /// Something of a group has changed.
    pub(crate) fn look_at(&mut self, number: u32, now: Timestamp) {
        if self.groups.contains(&number) {
            self.restless.insert(number);
            self.due.get_or_insert(now.plus(LOOK_AFTER));
        }
    }

    fn look_at_all(&mut self, now: Timestamp) {
        self.restless.clone_from(&self.groups);
        self.due.get_or_insert(now.plus(LOOK_AFTER));
    }

    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let due = self.due.filter(|_| !self.restless.is_empty());
        due.into_iter().chain(self.drains_at).min()
    }
}

impl Shard {
    /// Counts the hosts of daemons when that is due.
    pub(crate) fn keep_daemons(&mut self) {
        if self.hosts.news() != self.daemons.news {
            self.daemons.news = self.hosts.news();
            self.daemons.stale = true;
            self.daemons.look_at_all(self.now);
        }
        if self.daemons.due.is_some_and(|due| due <= self.now) {
            self.daemons.due = None;
            self.count_restless_daemons();
        }
    }

    /// Before hosts are given away: one that has just become known belongs to daemons first.
    pub(crate) fn count_daemons_of_other_hosts(&mut self) {
        if self.daemons.stale {
            self.count_restless_daemons();
        }
    }

    fn count_restless_daemons(&mut self) {
        self.daemons.stale = false;
        let restless = std::mem::take(&mut self.daemons.restless);
        if restless.is_empty() {
            return;
        }
        // As long as not all hosts are known none of them is missing (law 1).
        if !self.hosts.has_listed() || self.is_recovering() {
            self.daemons.restless = restless;
            self.daemons.due = Some(self.now.plus(LOOK_AT_DRAINS));
            return;
        }
        let hosts = self.hosts.open_to_all(self.now);
        for number in restless {
            let Some(group) = self.picture.groups.get_mut(&number) else {
                self.daemons.groups.remove(&number);
                continue;
            };
            let homes = group.homes(&hosts);
            if group.homes != homes {
                let more = homes.as_ref().is_some_and(|h| !h.lacking.is_empty());
                group.homes = homes;
                self.picture.unreported.insert(number);
                if more {
                    self.placing.hungrier(self.now, self.config.timing.commit_delay);
                }
            }
            self.take_back_homeless(number);
        }
    }

    /// Takes back as many instances as there are beyond the hosts, of those whose host is gone: their numbers are given back then.
    fn take_back_homeless(&mut self, number: u32) {
        let Some(group) = self.picture.groups.get(&number) else {
            return;
        };
        if self.is_frozen() || !group.is_wanted() {
            return;
        }
        for n in group.homeless() {
            let (at, now) = ((number, n), self.now);
            self.edit(at, |record| leave_host(record, now));
            self.account_all(at);
        }
    }

    /// Sets room aside for daemons on hosts that lack theirs, but for those that are placed now. What is not granted has no claim to
    /// room; what has no number yet is about to get one.
    pub(crate) fn set_daemons_aside(&self, aside: &mut BTreeMap<HostId, Resources>, groups: &[Wanted]) {
        for number in &self.daemons.groups {
            let Some((group, homes)) = self.lacking(*number) else {
                continue;
            };
            let asks = groups
                .iter()
                .any(|w| w.job == group.job() && w.group == *group.name());
            let numbers: u64 = group.held().values().map(RangeSet::count).sum();
            let comes = numbers < u64::from(homes.count) || group.appetite(self.now) > 0;
            if asks || !comes {
                continue;
            }
            let room = group.need();
            let present = self.present(group);
            for host in homes.lacking.iter().filter(|host| !present.contains_key(*host)) {
                let sum = aside.entry(host.clone()).or_default();
                *sum = sum.plus(room);
            }
        }
    }

    /// A daemon's group that is to run, when hosts lack it.
    fn lacking(&self, number: u32) -> Option<(&Group, &Homes)> {
        let group = self.picture.groups.get(&number).filter(|g| g.is_wanted())?;
        let homes = group.homes.as_ref().filter(|homes| !homes.lacking.is_empty())?;
        Some((group, homes))
    }

    /// What is to leave which hosts by now: daemons when everything else has left.
    pub(crate) fn drains(&mut self) -> BTreeMap<HostId, Drain> {
        let mut drains = self.hosts.draining(self.now);
        let whole = drains.iter().filter(|(_, drain)| **drain == Drain::All);
        let whole: BTreeSet<HostId> = whole.map(|(host, _)| host.clone()).collect();
        if self.daemons.groups.is_empty() || whole.is_empty() {
            self.daemons.drains_at = None;
            self.daemons.last_on.clear();
            return drains;
        }
        if self.daemons.drains_at.is_none_or(|at| at <= self.now) {
            self.daemons.drains_at = Some(self.now.plus(LOOK_AT_DRAINS));
            // Before everything is read, what else runs on a host is not known (law 1).
            self.daemons.last_on = if self.has_counted_runs() {
                self.with_daemons_only(whole.clone())
            } else {
                BTreeSet::new()
            };
        }
        for host in whole.difference(&self.daemons.last_on) {
            drains.insert(host.clone(), Drain::Others);
        }
        drains
    }

    /// Those of some hosts that have nothing but daemons left.
    fn with_daemons_only(&self, mut hosts: BTreeSet<HostId>) -> BTreeSet<HostId> {
        for task in self.hosts.tasks_on(&hosts) {
            let known = self.picture.run_at(&task).map(|run| (run, run.0.0));
            let daemon = known.is_some_and(|(_, group)| self.daemons.groups.contains(&group));
            let run = known.and_then(|(run, _)| self.picture.run(run));
            if let Some(run) = run.filter(|_| !daemon) {
                hosts.remove(&run.host);
            }
        }
        hosts
    }
}

impl Group {
    fn is_wanted(&self) -> bool {
        let wish = self.wish.as_ref();
        self.served && wish.is_some_and(|w| w.goal.desired == Desired::Running)
    }

    /// The host of an instance, unless what ran there is known to have ended or was given up.
    fn home<'a>(&self, n: InstanceNumber, record: &'a InstanceRecord) -> Option<&'a HostId> {
        let run = record.run.as_ref().filter(|run| run.may_have_task());
        run.filter(|_| !self.ready.contains(&n))
            .map(|run: &Run| &run.host)
    }

    /// The hosts of a daemon, of those that are open; `None` when it is not to run.
    fn homes(&self, hosts: &[HostView]) -> Option<Homes> {
        let spec = self.group_spec().filter(|_| self.is_wanted())?;
        let rules: Vec<Rule<'_>> = spec.constraints.iter().map(Rule::new).collect();
        let lives: BTreeSet<&HostId> = self.records().filter_map(|(n, r)| self.home(n, r)).collect();
        // One of each name: an agent that is registered anew is the same host.
        let mut by_name: BTreeMap<&str, &HostId> = BTreeMap::new();
        for host in hosts
            .iter()
            .filter(|host| spec.siting.host_pool.lets(&host.host_pool))
            .filter(|host| rules.iter().all(|rule| rule.holds(host)))
        {
            let one = by_name.entry(&host.hostname).or_insert(&host.id);
            if lives.contains(&host.id) {
                *one = &host.id;
            }
        }
        let belongs: BTreeSet<&HostId> = by_name.into_values().collect();
        let count = belongs.union(&lives).count();
        // It will never run where it does not fit, and takes no room from others there.
        let small: BTreeSet<&HostId> = hosts
            .iter()
            .filter(|host| !spec.room().fits(host.capacity))
            .map(|host| &host.id)
            .collect();
        let lacking = belongs.difference(&lives).filter(|host| !small.contains(*host));
        Some(Homes {
            count: u32::try_from(count).unwrap_or(u32::MAX),
            lacking: lacking.map(|host| (*host).clone()).collect(),
        })
    }

    /// Active instances without a host beyond the hosts that there are, the highest first; those that wait for a backoff, which a host
    /// may have, last.
    fn homeless(&self) -> Vec<InstanceNumber> {
        let Some(homes) = &self.homes else {
            return Vec::new();
        };
        let held = |n: InstanceNumber, r: &InstanceRecord| self.holds(n, r.generation);
        let active = self
            .records()
            .filter(|(n, r)| held(*n, r) && standing(r) == Standing::Active && may_leave_host(r));
        let active: Vec<(InstanceNumber, &InstanceRecord)> = active.collect();
        let surplus = active
            .len()
            .saturating_sub(usize::try_from(homes.count).unwrap_or(usize::MAX));
        let without = active.into_iter().filter(|(n, r)| self.home(*n, r).is_none());
        // What may live although it counts as lost is an operator's to judge.
        let without = without.map(|(n, _)| n).filter(|n| !self.withheld.contains(n));
        let mut without: Vec<InstanceNumber> = without.collect();
        without.sort_by_key(|n| (self.backing_off.contains(n), std::cmp::Reverse(*n)));
        without.truncate(surplus);
        without
    }
}
