//! What will happen, in order of time and, at the same time, in order of being planned.

use echelon_core_model::Timestamp;
use std::collections::BTreeMap;

/// A queue of things to happen.
#[derive(Debug)]
pub struct Queue<T> {
    items: BTreeMap<(Timestamp, u64), T>,
    planned: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            items: BTreeMap::new(),
            planned: 0,
        }
    }
}

impl<T> Queue<T> {
    /// Plans something.
    pub fn plan(&mut self, at: Timestamp, item: T) {
        self.planned += 1;
        self.items.insert((at, self.planned), item);
    }

    /// Takes the next thing that happens not after `until`.
    pub fn pop(&mut self, until: Timestamp) -> Option<(Timestamp, T)> {
        let ((at, _), _) = self.items.first_key_value()?;
        if *at > until {
            return None;
        }
        self.items.pop_first().map(|((at, _), item)| (at, item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_happen_in_order_of_time_then_of_planning() {
        let mut queue = Queue::default();
        for (at, item) in [(5, 'c'), (1, 'a'), (5, 'd'), (3, 'b'), (9, 'z')] {
            queue.plan(Timestamp(at), item);
        }
        let order: String = std::iter::from_fn(|| queue.pop(Timestamp(8)))
            .map(|(_, item)| item)
            .collect();
        assert_eq!(order, "abcd");
    }
}
