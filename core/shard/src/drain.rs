//! Hosts that are to be empty in time for their maintenance: whose runs are affected, once when that begins or ends. Which of them
//! are stopped, and when, is `restart.rs`' matter.

use crate::Shard;
use echelon_core_model::HostId;
use std::collections::BTreeSet;

impl Shard {
    /// Looks at the runs of hosts that are to be left since a moment ago, or no longer.
    pub(crate) fn keep_draining(&mut self) {
        let now = self.hosts.draining(self.now);
        if now == self.draining {
            return;
        }
        let before = std::mem::replace(&mut self.draining, now);
        let hosts = before.keys().chain(self.draining.keys());
        let changed: BTreeSet<HostId> = hosts
            .filter(|h| before.get(h) != self.draining.get(h))
            .cloned()
            .collect();
        for task in self.hosts.tasks_on(&changed) {
            let Some(((number, n), ..)) = self.picture.run_at(&task) else {
                continue;
            };
            if let Some(group) = self.picture.groups.get_mut(&number).filter(|g| g.served) {
                group.refresh_restarts(n, &self.draining);
                self.picture.restless.insert(number);
                self.picture.unreported.insert(number);
            }
        }
        // The room is counted anew, and what waits for one of these hosts may have to say so, or need not any more.
        self.placing.hungrier(self.now, self.config.timing.commit_delay);
    }
}
