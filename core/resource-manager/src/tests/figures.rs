//! What pools are told to be entitled to is what the cycle goes by, and proves itself.

use crate::queries::figures::figures;
use crate::tests::case::{Case, batch};
use echelon_core_model::pool::{Pool, PoolKind};
use echelon_core_model::{PoolId, Resources, Span};
use echelon_core_pools::certificate::{SecondLine, check, check_second};
use echelon_core_pools::tree::of_lent_room;
use std::collections::BTreeMap;

const fn cores(n: u64) -> Resources {
    Resources {
        cpus: n * 1000,
        ..Resources::ZERO
    }
}

fn amount(told: &crate::PoolFigures, path: &str) -> u64 {
    let line = told.ordinary.certificate.lines.iter().find(|l| l.path == path);
    line.map_or(u64::MAX, |l| l.amount.cpus / 1000)
}

fn two_pools() -> Case {
    let mut case = Case::new().pool("/x", 100).pool("/y", 100).cluster("a", 10);
    case.store_job(1, batch(20).pool("/x"));
    case.store_job(2, batch(2).pool("/y"));
    case.elect();
    case.run_for(Span::seconds(2));
    case
}

fn proven(told: &crate::PoolFigures) {
    let lent_tree = of_lent_room(&told.tree);
    for (tree, side) in [(&told.tree, &told.ordinary), (&lent_tree, &told.lent)] {
        let there = side.certificate.capacity;
        assert_eq!(check(tree, &side.demand, there, &side.certificate), []);
        if !side.second.is_empty() {
            assert_eq!(check_second(tree, there, &side.second), []);
        }
    }
    assert_eq!(told.ordinary.allocated["/y"].cpus, cores(2).cpus);
}

#[test]
fn figures_are_those_of_the_cycle_and_prove_themselves() {
    let case = two_pools();
    let picture = case.rm.picture();
    let told = figures(picture, None);
    assert_eq!((amount(&told, "/x"), amount(&told, "/y")), (8, 2));
    // As much of the 20 as hosts hold.
    assert_eq!(told.ordinary.demand["/x"].cpus, 10_000);
    assert_eq!(told.tree, *picture.facts.pools);
    proven(&told);
}

#[test]
fn figures_tell_both_rounds_and_what_hosts_lend() {
    let mut case = Case::new().pool("/x", 100).pool("/y", 100).cluster("a", 10);
    case.shard("a").lent_cores = 6;
    case.change_pool("/y", |p| {
        p.kind = PoolKind::Static;
        p.reservation = cores(4);
        p.revocable_limit.cpus = 3_000;
    });
    case.store_job(1, batch(20).pool("/x"));
    case.store_job(2, batch(2).pool("/y"));
    case.store_job(3, batch(4).pool("/y").revocable());
    case.elect();
    case.run_for(Span::minutes(2));
    let told = figures(case.rm.picture(), None);
    proven(&told);
    let of = |lines: &[SecondLine], path: &str| {
        let line = lines.iter().find(|l| l.path == path).unwrap();
        [line.first, line.usable, line.amount].map(|r| r.cpus / 1000)
    };
    // `/x` waits for more than its part: what `/y` keeps is given to nobody.
    assert_eq!(of(&told.ordinary.second, "/x"), [6, 6, 6]);
    assert_eq!(of(&told.ordinary.second, "/y"), [4, 4, 4]);
    let lent = |of: &BTreeMap<String, Resources>| of["/y"].cpus / 1000;
    assert_eq!((lent(&told.lent.demand), lent(&told.lent.allocated)), (4, 3));
    assert_eq!(of(&told.lent.second, "/y"), [3, 3, 3]);
    // Another tree has no second round: who can use what would follow from what ran under it.
    let other = figures(case.rm.picture(), Some(told.tree.clone()));
    assert!(other.ordinary.second.is_empty() && other.lent.second.is_empty());
    assert_eq!(other.lent.certificate, told.lent.certificate);
}

#[test]
fn another_tree_is_judged_by_the_demand_of_now() {
    let case = two_pools();
    let picture = case.rm.picture();
    let mut tree = (*picture.facts.pools).clone();
    let kept = Pool {
        reservation: cores(6),
        kind: PoolKind::Static,
        ..Pool::new(PoolId::new("z"), "/z")
    };
    tree.pools.insert(kept.path.clone(), kept);
    let told = figures(picture, Some(tree));
    assert_eq!(["/x", "/y", "/z"].map(|p| amount(&told, p)), [2, 2, 6]);
    proven(&told);
}
