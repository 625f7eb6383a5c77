//! echelon-tests
