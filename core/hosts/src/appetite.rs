//! Whether offers are wanted: revived while instances wait, suppressed while none do. Both calls may be lost without a
//! trace (R12, R13), so neither is believed for ever.

use crate::config::Config;
use crate::manners::Demand;
use echelon_core_model::{Span, Timestamp};

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
    /// Something is wanted anew: what was declined before is asked for again.
    risen: bool,
    /// The news of the demand that was last heard.
    news: u64,
    /// Revived although nothing waits for a host.
    looks: bool,
    /// Until the same is asked for again.
    again: Span,
    /// A revival that is wanted now waits for the gap after the last one.
    held: bool,
}

impl Appetite {
    /// After a subscription nothing is known of filters. The rate limit of revivals goes on over it.
    pub fn new(now: Timestamp, before: Option<&Self>) -> Self {
        Self {
            told: Told::Nothing,
            revived_at: before.and_then(|b| b.revived_at),
            idle_since: Some(now),
            risen: false,
            news: 0,
            looks: false,
            again: Span::ZERO,
            held: before.is_some_and(|b| b.held),
        }
    }

    /// Whether a revival waits only since the last one was a short while ago.
    pub const fn is_held(&self) -> bool {
        self.held
    }

    /// Whether offers are not wanted at all.
    pub const fn suppressed(&self) -> bool {
        matches!(self.told, Told::Suppress(_))
    }

    /// The last call failed: Mesos may not have heard it.
    pub const fn call_failed(&mut self) {
        self.told = Told::Nothing;
    }

    /// Whether hosts are only looked at: nothing waits for one.
    pub const fn is_looking(&self) -> bool {
        self.looks
    }

    /// What is to be told now. `offered`: offers are open.
    pub fn next(&mut self, demand: Demand, offered: bool, now: Timestamp, config: &Config) -> Option<Tell> {
        let idle = self.note(demand, now);
        if self.due(demand, config)? > now {
            self.held = self.wants_now(demand);
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
        self.held = false;
        let was_looking = std::mem::take(&mut self.looks);
        if idle && !self.suppressed() {
            self.told = Told::Suppress(now);
            return Some(Tell::Suppress);
        }
        self.looks = idle;
        let first = match self.told {
            Told::Revive => self.risen || was_looking,
            Told::Nothing => true,
            Told::Suppress(_) => !idle,
        };
        let least = if idle {
            config.look_for_capacity
        } else {
            config.revive_again
        };
        self.again = if first {
            least
        } else {
            Span(self.again.0.saturating_mul(2)).max(least).min(config.look)
        };
        self.told = Told::Revive;
        self.revived_at = Some(now);
        self.risen = false;
        // A look at all hosts lasts as long as idleness before it is suppressed again.
        self.idle_since = self.idle_since.map(|_| now);
        Some(Tell::Revive)
    }

    /// Notes what is wanted; whether that is no host.
    fn note(&mut self, demand: Demand, now: Timestamp) -> bool {
        if let Demand::Hosts { news, .. } = demand {
            self.risen |= self.idle_since.take().is_some() || news != self.news;
            self.news = news;
            self.looks = false;
            return false;
        }
        if self.idle_since.is_none() {
            self.idle_since = Some(now);
            self.again = Span::ZERO;
        }
        self.risen = false;
        true
    }

    /// Whether hosts are wanted that were not asked for yet: only the limit makes that wait.
    fn wants_now(&self, demand: Demand) -> bool {
        let Demand::Hosts { news, .. } = demand else {
            return false;
        };
        let same = !self.risen && self.idle_since.is_none() && news == self.news;
        !(same && self.told == Told::Revive && self.revived_at.is_some())
    }

    /// When something is to be told next. `None`: as soon as it is asked.
    pub fn due(&self, demand: Demand, config: &Config) -> Option<Timestamp> {
        let gap = self
            .revived_at
            .map_or(Timestamp::default(), |t| t.plus(config.revive_gap));
        let look = if demand == Demand::Capacity {
            self.again.max(config.look_for_capacity)
        } else {
            config.look
        };
        match (demand, self.told, self.revived_at) {
            (Demand::Hosts { .. }, ..) if self.wants_now(demand) => Some(gap),
            (Demand::Hosts { .. }, _, at) => at.map(|at| at.plus(self.again)),
            (_, Told::Suppress(at), _) => Some(at.plus(look).max(gap)),
            // What is suppressed can be revived at once then: nothing that comes has to wait.
            _ => self.idle_since.map(|t| t.plus(config.idle).max(gap)),
        }
    }
}
