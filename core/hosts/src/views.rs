//! Which hosts placement may see otherwise than before. Their views are renewed where they are kept, so that
//! a question costs what has changed and not what there is.

use crate::hosts::Hosts;
use echelon_core_model::cluster::HostView;
use echelon_core_model::{HostId, Timestamp};
use std::collections::BTreeSet;

/// What may have changed since this was last asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ViewChanges {
    /// Hosts that can be reached, by id, with their ports.
    pub views: Vec<HostView>,
    /// Hosts that are forgotten or cannot be reached.
    pub gone: Vec<HostId>,
}

impl Hosts {
    /// The views that may have changed since this was last asked; at first all of them. `O(hosts that were
    /// touched)`, and those with planned maintenance, of which the time decides.
    pub fn take_view_changes(&mut self, now: Timestamp) -> ViewChanges {
        let mut ids: BTreeSet<HostId> = std::mem::take(&mut self.touched);
        ids.extend(self.stock.take_touched());
        ids.extend(self.planned.keys().cloned());
        let mut views = self.views_of(&ids, now);
        self.add_ports(&mut views);
        let reachable = |id: &HostId| self.records.get(id).is_some_and(|record| record.reachable);
        ids.retain(|id| !reachable(id));
        let gone = ids.into_iter().collect();
        ViewChanges { views, gone }
    }

    /// Placement may see a host otherwise from now on.
    pub(crate) fn touch(&mut self, host: &HostId) {
        if !self.touched.contains(host) {
            self.touched.insert(host.clone());
        }
    }

    /// The same of all hosts.
    pub(crate) fn touch_all(&mut self) {
        self.touched.extend(self.records.keys().cloned());
    }
}
