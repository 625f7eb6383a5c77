//! What is said to the cluster about offers, so that we have what we need and others have the rest: revive while something
//! waits, suppress while nothing does, and give back what is of no use as soon as that is known.

use crate::appetite::Tell;
use crate::call::Call;
use crate::event::OfferId;
use crate::hosts::Hosts;
use crate::stock::Arrival;
use echelon_core_model::{HostId, Span, Timestamp};

/// Offers named in one decline: about 250 KiB of ids.
const MOST_DECLINED: usize = 5_000;

/// What offers are wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// Nothing.
    Nothing,
    /// Instances wait to be granted, which depends on the capacity that is known: hosts are to be seen now and then.
    Capacity,
    /// Instances wait for hosts.
    Hosts {
        /// Changes when something waits that offers refused before were not compared with.
        news: u64,
        /// Placement is at work: it may choose any open offer at any moment.
        placing: bool,
    },
}

impl Hosts {
    /// A mark after every offer so far.
    #[must_use]
    pub const fn mark(&self) -> Arrival {
        self.stock.mark()
    }

    /// Everything that waits was compared with all offers before the mark: those that nobody has spoken for serve nobody.
    /// O(open offers).
    pub fn compared(&mut self, mark: Arrival, now: Timestamp) {
        let useless = self.stock.close_loose(mark, now);
        self.misfits.extend(useless);
    }

    /// A host's offers are about to be used: nobody else is shown their room, and they are not given back meanwhile.
    pub fn speak_for(&mut self, host: &HostId) {
        self.stock.speak_for(host);
    }

    /// A host's offers are not about to be used any more.
    pub fn let_go(&mut self, host: &HostId) {
        self.stock.let_go(host);
    }

    /// What is to be said to the cluster now.
    pub fn next_calls(&mut self, demand: Demand, now: Timestamp) -> Vec<Call> {
        self.forget(now);
        let offered = self.stock.len() > 0;
        let Some(appetite) = &mut self.appetite else {
            return Vec::new();
        };
        let was_held = appetite.is_held();
        let tell = appetite.next(demand, offered, now, &self.config);
        self.held_revivals += u64::from(appetite.is_held() && !was_held);
        let seen_once = appetite.suppressed() || appetite.is_looking();
        self.revivals += u64::from(tell == Some(Tell::Revive));
        let mut calls: Vec<Call> = Vec::new();
        calls.extend(tell.map(|tell| match tell {
            Tell::Revive => Call::Revive,
            Tell::Suppress => Call::Suppress,
        }));
        let misfits = std::mem::take(&mut self.misfits);
        let unwanted = match demand {
            Demand::Nothing | Demand::Capacity => self.stock.close_loose(self.stock.mark(), now),
            Demand::Hosts { .. } => Vec::new(),
        };
        let refuse_unwanted = if seen_once {
            self.config.refuse_idle
        } else {
            self.config.refuse_rest
        };
        let kept = self.kept_too_long(demand, now);
        for (offers, refuse) in [
            (misfits, self.config.refuse_misfit),
            (unwanted, refuse_unwanted),
            ([kept, self.due_again(now)].concat(), self.config.refuse_rest),
        ] {
            calls.extend(offers.chunks(MOST_DECLINED).map(|ids| Call::Decline {
                offers: ids.to_vec(),
                refuse,
            }));
        }
        calls.extend(self.answer_inverse(now));
        calls
    }

    /// How often offers were revived.
    #[must_use]
    pub const fn revivals(&self) -> u64 {
        self.revivals
    }

    /// How often a revival had to wait for the gap after the one before it.
    #[must_use]
    pub const fn held_revivals(&self) -> u64 {
        self.held_revivals
    }

    /// When `next_calls` has something to say at the latest, or a host begins or ceases to be left; a moment that has passed
    /// means now.
    #[must_use]
    pub fn next_wake(&self, demand: Demand, now: Timestamp) -> Option<Timestamp> {
        let appetite = self.appetite.as_ref()?;
        let due = appetite.due(demand, &self.config);
        let (loose, kept) = self.stock.oldest();
        let loose = loose.map(|t| t.plus(self.hold(demand)));
        let kept = kept.map(|t| t.plus(self.config.hold_most));
        let again = self.give_back.values().min().copied();
        let misfits = (!self.misfits.is_empty()).then(Timestamp::default);
        let maintenance = self.maintenance_wake(now);
        let all = [
            Some(due.unwrap_or_default()),
            loose,
            kept,
            again,
            misfits,
            maintenance,
        ];
        all.into_iter().flatten().min()
    }

    /// How long an offer is held of which nobody has spoken.
    const fn hold(&self, demand: Demand) -> Span {
        match demand {
            Demand::Nothing | Demand::Capacity => Span::ZERO,
            Demand::Hosts { placing: false, .. } => self.config.hold,
            Demand::Hosts { placing: true, .. } => self.config.hold_most,
        }
    }

    fn kept_too_long(&mut self, demand: Demand, now: Timestamp) -> Vec<OfferId> {
        let before = |span: Span| now.0.checked_sub(span.0).map(Timestamp).unwrap_or_default();
        let (loose, any) = (before(self.hold(demand)), before(self.config.hold_most));
        self.stock.close_older(loose, any, now)
    }

    /// Offers of calls that failed a while ago.
    fn due_again(&mut self, now: Timestamp) -> Vec<OfferId> {
        let due = self.give_back.iter().filter(|(_, due)| **due <= now);
        let ids: Vec<OfferId> = due.map(|(id, _)| id.clone()).collect();
        self.give_back.retain(|_, due| *due > now);
        ids
    }
}
