//! echelon-core-placement
