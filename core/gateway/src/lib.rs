//! echelon-core-gateway
