//! Preemption below a pool whose limit is reached while hosts have room: who is entitled gets his part of the pool, from those who have
//! more than theirs, wherever they run.

use crate::tests::case::{Case, batch, service};
use echelon_core_model::{ClusterId, JobId, ReasonCode, RunState, Span};
use echelon_core_testkit::build::{JobBuilder, shape};

/// Two clusters of ten cores, and a pool of at most so many with two below it.
fn under_a_limit(cores: u64) -> Case {
    let mut case = Case::with(&[("a", 10), ("b", 10)]);
    case.set_pool("/t", cores);
    case.set_pool("/t/x", 1_000_000);
    case.set_pool("/t/y", 1_000_000);
    case.run_for(Span::seconds(6));
    case
}

fn active<const N: usize>(case: &Case, jobs: [JobId; N]) -> [usize; N] {
    jobs.map(|job| case.total_active(job))
}

/// How many instances were ever taken.
fn taken(case: &Case) -> u64 {
    let slices = case.shards.values().flat_map(|s| s.slices.values());
    slices.map(|s| s.own.preempted).sum()
}

#[test]
fn who_is_entitled_below_a_limit_that_is_reached_gets_his_part_of_it() {
    let mut case = under_a_limit(6);
    let x = case.job(1, batch(20).pool("/t/x").only(&["a"]));
    case.run_for(Span::seconds(2));
    // Where he waits there is room, and those who have too much are elsewhere.
    let y = case.job(2, batch(20).pool("/t/y").only(&["b"]));
    case.run_for(Span::seconds(20));
    assert_eq!((active(&case, [x, y]), taken(&case)), ([6, 0], 0), "not at once");
    case.run_for(Span::minutes(1));
    assert_eq!((active(&case, [x, y]), taken(&case)), ([3, 3], 3));
    case.run_for(Span::minutes(5));
    assert_eq!((active(&case, [x, y]), taken(&case)), ([3, 3], 3));
    assert!(case.rm.picture().preemption.all.is_empty());
}

#[test]
fn below_a_pool_that_has_more_than_its_limit_so_much_more_is_stopped() {
    for (limit, parts) in [(4, [2, 2]), (3, [2, 1])] {
        let mut case = under_a_limit(6);
        let x = case.job(1, batch(20).pool("/t/x"));
        case.run_for(Span::seconds(2));
        case.change_pool("/t", |pool| pool.limit.cpus = limit * 1000);
        case.run_for(Span::seconds(40));
        assert_eq!((active(&case, [x]), taken(&case)), ([6], 0), "nothing waits");
        let y = case.job(2, batch(20).pool("/t/y"));
        case.run_for(Span::minutes(2));
        let stopped = 6 - u64::try_from(parts[0]).unwrap();
        assert_eq!((active(&case, [x, y]), taken(&case)), (parts, stopped));
    }
}

#[test]
fn capacity_in_a_pool_that_is_too_little_for_an_instance_is_kept_for_a_short_time() {
    let mut case = under_a_limit(9);
    let x = case.job(1, batch(20).pool("/t/x").only(&["a"]));
    case.run_for(Span::seconds(2));
    case.change_pool("/t", |pool| pool.limit.cpus = 8_333);
    // At most one instance is stopped for a request: the first leaves a third of a core.
    case.shard("a").holds_back = 3;
    let y = case.job(2, batch(4).pool("/t/y").only(&["b"]));
    case.run_for(Span::seconds(40));
    assert_eq!((active(&case, [x, y]), taken(&case)), ([8, 0], 1));
    case.run_for(Span::minutes(2));
    assert_eq!((active(&case, [x, y]), taken(&case)), ([7, 1], 2));
}

#[test]
fn below_a_pool_nothing_is_stopped_for_an_instance_that_no_host_could_hold_then() {
    let mut case = Case::with(&[("a", 12)]);
    for pool in ["/t", "/t/x", "/t/y"] {
        case.set_pool(pool, 1_000_000);
    }
    case.shard("a").largest_piece = Some(2);
    let x = case.job(1, service(9).pool("/t/x"));
    case.run_for(Span::seconds(6));
    // It is entitled to its four cores, and the other pool has one more than its own.
    let y = case.sized(2, service(1).pool("/t/y").shape(shape(4, 100)));
    case.run_for(Span::minutes(10));
    assert_eq!((active(&case, [x, y]), taken(&case)), ([9, 0], 0));
}

#[test]
fn nobody_outside_of_the_pool_whose_limit_is_reached_loses_anything() {
    let mut case = under_a_limit(6);
    let x = case.job(1, batch(20).pool("/t/x").priority(9));
    let other = case.job(2, batch(14).priority(1));
    case.run_for(Span::minutes(1));
    assert_eq!(active(&case, [x, other]), [6, 14]);
    let y = case.job(3, batch(20).pool("/t/y"));
    case.run_for(Span::minutes(3));
    assert_eq!((active(&case, [x, other, y]), taken(&case)), ([3, 14, 3], 3));
}

/// Three instances of the first job are being stopped at cluster `a` for one instance of the other job.
fn making_capacity(claimant: JobBuilder) -> (Case, [JobId; 2]) {
    let mut case = under_a_limit(6);
    let x = case.job(1, batch(20).pool("/t/x").only(&["a"]));
    case.run_for(Span::seconds(2));
    case.shard("a").dies_at_once = false;
    let y = case.job(2, claimant.pool("/t/y").shape(shape(3, 100)));
    case.run_for(Span::seconds(40));
    assert_eq!((active(&case, [x, y]), taken(&case)), ([6, 0], 3));
    (case, [x, y])
}

/// What ends meanwhile is replaced by nothing, and what was stopped makes capacity for the other job.
fn keeps_what_is_left(case: &mut Case, [x, y]: [JobId; 2]) {
    // Two others end by themselves, which is too little: it is not for what waits beside them.
    case.at("a", |s, now| s.finish_of(x, 2, RunState::Succeeded, now));
    case.run_for(Span::seconds(5));
    assert_eq!(active(case, [x, y]), [4, 0]);
    case.at("a", |s, now| s.die(now));
    case.run_for(Span::seconds(5));
    assert_eq!((active(case, [y]), taken(case)), ([1], 3));
}

#[test]
fn what_is_left_below_a_limit_is_kept_for_whom_it_was_left() {
    let (mut case, jobs) = making_capacity(batch(1));
    assert_eq!(case.waiting(jobs[1]), [(ReasonCode::PoolClaim, 1)]);
    keeps_what_is_left(&mut case, jobs);
}

#[test]
fn nothing_is_stopped_below_a_pool_for_a_gang_that_its_cluster_has_no_capacity_for_even_then() {
    let mut case = Case::with(&[("a", 8)]);
    for path in ["/o", "/t", "/t/x", "/t/y"] {
        case.set_pool(path, 1_000_000);
    }
    case.change_pool("/t/y", |pool| pool.share = pool.share.times(3));
    case.run_for(Span::seconds(6));
    let other = case.job(1, service(6).pool("/o"));
    let x = case.job(2, batch(20).pool("/t/x"));
    case.run_for(Span::seconds(5));
    // Its pool leaves two, and one more could be stopped there. The cluster is full.
    let y = case.job(3, batch(3).gang().pool("/t/y"));
    case.run_for(Span::minutes(3));
    assert_eq!((active(&case, [other, x, y]), taken(&case)), ([6, 2, 0], 0));
}

#[test]
fn a_gang_below_a_limit_gets_room_from_several_clusters_or_takes_nobody() {
    let mut case = under_a_limit(8);
    let a = case.job(1, batch(2).pool("/t/x").only(&["a"]));
    let b = case.job(2, batch(6).pool("/t/x").only(&["b"]).priority(9));
    case.run_for(Span::seconds(2));
    let large = case.job(3, batch(5).gang().pool("/t/y"));
    case.run_for(Span::minutes(2));
    assert_eq!((active(&case, [a, b, large]), taken(&case)), ([2, 6, 0], 0));
    let y = case.job(4, batch(4).gang().pool("/t/y"));
    case.run_for(Span::minutes(2));
    assert_eq!((active(&case, [large, y]), taken(&case)), ([0, 4], 4));
}

#[test]
fn who_waits_below_a_limit_at_a_full_cluster_goes_where_those_below_it_may_lose_something() {
    // The home of each is another one.
    for n in 3..9 {
        let mut case = Case::with(&[("a", 4), ("b", 6)]);
        case.set_pool("/t", 6);
        case.set_pool("/t/x", 1_000_000);
        case.set_pool("/t/y", 1_000_000);
        case.run_for(Span::seconds(6));
        let other = case.job(1, batch(4).only(&["a"]).priority(1));
        let x = case.job(2, batch(20).pool("/t/x").only(&["b"]).priority(9));
        case.run_for(Span::seconds(2));
        let y = case.job(n, batch(20).pool("/t/y"));
        case.run_for(Span::minutes(8));
        assert_eq!(
            (active(&case, [other, x, y]), taken(&case)),
            ([4, 3, 3], 3),
            "{n}"
        );
    }
}

#[test]
fn nobody_is_taken_for_who_could_not_begin_by_another_bound() {
    let mut case = under_a_limit(6);
    case.change_pool("/t/y", |p| p.max_instances = 1);
    case.run_for(Span::seconds(6));
    let x = case.job(1, batch(20).pool("/t/x"));
    case.run_for(Span::seconds(2));
    let y = case.job(2, batch(3).pool("/t/y"));
    case.run_for(Span::minutes(5));
    assert_eq!((active(&case, [x, y]), taken(&case)), ([5, 1], 1));
}

#[test]
fn a_new_leader_takes_nobody_twice_for_room_in_a_pool() {
    let mut case = under_a_limit(6);
    let x = case.job(1, batch(20).pool("/t/x"));
    case.run_for(Span::seconds(2));
    for name in ["a", "b"] {
        case.shard(name).dies_at_once = false;
    }
    let y = case.job(2, batch(20).pool("/t/y"));
    case.run_for(Span::seconds(40));
    assert_eq!((active(&case, [x, y]), taken(&case)), ([6, 0], 3));
    case.fail_over();
    case.run_for(Span::minutes(2));
    assert_eq!(taken(&case), 3, "what is being stopped counts");
    for name in ["a", "b"] {
        case.at(name, |s, now| s.die(now));
    }
    case.run_for(Span::minutes(2));
    assert_eq!((active(&case, [x, y]), taken(&case)), ([3, 3], 3));
}

#[test]
fn a_new_leader_keeps_what_was_left_in_a_pool_for_what_it_was_left_for() {
    // It waits at another cluster than the one where instances are stopped for it.
    let (mut case, jobs) = making_capacity(batch(1).only(&["b"]));
    case.fail_over();
    case.run_for(Span::seconds(20));
    let requests = &case.rm.picture().preemption.all;
    let open = requests
        .values()
        .map(|r| (r.claim.waits.as_str(), r.claim.quota.is_some()));
    let open: Vec<_> = open.collect();
    assert_eq!(open, [("b", true)], "the whole request is known again");
    keeps_what_is_left(&mut case, jobs);
    case.run_for(Span::minutes(1));
    assert!(case.rm.picture().preemption.all.is_empty());
}

#[test]
fn a_storm_below_a_limit_keeps_the_pace_of_claims() {
    let mut case = Case::with(&[("a", 8_000)]);
    case.set_pool("/t", 4_000);
    case.set_pool("/t/x", 1_000_000);
    case.set_pool("/t/y", 1_000_000);
    case.run_for(Span::seconds(6));
    let x = case.job(1, service(4_000).pool("/t/x"));
    case.run_for(Span::seconds(5));
    let y = case.job(2, batch(5_000).pool("/t/y"));
    let mut before = 0;
    for _ in 0..8 {
        case.run_for(Span::minutes(1));
        assert!(taken(&case) - before <= 600 + 100);
        before = taken(&case);
    }
    assert_eq!((active(&case, [x, y]), taken(&case)), ([2_000, 2_000], 2_000));
}

#[test]
fn who_lacks_two_kinds_below_a_limit_gets_as_many_victims_as_the_scarcer_one_needs() {
    let mut case = under_a_limit(6);
    case.change_pool("/t", |p| p.limit.memory = 60_000);
    case.run_for(Span::seconds(6));
    let jobs = [1, 2, 3, 4, 5, 6].map(|n| {
        let of_x = batch(1).pool("/t/x").only(&["a"]);
        case.job(n, of_x.shape(shape(1, 10_000)))
    });
    case.run_for(Span::seconds(2));
    assert_eq!(active(&case, jobs), [1; 6]);
    // One core, and half of the memory.
    case.job(7, batch(1).pool("/t/y").only(&["b"]).shape(shape(1, 30_000)));
    case.run_for(Span::seconds(25));
    case.held = Some((ClusterId::new("a"), Vec::new()));
    case.run_for(Span::seconds(8));
    assert_eq!(case.requested(), [(3, 3)]);
}

#[test]
fn what_is_held_on_hosts_is_free_again_if_a_pool_above_leaves_nothing_for_it() {
    let mut case = Case::with(&[("a", 12)]);
    for path in ["/t", "/t/x", "/t/y", "/o", "/r"] {
        case.set_pool(path, 1_000_000);
    }
    case.run_for(Span::seconds(6));
    let x = case.job(1, batch(4).pool("/t/x"));
    let o = case.job(2, batch(20).pool("/o"));
    case.run_for(Span::seconds(5));
    assert_eq!(active(&case, [x, o]), [4, 8]);
    case.shard("a").dies_at_once = false;
    let y = case.job(3, batch(20).pool("/t/y"));
    case.run_for(Span::seconds(40));
    let requests = &case.rm.picture().preemption.all;
    assert!(requests.values().any(|r| r.claim.quota.is_none()));
    // Before its victims have ended, `/t` is entitled to less.
    let r = case.job(4, batch(20).pool("/r"));
    case.run_for(Span::seconds(5));
    case.shard("a").dies_at_once = true;
    case.at("a", |s, now| s.die(now));
    case.run_for(Span::minutes(3));
    assert_eq!(active(&case, [x, y, o, r]), [2, 2, 4, 4]);
}
