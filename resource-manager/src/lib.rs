//! echelon-resource-manager
