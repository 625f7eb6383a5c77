//! How many instances the jobs of a pool may have together, and those of the federation. Gateways ask the
//! resource manager before they store a job that has more than before.

use crate::id::JobId;
use std::fmt;

/// Most instances of all jobs of one pool that have not ended. Pools below it have their own.
pub const MAX_POOL_INSTANCES: u64 = 100_000_000;
/// Most instances of all jobs of the federation that have not ended.
pub const MAX_FEDERATION_INSTANCES: u64 = 1_000_000_000;

/// What a job is to have, by the version of its spec that is to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedInstances {
    /// The job, which may not be stored yet.
    pub job: JobId,
    /// The path of its pool.
    pub pool: String,
    /// Instances in all groups, at most `MAX_INSTANCES`.
    pub instances: u32,
}

/// Which limit is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitScope {
    /// The jobs of one pool, by its path.
    Pool(String),
    /// All jobs.
    Federation,
}

/// A limit that a job would exceed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExceededLimit {
    /// Which one.
    pub scope: LimitScope,
    /// Instances of the other jobs that have not ended.
    pub others: u64,
    /// How many all jobs may have together.
    pub limit: u64,
}

impl fmt::Display for ExceededLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scope, others, limit } = self;
        match scope {
            LimitScope::Pool(path) => write!(f, "the other jobs of pool {path} have {others} instances")?,
            LimitScope::Federation => write!(f, "the other jobs of the federation have {others} instances")?,
        }
        write!(f, ", and all of them together may have {limit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_said_with_what_it_is_about() {
        let of = |scope| ExceededLimit {
            scope,
            others: 7,
            limit: 9,
        };
        assert_eq!(
            of(LimitScope::Pool("/x".to_owned())).to_string(),
            "the other jobs of pool /x have 7 instances, and all of them together may have 9"
        );
        assert_eq!(
            of(LimitScope::Federation).to_string(),
            "the other jobs of the federation have 7 instances, and all of them together may have 9"
        );
    }
}
