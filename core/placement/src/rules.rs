//! What the rules of one group leave of the hosts while its instances are seated: its constraints, how many of it may be where, and
//! what it and other jobs want of each other.

use crate::constraint::Verdicts;
use crate::hosts::{Column, HostIdx, Hosts};
use crate::neighbours::{Around, Near, Others};
use crate::problem::{Neighbour, Wanted};
use crate::room::Room;
use echelon_core_model::HostId;
use echelon_core_model::host_pool::HostPoolChoice;
use echelon_core_model::siting::HOSTNAME;
use std::collections::{BTreeMap, BTreeSet};

/// What hosts have in common by an attribute.
#[derive(Debug, Clone, Copy)]
pub enum Domain<'a> {
    /// One value.
    Column(&'a Column),
    /// No host has the attribute.
    None,
}

impl<'a> Domain<'a> {
    /// Of an attribute, or of the machine's name.
    pub fn of(attribute: &str, hosts: &'a Hosts) -> Self {
        match hosts.column(attribute) {
            _ if attribute == HOSTNAME => Self::Column(hosts.machines()),
            Some(column) => Self::Column(column),
            None => Self::None,
        }
    }

    /// The number of what a host has; 0 for all that have nothing.
    pub fn value(&self, host: HostIdx) -> u32 {
        match self {
            Self::Column(column) => column.number(host),
            Self::None => 0,
        }
    }

    /// The same; `None`: it has nothing.
    pub fn shared(&self, host: HostIdx) -> Option<u32> {
        Some(self.value(host)).filter(|v| *v > 0)
    }
}

/// What keeps an instance from a host although there may be room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// The host is in another host pool.
    HostPool,
    /// A constraint.
    Constraint,
    /// It is far from what the group wants to be near to.
    Affinity,
    /// It is near to what the group wants to be away from, or what wants to be away from it is there.
    AntiAffinity,
    /// The group, or what is there, wants hosts for itself.
    Exclusive,
    /// As many of the group as may be are there, or where it is.
    MaxPer,
}

/// One number of `max_per`, or of evenness: how many of the group are where.
#[derive(Debug, Clone)]
pub struct Tally<'a> {
    domain: Domain<'a>,
    most: u32,
    counts: BTreeMap<u32, u32>,
}

impl<'a> Tally<'a> {
    fn new(attribute: &str, most: u32, hosts: &'a Hosts) -> Self {
        Self {
            domain: Domain::of(attribute, hosts),
            most,
            counts: BTreeMap::new(),
        }
    }

    fn add(&mut self, host: HostIdx, n: u32) {
        let count = self.counts.entry(self.domain.value(host)).or_default();
        *count = count.saturating_add(n);
    }

    /// How many are where this host is.
    pub fn count(&self, host: HostIdx) -> u32 {
        self.counts
            .get(&self.domain.value(host))
            .copied()
            .unwrap_or_default()
    }

    /// What is counted by.
    pub const fn domain(&self) -> Domain<'a> {
        self.domain
    }
}

/// The rules of one group at the moment.
#[derive(Debug, Clone)]
pub struct Rules<'a> {
    wanted: &'a Wanted,
    /// The number of the host pool that may be used; `Some(None)`: no host is in it, `None`: all of them may be.
    pool: Option<Option<u32>>,
    constraints: Vec<Verdicts<'a>>,
    caps: Vec<Tally<'a>>,
    around: Around<'a>,
    /// How many of the group machines have, by number; of those that had any before only once they are
    /// counted.
    counts: BTreeMap<u32, u32>,
    /// The hosts of these machines.
    occupied: BTreeSet<HostIdx>,
    hosts: &'a Hosts,
    is_counted: bool,
    /// How many of it are where, by each attribute that it is spread over, but for names.
    spread: Vec<Tally<'a>>,
    by_host: bool,
    preferences: Vec<(Verdicts<'a>, i64)>,
}

impl<'a> Rules<'a> {
    /// The rules of a group, beside what was seated of it and of others already in this question.
    pub fn new(wanted: &'a Wanted, others: &Others<'a>, room: &Room<'a>) -> Self {
        let hosts = room.hosts();
        let siting = &wanted.siting;
        let over = siting.spread_over.iter();
        let preferences = siting.preferences.iter();
        let mut out = Self {
            wanted,
            pool: match &siting.host_pool {
                HostPoolChoice::Any => None,
                HostPoolChoice::Only(name) => Some(hosts.pools().number_of(name.as_str())),
            },
            constraints: wanted
                .constraints
                .iter()
                .map(|r| Verdicts::new(r, hosts))
                .collect(),
            caps: siting
                .max_per
                .iter()
                .map(|(a, n)| Tally::new(a, *n, hosts))
                .collect(),
            around: others.around(wanted, hosts),
            counts: BTreeMap::new(),
            occupied: BTreeSet::new(),
            hosts,
            is_counted: false,
            spread: over
                .clone()
                .filter(|a| *a != HOSTNAME)
                .map(|a| Tally::new(a, u32::MAX, hosts))
                .collect(),
            by_host: over.clone().any(|a| a == HOSTNAME),
            preferences: preferences
                .map(|p| (Verdicts::new(&p.rule, hosts), p.weight.into()))
                .collect(),
        };
        if out.by_host || !out.caps.is_empty() || !out.spread.is_empty() {
            out.count_present(others, room);
        }
        out
    }

    /// Counts where the group is: its rules may not need that, when its strategy does. A large group is on many hosts.
    pub fn count_present(&mut self, others: &Others<'a>, room: &Room<'a>) {
        if std::mem::replace(&mut self.is_counted, true) {
            return;
        }
        for (id, n) in self.wanted.present.iter().filter(|(_, n)| **n > 0) {
            if let Some(host) = room.find(id) {
                self.add(host, *n);
            }
        }
        others.of(self.wanted).for_each(|host| self.add(host, 1));
    }

    fn add(&mut self, host: HostIdx, n: u32) {
        let count = self.counts.entry(self.hosts.machines().number(host)).or_default();
        *count = count.saturating_add(n);
        self.occupied.insert(host);
        self.occupied.extend(self.hosts.beside(host));
        self.caps
            .iter_mut()
            .chain(&mut self.spread)
            .for_each(|t| t.add(host, n));
    }

    /// One more of it is on a host.
    pub fn seated(&mut self, host: HostIdx) {
        self.add(host, 1);
    }

    /// The group.
    pub const fn wanted(&self) -> &'a Wanted {
        self.wanted
    }

    /// How many of the group the machine of a host has.
    pub fn count(&self, host: HostIdx) -> u32 {
        let machine = self.hosts.machines().number(host);
        self.counts.get(&machine).copied().unwrap_or_default()
    }

    /// The hosts whose machines have any of it.
    pub fn occupied(&self) -> impl Iterator<Item = HostIdx> + '_ {
        self.occupied.iter().copied()
    }

    /// The first rule that keeps the group from a host.
    pub fn broken(&self, host: HostIdx, room: &Room<'_>) -> Option<Rule> {
        let view = room.view(host)?;
        let pool = room.hosts().pools().number(host);
        if self.pool.is_some_and(|only| only != Some(pool)) {
            return Some(Rule::HostPool);
        }
        if !self.constraints.iter().all(|c| c.holds(host, view)) {
            return Some(Rule::Constraint);
        }
        match self.around.broken(host) {
            Some(Near::Far) => return Some(Rule::Affinity),
            Some(Near::Close) => return Some(Rule::AntiAffinity),
            Some(Near::Closed) => return Some(Rule::Exclusive),
            None => {}
        }
        let full = self.caps.iter().any(|cap| cap.count(host) >= cap.most);
        full.then_some(Rule::MaxPer)
    }

    /// Whether an instance may go to this host and fits there.
    pub fn may_use(&self, host: HostIdx, room: &Room<'_>) -> bool {
        room.fits(host, self.wanted)
            && room.view(host).is_some_and(|v| !self.wanted.is_kept_out(v))
            && self.broken(host, room).is_none()
            && room.ports(host, &self.wanted.ports).is_some()
    }

    /// Whether who is alike is kept from the same hosts: nothing depends on where runs are.
    pub fn are_of_hosts_alone(&self) -> bool {
        self.caps.is_empty() && self.around.is_empty()
    }

    /// Whether some hosts come before others whatever the strategy says.
    pub fn rank_hosts(&self) -> bool {
        !self.spread.is_empty() || !self.preferences.is_empty() || self.around.has_wishes()
    }

    /// Whether some of that depends on where other jobs are.
    pub const fn wish_for_others(&self) -> bool {
        self.around.has_wishes()
    }

    /// The attributes that the group is spread over, but for names.
    pub fn spread(&self) -> &[Tally<'a>] {
        &self.spread
    }

    /// Whether it is spread over hosts, whatever the strategy.
    pub const fn spreads_over_hosts(&self) -> bool {
        self.by_host
    }

    /// The sum of the weights of what holds at a host.
    pub fn score(&self, host: HostIdx, room: &Room<'_>) -> i64 {
        let Some(view) = room.view(host) else { return 0 };
        let of = self.preferences.iter().filter(|(rule, _)| rule.holds(host, view));
        of.map(|(_, weight)| *weight).sum::<i64>() + self.around.score(host)
    }
}

/// The hosts on which the rules of a group let one more of it be, room or not.
#[must_use]
pub fn rules_let(wanted: &Wanted, others: &[Neighbour], hosts: &Hosts) -> BTreeSet<HostId> {
    let room = Room::new(hosts, &[]);
    let rules = Rules::new(wanted, &Others::new(others), &room);
    let open = (0..hosts.len()).filter(|host| rules.broken(*host, &room).is_none());
    open.filter_map(|host| Some(room.view(host)?.id.clone()))
        .collect()
}

/// Values of a domain on these hosts.
pub fn values(domain: Domain<'_>, hosts: impl Iterator<Item = HostIdx>) -> BTreeSet<u32> {
    hosts.filter_map(|h| domain.shared(h)).collect()
}
