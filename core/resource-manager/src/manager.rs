//! The state machine's face: events in, effects out.

use crate::config::Config;
use crate::effect::Effect;
use crate::event::Event;
use echelon_core_model::Timestamp;

/// The resource manager. Acts only between an `Elected` and the next `Deposed`.
#[derive(Debug)]
pub struct ResourceManager {
    config: Config,
    wake: Option<Timestamp>,
}

impl ResourceManager {
    /// One that does not lead.
    #[must_use]
    pub const fn new(config: Config) -> Self {
        Self { config, wake: None }
    }

    /// Takes one event in; `out` gets what is to be done, in order.
    pub fn step(&mut self, event: Event, now: Timestamp, out: &mut Vec<Effect>) {
        let _ = (event, now, out, &self.config);
    }

    /// When `Event::Wake` is wanted next.
    #[must_use]
    pub const fn next_wake(&self) -> Option<Timestamp> {
        self.wake
    }
}
