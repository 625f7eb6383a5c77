//! Orders over a stream that has opened: of all jobs that its cluster has something of, some at a time.
//! So a cycle takes no longer for a cluster that has many jobs.

use crate::facts::jobs::Jobs;
use echelon_core_model::{ClusterId, JobId};
use std::collections::BTreeMap;

/// Most jobs of which orders are sent again in one cycle.
pub(crate) const RESENT: usize = if cfg!(test) { 20 } else { 300 };

/// Most jobs that are looked at for that: some have ended.
const SCANNED: usize = if cfg!(test) { 30 } else { 2_000 };

/// Clusters of which a stream has opened, each with the last job whose orders were sent over it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Resends(BTreeMap<ClusterId, JobId>);

impl Resends {
    /// A stream to a cluster has opened: all orders are sent again.
    pub(crate) fn begin(&mut self, cluster: ClusterId) {
        self.0.insert(cluster, JobId(0));
    }

    /// Whether all orders were sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next jobs of which orders are to be sent, and where. A job that changes meanwhile gets its orders
    /// with that change.
    pub(crate) fn next(&mut self, jobs: &Jobs) -> Vec<(ClusterId, JobId)> {
        let (mut out, mut scanned) = (Vec::new(), 0);
        while let Some(mut entry) = self.0.first_entry() {
            let mut stopped_at = None;
            for (id, job) in jobs.held_by(entry.key(), *entry.get()) {
                if out.len() >= RESENT || scanned >= SCANNED {
                    break;
                }
                scanned += 1;
                stopped_at = Some(id);
                if job.is_live() {
                    out.push((entry.key().clone(), id));
                }
            }
            if let Some(at) = stopped_at {
                *entry.get_mut() = at;
            }
            if out.len() >= RESENT || scanned >= SCANNED {
                break;
            }
            entry.remove();
        }
        out
    }
}
