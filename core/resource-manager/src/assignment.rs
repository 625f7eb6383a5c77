//! Arithmetic on the ranges of one job's assignment. Pure, and of one job at a time.

pub(crate) mod indexes;
pub(crate) mod ranges;
pub(crate) mod release;
pub(crate) mod scale;
