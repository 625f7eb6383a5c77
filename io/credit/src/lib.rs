//! A credit in bytes for a way out of the process: to a Mesos, to storage, or to another role. What goes out
//! holds a part of the credit until it has left, so that a peer that reads slowly costs a bounded amount of
//! memory.
//!
//! A message that is larger than the whole credit goes out alone. Who waits is served in the order in which
//! it came.
#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{Mutex, Notify};

/// The bytes that may be under way at a time on one way out. Clones share them.
#[derive(Clone)]
pub struct Credit(Arc<Account>);

struct Account {
    bound: usize,
    under_way: AtomicUsize,
    returned: Notify,
    /// Held by the first of those that wait; the others queue for it in order.
    turn: Mutex<()>,
}

/// A part of a credit. Dropping it gives the bytes back.
#[must_use = "the bytes are given back when it is dropped"]
pub struct HeldCredit {
    credit: Credit,
    bytes: usize,
}

impl Credit {
    /// A credit of so many bytes.
    #[must_use]
    pub fn new(bound: usize) -> Self {
        Self(Arc::new(Account {
            bound,
            under_way: AtomicUsize::new(0),
            returned: Notify::new(),
            turn: Mutex::new(()),
        }))
    }

    /// The whole of it, in bytes.
    #[must_use]
    pub fn bound(&self) -> usize {
        self.0.bound
    }

    /// The bytes that are held now.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.0.under_way.load(Ordering::Acquire)
    }

    /// Counts bytes that go out in any case, also beyond the bound: their sender has asked for room in
    /// another way, or must not wait.
    pub fn take(&self, bytes: usize) -> HeldCredit {
        self.0.under_way.fetch_add(bytes, Ordering::AcqRel);
        self.held(bytes)
    }

    /// A part of the credit, if there is room for it now. What is larger than the bound needs all of it.
    pub fn try_take(&self, bytes: usize) -> Option<HeldCredit> {
        let bound = self.0.bound;
        let more = |now: usize| {
            let next = now.saturating_add(bytes);
            (now == 0 || next <= bound).then_some(next)
        };
        let taken = self
            .0
            .under_way
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        taken.is_ok().then(|| self.held(bytes))
    }

    /// Waits for a part of the credit, behind those that wait already. Dropping the wait leaves the queue.
    pub async fn wait_for(&self, bytes: usize) -> HeldCredit {
        let _turn = self.0.turn.lock().await;
        loop {
            let returned = self.0.returned.notified();
            tokio::pin!(returned);
            // From here on no return is missed.
            returned.as_mut().enable();
            if let Some(held) = self.try_take(bytes) {
                return held;
            }
            returned.await;
        }
    }

    /// Waits until at most so many bytes are under way.
    pub async fn at_most(&self, bytes: usize) {
        loop {
            let returned = self.0.returned.notified();
            tokio::pin!(returned);
            returned.as_mut().enable();
            if self.under_way() <= bytes {
                return;
            }
            returned.await;
        }
    }

    fn held(&self, bytes: usize) -> HeldCredit {
        HeldCredit {
            credit: self.clone(),
            bytes,
        }
    }
}

impl Drop for HeldCredit {
    fn drop(&mut self) {
        self.credit.0.under_way.fetch_sub(self.bytes, Ordering::AcqRel);
        self.credit.0.returned.notify_waiters();
    }
}

impl fmt::Debug for Credit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credit({} of {} bytes)", self.under_way(), self.bound())
    }
}

impl fmt::Debug for HeldCredit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeldCredit({} bytes)", self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex as StdMutex;
    use std::time::Duration;

    #[test]
    fn what_fits_is_taken_and_what_is_dropped_comes_back() {
        let credit = Credit::new(100);
        let first = credit.try_take(60).unwrap();
        assert!(credit.try_take(41).is_none());
        let second = credit.try_take(40).unwrap();
        assert_eq!(credit.under_way(), 100);
        drop(first);
        assert_eq!(credit.under_way(), 40);
        drop(second);
        assert_eq!(credit.under_way(), 0);
    }

    #[test]
    fn what_is_larger_than_all_goes_alone() {
        let credit = Credit::new(100);
        let small = credit.try_take(1).unwrap();
        assert!(credit.try_take(1_000).is_none());
        drop(small);
        let large = credit.try_take(1_000).unwrap();
        assert!(credit.try_take(1).is_none());
        drop(large);
        assert!(credit.try_take(1).is_some());
    }

    #[test]
    fn what_must_not_wait_is_counted_beyond_the_bound() {
        let credit = Credit::new(10);
        let held = credit.take(25);
        assert_eq!(credit.under_way(), 25);
        assert!(credit.try_take(1).is_none());
        drop(held);
        assert_eq!(credit.under_way(), 0);
    }

    /// A small one does not overtake a large one that waits, and all of them come, once each.
    #[tokio::test(start_paused = true)]
    async fn who_waits_is_served_in_order_and_within_the_bound() {
        let credit = Credit::new(100);
        let (order, most) = (Arc::new(StdMutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
        let mut tasks = Vec::new();
        for n in 0..50 {
            let (credit, order, most) = (credit.clone(), Arc::clone(&order), Arc::clone(&most));
            tasks.push(tokio::spawn(async move {
                let held = credit.wait_for(if n % 2 == 0 { 70 } else { 5 }).await;
                order.lock().unwrap().push(n);
                most.fetch_max(credit.under_way(), Ordering::AcqRel);
                tokio::time::sleep(Duration::from_millis(10)).await;
                drop(held);
            }));
            tokio::task::yield_now().await;
        }
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), (0..50).collect::<Vec<_>>());
        assert!(most.load(Ordering::Acquire) <= 100);
        assert_eq!(credit.under_way(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_is_given_up_holds_no_other_up() {
        let credit = Credit::new(10);
        let held = credit.take(10);
        let given_up = tokio::time::timeout(Duration::from_secs(1), credit.wait_for(5)).await;
        assert!(given_up.is_err());
        drop(held);
        let next = tokio::time::timeout(Duration::from_secs(1), credit.wait_for(5)).await;
        assert!(next.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_way_is_heard_of_when_it_has_emptied() {
        let credit = Credit::new(100);
        let held: Vec<HeldCredit> = (0..10).map(|_| credit.take(10)).collect();
        let waiting = credit.clone();
        let emptied = tokio::spawn(async move { waiting.at_most(50).await });
        for one in held {
            tokio::task::yield_now().await;
            assert_eq!(emptied.is_finished(), credit.under_way() <= 50, "{credit:?}");
            drop(one);
            tokio::task::yield_now().await;
        }
        emptied.await.unwrap();
    }
}
