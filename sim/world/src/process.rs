//! A process of a role: its driver, whether it lives, and what is held back while it is paused. A process that was
//! killed and started again is a new incarnation: nothing that was on its way to the old one reaches it.

use crate::blips::Leading;
use crate::clocks::Clock;
use echelon_core_model::Timestamp;
use std::fmt;

/// Which process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Who {
    /// A resource manager.
    Manager(usize),
    /// A process of a cluster's shard.
    Shard {
        /// The cluster.
        cluster: usize,
        /// The process.
        index: usize,
    },
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manager(index) => write!(f, "rm{index}"),
            Self::Shard { cluster, index } => write!(f, "c{cluster}.shard{index}"),
        }
    }
}

/// A process with the driver `D`.
#[derive(Debug)]
pub struct Process<D> {
    /// Counts its lives; messages carry it.
    pub life: u64,
    /// Its driver; `None` while it is dead.
    pub driver: Option<D>,
    /// Nothing reaches it before.
    pub paused_until: Option<Timestamp>,
    /// The wake-up that is planned.
    pub wake_at: Option<Timestamp>,
    /// What is known of its leadership.
    pub leading: Leading,
    /// Its clock.
    pub clock: Clock,
}

impl<D> Process<D> {
    /// One that lives.
    pub fn new(driver: D, clock: Clock) -> Self {
        Self {
            life: 1,
            driver: Some(driver),
            paused_until: None,
            wake_at: None,
            leading: Leading::default(),
            clock,
        }
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.driver = None;
        self.paused_until = None;
        self.wake_at = None;
        self.leading = Leading::default();
        self.life += 1;
    }

    /// Starts it again.
    pub fn start(&mut self, driver: D) {
        self.driver = Some(driver);
    }

    /// Whether the wake-up that is planned is for this moment; it is planned no more then.
    pub fn woken(&mut self, now: Timestamp) -> bool {
        let due = self.wake_at == Some(now);
        if due {
            self.wake_at = None;
        }
        due
    }

    /// Whether it is paused at that moment, and until when.
    pub fn pause_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.paused_until.filter(|until| now < *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_wake_up_that_is_planned_wakes() {
        let mut process = Process::new((), Clock::TRUE);
        process.wake_at = Some(Timestamp(5));
        let woken = [3, 5, 5, 9].map(|at| process.woken(Timestamp(at)));
        assert_eq!(woken, [false, true, false, false]);
    }
}
