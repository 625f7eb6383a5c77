//! Where shards may begin nothing new: one row for all clusters, decided by the resource manager's leader
//! and read at SERIAL. The protocol around it is in `docs/decisions/start-lease.md`.

use crate::id::ClusterId;
use crate::store::Stamp;
use std::collections::BTreeMap;

/// What is decided about starts at one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct StartBan {
    /// How often starts were forbidden at the cluster. A shard that finds the number that it knew may have
    /// lost nothing meanwhile.
    pub number: u64,
    /// The number of the silence for which they are forbidden; `None`: they are allowed again.
    pub silence: Option<u64>,
}

/// The clusters at which starts are forbidden, or ever were.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StartBans {
    /// The leader that wrote the row, and the number of its write, from 0. A new leader first writes the
    /// row as it is under its own epoch: no write of an older leader is taken after that.
    pub stamp: Stamp,
    /// At most [`StartBans::MOST`], by cluster.
    pub clusters: BTreeMap<ClusterId, StartBan>,
}

impl StartBans {
    /// Most clusters of the row.
    pub const MOST: usize = 400;

    /// What is decided about starts at a cluster.
    #[must_use]
    pub fn of(&self, cluster: &ClusterId) -> StartBan {
        self.clusters.get(cluster).copied().unwrap_or_default()
    }

    /// The silence for which starts are forbidden at a cluster.
    #[must_use]
    pub fn silence(&self, cluster: &ClusterId) -> Option<u64> {
        self.of(cluster).silence
    }

    /// The row that the leader writes next, with another decision about one cluster.
    #[must_use]
    pub fn with(&self, cluster: &ClusterId, ban: StartBan) -> Self {
        let mut next = self.clone();
        next.stamp = self.stamp.next();
        next.clusters.insert(cluster.clone(), ban);
        next
    }
}
