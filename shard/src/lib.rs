//! echelon-shard
