//! Exact sums of resources over many jobs. They are kept for as long as a leader leads, and jobs are added
//! and subtracted one by one: a sum that saturates once is wrong for ever. So they are wider than what is
//! added, and each step is checked.

use crate::resources::{Kind, Resources};
use thiserror::Error;

/// Most units of each kind that all instances of one job may take at once: 2^40 thousandths of a core, or
/// MiB. 10,000,000 instances, which is the most of a job, may take 100 cores and 100 GiB each. Held by the
/// gateways at submit and at each change.
pub const MOST_OF_JOB: u64 = 1 << 40;

/// Most units of each kind that count as the demand of a pool, and that a cluster may have: the largest limit, reservation and share that
/// a pool can have, and more than the hosts of any federation. Where more is asked for, no pool is entitled
/// to more, so that nothing has to wait for this bound.
pub const MOST_COUNTED: u64 = 1 << 50;

// The largest sum over all pools of a tree of 10,000 fits where the sums of a division are reckoned.
const _: () = assert!(MOST_COUNTED.checked_mul(10_000).is_some());
// The largest job fits into what counts of its pool, and that many times as there are pools.
const _: () = assert!(MOST_OF_JOB * 1_000 < MOST_COUNTED);
// A sum is exact for more jobs than there are ids in memory: 2^64 jobs of the largest size, and far more.
const _: () = assert!((MOST_OF_JOB as u128).checked_mul(1 << 64).is_some());

/// A sum would be below zero, or above the largest number: what is added and what is subtracted do not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a sum of {kind} left its range")]
pub struct SumError {
    /// The first kind of which it did.
    pub kind: Kind,
}

/// An exact sum of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourceSum([u128; 4]);

impl ResourceSum {
    /// Adds to every kind.
    ///
    /// # Errors
    ///
    /// If a kind would be above the largest number. That kind stays as it was.
    pub fn add(&mut self, more: Resources) -> Result<(), SumError> {
        self.change(more, u128::checked_add, |sum| sum)
    }

    /// Subtracts from every kind.
    ///
    /// # Errors
    ///
    /// If a kind would be below zero. That kind is zero then.
    pub fn subtract(&mut self, less: Resources) -> Result<(), SumError> {
        self.change(less, u128::checked_sub, |_| 0)
    }

    fn change(
        &mut self,
        by: Resources,
        step: fn(u128, u128) -> Option<u128>,
        otherwise: fn(u128) -> u128,
    ) -> Result<(), SumError> {
        let mut out = Ok(());
        for (kind, sum) in Kind::ALL.into_iter().zip(&mut self.0) {
            *sum = step(*sum, by.get(kind).into()).unwrap_or_else(|| {
                out = out.and(Err(SumError { kind }));
                otherwise(*sum)
            });
        }
        out
    }

    /// The sum as far as it counts: at most [`MOST_COUNTED`] of each kind.
    #[must_use]
    pub fn counted(&self) -> Resources {
        let kinds = Kind::ALL.into_iter().zip(self.0);
        kinds.fold(Resources::ZERO, |out, (kind, sum)| {
            let most = u64::try_from(sum).unwrap_or(u64::MAX).min(MOST_COUNTED);
            out.with(kind, most)
        })
    }

    /// Whether it is zero of every kind.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn cpus(n: u64) -> Resources {
        Resources {
            cpus: n,
            ..Resources::ZERO
        }
    }

    #[test]
    fn what_goes_beyond_the_largest_number_comes_back_exactly() {
        let mut sum = ResourceSum::default();
        sum.add(cpus(4)).unwrap();
        for _ in 0..3 {
            sum.add(Resources::MAX).unwrap();
        }
        assert_eq!(sum.counted(), Resources::of_each(MOST_COUNTED));
        for _ in 0..3 {
            sum.subtract(Resources::MAX).unwrap();
        }
        assert_eq!(sum.counted(), cpus(4));
        sum.subtract(cpus(4)).unwrap();
        assert!(sum.is_zero());
    }

    #[test]
    fn what_does_not_match_is_an_error() {
        let mut sum = ResourceSum::default();
        sum.add(Resources::of_each(2)).unwrap();
        let less = Resources::of_each(1).with(Kind::Memory, 3);
        assert_eq!(sum.subtract(less), Err(SumError { kind: Kind::Memory }));
        let rest = Resources::of_each(1).with(Kind::Memory, 0);
        assert_eq!(sum.counted(), rest, "the others are exact");
        let mut full = ResourceSum([u128::MAX; 4]);
        assert_eq!(full.add(cpus(1)), Err(SumError { kind: Kind::Cpus }));
        assert_eq!(full, ResourceSum([u128::MAX; 4]));
    }
}
