//! Gangs: how one is to begin, what follows the failure of a member, where its members would best be, and what they are told of each
//! other.

use crate::id::{GroupName, InstanceNumber};
use crate::runtime::{Port, PortSpec, variable_part};
use crate::spec::GroupSpec;
use crate::time::Span;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Most instances of a gang: all of them are chosen hosts for, and stored, at once.
pub const MAX_GANG: u64 = 5_000;
/// Most members that are told all addresses: the lists travel in each launch, so what they take together grows with the square.
pub const MAX_LISTED: usize = 1_000;
/// Most bytes that the lists take together, so that each of them is shorter than 128 KiB, which is the longest variable that Linux
/// gives to a program.
pub const MAX_LIST_BYTES: usize = 120 * 1024;
/// Most bytes of a host's name with brackets, a port and what separates it from the next.
const LONGEST_ADDRESS: usize = 255 + "[]:65535,".len();
/// Most attributes by which a gang is kept together.
pub const MAX_TOPOLOGY: usize = 4;

/// All instances of a job, of all its groups, begin together or not at all, on one cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gang {
    /// How long a part of it may run while another part does not; then it is stopped whole, to begin anew.
    pub start_within: Span,
    /// What follows when a member fails.
    pub on_failure: OnMemberFailure,
    /// Where its members are to be together.
    pub topology: Topology,
}

/// What follows when a run of a member fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum OnMemberFailure {
    /// The member is tried again by itself, while the others run.
    #[default]
    Member,
    /// All members are stopped and tried again together. Failures of one try count once.
    Gang,
    /// The job has failed. Where a member is lost and nobody failed, all are stopped and begin anew.
    Job,
}

impl OnMemberFailure {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Member, Self::Gang, Self::Job];

    /// The word of job files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Gang => "gang",
            Self::Job => "job",
        }
    }

    /// Whether no member ever begins anew beside others that go on: then all of them know where all of them are.
    #[must_use]
    pub const fn is_of_all(self) -> bool {
        !matches!(self, Self::Member)
    }
}

impl fmt::Display for OnMemberFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Where members of a gang are to be together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Topology {
    /// Attributes of hosts, the nearest first: all members on hosts with one value of the first of these by which there is room.
    pub levels: Vec<String>,
    /// The gang waits where there is no room by any of them; else it is placed anywhere.
    pub required: bool,
}

impl Gang {
    /// A gang with all defaults.
    #[must_use]
    pub const fn new(start_within: Span) -> Self {
        Self {
            start_within,
            on_failure: OnMemberFailure::Member,
            topology: Topology {
                levels: Vec::new(),
                required: false,
            },
        }
    }
}

/// Where a member of a gang is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// The host's name.
    pub hostname: &'a str,
    /// Its ports there.
    pub ports: &'a [Port],
}

/// What the members of a gang are told of each other. Its members are ranked by the names of their groups, then by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peers {
    shared: BTreeMap<String, String>,
    ranks: BTreeMap<GroupName, usize>,
}

impl Peers {
    /// The names of what members of a gang of these groups are told; of one that is too large for lists, only of what is always told.
    #[must_use]
    pub fn names(groups: &[GroupSpec]) -> BTreeSet<String> {
        let ports = |g: &GroupSpec| -> Vec<Port> {
            let ports = g.runtime.ports.iter();
            let named = |p: &PortSpec| Port {
                name: p.name.clone(),
                number: 0,
            };
            ports.map(named).collect()
        };
        let ports: Vec<(&GroupSpec, Vec<Port>)> = groups.iter().map(|g| (g, ports(g))).collect();
        let members: usize = groups
            .iter()
            .filter_map(|g| usize::try_from(g.instances).ok())
            .sum();
        let n = if members > MAX_LISTED { MAX_LISTED + 1 } else { 1 };
        let one = ports.iter().map(|(g, ports)| {
            let place = Place { hostname: "-", ports };
            (g.name.clone(), vec![Some(place); n])
        });
        let peers = Self::new(&one.collect());
        let always = "ECHELON_GANG_RANK".to_owned();
        peers.shared.into_keys().chain([always]).collect()
    }

    /// Of groups with the places of their instances by number; `None`: it is not known where one is.
    #[must_use]
    pub fn new(groups: &BTreeMap<GroupName, Vec<Option<Place<'_>>>>) -> Self {
        let mut ranks = BTreeMap::new();
        let mut size = 0usize;
        for (name, places) in groups {
            ranks.insert(name.clone(), size);
            size = size.saturating_add(places.len());
        }
        let mut shared = BTreeMap::from([("ECHELON_GANG_SIZE".to_owned(), size.to_string())]);
        let first = groups.values().flatten().next();
        let first = first.map(|place| address(*place, first_port));
        shared.extend(
            first
                .filter(|a| !a.is_empty())
                .map(|a| ("ECHELON_GANG_FIRST".to_owned(), a)),
        );
        if size <= MAX_LISTED {
            let lists = lists(groups);
            let bytes: usize = lists.iter().map(|(name, list)| name.len() + list.len() + 2).sum();
            if bytes <= MAX_LIST_BYTES {
                shared.extend(lists);
            }
        }
        Self { shared, ranks }
    }

    /// The most bytes of a variable that members of a gang of so many are told.
    #[must_use]
    pub fn longest(name: &str, members: usize) -> usize {
        if name.starts_with("ECHELON_GANG_HOSTS") {
            members.saturating_mul(LONGEST_ADDRESS).min(MAX_LIST_BYTES)
        } else {
            LONGEST_ADDRESS
        }
    }

    /// The variables of a member.
    #[must_use]
    pub fn variables(&self, group: &GroupName, number: InstanceNumber) -> Vec<(String, String)> {
        let own = usize::try_from(number.0).unwrap_or(usize::MAX);
        let rank = self.ranks.get(group).map(|first| first.saturating_add(own));
        let rank = rank.map(|rank| ("ECHELON_GANG_RANK".to_owned(), rank.to_string()));
        let shared = self.shared.iter().map(|(k, v)| (k.clone(), v.clone()));
        shared.chain(rank).collect()
    }
}

fn lists(groups: &BTreeMap<GroupName, Vec<Option<Place<'_>>>>) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let all: Vec<String> = groups.values().map(|of| list(of, first_port)).collect();
    for (name, places) in groups {
        let group = variable_part(name.as_str());
        // A port by name is of use where there are several.
        let ports = places
            .iter()
            .flatten()
            .map(|p| p.ports)
            .next()
            .unwrap_or_default();
        for port in ports.iter().filter(|_| ports.len() > 1) {
            let by_name = |ports: &[Port]| ports.iter().find(|p| p.name == port.name).map(|p| p.number);
            let name = format!("ECHELON_GANG_HOSTS_{group}__{}", variable_part(&port.name));
            out.insert(name, list(places, by_name));
        }
    }
    for (name, list) in groups.keys().zip(&all) {
        out.insert(
            format!("ECHELON_GANG_HOSTS_{}", variable_part(name.as_str())),
            list.clone(),
        );
    }
    let all: Vec<String> = all.into_iter().filter(|l| !l.is_empty()).collect();
    out.insert("ECHELON_GANG_HOSTS".to_owned(), all.join(","));
    out
}

fn list(places: &[Option<Place<'_>>], port: impl Fn(&[Port]) -> Option<u16> + Copy) -> String {
    let addresses: Vec<String> = places.iter().map(|p| address(*p, port)).collect();
    addresses.join(",")
}

fn first_port(ports: &[Port]) -> Option<u16> {
    ports.first().map(|p| p.number)
}

/// `host:port`, or the host alone where there is no port; nothing where it is not known.
fn address(place: Option<Place<'_>>, port: impl Fn(&[Port]) -> Option<u16>) -> String {
    let Some(place) = place else {
        return String::new();
    };
    match port(place.ports) {
        Some(port) if place.hostname.contains(':') => format!("[{}]:{port}", place.hostname),
        Some(port) => format!("{}:{port}", place.hostname),
        None => place.hostname.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(of: &[(&str, u16)]) -> Vec<Port> {
        let port = |(name, number): &(&str, u16)| Port {
            name: (*name).to_owned(),
            number: *number,
        };
        of.iter().map(port).collect()
    }

    fn told(peers: &Peers, group: &str, number: u32) -> Vec<String> {
        let variables = peers.variables(&GroupName::new(group), InstanceNumber(number));
        let mut out: Vec<String> = variables.into_iter().map(|(k, v)| format!("{k}={v}")).collect();
        out.sort();
        out
    }

    #[test]
    fn members_are_told_of_each_other_in_the_order_of_their_ranks() {
        let (one, two) = (ports(&[("rpc", 31_000)]), ports(&[("rpc", 31_001)]));
        let both = ports(&[("data", 31_002), ("http-admin", 31_003)]);
        let place = |hostname, ports| Some(Place { hostname, ports });
        let groups = [
            (
                GroupName::new("worker"),
                vec![place("b", &one[..]), None, place("a", &two)],
            ),
            (GroupName::new("ps"), vec![place("a", &both)]),
        ];
        let peers = Peers::new(&groups.into());
        assert_eq!(
            told(&peers, "worker", 2),
            [
                "ECHELON_GANG_FIRST=a:31002",
                "ECHELON_GANG_HOSTS=a:31002,b:31000,,a:31001",
                "ECHELON_GANG_HOSTS_PS=a:31002",
                "ECHELON_GANG_HOSTS_PS__DATA=a:31002",
                "ECHELON_GANG_HOSTS_PS__HTTP_ADMIN=a:31003",
                "ECHELON_GANG_HOSTS_WORKER=b:31000,,a:31001",
                "ECHELON_GANG_RANK=3",
                "ECHELON_GANG_SIZE=4",
            ]
        );
        assert!(told(&peers, "ps", 0).contains(&"ECHELON_GANG_RANK=0".to_owned()));
    }

    #[test]
    fn a_member_without_a_port_is_told_by_its_host_and_an_address_with_colons_in_brackets() {
        let port = ports(&[("rpc", 80)]);
        let place = |hostname, ports| Some(Place { hostname, ports });
        let of = |places| Peers::new(&[(GroupName::new("main"), places)].into());
        let plain = told(&of(vec![place("a", &[][..]), place("::1", &port)]), "main", 0);
        assert!(
            plain.contains(&"ECHELON_GANG_HOSTS=a,[::1]:80".to_owned()),
            "{plain:?}"
        );
    }

    #[test]
    fn what_is_told_is_bounded_and_the_first_member_is_always_told() {
        let port = ports(&[("rpc", 31_000)]);
        let of = |n: usize, hostname: &'static str| {
            let place = Some(Place {
                hostname,
                ports: &port,
            });
            Peers::new(&[(GroupName::new("main"), vec![place; n])].into())
        };
        let names = |peers: &Peers| -> Vec<String> {
            let all = peers.variables(&GroupName::new("main"), InstanceNumber(0));
            all.into_iter().map(|(name, _)| name).collect()
        };
        let lists = names(&of(MAX_LISTED, "host-0001.rack-7.example"));
        assert_eq!(lists.len(), 5, "{lists:?}");
        let few = ["ECHELON_GANG_FIRST", "ECHELON_GANG_SIZE", "ECHELON_GANG_RANK"];
        assert_eq!(names(&of(MAX_LISTED + 1, "h")), few);
        let long = "a-name-that-is-much-longer-than-those-of-hosts-usually-are.some.where.example";
        assert_eq!(names(&of(MAX_LISTED, long)), few);
    }
}
