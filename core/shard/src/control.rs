//! The switch that stops all kills (law 8). A leader kills nothing before it has read the switch itself, nor while what it has
//! read is older than `Timing::control`: so whatever becomes of an order, nothing is killed later than that after a flip. Orders
//! only make it quicker. What would be killed stays due, and goes at the usual pace when kills are on again.

use crate::Phase;
use crate::Shard;
use crate::kill::Target;
use crate::purpose::Purpose;
use echelon_core_model::control::Control;
use echelon_core_model::store::{Consistency, Op, Query};
use echelon_core_model::time::Span;
use echelon_core_model::{Timestamp, Version};

/// What is known of the switch.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Switch {
    version: Version,
    off: bool,
    /// Since when we know it to be off.
    since: Timestamp,
    /// When the newest read that was answered began; `None` before the first.
    read_at: Option<Timestamp>,
    /// When to read again.
    due: Timestamp,
    /// A read is under way.
    asking: bool,
}

impl Shard {
    /// Reads the switch again when it is time: three times as often as what was read may be old, so that one read may fail
    /// without stopping anything.
    pub(crate) fn keep_control(&mut self) {
        if self.phase != Phase::Serving || self.switch.asking || self.switch.due > self.now {
            return;
        }
        self.switch.asking = true;
        let op = Op::Read(Query::Control, Consistency::Serial);
        self.ask(op, Purpose::Control);
    }

    /// When to read it again.
    pub(crate) fn next_control(&self) -> Option<Timestamp> {
        (!self.switch.asking).then_some(self.switch.due)
    }

    /// The row, by a read that began at `since`.
    pub(crate) fn on_control(&mut self, control: &Control, since: Timestamp) {
        self.switch.asking = false;
        self.switch.read_at = self.switch.read_at.max(Some(since));
        self.switch.due = since.plus(Span(self.config.timing.control.0 / 3)).max(self.now);
        self.drivers.know(control);
        self.turn(control.version, control.kills_off);
    }

    /// Takes in how the switch stands, unless that is older than what is known.
    pub(crate) fn turn(&mut self, version: Version, off: bool) {
        if version <= self.switch.version {
            return;
        }
        self.switch.version = version;
        if off == self.switch.off {
            return;
        }
        self.switch.off = off;
        self.switch.since = self.now;
        // What is to end waits for another thing now.
        for target in self.kills.targets() {
            if let Target::Run(((number, _), ..)) = target {
                self.picture.unreported.insert(*number);
            }
        }
    }

    /// The version of the switches that is obeyed; 0 before any is known.
    pub(crate) const fn known_switches(&self) -> Version {
        self.switch.version
    }

    /// Whether anything may be killed, as far as the switch is concerned.
    pub(crate) fn may_kill(&self) -> bool {
        let fresh = |at: Timestamp| self.now <= at.plus(self.config.timing.control);
        !self.switch.off && self.switch.read_at.is_some_and(fresh)
    }

    /// Whether kills are switched off; `None` until that was read.
    #[must_use]
    pub fn kills_off(&self) -> Option<bool> {
        self.switch.read_at.map(|_| self.switch.off)
    }

    /// Since when kills are known to be off.
    pub(crate) fn withheld_since(&self) -> Option<Timestamp> {
        self.switch.off.then_some(self.switch.since)
    }
}
