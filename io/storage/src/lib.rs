//! echelon-io-storage
