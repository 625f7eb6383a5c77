//! echelon-gateway
