//! First fit: each instance goes to the first host, in the order of ids, that it fits on. For those who want to know where to look.

use crate::strategy::{Candidate, Cost, Draws, Strategy, number};

/// The strategy that is quickest told.
#[derive(Debug, Clone, Copy)]
pub struct FirstFit;

impl Strategy for FirstFit {
    fn name(&self) -> &'static str {
        "first-fit"
    }

    fn draws(&self) -> Draws {
        Draws::ById
    }

    fn minds_count(&self) -> bool {
        false
    }

    fn cost(&self, of: Candidate) -> Cost {
        [number(of.host), 0, 0]
    }
}
