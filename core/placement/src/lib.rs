//! On which host: hosts for instances, and a true reason for each instance that has none.
//!
//! `place` is a pure function: same problem, same answer, whatever the order in which hosts and groups are listed. It knows
//! neither offers nor Mesos, keeps nothing, and counts no quota. Its caller is the shard's placement engine; `check` judges
//! its answers with code of its own.
#![forbid(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros
)]

pub mod answer;
mod bound;
pub mod check;
mod classes;
mod constraint;
mod first_fit;
pub mod fits;
mod hint;
pub mod hosts;
mod neighbours;
mod pack;
pub mod packing;
mod place;
pub mod problem;
mod reason;
mod room;
mod rules;
mod search;
mod spread;
pub mod strategy;
#[cfg(test)]
mod tests;
mod together;
pub mod victims;

pub use answer::{Answer, Choice, Flaw, Obstacles, Report, Unplaced};
pub use check::{Broken, check};
pub use constraint::{Rule, holds};
pub use hosts::Hosts;
pub use place::{place, place_by};
pub use problem::{Bound, Item, Neighbour, Problem, Together, Wanted};
pub use rules::rules_let;
