//! echelon-core-pools
