//! The room of all hosts in sum, as the resource manager is told of it: for all work, for work without GPUs, for revocable work, and by host
//! pool.

use crate::hosts::Hosts;
use crate::ledger::Used;
use echelon_core_model::Timestamp;
use echelon_core_model::directive::Capacity;

impl Hosts {
    /// The sum of all reachable hosts that take work: without hosts that drain, and without hosts whose host pool cannot be read.
    /// What others hold is no room of ours, so that nothing is granted into it; but it is no reason to call anything too large
    /// for a host. `largest_free` is room minus our tasks: an idle shard holds no offers.
    #[must_use]
    pub fn capacity(&self, now: Timestamp) -> Capacity {
        let draining = self.draining(now);
        let mut out = Capacity {
            mesos_contact: self.heard_at,
            ..Capacity::default()
        };
        for (id, record) in self.reachable() {
            let Used {
                resources: used,
                revocable,
                ..
            } = self.ledger.used(id);
            let capacity = record.capacity();
            let kept = self.is_kept(record);
            let host_pool = self.pools.has_others().then(|| self.pools.of(id));
            let mut on = host_pool.map(|name| out.host_pools.entry(name).or_default());
            out.used = out.used.plus(used);
            if let Some(part) = &mut on {
                part.used = part.used.plus(used);
            }
            if !kept {
                out.without_gpus.used = out.without_gpus.used.plus(used);
                out.slack.used = out.slack.used.plus(revocable);
            }
            if draining.contains_key(id) || self.pools.is_unknown(record.hostname()) {
                continue;
            }
            let room = record.room(used);
            out.total = out.total.plus(room);
            if let Some(part) = &mut on {
                part.total = part.total.plus(room);
            }
            if !kept {
                out.without_gpus.total = out.without_gpus.total.plus(room);
            }
            if !record.offerable {
                continue;
            }
            if let Some(part) = &mut on {
                part.largest_host = part.largest_host.max_each(capacity);
            }
            if !kept {
                let largest = &mut out.without_gpus.largest_host;
                *largest = largest.max_each(capacity);
                out.slack.add(record.lent);
            }
            out.largest_free = out.largest_free.max_each(room.minus(used));
            out.largest_host = out.largest_host.max_each(capacity);
            out.hosts = out.hosts.saturating_add(1);
        }
        out
    }
}
