//! The rules of the pool tree: what a tree must be before it is stored.

use echelon_core_model::pool::{Pool, PoolTree};
use echelon_core_model::resources::{Kind, Resources};
use thiserror::Error;

/// The pools as they stand to the room that hosts lend: nobody has reserved any of it, and their limits are those of it.
#[must_use]
pub fn of_lent_room(pools: &PoolTree) -> PoolTree {
    let mut out = pools.clone();
    for pool in out.pools.values_mut() {
        pool.reservation = Resources::ZERO;
        pool.limit = pool.revocable_limit;
    }
    out
}

/// Why a tree is not a good one. Each names the pool, what it has and what it needs.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TreeProblem {
    /// Its parent is not there.
    #[error("pool {path} has no parent: create {parent} first")]
    NoParent {
        /// The pool.
        path: String,
        /// Its parent's path.
        parent: String,
    },
    /// A path that is not one.
    #[error(
        "`{path}` is not a pool's path: expected `/`, then names of a-z, 0-9, `-` and `_` divided by `/`"
    )]
    BadPath {
        /// The path.
        path: String,
    },
    /// A pool that lies under another path than its own.
    #[error("pool {path} is stored under {key}")]
    Misplaced {
        /// Where it is stored.
        key: String,
        /// Its own path.
        path: String,
    },
    /// Two pools with one id.
    #[error("pools {first} and {second} have the same id")]
    SameId {
        /// The first of them.
        first: String,
        /// The other.
        second: String,
    },
    /// It reserves more than it may use.
    #[error("pool {path} reserves {kind} {}, above its limit of {}", kind.show(*reservation), kind.show(*limit))]
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
        "the pools below {path} reserve {kind} {} together, above its own reservation of {}",
        kind.show(*children),
        kind.show(*reservation)
    )]
    ChildrenReserve {
        /// The parent.
        path: String,
        /// The kind.
        kind: Kind,
        /// What its children reserve.
        children: u64,
        /// What it reserves.
        reservation: u64,
    },
    /// A pool that jobs use has pools below it.
    #[error("pool {path} has jobs, so it takes no pools below it")]
    JobsInside {
        /// The pool.
        path: String,
    },
}

/// What is wrong with a tree; empty when nothing is. `has_jobs` tells whether live jobs name a path.
#[must_use]
pub fn validate(tree: &PoolTree, has_jobs: impl Fn(&str) -> bool) -> Vec<TreeProblem> {
    let mut out = Vec::new();
    for (key, pool) in &tree.pools {
        out.extend(own_problems(tree, key, pool));
        out.extend(children_problems(tree, pool));
        if !tree.is_leaf(&pool.path) && has_jobs(&pool.path) {
            out.push(TreeProblem::JobsInside {
                path: pool.path.clone(),
            });
        }
    }
    let mut by_id: Vec<&Pool> = tree.pools.values().collect();
    by_id.sort_by(|a, b| (&a.id, &a.path).cmp(&(&b.id, &b.path)));
    for pair in by_id.windows(2) {
        if let [a, b] = pair
            && a.id == b.id
        {
            out.push(TreeProblem::SameId {
                first: a.path.clone(),
                second: b.path.clone(),
            });
        }
    }
    out
}

fn own_problems(tree: &PoolTree, key: &str, pool: &Pool) -> Vec<TreeProblem> {
    let mut out = Vec::new();
    let path = pool.path.clone();
    if key != path {
        out.push(TreeProblem::Misplaced {
            key: key.to_owned(),
            path: path.clone(),
        });
    }
    if !is_path(&path) {
        out.push(TreeProblem::BadPath { path: path.clone() });
    }
    let parent = PoolTree::parent(&path);
    if parent != "/" && !tree.pools.contains_key(parent) {
        out.push(TreeProblem::NoParent {
            path: path.clone(),
            parent: parent.to_owned(),
        });
    }
    if let Some(kind) = pool.reservation.first_lack(pool.limit) {
        out.push(TreeProblem::AboveLimit {
            path,
            kind,
            reservation: pool.reservation.get(kind),
            limit: pool.limit.get(kind),
        });
    }
    out
}

fn children_problems(tree: &PoolTree, pool: &Pool) -> Option<TreeProblem> {
    let children = tree
        .children(&pool.path)
        .fold(Resources::ZERO, |sum, c| sum.plus(c.reservation));
    let kind = children.first_lack(pool.reservation)?;
    Some(TreeProblem::ChildrenReserve {
        path: pool.path.clone(),
        kind,
        children: children.get(kind),
        reservation: pool.reservation.get(kind),
    })
}

fn is_path(path: &str) -> bool {
    let good = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-' || c == b'_';
    path.strip_prefix('/').is_some_and(|rest| {
        rest.split('/')
            .all(|name| !name.is_empty() && name.len() <= 63 && name.bytes().all(good))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entitle::tests::{cpus, pool, tree};

    fn said(tree: &PoolTree, jobs: &[&str]) -> Vec<String> {
        validate(tree, |p| jobs.contains(&p))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_good_tree_has_no_problems() {
        let good = tree([
            pool("/a", 8, 10, 1),
            pool("/a/b", 3, 10, 1),
            pool("/a/c", 5, 5, 0),
        ]);
        assert_eq!(said(&good, &["/a/b"]), Vec::<String>::new());
    }

    #[test]
    fn each_broken_rule_is_told_with_its_numbers() {
        let cases = [
            (
                tree([pool("/a/b", 0, 1, 1)]),
                "pool /a/b has no parent: create /a first",
            ),
            (
                tree([pool("/a", 5, 4, 1)]),
                "pool /a reserves cpus 0.005, above its limit of 0.004",
            ),
            (
                tree([pool("/a", 1, 9, 1), pool("/a/b", 1, 9, 1), pool("/a/c", 1, 9, 1)]),
                "the pools below /a reserve cpus 0.002 together, above its own reservation of 0.001",
            ),
            (
                tree([pool("/A", 0, 1, 1)]),
                "`/A` is not a pool's path: expected `/`, then names of a-z, 0-9, `-` and `_` divided by `/`",
            ),
        ];
        for (tree, text) in cases {
            assert_eq!(said(&tree, &[]), [text]);
        }
    }

    #[test]
    fn a_pool_with_jobs_takes_no_children() {
        let t = tree([pool("/a", 0, 9, 1), pool("/a/b", 0, 9, 1)]);
        assert_eq!(
            said(&t, &["/a"]),
            ["pool /a has jobs, so it takes no pools below it"]
        );
    }

    #[test]
    fn ids_are_unique_and_keys_are_paths() {
        let mut t = tree([pool("/a", 0, 9, 1), pool("/b", 0, 9, 1)]);
        let a = t.pools["/a"].clone();
        t.pools.get_mut("/b").unwrap().id = a.id.clone();
        assert_eq!(said(&t, &[]), ["pools /a and /b have the same id"]);
        let mut t = PoolTree::default();
        t.pools.insert("/x".to_owned(), pool("/a", 0, 9, 1));
        assert_eq!(said(&t, &[]), ["pool /a is stored under /x"]);
        assert_eq!(cpus(3).cpus, 3);
    }
}
