//! Preemption: who is entitled to room gets it from those who have more than their own, no more than is needed, and only then.

use crate::tests::case::{Case, batch, service};
use echelon_core_model::directive::Report;
use echelon_core_model::{ClusterId, JobId, ReasonCode, Resources, RunState, Span};
use echelon_core_testkit::build::shape;

fn two_pools(cores: u64) -> Case {
    let mut case = Case::with(&[("a", cores)]);
    case.set_pool("/x", 1_000_000);
    case.set_pool("/y", 1_000_000);
    case.run_for(Span::seconds(6));
    case
}

/// The first pool has all of ten cores with its first job; those who are preempted do not die before they are told to. Then the other
/// pool's job comes, and as many are stopped for it as are needed.
fn stopping(wanted: u32) -> (Case, [JobId; 2]) {
    let mut case = two_pools(10);
    let x = case.job(1, batch(20).pool("/x"));
    case.run_for(Span::seconds(2));
    case.shard("a").dies_at_once = false;
    let y = case.job(2, batch(wanted).pool("/y"));
    case.run_for(Span::seconds(40));
    assert_eq!(
        (case.total_active(x), case.total_active(y), taken(&case)),
        (10, 0, 5)
    );
    (case, [x, y])
}

/// How many instances were ever taken.
fn taken(case: &Case) -> u64 {
    let slices = case.shards.values().flat_map(|s| s.slices.values());
    slices.map(|s| s.own.preempted).sum()
}

#[test]
fn who_is_entitled_gets_room_from_who_has_more_than_his_own() {
    let mut case = two_pools(10);
    let x = case.job(1, batch(20).pool("/x"));
    case.run_for(Span::seconds(2));
    assert_eq!(case.total_active(x), 10);
    let y = case.job(2, batch(20).pool("/y"));
    case.run_for(Span::seconds(20));
    assert_eq!(
        (case.total_active(x), case.total_active(y)),
        (10, 0),
        "not at once"
    );
    case.run_for(Span::seconds(30));
    assert_eq!((case.total_active(x), case.total_active(y)), (5, 5));
    assert_eq!(taken(&case), 5, "each of them was needed");
    case.run_for(Span::minutes(5));
    assert_eq!(
        (case.total_active(x), case.total_active(y), taken(&case)),
        (5, 5, 5)
    );
    assert!(case.rm.picture().preemption.all.is_empty());
}

#[test]
fn nobody_loses_what_is_his_own() {
    let mut case = two_pools(10);
    let x = case.job(1, batch(5).pool("/x"));
    let default = case.job(2, batch(5));
    case.run_for(Span::seconds(2));
    // A third of ten is entitled to three; of the two others each has two more than that, in whole instances.
    let y = case.job(3, batch(20).pool("/y"));
    case.run_for(Span::minutes(5));
    let active = [x, default, y].map(|job| case.total_active(job));
    assert_eq!(active, [4, 3, 3]);
    assert_eq!(taken(&case), 3);
}

#[test]
fn what_would_not_fit_whole_into_the_entitlement_takes_nothing() {
    let mut case = two_pools(4);
    let x = case.job(1, batch(4).pool("/x"));
    case.run_for(Span::seconds(2));
    let y = case.job(2, batch(1).pool("/y").shape(shape(3, 100)));
    case.run_for(Span::minutes(3));
    assert_eq!(
        (case.total_active(x), case.total_active(y), taken(&case)),
        (4, 0, 0)
    );
}

#[test]
fn the_least_important_and_the_youngest_go_first() {
    let mut case = two_pools(6);
    let old = case.job(1, batch(2).pool("/x").priority(1));
    let young = case.job(2, batch(2).pool("/x").priority(1));
    let high = case.job(3, batch(2).pool("/x").priority(9));
    case.run_for(Span::seconds(2));
    let y = case.job(4, batch(3).pool("/y"));
    case.run_for(Span::minutes(3));
    let active = [old, young, high, y].map(|job| case.total_active(job));
    assert_eq!(active, [1, 0, 2, 3]);
}

#[test]
fn room_that_is_made_is_for_nobody_else() {
    let (mut case, [x, y]) = stopping(5);
    // Meanwhile somebody important comes to the same pool.
    assert_eq!(case.waiting(y), [(ReasonCode::PoolClaim, 5)]);
    let late = case.job(3, batch(5).pool("/y").priority(9));
    case.run_for(Span::seconds(5));
    case.at("a", |s, now| s.die(now));
    case.run_for(Span::seconds(5));
    assert_eq!(
        (
            case.total_active(x),
            case.total_active(y),
            case.total_active(late)
        ),
        (5, 5, 0)
    );
}

#[test]
fn a_new_leader_goes_on_with_what_was_begun() {
    let (mut case, [x, y]) = stopping(20);
    case.fail_over();
    case.run_for(Span::seconds(10));
    assert_eq!(
        case.rm.picture().preemption.all.len(),
        1,
        "it is known from the full report"
    );
    case.at("a", |s, now| s.die(now));
    case.run_for(Span::minutes(3));
    assert_eq!(
        (case.total_active(x), case.total_active(y), taken(&case)),
        (5, 5, 5)
    );
}

#[test]
fn a_shard_that_forgets_takes_no_more_than_is_needed() {
    let (mut case, [x, y]) = stopping(20);
    case.shards.get_mut(&ClusterId::new("a")).unwrap().fail_over();
    case.cut("a");
    case.reopen("a");
    case.run_for(Span::minutes(1));
    case.at("a", |s, now| {
        s.dies_at_once = true;
        s.die(now)
    });
    case.run_for(Span::minutes(3));
    assert_eq!(
        (case.total_active(x), case.total_active(y), taken(&case)),
        (5, 5, 5)
    );
}

#[test]
fn nobody_is_taken_while_kills_are_off() {
    let mut case = two_pools(10);
    let x = case.job(1, batch(20).pool("/x"));
    case.run_for(Span::seconds(2));
    super::control::store(&mut case, true);
    let y = case.job(2, batch(20).pool("/y"));
    case.run_for(Span::minutes(3));
    assert_eq!(
        (case.total_active(x), case.total_active(y), taken(&case)),
        (10, 0, 0)
    );
    assert_eq!(case.waiting(y), [(ReasonCode::NoClusterCapacity, 20)]);
}

#[test]
fn a_storm_ends_in_as_many_as_are_needed_at_a_bounded_pace() {
    let mut case = two_pools(4_000);
    let x = case.job(1, service(4_000).pool("/x"));
    case.run_for(Span::seconds(5));
    assert_eq!(case.total_active(x), 4_000);
    let y = case.job(2, batch(5_000).pool("/y"));
    let z = case.job(3, batch(5_000).pool("/y"));
    let mut before = 0;
    for _ in 0..8 {
        case.run_for(Span::minutes(1));
        let now = taken(&case);
        assert!(now - before <= 600 + 100, "{} in a minute", now - before);
        before = now;
    }
    assert_eq!((case.total_active(x), taken(&case)), (2_000, 2_000));
    assert_eq!(case.total_active(y) + case.total_active(z), 2_000);
}

#[test]
fn late_reports_change_nothing() {
    let mut case = two_pools(10);
    let x = case.job(1, batch(20).pool("/x"));
    case.run_for(Span::seconds(2));
    let y = case.job(2, batch(20).pool("/y"));
    case.run_for(Span::minutes(2));
    let a = ClusterId::new("a");
    let told = case.shards[&a].claims_told();
    let stale = Report {
        cluster: a.clone(),
        epoch: echelon_core_model::Epoch(1),
        sequence: 1,
        part: told,
    };
    case.bring(&a, vec![stale]);
    case.run_for(Span::minutes(2));
    assert_eq!(
        (case.total_active(x), case.total_active(y), taken(&case)),
        (5, 5, 5)
    );
    let left = case.rm.picture().demand.ledger.taken(&a);
    assert_eq!(
        left.all,
        Resources {
            cpus: 10_000,
            ..left.all
        }
    );
}

#[test]
fn who_waits_where_nobody_may_lose_anything_goes_where_somebody_may() {
    let mut case = Case::with(&[("a", 6), ("b", 6)]);
    case.set_pool("/x", 1_000_000);
    case.set_pool("/y", 1_000_000);
    case.run_for(Span::seconds(6));
    // All of a is y's own; x has all of b.
    let own = case.job(1, batch(5).pool("/y").only(&["a"]));
    let x = case.job(2, batch(20).pool("/x"));
    case.run_for(Span::seconds(3));
    assert_eq!((case.total_active(own), case.total_active(x)), (5, 7));
    let more = case.job(3, batch(1).pool("/y"));
    case.run_for(Span::minutes(6));
    assert_eq!(
        (
            case.total_active(own),
            case.total_active(x),
            case.total_active(more)
        ),
        (5, 6, 1)
    );
    assert_eq!(taken(&case), 1);
}

#[test]
fn what_may_not_be_unavailable_at_a_cluster_is_not_offered_there_in_place_of_what_may() {
    let mut case = Case::with(&[("a", 6), ("b", 6)]);
    case.set_pool("/x", 1_000_000);
    case.set_pool("/y", 1_000_000);
    case.run_for(Span::seconds(6));
    let old = case.job(1, service(3).pool("/x").only(&["b"]));
    case.run_for(Span::seconds(3));
    // What may be unavailable of the younger one, which would lose first, is at `a`.
    let young = case.job(2, service(6).pool("/x").spread());
    case.run_for(Span::seconds(3));
    let more = case.job(3, batch(3).pool("/x").only(&["a"]));
    case.run_for(Span::seconds(3));
    let active = |case: &Case, jobs: [JobId; 3]| jobs.map(|job| case.total_active(job));
    assert_eq!(active(&case, [old, young, more]), [3, 6, 3]);
    let y = case.job(4, batch(3).pool("/y").only(&["b"]));
    case.run_for(Span::minutes(5));
    assert_eq!(active(&case, [old, young, y]), [0, 6, 3]);
}

#[test]
fn who_waits_for_a_cluster_whose_holders_have_no_more_than_their_own_is_told_who_they_are() {
    let mut case = Case::with(&[("a", 5), ("b", 8)]);
    case.set_pool("/x", 1_000);
    for (n, path, cores) in [(1, "/y", 2), (2, "/z", 2), (3, "/u", 1)] {
        case.set_pool(path, 1_000);
        case.run_for(Span::seconds(6));
        case.job(n, service(cores).pool(path).only(&["a"]));
    }
    case.run_for(Span::seconds(6));
    // Everybody gets what he wants of 13 cores, but all of `a` is taken.
    let x = case.job(9, batch(2).pool("/x").only(&["a"]));
    case.run_for(Span::seconds(20));
    assert_eq!(case.waiting(x), [(ReasonCode::NoClusterCapacity, 2)]);
    case.run_for(Span::minutes(2));
    assert_eq!(case.waiting(x), [(ReasonCode::PoolClusterHeld, 2)]);
    let reason = case.progress(x).unwrap().waiting[0].reason.to_string();
    assert!(
        reason.ends_with("cpus needs 1, has at most 0 (a: /y has 2 cpus, /z has 2 cpus, /u has 1 cpus)"),
        "{reason}"
    );
    assert_eq!(taken(&case), 0);
    // Room comes: nothing of it is left.
    case.at("a", |s, now| s.finish(1, RunState::Succeeded, now));
    case.run_for(Span::minutes(2));
    assert!(case.total_active(x) > 0);
}

#[test]
fn starved_since_survives_a_new_leader() {
    let mut case = two_pools(10);
    let x = case.job(1, batch(20).pool("/x"));
    case.run_for(Span::seconds(2));
    let y = case.job(2, batch(20).pool("/y"));
    case.run_for(Span::seconds(20));
    let since = case.progress(y).unwrap().starved.unwrap();
    case.fail_over();
    case.run_for(Span::seconds(4));
    assert_eq!(case.progress(y).unwrap().starved, Some(since));
    assert_eq!(taken(&case), 0, "not before its time");
    case.run_for(Span::seconds(10));
    assert_eq!((case.total_active(x), case.total_active(y)), (5, 5));
    case.run_for(Span::minutes(1));
    assert_eq!(case.progress(y).unwrap().starved, None, "it has its part");
}

#[test]
fn what_the_second_round_gives_is_enforced_once_it_has_lasted() {
    let mut case = Case::with(&[("a", 12)]);
    case.shard("a").host_cores = 12;
    case.shard("a").tells_memory = false;
    for path in ["/x", "/y", "/z"] {
        case.set_pool(path, 1_000_000);
    }
    case.run_for(Span::seconds(6));
    let x = case.job(1, batch(20).pool("/x").shape(shape(1, 0)));
    case.run_for(Span::seconds(2));
    assert_eq!(case.total_active(x), 12);
    // Of its four cores it can use two: it has no memory for a third instance.
    let z = case.job(2, batch(20).pool("/z").shape(shape(1, 60_000)));
    let y = case.job(3, batch(20).pool("/y").shape(shape(1, 0)));
    let active = |case: &Case| [x, y, z].map(|job| case.total_active(job));
    case.run_for(Span::seconds(50));
    assert_eq!(active(&case), [6, 4, 2], "what the first round gives");
    case.run_for(Span::minutes(3));
    assert_eq!(active(&case), [5, 5, 2]);
    assert_eq!(taken(&case), 7, "each of them was needed");
    case.run_for(Span::minutes(10));
    assert_eq!((active(&case), taken(&case)), ([5, 5, 2], 7));
}

#[test]
fn what_the_second_round_gives_for_a_moment_stops_nothing() {
    let mut case = Case::with(&[("a", 12)]);
    case.shard("a").host_cores = 12;
    case.shard("a").tells_memory = false;
    for path in ["/x", "/y", "/z"] {
        case.set_pool(path, 1_000_000);
    }
    case.run_for(Span::seconds(6));
    let x = case.job(1, batch(20).pool("/x").shape(shape(1, 0)));
    let z = case.job(2, batch(20).pool("/z").shape(shape(1, 60_000)));
    case.run_for(Span::minutes(2));
    assert_eq!([x, z].map(|job| case.total_active(job)), [10, 2]);
    // Half a minute of another pool's demand is too short.
    let y = case.job(3, batch(20).pool("/y").shape(shape(1, 0)));
    case.run_for(Span::seconds(50));
    assert_eq!([x, y].map(|job| case.total_active(job)), [6, 4]);
    case.want(y, echelon_core_model::job::Desired::Stopped);
    case.run_for(Span::minutes(3));
    assert_eq!(case.total_active(x), 10);
    assert_eq!(taken(&case), 6, "two for the other pool, and four");
}
