//! The whole tree of pools replaced at once: who is new, changed, moved or gone is found by path, and by where a pool says that it
//! came from, so that ids outlive renames. Whoever reads sees one tree or the other.

use crate::ask;
use crate::change::check_etag;
use crate::error::ApiError;
use crate::pools::{TRIES, contention, has_jobs, has_old_jobs, in_use, put};
use crate::port::Facts;
use crate::validate::text::{POOL_FORM, is_pool_path};
use crate::validate::{Violations, pool as rules};
use echelon_core_model::pool::{Pool, PoolTree};
use echelon_core_model::resources::{Kind, Resources};
use echelon_core_model::{PoolId, Version};
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
    check(wanted, &mut out);
    let origins = origins(wanted, &before, &mut out);
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

/// Rules of the tree by itself.
fn check(wanted: &WantedTree, out: &mut Violations) {
    let mut paths: BTreeSet<&str> = BTreeSet::new();
    let mut below: BTreeMap<&str, Resources> = BTreeMap::new();
    for (i, WantedPool { pool, moved_from }) in wanted.pools.iter().enumerate() {
        let at = format!("pools[{i}].pool");
        out.check(is_pool_path(&pool.path), format!("{at}.path"), POOL_FORM);
        out.check(
            paths.insert(&pool.path),
            format!("{at}.path"),
            format!("`{}` is there twice", pool.path),
        );
        out.check(
            moved_from.is_empty() || is_pool_path(moved_from),
            format!("pools[{i}].moved_from"),
            POOL_FORM,
        );
        rules::own(pool, &at, out);
        let sum = below.entry(PoolTree::parent(&pool.path)).or_default();
        *sum = sum.plus(pool.reservation);
    }
    let tree = PoolTree {
        version: Version(0),
        pools: wanted
            .pools
            .iter()
            .map(|w| (w.pool.path.clone(), w.pool.clone()))
            .collect(),
    };
    for (i, WantedPool { pool, .. }) in wanted.pools.iter().enumerate() {
        let at = format!("pools[{i}].pool");
        let bounds = tree.priority_of(&pool.path);
        out.check(
            bounds.min <= bounds.max || !pool.priority.is_possible(),
            format!("{at}.priority"),
            format!(
                "leaves no priority for jobs of `{}`: with the pools above it they need {} at least and {} at most",
                pool.path, bounds.min, bounds.max
            ),
        );
        let parent = PoolTree::parent(&pool.path);
        out.check(
            parent == "/" || paths.contains(parent),
            format!("{at}.path"),
            format!("the tree has no `{parent}` to put `{}` under", pool.path),
        );
        let sum = below.get(pool.path.as_str()).copied().unwrap_or_default();
        for kind in Kind::ALL {
            let (reserved, all) = (pool.reservation.get(kind), sum.get(kind));
            out.check(
                all <= reserved,
                format!("{at}.reservation.{}", rules::unit(kind)),
                format!(
                    "pools below `{}` have {} reserved together, it has only {}",
                    pool.path,
                    kind.show(all),
                    kind.show(reserved)
                ),
            );
        }
    }
}

/// Where each wanted pool is now, by its wanted path; new pools have no entry. What moves takes the pools below it along.
fn origins(wanted: &WantedTree, there: &PoolTree, out: &mut Violations) -> BTreeMap<String, String> {
    let mut by_path: Vec<(usize, &WantedPool)> = wanted.pools.iter().enumerate().collect();
    by_path.sort_by(|a, b| a.1.pool.path.cmp(&b.1.pool.path));
    let wanted_paths: BTreeSet<&str> = wanted.pools.iter().map(|w| w.pool.path.as_str()).collect();
    let is = |path: &str| there.pools.contains_key(path);
    let mut moved: BTreeMap<&str, String> = BTreeMap::new();
    let mut claimed: BTreeMap<String, &str> = BTreeMap::new();
    for (i, WantedPool { pool, moved_from }) in by_path {
        let path = pool.path.as_str();
        let field = || format!("pools[{i}].moved_from");
        let name = path.rsplit('/').next().unwrap_or_default();
        let with_parent = moved
            .get(PoolTree::parent(path))
            .map(|old| format!("{old}/{name}"));
        let from = match moved_from.as_str() {
            "" => with_parent,
            own => Some(own.to_owned()),
        };
        let Some(from) = from.filter(|from| from != path) else {
            continue;
        };
        if is(path) {
            // It has moved already, unless what it came from is to vanish beside it.
            out.check(
                moved_from.is_empty() || !is(&from) || wanted_paths.contains(from.as_str()),
                field(),
                format!("`{from}` cannot become `{path}`: both are there"),
            );
        } else if is(&from) {
            if let Some(other) = claimed.insert(from.clone(), path) {
                out.check(false, field(), format!("`{from}` becomes `{other}` already"));
            }
            moved.insert(path, from);
        }
    }
    let stays = |path: &&str| is(path) && !claimed.contains_key(*path);
    let mut origins: BTreeMap<String, String> = wanted_paths
        .iter()
        .filter(|p| stays(p))
        .map(|p| ((*p).to_owned(), (*p).to_owned()))
        .collect();
    origins.extend(moved.into_iter().map(|(path, from)| (path.to_owned(), from)));
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
        if !before.is_leaf(path) || !is_rooted || !is_free {
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
    let were_inner: BTreeSet<&str> = parents(before);
    let inner: BTreeSet<&str> = parents(after);
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
        let to = ids.get(&pool.id).copied().unwrap_or(path);
        let grows = !were_inner.contains(path) && inner.contains(to) && !gone(pool);
        if grows && has_jobs(facts, before, path).await? {
            return Err(in_use(
                path,
                "jobs of its own and so cannot have pools below it",
                "wait for them or stop them first",
            ));
        }
    }
    Ok(())
}

/// Paths that have pools below them.
fn parents(tree: &PoolTree) -> BTreeSet<&str> {
    tree.pools.keys().map(|p| PoolTree::parent(p)).collect()
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
