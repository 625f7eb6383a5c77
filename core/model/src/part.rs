//! A cluster's parts of pool reservations: how much of each pool its shard may use when no resource manager is heard any more.

use crate::resources::Resources;
use crate::time::Span;
use std::collections::BTreeMap;

/// All parts of one cluster. Over all clusters those of a pool sum to no more than its reservation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolParts {
    /// Carries the resource manager's epoch and grows; parts with a smaller one are late. 0: none were ever given.
    pub number: u64,
    /// They are of use when no resource manager was heard for this long: every grant has expired then.
    pub after: Span,
    /// Most ordinary room of each pool, by path, that may be active at the cluster after instances were added. Pools above one that has
    /// work at the cluster are among them; of a pool that is not, nothing may be added.
    pub room: BTreeMap<String, Resources>,
}

impl PoolParts {
    /// A pool's part.
    #[must_use]
    pub fn of(&self, path: &str) -> Resources {
        self.room.get(path).copied().unwrap_or_default()
    }
}
