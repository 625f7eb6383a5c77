//! echelon-core-jobs
