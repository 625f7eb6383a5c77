//! Other jobs, as far as a group minds them or they mind it: what is on hosts already, and what was seated before in the same
//! question.

use crate::hosts::{HostIdx, Hosts};
use crate::problem::{Neighbour, Wanted};
use crate::rules::{Domain, values};
use echelon_core_model::JobId;
use echelon_core_model::siting::{Affinity, HOSTNAME, Siting};
use std::collections::{BTreeMap, BTreeSet};

/// Why a host is not for a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Near {
    /// It is far from what the group wants to be near to.
    Far,
    /// One of both wants to be away from the other.
    Close,
    /// One of both wants hosts for itself.
    Closed,
}

/// Values of a domain.
type Values<'a> = (Domain<'a>, BTreeSet<u32>);

/// What other jobs leave of the hosts to one group.
#[derive(Debug, Clone, Default)]
pub struct Around<'a> {
    near: Vec<Values<'a>>,
    away: Vec<Values<'a>>,
    /// Machines that are not for it.
    closed: Option<Values<'a>>,
    wishes: Vec<(Values<'a>, i64)>,
}

/// Something of another job on hosts.
struct Other<'a> {
    labels: &'a BTreeMap<String, String>,
    exclusive: bool,
    away_from: Vec<&'a Affinity>,
    hosts: Vec<HostIdx>,
}

/// What the question tells of other jobs, and who has been seated.
#[derive(Debug)]
pub struct Others<'a> {
    told: &'a [Neighbour],
    /// Hosts by group, in the order in which groups were served.
    seated: Vec<(&'a Wanted, Vec<HostIdx>)>,
}

impl<'a> Others<'a> {
    /// What is told before anybody is seated.
    pub const fn new(told: &'a [Neighbour]) -> Self {
        Self {
            told,
            seated: Vec::new(),
        }
    }

    /// Notes where instances of a group went.
    pub fn seated(&mut self, wanted: &'a Wanted, hosts: Vec<HostIdx>) {
        if !hosts.is_empty() {
            self.seated.push((wanted, hosts));
        }
    }

    /// Notes taken so far.
    pub const fn noted(&self) -> usize {
        self.seated.len()
    }

    /// Forgets what was noted after so many notes.
    pub fn forget_after(&mut self, noted: usize) {
        self.seated.truncate(noted);
    }

    /// Forgets all that was noted of a job.
    pub fn forget(&mut self, job: JobId) {
        self.seated.retain(|(w, _)| w.job != job);
    }

    /// The hosts of what was seated of a group.
    pub fn of(&self, wanted: &Wanted) -> impl Iterator<Item = HostIdx> {
        let own = self
            .seated
            .iter()
            .filter(|(w, _)| w.job == wanted.job && w.group == wanted.group);
        own.flat_map(|(_, hosts)| hosts.iter().copied())
    }

    fn around_job(&self, job: JobId, hosts: &Hosts) -> Vec<Other<'a>> {
        let told = self.told.iter().filter(|n| n.job != job).map(|n| Other {
            labels: &n.labels,
            exclusive: n.exclusive,
            away_from: n.away_from.iter().collect(),
            hosts: n.hosts.iter().filter_map(|id| hosts.find(id)).collect(),
        });
        let seated = self.seated.iter().filter(|(w, _)| w.job != job);
        told.chain(seated.map(|(w, at)| Other {
            labels: &w.labels,
            exclusive: w.siting.exclusive,
            away_from: hard(&w.siting).collect(),
            hosts: at.clone(),
        }))
        .collect()
    }

    /// What they leave to a group. Cheap where neither minds the other.
    pub fn around(&self, wanted: &'a Wanted, hosts: &'a Hosts) -> Around<'a> {
        let others_mind = self.told.iter().any(Neighbour::minds)
            || self.seated.iter().any(|(w, _)| w.siting.keeps_others_away());
        if !wanted.siting.minds_others() && !others_mind {
            return Around::default();
        }
        let others = self.around_job(wanted.job, hosts);
        let meant = |rule: &Affinity| {
            let domain = Domain::of(&rule.topology, hosts);
            let of = others.iter().filter(|o| rule.means(o.labels));
            (domain, values(domain, of.flat_map(|o| o.hosts.iter().copied())))
        };
        let mut out = Around::default();
        for rule in &wanted.siting.affinity {
            match rule.weight {
                None => out.near.push(meant(rule)),
                Some(weight) => out.wishes.push((meant(rule), weight.into())),
            }
        }
        for rule in &wanted.siting.anti_affinity {
            match rule.weight {
                None => out.away.push(meant(rule)),
                Some(weight) => out.wishes.push((meant(rule), -i64::from(weight))),
            }
        }
        for other in &others {
            for rule in other.away_from.iter().filter(|r| r.means(&wanted.labels)) {
                let domain = Domain::of(&rule.topology, hosts);
                out.away
                    .push((domain, values(domain, other.hosts.iter().copied())));
            }
            if other.exclusive || wanted.siting.exclusive {
                let domain = Domain::of(HOSTNAME, hosts);
                let (_, closed) = out.closed.get_or_insert((domain, BTreeSet::new()));
                closed.extend(values(domain, other.hosts.iter().copied()));
            }
        }
        out
    }
}

fn hard(siting: &Siting) -> impl Iterator<Item = &Affinity> {
    siting.anti_affinity.iter().filter(|a| a.is_hard())
}

fn has((domain, values): &Values<'_>, host: HostIdx) -> bool {
    domain.shared(host).is_some_and(|v| values.contains(&v))
}

impl Around<'_> {
    /// Why a host is not for the group.
    pub fn broken(&self, host: HostIdx) -> Option<Near> {
        if !self.near.iter().all(|v| has(v, host)) {
            Some(Near::Far)
        } else if self.away.iter().any(|v| has(v, host)) {
            Some(Near::Close)
        } else {
            let is_closed = self.closed.as_ref().is_some_and(|closed| has(closed, host));
            is_closed.then_some(Near::Closed)
        }
    }

    /// The sum of the weights of the wishes that hold.
    pub fn score(&self, host: HostIdx) -> i64 {
        let of = self.wishes.iter().filter(|(values, _)| has(values, host));
        of.map(|(_, weight)| *weight).sum()
    }

    /// Whether any host is better than another by it.
    pub const fn has_wishes(&self) -> bool {
        !self.wishes.is_empty()
    }

    /// Whether it keeps nobody from any host.
    pub fn is_empty(&self) -> bool {
        self.near.is_empty() && self.away.is_empty() && self.closed.is_none()
    }
}
