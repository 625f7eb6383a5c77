//! The whole tree of pools replaced at once: who is new, changed, moved or gone is found by path, and by where a pool says that it
//! came from, so that ids outlive renames. Whoever reads sees one tree or the other.

use crate::ask;
use crate::change::check_etag;
use crate::error::ApiError;
use crate::pools::{TRIES, contention, has_jobs, has_old_jobs, in_use, jobs_inside, put};
use crate::port::Facts;
use crate::validate::{Violations, pool as rules};
use echelon_core_model::pool::{MAX_POOLS, Pool, PoolTree};
use echelon_core_model::resources::Resources;
use echelon_core_model::{PoolId, Version};
use echelon_core_pools::moves::{PoolOrigin, origins};
use echelon_core_pools::tree::{TreeProblem, becoming_inner, problems};
use std::collections::{BTreeMap, BTreeSet};

/// A pool as it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedPool {
    /// The pool; its id and version are not read.
    pub pool: Pool,
    /// Where it was before, with all pools below it, if it moved; empty: where it is. Of no effect once it has moved.
    pub moved_from: String,
}

/// A tree as it is to be.
#[derive(Debug, Clone, Default)]
pub struct WantedTree {
    /// All pools, in the request's order.
    pub pools: Vec<WantedPool>,
    /// Only if the tree still has this etag; empty: whatever it has.
    pub etag: String,
    /// What reading the request found wrong.
    pub violations: Violations,
}

/// What becomes of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolDifference {
    /// As it was; `None`: it is new.
    pub before: Option<Pool>,
    /// As it will be; `None`: it goes.
    pub after: Option<Pool>,
}

/// A tree and how it differs from the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedTree {
    /// The tree before.
    pub before: PoolTree,
    /// The tree that is stored now, or would be.
    pub after: PoolTree,
    /// What is different, in order of path.
    pub differences: Vec<PoolDifference>,
}

/// Refuses more pools than a tree has before any of them is read.
///
/// # Errors
/// There are more.
pub fn check_count(pools: usize) -> Result<(), ApiError> {
    if pools > MAX_POOLS {
        return Err(ApiError::field(
            "pools",
            TreeProblem::TooManyPools { pools }.to_string(),
        ));
    }
    Ok(())
}

/// What would become of the pools. Stores nothing. `chance` is 128 random bits.
///
/// # Errors
/// Wrong fields, an old etag, jobs in the way, or storage.
pub async fn plan_pools<F: Facts>(
    facts: &F,
    wanted: &WantedTree,
    chance: u128,
) -> Result<AppliedTree, ApiError> {
    let before = ask::pools(facts).await?;
    check_etag(&wanted.etag, before.version, "the tree of pools")?;
    let mut out = wanted.violations.clone();
    let origins = check(wanted, &before, &mut out);
    // The rules report their first problems, and in one line how many more there are.
    // Problems of reading the request come first.
    let more = (out.kept.len() + out.more).saturating_sub(rules::MOST_REPORTED + 1);
    if more > 0 {
        out.kept.truncate(rules::MOST_REPORTED);
        out.more = 0;
        out.check(false, "pools", format!("{more} more problems are not shown"));
    }
    out.done()?;
    let mut after = PoolTree {
        version: before.version,
        pools: BTreeMap::new(),
    };
    for (i, WantedPool { pool, .. }) in (0u128..).zip(&wanted.pools) {
        let origin = origins.get(&pool.path).and_then(|old| before.pools.get(old));
        let made = settled(pool, origin, chance.wrapping_add(i));
        after.pools.insert(made.path.clone(), made);
    }
    keep_with_jobs(facts, &before, &mut after).await?;
    // Pools that stay until their jobs have ended count.
    // They take no new jobs, so other rules do not concern them.
    let mut out = Violations::default();
    let too_many = |p: &TreeProblem| matches!(p, TreeProblem::TooManyPools { .. });
    let many: Vec<TreeProblem> = problems(&after).into_iter().filter(too_many).collect();
    rules::note(&many, |_| None, &mut out);
    out.done()?;
    refuse_with_jobs(facts, &before, &after).await?;
    let differences = differences(&before, &after);
    if !differences.is_empty() {
        after.version = before.version.next();
    }
    Ok(AppliedTree {
        before,
        after,
        differences,
    })
}

/// Replaces the tree. What is the same is not written again.
///
/// # Errors
/// Wrong fields, an old etag, jobs in the way, or storage.
pub async fn apply_pools<F: Facts>(
    facts: &F,
    wanted: &WantedTree,
    chance: u128,
) -> Result<AppliedTree, ApiError> {
    for _ in 0..TRIES {
        let applied = plan_pools(facts, wanted, chance).await?;
        if applied.differences.is_empty() {
            return Ok(applied);
        }
        let mut tree = applied.after.clone();
        tree.version = applied.before.version;
        if put(facts, tree).await? {
            return Ok(applied);
        }
    }
    Err(contention())
}

fn settled(wanted: &Pool, origin: Option<&Pool>, id: u128) -> Pool {
    let Some(origin) = origin else {
        return Pool {
            id: PoolId::new(format!("{id:032x}")),
            version: Version(1),
            ..wanted.clone()
        };
    };
    let same = Pool {
        id: origin.id.clone(),
        version: origin.version,
        ..wanted.clone()
    };
    let version = if same == *origin {
        origin.version
    } else {
        origin.version.next()
    };
    Pool { version, ..same }
}

/// Notes what is wrong with the request. Where each wanted pool that exists is now, by its wanted path.
fn check(wanted: &WantedTree, before: &PoolTree, out: &mut Violations) -> BTreeMap<String, String> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (i, WantedPool { pool, .. }) in wanted.pools.iter().enumerate() {
        out.check(
            places.insert(&pool.path, i).is_none(),
            format!("pools[{i}].pool.path"),
            format!("`{}` is there twice", pool.path),
        );
    }
    let numbered = (0..).zip(&wanted.pools).map(|(i, w)| {
        // Ids are given later.
        let id = PoolId::new(format!("{i}"));
        (w.pool.path.clone(), Pool { id, ..w.pool.clone() })
    });
    let tree = PoolTree {
        version: Version(0),
        pools: numbered.collect(),
    };
    let named = wanted.pools.iter().map(|w| PoolOrigin {
        path: &w.pool.path,
        moved_from: &w.moved_from,
    });
    let (origins, of_origins) = origins(&named.collect::<Vec<_>>(), before);
    let all: Vec<TreeProblem> = problems(&tree).into_iter().chain(of_origins).collect();
    rules::note(&all, |path| places.get(path).copied(), out);
    origins
}

/// Pools that are not wanted any more and have jobs go when those have ended, with those above them that go too. They reserve nothing
/// meanwhile: what is wanted may reserve it.
async fn keep_with_jobs<F: Facts>(
    facts: &F,
    before: &PoolTree,
    after: &mut PoolTree,
) -> Result<(), ApiError> {
    let ids: BTreeSet<PoolId> = after.pools.values().map(|p| p.id.clone()).collect();
    let goes = |p: &Pool| !ids.contains(&p.id);
    let inner = before.inner();
    // Each look goes through all jobs: a whole subtree without any takes one.
    let mut used: BTreeMap<&str, bool> = BTreeMap::new();
    for pool in before.pools.values().filter(|p| goes(p)) {
        let path = pool.path.as_str();
        let top = before
            .lineage(path)
            .take_while(|p| goes(p))
            .last()
            .unwrap_or(pool);
        let parent = PoolTree::parent(&top.path);
        let is_rooted = parent == "/" || after.pools.contains_key(parent);
        let is_free = before
            .lineage(path)
            .all(|p| !goes(p) || after.pools.get(&p.path).is_none_or(|a| a.id == p.id));
        // What cannot stay where it is, is refused by who comes next.
        if inner.contains(path) || !is_rooted || !is_free {
            continue;
        }
        if !used.contains_key(top.path.as_str()) {
            used.insert(&top.path, has_jobs(facts, before, &top.path).await?);
        }
        let above = used.get(top.path.as_str()).copied().unwrap_or_default();
        if !above || (top.path != path && !has_jobs(facts, before, path).await?) {
            continue;
        }
        for kept in before.lineage(path).filter(|p| goes(p)) {
            let same = Pool {
                deleting: true,
                reservation: Resources::ZERO,
                ..kept.clone()
            };
            let version = if same == *kept {
                kept.version
            } else {
                kept.version.next()
            };
            after.pools.insert(kept.path.clone(), Pool { version, ..same });
        }
    }
    Ok(())
}

/// Jobs follow their pool to another path, unless their rows are older than pools' ids in them. A pool with jobs takes no pools below
/// it, and goes only when its jobs have ended.
async fn refuse_with_jobs<F: Facts>(facts: &F, before: &PoolTree, after: &PoolTree) -> Result<(), ApiError> {
    let ids: BTreeMap<&PoolId, &str> = after.pools.values().map(|p| (&p.id, p.path.as_str())).collect();
    let gone = |p: &Pool| !ids.contains_key(&p.id);
    let moved = |p: &Pool| ids.get(&p.id).is_some_and(|to| *to != p.path);
    for pool in before.pools.values() {
        let path = pool.path.as_str();
        let parent = before.pools.get(PoolTree::parent(path));
        // The look-up counts the jobs of pools below too.
        if gone(pool) && !parent.is_some_and(gone) && has_jobs(facts, before, path).await? {
            let next = "keep it in the tree, or stop them first";
            return Err(in_use(path, "jobs that have not ended", next));
        }
        if moved(pool) && !parent.is_some_and(moved) && has_old_jobs(facts, before, path).await? {
            return Err(in_use(
                path,
                "jobs that were submitted before jobs could follow their pool",
                "leave it where it is until they have ended, or update each of them once (`echelon job update`)",
            ));
        }
    }
    for pool in becoming_inner(before, after) {
        if has_jobs(facts, before, &pool.path).await? {
            return Err(jobs_inside(&pool.path));
        }
    }
    Ok(())
}

fn differences(before: &PoolTree, after: &PoolTree) -> Vec<PoolDifference> {
    let old: BTreeMap<&PoolId, &Pool> = before.pools.values().map(|p| (&p.id, p)).collect();
    let new: BTreeSet<&PoolId> = after.pools.values().map(|p| &p.id).collect();
    let left = before.pools.values().filter(|p| !new.contains(&p.id));
    let left = left.map(|p| PoolDifference {
        before: Some(p.clone()),
        after: None,
    });
    let there = after.pools.values().map(|p| PoolDifference {
        before: old.get(&p.id).copied().cloned(),
        after: Some(p.clone()),
    });
    let mut out: Vec<PoolDifference> = there.filter(|d| d.before != d.after).chain(left).collect();
    out.sort_by(|a, b| a.path().cmp(b.path()));
    out
}

impl PoolDifference {
    /// The pool's path, the new one if it has one.
    #[must_use]
    pub fn path(&self) -> &str {
        let pool = self.after.as_ref().or(self.before.as_ref());
        pool.map_or("", |p| p.path.as_str())
    }
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
