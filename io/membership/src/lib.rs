//! echelon-io-membership
