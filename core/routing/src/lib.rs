//! echelon-core-routing
