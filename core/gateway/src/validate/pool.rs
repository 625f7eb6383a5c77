//! Rules of a pool within its tree.

use super::Violations;
use echelon_core_model::pool::{Pool, PoolTree};
use echelon_core_model::resources::{Kind, Resources};
use echelon_core_model::sum::MOST_COUNTED;

/// Largest quantity of a limit, reservation or share that is not unbounded.
const MOST: u64 = MOST_COUNTED;

/// The API's name of a kind's quantity.
pub fn unit(kind: Kind) -> &'static str {
    match kind {
        Kind::Cpus => "cpus_milli",
        Kind::Memory => "memory_mib",
        Kind::Disk => "disk_mib",
        Kind::Gpus => "gpus_milli",
    }
}

/// Checks a pool as it would stand in `tree`: the reservation within its limit and within its parent's, and its
/// children's within it.
pub fn check(pool: &Pool, tree: &PoolTree, out: &mut Violations) {
    own(pool, "pool", out);
    reservations(pool, tree, out);
    let mut tree = tree.clone();
    tree.pools.insert(pool.path.clone(), pool.clone());
    priorities(&tree, &pool.path, "pool", out);
}

/// Checks that a job of a pool, and of any below it, may have some priority, with the bounds of all above it.
pub fn priorities(tree: &PoolTree, changed: &str, path: &str, out: &mut Violations) {
    let below = format!("{changed}/");
    let all = tree
        .pools
        .keys()
        .filter(|p| *p == changed || p.starts_with(&below));
    let empty = |p: &&String| {
        let bounds = tree.priority_of(p);
        bounds.min > bounds.max
    };
    if let Some(empty) = all.into_iter().find(empty) {
        let bounds = tree.priority_of(empty);
        out.check(
            false,
            format!("{path}.priority"),
            format!(
                "leaves no priority for jobs of `{empty}`: with the pools above it they need {} at least and {} at most",
                bounds.min, bounds.max
            ),
        );
    }
}

/// Checks a pool by itself, as it stands at `path` in its request.
pub fn own(pool: &Pool, path: &str, out: &mut Violations) {
    out.check(
        pool.priority.is_possible(),
        format!("{path}.priority"),
        "min must be at most max, and the default between them",
    );
    out.check(
        pool.revocable_limit.gpus == u64::MAX,
        format!("{path}.revocable_limit.{}", unit(Kind::Gpus)),
        "must be left out: no host lends GPUs",
    );
    for kind in Kind::ALL {
        let (reserved, limit) = (pool.reservation.get(kind), pool.limit.get(kind));
        let field = |of: &str| format!("{path}.{of}.{}", unit(kind));
        out.check(
            reserved <= limit,
            field("reservation"),
            format!(
                "{} is more than the pool's limit of {}",
                kind.show(reserved),
                kind.show(limit)
            ),
        );
        for (of, quantity) in [("reservation", reserved), ("share", pool.share.get(kind))] {
            out.check(
                quantity <= MOST,
                field(of),
                format!("must be at most {}", kind.show(MOST)),
            );
        }
        for (of, quantity) in [
            ("limit", limit),
            ("max_instance", pool.max_instance.get(kind)),
            ("controller_limit", pool.controller_limit.get(kind)),
            ("revocable_limit", pool.revocable_limit.get(kind)),
        ] {
            out.check(
                quantity <= MOST || quantity == u64::MAX,
                field(of),
                format!("must be at most {}; leave it out for no bound", kind.show(MOST)),
            );
        }
    }
}

fn reserved<'a>(pools: impl Iterator<Item = &'a Pool>) -> Resources {
    pools.fold(Resources::ZERO, |sum, p| sum.plus(p.reservation))
}

fn reservations(pool: &Pool, tree: &PoolTree, out: &mut Violations) {
    let below = reserved(tree.children(&pool.path));
    if let Some(kind) = below.first_lack(pool.reservation) {
        out.check(
            false,
            format!("pool.reservation.{}", unit(kind)),
            format!(
                "pools below `{}` have {} reserved; lower theirs first",
                pool.path,
                kind.show(below.get(kind))
            ),
        );
    }
    let parent = PoolTree::parent(&pool.path);
    // The root has no reservation: the clusters' capacity bounds its children.
    let Some(above) = tree.pools.get(parent) else {
        return;
    };
    let siblings = reserved(tree.children(parent).filter(|p| p.path != pool.path));
    let all = siblings.plus(pool.reservation);
    if let Some(kind) = all.first_lack(above.reservation) {
        let left = above.reservation.minus(siblings).get(kind);
        out.check(
            false,
            format!("pool.reservation.{}", unit(kind)),
            format!(
                "`{parent}` has only {} left to reserve; raise its reservation first",
                kind.show(left)
            ),
        );
    }
}
