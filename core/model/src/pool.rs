//! The tree of resource pools, as every process has it in memory. Storage keeps it in parts, under one
//! version.

use crate::id::{PoolId, Version, is_label};
use crate::job::Head;
use crate::resources::Resources;
use crate::spec::OnSilence;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What becomes of what a pool has reserved and nobody in it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PoolKind {
    /// Others may use it until it is wanted.
    #[default]
    Elastic,
    /// It is kept: the pool is entitled to at least its reservation, whatever it wants.
    Static,
}

impl PoolKind {
    /// All, in the order of the API's numbers.
    pub const ALL: [Self; 2] = [Self::Elastic, Self::Static];

    /// The word of files and commands.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Elastic => "elastic",
            Self::Static => "static",
        }
    }
}

/// Whether work of a pool may be preempted for work of the same pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PreemptWithin {
    /// As the pool above says. Where none says anything, higher priority preempts lower priority if the pool,
    /// or one above it, has an upper bound of priority. Without one any submitter could stop all its
    /// neighbours with one number.
    #[default]
    Auto,
    /// None of it.
    Never,
    /// Preemptible work of lower priority.
    LowerPriority,
}

impl PreemptWithin {
    /// All, in the order of the API's numbers.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Never, Self::LowerPriority];

    /// The word of files and commands.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Never => "never",
            Self::LowerPriority => "lower_priority",
        }
    }
}

/// Which priorities jobs of a pool may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriorityBounds {
    /// The least.
    pub min: u32,
    /// The most; `u32::MAX`: no bound.
    pub max: u32,
    /// That of a job that names none; `None`: that of the pool above, or 0, as far as the bounds allow.
    pub default: Option<u32>,
}

impl PriorityBounds {
    /// No bounds.
    pub const ANY: Self = Self {
        min: 0,
        max: u32::MAX,
        default: None,
    };

    /// Whether some priority is within the bounds, and the default is.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        self.min <= self.max && self.default.is_none_or(|n| (self.min..=self.max).contains(&n))
    }

    /// The priority of a job that names none.
    #[must_use]
    pub fn usual(&self) -> u32 {
        self.default.unwrap_or_default().max(self.min).min(self.max)
    }
}

/// A node of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Made at creation, kept over renames and moves.
    pub id: PoolId,
    /// Its full path: `/default`, `/ml/training`. The root is `/`.
    pub path: String,
    /// What it gets first.
    pub reservation: Resources,
    /// What it never exceeds.
    pub limit: Resources,
    /// Its weight when what is left is shared; 0 gets only what nobody with a share wants.
    pub share: Resources,
    /// Whether it lends what it has reserved.
    pub kind: PoolKind,
    /// The most of each kind that one instance may ask for, its sidecars included.
    pub max_instance: Resources,
    /// Which priorities its jobs may have.
    pub priority: PriorityBounds,
    /// What its controllers never exceed together.
    pub controller_limit: Resources,
    /// What its revocable work never exceeds of the room that hosts lend.
    pub revocable_limit: Resources,
    /// Most jobs of which something has begun and which have not ended; `u64::MAX`: no bound.
    pub max_jobs: u64,
    /// Most active instances; `u64::MAX`: no bound.
    pub max_instances: u64,
    /// Among jobs of equal priority, the user who has least of it goes first, in place of the oldest job. Of effect where jobs are.
    pub fair_users: bool,
    /// Whether its work may be preempted for other work of it.
    pub preempt_within: PreemptWithin,
    /// What becomes of instances at a silent cluster, for jobs of kind batch and service that do not say it, of this pool and
    /// of those below it; `None`: as the pool above says, or else the default of their kind.
    pub on_cluster_loss: Option<OnSilence>,
    /// It takes no new job, and goes when its last one has ended.
    pub deleting: bool,
    /// Counts the writes of this pool, from 1.
    pub version: Version,
}

impl Pool {
    /// An elastic pool that reserves nothing and has no limit, at its first version.
    #[must_use]
    pub fn new(id: PoolId, path: impl Into<String>) -> Self {
        let share = DEFAULT_SHARE;
        Self {
            id,
            path: path.into(),
            reservation: Resources::ZERO,
            limit: Resources::MAX,
            share: Resources {
                cpus: share,
                memory: share,
                disk: share,
                gpus: share,
            },
            kind: PoolKind::Elastic,
            max_instance: Resources::MAX,
            priority: PriorityBounds::ANY,
            controller_limit: Resources::MAX,
            revocable_limit: Resources::MAX,
            max_jobs: u64::MAX,
            max_instances: u64::MAX,
            fair_users: false,
            preempt_within: PreemptWithin::Auto,
            on_cluster_loss: None,
            deleting: false,
            version: Version(1),
        }
    }

    /// What it is entitled to, within its limit, whether anybody in it wants it or not.
    #[must_use]
    pub const fn kept(&self) -> Resources {
        match self.kind {
            PoolKind::Elastic => Resources::ZERO,
            PoolKind::Static => self.reservation,
        }
    }
}

/// The whole tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolTree {
    /// Counts the trees, from 1; 0 is the tree that was never written (the root alone).
    pub version: Version,
    /// Pools by path, without the root.
    pub pools: BTreeMap<String, Pool>,
}

/// Share of a pool that names none.
pub const DEFAULT_SHARE: u64 = 1;
/// Most pools of a tree.
pub const MAX_POOLS: usize = 10_000;
/// Most levels of a tree: names in a path.
pub const MAX_POOL_DEPTH: usize = 64;

/// Whether a text is the path of a pool: `/default`, `/ml/training`; at most 64 levels.
#[must_use]
pub fn is_pool_path(path: &str) -> bool {
    path.strip_prefix('/')
        .is_some_and(|rest| rest.split('/').all(is_label) && rest.split('/').count() <= MAX_POOL_DEPTH)
}

/// What `is_pool_path` asks for, in words.
pub const POOL_PATH_FORM: &str =
    "must be a path like `/ml/training`: 1 to 64 names of a-z, 0-9 and `-`, each after a `/`";

impl PoolTree {
    /// The path of a pool's parent: `/` for a top pool.
    #[must_use]
    pub fn parent(path: &str) -> &str {
        match path.rsplit_once('/') {
            Some(("", _)) | None => "/",
            Some((parent, _)) => parent,
        }
    }

    /// Direct children of a path, in order of path.
    pub fn children<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a Pool> + 'a {
        self.pools.values().filter(move |p| Self::parent(&p.path) == path)
    }

    /// A pool and those above it, from the leaf up; those that are not there are left out.
    pub fn lineage<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a Pool> + 'a {
        let paths = std::iter::successors(Some(path), |p| Some(Self::parent(p)).filter(|p| *p != "/"));
        paths.filter_map(|p| self.pools.get(p))
    }

    /// The pool at a path, or the nearest above it, that is to go: no job may be put there.
    #[must_use]
    pub fn deleting<'a>(&'a self, path: &'a str) -> Option<&'a Pool> {
        self.lineage(path).find(|p| p.deleting)
    }

    /// Which priorities jobs of a pool may have, by its bounds and those above it; the default is that of the nearest which has one.
    #[must_use]
    pub fn priority_of(&self, path: &str) -> PriorityBounds {
        let mut out = PriorityBounds::ANY;
        for pool in self.lineage(path) {
            out.min = out.min.max(pool.priority.min);
            out.max = out.max.min(pool.priority.max);
            out.default = out.default.or(pool.priority.default);
        }
        out.default = Some(out.usual());
        out
    }

    /// All paths that have pools below them, in one pass; `/` is one of them.
    #[must_use]
    pub fn inner(&self) -> BTreeSet<&str> {
        self.pools.keys().map(|path| Self::parent(path)).collect()
    }

    /// Whether a pool has no children (only such a pool takes jobs).
    #[must_use]
    pub fn is_leaf(&self, path: &str) -> bool {
        self.children(path).next().is_none()
    }
}

/// Where pools are, by id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolPaths(Arc<BTreeMap<PoolId, String>>);

impl PoolPaths {
    /// Where the pools of a tree are.
    #[must_use]
    pub fn of(tree: &PoolTree) -> Self {
        let all = tree.pools.values().map(|p| (p.id.clone(), p.path.clone()));
        Self(Arc::new(all.collect()))
    }

    /// Whether a job's pool is found by its id.
    #[must_use]
    pub fn know(&self, head: &Head) -> bool {
        head.pool_id.as_ref().is_some_and(|id| self.0.contains_key(id))
    }

    /// Where a job's pool is: where the pool of that id is now, and, for a row without an id or a pool that is gone, at the path that
    /// the row names.
    #[must_use]
    pub fn of_job<'a>(&'a self, head: &'a Head) -> &'a str {
        let known = head.pool_id.as_ref().and_then(|id| self.0.get(id));
        known.unwrap_or(&head.pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Goal, JobFilter, JobState};
    use crate::{JobId, Timestamp};

    fn head(pool: &str, id: Option<&str>) -> Head {
        Head {
            job: JobId::new(Timestamp(1), 1),
            version: Version(1),
            void: false,
            goal: Goal::default(),
            spec_version: 1,
            name: "hello".to_owned(),
            pool: pool.to_owned(),
            pool_id: id.map(PoolId::new),
            kind: crate::spec::JobKind::Batch,
            owner: String::new(),
            labels: BTreeMap::new(),
            instances: 1,
            updated_at: Timestamp(1),
            past_rollouts: Vec::new(),
            rollout: None,
            verdict: None,
            schedule: None,
            origin: None,
            restarts: None,
            spec_digest: None,
        }
    }

    #[test]
    fn paths_have_at_most_64_names() {
        let deep = |levels: usize| format!("/{}", "a".repeat(63)).repeat(levels);
        for good in ["/default", "/ml/training", "/0/a-b", &deep(64)] {
            assert!(is_pool_path(good), "{good}");
        }
        for bad in [
            "",
            "/",
            "default",
            "/a/",
            "//a",
            "/A",
            "/a_b",
            "/-a",
            "/a/../b",
            &deep(65),
        ] {
            assert!(!is_pool_path(bad), "{bad}");
        }
        assert!(!is_pool_path(&format!("/{}", "a".repeat(64))));
    }

    #[test]
    fn a_job_is_where_its_pool_is_now() {
        // X was at /a and is at /b/x; Y is at /a now; Z is gone.
        let mut tree = PoolTree::default();
        for (id, path) in [("X", "/b/x"), ("Y", "/a"), ("B", "/b")] {
            tree.pools
                .insert(path.to_owned(), Pool::new(PoolId::new(id), path));
        }
        let paths = PoolPaths::of(&tree);
        for (id, expected, in_b, in_a) in [
            (Some("X"), "/b/x", true, false),
            (Some("Y"), "/a", false, true),
            (Some("Z"), "/a", false, true),
            (None, "/a", false, true),
        ] {
            let head = head("/a", id);
            assert_eq!(paths.of_job(&head), expected, "{id:?}");
            let below = |path: &str| JobFilter {
                pool: Some(path.to_owned()),
                paths: paths.clone(),
                ..JobFilter::default()
            };
            let passes = |path| below(path).passes(&head, JobState::Running);
            assert_eq!((passes("/b"), passes("/a")), (in_b, in_a), "{id:?}");
            let old = JobFilter {
                by_path_alone: true,
                ..below("/a")
            };
            assert_eq!(
                old.passes(&head, JobState::Running),
                matches!(id, None | Some("Z")),
                "{id:?}"
            );
        }
    }
}
