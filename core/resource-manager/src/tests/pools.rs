//! Pools that are to go, and jobs whose pool is gone.

use crate::demand::ledger::Ledger;
use crate::demand::refresh;
use crate::division::{divide, entitled};
use crate::event::Event;
use crate::picture::Picture;
use crate::tests::case::{Case, service};
use echelon_core_model::job::Desired;
use echelon_core_model::pool::{Pool, PoolTree};
use echelon_core_model::store::{Decision, Op};
use echelon_core_model::{JobId, PoolId, ReasonCode, Span};
use echelon_core_pools::Hierarchy;
use echelon_core_pools::tree::of_lent_room;
use std::collections::BTreeSet;

fn change(case: &mut Case, change: impl FnOnce(&mut PoolTree)) {
    let mut tree = case.tree();
    let expected = tree.version;
    tree.version = expected.next();
    change(&mut tree);
    case.store
        .perform(Op::Decide(Decision::PutPools { tree, expected }));
    case.events.push_back(Event::PoolsHint);
    case.settle();
}

fn mark(case: &mut Case, path: &str) {
    change(case, |t| t.pools.get_mut(path).unwrap().deleting = true);
}

fn paths(case: &Case) -> Vec<String> {
    case.tree().pools.into_keys().collect()
}

#[test]
fn a_pool_that_is_to_go_leaves_with_its_last_job_and_not_before() {
    let mut case = Case::with(&[("a", 4)]).pool("/x", 100);
    case.run_for(Span::seconds(10));
    let job = case.job(1, service(2).pool("/x"));
    case.run_for(Span::seconds(5));
    mark(&mut case, "/x");
    case.run_for(Span::minutes(10));
    assert_eq!(paths(&case), ["/default", "/x"]);
    assert_eq!(case.active(job), [("a", 2)], "its job runs on");
    case.scale(job, 3);
    case.run_for(Span::seconds(10));
    assert_eq!(case.active(job), [("a", 3)], "and may change");
    case.want(job, Desired::Stopped);
    case.run_for(Span::seconds(30));
    assert_eq!(paths(&case), ["/default"]);
}

#[test]
fn a_mark_that_is_new_waits_until_every_head_was_read_again() {
    let mut case = Case::with(&[("a", 4)]).pool("/x", 100);
    case.run_for(Span::seconds(10));
    mark(&mut case, "/x");
    // Submitted just before the mark, and nobody told of it.
    let job = case.store_job(1, service(1).pool("/x"));
    case.run_for(Span::minutes(10));
    assert_eq!(paths(&case), ["/default", "/x"]);
    case.want(job, Desired::Deleted);
    case.run_for(Span::minutes(3));
    assert_eq!(paths(&case), ["/default"]);
}

#[test]
fn a_new_leader_finishes_what_the_old_one_saw_and_an_undone_mark_keeps_the_pool() {
    let mut case = Case::with(&[("a", 4)]).pool("/x", 100).pool("/y", 100);
    case.run_for(Span::seconds(10));
    mark(&mut case, "/x");
    mark(&mut case, "/y");
    case.run_for(Span::seconds(100));
    case.fail_over();
    change(&mut case, |t| t.pools.get_mut("/y").unwrap().deleting = false);
    case.run_for(Span::seconds(60));
    assert_eq!(
        paths(&case),
        ["/default", "/x", "/y"],
        "it waits by its own clock"
    );
    case.run_for(Span::minutes(3));
    assert_eq!(paths(&case), ["/default", "/y"]);
}

#[test]
fn an_inner_pool_goes_with_its_last_child() {
    let mut case = Case::with(&[("a", 4)])
        .pool("/x", 100)
        .pool("/x/a", 100)
        .pool("/x/b", 100);
    case.run_for(Span::seconds(10));
    let job = case.job(1, service(1).pool("/x/b"));
    for path in ["/x", "/x/a", "/x/b"] {
        mark(&mut case, path);
    }
    case.run_for(Span::minutes(4));
    assert_eq!(paths(&case), ["/default", "/x", "/x/b"]);
    case.want(job, Desired::Stopped);
    case.run_for(Span::minutes(1));
    assert_eq!(paths(&case), ["/default"]);
}

#[test]
fn a_job_whose_pool_is_gone_keeps_what_runs_and_gets_no_more() {
    let mut case = Case::with(&[("a", 8)]).pool("/x", 100);
    case.run_for(Span::seconds(10));
    let job = case.job(1, service(3).pool("/x"));
    case.run_for(Span::seconds(5));
    assert_eq!(case.active(job), [("a", 3)]);
    change(&mut case, |t| drop(t.pools.remove("/x")));
    case.run_for(Span::minutes(5));
    assert_eq!(case.active(job), [("a", 3)], "what runs stays");
    case.scale(job, 5);
    case.run_for(Span::minutes(5));
    assert_eq!(case.active(job), [("a", 3)], "and nothing more begins");
    assert_eq!(case.waiting(job), [(ReasonCode::PoolNotFound, 2)]);
    let state = case.state(job).unwrap();
    assert!(!state.is_ended(), "{state}");
    // The pool is there again: the job goes on as if nothing had been.
    case.set_pool("/x", 100);
    case.events.push_back(Event::PoolsHint);
    case.run_for(Span::seconds(30));
    assert_eq!(case.active(job), [("a", 5)]);
}

/// Moves a pool without pools below it; another one takes its place.
fn move_and_replace(case: &mut Case, from: &str, to: &str, limit: u64) {
    change(case, |t| {
        let mut pool = t.pools.remove(from).unwrap();
        let mut other = Pool::new(PoolId::new("another"), from);
        other.limit.cpus = limit * 1000;
        t.pools.insert(from.to_owned(), other);
        to.clone_into(&mut pool.path);
        t.pools.insert(to.to_owned(), pool);
    });
    let before = case.limits.insert(from.to_owned(), limit);
    case.limits.extend(before.map(|n| (to.to_owned(), n)));
    case.run_for(Span::seconds(1));
}

#[test]
fn jobs_follow_their_pool_and_the_next_one_at_its_path_has_none_of_them() {
    let mut case = Case::with(&[("a", 10)]).pool("/x", 3).pool("/y", 100);
    case.run_for(Span::seconds(10));
    let runs = case.job(1, service(2).pool("/x"));
    let waits = case.job(2, service(2).pool("/x"));
    case.run_for(Span::seconds(10));
    assert_eq!(
        (case.active(runs), case.active(waits)),
        (vec![("a", 2)], vec![("a", 1)])
    );
    assert_eq!(case.waiting(waits), [(ReasonCode::PoolLimit, 1)]);

    move_and_replace(&mut case, "/x", "/y/x", 1);
    case.run_for(Span::minutes(1));
    // Nothing stops, nobody gets round the limit, and the reason names the pool where it is.
    assert_eq!(
        (case.active(runs), case.active(waits)),
        (vec![("a", 2)], vec![("a", 1)])
    );
    assert_eq!(case.waiting(waits), [(ReasonCode::PoolLimit, 1)]);
    let of = |case: &Case, path: &str| case.held(path).instances;
    assert_eq!((of(&case, "/x"), of(&case, "/y/x")), (0, 3));
    // The new pool at the old path is for those who name it now.
    let other = case.job(3, service(1).pool("/x"));
    assert_eq!(case.active(other), [("a", 1)]);
    assert_eq!((of(&case, "/x"), of(&case, "/y/x")), (1, 3));
    // A change of the spec, and a new leader, find the pool where it is.
    case.scale(runs, 1);
    case.run_for(Span::seconds(10));
    case.fail_over();
    case.run_for(Span::minutes(1));
    assert_eq!(
        (case.active(runs), case.active(waits)),
        (vec![("a", 1)], vec![("a", 2)])
    );
    assert_eq!((of(&case, "/x"), of(&case, "/y/x")), (1, 3));
}

#[test]
fn a_row_without_an_id_is_where_its_path_says() {
    let mut case = Case::with(&[("a", 10)]).pool("/x", 100);
    case.run_for(Span::seconds(10));
    let old = case.store_job(1, service(2).pool("/x"));
    case.change_head(old, |h| h.pool_id = None);
    case.hint(old);
    let new = case.job(2, service(2).pool("/x"));
    move_and_replace(&mut case, "/x", "/z", 100);
    assert_eq!((case.held("/x").instances, case.held("/z").instances), (2, 2));
    assert_eq!(
        (case.active(old), case.active(new)),
        (vec![("a", 2)], vec![("a", 2)])
    );
}

#[test]
fn a_pool_that_moved_goes_with_its_last_job_and_not_before() {
    let mut case = Case::with(&[("a", 4)]).pool("/x", 100);
    case.run_for(Span::seconds(10));
    let job = case.job(1, service(1).pool("/x"));
    move_and_replace(&mut case, "/x", "/z", 1);
    mark(&mut case, "/x");
    mark(&mut case, "/z");
    case.run_for(Span::minutes(5));
    assert_eq!(paths(&case), ["/default", "/z"]);
    case.want(job, Desired::Stopped);
    case.run_for(Span::minutes(1));
    assert_eq!(paths(&case), ["/default"]);
}

/// A tree that differs in one pool: no job of another pool is looked at, and none at all where the pool stays
/// where it is and as it counts its jobs.
#[test]
fn a_change_of_a_pool_concerns_its_own_jobs_alone() {
    let mut case = Case::with(&[("a", 10)]).pool("/x", 100).pool("/y", 100);
    case.run_for(Span::seconds(10));
    let (of_x, of_y) = (
        case.job(1, service(2).pool("/x")),
        case.job(2, service(2).pool("/y")),
    );
    // Its demand follows the reservation of its pool.
    case.job(3, service(9).pool("/x").not_preemptible());
    case.run_for(Span::seconds(10));
    let mut picture = case.rm.picture().clone();
    refresh(&mut picture.facts, &mut picture.demand);
    let mut concerned = |change: &dyn Fn(&mut PoolTree)| {
        let mut tree = (*picture.facts.pools).clone();
        tree.version = tree.version.next();
        change(&mut tree);
        picture.facts.set_pools(tree);
        let jobs = refresh(&mut picture.facts, &mut picture.demand);
        assert_eq!(
            picture.demand.ledger,
            Ledger::new(&picture.facts),
            "as if it were made anew"
        );
        let Picture {
            facts,
            demand,
            division,
            ..
        } = &mut picture;
        assert_eq!(*facts.hierarchy, Hierarchy::new(&facts.pools));
        assert_eq!(*facts.by_shares, Hierarchy::new(&of_lent_room(&facts.pools)));
        let pools = demand.count_pools(facts);
        let divided = divide(facts, demand, &pools, division);
        let from_nothing = entitled(facts, &demand.ledger);
        assert_eq!(divided.entitled.ordinary, from_nothing.ordinary);
        jobs
    };
    let pool = |tree: &mut PoolTree, change: &dyn Fn(&mut Pool)| change(tree.pools.get_mut("/x").unwrap());
    let none = BTreeSet::new();
    assert_eq!(concerned(&|t| pool(t, &|p| p.share.cpus = 7)), none);
    assert_eq!(concerned(&|t| pool(t, &|p| p.reservation.cpus = 2_000)), none);
    assert_eq!(concerned(&|t| pool(t, &|p| p.limit.cpus = 50_000)), none);
    // A pool with a bound of jobs counts each job that has begun, and a pool that is fair to users counts by user.
    assert!(concerned(&|t| pool(t, &|p| p.max_jobs = 5)).contains(&of_x));
    assert_eq!(concerned(&|t| pool(t, &|p| p.max_jobs = 6)), none);
    assert!(concerned(&|t| pool(t, &|p| p.fair_users = true)).contains(&of_x));
    // It moves.
    concerned(&|t| {
        let mut x = t.pools.remove("/x").unwrap();
        "/z".clone_into(&mut x.path);
        t.pools.insert("/z".to_owned(), x);
    });
    let path = |job: JobId| {
        picture
            .facts
            .jobs
            .get(&job)
            .unwrap()
            .spec
            .as_ref()
            .unwrap()
            .pool
            .clone()
    };
    assert_eq!((path(of_x), path(of_y)), ("/z".to_owned(), "/y".to_owned()));
}
