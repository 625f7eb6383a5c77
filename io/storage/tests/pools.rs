//! Trees of as many pools as there may be, changed by the gateway's methods in an embedded storage.
#![cfg(test)]

use echelon_core_gateway::ApiError;
use echelon_core_gateway::apply::{WantedPool, WantedTree, apply_pools, plan_pools};
use echelon_core_gateway::call::CheckAnswer;
use echelon_core_gateway::pools::{PoolChange, create_pool, delete_pool, get_pool, update_pool};
use echelon_core_gateway::port::Facts;
use echelon_core_gateway::sightings::Sightings;
use echelon_core_model::cluster::{ClusterState, Heartbeat};
use echelon_core_model::instance_limit::WantedInstances;
use echelon_core_model::job::Progress;
use echelon_core_model::pool::{MAX_POOL_DEPTH, MAX_POOLS, Pool, PoolTree, PreemptWithin, PriorityBounds};
use echelon_core_model::spec::{CLUSTER_LOSS_WAITS, OnSilence};
use echelon_core_model::store::{Answer, Consistency, Op, OpResult, Query};
use echelon_core_model::{JobId, Kind, PoolId, Resources, Span, Version};
use echelon_core_pools::tree::MAX_QUANTITY;
use echelon_io_storage::{FileStore, Store};
use std::path::Path;

struct Stored(FileStore);

impl Facts for Stored {
    async fn perform(&self, op: Op) -> OpResult {
        self.0.perform(op).await
    }

    async fn unstored(&self, _: Vec<JobId>) -> Option<Vec<Progress>> {
        None
    }

    async fn check_instances(&self, _: WantedInstances) -> CheckAnswer {
        None
    }

    fn sighted(&self, _: &[ClusterState], _: &[Heartbeat]) -> Sightings {
        Sightings::default()
    }

    async fn pause(&self, _: Span) {}
}

impl Stored {
    fn open(folder: &Path) -> Self {
        Self(FileStore::open(&folder.join("echelon.redb")).unwrap())
    }

    async fn tree(&self) -> PoolTree {
        let read = self.0.read(Query::Pools, Consistency::Serial).await.unwrap();
        match read.answer {
            Answer::Pools(tree) => tree,
            other => panic!("{other:?}"),
        }
    }
}

/// A pool with all its fields, and large numbers in them.
fn full(path: &str) -> Pool {
    let most = Resources {
        cpus: MAX_QUANTITY,
        memory: MAX_QUANTITY,
        disk: MAX_QUANTITY,
        gpus: MAX_QUANTITY,
    };
    Pool {
        limit: most,
        share: most,
        max_instance: most,
        priority: PriorityBounds {
            min: u32::MAX - 2,
            max: u32::MAX - 1,
            default: Some(u32::MAX - 1),
        },
        controller_limit: most,
        revocable_limit: most.with(Kind::Gpus, u64::MAX),
        max_jobs: MAX_QUANTITY,
        max_instances: MAX_QUANTITY,
        fair_users: true,
        preempt_within: PreemptWithin::LowerPriority,
        on_cluster_loss: Some(OnSilence::Replace(*CLUSTER_LOSS_WAITS.end())),
        ..Pool::new(PoolId::new(""), path)
    }
}

/// As many pools as there may be: a chain of one level less than there may be, and all others below its end.
fn largest(name: usize) -> Vec<Pool> {
    let chain = (1..MAX_POOL_DEPTH).map(|levels| format!("/{}", "n".repeat(name)).repeat(levels));
    let chain: Vec<String> = chain.collect();
    let end = chain.last().unwrap().clone();
    let leaves = (chain.len()..MAX_POOLS).map(|n| format!("{end}/{n:0>name$}"));
    chain.into_iter().chain(leaves).map(|path| full(&path)).collect()
}

fn wanted(pools: &[Pool]) -> WantedTree {
    let all = pools.iter().map(|pool| WantedPool {
        pool: pool.clone(),
        moved_from: String::new(),
    });
    WantedTree {
        pools: all.collect(),
        ..WantedTree::default()
    }
}

/// The same without what storage gives: ids and versions.
fn plain(tree: PoolTree) -> Vec<Pool> {
    let all = tree.pools.into_values().map(|pool| Pool {
        id: PoolId::new(""),
        version: Version(1),
        ..pool
    });
    all.collect()
}

async fn sorted(stored: &Stored, mut expected: Vec<Pool>) {
    expected.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(plain(stored.tree().await) == expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_of_all_that_it_may_have_is_applied_and_changed_pool_by_pool() -> Result<(), ApiError> {
    let folder = tempfile::tempdir().unwrap();
    let mut pools = largest(6);
    {
        let stored = Stored::open(folder.path());
        apply_pools(&stored, &wanted(&pools), 1).await?;
        sorted(&stored, pools.clone()).await;
        assert!(
            plan_pools(&stored, &wanted(&pools), 1)
                .await?
                .differences
                .is_empty()
        );
        let change = PoolChange {
            limit: vec![(Kind::Cpus, 5)],
            ..PoolChange::default()
        };
        pools[7_000].limit.cpus = 5;
        let changed = update_pool(&stored, &pools[7_000].path, change).await?;
        assert_eq!((changed.version, changed.limit.cpus), (Version(2), 5));
        sorted(&stored, pools.clone()).await;
        // A number that could not be read again is refused.
        let huge = PoolChange {
            max_jobs: Some(1 << 60),
            ..PoolChange::default()
        };
        let refused = update_pool(&stored, &pools[7_000].path, huge).await.unwrap_err();
        assert_eq!(refused.violations[0].field, "pool.max_jobs");
        sorted(&stored, pools.clone()).await;
        // One more is one too many, and one less is not.
        let more = full("/more");
        let refused = create_pool(&stored, more.clone(), 1 << 100).await.unwrap_err();
        assert!(refused.message.contains("at most 10000"), "{refused}");
        let last = pools.pop().unwrap();
        assert_eq!(delete_pool(&stored, &last.path, "").await?, None);
        create_pool(&stored, more.clone(), 1 << 100).await?;
        pools.push(more);
    }
    // Another process has nothing of it in memory.
    let stored = Stored::open(folder.path());
    assert_eq!(
        get_pool(&stored, "/more").await?.id,
        PoolId::new(format!("{:032x}", 1_u128 << 100))
    );
    sorted(&stored, pools).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_paths_fit() -> Result<(), ApiError> {
    let folder = tempfile::tempdir().unwrap();
    let stored = Stored::open(folder.path());
    let pools = largest(63);
    let last = pools.last().unwrap().path.clone();
    assert_eq!(last.len(), 64 * MAX_POOL_DEPTH);
    apply_pools(&stored, &wanted(&pools), 1).await?;
    assert_eq!(stored.tree().await.pools.len(), MAX_POOLS);
    // The name of one pool is all that could be deeper.
    let below = create_pool(&stored, full(&format!("{last}/x")), 1 << 100)
        .await
        .unwrap_err();
    assert_eq!(below.violations[0].field, "pool.path");
    let changed = update_pool(
        &stored,
        &last,
        PoolChange {
            max_jobs: Some(3),
            ..PoolChange::default()
        },
    );
    assert_eq!(changed.await?.max_jobs, 3);
    assert_eq!(get_pool(&stored, &last).await?.max_jobs, 3);
    Ok(())
}
