//! A proof that entitlements are fair, and its checker, which shares no code with the algorithm: it reads the tree by paths, has an
//! arithmetic of its own and looks at each pool a fixed number of times.
//!
//! What is proven, for each kind by itself and each node: who is entitled to what follows from three thresholds, one for each
//! phase. A unit with an earlier turn than the threshold was given and one with a later turn was not, so no unit could go to a
//! child with an earlier turn instead; and units go to a later phase only when nobody in an earlier one can take any more. That is
//! what giving them out one at a time comes to (see `entitle`).

mod second;

use crate::entitle::Entitlements;
use crate::fill::Level;
use crate::hierarchy::Hierarchy;
use echelon_core_model::pool::{PoolKind, PoolTree};
use echelon_core_model::resources::{Kind, Resources};
use std::collections::BTreeMap;
use std::fmt;

pub use second::{SecondLine, check_second};

/// Up to where units were given out in a phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Threshold {
    /// Nothing was left for this phase.
    Nothing,
    /// The last unit given was the `unit`-th of `pool`, whose weight is `weight`: its turn was `unit / weight`.
    Until {
        /// Which of its units.
        unit: u64,
        /// Its floor, its share, or 1.
        weight: u64,
        /// The id of that pool.
        pool: String,
    },
    /// Everybody has the most that it can take in this phase.
    Full,
}

/// What one pool is entitled to, with its proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The pool; the root is `/`.
    pub path: String,
    /// min(limit, demand).
    pub cap: Resources,
    /// What it may use.
    pub amount: Resources,
    /// Of an inner node: how far its amount went among its children, by kind and phase.
    pub thresholds: Option<[[Threshold; 3]; 4]>,
}

/// The proof of one cycle's round 0: a line for each node, the root first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Certificate {
    /// What was divided.
    pub capacity: Resources,
    /// The nodes, each before its children.
    pub lines: Vec<Line>,
}

/// The proof of `entitle`'s answer. `O(pools)`.
#[must_use]
pub fn certify(hierarchy: &Hierarchy, entitled: &Entitlements) -> Certificate {
    let id = |i: usize| hierarchy.pool(i).map_or("", |p| p.id.as_str()).to_owned();
    let line = |node: usize| {
        let children = hierarchy.children(node);
        let threshold = |level: Level| match level {
            Level::Nothing => Threshold::Nothing,
            Level::Full => Threshold::Full,
            Level::Until(turn, last) => Threshold::Until {
                unit: turn.unit,
                weight: turn.weight,
                pool: id(children.start + last),
            },
        };
        let thresholds = || Kind::ALL.map(|kind| entitled.levels(node, kind).map(threshold));
        Line {
            path: hierarchy.pool(node).map_or("/", |p| p.path.as_str()).to_owned(),
            cap: entitled.cap(node),
            amount: entitled.amount(node),
            thresholds: (!children.is_empty()).then(thresholds),
        }
    };
    Certificate {
        capacity: entitled.amount(crate::hierarchy::ROOT),
        lines: hierarchy.indexes().map(line).collect(),
    }
}

/// What is wrong with a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfair {
    /// A pool of the tree has no line, or a line has no pool.
    Missing(String),
    /// A cap is not min(limit, demand), with at least a static pool's reservation as its demand.
    Cap(String, Kind),
    /// A pool's amount is not what its node's thresholds say.
    Amount(String, Kind),
    /// A phase gave something out before the one before was full.
    Phases(String, Kind),
    /// What a node's children have together is neither all of it nor all that they can take.
    Sum(String, Kind),
    /// A pool may use more in the end than its limit.
    Limit(String, Kind),
    /// A pool has less in the end than what it could use of round 0, or could use more of that than it got.
    Kept(String, Kind),
    /// The root does not have the capacity.
    Capacity,
}

/// Checks that a certificate proves fairness for this tree, demand (of leaf pools, by path) and capacity. `O(pools)` look-ups.
#[must_use]
pub fn check(
    tree: &PoolTree,
    demand: &BTreeMap<String, Resources>,
    capacity: Resources,
    certificate: &Certificate,
) -> Vec<Unfair> {
    let lines: BTreeMap<&str, &Line> = certificate.lines.iter().map(|l| (l.path.as_str(), l)).collect();
    let mut checker = Checker {
        tree,
        below: BTreeMap::new(),
        lines,
        found: Vec::new(),
    };
    for path in tree.pools.keys() {
        checker
            .below
            .entry(PoolTree::parent(path))
            .or_default()
            .push(path);
    }
    checker.lines(demand);
    let root = checker.lines.get("/").map(|l| l.amount);
    if root != Some(capacity) || certificate.capacity != capacity {
        checker.found.push(Unfair::Capacity);
    }
    for line in &certificate.lines {
        for (at, kind) in Kind::ALL.into_iter().enumerate() {
            checker.node(line, kind, at);
        }
    }
    checker.found
}

struct Checker<'a> {
    tree: &'a PoolTree,
    below: BTreeMap<&'a str, Vec<&'a String>>,
    lines: BTreeMap<&'a str, &'a Line>,
    found: Vec<Unfair>,
}

impl<'a> Checker<'a> {
    /// Each pool has a line with the right cap.
    fn lines(&mut self, demand: &BTreeMap<String, Resources>) {
        for path in self.lines.keys().filter(|p| **p != "/") {
            if !self.tree.pools.contains_key(*path) {
                self.found.push(Unfair::Missing((*path).to_owned()));
            }
        }
        for (path, pool) in &self.tree.pools {
            let Some(line) = self.lines.get(path.as_str()) else {
                self.found.push(Unfair::Missing(path.clone()));
                continue;
            };
            for kind in Kind::ALL {
                let wanted = match self.below.get(path.as_str()) {
                    None => demand.get(path).map_or(0, |d| d.get(kind)),
                    Some(children) => {
                        let caps = children.iter().filter_map(|c| self.lines.get(c.as_str()));
                        caps.map(|c| c.cap.get(kind)).fold(0, u64::saturating_add)
                    }
                };
                let kept = match pool.kind {
                    PoolKind::Static => pool.reservation.get(kind),
                    PoolKind::Elastic => 0,
                };
                if line.cap.get(kind) != wanted.max(kept).min(pool.limit.get(kind)) {
                    self.found.push(Unfair::Cap(path.clone(), kind));
                }
            }
        }
    }

    /// A node's children have what its thresholds say, phase after phase.
    fn node(&mut self, line: &'a Line, kind: Kind, at: usize) {
        let Some(children) = self.below.get(line.path.as_str()) else {
            return;
        };
        let Some(thresholds) = line.thresholds.as_ref().and_then(|t| t.get(at)) else {
            self.found.push(Unfair::Missing(line.path.clone()));
            return;
        };
        let (mut sum, mut room, mut idle) = (0u128, 0u128, [true; 3]);
        let mut wrong = Vec::new();
        for path in children {
            let (Some(pool), Some(child)) = (self.tree.pools.get(*path), self.lines.get(path.as_str()))
            else {
                continue;
            };
            let cap = child.cap.get(kind);
            let floor = cap.min(pool.reservation.get(kind));
            let share = pool.share.get(kind);
            let rest = cap - floor;
            let phases = [
                (floor, floor),
                (share, if share > 0 { rest } else { 0 }),
                (1, if share > 0 { 0 } else { rest }),
            ];
            let mut units = 0u128;
            for ((threshold, (weight, most)), idle) in thresholds.iter().zip(phases).zip(&mut idle) {
                let given = given(threshold, weight, most, pool.id.as_str());
                *idle &= given == 0;
                units += u128::from(given);
            }
            if units != u128::from(child.amount.get(kind)) {
                wrong.push(Unfair::Amount((*path).clone(), kind));
            }
            sum += units;
            room += u128::from(cap);
        }
        let late = |phase: usize| !idle.get(phase).copied().unwrap_or(true);
        let full = |phase: usize| thresholds.get(phase) == Some(&Threshold::Full);
        if (late(1) && !full(0)) || (late(2) && !(full(0) && full(1))) {
            wrong.push(Unfair::Phases(line.path.clone(), kind));
        }
        if sum != room.min(u128::from(line.amount.get(kind))) {
            wrong.push(Unfair::Sum(line.path.clone(), kind));
        }
        self.found.extend(wrong);
    }
}

/// How many of its units in a phase a pool has by the threshold: those whose turn is earlier, and on the same turn those of pools
/// with smaller or the same id.
#[must_use]
pub fn given(threshold: &Threshold, weight: u64, most: u64, id: &str) -> u64 {
    match threshold {
        Threshold::Nothing => 0,
        Threshold::Full => most,
        Threshold::Until { .. } if weight == 0 => 0,
        Threshold::Until {
            unit,
            weight: of_last,
            pool,
        } => {
            // k / weight <= unit / of_last, for the largest k.
            let (numerator, denominator) = (
                u128::from(*unit) * u128::from(weight),
                u128::from((*of_last).max(1)),
            );
            let (k, over) = (numerator / denominator, numerator % denominator);
            let k = if over == 0 && id > pool.as_str() {
                k.saturating_sub(1)
            } else {
                k
            };
            u64::try_from(k).unwrap_or(u64::MAX).min(most)
        }
    }
}

impl fmt::Display for Unfair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(path) => write!(f, "{path} has no line, or is no pool"),
            Self::Cap(path, kind) => write!(
                f,
                "the cap of {path} for {kind} is not the smaller of limit and demand"
            ),
            Self::Amount(path, kind) => {
                write!(
                    f,
                    "{path} has another amount of {kind} than the thresholds give it"
                )
            }
            Self::Phases(path, kind) => {
                write!(
                    f,
                    "{path} gave {kind} to a later phase before an earlier one was full"
                )
            }
            Self::Sum(path, kind) => write!(
                f,
                "the pools below {path} have neither all of its {kind} nor all that they can take"
            ),
            Self::Limit(path, kind) => write!(f, "{path} may use more {kind} in the end than its limit"),
            Self::Kept(path, kind) => write!(
                f,
                "{path} does not keep what it can use of the {kind} that it got at first"
            ),
            Self::Capacity => f.write_str("the root does not have the capacity"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entitle::entitle;
    use crate::entitle::tests::{Sample, cpus, sample};
    use proptest::prelude::*;

    fn by_path(s: &Sample) -> BTreeMap<String, Resources> {
        s.demand.iter().map(|(p, n)| (p.clone(), cpus(*n))).collect()
    }

    fn certificate(s: &Sample) -> Certificate {
        let h = Hierarchy::new(&s.tree);
        certify(&h, &entitle(&h, &s.demand(&h), cpus(s.capacity)))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]
        #[test]
        fn what_is_entitled_proves_itself(s in sample()) {
            let found = check(&s.tree, &by_path(&s), cpus(s.capacity), &certificate(&s));
            prop_assert!(found.is_empty(), "{:?}", found);
        }

        /// One unit taken from one sibling and given to another is found, whatever the thresholds say.
        #[test]
        fn no_other_division_proves_itself(s in sample(), at in any::<prop::sample::Index>()) {
            let mut forged = certificate(&s);
            let parent = |l: &Line| PoolTree::parent(&l.path).to_owned();
            let all = || 1..forged.lines.len();
            let siblings = |(i, j): &(usize, usize)| {
                let (a, b) = (&forged.lines[*i], &forged.lines[*j]);
                i != j && a.amount.cpus > 0 && parent(a) == parent(b)
            };
            let pairs: Vec<(usize, usize)> =
                all().flat_map(|i| all().map(move |j| (i, j))).filter(siblings).collect();
            if !pairs.is_empty() {
                let (from, to) = pairs[at.index(pairs.len())];
                forged.lines[from].amount.cpus -= 1;
                forged.lines[to].amount.cpus += 1;
                prop_assert!(!check(&s.tree, &by_path(&s), cpus(s.capacity), &forged).is_empty());
            }
        }
    }

    #[test]
    fn every_lie_has_its_name() {
        use crate::entitle::tests::{pool, tree};
        let s = Sample {
            tree: tree([pool("/a", 2, 9, 1), pool("/b", 0, 9, 1), pool("/c", 0, 9, 0)]),
            demand: vec![("/a".to_owned(), 9), ("/b".to_owned(), 9), ("/c".to_owned(), 9)],
            capacity: 10,
        };
        let told = |change: &dyn Fn(&mut Certificate)| {
            let mut forged = certificate(&s);
            change(&mut forged);
            check(&s.tree, &by_path(&s), cpus(10), &forged)
        };
        let a = || "/a".to_owned();
        assert_eq!(told(&|_| {}), []);
        assert_eq!(told(&|c| c.capacity = cpus(11)), [Unfair::Capacity]);
        assert_eq!(
            told(&|c| c.lines[1].amount.cpus -= 1),
            [Unfair::Amount(a(), Kind::Cpus)]
        );
        assert!(told(&|c| c.lines[1].cap.cpus = 8).contains(&Unfair::Cap(a(), Kind::Cpus)));
        assert!(told(&|c| drop(c.lines.remove(1))).contains(&Unfair::Missing(a())));
        let of_root = |change: &dyn Fn(&mut [Threshold; 3])| {
            told(&|c| change(&mut c.lines[0].thresholds.as_mut().unwrap()[0]))
        };
        let root = || "/".to_owned();
        assert!(of_root(&|t| t[0] = Threshold::Nothing).contains(&Unfair::Phases(root(), Kind::Cpus)));
        assert!(of_root(&|t| t[2] = Threshold::Full).contains(&Unfair::Sum(root(), Kind::Cpus)));
    }
}
