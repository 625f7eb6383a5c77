//! Strategies: which of the hosts that the rules leave is taken. A strategy only compares hosts; rules are kept, hosts are found
//! and room is counted by the search, so no strategy can break any of that. A new one is a file and a line in `TABLE`
//! (docs/placement.md has one of each); its name stands in `siting::STRATEGIES` when job files may use it.

use crate::first_fit::FirstFit;
use crate::hosts::HostIdx;
use crate::pack::Pack;
use crate::problem::Wanted;
use crate::spread::Spread;
use echelon_core_model::spec::JobKind;
use std::fmt;

/// All strategies.
pub const TABLE: &[&dyn Strategy] = &[&Pack, &Spread, &FirstFit];

/// What a host costs: compared number by number, the least is taken. No two hosts may cost the same.
pub type Cost = [u64; 3];

/// A host as a strategy sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Its index in the order of ids, for ties.
    pub host: HostIdx,
    /// What it has left over all kinds, as a sum of parts of the largest host's, in millionths.
    pub size: u64,
    /// Instances of the group on it.
    pub count: u32,
}

/// In which order hosts without any of the group cost more and more: then not all of them have to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draws {
    /// From the fullest to the roomiest.
    Fullest,
    /// From the roomiest to the fullest.
    Roomiest,
    /// In the order of their ids.
    ById,
    /// In none: all are looked at.
    All,
}

/// A way to choose hosts.
pub trait Strategy: Sync + fmt::Debug {
    /// Its name.
    fn name(&self) -> &'static str;

    /// The order in which `cost` grows over hosts without any of the group.
    fn draws(&self) -> Draws;

    /// Whether the fewest of the group on a host come first, whatever else a host has.
    fn keeps_even(&self) -> bool {
        false
    }

    /// Whether the number of the group on a host tells in its cost: where it does not, nobody has to know where the group is.
    fn minds_count(&self) -> bool {
        true
    }

    /// What a host costs.
    fn cost(&self, of: Candidate) -> Cost;
}

/// The strategy of a group: the one it names, else that of its kind. Batch leaves large holes for large shapes, services survive the
/// loss of a host.
#[must_use]
pub fn of(wanted: &Wanted, table: &[&'static dyn Strategy]) -> &'static dyn Strategy {
    let name = wanted.siting.strategy.as_deref();
    let named = table.iter().copied().find(|s| Some(s.name()) == name);
    named.unwrap_or(match wanted.kind {
        JobKind::Batch => &Pack,
        JobKind::Service | JobKind::Stateful | JobKind::Daemon => &Spread,
    })
}

/// A host's index among numbers.
#[must_use]
pub fn number(host: HostIdx) -> u64 {
    u64::try_from(host).unwrap_or(u64::MAX)
}
