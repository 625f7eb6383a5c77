//! Whole trees of pools, applied.

#[path = "apply_leaving_tests.rs"]
mod leaving;

use super::*;
use crate::change::Change;
use crate::create::{CreateJob, create_job};
use crate::error::{Code, ErrorReason};
use crate::jobs::{get_job, list_jobs};
use crate::page::PageRequest;
use crate::pools::delete_pool;
use crate::resource::JobRef;
use crate::testing::{Memory, NOW, Running, run};
use crate::update::{scale_job, update_job};
use echelon_core_model::job::JobFilter;
use echelon_core_model::job_defaults::NamedFields;
use echelon_core_model::pool::PoolKind;
use echelon_core_model::spec::JobSpec;
use echelon_core_testkit::build::JobBuilder;

const fn cores(n: u64) -> Resources {
    Resources {
        cpus: n * 1000,
        ..Resources::ZERO
    }
}

fn pool(path: &str, reserved: u64) -> WantedPool {
    let pool = Pool {
        reservation: cores(reserved),
        ..Pool::new(PoolId::new(""), path)
    };
    WantedPool {
        pool,
        moved_from: String::new(),
    }
}

fn moved(path: &str, from: &str) -> WantedPool {
    WantedPool {
        moved_from: from.to_owned(),
        ..pool(path, 0)
    }
}

fn tree(pools: impl IntoIterator<Item = WantedPool>) -> WantedTree {
    WantedTree {
        pools: pools.into_iter().collect(),
        ..WantedTree::default()
    }
}

fn apply(store: &mut Memory, wanted: WantedTree) -> Result<AppliedTree, ApiError> {
    let chance = 1000 * u128::from(store.pools.version.0);
    run(store, move |facts| async move {
        apply_pools(&facts, &wanted, chance).await
    })
}

fn ids(store: &Memory) -> Vec<(String, String)> {
    let all = store.pools.pools.values();
    all.map(|p| (p.path.clone(), p.id.to_string())).collect()
}

fn id(store: &Memory, path: &str) -> String {
    store.pools.pools[path].id.to_string()
}

fn job(store: &mut Memory, pool: &'static str) {
    let spec = JobBuilder::batch("hello", 1).pool(pool).build();
    let request = CreateJob {
        hash: 1,
        bytes: 100,
        named: NamedFields::default(),
        violations: vec![],
        request_id: "r".into(),
        origin: None,
        spec,
    };
    run(store, move |facts| async move {
        create_job(&facts, request, 7, NOW).await
    })
    .unwrap();
}

fn told(done: &AppliedTree) -> Vec<String> {
    let path = |p: &Option<Pool>| p.as_ref().map_or("-".to_owned(), |p| p.path.clone());
    let all = done.differences.iter();
    all.map(|d| format!("{} {}", path(&d.before), path(&d.after)))
        .collect()
}

#[test]
fn the_whole_tree_is_replaced_at_once_and_again_changes_nothing() {
    let mut store = Memory::new();
    store.add_pool("/old");
    let default = id(&store, "/default");
    let wanted = || tree([pool("/ml", 6), pool("/ml/train", 2), pool("/default", 0)]);
    let done = apply(&mut store, wanted()).unwrap();
    assert_eq!(told(&done), ["- /ml", "- /ml/train", "/old -"]);
    assert_eq!(done.after, store.pools);
    assert_eq!(store.pools.version, Version(2));
    assert_eq!(id(&store, "/default"), default);
    assert_eq!(store.pools.pools.len(), 3);

    let again = apply(&mut store, wanted()).unwrap();
    assert_eq!((told(&again), store.pools.version), (vec![], Version(2)));

    let mut other = wanted();
    other.pools[1].pool.kind = PoolKind::Static;
    let done = apply(&mut store, other).unwrap();
    assert_eq!(told(&done), ["/ml/train /ml/train"]);
    assert_eq!(store.pools.pools["/ml/train"].version, Version(2));
    assert_eq!(store.pools.pools["/ml"].version, Version(1));
}

#[test]
fn a_plan_stores_nothing() {
    let mut store = Memory::new();
    let before = store.pools.clone();
    let planned = run(&mut store, |facts| async move {
        plan_pools(&facts, &tree([pool("/a", 0)]), 1).await
    });
    assert_eq!(told(&planned.unwrap()), ["- /a", "/default -"]);
    assert_eq!(store.pools, before);
}

#[test]
fn what_moves_keeps_its_id_and_takes_along_what_is_below() {
    let mut store = Memory::new();
    let first = [
        pool("/a", 0),
        pool("/a/x", 0),
        pool("/a/x/deep", 0),
        pool("/b", 0),
    ];
    apply(&mut store, tree(first)).unwrap();
    let before = store.clone();
    let wanted = || {
        tree([
            moved("/b", ""),
            moved("/b/c", "/a"),
            pool("/b/c/x", 0),
            pool("/b/c/x/deep", 0),
        ])
    };
    let done = apply(&mut store, wanted()).unwrap();
    assert_eq!(told(&done), ["/a /b/c", "/a/x /b/c/x", "/a/x/deep /b/c/x/deep"]);
    for (from, to) in [
        ("/a", "/b/c"),
        ("/a/x", "/b/c/x"),
        ("/a/x/deep", "/b/c/x/deep"),
        ("/b", "/b"),
    ] {
        assert_eq!(id(&before, from), id(&store, to), "{to}");
    }
    // Applied again, the file says where they were and means nothing by it.
    assert_eq!(told(&apply(&mut store, wanted()).unwrap()), Vec::<String>::new());
}

#[test]
fn a_pool_may_come_where_another_has_left() {
    let mut store = Memory::new();
    apply(&mut store, tree([pool("/a", 0)])).unwrap();
    let a = id(&store, "/a");
    let wanted = || tree([pool("/a", 0), moved("/b", "/a")]);
    apply(&mut store, wanted()).unwrap();
    assert_eq!(id(&store, "/b"), a);
    assert_ne!(id(&store, "/a"), a);
    let both = ids(&store);
    apply(&mut store, wanted()).unwrap();
    assert_eq!(ids(&store), both);
}

#[test]
fn a_file_that_was_never_applied_makes_what_it_says_moved() {
    let mut store = Memory::new();
    let done = apply(&mut store, tree([moved("/b", "/a"), pool("/default", 0)])).unwrap();
    assert_eq!(told(&done), ["- /b"]);
}

#[test]
fn wrong_trees_name_each_field() {
    let mut store = Memory::new();
    apply(&mut store, tree([pool("/a", 0), pool("/b", 0)])).unwrap();
    let before = store.pools.clone();
    let mut tight = pool("/t", 4);
    tight.pool.limit = cores(3);
    for (pools, field) in [
        (vec![pool("/A", 0)], "pools[0].pool.path"),
        (vec![pool("/x", 0), pool("/x", 0)], "pools[1].pool.path"),
        (vec![pool("/x/y", 0)], "pools[0].pool.path"),
        (vec![tight], "pools[0].pool.reservation.cpus_milli"),
        (
            vec![pool("/x", 3), pool("/x/y", 2), pool("/x/z", 2)],
            "pools[0].pool.reservation.cpus_milli",
        ),
        (vec![moved("/x", "a")], "pools[0].moved_from"),
        (vec![moved("/x", "/a"), moved("/y", "/a")], "pools[1].moved_from"),
        // `/b` is there, and `/a`, whose ids would be one.
        (vec![moved("/b", "/a")], "pools[0].moved_from"),
    ] {
        let wrong = apply(&mut store, tree(pools)).unwrap_err();
        let fields: Vec<&str> = wrong.violations.iter().map(|v| v.field.as_str()).collect();
        assert!(fields.contains(&field), "{field}: {fields:?}");
        assert_eq!(store.pools, before);
    }
}

/// The sentences are those of `core/pools`, at the field of the request's pool; those about the tree are at
/// the list.
#[test]
fn wrong_trees_are_reported_in_the_sentences_of_the_rules() {
    let mut store = Memory::new();
    let told = |store: &mut Memory, pools: Vec<WantedPool>| -> Vec<(String, String)> {
        let wrong = apply(store, tree(pools)).unwrap_err();
        let all = wrong.violations.into_iter();
        all.map(|v| (v.field, v.problem)).collect()
    };
    let one = |field: &str, problem: &str| vec![(field.to_owned(), problem.to_owned())];
    assert_eq!(
        told(&mut store, vec![pool("/x/y", 0)]),
        one(
            "pools[0].pool.path",
            "there is no pool `/x` to put `/x/y` under; create that one first"
        )
    );
    assert_eq!(
        told(&mut store, vec![pool("/x/y", 2), pool("/x", 1)]),
        one(
            "pools[1].pool.reservation.cpus_milli",
            "the pools below `/x` reserve cpus 2 together, above its own reservation of 1"
        )
    );
    let wrong = (0..10).map(|n| pool(&format!("/x/p{n}"), 0)).collect();
    let of_ten = told(&mut store, wrong);
    assert_eq!(of_ten.len(), 9);
    assert_eq!(
        of_ten
            .last()
            .map(|(field, problem)| (field.as_str(), problem.as_str())),
        Some(("pools", "2 more problems are not shown"))
    );
    let many = (0..=10_000).map(|n| pool(&format!("/p{n}"), 0)).collect();
    assert_eq!(
        told(&mut store, many),
        one("pools", "the tree has 10001 pools; at most 10000 are allowed")
    );
}

#[test]
fn pools_with_jobs_take_none_below_wherever_they_go() {
    for (wanted, told) in [
        (
            tree([pool("/default", 0), moved("/b", "/a")]),
            "keep it in the tree",
        ),
        (
            tree([
                pool("/default", 0),
                moved("/b", "/a"),
                pool("/b/x", 0),
                pool("/b/x/y", 0),
            ]),
            "cannot have pools below it",
        ),
        (
            tree([
                pool("/default", 0),
                pool("/a", 0),
                pool("/a/x", 0),
                pool("/a/x/y", 0),
            ]),
            "cannot have pools below it",
        ),
    ] {
        let mut store = Memory::new();
        apply(
            &mut store,
            tree([pool("/a", 0), pool("/a/x", 0), pool("/default", 0)]),
        )
        .unwrap();
        job(&mut store, "/a/x");
        let before = store.pools.clone();
        let refused = apply(&mut store, wanted).unwrap_err();
        assert_eq!(
            (refused.code(), refused.reason),
            (Code::FailedPrecondition, ErrorReason::PoolInUse)
        );
        assert!(refused.to_string().contains(told), "{refused}");
        assert_eq!(store.pools, before);
    }
}

#[test]
fn an_old_etag_is_refused() {
    let mut store = Memory::new();
    let mut wanted = tree([pool("/a", 0)]);
    wanted.etag = "7".into();
    let refused = apply(&mut store, wanted).unwrap_err();
    assert_eq!(refused.code(), Code::Aborted);
}

/// Two trees applied at once: whatever the order of their steps, one of them stands whole in the end.
#[test]
fn of_two_at_once_the_later_stands_whole() {
    for first_steps in 0..6 {
        let mut store = Memory::new();
        let start = |wanted: WantedTree| {
            Running::start(move |facts| async move { apply_pools(&facts, &wanted, 1000).await })
        };
        let mut one = start(tree([pool("/a", 0), pool("/a/x", 0)]));
        let mut two = start(tree([pool("/b", 0), pool("/b/x", 0)]));
        for _ in 0..first_steps {
            if !one.is_done() {
                one.step(&mut store, false);
            }
        }
        while !two.is_done() {
            two.step(&mut store, false);
        }
        while !one.is_done() {
            one.step(&mut store, false);
        }
        let (one, two) = (one.answer().unwrap().unwrap(), two.answer().unwrap().unwrap());
        let last = if one.after.version > two.after.version {
            &one
        } else {
            &two
        };
        assert_eq!(store.pools, last.after);
        assert_ne!(one.after.version, two.after.version);
    }
}
