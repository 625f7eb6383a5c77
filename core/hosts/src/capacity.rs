//! The room of all hosts in sum, as the resource manager is told of it: for all work, for work without GPUs, for revocable work, and by host
//! pool.

use crate::hosts::Hosts;
use crate::ledger::Used;
use echelon_core_model::directive::Capacity;
use echelon_core_model::sum::MOST_COUNTED;
use echelon_core_model::{Resources, Timestamp};

impl Hosts {
    /// The sum of all reachable hosts. A host is closed to new work while it drains, while its host pool
    /// cannot be read, and while its master does not offer it: it counts with what our tasks hold there, and
    /// the rest of it is `closed`. What others hold is no capacity of ours, so that nothing is granted into
    /// it; but it is no reason to call anything too large for a host. `largest_free` is capacity minus our
    /// tasks: an idle shard holds no offers.
    #[must_use]
    pub fn capacity(&self, now: Timestamp) -> Capacity {
        let draining = self.draining(now);
        let mut out = Capacity::default();
        for (id, record) in self.reachable() {
            let Used {
                resources: used,
                revocable,
                ..
            } = self.ledger.used(id);
            let capacity = record.capacity();
            let open = record.is_offerable()
                && !draining.contains_key(id)
                && !self.pools.is_unknown(record.hostname());
            let usable = if open { record.room(used) } else { used };
            let kept = self.is_kept(record);
            let host_pool = self.pools.has_others().then(|| self.pools.of(id));
            let mut on = host_pool.map(|name| out.host_pools.entry(name).or_default());
            out.total = out.total.plus(usable);
            out.used = out.used.plus(used);
            if let Some(part) = &mut on {
                part.total = part.total.plus(usable);
                part.used = part.used.plus(used);
            }
            if !kept {
                out.without_gpus.total = out.without_gpus.total.plus(usable);
                out.without_gpus.used = out.without_gpus.used.plus(used);
                out.slack.used = out.slack.used.plus(revocable);
            }
            if !open {
                out.closed = out.closed.plus(record.owned().minus(used));
                if !kept {
                    out.slack.total = out.slack.total.plus(revocable);
                }
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
            out.largest_free = out.largest_free.max_each(usable.minus(used));
            out.largest_host = out.largest_host.max_each(capacity);
            out.hosts = out.hosts.saturating_add(1);
        }
        out.sharing = self.sharing.clone();
        self.limit_by_quota(&mut out);
        // An agent may claim what no machine has.
        out.bounded(Resources::of_each(MOST_COUNTED))
    }

    /// Mesos never offers our role more than its quota allows. What our tasks have already they keep.
    fn limit_by_quota(&self, capacity: &mut Capacity) {
        let most = self.sharing.ceiling().max_each(capacity.used);
        let parts = capacity.host_pools.values_mut().map(|part| &mut part.total);
        let sums = [&mut capacity.total, &mut capacity.without_gpus.total];
        for sum in sums.into_iter().chain(parts) {
            *sum = sum.min_each(most);
        }
        capacity.largest_free = capacity.largest_free.min_each(most.minus(capacity.used));
        capacity.closed = capacity.closed.min_each(most.minus(capacity.total));
    }
}
