//! Where the pools of a wanted tree are now: each is found by its path, or by where it says that it came
//! from, so that ids outlive renames. A pool that moves takes those below it along.

use crate::tree::TreeProblem;
use echelon_core_model::pool::{PoolTree, is_pool_path};
use std::collections::{BTreeMap, BTreeSet};

/// A pool of a wanted tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolOrigin<'a> {
    /// Its path.
    pub path: &'a str,
    /// Where it was before, with all pools below it, if it moved; empty: where it is. Of no effect once it
    /// has moved.
    pub moved_from: &'a str,
}

/// The present path of each wanted pool that exists, by its wanted path, and what is wrong with what they say
/// that they came from. `O(n log n)`.
#[must_use]
pub fn origins(wanted: &[PoolOrigin<'_>], before: &PoolTree) -> (BTreeMap<String, String>, Vec<TreeProblem>) {
    let mut problems = Vec::new();
    let mut by_path = wanted.to_vec();
    by_path.sort();
    let wanted_paths: BTreeSet<&str> = wanted.iter().map(|w| w.path).collect();
    let exists = |path: &str| before.pools.contains_key(path);
    let mut moved: BTreeMap<&str, String> = BTreeMap::new();
    let mut taken: BTreeMap<String, &str> = BTreeMap::new();
    for PoolOrigin { path, moved_from } in by_path {
        if !moved_from.is_empty() && !is_pool_path(moved_from) {
            let (path, from) = (path.to_owned(), moved_from.to_owned());
            problems.push(TreeProblem::BadOrigin { path, from });
            continue;
        }
        let name = path.rsplit('/').next().unwrap_or_default();
        let with_parent = moved
            .get(PoolTree::parent(path))
            .map(|old| format!("{old}/{name}"));
        let from = match moved_from {
            "" => with_parent,
            own => Some(own.to_owned()),
        };
        let Some(from) = from.filter(|from| from != path) else {
            continue;
        };
        if exists(path) {
            // It has moved already, unless what it came from is to vanish beside it.
            if !moved_from.is_empty() && exists(&from) && !wanted_paths.contains(from.as_str()) {
                let path = path.to_owned();
                problems.push(TreeProblem::BothExist { path, from });
            }
        } else if exists(&from) {
            if let Some(other) = taken.insert(from.clone(), path) {
                problems.push(TreeProblem::MovedTwice {
                    path: path.to_owned(),
                    from: from.clone(),
                    other: other.to_owned(),
                });
            }
            moved.insert(path, from);
        }
    }
    let stays = |path: &&str| exists(path) && !taken.contains_key(*path);
    let staying = wanted_paths.into_iter().filter(stays);
    let mut origins: BTreeMap<String, String> =
        staying.map(|path| (path.to_owned(), path.to_owned())).collect();
    origins.extend(moved.into_iter().map(|(path, from)| (path.to_owned(), from)));
    (origins, problems)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entitle::tests::{pool, tree};

    fn found(before: &[&str], wanted: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
        let before = tree(before.iter().map(|path| pool(path, 0, 1, 1)));
        let wanted = wanted
            .iter()
            .map(|(path, moved_from)| PoolOrigin { path, moved_from });
        let (origins, problems) = origins(&wanted.collect::<Vec<_>>(), &before);
        let all = origins
            .into_iter()
            .map(|(path, from)| format!("{from} -> {path}"));
        (all.collect(), problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn pools_stay_move_with_what_is_above_them_or_are_new() {
        let before = ["/a", "/a/x", "/b"];
        let none = Vec::<String>::new();
        for (wanted, expected) in [
            (vec![("/a", ""), ("/new", "")], vec!["/a -> /a"]),
            (
                vec![("/b", ""), ("/b/c", "/a"), ("/b/c/x", ""), ("/b/c/y", "")],
                vec!["/b -> /b", "/a -> /b/c", "/a/x -> /b/c/x"],
            ),
            // It has moved already, or was never there.
            (vec![("/b", "/old"), ("/a", "")], vec!["/a -> /a", "/b -> /b"]),
            (vec![("/n", "/old")], vec![]),
            // A new pool is where another has left.
            (vec![("/a", ""), ("/n", "/a")], vec!["/a -> /n"]),
        ] {
            let expected = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(found(&before, &wanted), (expected, none.clone()), "{wanted:?}");
        }
    }

    #[test]
    fn an_origin_that_cannot_be_is_reported() {
        let before = ["/a", "/b"];
        for (wanted, text) in [
            (
                vec![("/x", "a")],
                "pool `/x` moved from `a`, which is not the path of a pool",
            ),
            (vec![("/b", "/a")], "`/a` cannot become `/b`: both exist"),
            (
                vec![("/x", "/a"), ("/y", "/a")],
                "`/a` cannot become `/y`: it becomes `/x`",
            ),
        ] {
            assert_eq!(found(&before, &wanted).1, [text]);
        }
    }
}
