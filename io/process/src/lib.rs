//! echelon-io-process
