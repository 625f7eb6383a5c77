//! echelon-cli
