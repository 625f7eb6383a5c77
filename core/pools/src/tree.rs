//! The rules of the pool tree: what a tree must be before it is stored. The gateway and `pool simulate` judge
//! by them, and `pool apply` through the gateway: one rule has one sentence everywhere. Rules about what jobs
//! may ask of a pool are the gateway's.

use echelon_core_model::pool::{MAX_POOLS, POOL_PATH_FORM, Pool, PoolTree, PriorityBounds, is_pool_path};
use echelon_core_model::resources::{Kind, Resources};
use echelon_core_model::spec::{CLUSTER_LOSS_WAITS, OnSilence};
use echelon_core_model::sum::MOST_COUNTED;
use std::borrow::Cow;
use std::collections::BTreeMap;
use thiserror::Error;

/// The pools as they stand to the room that hosts lend: nobody has reserved any of it, and their limits are those of it.
#[must_use]
pub fn of_lent_room(pools: &PoolTree) -> PoolTree {
    let mut out = pools.clone();
    for pool in out.pools.values_mut() {
        *pool = of_lent_capacity(pool);
    }
    out
}

/// A pool as it divides revocable capacity: by its share alone, up to its bound of it.
#[must_use]
pub fn of_lent_capacity(pool: &Pool) -> Pool {
    Pool {
        reservation: Resources::ZERO,
        limit: pool.revocable_limit,
        ..pool.clone()
    }
}

/// Largest number of a pool that is not "no bound". 10,000 pools (`MAX_POOLS`) with this much sum up to less than
/// 2^64. Stored numbers are at most 2^53: a larger one would make the stored tree unreadable.
pub const MAX_QUANTITY: u64 = MOST_COUNTED;

/// A quantity of a pool that has a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PoolQuantity {
    /// What it gets first.
    Reservation,
    /// Its weight.
    Share,
    /// What it never exceeds.
    Limit,
    /// The most of one instance.
    MaxInstance,
    /// What its controllers never exceed.
    ControllerLimit,
    /// What its revocable work never exceeds.
    RevocableLimit,
}

impl PoolQuantity {
    const ALL: [Self; 6] = [
        Self::Reservation,
        Self::Share,
        Self::Limit,
        Self::MaxInstance,
        Self::ControllerLimit,
        Self::RevocableLimit,
    ];

    /// Its name in files and in the API.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::Reservation => "reservation",
            Self::Share => "share",
            Self::Limit => "limit",
            Self::MaxInstance => "max_instance",
            Self::ControllerLimit => "controller_limit",
            Self::RevocableLimit => "revocable_limit",
        }
    }

    /// What a pool has of it.
    #[must_use]
    pub const fn of(self, pool: &Pool) -> Resources {
        match self {
            Self::Reservation => pool.reservation,
            Self::Share => pool.share,
            Self::Limit => pool.limit,
            Self::MaxInstance => pool.max_instance,
            Self::ControllerLimit => pool.controller_limit,
            Self::RevocableLimit => pool.revocable_limit,
        }
    }

    /// Sets what a pool has of it.
    pub const fn set(self, pool: &mut Pool, to: Resources) {
        match self {
            Self::Reservation => pool.reservation = to,
            Self::Share => pool.share = to,
            Self::Limit => pool.limit = to,
            Self::MaxInstance => pool.max_instance = to,
            Self::ControllerLimit => pool.controller_limit = to,
            Self::RevocableLimit => pool.revocable_limit = to,
        }
    }

    /// Whether `u64::MAX` stands for "no bound".
    const fn may_be_unbounded(self) -> bool {
        !matches!(self, Self::Reservation | Self::Share)
    }
}

/// Why a tree is not a good one. Each problem names the pool, the value and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TreeProblem {
    /// More pools than a tree may have.
    #[error("the tree has {pools} pools; at most {MAX_POOLS} are allowed")]
    TooManyPools {
        /// How many there are.
        pools: usize,
    },
    /// A path that is not one.
    #[error("`{}` is not the path of a pool: it {POOL_PATH_FORM}", cut(path))]
    BadPath {
        /// The path.
        path: String,
    },
    /// A pool that lies under another path than its own.
    #[error("pool `{}` is stored under `{}`", cut(path), cut(key))]
    Misplaced {
        /// Where it is stored.
        key: String,
        /// Its own path.
        path: String,
    },
    /// Its parent does not exist.
    #[error(
        "there is no pool `{}` to put `{}` under; create that one first",
        cut(parent),
        cut(path)
    )]
    NoParent {
        /// The pool.
        path: String,
        /// The path of its parent.
        parent: String,
    },
    /// Two pools with one id.
    #[error("pools `{}` and `{}` have the same id", cut(first), cut(second))]
    SameId {
        /// The first of them.
        first: String,
        /// The other.
        second: String,
    },
    /// A quantity beyond what sums can hold.
    #[error(
        "pool `{}` has a {} of {kind} {}; it must be at most {}{}",
        cut(path),
        of.field(),
        kind.show(*quantity),
        kind.show(MAX_QUANTITY),
        if of.may_be_unbounded() { ", or left out for no bound" } else { "" }
    )]
    TooLarge {
        /// The pool.
        path: String,
        /// Which quantity.
        of: PoolQuantity,
        /// The kind.
        kind: Kind,
        /// Its value.
        quantity: u64,
    },
    /// A bound on a number of things that storage cannot hold.
    #[error(
        "pool `{}` has {field} {count}; it must be at most {MAX_QUANTITY}, or left out for no bound",
        cut(path)
    )]
    CountTooLarge {
        /// The pool.
        path: String,
        /// The bound's name in files and in the API.
        field: &'static str,
        /// Its value.
        count: u64,
    },
    /// It limits what no host lends.
    #[error(
        "pool `{}` has a revocable_limit of gpus; leave it out, no host lends GPUs",
        cut(path)
    )]
    RevocableGpus {
        /// The pool.
        path: String,
    },
    /// Its jobs would be replaced too soon, or practically never.
    #[error(
        "pool `{}` has on_cluster_loss {on}; it must be `wait`, or `replace after` 2 minutes to 365 days",
        cut(path)
    )]
    ClusterLoss {
        /// The pool.
        path: String,
        /// What it says.
        on: OnSilence,
    },
    /// Its own bounds of priority exclude each other.
    #[error(
        "pool `{}` needs a priority with min at most max, and the default between them",
        cut(path)
    )]
    PriorityBounds {
        /// The pool.
        path: String,
    },
    /// Its bounds of priority and those above it exclude each other.
    #[error(
        "pool `{}` leaves no priority for its jobs: with the pools above it they need {min} at least and {max} at most",
        cut(path)
    )]
    NoPriority {
        /// The pool.
        path: String,
        /// The largest minimum.
        min: u32,
        /// The smallest maximum.
        max: u32,
    },
    /// It reserves more than it may use.
    #[error(
        "pool `{}` reserves {kind} {}, above its limit of {}",
        cut(path),
        kind.show(*reservation),
        kind.show(*limit)
    )]
    AboveLimit {
        /// The pool.
        path: String,
        /// The kind.
        kind: Kind,
        /// What it reserves.
        reservation: u64,
        /// Its limit.
        limit: u64,
    },
    /// Its children reserve more than it does.
    #[error(
        "the pools below `{}` reserve {kind} {} together, above its own reservation of {}",
        cut(path),
        show_sum(*kind, *children),
        kind.show(*reservation)
    )]
    ChildrenReserve {
        /// The parent.
        path: String,
        /// The kind.
        kind: Kind,
        /// What its children reserve.
        children: u128,
        /// What it reserves.
        reservation: u64,
    },
    /// The top pools reserve more than sums can hold.
    #[error(
        "the top pools reserve {kind} {} together; it must be at most {}",
        show_sum(*kind, *sum),
        kind.show(MAX_QUANTITY)
    )]
    RootReserve {
        /// The kind.
        kind: Kind,
        /// What they reserve.
        sum: u128,
    },
    /// Where it came from is not a path.
    #[error(
        "pool `{}` moved from `{}`, which is not the path of a pool",
        cut(path),
        cut(from)
    )]
    BadOrigin {
        /// The pool.
        path: String,
        /// Where it says that it came from.
        from: String,
    },
    /// It and what it came from exist, and only one of them is wanted.
    #[error("`{}` cannot become `{}`: both exist", cut(from), cut(path))]
    BothExist {
        /// The pool.
        path: String,
        /// Where it says that it came from.
        from: String,
    },
    /// Two pools came from the same one.
    #[error("`{}` cannot become `{}`: it becomes `{}`", cut(from), cut(path), cut(other))]
    MovedTwice {
        /// The pool.
        path: String,
        /// Where it says that it came from.
        from: String,
        /// The other pool that came from there.
        other: String,
    },
    /// A pool that has jobs has pools below it.
    #[error(
        "pool `{}` has jobs of its own and so cannot have pools below it; wait for them or stop them first",
        cut(path)
    )]
    JobsInside {
        /// The pool.
        path: String,
    },
}

/// A path as it is shown: of a long one both ends. A path may have 4 KiB, and an error of the API has no more
/// than 16 KiB.
fn cut(path: &str) -> Cow<'_, str> {
    const END: usize = 60;
    if path.len() <= 2 * END + 20 {
        return Cow::Borrowed(path);
    }
    let first = path.get(..path.floor_char_boundary(END)).unwrap_or_default();
    let last = path
        .get(path.ceil_char_boundary(path.len() - END)..)
        .unwrap_or_default();
    Cow::Owned(format!("{first}...({} bytes)...{last}", path.len()))
}

/// A sum, which may be beyond what one quantity can be.
fn show_sum(kind: Kind, sum: u128) -> String {
    let one = u64::try_from(sum).map(|sum| kind.show(sum));
    one.unwrap_or_else(|_| format!("more than {}", kind.show(u64::MAX)))
}

impl TreeProblem {
    /// The path of the pool that has it; `None`: the tree as a whole.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::TooManyPools { .. } | Self::RootReserve { .. } => None,
            Self::BadPath { path }
            | Self::Misplaced { path, .. }
            | Self::NoParent { path, .. }
            | Self::SameId { second: path, .. }
            | Self::TooLarge { path, .. }
            | Self::CountTooLarge { path, .. }
            | Self::RevocableGpus { path }
            | Self::ClusterLoss { path, .. }
            | Self::PriorityBounds { path }
            | Self::NoPriority { path, .. }
            | Self::AboveLimit { path, .. }
            | Self::ChildrenReserve { path, .. }
            | Self::BadOrigin { path, .. }
            | Self::BothExist { path, .. }
            | Self::MovedTwice { path, .. }
            | Self::JobsInside { path } => Some(path),
        }
    }

    /// Whether it is about where a pool came from, which is said beside the pool.
    #[must_use]
    pub const fn is_of_origin(&self) -> bool {
        matches!(
            self,
            Self::BadOrigin { .. } | Self::BothExist { .. } | Self::MovedTwice { .. }
        )
    }

    /// The field of a pool that it is about, as the API names it: `reservation.cpus_milli`.
    #[must_use]
    pub fn field(&self) -> String {
        match self {
            Self::TooLarge { of, kind, .. } => format!("{}.{}", of.field(), kind.field()),
            Self::CountTooLarge { field, .. } => (*field).to_owned(),
            Self::ClusterLoss { .. } => "on_cluster_loss".to_owned(),
            Self::RevocableGpus { .. } => {
                format!("{}.{}", PoolQuantity::RevocableLimit.field(), Kind::Gpus.field())
            }
            Self::AboveLimit { kind, .. }
            | Self::ChildrenReserve { kind, .. }
            | Self::RootReserve { kind, .. } => {
                format!("{}.{}", PoolQuantity::Reservation.field(), kind.field())
            }
            Self::PriorityBounds { .. } | Self::NoPriority { .. } => "priority".to_owned(),
            Self::BadOrigin { .. } | Self::BothExist { .. } | Self::MovedTwice { .. } => {
                "moved_from".to_owned()
            }
            Self::TooManyPools { .. }
            | Self::BadPath { .. }
            | Self::Misplaced { .. }
            | Self::NoParent { .. }
            | Self::SameId { .. }
            | Self::JobsInside { .. } => "path".to_owned(),
        }
    }
}

/// All problems of a tree, in order of path; empty for a good one. `O(n log n)` with paths as keys.
#[must_use]
pub fn problems(tree: &PoolTree) -> Vec<TreeProblem> {
    let mut out = Vec::new();
    let pools = tree.pools.len();
    if pools > MAX_POOLS {
        out.push(TreeProblem::TooManyPools { pools });
    }
    let reserved = reserved_below(tree);
    let mut bounds: BTreeMap<&str, PriorityBounds> = BTreeMap::new();
    out.extend(root_problems(&reserved));
    for (key, pool) in &tree.pools {
        path_problems(tree, key, pool, &mut out);
        quantity_problems(pool, &mut out);
        out.extend(loss_problem(pool));
        priority_problems(pool, &mut bounds, &mut out);
        out.extend(children_problems(pool, &reserved));
    }
    same_ids(tree, &mut out);
    out
}

/// The problems that a change brings: those of the tree after it which the tree before it has not. What was
/// wrong before, by a rule that is newer than the tree, does not prevent another change.
#[must_use]
pub fn new_problems(before: &PoolTree, after: &PoolTree) -> Vec<TreeProblem> {
    let mut out = problems(after);
    if !out.is_empty() {
        let old = problems(before);
        out.retain(|problem| !old.contains(problem));
    }
    out
}

/// The problems of a tree in which jobs use the paths for which `has_jobs` holds: only a pool without pools
/// below it takes jobs.
#[must_use]
pub fn jobs_inside(tree: &PoolTree, has_jobs: impl Fn(&str) -> bool) -> Vec<TreeProblem> {
    let inner = tree.inner().into_iter().filter(|path| has_jobs(path));
    let pools = inner.filter_map(|path| tree.pools.get(path));
    pools
        .map(|pool| TreeProblem::JobsInside {
            path: pool.path.clone(),
        })
        .collect()
}

/// The pools that have no pools below them before a change and some after it, wherever they are then. The
/// change is refused if one of them has jobs.
#[must_use]
pub fn becoming_inner<'a>(before: &'a PoolTree, after: &PoolTree) -> Vec<&'a Pool> {
    let (were, are) = (before.inner(), after.inner());
    let inner = after.pools.values().filter(|p| are.contains(p.path.as_str()));
    let inner: std::collections::BTreeSet<_> = inner.map(|p| &p.id).collect();
    let leaves = before.pools.values().filter(|p| !were.contains(p.path.as_str()));
    leaves.filter(|p| inner.contains(&p.id)).collect()
}

fn path_problems(tree: &PoolTree, key: &str, pool: &Pool, out: &mut Vec<TreeProblem>) {
    let path = &pool.path;
    if key != path {
        out.push(TreeProblem::Misplaced {
            key: key.to_owned(),
            path: path.clone(),
        });
    }
    if !is_pool_path(path) {
        out.push(TreeProblem::BadPath { path: path.clone() });
    }
    let parent = PoolTree::parent(path);
    if parent != "/" && !tree.pools.contains_key(parent) {
        out.push(TreeProblem::NoParent {
            path: path.clone(),
            parent: parent.to_owned(),
        });
    }
}

fn quantity_problems(pool: &Pool, out: &mut Vec<TreeProblem>) {
    let path = &pool.path;
    for kind in Kind::ALL {
        for of in PoolQuantity::ALL {
            let quantity = of.of(pool).get(kind);
            let is_unbounded = of.may_be_unbounded() && quantity == u64::MAX;
            if quantity > MAX_QUANTITY && !is_unbounded {
                out.push(TreeProblem::TooLarge {
                    path: path.clone(),
                    of,
                    kind,
                    quantity,
                });
            }
        }
        let (reservation, limit) = (pool.reservation.get(kind), pool.limit.get(kind));
        if reservation > limit {
            out.push(TreeProblem::AboveLimit {
                path: path.clone(),
                kind,
                reservation,
                limit,
            });
        }
    }
    for (field, count) in [("max_jobs", pool.max_jobs), ("max_instances", pool.max_instances)] {
        if count > MAX_QUANTITY && count != u64::MAX {
            out.push(TreeProblem::CountTooLarge {
                path: path.clone(),
                field,
                count,
            });
        }
    }
    if pool.revocable_limit.gpus != u64::MAX {
        out.push(TreeProblem::RevocableGpus { path: path.clone() });
    }
}

fn loss_problem(pool: &Pool) -> Option<TreeProblem> {
    let on = pool.on_cluster_loss?;
    let is_possible = match on {
        OnSilence::Replace(after) => CLUSTER_LOSS_WAITS.contains(&after),
        OnSilence::Wait => true,
    };
    let path = pool.path.clone();
    (!is_possible).then_some(TreeProblem::ClusterLoss { path, on })
}

/// Notes the bounds of a pool with those above it, which come before it in order of path. A pool below one
/// that leaves no priority is not reported as well.
fn priority_problems<'a>(
    pool: &'a Pool,
    bounds: &mut BTreeMap<&'a str, PriorityBounds>,
    out: &mut Vec<TreeProblem>,
) {
    let above = bounds.get(PoolTree::parent(&pool.path));
    let above = above.copied().unwrap_or(PriorityBounds::ANY);
    let own = PriorityBounds {
        min: above.min.max(pool.priority.min),
        max: above.max.min(pool.priority.max),
        default: None,
    };
    bounds.insert(&pool.path, own);
    let path = pool.path.clone();
    if !pool.priority.is_possible() {
        out.push(TreeProblem::PriorityBounds { path });
    } else if own.min > own.max && above.min <= above.max {
        let (min, max) = (own.min, own.max);
        out.push(TreeProblem::NoPriority { path, min, max });
    }
}

/// What the pools directly below each path reserve together, exactly.
type Reserved<'a> = BTreeMap<&'a str, [u128; Kind::ALL.len()]>;

fn reserved_below(tree: &PoolTree) -> Reserved<'_> {
    let mut out = Reserved::new();
    for pool in tree.pools.values() {
        let sums = out.entry(PoolTree::parent(&pool.path)).or_default();
        for (sum, kind) in sums.iter_mut().zip(Kind::ALL) {
            // 10,000 times 2^64 is far below 2^128, and so is any number of pools that fits into memory.
            *sum += u128::from(pool.reservation.get(kind));
        }
    }
    out
}

fn root_problems<'a>(reserved: &'a Reserved<'_>) -> impl Iterator<Item = TreeProblem> + 'a {
    let sums = reserved.get("/").into_iter().flatten().zip(Kind::ALL);
    sums.filter(|(sum, _)| **sum > u128::from(MAX_QUANTITY))
        .map(|(sum, kind)| TreeProblem::RootReserve { kind, sum: *sum })
}

fn children_problems<'a>(
    pool: &'a Pool,
    reserved: &'a Reserved<'_>,
) -> impl Iterator<Item = TreeProblem> + 'a {
    let sums = reserved.get(pool.path.as_str()).into_iter().flatten();
    let with_own = sums.zip(Kind::ALL.map(|kind| (kind, pool.reservation.get(kind))));
    with_own
        .filter(|(children, (_, own))| **children > u128::from(*own))
        .map(|(children, (kind, reservation))| TreeProblem::ChildrenReserve {
            path: pool.path.clone(),
            kind,
            children: *children,
            reservation,
        })
}

fn same_ids(tree: &PoolTree, out: &mut Vec<TreeProblem>) {
    let mut by_id: BTreeMap<_, &str> = BTreeMap::new();
    for pool in tree.pools.values() {
        if let Some(first) = by_id.insert(&pool.id, &pool.path) {
            out.push(TreeProblem::SameId {
                first: first.to_owned(),
                second: pool.path.clone(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entitle::tests::{cpus, pool, tree};
    use echelon_core_model::{PoolId, Span};

    fn said(tree: &PoolTree) -> Vec<String> {
        problems(tree).iter().map(ToString::to_string).collect()
    }

    /// A pool without bounds, changed.
    fn with(path: &str, change: impl FnOnce(&mut Pool)) -> Pool {
        let mut out = Pool::new(PoolId::new(path), path);
        change(&mut out);
        out
    }

    fn priority(min: u32, max: u32, default: Option<u32>) -> PriorityBounds {
        PriorityBounds { min, max, default }
    }

    #[test]
    fn a_good_tree_has_no_problems() {
        let good = tree([
            pool("/a", 8, 10, 1),
            pool("/a/b", 3, 10, 1),
            pool("/a/c", 5, 5, 0),
            with("/largest", |p| {
                p.reservation = cpus(MAX_QUANTITY - 8);
                p.limit = cpus(MAX_QUANTITY);
                p.share = cpus(MAX_QUANTITY);
                p.max_instance.memory = MAX_QUANTITY;
                (p.max_jobs, p.max_instances) = (0, MAX_QUANTITY);
                p.priority = priority(3, 3, Some(3));
                p.on_cluster_loss = Some(OnSilence::Replace(Span::minutes(2)));
            }),
            with("/waits", |p| p.on_cluster_loss = Some(OnSilence::Wait)),
        ]);
        assert_eq!(said(&good), Vec::<String>::new());
        assert_eq!(said(&PoolTree::default()), Vec::<String>::new());
    }

    /// Every rule, with the field that it is about and its one sentence.
    #[test]
    fn each_broken_rule_is_reported_with_its_field_and_its_numbers() {
        let deep = format!("/{}", "a/".repeat(63));
        let levels = |n: usize| (1..=n).map(|n| pool(&"/a".repeat(n), 0, 1, 1));
        let cases = [
            (
                tree([pool("/a/b", 0, 1, 1)]),
                "path",
                "there is no pool `/a` to put `/a/b` under; create that one first".to_owned(),
            ),
            (
                tree([pool("/A", 0, 1, 1)]),
                "path",
                "`/A` is not the path of a pool: it must be a path like `/ml/training`: 1 to 64 names of a-z, 0-9 and `-`, \
                 each after a `/`"
                    .to_owned(),
            ),
            (
                tree(levels(65)),
                "path",
                format!(
                    "`{deep}a/a` is not the path of a pool: it must be a path like `/ml/training`: 1 to 64 names of a-z, \
                     0-9 and `-`, each after a `/`"
                ),
            ),
            (
                tree([with("/a", |p| p.share = cpus(MAX_QUANTITY + 1))]),
                "share.cpus_milli",
                "pool `/a` has a share of cpus 1125899906842.625; it must be at most 1125899906842.624".to_owned(),
            ),
            (
                tree([with("/a", |p| p.limit.disk = MAX_QUANTITY + 1)]),
                "limit.disk_mib",
                "pool `/a` has a limit of disk 1125899906842625MiB; it must be at most 1125899906842624MiB, or left out \
                 for no bound"
                    .to_owned(),
            ),
            (
                tree([with("/a", |p| p.max_instance.gpus = u64::MAX - 1)]),
                "max_instance.gpus_milli",
                "pool `/a` has a max_instance of gpus 18446744073709551.614; it must be at most 1125899906842.624, or \
                 left out for no bound"
                    .to_owned(),
            ),
            (
                tree([with("/a", |p| p.controller_limit.cpus = 1 << 60)]),
                "controller_limit.cpus_milli",
                "pool `/a` has a controller_limit of cpus 1152921504606846.976; it must be at most 1125899906842.624, or \
                 left out for no bound"
                    .to_owned(),
            ),
            (
                tree([with("/a", |p| p.revocable_limit.cpus = 1 << 60)]),
                "revocable_limit.cpus_milli",
                "pool `/a` has a revocable_limit of cpus 1152921504606846.976; it must be at most 1125899906842.624, or \
                 left out for no bound"
                    .to_owned(),
            ),
            (
                tree([with("/a", |p| p.max_jobs = MAX_QUANTITY + 1)]),
                "max_jobs",
                "pool `/a` has max_jobs 1125899906842625; it must be at most 1125899906842624, or left out for no bound"
                    .to_owned(),
            ),
            (
                tree([with("/a", |p| p.max_instances = u64::MAX - 1)]),
                "max_instances",
                "pool `/a` has max_instances 18446744073709551614; it must be at most 1125899906842624, or left out for no \
                 bound"
                    .to_owned(),
            ),
            (
                tree([with("/a", |p| p.revocable_limit.gpus = 1)]),
                "revocable_limit.gpus_milli",
                "pool `/a` has a revocable_limit of gpus; leave it out, no host lends GPUs".to_owned(),
            ),
            (
                tree([with("/a", |p| {
                    p.on_cluster_loss = Some(OnSilence::Replace(Span::seconds(119)));
                })]),
                "on_cluster_loss",
                "pool `/a` has on_cluster_loss replace after 119s; it must be `wait`, or `replace after` 2 minutes to 365 days"
                    .to_owned(),
            ),
            (
                tree([with("/a", |p| {
                    p.on_cluster_loss = Some(OnSilence::Replace(Span::minutes(366 * 24 * 60)));
                })]),
                "on_cluster_loss",
                "pool `/a` has on_cluster_loss replace after 8784h; it must be `wait`, or `replace after` 2 minutes to 365 days"
                    .to_owned(),
            ),
            (
                tree([with("/a", |p| p.priority = priority(3, 2, None))]),
                "priority",
                "pool `/a` needs a priority with min at most max, and the default between them".to_owned(),
            ),
            (
                tree([with("/a", |p| p.priority = priority(3, 4, Some(5)))]),
                "priority",
                "pool `/a` needs a priority with min at most max, and the default between them".to_owned(),
            ),
            (
                tree([
                    with("/a", |p| p.priority = priority(5, 9, None)),
                    with("/a/b", |p| p.priority = priority(0, 4, None)),
                    with("/a/b/c", |_| {}),
                ]),
                "priority",
                "pool `/a/b` leaves no priority for its jobs: with the pools above it they need 5 at least and 4 at most"
                    .to_owned(),
            ),
            (
                tree([pool("/a", 5, 4, 1)]),
                "reservation.cpus_milli",
                "pool `/a` reserves cpus 0.005, above its limit of 0.004".to_owned(),
            ),
            (
                tree([pool("/a", 1, 9, 1), pool("/a/b", 1, 9, 1), pool("/a/c", 1, 9, 1)]),
                "reservation.cpus_milli",
                "the pools below `/a` reserve cpus 0.002 together, above its own reservation of 0.001".to_owned(),
            ),
            (
                tree([
                    with("/a", |p| p.reservation = cpus(MAX_QUANTITY)),
                    with("/b", |p| p.reservation = cpus(1)),
                ]),
                "reservation.cpus_milli",
                "the top pools reserve cpus 1125899906842.625 together; it must be at most 1125899906842.624".to_owned(),
            ),
        ];
        for (tree, field, text) in cases {
            let found = problems(&tree);
            assert_eq!(said(&tree), [text]);
            assert_eq!(found[0].field(), field);
        }
    }

    #[test]
    fn of_a_long_path_both_ends_are_shown() {
        let end = "ä".repeat(30);
        let path = format!("/{}{end}", "x".repeat(1 << 20));
        let text = TreeProblem::BadPath { path }.to_string();
        assert!(
            text.starts_with(&format!("`/{}...(1048637 bytes)...{end}` is not", "x".repeat(59))),
            "{text}"
        );
    }

    #[test]
    fn a_sum_that_no_number_holds_is_refused_and_not_saturated() {
        let all = |path: &str| with(path, |p| p.reservation.memory = u64::MAX);
        let large = |path: &str| {
            format!(
                "pool `{path}` has a reservation of memory 18446744073709551615MiB; it must be at most 1125899906842624MiB"
            )
        };
        assert_eq!(
            said(&tree([all("/a"), all("/a/b"), all("/a/c")])),
            [
                "the top pools reserve memory 18446744073709551615MiB together; it must be at most 1125899906842624MiB",
                large("/a").as_str(),
                "the pools below `/a` reserve memory more than 18446744073709551615MiB together, above its own reservation \
                 of 18446744073709551615MiB",
                large("/a/b").as_str(),
                large("/a/c").as_str(),
            ]
        );
    }

    #[test]
    fn a_tree_has_at_most_10_000_pools() {
        let many = |n: usize| tree((0..n).map(|n| pool(&format!("/p{n}"), 0, 1, 1)));
        assert_eq!(said(&many(MAX_POOLS)), Vec::<String>::new());
        assert_eq!(
            said(&many(MAX_POOLS + 1)),
            ["the tree has 10001 pools; at most 10000 are allowed"]
        );
    }

    #[test]
    fn a_pool_with_jobs_has_no_pools_below_it() {
        let (flat, deep) = (
            tree([pool("/a", 0, 9, 1), pool("/c", 0, 9, 1)]),
            tree([pool("/a", 0, 9, 1), pool("/a/b", 0, 9, 1)]),
        );
        let found = |tree: &PoolTree| -> Vec<String> {
            let all = jobs_inside(tree, |p| p == "/a");
            all.iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            found(&deep),
            [
                "pool `/a` has jobs of its own and so cannot have pools below it; wait for them or stop them first"
            ]
        );
        assert_eq!(found(&flat), Vec::<String>::new());
        let paths = |before: &PoolTree, after: &PoolTree| -> Vec<String> {
            let found = becoming_inner(before, after);
            found.into_iter().map(|p| p.path.clone()).collect()
        };
        assert_eq!(paths(&flat, &deep), ["/a"]);
        assert_eq!(paths(&deep, &flat), Vec::<String>::new());
        assert_eq!(paths(&deep, &deep), Vec::<String>::new());
        // It is the same pool wherever it is after the change.
        let mut moved = tree([pool("/m", 0, 9, 1), pool("/m/b", 0, 9, 1)]);
        moved.pools.get_mut("/m").unwrap().id = PoolId::new("/a");
        assert_eq!(paths(&flat, &moved), ["/a"]);
    }

    #[test]
    fn a_change_is_refused_for_what_it_brings_alone() {
        let before = tree([pool("/a", 5, 4, 1), pool("/b", 0, 4, 1)]);
        let mut after = before.clone();
        after.pools.get_mut("/b").unwrap().share = cpus(2);
        assert_eq!(new_problems(&before, &after), []);
        after.pools.get_mut("/a").unwrap().reservation = cpus(6);
        let new: Vec<String> = new_problems(&before, &after)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(new, ["pool `/a` reserves cpus 0.006, above its limit of 0.004"]);
    }

    #[test]
    fn ids_are_unique_and_keys_are_paths() {
        let mut t = tree([pool("/a", 0, 9, 1), pool("/b", 0, 9, 1)]);
        let a = t.pools["/a"].clone();
        t.pools.get_mut("/b").unwrap().id = a.id.clone();
        assert_eq!(said(&t), ["pools `/a` and `/b` have the same id"]);
        let mut t = PoolTree::default();
        t.pools.insert("/x".to_owned(), pool("/a", 0, 9, 1));
        assert_eq!(said(&t), ["pool `/a` is stored under `/x`"]);
    }
}
