//! Shortages: work that has less capacity than its pool is entitled to, where it lacks that, and for how many
//! units capacity may be made.

use crate::demand::ask::ask;
use crate::preemption::capacity_left::{CapacityLeft, PressedPool};
use crate::preemption::unplaced::Unplaced;
use crate::preemption::victims::VictimCandidates;
use echelon_core_pools::{Request, Turn};

/// A group, or a gang, that lacks capacity.
#[derive(Debug, Clone)]
pub(crate) struct Shortage {
    /// What it asks for; of granted work, what is granted of it and on no host.
    pub(crate) request: Request,
    /// Within its own pool only work of less precedence is stopped for it.
    pub(crate) precedence: u32,
    pub(crate) place: ShortPlace,
    /// For how many units capacity may be made.
    pub(crate) most: u64,
}

/// Where capacity is lacking.
#[derive(Debug, Clone)]
pub(crate) enum ShortPlace {
    /// No cluster has enough of it.
    Cluster,
    /// A pool above has used up its limit or entitlement, so other pools below it have more than their own.
    Pool(PressedPool),
    /// Its own pool has given all to work that comes after it.
    OwnPool,
    /// It is granted, and no host of its cluster has enough.
    Hosts(HostsShortage),
}

/// What may be tried for granted work that finds no host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostsShortage {
    /// Instances may be stopped for it now.
    pub(crate) may_stop: bool,
    /// A host's capacity may be kept for it as what is there ends. Nothing is stopped.
    pub(crate) may_keep: bool,
}

impl Shortage {
    /// What work lacks that waits to be admitted. `None`: there is nothing that it could be given.
    pub(crate) fn of_waiting(
        left: &CapacityLeft<'_>,
        victims: &VictimCandidates<'_>,
        turn: &Turn,
    ) -> Option<Self> {
        let known = left.known;
        let request = ask(known.facts, known.admission.candidates.limits(), turn)?;
        let request = left.without_withheld(request);
        if request.room == 0 || request.slices.is_empty() && request.unbound == 0 {
            return None;
        }
        let own = left.own_count(&request);
        let (place, most) = if own == 0 {
            (ShortPlace::OwnPool, left.enforced_count(&request))
        } else {
            let pressed = left.pressed_pool(&request, victims);
            (pressed.map_or(ShortPlace::Cluster, ShortPlace::Pool), own)
        };
        Some(Self {
            request,
            precedence: turn.priority.0,
            place,
            most,
        })
    }

    /// What granted work lacks. `most`: so much of it is within the entitlement of its pool.
    pub(crate) fn of_granted(unplaced: Unplaced, most: u64, of: HostsShortage) -> Self {
        Self {
            request: unplaced.request,
            precedence: unplaced.precedence,
            place: ShortPlace::Hosts(of),
            most,
        }
    }

    /// Whether units that are not granted yet get the capacity.
    pub(crate) const fn is_ungranted(&self) -> bool {
        !matches!(self.place, ShortPlace::Hosts(_))
    }
}
