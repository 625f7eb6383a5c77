//! echelon-clients-rust
