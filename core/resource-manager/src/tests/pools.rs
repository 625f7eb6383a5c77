//! Pools that are to go, and jobs whose pool is gone.

use super::case::{Case, service};
use crate::event::Event;
use echelon_core_model::job::Desired;
use echelon_core_model::pool::PoolTree;
use echelon_core_model::store::{Answer, Decision, Op, Query};
use echelon_core_model::{ReasonCode, Span};

fn tree(case: &Case) -> PoolTree {
    match case.store.read(&Query::Pools) {
        Answer::Pools(tree) => tree,
        other => panic!("{other:?}"),
    }
}

fn change(case: &mut Case, change: impl FnOnce(&mut PoolTree)) {
    let mut tree = tree(case);
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
    tree(case).pools.into_keys().collect()
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
