//! What tells whether anything was written since it was last read, without reading it.

use super::Stamp;
use std::collections::BTreeMap;

/// How far a partition of assignments and the heads of its jobs are. Where it is the same as at an earlier
/// moment, nothing was written there meanwhile, but for heads that were removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// The stamp of the last write of assignments.
    pub assignments: Stamp,
    /// The tag of each bucket of heads ([`head_tag`](crate::bucket::head_tag)); those are left out in which
    /// no head was ever written.
    pub heads: BTreeMap<u16, i64>,
}
