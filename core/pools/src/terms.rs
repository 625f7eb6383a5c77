//! On what terms work runs in its pool, and what a pool counts beside what it has taken in all.

use crate::rooms::Side;
use echelon_core_model::resources::Resources;

/// On what terms work runs: which of its pool's bounds hold for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Terms {
    /// Which room it runs on.
    pub side: Side,
    /// Whether it may be stopped for others. What may not runs within the reservations of its pool and of those above.
    pub preemptible: bool,
    /// Whether it starts other jobs: pools bound what such work has together.
    pub controller: bool,
    /// Whether its job counts already among those of its pools, or none of them bounds their number.
    pub counted: bool,
}

impl Terms {
    /// Those of most work.
    #[must_use]
    pub const fn of(side: Side) -> Self {
        Self {
            side,
            preemptible: true,
            controller: false,
            counted: true,
        }
    }
}

/// The number of a host pool, as the caller counts them. One that no cluster has is as good as any number without a host.
pub type HostPoolIdx = u16;

/// What is admitted at once, or not at all: one instance, or all of a gang.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unit {
    /// Its room.
    pub shape: Resources,
    /// How many instances it is.
    pub instances: u64,
    /// The host pool whose hosts it needs; `None`: those of any are good enough.
    pub host_pool: Option<HostPoolIdx>,
}

impl Unit {
    /// A single instance, on any host.
    #[must_use]
    pub const fn one(shape: Resources) -> Self {
        Self {
            shape,
            instances: 1,
            host_pool: None,
        }
    }

    /// The same on hosts of a host pool.
    #[must_use]
    pub const fn on(self, host_pool: Option<HostPoolIdx>) -> Self {
        Self { host_pool, ..self }
    }
}

/// What work holds in a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    /// Of ordinary room.
    pub ordinary: Resources,
    /// Of what is lent.
    pub lent: Resources,
    /// Of the ordinary room, what work holds that is not preemptible.
    pub firm: Resources,
    /// Of the ordinary room, what controllers hold.
    pub controllers: Resources,
    /// Instances, granted or active.
    pub instances: u64,
    /// Jobs of which something has begun.
    pub jobs: u64,
}

impl Held {
    /// What so many units hold, where `lends` tells the kinds that are lent. Their job is not counted.
    #[must_use]
    pub fn new(terms: Terms, unit: Unit, n: u64, lends: Resources) -> Self {
        let room = unit.shape.times(n);
        let lent = match terms.side {
            Side::Ordinary => Resources::ZERO,
            Side::Revocable => room.lent_part(lends),
        };
        let ordinary = room.minus(lent);
        Self {
            ordinary,
            lent,
            firm: if terms.preemptible {
                Resources::ZERO
            } else {
                ordinary
            },
            controllers: if terms.controller {
                ordinary
            } else {
                Resources::ZERO
            },
            instances: unit.instances.saturating_mul(n),
            jobs: 0,
        }
    }

    /// Ordinary room alone, and what is lent.
    #[must_use]
    pub fn plain(ordinary: Resources, lent: Resources) -> Self {
        Self {
            ordinary,
            lent,
            ..Self::default()
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            ordinary: self.ordinary.plus(other.ordinary),
            lent: self.lent.plus(other.lent),
            firm: self.firm.plus(other.firm),
            controllers: self.controllers.plus(other.controllers),
            instances: self.instances.saturating_add(other.instances),
            jobs: self.jobs.saturating_add(other.jobs),
        }
    }

    /// This without another.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            ordinary: self.ordinary.minus(other.ordinary),
            lent: self.lent.minus(other.lent),
            firm: self.firm.minus(other.firm),
            controllers: self.controllers.minus(other.controllers),
            instances: self.instances.saturating_sub(other.instances),
            jobs: self.jobs.saturating_sub(other.jobs),
        }
    }
}
