//! The tree of pools: each change decides on a whole new tree of the next version, so that readers see one
//! tree or the other.

use crate::ask;
use crate::change::check_etag;
use crate::error::{ApiError, ErrorReason};
use crate::page::{self, Page, PageRequest};
use crate::port::Facts;
use crate::validate::text::{POOL_PATH_FORM, is_pool_path};
use crate::validate::{Violations, pool as rules};
use echelon_core_model::job::{JobFilter, JobState};
use echelon_core_model::pool::{Pool, PoolKind, PoolPaths, PoolTree, PreemptWithin, PriorityBounds};
use echelon_core_model::resources::{Kind, Resources};
use echelon_core_model::spec::OnSilence;
use echelon_core_model::store::{Answer, Consistency, Decided, Decision, Query};
use echelon_core_model::{PoolId, Version};
use echelon_core_pools::tree::TreeProblem;

/// How often others may come first before the caller is told.
pub(crate) const TRIES: u32 = 16;

/// What to change of a pool; what is `None` stays.
#[derive(Debug, Clone, Default)]
pub struct PoolChange {
    /// Quantities of the reservation.
    pub reservation: Vec<(Kind, u64)>,
    /// Quantities of the limit; `u64::MAX` is no bound.
    pub limit: Vec<(Kind, u64)>,
    /// Quantities of the share.
    pub share: Vec<(Kind, u64)>,
    /// Its kind.
    pub kind: Option<PoolKind>,
    /// Quantities of the largest instance; `u64::MAX` is no bound.
    pub max_instance: Vec<(Kind, u64)>,
    /// Its bounds of priority.
    pub priority: Option<PriorityBounds>,
    /// Quantities of the limit for controllers; `u64::MAX` is no bound.
    pub controller_limit: Vec<(Kind, u64)>,
    /// Quantities of the limit of lent room; `u64::MAX` is no bound.
    pub revocable_limit: Vec<(Kind, u64)>,
    /// Most jobs; `u64::MAX` is no bound.
    pub max_jobs: Option<u64>,
    /// Most active instances; `u64::MAX` is no bound.
    pub max_instances: Option<u64>,
    /// Whether it is fair to its users.
    pub fair_users: Option<bool>,
    /// Whether its work may be preempted for other work of it.
    pub preempt_within: Option<PreemptWithin>,
    /// What becomes of instances at a silent cluster where their jobs do not say it.
    /// `Some(None)`: this pool says nothing.
    pub on_cluster_loss: Option<Option<OnSilence>>,
    /// Only if it still has this etag; empty: whatever it has.
    pub etag: String,
}

fn not_found(path: &str) -> ApiError {
    ApiError::new(
        ErrorReason::PoolNotFound,
        format!("there is no pool `{path}`; `echelon pool list` shows what there is"),
    )
}

/// One pool.
///
/// # Errors
/// No such pool, or storage.
pub async fn get_pool<F: Facts>(facts: &F, path: &str) -> Result<Pool, ApiError> {
    let mut tree = ask::pools(facts).await?;
    tree.pools.remove(path).ok_or_else(|| not_found(path))
}

/// A page of pools in order of path.
///
/// # Errors
/// A wrong page token or size, or storage.
pub async fn list_pools<F: Facts>(facts: &F, page: PageRequest) -> Result<Page<Pool>, ApiError> {
    let limit = page.limit()?;
    let after = page.position("pools")?;
    let tree = ask::pools(facts).await?;
    let rows = tree
        .pools
        .into_values()
        .filter(|p| after.as_ref().is_none_or(|a| p.path > *a))
        .collect();
    Ok(page::cut(rows, limit, "pools", |p: &Pool| p.path.clone()))
}

/// Writes a tree over the one that was read; `false` when another change came first.
pub(crate) async fn put<F: Facts>(facts: &F, mut tree: PoolTree) -> Result<bool, ApiError> {
    let expected = tree.version;
    tree.version = expected.next();
    let decision = Decision::PutPools { tree, expected };
    Ok(ask::decide(facts, decision, "the pools").await? == Decided::Applied)
}

pub(crate) fn contention() -> ApiError {
    ApiError::new(
        ErrorReason::Contention,
        "others change the pools all the time; nothing was changed, try again",
    )
}

/// Whether jobs of a pool, or of one below it, have not ended.
pub(crate) async fn has_jobs<F: Facts>(facts: &F, tree: &PoolTree, path: &str) -> Result<bool, ApiError> {
    any_job(facts, tree, path, false).await
}

/// Whether some of these would not follow it elsewhere: their rows are older than pools' ids in them.
pub(crate) async fn has_old_jobs<F: Facts>(facts: &F, tree: &PoolTree, path: &str) -> Result<bool, ApiError> {
    any_job(facts, tree, path, true).await
}

async fn any_job<F: Facts>(
    facts: &F,
    tree: &PoolTree,
    path: &str,
    by_path_alone: bool,
) -> Result<bool, ApiError> {
    let filter = JobFilter {
        pool: Some(path.to_owned()),
        paths: PoolPaths::of(tree),
        by_path_alone,
        states: JobState::ALL.into_iter().filter(|s| !s.is_ended()).collect(),
        ..JobFilter::default()
    };
    let query = Query::Jobs {
        filter,
        after: None,
        limit: 1,
    };
    match ask::read(facts, query, Consistency::Quorum, "the pool's jobs").await? {
        Answer::Jobs(rows) => Ok(!rows.is_empty()),
        _ => Err(ask::broken_conflict("the pool's jobs")),
    }
}

pub(crate) fn in_use(path: &str, by: &str, next: &str) -> ApiError {
    ApiError::new(ErrorReason::PoolInUse, format!("pool `{path}` has {by}; {next}"))
}

/// Makes a pool. `id` is 128 random bits; the id and version of `new` are not read.
///
/// # Errors
/// Wrong fields, a pool that is there, a parent that is not or that has jobs, or storage.
pub async fn create_pool<F: Facts>(facts: &F, new: Pool, id: u128) -> Result<Pool, ApiError> {
    if !is_pool_path(&new.path) {
        return Err(ApiError::field("pool.path", POOL_PATH_FORM));
    }
    let pool = Pool {
        id: PoolId::new(format!("{id:032x}")),
        deleting: false,
        version: Version(1),
        ..new
    };
    for _ in 0..TRIES {
        let before = ask::pools(facts).await?;
        let after = place(facts, &pool, &before).await?;
        if put(facts, after).await? {
            return Ok(pool);
        }
    }
    Err(contention())
}

/// The tree with a new pool.
async fn place<F: Facts>(facts: &F, pool: &Pool, tree: &PoolTree) -> Result<PoolTree, ApiError> {
    let Pool { path, .. } = pool;
    if tree.pools.contains_key(path) {
        return Err(ApiError::new(
            ErrorReason::PoolExists,
            format!("there is a pool `{path}` already; change it with `echelon pool update {path}`"),
        ));
    }
    let parent = PoolTree::parent(path);
    if let Some(goes) = tree.deleting(parent) {
        return Err(ApiError::new(
            ErrorReason::PoolDeleting,
            format!(
                "`{}` is being deleted and takes no pool below it; keep it with `echelon pool undelete {}` first",
                goes.path, goes.path
            ),
        ));
    }
    let mut after = tree.clone();
    after.pools.insert(path.clone(), pool.clone());
    let mut out = Violations::default();
    rules::check(tree, &after, &mut out);
    out.done()?;
    if parent != "/" && tree.is_leaf(parent) && has_jobs(facts, tree, parent).await? {
        return Err(jobs_inside(parent));
    }
    Ok(after)
}

/// That a pool with jobs would have pools below it.
pub(crate) fn jobs_inside(path: &str) -> ApiError {
    let path = path.to_owned();
    ApiError::new(
        ErrorReason::PoolInUse,
        TreeProblem::JobsInside { path }.to_string(),
    )
}

fn applied(mut pool: Pool, change: &PoolChange) -> Pool {
    let with = |from: Resources, to: &[(Kind, u64)]| to.iter().fold(from, |r, (kind, n)| r.with(*kind, *n));
    pool.reservation = with(pool.reservation, &change.reservation);
    pool.limit = with(pool.limit, &change.limit);
    pool.share = with(pool.share, &change.share);
    pool.kind = change.kind.unwrap_or(pool.kind);
    pool.max_instance = with(pool.max_instance, &change.max_instance);
    pool.priority = change.priority.unwrap_or(pool.priority);
    pool.controller_limit = with(pool.controller_limit, &change.controller_limit);
    pool.revocable_limit = with(pool.revocable_limit, &change.revocable_limit);
    pool.fair_users = change.fair_users.unwrap_or(pool.fair_users);
    pool.preempt_within = change.preempt_within.unwrap_or(pool.preempt_within);
    pool.on_cluster_loss = change.on_cluster_loss.unwrap_or(pool.on_cluster_loss);
    pool.max_jobs = change.max_jobs.unwrap_or(pool.max_jobs);
    pool.max_instances = change.max_instances.unwrap_or(pool.max_instances);
    pool
}

/// Changes a pool.
///
/// # Errors
/// No such pool, an old etag, wrong fields, or storage.
pub async fn update_pool<F: Facts>(facts: &F, path: &str, change: PoolChange) -> Result<Pool, ApiError> {
    for _ in 0..TRIES {
        let tree = ask::pools(facts).await?;
        let before = tree.pools.get(path).ok_or_else(|| not_found(path))?;
        check_etag(&change.etag, before.version, &format!("pool `{path}`"))?;
        let mut pool = applied(before.clone(), &change);
        if pool == *before {
            return Ok(pool);
        }
        pool.version = before.version.next();
        let mut after = tree.clone();
        after.pools.insert(path.to_owned(), pool.clone());
        let mut out = Violations::default();
        rules::check(&tree, &after, &mut out);
        out.done()?;
        if put(facts, after).await? {
            return Ok(pool);
        }
    }
    Err(contention())
}

/// Removes a pool. One that has jobs is marked, and shown, as being deleted: the resource manager's leader removes it when its last
/// job has ended.
///
/// # Errors
/// No such pool, an old etag, pools below it, or storage.
pub async fn delete_pool<F: Facts>(facts: &F, path: &str, etag: &str) -> Result<Option<Pool>, ApiError> {
    for _ in 0..TRIES {
        let mut tree = ask::pools(facts).await?;
        let before = tree.pools.get(path).ok_or_else(|| not_found(path))?;
        check_etag(etag, before.version, &format!("pool `{path}`"))?;
        if !tree.is_leaf(path) {
            return Err(in_use(path, "pools below it", "delete those first"));
        }
        let goes = has_jobs(facts, &tree, path).await?.then(|| marked(before, true));
        if goes.as_ref() == Some(before) {
            return Ok(goes);
        }
        match &goes {
            Some(pool) => tree.pools.insert(path.to_owned(), pool.clone()),
            None => tree.pools.remove(path),
        };
        if put(facts, tree).await? {
            return Ok(goes);
        }
    }
    Err(contention())
}

fn marked(pool: &Pool, deleting: bool) -> Pool {
    if pool.deleting == deleting {
        return pool.clone();
    }
    Pool {
        deleting,
        version: pool.version.next(),
        ..pool.clone()
    }
}

/// Keeps a pool that is being deleted. One that is not stays as it is.
///
/// # Errors
/// No such pool (any more), an old etag, or storage.
pub async fn undelete_pool<F: Facts>(facts: &F, path: &str, etag: &str) -> Result<Pool, ApiError> {
    for _ in 0..TRIES {
        let mut tree = ask::pools(facts).await?;
        let before = tree.pools.get(path).ok_or_else(|| not_found(path))?;
        check_etag(etag, before.version, &format!("pool `{path}`"))?;
        let after = marked(before, false);
        if after == *before {
            return Ok(after);
        }
        tree.pools.insert(path.to_owned(), after.clone());
        if put(facts, tree).await? {
            return Ok(after);
        }
    }
    Err(contention())
}

/// Gives a store that never had a pool its first one, `/default`. `id` is 128 random bits.
///
/// # Errors
/// Storage.
pub async fn ensure_first_pool<F: Facts>(facts: &F, id: u128) -> Result<(), ApiError> {
    use echelon_core_model::spec::defaults;
    let mut tree = ask::pools(facts).await?;
    if tree.version != Version(0) {
        return Ok(());
    }
    let pool = Pool::new(PoolId::new(format!("{id:032x}")), defaults::POOL);
    tree.pools.insert(pool.path.clone(), pool);
    // Whoever comes first, there is a pool then.
    put(facts, tree).await.map(drop)
}

#[cfg(test)]
#[path = "pools_tests.rs"]
mod tests;
