//! Spreading: each instance goes to the host with the fewest instances of its group, among these to the roomiest, ties to
//! the higher host id.

use crate::strategy::{Candidate, Cost, Draws, Strategy, number};

/// The strategy for services.
#[derive(Debug, Clone, Copy)]
pub struct Spread;

impl Strategy for Spread {
    fn name(&self) -> &'static str {
        "spread"
    }

    fn draws(&self) -> Draws {
        Draws::Roomiest
    }

    fn keeps_even(&self) -> bool {
        true
    }

    fn cost(&self, of: Candidate) -> Cost {
        [of.count.into(), u64::MAX - of.size, u64::MAX - number(of.host)]
    }
}
