//! The smallest change that would let one more instance begin: one resource lowered, another host pool, or one rule dropped. Each is put to the engine
//! again before it is told.

use crate::hosts::HostIdx;
use crate::neighbours::Others;
use crate::problem::Wanted;
use crate::room::Room;
use crate::rules::Rules;
use echelon_core_model::host_pool::HostPoolChoice;
use echelon_core_model::siting::Affinity;
use echelon_core_model::{HostPoolName, Kind};
use std::collections::BTreeSet;
use std::fmt;

/// A change of what is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// No more than this of a kind.
    Lower(Kind, u64),
    /// On hosts of this host pool.
    Pool(String),
    /// Without this rule, in words.
    Drop(String),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lower(kind, to) => write!(f, "with {kind} {}", kind.show(*to)),
            Self::Pool(name) => write!(f, "in host pool {name}"),
            Self::Drop(rule) => write!(f, "without {rule}"),
        }
    }
}

/// The smallest change: the kind that has to be lowered by the smallest part, where at least half of it is left; else another host
/// pool; else the first rule whose absence is enough; else that kind. `None`: no single change is enough.
pub fn smallest_change(rules: &Rules<'_>, others: &Others<'_>, room: &Room<'_>) -> Option<Change> {
    let lowered = lowered(rules, others, room);
    let half = |kind: Kind, to: u64| to.saturating_mul(2) >= rules.wanted().resources.get(kind);
    match lowered {
        Some((kind, to)) if half(kind, to) => Some(Change::Lower(kind, to)),
        _ => other_pool(rules.wanted(), others, room)
            .or_else(|| dropped(rules.wanted(), others, room))
            .or(lowered.map(|(kind, to)| Change::Lower(kind, to))),
    }
}

/// The kind of which the largest part is left when a host has enough of all others, and how much that is.
fn lowered(rules: &Rules<'_>, others: &Others<'_>, room: &Room<'_>) -> Option<(Kind, u64)> {
    let shape = rules.wanted().resources;
    let mut best: Option<(u128, Kind, u64)> = None;
    for host in 0..room.hosts().len() {
        let Some((kind, have)) = only_lack(rules, host, room) else {
            continue;
        };
        // Nobody is told to ask for nothing, and Mesos shares no GPU.
        if have == 0 || kind == Kind::Gpus && have < 1000 {
            continue;
        }
        let have = if kind == Kind::Gpus {
            have / 1000 * 1000
        } else {
            have
        };
        let part = u128::from(have) * 1_000_000 / u128::from(shape.get(kind).max(1));
        if best.is_none_or(|(most, ..)| part > most) {
            best = Some((part, kind, have));
        }
    }
    let (_, kind, to) = best?;
    let mut asked = rules.wanted().clone();
    asked.resources = shape.with(kind, to);
    fits(&asked, others, room).then_some((kind, to))
}

/// The only kind of which a host that may be used has too little, and how much it has.
fn only_lack(rules: &Rules<'_>, host: HostIdx, room: &Room<'_>) -> Option<(Kind, u64)> {
    let (wanted, view) = (rules.wanted(), room.view(host)?);
    let ((need, lent), (free, slack)) = (wanted.parts(view), room.offered(host));
    let mut lacks = Kind::ALL.into_iter().filter_map(|kind| {
        let short = |need: u64, have: u64| (need > have).then_some((kind, have));
        short(need.get(kind), free.get(kind)).or(short(lent.get(kind), slack.get(kind)))
    });
    let (lack, more) = (lacks.next()?, lacks.next());
    let usable = more.is_none() && !wanted.is_kept_out(view) && rules.broken(host, room).is_none();
    usable.then_some(lack)
}

/// Whether any host takes an instance that asks for this.
fn fits(asked: &Wanted, others: &Others<'_>, room: &Room<'_>) -> bool {
    let rules = Rules::new(asked, others, room);
    (0..room.hosts().len()).any(|host| rules.may_use(host, room))
}

/// The first host pool, by name, in which an instance would find a host.
fn other_pool(wanted: &Wanted, others: &Others<'_>, room: &Room<'_>) -> Option<Change> {
    let HostPoolChoice::Only(_) = &wanted.siting.host_pool else {
        return None;
    };
    let names: BTreeSet<&str> = room.hosts().pools().values().flatten().collect();
    let found = names.into_iter().find(|name| {
        let mut asked = wanted.clone();
        asked.siting.host_pool = HostPoolChoice::Only(HostPoolName::new(name));
        fits(&asked, others, room)
    });
    found.map(|name| Change::Pool(name.to_owned()))
}

/// The first rule without which an instance would find a host.
fn dropped(wanted: &Wanted, others: &Others<'_>, room: &Room<'_>) -> Option<Change> {
    let siting = &wanted.siting;
    let mut tries: Vec<(String, Wanted)> = Vec::new();
    let mut without = |rule: String, change: &dyn Fn(&mut Wanted)| {
        let mut asked = wanted.clone();
        change(&mut asked);
        tries.push((rule, asked));
    };
    for (i, rule) in wanted.constraints.iter().enumerate() {
        without(rule.to_string(), &|w| drop(w.constraints.remove(i)));
    }
    for (attribute, most) in &siting.max_per {
        without(format!("max_per {attribute} {most}"), &|w| {
            w.siting.max_per.remove(attribute);
        });
    }
    for (i, rule) in rules_of(&siting.affinity) {
        without(format!("affinity {rule}"), &|w| drop(w.siting.affinity.remove(i)));
    }
    for (i, rule) in rules_of(&siting.anti_affinity) {
        without(format!("anti_affinity {rule}"), &|w| {
            drop(w.siting.anti_affinity.remove(i));
        });
    }
    if siting.exclusive {
        without("exclusive".to_owned(), &|w| w.siting.exclusive = false);
    }
    let found = tries.into_iter().find(|(_, asked)| fits(asked, others, room));
    found.map(|(rule, _)| Change::Drop(rule))
}

fn rules_of(list: &[Affinity]) -> impl Iterator<Item = (usize, &Affinity)> {
    list.iter().enumerate().filter(|(_, rule)| rule.is_hard())
}
