//! echelon-proto
