//! Orders to shards: what has changed since they were sent last, and grants that have to be renewed.

use crate::config::FULL_CYCLE;
use crate::effect::Effect;
use crate::facts::group_reports::{has_confirmed, listeners};
use crate::facts::job::{JobView, Sent};
use crate::facts::slice::SliceKey;
use crate::manager::ResourceManager;
use crate::orders::OrdersReport;
use crate::orders::allotments::parts;
use crate::orders::slice_orders::{digest, orders};
use echelon_core_model::directive::{Order, SliceOrder};
use echelon_core_model::job::Desired;
use echelon_core_model::{ClusterId, JobId, Timestamp};
use std::collections::BTreeMap;

/// Most orders in one directive.
const ORDERS: usize = 200;

impl ResourceManager {
    /// Sends what changed, and renews what has to be.
    pub(crate) fn send_orders(&mut self, now: Timestamp, out: &mut Vec<Effect>, report: &mut OrdersReport) {
        let mut due: BTreeMap<ClusterId, Vec<SliceOrder>> = BTreeMap::new();
        let ids: Vec<JobId> = self.dirty.iter().copied().collect();
        for id in ids {
            report.allotments += self.lease_parts(id);
            let Some(job) = self.picture.facts.jobs.get(&id).filter(|j| j.is_live()) else {
                continue;
            };
            for cluster in listeners(job) {
                if let Some(orders) = self.orders_due(id, &cluster, now) {
                    report.orders += orders.len();
                    due.entry(cluster).or_default().extend(orders);
                }
            }
            self.schedule_renewal(id, now);
        }
        for (cluster, id) in self.resends.next(&self.picture.facts.jobs) {
            if let Some(orders) = self.orders_due(id, &cluster, now) {
                report.orders += orders.len();
                due.entry(cluster).or_default().extend(orders);
            }
            self.schedule_renewal(id, now);
        }
        self.due |= !self.resends.is_empty();
        for (cluster, orders) in due {
            for part in orders.chunks(ORDERS) {
                report.directives += 1;
                self.send(&cluster, Order::Slices(part.to_vec()), out);
            }
        }
    }

    /// The orders that are due to a cluster about a job. None are due if the same were sent over the open
    /// stream not long ago.
    fn orders_due(&mut self, id: JobId, cluster: &ClusterId, now: Timestamp) -> Option<Vec<SliceOrder>> {
        let renew_after = self.config.renew;
        let link = self.picture.facts.clusters.get(cluster)?.link?;
        let job = self.picture.facts.jobs.get(&id)?;
        let stamp = (self.epoch, self.config.grant_lease);
        let mut next = orders(&self.picture.facts, id, job, cluster, stamp);
        let digest = digest(&next);
        let before = job.bound.sent.get(cluster).filter(|sent| sent.link == link);
        let same = before.is_some_and(|sent| sent.digest == digest);
        let old = before.is_none_or(|sent| now.since(sent.at) >= renew_after);
        let confirmed =
            job.desired() != Desired::Running && has_confirmed(&self.picture.facts, id, job, cluster);
        if next.is_empty() || (same && (!old || confirmed)) {
            return None;
        }
        if same {
            self.renew(id, cluster, &mut next);
        }
        let sent = Sent {
            link,
            digest,
            at: now,
        };
        if let Some(job) = self.picture.facts.jobs.get_aside(&id) {
            job.bound.sent.insert(cluster.clone(), sent);
        }
        Some(next)
    }

    /// When a job's grants are renewed next.
    fn schedule_renewal(&mut self, id: JobId, now: Timestamp) {
        let renew_after = self.config.renew;
        let Some(job) = self.picture.facts.jobs.get(&id) else {
            return;
        };
        let first = job
            .bound
            .sent
            .values()
            .map(|sent| sent.at.plus(renew_after))
            .min();
        // What could not be sent, or needs no more, is looked at again later, not at once.
        let next = first.map(|at| at.max(now.plus(FULL_CYCLE)));
        let before = job.bound.renew_at;
        if before == next {
            return;
        }
        before.map(|at| self.renewals.remove(&(at, id)));
        self.renewals.extend(next.map(|at| (at, id)));
        if let Some(job) = self.picture.facts.jobs.get_aside(&id) {
            job.bound.renew_at = next;
        }
    }

    /// Gives each cluster its allotment of each group's `max_unavailable`. A changed one gets a new number.
    /// Returns how many have changed.
    fn lease_parts(&mut self, id: JobId) -> usize {
        let leases = |job: &&JobView| job.is_live() && !job.durable.holders.is_empty();
        let Some(job) = self.picture.facts.jobs.get(&id).filter(leases) else {
            return 0;
        };
        let mut changed = Vec::new();
        for group in job.groups() {
            for (cluster, part) in parts(&self.picture.facts, id, job, &group) {
                let key = (group.clone(), cluster);
                let line = job.bound.parts.get(&key);
                if line.is_none_or(|l| l.granted() != part) {
                    changed.push((key, part));
                }
            }
        }
        let count = changed.len();
        for (key, part) in changed {
            let number = self.grant_number();
            if let Some(job) = self.picture.facts.jobs.get_aside(&id) {
                job.bound.parts.get_or_default(key).send(number, part);
            }
        }
        count
    }

    /// The same grants under new numbers: their lease begins again when they arrive.
    fn renew(&mut self, id: JobId, cluster: &ClusterId, orders: &mut [SliceOrder]) {
        for order in orders {
            for (generation, grant) in &mut order.grants {
                grant.number = self.grant_number();
                let key = SliceKey {
                    group: order.group.clone(),
                    cluster: cluster.clone(),
                    generation: *generation,
                };
                // The same number of instances: no sum follows from it.
                if let Some(job) = self.picture.facts.jobs.get_aside(&id) {
                    let line = job.grants.get_or_default(key);
                    if line.is_expired() {
                        line.expire(grant.number);
                    } else {
                        line.send(grant.number, grant.active);
                    }
                }
            }
        }
    }
}
