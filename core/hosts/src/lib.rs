//! echelon-core-hosts
