//! The proof of what pools may use in the end, after the second round: it keeps limits and what there is, and nobody has less than what
//! he could use of round 0. Checked in a walk over the pools, by paths, with nothing of the algorithm.

use super::Unfair;
use echelon_core_model::pool::PoolTree;
use echelon_core_model::resources::{Kind, Resources};
use std::collections::BTreeMap;

/// What the second round made of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecondLine {
    /// The pool; the root is `/`.
    pub path: String,
    /// What round 0 gave it.
    pub first: Resources,
    /// What of this it, or those below it, can use: it keeps that.
    pub usable: Resources,
    /// What it may use in the end.
    pub amount: Resources,
}

/// Checks that what pools may use in the end is within limits and within `capacity`, at every level, and at least what each could use
/// of round 0. `O(pools)` look-ups.
#[must_use]
pub fn check_second(tree: &PoolTree, capacity: Resources, lines: &[SecondLine]) -> Vec<Unfair> {
    let by_path: BTreeMap<&str, &SecondLine> = lines.iter().map(|l| (l.path.as_str(), l)).collect();
    let mut found = Vec::new();
    let mut below: BTreeMap<&str, (Resources, Resources)> = BTreeMap::new();
    for (path, pool) in &tree.pools {
        let Some(line) = by_path.get(path.as_str()) else {
            found.push(Unfair::Missing(path.clone()));
            continue;
        };
        let sums = below.entry(PoolTree::parent(path)).or_default();
        *sums = (sums.0.plus(line.amount), sums.1.plus(line.usable));
        found.extend(above(line.amount, pool.limit).map(|kind| Unfair::Limit(path.clone(), kind)));
    }
    let unknown = by_path
        .keys()
        .filter(|p| **p != "/" && !tree.pools.contains_key(**p));
    found.extend(unknown.map(|p| Unfair::Missing((*p).to_owned())));
    for line in by_path.values() {
        let path = &line.path;
        let kept = above(line.usable, line.amount).chain(above(line.usable, line.first));
        found.extend(kept.map(|kind| Unfair::Kept(path.clone(), kind)));
        // What an inner pool can use is what those below it can.
        if let Some((amount, usable)) = below.get(path.as_str()) {
            found.extend(above(*amount, line.amount).map(|kind| Unfair::Sum(path.clone(), kind)));
            let other = Kind::ALL
                .into_iter()
                .filter(|k| usable.get(*k) != line.usable.get(*k));
            found.extend(other.map(|kind| Unfair::Kept(path.clone(), kind)));
        }
    }
    if by_path.get("/").map(|l| l.amount) != Some(capacity) {
        found.push(Unfair::Capacity);
    }
    found
}

/// The kinds of which there is more than there may be.
fn above(has: Resources, most: Resources) -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(move |k| has.get(*k) > most.get(*k))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::again::{SecondRound, Usable, give_out_again};
    use crate::entitle::entitle;
    use crate::entitle::tests::{Sample, cpus, sample};
    use crate::hierarchy::Hierarchy;
    use proptest::prelude::*;

    fn lines(s: &Sample, uses: &[(u64, bool)]) -> Vec<SecondLine> {
        let h = Hierarchy::new(&s.tree);
        let first = entitle(&h, &s.demand(&h), cpus(s.capacity));
        let one = |i: usize| {
            let (amount, lacks) = uses.get(i).copied().unwrap_or_default();
            Usable {
                amount: cpus(amount),
                lacks: cpus(u64::from(lacks)),
            }
        };
        let usable: Vec<Usable> = h.indexes().map(one).collect();
        let given = give_out_again(&h, &first, &usable);
        SecondRound::new(&h, &first, &usable, &given).lines(&h)
    }

    fn uses() -> impl Strategy<Value = Vec<(u64, bool)>> {
        proptest::collection::vec((0u64..30, any::<bool>()), 31)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]
        #[test]
        fn what_is_given_out_again_proves_itself(s in sample(), uses in uses()) {
            let found = check_second(&s.tree, cpus(s.capacity), &lines(&s, &uses));
            prop_assert!(found.is_empty(), "{:?}", found);
        }

        /// Who is given less than he could use, or more than his limit or what there is, is found.
        #[test]
        fn nobody_loses_what_he_uses_and_nobody_exceeds_his_bounds(
            s in sample(), uses in uses(), at in any::<prop::sample::Index>()
        ) {
            let true_lines = lines(&s, &uses);
            if true_lines.len() > 1 {
                let i = 1 + at.index(true_lines.len() - 1);
                let told = |amount: Resources| {
                    let mut forged = true_lines.clone();
                    forged[i].amount = amount;
                    check_second(&s.tree, cpus(s.capacity), &forged)
                };
                let line = &true_lines[i];
                if line.usable.cpus > 0 {
                    let less = told(cpus(line.usable.cpus - 1));
                    prop_assert!(less.contains(&Unfair::Kept(line.path.clone(), Kind::Cpus)));
                }
                let limit = s.tree.pools[&line.path].limit.cpus;
                prop_assert!(told(cpus(limit + 1)).contains(&Unfair::Limit(line.path.clone(), Kind::Cpus)));
                let more = told(cpus(s.capacity + 1));
                let parent = PoolTree::parent(&line.path).to_owned();
                prop_assert!(more.contains(&Unfair::Sum(parent, Kind::Cpus)));
            }
        }
    }

    #[test]
    fn every_lie_about_the_second_round_has_its_name() {
        use crate::entitle::tests::{pool, tree};
        let s = Sample {
            tree: tree([pool("/a", 0, 9, 1), pool("/a/x", 0, 9, 1), pool("/b", 0, 9, 1)]),
            demand: vec![("/a/x".to_owned(), 9), ("/b".to_owned(), 9)],
            capacity: 10,
        };
        // `/b` can use 2 of its 5, and `/a/x` wants more.
        let h = Hierarchy::new(&s.tree);
        let mut uses = vec![(0, false); h.len()];
        uses[h.find("/a/x").unwrap()] = (5, true);
        uses[h.find("/b").unwrap()] = (2, false);
        let all = lines(&s, &uses);
        let amounts: Vec<(&str, u64)> = all.iter().map(|l| (l.path.as_str(), l.amount.cpus)).collect();
        assert_eq!(amounts, [("/", 10), ("/a", 8), ("/b", 2), ("/a/x", 8)]);
        let told = |change: &dyn Fn(&mut Vec<SecondLine>)| {
            let mut forged = all.clone();
            change(&mut forged);
            check_second(&s.tree, cpus(10), &forged)
        };
        let of = |path: &str| (path.to_owned(), Kind::Cpus);
        let kept = |path| Unfair::Kept(of(path).0, of(path).1);
        assert_eq!(told(&|_| {}), []);
        assert_eq!(told(&|l| l[0].amount.cpus = 11), [Unfair::Capacity]);
        assert_eq!(told(&|l| drop(l.remove(0))), [Unfair::Capacity]);
        assert!(told(&|l| drop(l.remove(2))).contains(&Unfair::Missing("/b".to_owned())));
        assert!(told(&|l| l[2].amount.cpus = 1).contains(&kept("/b")));
        assert!(told(&|l| l[1].usable.cpus = 1).contains(&kept("/a")));
        assert!(told(&|l| l[1].first.cpus = 1).contains(&kept("/a")));
        assert!(told(&|l| l[2].amount.cpus = 3).contains(&Unfair::Sum("/".to_owned(), Kind::Cpus)));
        assert!(told(&|l| l[2].path = "/c".to_owned()).contains(&Unfair::Missing("/c".to_owned())));
    }
}
