//! Best fit: each instance goes to the fullest host that it fits on, ties to the lower host id. Fullest is by what is left
//! over all kinds together, so the order of hosts is one for all shapes.

use crate::strategy::{Candidate, Cost, Draws, Strategy, number};

/// The strategy for batch.
#[derive(Debug, Clone, Copy)]
pub struct Pack;

impl Strategy for Pack {
    fn name(&self) -> &'static str {
        "pack"
    }

    fn draws(&self) -> Draws {
        Draws::Fullest
    }

    fn minds_count(&self) -> bool {
        false
    }

    fn cost(&self, of: Candidate) -> Cost {
        [of.size, number(of.host), 0]
    }
}
