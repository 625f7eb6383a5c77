//! Removes pools that are marked for removal from the tree when their last job has ended. The leader proposes
//! it by the compare-and-set that a gateway would make: it alone knows all live jobs without looking through
//! storage. The first write wins; the next look sees it.

use crate::effect::Effect;
use crate::manager::{Phase, ResourceManager};
use crate::storage::operations::Purpose;
use echelon_core_model::pool::{Pool, PoolTree};
use echelon_core_model::store::{Decision, Op};
use echelon_core_model::{PoolId, Span, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

impl ResourceManager {
    /// Proposes the tree without the pools that were to go and are empty.
    pub(crate) fn remove_empty_pools(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let tree = &self.picture.facts.pools;
        if self.phase != Phase::Leading || tree.pools.values().all(|p| !p.deleting) {
            self.leaving_pools.clear();
            return;
        }
        let before = std::mem::take(&mut self.leaving_pools);
        let since = |p: &Pool| before.get(&p.id).copied().unwrap_or(now);
        let leaving = tree.pools.values().filter(|p| p.deleting);
        self.leaving_pools = leaving.map(|p| (p.id.clone(), since(p))).collect();
        let used: BTreeSet<&str> = self
            .picture
            .facts
            .live()
            .filter_map(|(_, job)| Some(self.picture.facts.path_of(job.head.as_ref()?)))
            .collect();
        // Every head is read again within half of this:
        // jobs that were submitted before the mark are seen by then.
        let patience = Span(self.config.heads_within.0 * 2);
        let next = without_empty(tree, &used, &self.leaving_pools, now, patience);
        if let Some(next) = next.filter(|_| !self.ops.has(&Purpose::PutPools)) {
            let expected = tree.version;
            let decision = Decision::PutPools { tree: next, expected };
            self.ops.start(Purpose::PutPools, Op::Decide(decision), now, out);
        }
    }
}

/// The next tree, if a pool may leave it: one that has been known to be marked for long enough, with no live
/// job and no pool below it.
fn without_empty(
    tree: &PoolTree,
    used: &BTreeSet<&str>,
    leaving: &BTreeMap<PoolId, Timestamp>,
    now: Timestamp,
    patience: Span,
) -> Option<PoolTree> {
    let mut removed: BTreeSet<&str> = BTreeSet::new();
    let mut inner: BTreeSet<&str> = BTreeSet::new();
    // From the leaves up, so that an inner pool goes with its last child.
    for pool in tree.pools.values().rev() {
        let path = pool.path.as_str();
        let known = leaving
            .get(&pool.id)
            .is_some_and(|since| now.since(*since) >= patience);
        if pool.deleting && known && !used.contains(path) && !inner.contains(path) {
            removed.insert(path);
        } else {
            inner.insert(PoolTree::parent(path));
        }
    }
    if removed.is_empty() {
        return None;
    }
    let mut next = tree.clone();
    next.pools.retain(|path, _| !removed.contains(path.as_str()));
    next.version = tree.version.next();
    Some(next)
}
