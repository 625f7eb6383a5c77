//! Preemption and gangs: room is made for all of one, or nobody is taken; and all of one is taken, or nothing of it.

use crate::tests::case::{Case, batch, service};
use echelon_core_model::{ClusterId, JobId, ReasonCode, Span};
use echelon_core_testkit::build::{JobBuilder, shape};

/// A gang of so many in its first group, and so many in its second.
fn gang(first: u32, second: u32) -> JobBuilder {
    batch(first).with_group("ps", second, shape(1, 64)).gang()
}

fn pools(cores: u64) -> Case {
    let mut case = Case::with(&[("a", cores)]);
    for pool in ["/x", "/y", "/z"] {
        case.set_pool(pool, 1_000_000);
    }
    case.run_for(Span::seconds(6));
    case
}

/// How many instances were ever taken.
fn taken(case: &Case) -> u64 {
    let slices = case.shards.values().flat_map(|s| s.slices.values());
    slices.map(|s| s.own.preempted).sum()
}

fn active<const N: usize>(case: &Case, jobs: [JobId; N]) -> [usize; N] {
    jobs.map(|job| case.total_active(job))
}

/// The first pool has all of ten cores with its first job; those who are preempted do not die before they are told to. Then a gang
/// comes to another pool, and as many are stopped as it is entitled to and needs.
fn stopping() -> (Case, [JobId; 2]) {
    let mut case = pools(10);
    let x = case.job(1, batch(20).pool("/x"));
    case.run_for(Span::seconds(2));
    case.shard("a").dies_at_once = false;
    let y = case.job(2, gang(3, 2).pool("/y"));
    case.run_for(Span::seconds(40));
    assert_eq!((active(&case, [x, y]), taken(&case)), ([10, 0], 5));
    (case, [x, y])
}

#[test]
fn room_is_made_for_all_groups_of_a_gang_at_once() {
    let (mut case, [x, y]) = stopping();
    assert_eq!(
        case.waiting(y),
        [(ReasonCode::PoolClaim, 3), (ReasonCode::PoolClaim, 2)]
    );
    case.at("a", |s, now| s.die(now));
    case.run_for(Span::seconds(5));
    assert_eq!((active(&case, [x, y]), taken(&case)), ([5, 5], 5));
    case.run_for(Span::minutes(3));
    assert_eq!((active(&case, [x, y]), taken(&case)), ([5, 5], 5));
    assert!(case.rm.picture().preemption.all.is_empty());
}

#[test]
fn nothing_of_a_gang_is_admitted_before_all_of_its_room_is_there_and_nobody_else_is() {
    let (mut case, [_, y]) = stopping();
    // There is room for a part of it, and somebody important comes to the same pool.
    let late = case.job(3, batch(5).pool("/y").priority(9));
    case.shard("a").cores += 2;
    case.run_for(Span::seconds(5));
    let granted = |case: &Case, job| {
        let job = case.rm.picture().facts.jobs.get(&job).unwrap();
        job.grants.values().map(|g| g.granted()).sum::<u64>()
    };
    assert_eq!((granted(&case, y), granted(&case, late)), (0, 0));
    case.at("a", |s, now| s.die(now));
    case.run_for(Span::seconds(2));
    assert_eq!((granted(&case, y), active(&case, [y])), (5, [5]));
}

#[test]
fn nobody_is_taken_for_a_gang_that_would_not_fit_whole_into_the_entitlement() {
    let mut case = pools(10);
    let x = case.job(1, batch(20).pool("/x"));
    case.run_for(Span::seconds(2));
    let y = case.job(2, gang(4, 2).pool("/y"));
    case.run_for(Span::minutes(3));
    assert_eq!((active(&case, [x, y]), taken(&case)), ([10, 0], 0));
}

#[test]
fn nobody_is_taken_for_a_part_of_a_gang() {
    let mut case = Case::with(&[("a", 6), ("b", 6)]);
    case.set_pool("/x", 1_000_000);
    case.set_pool("/y", 1_000_000);
    case.run_for(Span::seconds(6));
    // Of the six that each is entitled to one has four and wants two more; the other has one more than that.
    let own = case.job(1, batch(4).pool("/y").only(&["a"]));
    let x = case.job(2, batch(2).pool("/x").only(&["a"]));
    let rest = case.job(3, batch(5).pool("/x").only(&["b"]));
    case.run_for(Span::seconds(2));
    let y = case.job(4, gang(1, 1).pool("/y").only(&["a"]));
    case.run_for(Span::minutes(3));
    assert_eq!(
        (active(&case, [own, x, rest, y]), taken(&case)),
        ([4, 2, 5, 0], 0)
    );
    let small = case.job(5, batch(1).pool("/y").only(&["a"]));
    case.run_for(Span::minutes(2));
    assert_eq!((active(&case, [x, y, small]), taken(&case)), ([1, 0, 1], 1));
}

#[test]
fn an_answer_that_does_not_cover_the_gang_is_of_no_use() {
    let mut case = pools(10);
    let x = case.job(1, batch(20).pool("/x"));
    case.run_for(Span::seconds(2));
    // The shard takes what it can get, as one that knows nothing of gangs.
    case.shard("a").dies_at_once = false;
    let y = case.job(2, gang(3, 2).pool("/y"));
    case.shard("a").gangs.clear();
    let claims = |case: &Case| case.rm.picture().preemption.all.len();
    case.shard("a").holds_back = 1;
    case.run_for(Span::seconds(40));
    assert_eq!((claims(&case), taken(&case)), (0, 4), "it was let go");
    assert_eq!(case.shards.values().map(|s| s.claims.len()).sum::<usize>(), 0);
    case.shard("a").holds_back = 0;
    case.run_for(Span::seconds(60));
    assert_eq!((claims(&case), taken(&case)), (1, 5), "it was tried again");
    case.at("a", |s, now| s.die(now));
    case.run_for(Span::seconds(5));
    assert_eq!(active(&case, [x, y]), [5, 5]);
}

#[test]
fn a_gang_of_more_than_a_burst_is_taken_for_at_once_and_nothing_else_until_that_is_made_up_for() {
    let mut case = pools(2_400);
    let x = case.job(1, batch(2_400).pool("/x"));
    case.run_for(Span::seconds(5));
    let large = case.job(2, gang(700, 1).pool("/y"));
    case.run_for(Span::seconds(45));
    assert_eq!((active(&case, [x, large]), taken(&case)), ([1_699, 701], 701));
    // 600 a minute, of which 100 were there: the others are 60 s.
    let small = case.job(3, batch(10).pool("/z"));
    case.run_for(Span::seconds(40));
    assert_eq!((active(&case, [small]), taken(&case)), ([0], 701));
    case.run_for(Span::seconds(30));
    assert_eq!((active(&case, [small]), taken(&case)), ([10], 711));
}

#[test]
fn a_gang_of_more_than_a_burst_waits_until_the_budget_is_full() {
    let mut case = pools(2_400);
    let x = case.job(1, batch(2_400).pool("/x"));
    case.run_for(Span::seconds(5));
    let small = case.job(2, batch(100).pool("/z"));
    let large = case.job(3, gang(700, 1).pool("/y"));
    case.run_for(Span::seconds(36));
    assert_eq!(
        (active(&case, [x, small, large]), taken(&case)),
        ([2_300, 100, 0], 100)
    );
    case.run_for(Span::seconds(12));
    assert_eq!((active(&case, [large]), taken(&case)), ([701], 801));
}

#[test]
fn those_behind_a_gang_of_more_than_a_burst_leave_it_the_budget() {
    let mut case = pools(2_400);
    let x = case.job(1, batch(2_400).pool("/x"));
    case.run_for(Span::seconds(5));
    let large = case.job(2, gang(700, 1).pool("/y").priority(9));
    // Somebody is always starved, too.
    for n in 3..20 {
        case.job(n, batch(1).pool("/z"));
        case.run_for(Span::seconds(15));
    }
    assert_eq!(active(&case, [large]), [701]);
    case.run_for(Span::minutes(4));
    assert_eq!((active(&case, [x]), taken(&case)), ([1_682], 718));
}

#[test]
fn a_new_leader_goes_on_with_what_was_begun_for_a_gang() {
    let (mut case, [x, y]) = stopping();
    case.fail_over();
    case.run_for(Span::seconds(10));
    assert_eq!(
        case.rm.picture().preemption.all.len(),
        1,
        "it is known from the full report"
    );
    case.at("a", |s, now| s.die(now));
    case.run_for(Span::minutes(3));
    assert_eq!((active(&case, [x, y]), taken(&case)), ([5, 5], 5));
}

#[test]
fn a_shard_that_forgets_takes_nobody_else_for_a_gang() {
    let (mut case, [x, y]) = stopping();
    let a = ClusterId::new("a");
    case.shards.get_mut(&a).unwrap().fail_over();
    case.cut("a");
    case.reopen("a");
    case.run_for(Span::minutes(1));
    assert_eq!(
        case.shards[&a].claims.len(),
        1,
        "what they leave is held for it again"
    );
    case.at("a", |s, now| s.die(now));
    case.run_for(Span::minutes(3));
    assert_eq!((active(&case, [x, y]), taken(&case)), ([5, 5], 5));
}

#[test]
fn a_gang_of_a_pool_that_has_too_much_is_taken_whole() {
    let mut case = pools(10);
    let x = case.job(1, gang(4, 4).pool("/x"));
    case.run_for(Span::seconds(2));
    let y = case.job(2, batch(5).pool("/y"));
    case.run_for(Span::seconds(20));
    assert_eq!(active(&case, [x, y]), [8, 2], "not at once");
    case.run_for(Span::minutes(3));
    assert_eq!((active(&case, [x, y]), taken(&case)), ([0, 5], 8));
}

#[test]
fn a_gang_that_fits_whole_into_what_is_its_own_stays_and_single_ones_go() {
    let mut case = pools(10);
    let single = case.job(1, batch(5).pool("/x").priority(9));
    let x = case.job(2, gang(3, 2).pool("/x"));
    case.run_for(Span::seconds(2));
    assert_eq!(active(&case, [single, x]), [5, 5]);
    let y = case.job(3, batch(5).pool("/y"));
    case.run_for(Span::minutes(3));
    assert_eq!((active(&case, [single, x, y]), taken(&case)), ([0, 5, 5], 5));
}

#[test]
fn a_gang_goes_where_single_ones_do_not_suffice() {
    let mut case = pools(10);
    let single = case.job(1, batch(1).pool("/x"));
    let x = case.job(2, gang(4, 2).pool("/x"));
    case.run_for(Span::seconds(2));
    let y = case.job(3, gang(3, 2).pool("/y"));
    case.run_for(Span::minutes(3));
    assert_eq!(
        (active(&case, [x, y]), active(&case, [single])[0] <= 1),
        ([0, 5], true)
    );
}

#[test]
fn a_gang_that_is_larger_than_what_may_be_taken_in_a_minute_goes_when_the_budget_is_full() {
    let mut case = pools(1_000);
    let x = case.job(1, gang(700, 1).pool("/x"));
    case.run_for(Span::seconds(5));
    let y = case.job(2, gang(400, 1).pool("/y"));
    case.run_for(Span::minutes(3));
    assert_eq!((active(&case, [x, y]), taken(&case)), ([0, 401], 701));
}

#[test]
fn a_gang_for_which_nobody_may_lose_anything_goes_where_somebody_may() {
    let mut case = Case::with(&[("a", 6), ("b", 6)]);
    case.set_pool("/x", 1_000_000);
    case.set_pool("/y", 1_000_000);
    case.run_for(Span::seconds(6));
    // All of a is y's own; x has all of b, and more than its own.
    let own = case.job(1, batch(4).pool("/y").only(&["a"]));
    let x = case.job(2, batch(20).pool("/x"));
    case.run_for(Span::seconds(20));
    assert_eq!(active(&case, [own, x]), [4, 8]);
    let y = case.job(3, gang(1, 1).pool("/y").only(&["a", "b"]));
    case.run_for(Span::minutes(4));
    assert_eq!((active(&case, [own, x, y]), taken(&case)), ([4, 6, 2], 2));
}

#[test]
fn a_gang_goes_to_no_cluster_where_too_few_may_lose_something() {
    let mut case = Case::with(&[("a", 8), ("b", 4)]);
    case.set_pool("/x", 1_000_000);
    case.set_pool("/y", 1_000_000);
    case.run_for(Span::seconds(6));
    let own = case.job(1, batch(3).pool("/y").only(&["a"]));
    let x = case.job(2, service(5).pool("/x").only(&["a"]));
    let rest = case.job(3, batch(4).pool("/x").only(&["b"]));
    case.run_for(Span::seconds(2));
    // Of nine each is entitled to six: three of x are too many, for a gang of four that is one too few.
    let y = case.job(4, gang(3, 1).pool("/y"));
    case.run_for(Span::minutes(4));
    assert_eq!(
        (active(&case, [own, x, rest, y]), taken(&case)),
        ([3, 5, 4, 0], 0)
    );
}

#[test]
fn a_gang_that_lacks_two_kinds_gets_as_many_victims_as_the_scarcer_one_needs() {
    let mut case = Case::with(&[("a", 10)]);
    case.set_pool("/x", 1_000_000);
    case.set_pool("/y", 1_000_000);
    case.run_for(Span::seconds(6));
    // All cores and all memory are in use. Two cores and half of the memory are the gang's.
    let x = case.job(1, batch(10).pool("/x").shape(shape(1, 10_000)));
    case.run_for(Span::seconds(2));
    assert_eq!(active(&case, [x]), [10]);
    case.job(2, batch(2).gang().pool("/y").shape(shape(1, 25_000)));
    case.run_for(Span::seconds(25));
    case.held = Some((ClusterId::new("a"), Vec::new()));
    case.run_for(Span::seconds(8));
    assert_eq!(case.requested(), [(5, 5)]);
}
