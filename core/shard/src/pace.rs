//! How fast mass actions go (law 8): each may do so many a second, in equal shares of a tenth of a second, so that nothing
//! bursts. What does not fit waits for the next share; that it had to is counted.

use crate::config::Rates;
use echelon_core_model::Timestamp;
use echelon_core_model::time::Span;

/// The usual length of a share.
const SHARE_MS: u64 = 100;

/// What is done to many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Runs are begun.
    Launch,
    /// Runs that were lost are given up for further ones.
    Replace,
    /// Tasks are killed.
    Kill,
    /// Mesos is asked about tasks.
    Reconcile,
}

impl Action {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Launch, Self::Replace, Self::Kill, Self::Reconcile];

    /// The word of metrics and configuration.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Replace => "replace",
            Self::Kill => "kill",
            Self::Reconcile => "reconcile",
        }
    }
}

/// What is left of one action's present share.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    left: u64,
    ends: Timestamp,
    /// What was done beyond it and is not made up for yet.
    debt: u64,
    waited: bool,
    held: u64,
}

/// The paces of all actions. They go on over leaderships: a new one is no reason for a burst.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Paces {
    rates: Rates,
    shares: [Share; Action::ALL.len()],
}

/// A share and how long it is for: at least one, however slow.
fn share_of(rate: u32) -> (u64, Span) {
    let rate = u64::from(rate.max(1));
    let share = rate * SHARE_MS / 1000;
    if share == 0 {
        (1, Span(1000 / rate))
    } else {
        (share, Span(SHARE_MS))
    }
}

impl Paces {
    pub(crate) fn new(rates: Rates) -> Self {
        Self {
            rates,
            shares: Default::default(),
        }
    }

    const fn share(&mut self, action: Action) -> &mut Share {
        let [launch, replace, kill, reconcile] = &mut self.shares;
        match action {
            Action::Launch => launch,
            Action::Replace => replace,
            Action::Kill => kill,
            Action::Reconcile => reconcile,
        }
    }

    /// How many may be done now. When it is none, that is noted as holding something back.
    pub(crate) fn left(&mut self, action: Action, now: Timestamp) -> usize {
        let (most, length) = share_of(self.rates.of(action));
        let share = self.share(action);
        if now >= share.ends {
            *share = Share {
                left: most.saturating_sub(share.debt),
                ends: now.plus(length),
                debt: 0,
                waited: false,
                held: share.held,
            };
        }
        if share.left == 0 && !share.waited {
            share.waited = true;
            share.held += 1;
        }
        usize::try_from(share.left).unwrap_or(usize::MAX)
    }

    /// So many are done. What goes beyond the share, as a gang that begins at once, is made up for by a later next one.
    pub(crate) fn spend(&mut self, action: Action, n: usize) {
        let (most, length) = share_of(self.rates.of(action));
        let share = self.share(action);
        let n = u64::try_from(n).unwrap_or(u64::MAX);
        let beyond = n.saturating_sub(share.left).saturating_add(share.debt);
        share.left = share.left.saturating_sub(n);
        share.debt = beyond % most;
        share.ends = share.ends.plus(Span(length.0.saturating_mul(beyond / most)));
    }

    /// Does one, if it may be done now.
    pub(crate) fn take(&mut self, action: Action, now: Timestamp) -> bool {
        let free = self.left(action, now) > 0;
        self.spend(action, usize::from(free));
        free
    }

    /// When more may be done: long ago, if something is left.
    pub(crate) fn free_at(&self, action: Action) -> Timestamp {
        let mut paces = *self;
        let share = paces.share(action);
        if share.left > 0 { Timestamp(0) } else { share.ends }
    }

    /// The limit of an action a second, and how many shares were too small for what there was to do.
    pub(crate) fn told(&self, action: Action) -> (u32, u64) {
        let mut paces = *self;
        (self.rates.of(action), paces.share(action).held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paces(kills: u32) -> Paces {
        Paces::new(Rates {
            kills,
            ..Rates::default()
        })
    }

    /// How many are done in ten seconds by somebody who always wants more.
    fn done(kills: u32) -> u64 {
        let mut paces = paces(kills);
        let ms = (0..10_000).map(Timestamp);
        let per_ms = ms.map(|now| (0..2_000).take_while(|_| paces.take(Action::Kill, now)).count());
        per_ms.map(|n| u64::try_from(n).unwrap()).sum()
    }

    #[test]
    fn no_more_than_the_limit_is_done_and_no_less() {
        for kills in [1, 2, 5, 10, 500, 5_000] {
            assert_eq!(done(kills), u64::from(kills) * 10, "{kills} a second");
        }
        assert!(
            (10..=11).contains(&done(0)),
            "0 is the least there is: one a second"
        );
    }

    #[test]
    fn what_is_held_back_is_counted_once_a_share_and_each_action_for_itself() {
        let mut paces = paces(10);
        assert!(paces.take(Action::Kill, Timestamp(0)));
        assert_eq!(paces.told(Action::Kill), (10, 0));
        for _ in 0..3 {
            assert!(!paces.take(Action::Kill, Timestamp(50)));
        }
        assert_eq!(paces.told(Action::Kill), (10, 1));
        assert_eq!(paces.free_at(Action::Kill), Timestamp(100));
        assert!(paces.take(Action::Kill, Timestamp(100)));
        assert!(!paces.take(Action::Kill, Timestamp(100)));
        assert_eq!(paces.told(Action::Kill), (10, 2));
        assert!(paces.left(Action::Launch, Timestamp(100)) > 1);
        assert_eq!(paces.told(Action::Launch).1, 0);
    }
}
