//! Capacity that is made for what is entitled to it and finds none.

pub(crate) mod claimants;
pub(crate) mod claims;
pub(crate) mod holders;
pub(crate) mod limits;
pub(crate) mod losers;
pub(crate) mod preempt;
pub(crate) mod starved;
pub(crate) mod unplaced;
