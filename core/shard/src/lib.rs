//! The shard's driver: what the leader of one cluster does next. Events in, effects out, in an order that is safe: intent
//! before ACCEPT, effect before ACKNOWLEDGE, stored wish before KILL, released before told.
//!
//! No I/O, no clock, no randomness. It chooses no host (placement) and knows no job rule (jobs); its callers are the shell
//! in `shard/` and the simulation in `sim/world`.
#![forbid(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros
)]

mod config;
mod event;

pub use config::{Config, Timing};
pub use event::{Alarm, Effect, Event, LinkId};

use echelon_core_model::Timestamp;

/// The driver of one cluster.
#[derive(Debug)]
pub struct Shard {
    config: Config,
}

impl Shard {
    /// A follower that knows nothing yet.
    #[must_use]
    pub const fn new(config: Config) -> Self {
        Self { config }
    }

    /// Takes one event in and appends what is to be done, in order.
    pub fn step(&mut self, _event: Event, _now: Timestamp, _out: &mut Vec<Effect>) {
        let _ = &self.config;
    }

    /// When `Event::Wake` is wanted at the latest.
    #[must_use]
    pub const fn next_wake(&self) -> Option<Timestamp> {
        None
    }
}
