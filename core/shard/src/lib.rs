//! echelon-core-shard
