//! A pool tree in the order in which entitlement walks it: every pool after its parent, the children of one side by side in order
//! of id. Made once for each version of the tree, so that a cycle looks up no paths.

use echelon_core_model::pool::{Pool, PoolKind, PoolTree, PreemptWithin};
use echelon_core_model::{PoolId, Resources};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

/// Index of a pool in its hierarchy. The root is 0.
pub type PoolIdx = usize;

/// Index of the root.
pub const ROOT: PoolIdx = 0;

/// A tree of pools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    nodes: Vec<Node>,
    index: Arc<PoolPlaces>,
}

/// Where the pool of each path and of each id is. Two trees with the same pools at the same paths share it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct PoolPlaces {
    /// In order of the digest of the path. A job's pool is looked up very often, and a search over paths reads
    /// a path for each step.
    by_path: Vec<(u64, PoolIdx)>,
    by_id: BTreeMap<PoolId, PoolIdx>,
}

fn digest(path: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    /// `None` for the root, which has no limit and reserves nothing.
    pool: Option<Arc<Pool>>,
    /// Those of the pool. A cycle reads them of every pool, side by side.
    bounds: PoolBounds,
    parent: PoolIdx,
    children: Range<PoolIdx>,
}

/// What bounds the work of a pool, whatever it is entitled to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolBounds {
    pub(crate) limit: Resources,
    pub(crate) reservation: Resources,
    pub(crate) controller_limit: Resources,
    pub(crate) revocable_limit: Resources,
    pub(crate) max_instances: u64,
    pub(crate) max_jobs: u64,
    /// It keeps its reservation, whether anything in it asks for that or not.
    is_static: bool,
}

impl PoolBounds {
    /// Those of the root.
    const NONE: Self = Self {
        limit: Resources::MAX,
        reservation: Resources::MAX,
        controller_limit: Resources::MAX,
        revocable_limit: Resources::MAX,
        max_instances: u64::MAX,
        max_jobs: u64::MAX,
        is_static: false,
    };

    fn of(pool: &Pool) -> Self {
        Self {
            limit: pool.limit,
            reservation: pool.reservation,
            controller_limit: pool.controller_limit,
            revocable_limit: pool.revocable_limit,
            max_instances: pool.max_instances,
            max_jobs: pool.max_jobs,
            is_static: pool.kind == PoolKind::Static,
        }
    }
}

/// The root alone.
impl Default for Hierarchy {
    fn default() -> Self {
        Self::new(&PoolTree::default())
    }
}

impl Hierarchy {
    /// The hierarchy of a tree. A pool whose parent is missing is left out. `O(n log n)`.
    #[must_use]
    pub fn new(tree: &PoolTree) -> Self {
        let mut below: BTreeMap<&str, Vec<&Pool>> = BTreeMap::new();
        for pool in tree.pools.values() {
            below.entry(PoolTree::parent(&pool.path)).or_default().push(pool);
        }
        let mut index = PoolPlaces::default();
        let mut nodes = vec![Node {
            pool: None,
            bounds: PoolBounds::NONE,
            parent: ROOT,
            children: 0..0,
        }];
        let mut at = 0;
        while let Some(node) = nodes.get(at) {
            let path = node.pool.as_ref().map_or("/", |p| p.path.as_str());
            let mut children = below.remove(path).unwrap_or_default();
            children.sort_by(|a, b| a.id.cmp(&b.id));
            let first = nodes.len();
            for pool in children {
                index.by_path.push((digest(&pool.path), nodes.len()));
                index.by_id.insert(pool.id.clone(), nodes.len());
                nodes.push(Node {
                    pool: Some(Arc::new(pool.clone())),
                    bounds: PoolBounds::of(pool),
                    parent: at,
                    children: 0..0,
                });
            }
            let last = nodes.len();
            if let Some(node) = nodes.get_mut(at) {
                node.children = first..last;
            }
            at += 1;
        }
        index.by_path.sort_unstable();
        Self {
            nodes,
            index: Arc::new(index),
        }
    }

    /// The same hierarchy with other values of some pools. Their ids and paths are those of before. A pool
    /// that is not in it is left out. `O(n)`, without an allocation for any pool that stays.
    #[must_use]
    pub fn with_values<'a>(&self, pools: impl IntoIterator<Item = &'a Pool>) -> Self {
        let mut out = self.clone();
        for pool in pools {
            let node = self.find(&pool.path).and_then(|i| out.nodes.get_mut(i));
            let is_known = |node: &&mut Node| node.pool.as_ref().is_some_and(|known| known.id == pool.id);
            if let Some(node) = node.filter(is_known) {
                node.pool = Some(Arc::new(pool.clone()));
                node.bounds = PoolBounds::of(pool);
            }
        }
        out
    }

    /// Whether another has the same pools at the same paths, as far as that is certain: it was made of this
    /// one by `with_values`, or the other way round.
    #[must_use]
    pub fn has_places_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.index, &other.index)
    }

    /// How many nodes there are, with the root.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no pool at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.by_path.is_empty()
    }

    /// The index of a path.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<PoolIdx> {
        let (digest, by_path) = (digest(path), &self.index.by_path);
        let first = by_path.partition_point(|(other, _)| *other < digest);
        let same = by_path
            .iter()
            .skip(first)
            .take_while(|(other, _)| *other == digest);
        let mut same = same.map(|(_, i)| *i);
        same.find(|i| self.pool(*i).is_some_and(|pool| pool.path == path))
    }

    /// Where the pool of an id is.
    #[must_use]
    pub fn path_of(&self, id: &PoolId) -> Option<&str> {
        let pool = self.pool(*self.index.by_id.get(id)?)?;
        Some(pool.path.as_str())
    }

    /// The pool of a path, if it takes jobs.
    #[must_use]
    pub fn leaf(&self, path: &str) -> Option<&Pool> {
        self.pool(self.find(path).filter(|i| self.is_leaf(*i))?)
    }

    /// The pool of an index; `None` for the root.
    #[must_use]
    pub fn pool(&self, at: PoolIdx) -> Option<&Pool> {
        self.nodes.get(at)?.pool.as_deref()
    }

    /// The bounds of a pool.
    pub(crate) fn bounds(&self, at: PoolIdx) -> &PoolBounds {
        self.nodes.get(at).map_or(&PoolBounds::NONE, |node| &node.bounds)
    }

    /// What a pool is entitled to whether anything in it asks for that or not.
    #[must_use]
    pub fn kept(&self, at: PoolIdx) -> Resources {
        let bounds = self.bounds(at);
        if bounds.is_static {
            bounds.reservation
        } else {
            Resources::ZERO
        }
    }

    /// Whether a pool, or one above it, bounds the number of its jobs.
    #[must_use]
    pub fn bounds_jobs(&self, at: PoolIdx) -> bool {
        let chain = std::iter::once(at).chain(self.above(at));
        chain.filter_map(|i| self.pool(i)).any(|p| p.max_jobs < u64::MAX)
    }

    /// Whether preemptible work of a pool may be preempted for work of the same pool with higher priority. The
    /// nearest pool that says so decides; otherwise an upper bound of priority does.
    #[must_use]
    pub fn preempts_within(&self, at: PoolIdx) -> bool {
        let chain = || {
            std::iter::once(at)
                .chain(self.above(at))
                .filter_map(|i| self.pool(i))
        };
        let mut said = chain().map(|p| p.preempt_within);
        match said.find(|within| *within != PreemptWithin::Auto) {
            Some(within) => within == PreemptWithin::LowerPriority,
            None => chain().any(|p| p.priority.max < u32::MAX),
        }
    }

    /// The children of a node, in order of id.
    #[must_use]
    pub fn children(&self, at: PoolIdx) -> Range<PoolIdx> {
        self.nodes.get(at).map_or(0..0, |n| n.children.clone())
    }

    /// Whether a pool takes jobs: it has no children.
    #[must_use]
    pub fn is_leaf(&self, at: PoolIdx) -> bool {
        at != ROOT && self.children(at).is_empty()
    }

    /// The nodes above one, innermost first, the root last.
    pub fn above(&self, at: PoolIdx) -> impl Iterator<Item = PoolIdx> {
        let parent = |i: &PoolIdx| (*i != ROOT).then(|| self.nodes.get(*i).map_or(ROOT, |n| n.parent));
        std::iter::successors(parent(&at), parent)
    }

    /// All nodes, each before its children.
    pub fn indexes(&self) -> Range<PoolIdx> {
        0..self.nodes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entitle::tests::{pool, tree};

    #[test]
    fn the_nearest_pool_or_an_upper_bound_of_priority_lets_work_preempt_within_a_pool() {
        use PreemptWithin::{Auto, LowerPriority, Never};
        let of = |above: (PreemptWithin, u32), own: (PreemptWithin, u32)| {
            let with = |path: &str, (within, max): (PreemptWithin, u32)| {
                let mut pool = pool(path, 0, 9, 1);
                pool.preempt_within = within;
                pool.priority.max = max;
                pool
            };
            let h = Hierarchy::new(&tree([with("/a", above), with("/a/x", own)]));
            h.preempts_within(h.find("/a/x").unwrap())
        };
        const ANY: u32 = u32::MAX;
        for (above, own, expected) in [
            ((Auto, ANY), (Auto, ANY), false),
            ((Auto, ANY), (Auto, 9), true),
            ((Auto, 9), (Auto, ANY), true),
            ((Auto, 9), (Never, 9), false),
            ((Never, 9), (Auto, 9), false),
            ((Never, ANY), (LowerPriority, ANY), true),
            ((LowerPriority, ANY), (Auto, ANY), true),
        ] {
            assert_eq!(of(above, own), expected, "{above:?} {own:?}");
        }
    }

    #[test]
    fn every_pool_comes_after_its_parent_and_beside_its_siblings() {
        let of = |paths: &[&str]| Hierarchy::new(&tree(paths.iter().map(|p| pool(p, 0, 9, 1))));
        let h = of(&["/b", "/a", "/a/y", "/a/x", "/b/z", "/a/x/q", "/lost/child"]);
        let path = |i: PoolIdx| h.pool(i).map_or("/", |p| p.path.as_str());
        let all: Vec<&str> = h.indexes().map(path).collect();
        assert_eq!(all, ["/", "/a", "/b", "/a/x", "/a/y", "/b/z", "/a/x/q"]);
        assert_eq!(h.find("/lost/child"), None);
        let deep = h.find("/a/x/q").unwrap();
        assert_eq!(h.above(deep).map(path).collect::<Vec<_>>(), ["/a/x", "/a", "/"]);
        assert_eq!(h.above(ROOT).count(), 0);
        assert!(h.is_leaf(deep) && !h.is_leaf(h.find("/a").unwrap()) && !h.is_leaf(ROOT));
        let other = pool("/a/y", 3, 8, 7);
        let changed = h.with_values([&other, &pool("/new", 0, 9, 1)]);
        let tree = tree(
            ["/b", "/a", "/a/x", "/b/z", "/a/x/q"]
                .map(|p| pool(p, 0, 9, 1))
                .into_iter()
                .chain([other]),
        );
        assert_eq!(changed, Hierarchy::new(&tree));
        assert!(of(&[]).is_empty());
        assert_eq!(Hierarchy::default(), of(&[]));
        assert_eq!(Hierarchy::default().len(), 1, "the root");
    }
}
