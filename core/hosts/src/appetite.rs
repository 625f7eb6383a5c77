//! Whether offers are wanted: revived while instances wait, suppressed while none do. Both calls may be lost without a
//! trace (R12, R13), so neither is believed for ever.

use crate::config::Config;
use echelon_core_model::Timestamp;

/// What Mesos was last told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Nothing in this subscription, or the call failed (R34).
    Nothing,
    Revive,
    Suppress(Timestamp),
}

/// What to tell Mesos.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tell {
    /// Offer again whatever there is.
    Revive,
    /// Offer nothing.
    Suppress,
}

/// The wish for offers within one subscription.
#[derive(Debug, Clone, Copy)]
pub struct Appetite {
    told: Told,
    revived_at: Option<Timestamp>,
    /// Since when nothing is wanted; `None` while something is.
    idle_since: Option<Timestamp>,
    /// Something is wanted anew: what was declined while nothing was is asked for again.
    risen: bool,
}

impl Appetite {
    /// After a subscription nothing is known of filters. The rate limit of revivals goes on over it.
    pub fn new(now: Timestamp, before: Option<&Self>) -> Self {
        Self {
            told: Told::Nothing,
            revived_at: before.and_then(|b| b.revived_at),
            idle_since: Some(now),
            risen: false,
        }
    }

    /// Whether offers are not wanted at all.
    pub const fn suppressed(&self) -> bool {
        matches!(self.told, Told::Suppress(_))
    }

    /// The last call failed: Mesos may not have heard it.
    pub const fn call_failed(&mut self) {
        self.told = Told::Nothing;
    }

    /// What is to be told now. `offered`: offers are open.
    pub fn next(&mut self, demand: bool, offered: bool, now: Timestamp, config: &Config) -> Option<Tell> {
        if demand {
            self.risen |= self.idle_since.take().is_some();
        } else {
            self.risen = false;
            self.idle_since.get_or_insert(now);
        }
        if self.due(demand, config)? > now {
            // An offer although offers are suppressed: the call may have been lost. One on its way is no reason.
            if let Told::Suppress(at) = self.told
                && offered
                && now >= at.plus(config.revive_gap)
            {
                self.told = Told::Suppress(now);
                return Some(Tell::Suppress);
            }
            return None;
        }
        if demand || self.suppressed() {
            self.told = Told::Revive;
            self.revived_at = Some(now);
            self.risen = false;
            // A look at all hosts lasts as long as idleness before it is suppressed again.
            self.idle_since = self.idle_since.map(|_| now);
            Some(Tell::Revive)
        } else {
            self.told = Told::Suppress(now);
            Some(Tell::Suppress)
        }
    }

    /// When something is to be told next. `None`: as soon as it is asked.
    pub fn due(&self, demand: bool, config: &Config) -> Option<Timestamp> {
        let gap = self
            .revived_at
            .map_or(Timestamp::default(), |t| t.plus(config.revive_gap));
        match (demand, self.told, self.revived_at) {
            (true, Told::Revive, Some(at)) if !self.risen && self.idle_since.is_none() => {
                Some(at.plus(config.revive_again))
            }
            (true, ..) => Some(gap),
            (false, Told::Suppress(at), _) => Some(at.plus(config.look).max(gap)),
            (false, ..) => self.idle_since.map(|t| t.plus(config.idle)),
        }
    }
}
