//! Where jobs belong: the first tree of pools, what must hold of one that goes or is missing, and how all who need a pool have one in the
//! end.

use crate::bounds::{bound, raise_reservations};
use crate::invariants::Broken;
use crate::options::Options;
use crate::pressure::draw_pools;
use crate::shares::{pool_of, reservation};
use crate::world::World;
use echelon_core_model::job::{Desired, Head, JobState, Progress};
use echelon_core_model::pool::{Pool, PoolPaths, PoolTree};
use echelon_core_model::reason::Layer;
use echelon_core_model::store::{Answer, Decision, Op, Query};
use echelon_core_model::{JobId, PoolId, ReasonCode, Resources, Version};
use std::collections::{BTreeMap, BTreeSet};

/// The paths that jobs are submitted to.
pub(crate) fn homes(options: &Options) -> Vec<String> {
    let in_turn = (0..options.pools).map(|n| pool_of(options, n));
    let more = options.more_pools.iter();
    let leaves = more.filter(|path| {
        let below = format!("{path}/");
        !options.more_pools.iter().any(|other| other.starts_with(&below))
    });
    in_turn.chain(leaves.map(|path| (*path).to_owned())).collect()
}

impl World {
    /// Stores the first tree.
    pub(crate) fn found_pools(&mut self) {
        let in_turn =
            (0..self.options.pools).map(|n| (pool_of(&self.options, n), reservation(&self.options)));
        let more = self.options.more_pools.iter();
        let more = more.map(|path| ((*path).to_owned(), Resources::ZERO));
        let pools = in_turn.chain(more).map(|(path, reservation)| {
            let mut pool = Pool::new(PoolId::new(path.trim_start_matches('/')), &path);
            pool.reservation = reservation;
            (path, pool)
        });
        let mut pools: BTreeMap<String, Pool> = pools.collect();
        self.trees.bounded = self.options.bounded > 0 && self.dice.trees.chance(self.options.bounded);
        if self.trees.bounded {
            pools
                .values_mut()
                .for_each(|pool| bound(pool, &mut self.dice.trees));
            raise_reservations(&mut pools);
        }
        if self.options.pressure {
            pools = draw_pools(&mut self.dice.trees);
        }
        let tree = PoolTree {
            version: Version(1),
            pools,
        };
        let founded = tree.pools.values().map(|p| (p.id.clone(), p.clone()));
        self.trees.founded = founded.collect();
        self.store.perform(Op::Decide(Decision::PutPools {
            tree,
            expected: Version(0),
        }));
        self.note_bounds();
    }

    pub(crate) fn tree(&self) -> PoolTree {
        match self.store.read(&Query::Pools) {
            Answer::Pools(tree) => tree,
            _ => PoolTree::default(),
        }
    }

    /// Faults have stopped: nothing is bounded more than it was at first, and who needs a pool has it.
    pub(crate) fn settle_pools(&mut self) {
        let told = self.judge_missing();
        self.broken.extend(told);
        let tree = self.tree();
        let mut pools = tree.pools.clone();
        for (path, _) in self.needed(&tree) {
            make_room(&mut pools, &path);
        }
        let version = tree.version;
        let tree = PoolTree { version, pools };
        let needed = self.needed(&tree);
        let mut pools = tree.pools;
        step_aside(&mut pools, &needed);
        let tree = PoolTree { version, pools };
        let needed = self.needed(&tree);
        let mut pools = tree.pools;
        for (path, is_submitted) in needed {
            let above = std::iter::successors(Some(path.as_str()), |p| Some(PoolTree::parent(p)));
            for at in above.take_while(|p| *p != "/") {
                let new = || Pool::new(PoolId::new(format!("settled{at}")), at);
                let pool = pools.entry(at.to_owned()).or_insert_with(new);
                pool.deleting &= is_submitted;
            }
        }
        for pool in pools.values_mut() {
            let founded = &self.trees.founded;
            let at_path = || founded.values().find(|p| p.path == pool.path);
            let first = founded.get(&pool.id).or_else(at_path).cloned();
            let first = first.unwrap_or_else(|| Pool::new(pool.id.clone(), ""));
            *pool = Pool {
                id: pool.id.clone(),
                path: pool.path.clone(),
                deleting: pool.deleting,
                version: pool.version.next(),
                ..first
            };
        }
        raise_reservations(&mut pools);
        let paths: Vec<(&str, bool)> = pools.values().map(|p| (p.path.as_str(), p.deleting)).collect();
        self.trace.line(self.now, &format!("operator settles: {paths:?}"));
        self.put_pools(pools);
    }

    /// Paths at which jobs need a pool, and whether they are submitted already.
    fn needed(&self, tree: &PoolTree) -> BTreeSet<(String, bool)> {
        let paths = PoolPaths::of(tree);
        let users = self.users.0.iter();
        let needed = users.filter_map(|user| match user.job {
            None => Some((user.spec.pool.clone(), false)),
            Some(job) => {
                let head = self.head(job).filter(|h| h.goal.desired == Desired::Running)?;
                Some((paths.of_job(&head).to_owned(), true))
            }
        });
        needed.collect()
    }

    /// Jobs that are to run and have not ended, with their heads.
    fn unended(&self) -> impl Iterator<Item = (Head, Option<Progress>)> + '_ {
        let jobs = self.users.0.iter().filter_map(|u| u.job);
        jobs.filter_map(|job| {
            let head = self.head(job)?;
            let progress = self.progress(job);
            let state = progress.as_ref().map_or(JobState::Waiting, |p| p.state);
            (!state.is_ended()).then_some((head, progress))
        })
    }

    fn is_anybody_leaving(&self, job: JobId) -> bool {
        let Answer::Assignments(_, found) = self.store.read(&Query::Assignment(job)) else {
            return false;
        };
        let mut ranges = found
            .iter()
            .filter(|a| a.job == job)
            .flat_map(|a| a.groups.values().flatten());
        ranges.any(|range| range.releasing.is_some())
    }

    /// A job whose pool is missing waits, and says so.
    fn judge_missing(&self) -> Vec<Broken> {
        let tree = self.tree();
        let paths = PoolPaths::of(&tree);
        let missing = self.unended().filter(|(head, _)| {
            let path = paths.of_job(head);
            head.goal.desired == Desired::Running && !(tree.pools.contains_key(path) && tree.is_leaf(path))
        });
        let wrong = missing.filter_map(|(head, progress)| {
            let waiting = progress.map(|p| p.waiting).unwrap_or_default();
            let untrue = waiting.into_iter().find(|w| {
                let code = w.reason.code;
                let of_pool = code.layer() == Layer::Pool && code != ReasonCode::PoolNotFound;
                // What is granted is in use as long as somebody leaves who has it.
                let granted = code == ReasonCode::AwaitingGrant && !self.is_anybody_leaving(head.job);
                of_pool || granted || code == ReasonCode::Accepted
            })?;
            Some(Broken {
                invariant: 17,
                what: format!("{}, whose pool is missing, waits for {}", head.job, untrue.reason),
            })
        });
        wrong.collect()
    }

    /// A tree was written over another one: no pool leaves with something of it running.
    pub(crate) fn judge_leaving(&mut self, before: &PoolTree) {
        let after = self.tree();
        if after.version == before.version {
            return;
        }
        let left: Vec<&Pool> = before
            .pools
            .values()
            .filter(|p| after.pools.values().all(|a| a.id != p.id))
            .collect();
        let paths = PoolPaths::of(before);
        let users = self.users.0.iter();
        let wrong = users.filter_map(|user| {
            let head = self.head(user.job?)?;
            let pool = left.iter().find(|p| p.path == paths.of_job(&head))?;
            let n = self.live_instances(head.job);
            (n > 0).then(|| Broken {
                invariant: 17,
                what: format!(
                    "pool {} leaves with {n} instances of {} running",
                    pool.path, head.job
                ),
            })
        });
        let wrong: Vec<Broken> = wrong.collect();
        self.broken.extend(wrong);
    }

    /// In the end a pool that was to go is gone when it is empty.
    pub(crate) fn judge_tree(&self) -> Vec<Broken> {
        let tree = self.tree();
        let paths = PoolPaths::of(&tree);
        let used: BTreeSet<String> = self.unended().map(|(h, _)| paths.of_job(&h).to_owned()).collect();
        let empty = tree
            .pools
            .values()
            .filter(|p| p.deleting && tree.is_leaf(&p.path) && !used.contains(&p.path));
        empty
            .map(|p| Broken {
                invariant: 17,
                what: format!("pool {} was deleted, is empty and still there", p.path),
            })
            .collect()
    }
}

/// A pool below which another pool is needed becomes a top pool, and its jobs follow it: a pool with jobs has
/// none below it. The other pool is gone, and its jobs know it by its last path only.
fn step_aside(pools: &mut BTreeMap<String, Pool>, needed: &BTreeSet<(String, bool)>) {
    for (path, _) in needed {
        let below = format!("{path}/");
        if needed.iter().any(|(other, _)| other.starts_with(&below))
            && let Some(mut pool) = pools.remove(path)
        {
            pool.path = format!("/from{}", path.replace('/', "-"));
            pools.insert(pool.path.clone(), pool);
        }
    }
}

/// A pool that jobs are in, or are to come to, has none below it: these become top pools.
fn make_room(pools: &mut BTreeMap<String, Pool>, path: &str) {
    let below = format!("{path}/");
    let inner: Vec<String> = pools.keys().filter(|p| p.starts_with(&below)).cloned().collect();
    for old in inner {
        if let Some(mut pool) = pools.remove(&old) {
            let rest = old.strip_prefix(&below).unwrap_or_default();
            pool.path = format!("/from{}-{rest}", path.replace('/', "-"));
            pools.insert(pool.path.clone(), pool);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_makes_way_for_one_that_is_needed_below_it() {
        let pool = |path: &str| (path.to_owned(), Pool::new(PoolId::new(path), path));
        let mut pools = BTreeMap::from(["/a", "/a/x", "/b"].map(pool));
        let needed = ["/a/x", "/a/x/n", "/b"].map(|path| (path.to_owned(), true));
        step_aside(&mut pools, &BTreeSet::from(needed));
        let moved = pools.get("/from-a-x").map(|p| (p.id.as_str(), p.path.as_str()));
        assert_eq!(moved, Some(("/a/x", "/from-a-x")));
        assert_eq!(pools.keys().collect::<Vec<_>>(), ["/a", "/b", "/from-a-x"]);
    }
}
