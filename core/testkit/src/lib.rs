//! echelon-core-testkit
