//! What a slice's grants add up to: Allocated = max(granted, reported active). A grant that shrinks frees room only when the
//! shard reports that it has obeyed the smaller one; until then the larger may still be used.

use echelon_core_model::Few;

/// The grants of one slice that its shard may still use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GrantLine {
    /// Sent grants by number, from the one last obeyed on.
    sent: Few<u64, u64>,
    /// Preempted instances that these leave out.
    counted: u64,
    /// Instances taken over beyond a grant that these include.
    included: u64,
}

impl GrantLine {
    /// The grant in force: the one sent last.
    #[must_use]
    pub fn granted(&self) -> u64 {
        self.sent.last_key_value().map_or(0, |(_, active)| *active)
    }

    /// The number of the grant in force; 0 before the first.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.sent.last_key_value().map_or(0, |(number, _)| *number)
    }

    /// How many preempted instances the grant leaves out, of all that its shard ever took.
    #[must_use]
    pub const fn counted(&self) -> u64 {
        self.counted
    }

    /// Notes how many instances the shard ever took: whatever was sent allows so many less.
    pub fn count(&mut self, preempted: u64) {
        let more = preempted.saturating_sub(self.counted);
        self.counted = self.counted.max(preempted);
        for active in self.sent.values_mut() {
            *active = active.saturating_sub(more);
        }
    }

    /// How many instances the grant includes of all that its shard ever took over beyond one.
    #[must_use]
    pub const fn included(&self) -> u64 {
        self.included
    }

    /// Notes how many instances the shard ever took over so: whatever was sent allows so many more.
    pub fn include(&mut self, added: u64) {
        let more = added.saturating_sub(self.included);
        self.included = self.included.max(added);
        for active in self.sent.values_mut() {
            *active = active.saturating_add(more);
        }
    }

    /// Whether none was ever sent.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.sent.is_empty()
    }

    /// Notes a grant before it is sent. Numbers grow.
    pub fn send(&mut self, number: u64, active: u64) {
        // The same amount under a newer number allows nothing more: one entry stands for both.
        let renewed = self.granted() == active && self.sent.len() > 1;
        if renewed {
            self.sent.pop_last();
        }
        self.sent.insert(number, active);
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
        self.sent.values().copied().max().unwrap_or_default().max(active)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        line.count(2);
        line.send(1, 6);
        line.send(2, 8);
        line.count(3);
        line.count(3);
        assert_eq!((line.granted(), line.allocated(0), line.counted()), (7, 7, 3));
        line.obeyed(2);
        line.count(2);
        assert_eq!((line.granted(), line.counted()), (7, 3));
    }

    #[test]
    fn what_was_preempted_lowers_every_grant_that_may_still_be_used() {
        let mut line = GrantLine::default();
        line.send(1, 8);
        line.send(2, 6);
        line.count(3);
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
        line.include(2);
        line.send(1, 6);
        line.send(2, 4);
        line.include(5);
        line.include(5);
        assert_eq!((line.granted(), line.allocated(0), line.included()), (7, 9, 5));
        line.obeyed(2);
        line.include(2);
        assert_eq!((line.granted(), line.allocated(0), line.included()), (7, 7, 5));
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
