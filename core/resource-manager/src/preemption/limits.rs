//! How much preemption may be asked for in one cycle: instances of the minute's budget, and requests at each
//! shard.

use crate::config::Preemption;
use crate::preemption::requests::PreemptionRequests;
use crate::preemption::victims::Offered;
use echelon_core_model::ClusterId;
use std::collections::BTreeMap;

/// What is left of the limits while requests are made.
#[derive(Debug)]
pub(crate) struct RequestLimits {
    /// How many more instances may be stopped.
    left: u64,
    /// Most that may be stopped at once.
    burst: u64,
    rules: Preemption,
    /// Requests at each cluster, those that are made now included.
    at: BTreeMap<ClusterId, RequestCount>,
}

/// How many preemption requests a cluster has.
#[derive(Debug, Clone, Copy, Default)]
struct RequestCount {
    open: usize,
    unanswered: usize,
}

impl RequestLimits {
    pub(crate) fn new(requests: &PreemptionRequests, rules: Preemption) -> Self {
        let mut at: BTreeMap<ClusterId, RequestCount> = BTreeMap::new();
        let mut under_way = 0u64;
        for open in requests.all.values() {
            let count = at.entry(open.cluster.clone()).or_default();
            count.open += 1;
            if open.report.is_none() {
                count.unanswered += 1;
                under_way = under_way.saturating_add(open.claim.most);
            }
        }
        Self {
            left: requests.budget.left().saturating_sub(under_way),
            burst: requests.budget.burst(),
            rules,
            at,
        }
    }

    /// How many more instances may be stopped.
    pub(crate) const fn left(&self) -> u64 {
        self.left
    }

    /// Whether a shard may get one more request.
    pub(crate) fn may_ask(&self, cluster: &ClusterId) -> bool {
        let count = self.at.get(cluster).copied().unwrap_or_default();
        count.open < self.rules.open && count.unanswered < self.rules.unanswered
    }

    /// Whether all requests are answered, and none was made now.
    pub(crate) fn are_answered(&self) -> bool {
        self.at.values().all(|count| count.unanswered == 0)
    }

    /// Whether a request that needs so many instances is worth it now. Where the budget is less, and far from
    /// full, a larger request is made later: a few large ones are less work than many small ones.
    pub(crate) const fn is_worth_it(&self, count: u64) -> bool {
        count <= self.left || self.left >= self.burst.div_ceil(2)
    }

    /// Most instances that may be stopped of what is offered. The budget is reserved for them until the shard
    /// answers. So it is not all that the shard could use, but twice what is needed where every host has the
    /// right shape, and more after tries in vain (`factor`).
    ///
    /// `of_one`: how many one unit needs. If that is more than a burst, it may be stopped when the budget is
    /// full. Then nothing else is stopped until that is made up for.
    pub(crate) fn most(&self, factor: u64, of_one: Option<u64>, offered: &Offered) -> u64 {
        let large = of_one.filter(|n| *n > self.left && self.left == self.burst);
        let left = large.map_or(self.left, |n| n.saturating_mul(2));
        let needed = offered.needed.max(of_one.unwrap_or_default());
        let with_choice = needed.saturating_mul(2).saturating_mul(factor);
        offered.most.min(left).min(with_choice)
    }

    /// What needs more than there is waits until the budget is full. Nothing is stopped for others meanwhile.
    pub(crate) const fn save_up(&mut self) {
        self.left = 0;
    }

    /// Notes a request that is made.
    pub(crate) fn spend(&mut self, cluster: &ClusterId, most: u64) {
        self.left = self.left.saturating_sub(most);
        let count = self.at.entry(cluster.clone()).or_default();
        count.open += 1;
        count.unanswered += 1;
    }
}
