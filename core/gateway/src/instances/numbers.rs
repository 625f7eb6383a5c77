//! Which instance numbers a group has: those that a cluster holds, and for what is wanted beyond them the lowest free
//! ones, as the resource manager will give them.

use echelon_core_model::{InstanceRange, RangeSet};

/// The numbers of a group of which `wanted` instances are wanted and `assigned` are held.
pub(super) fn of(assigned: &RangeSet, wanted: u32) -> RangeSet {
    let missing = u64::from(wanted).saturating_sub(assigned.count());
    if missing == 0 {
        return assigned.clone();
    }
    let all: RangeSet = InstanceRange::new(0, u32::MAX).into_iter().collect();
    assigned.union(&all.minus(assigned).lowest(missing))
}

/// The numbers from `first` on.
pub(super) fn from(numbers: &RangeSet, first: u32) -> RangeSet {
    match first.checked_sub(1).and_then(|last| InstanceRange::new(0, last)) {
        None => numbers.clone(),
        Some(before) => {
            let mut out = numbers.clone();
            out.remove(before);
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::InstanceNumber;

    #[test]
    fn wanted_numbers_fill_the_gaps() {
        let held: RangeSet = [0, 1, 5].into_iter().map(InstanceNumber).collect();
        for (wanted, numbers) in [(0, "0-1,5"), (3, "0-1,5"), (4, "0-2,5"), (6, "0-5"), (8, "0-7")] {
            assert_eq!(of(&held, wanted).to_string(), numbers, "{wanted}");
        }
        assert_eq!(from(&held, 1).to_string(), "1,5");
        assert_eq!(from(&held, 0), held);
        assert!(from(&held, 6).is_empty());
    }
}
