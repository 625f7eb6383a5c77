//! What is in storage before a resource manager leads: pools, clusters, jobs, and jobs that have ended. It is written through the
//! product's own layout, without a gateway.

use super::{entitled, shard};
use crate::bench::spec;
use anyhow::{Result, bail};
use echelon_core_model::instance::Counts;
use echelon_core_model::job::{Goal, Head, JobState, Progress};
use echelon_core_model::pool::PoolTree;
use echelon_core_model::spec::{JobKind, JobSpec, defaults};
use echelon_core_model::spec_digest::SpecDigest;
use echelon_core_model::store::{Batch, Decided, Decision, Leadership, Role, Stamp, Write};
use echelon_core_model::{
    ClusterId, Epoch, GroupName, JobId, Reason, ReasonCode, RunState, Timestamp, Version,
};
use echelon_io_storage::Store;
use echelon_sim_replay::store::cluster;
use std::collections::BTreeMap;
use std::ops::Range;

/// Instances of the jobs that fill the clusters.
pub(super) const WIDE: u32 = 100;
/// Instances of the jobs that wait.
pub(super) const NARROW: u32 = 10;
/// The leader that wrote the ends of jobs.
const EARLIER: Epoch = Epoch(1);
/// Rows of one write: well below the most that a batch may have.
const TOGETHER: usize = 64;
/// Decisions that are made side by side.
const AT_ONCE: usize = 500;

/// How large the federation is.
#[derive(Debug, Clone, Copy)]
pub(super) struct FederationSize {
    pub(super) pools: u32,
    pub(super) clusters: u32,
    /// Jobs of `WIDE` instances.
    pub(super) wide: u32,
    /// Jobs of `NARROW` instances.
    pub(super) narrow: u32,
    /// Jobs of one instance that have ended, with records that are still stored.
    pub(super) ended: u32,
    /// Instances of the last job; 0: there is none.
    pub(super) large: u32,
    /// Jobs after that which are never submitted, with a spec each.
    pub(super) spare: u32,
}

impl FederationSize {
    pub(super) fn wide_jobs(self) -> Range<u32> {
        0..self.wide
    }

    pub(super) fn narrow_jobs(self) -> Range<u32> {
        let first = self.wide_jobs().end;
        first..first.saturating_add(self.narrow)
    }

    fn ended_jobs(self) -> Range<u32> {
        let first = self.narrow_jobs().end;
        first..first.saturating_add(self.ended)
    }

    pub(super) fn large_job(self) -> u32 {
        self.ended_jobs().end
    }

    /// All jobs with a spec.
    pub(super) fn specs(self) -> Range<u32> {
        let jobs = self.large_job().saturating_add(self.large.min(1));
        0..jobs.saturating_add(self.spare)
    }

    fn instances(self, n: u32) -> u32 {
        if self.wide_jobs().contains(&n) {
            WIDE
        } else if self.narrow_jobs().contains(&n) {
            NARROW
        } else if self.ended_jobs().contains(&n) {
            1
        } else {
            self.large
        }
    }

    fn head(self, n: u32) -> Head {
        Head {
            job: job_id(n),
            version: Version(1),
            void: false,
            goal: Goal::default(),
            spec_version: 1,
            name: format!("job-{n}"),
            pool: entitled::leaf(n, self.pools),
            pool_id: None,
            kind: JobKind::Batch,
            owner: String::new(),
            labels: BTreeMap::new(),
            instances: u64::from(self.instances(n)),
            updated_at: Timestamp(0),
            past_rollouts: Vec::new(),
            rollout: None,
            verdict: None,
            schedule: None,
            origin: None,
            restarts: None,
            spec_digest: Some(SpecDigest::of(1, &self.spec(n))),
        }
    }

    pub(super) fn spec(self, n: u32) -> JobSpec {
        let mut spec = spec(self.instances(n));
        spec.name = format!("job-{n}");
        spec.pool = entitled::leaf(n, self.pools);
        spec.kind = JobKind::Batch;
        spec.clusters = Box::default();
        for group in &mut spec.groups {
            group.retry = defaults::retry(JobKind::Batch);
            group.resources = shard::one();
        }
        spec
    }
}

pub(super) fn job_id(n: u32) -> JobId {
    JobId(1 + u128::from(n))
}

pub(super) fn cluster_name(n: u32) -> String {
    format!("c{n}")
}

/// Stores pools, clusters, jobs that have ended, and the specs of all jobs. No other job has a head yet.
pub(super) async fn fill(store: &dyn Store, size: FederationSize) -> Result<()> {
    put_pools(store, entitled::tree(size.pools)).await?;
    let clusters = (0..size.clusters).map(|n| Decision::PutCluster {
        cluster: cluster(&cluster_name(n)),
        expected: None,
    });
    decide(store, clusters.collect()).await?;
    let jobs: Vec<u32> = size.specs().collect();
    for some in jobs.chunks(AT_ONCE) {
        let put = |n: &u32| Decision::PutSpec {
            job: job_id(*n),
            version: 1,
            spec: size.spec(*n),
        };
        decide(store, some.iter().map(put).collect()).await?;
    }
    submit(store, size, size.ended_jobs()).await?;
    ends(store, size.ended_jobs()).await
}

/// Replaces the pool tree by the next version.
pub(super) async fn put_pools(store: &dyn Store, tree: PoolTree) -> Result<()> {
    let expected = Version(tree.version.0.saturating_sub(1));
    decide(store, vec![Decision::PutPools { tree, expected }]).await
}

/// Stores the heads of jobs: from now on they are submitted.
pub(super) async fn submit(store: &dyn Store, size: FederationSize, jobs: Range<u32>) -> Result<()> {
    let jobs: Vec<u32> = jobs.collect();
    for some in jobs.chunks(AT_ONCE) {
        let put = |n: &u32| Decision::PutHead {
            head: size.head(*n),
            expected: None,
        };
        decide(store, some.iter().map(put).collect()).await?;
    }
    Ok(())
}

/// Stores that jobs have ended, as an earlier leader did.
async fn ends(store: &dyn Store, jobs: Range<u32>) -> Result<()> {
    let earlier = Decision::TakeEpoch {
        role: Role::ResourceManager,
        next: Leadership {
            epoch: EARLIER,
            holder: "earlier".to_owned(),
            proof: 1,
            resumed: Epoch(0),
        },
        expected: Epoch(0),
    };
    decide(store, vec![earlier]).await?;
    let jobs: Vec<u32> = jobs.collect();
    for (sequence, some) in (1..).zip(jobs.chunks(TOGETHER)) {
        let batch = Batch {
            owner: Role::ResourceManager,
            stamp: Stamp {
                epoch: EARLIER,
                sequence,
            },
            writes: some.iter().map(|n| Write::Progress(end(*n))).collect(),
        };
        store.commit(batch).await?;
    }
    Ok(())
}

fn end(n: u32) -> Progress {
    let mut counts = Counts::default();
    counts.add(RunState::Succeeded, 1);
    Progress {
        job: job_id(n),
        state: JobState::Succeeded,
        since: Timestamp(0),
        ended_version: Some(Version(1)),
        reason: Some(Reason::new(ReasonCode::Succeeded)),
        groups: [(GroupName::new(GroupName::DEFAULT), counts)]
            .into_iter()
            .collect(),
        waiting: Vec::new(),
        awaited: Vec::new(),
        created_at: Timestamp(0),
        starved: None,
        rollout: None,
        restart: None,
        released: None,
        keep_until: None,
        crash_looping: 0,
    }
}

/// Makes decisions side by side, as many clients would.
async fn decide(store: &dyn Store, all: Vec<Decision>) -> Result<()> {
    let all = all.into_iter().map(|decision| store.decide(decision));
    for done in futures::future::try_join_all(all).await? {
        if done != Decided::Applied {
            bail!("storage has something else than this benchmark has stored");
        }
    }
    Ok(())
}

/// The ids of all clusters.
pub(super) fn clusters(size: FederationSize) -> impl Iterator<Item = ClusterId> {
    (0..size.clusters).map(|n| ClusterId::new(cluster_name(n)))
}
