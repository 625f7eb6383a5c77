//! The strategies and what they share: a run is the instances of one group, served one after the other while nobody else
//! takes room.

use crate::constraint::Passing;
use crate::pack::Pack;
use crate::problem::{Item, Wanted};
use crate::room::{HostIdx, Room};
use crate::spread::Spread;
use echelon_core_model::spec::JobKind;

/// The instances of one group, in order of number, and the hosts that they may use.
#[derive(Debug)]
pub struct Run<'a> {
    /// The group.
    pub wanted: &'a Wanted,
    /// Its items by number.
    pub items: Vec<&'a Item>,
    /// Hosts that pass its constraints.
    pub passing: Passing,
}

/// Where an item of the run went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seated<'a> {
    /// The item.
    pub item: &'a Item,
    /// Its host.
    pub host: HostIdx,
    /// Its ports there.
    pub ports: Vec<u16>,
    /// Whether it should have avoided it.
    pub avoided: bool,
}

/// A way to choose hosts for a run.
pub trait Strategy {
    /// Seats the items in order until one finds no host: all others would not find one either, since they have the same
    /// shape and constraints, and avoiding a host is only a preference.
    fn seat<'a>(&self, run: &Run<'a>, room: &mut Room<'_>) -> Vec<Seated<'a>>;
}

/// The strategy of a job kind: batch leaves large holes for large shapes, services survive the loss of a host.
#[must_use]
pub fn of(kind: JobKind) -> &'static dyn Strategy {
    match kind {
        JobKind::Batch => &Pack,
        JobKind::Service | JobKind::Stateful => &Spread,
    }
}

impl Run<'_> {
    /// Whether an instance may go to this host and fits there.
    pub fn may_use(&self, host: HostIdx, room: &Room<'_>) -> bool {
        self.passes(host)
            && room
                .views()
                .get(host)
                .is_some_and(|v| !self.wanted.is_kept_out(v))
            && room.fits(host, self.wanted)
            && room.ports(host, &self.wanted.ports).is_some()
    }

    fn passes(&self, host: HostIdx) -> bool {
        self.passing
            .as_ref()
            .is_none_or(|hosts| hosts.get(host).copied().unwrap_or(false))
    }
}

/// The hosts that an item avoids, as indexes.
pub fn avoided(item: &Item, room: &Room<'_>) -> Vec<HostIdx> {
    item.avoid.iter().filter_map(|id| room.find(id)).collect()
}
