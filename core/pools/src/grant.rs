//! What a slice's grants add up to: Allocated = max(granted, reported active). A smaller grant frees capacity
//! only when the shard reports that it has obeyed it. Until then the larger one may still be used.
//! An expired grant allows nothing to begin and stops nothing. Once the shard has obeyed it, the slice has
//! what is active.

use echelon_core_model::Few;
use echelon_core_model::directive::OwnChanges;

/// The grants of one slice that its shard may still use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GrantLine {
    /// Sent grants by number, from the one last obeyed on. Of those that are expired only the last one.
    sent: Few<u64, u64>,
    /// The last one is expired.
    expired: bool,
    /// The changes of the shard that these take into account.
    known: OwnChanges,
}

impl GrantLine {
    /// The grant in force: the one sent last.
    #[must_use]
    pub fn granted(&self) -> u64 {
        self.sent.last_key_value().map_or(0, |(_, active)| *active)
    }

    /// Whether the grant in force is expired: nothing begins under it.
    #[must_use]
    pub const fn is_expired(&self) -> bool {
        self.expired
    }

    /// The number of the grant in force; 0 before the first.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.sent.last_key_value().map_or(0, |(number, _)| *number)
    }

    /// The changes of its shard that the grant takes into account.
    #[must_use]
    pub const fn known(&self) -> OwnChanges {
        self.known
    }

    /// Notes what the shard has changed by itself: whatever was sent is worth so much less or more.
    pub fn note(&mut self, own: OwnChanges) {
        for active in self.sent.values_mut() {
            *active = own.since(self.known, *active);
        }
        self.known = self.known.newer(own);
    }

    /// Whether none was ever sent.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.sent.is_empty()
    }

    /// Notes a grant before it is sent. Numbers grow.
    pub fn send(&mut self, number: u64, active: u64) {
        // The same amount under a newer number allows nothing more: one entry stands for both.
        // An expired grant allows nothing, so whatever comes after it stands for it as well.
        let is_renewal = self.granted() == active && self.sent.len() > 1;
        if self.expired || is_renewal {
            self.sent.pop_last();
        }
        self.expired = false;
        self.sent.insert(number, active);
    }

    /// Notes, before it is sent, that the grant in force expires: the same amount under a new number.
    /// Does nothing before the first grant.
    pub fn expire(&mut self, number: u64) {
        let amount = self.sent.last_key_value().map(|(_, active)| *active);
        if self.expired {
            self.sent.pop_last();
        }
        if let Some(amount) = amount {
            self.sent.insert(number, amount);
            self.expired = true;
        }
    }

    /// Notes which grant the shard has obeyed: older ones are used no more.
    pub fn obeyed(&mut self, number: u64) {
        let last = self.sent.last_key_value().map(|(n, a)| (*n, *a));
        // A renewal took its predecessor's place, so what is left at or above `number` is what may still be used.
        self.sent.retain(|n, _| *n >= number);
        if let (true, Some((n, a))) = (self.sent.is_empty(), last) {
            self.sent.insert(n, a);
        }
    }

    /// The most that the shard may make of it: what counts against pools and limits.
    #[must_use]
    pub fn allocated(&self, active: u64) -> u64 {
        let open = self.sent.len().saturating_sub(self.expired.into());
        let most = self.sent.values().take(open).copied().max();
        most.unwrap_or_default().max(active)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn preempted(preempted: u64) -> OwnChanges {
        OwnChanges {
            preempted,
            taken_over: 0,
        }
    }

    fn taken_over(taken_over: u64) -> OwnChanges {
        OwnChanges {
            preempted: 0,
            taken_over,
        }
    }

    #[test]
    fn a_smaller_grant_frees_room_only_when_it_was_obeyed() {
        let mut line = GrantLine::default();
        line.send(1, 6);
        line.obeyed(1);
        line.send(2, 2);
        assert_eq!((line.granted(), line.allocated(1)), (2, 6));
        line.obeyed(1);
        assert_eq!(line.allocated(1), 6);
        line.obeyed(2);
        assert_eq!((line.allocated(1), line.allocated(4)), (2, 4));
    }

    #[test]
    fn renewals_take_no_room() {
        let mut line = GrantLine::default();
        line.send(1, 6);
        (2..100).for_each(|n| line.send(n, 3));
        assert!(line.sent.len() <= 3, "{line:?}");
        assert_eq!(line.allocated(0), 6);
        line.obeyed(99);
        assert_eq!(line.allocated(0), 3);
    }

    #[test]
    fn what_was_preempted_lowers_whatever_was_sent_once() {
        let mut line = GrantLine::default();
        line.note(preempted(2));
        line.send(1, 6);
        line.send(2, 8);
        line.note(preempted(3));
        line.note(preempted(3));
        assert_eq!(
            (line.granted(), line.allocated(0), line.known().preempted),
            (7, 7, 3)
        );
        line.obeyed(2);
        line.note(preempted(2));
        assert_eq!((line.granted(), line.known().preempted), (7, 3));
    }

    #[test]
    fn what_was_preempted_lowers_every_grant_that_may_still_be_used() {
        let mut line = GrantLine::default();
        line.send(1, 8);
        line.send(2, 6);
        line.note(preempted(3));
        assert_eq!((line.granted(), line.allocated(0)), (3, 5));
    }

    #[test]
    fn a_smaller_grant_takes_the_place_of_no_larger_one_before_it_is_obeyed() {
        let mut line = GrantLine::default();
        line.send(1, 2);
        line.send(2, 6);
        line.send(3, 4);
        assert_eq!((line.granted(), line.allocated(0)), (4, 6));
        line.send(4, 4);
        assert_eq!(line.allocated(0), 6);
        line.obeyed(4);
        assert_eq!(line.allocated(0), 4);
    }

    #[test]
    fn what_was_taken_over_raises_whatever_was_sent_once() {
        let mut line = GrantLine::default();
        line.note(taken_over(2));
        line.send(1, 6);
        line.send(2, 4);
        line.note(taken_over(5));
        line.note(taken_over(5));
        assert_eq!(
            (line.granted(), line.allocated(0), line.known().taken_over),
            (7, 9, 5)
        );
        line.obeyed(2);
        line.note(taken_over(2));
        assert_eq!(
            (line.granted(), line.allocated(0), line.known().taken_over),
            (7, 7, 5)
        );
    }

    #[test]
    fn an_expired_grant_leaves_what_is_active_once_it_was_obeyed() {
        let mut line = GrantLine::default();
        line.expire(1);
        assert!(line.is_new() && !line.is_expired());
        line.send(2, 6);
        line.obeyed(2);
        line.expire(3);
        assert_eq!(
            (line.granted(), line.allocated(4), line.is_expired()),
            (6, 6, true)
        );
        line.obeyed(3);
        assert_eq!((line.granted(), line.allocated(4), line.allocated(3)), (6, 4, 3));
        line.expire(4);
        line.obeyed(4);
        assert_eq!(line.allocated(2), 2);
        line.send(5, 3);
        assert_eq!(
            (line.granted(), line.allocated(2), line.is_expired()),
            (3, 3, false)
        );
    }

    /// A shard that gets grants late or never, and in order. It stops what a smaller one forbids.
    #[derive(Debug, Default)]
    struct LateShard {
        /// Number, amount, and whether it is expired.
        obeyed: (u64, u64, bool),
        active: u64,
    }

    impl LateShard {
        fn begin(&mut self, n: u64) {
            let (_, amount, is_expired) = self.obeyed;
            if !is_expired {
                self.active += n.min(amount.saturating_sub(self.active));
            }
        }
    }

    #[derive(Debug, Clone, Copy)]
    enum GrantStep {
        Send(u64),
        Expire,
        /// The shard gets the grant that is so many before the last one.
        Deliver(usize),
        Begin(u64),
        End(u64),
        Report,
    }

    fn steps() -> impl Strategy<Value = Vec<GrantStep>> {
        let step = prop_oneof![
            (0..9u64).prop_map(GrantStep::Send),
            Just(GrantStep::Expire),
            (0..4usize).prop_map(GrantStep::Deliver),
            (1..9u64).prop_map(GrantStep::Begin),
            (1..9u64).prop_map(GrantStep::End),
            Just(GrantStep::Report),
        ];
        prop::collection::vec(step, 1..60)
    }

    proptest! {
        #[test]
        fn no_shard_has_more_active_than_is_allocated(steps in steps()) {
            let (mut line, mut shard) = (GrantLine::default(), LateShard::default());
            let mut sent: Vec<(u64, u64, bool)> = Vec::new();
            let mut reported = 0;
            for step in steps {
                let number = sent.len() as u64 + 1;
                match step {
                    GrantStep::Send(n) => {
                        line.send(number, n);
                        sent.push((number, n, false));
                    }
                    GrantStep::Expire if !line.is_new() => {
                        line.expire(number);
                        sent.push((number, line.granted(), true));
                    }
                    GrantStep::Deliver(back) => {
                        let grant = sent.iter().rev().nth(back).copied().unwrap_or_default();
                        if grant.0 > shard.obeyed.0 {
                            shard.obeyed = grant;
                            shard.active = shard.active.min(grant.1);
                        }
                    }
                    GrantStep::Begin(n) => shard.begin(n),
                    GrantStep::End(n) => shard.active = shard.active.saturating_sub(n),
                    GrantStep::Report => {
                        reported = shard.active;
                        line.obeyed(shard.obeyed.0);
                    }
                    GrantStep::Expire => {}
                }
                prop_assert!(shard.active <= line.allocated(reported), "{line:?} {shard:?}");
                let number = sent.last().map_or(0, |(number, ..)| *number);
                prop_assert_eq!(line.number(), number);
            }
        }
    }

    #[test]
    fn an_unknown_number_changes_nothing() {
        let mut line = GrantLine::default();
        line.send(5, 6);
        line.send(7, 2);
        line.obeyed(3);
        assert_eq!(line.allocated(0), 6);
    }
}
