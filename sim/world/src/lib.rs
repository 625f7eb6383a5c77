//! echelon-sim-world
