//! echelon-core-resource-manager
