//! Pages of instance indexes.

use echelon_core_model::{InstanceRange, RangeSet};

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
    fn a_page_begins_with_its_first_index() {
        let held: RangeSet = [0, 1, 5].into_iter().map(InstanceNumber).collect();
        assert_eq!(from(&held, 1).to_string(), "1,5");
        assert_eq!(from(&held, 0), held);
        assert!(from(&held, 6).is_empty());
    }
}
