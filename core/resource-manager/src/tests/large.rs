//! Large instances behind small ones of their own pool: what ends is not replaced and its capacity is held,
//! until the large one has begun.

use crate::tests::case::{Case, batch, service};
use echelon_core_model::pool::PreemptWithin;
use echelon_core_model::{JobId, ReasonCode, RunState, Span};
use echelon_core_testkit::build::{JobBuilder, shape};

/// Ten cores, all in use by a job of one-core instances, of which many more wait.
fn behind_small(small: JobBuilder) -> (Case, JobId) {
    let mut case = Case::with(&[("a", 10)]);
    let small = case.job(1, small);
    case.run_for(Span::seconds(3));
    assert_eq!(case.total_active(small), 10);
    (case, small)
}

fn large(case: &mut Case, n: u128, priority: u32) -> JobId {
    case.sized(n, batch(1).shape(shape(4, 100)).priority(priority))
}

/// One small instance after another ends, one each second. Returns after how many the large one has begun.
fn ends_until_begun(case: &mut Case, [small, large]: [JobId; 2], most: u64) -> Option<u64> {
    (0..most).find(|_| {
        case.at("a", |s, now| s.finish_of(small, 1, RunState::Succeeded, now));
        case.run_for(Span::seconds(1));
        case.total_active(large) == 1
    })
}

#[test]
fn a_large_instance_of_higher_priority_begins_once_enough_small_ones_have_ended() {
    let (mut case, small) = behind_small(batch(1_000));
    let large = large(&mut case, 2, 100);
    case.run_for(Span::seconds(5));
    assert_eq!(case.total_active(large), 0);
    let told = case.progress(large).unwrap().waiting[0].reason.to_string();
    assert!(told.contains("what ends on a is kept for it"), "{told}");
    let after = ends_until_begun(&mut case, [small, large], 20);
    assert_eq!(after, Some(3), "four have ended");
    case.run_for(Span::seconds(5));
    assert_eq!((case.total_active(small), case.total_active(large)), (6, 1));
    // It has what it needs: the small ones go on.
    case.at("a", |s, now| s.finish_of(small, 3, RunState::Succeeded, now));
    case.run_for(Span::seconds(3));
    assert_eq!((case.total_active(small), case.total_active(large)), (6, 1));
}

#[test]
fn a_large_instance_comes_before_small_ones_of_equal_priority_that_are_younger() {
    let mut case = Case::with(&[("a", 10)]);
    let filler = case.job(1, service(10));
    let large = large(&mut case, 2, 0);
    let small = case.job(3, batch(1_000));
    case.run_for(Span::seconds(5));
    case.scale(filler, 3);
    case.run_for(Span::seconds(10));
    assert_eq!((case.total_active(large), case.total_active(small)), (1, 3));
}

#[test]
fn older_small_ones_of_equal_priority_come_first_and_are_replaced() {
    let (mut case, small) = behind_small(batch(30));
    let large = large(&mut case, 2, 0);
    case.run_for(Span::seconds(5));
    for _ in 0..20 {
        case.at("a", |s, now| s.finish_of(small, 1, RunState::Succeeded, now));
        case.run_for(Span::seconds(1));
    }
    assert_eq!((case.total_active(small), case.total_active(large)), (10, 0));
    assert_eq!(ends_until_begun(&mut case, [small, large], 10), Some(3));
}

#[test]
fn a_new_leader_goes_on_with_what_runs_down() {
    let (mut case, small) = behind_small(batch(1_000));
    let large = large(&mut case, 2, 100);
    case.run_for(Span::seconds(5));
    case.at("a", |s, now| s.finish_of(small, 2, RunState::Succeeded, now));
    case.run_for(Span::seconds(2));
    assert_eq!(case.total_active(small), 8);
    case.fail_over();
    case.run_for(Span::seconds(5));
    assert_eq!(case.total_active(large), 0);
    // What the new leader has given back before it knew of the large one is not more than what had ended.
    let after = ends_until_begun(&mut case, [small, large], 5);
    assert!(after.is_some_and(|n| n <= 4), "{after:?}");
}

#[test]
fn without_anything_that_ends_capacity_is_kept_for_ten_minutes_and_free_for_ten() {
    let mut case = Case::with(&[("a", 10)]);
    let services = [1, 2].map(|n| case.job(n, service(4)));
    let large = large(&mut case, 3, 100);
    case.run_for(Span::seconds(3));
    let batch = case.job(4, batch(1_000));
    case.run_for(Span::minutes(1));
    // Two cores are free, and kept.
    assert_eq!(
        [services[0], services[1], large, batch].map(|j| case.total_active(j)),
        [4, 4, 0, 0]
    );
    case.run_for(Span::minutes(10));
    assert_eq!((case.total_active(large), case.total_active(batch)), (0, 2));
    case.run_for(Span::minutes(10));
    assert_eq!(case.waiting(large), [(ReasonCode::NoClusterCapacity, 1)]);
}

#[test]
fn what_does_not_fit_its_pools_entitlement_keeps_nothing() {
    let mut case = Case::with(&[("a", 10)]);
    case.set_pool("/small", 3);
    case.run_for(Span::seconds(6));
    let small = case.job(1, batch(1_000).pool("/small"));
    case.run_for(Span::seconds(3));
    let large = case.sized(2, batch(1).shape(shape(4, 100)).priority(100).pool("/small"));
    case.run_for(Span::seconds(5));
    case.at("a", |s, now| s.finish_of(small, 2, RunState::Succeeded, now));
    case.run_for(Span::seconds(5));
    assert_eq!((case.total_active(small), case.total_active(large)), (3, 0));
}

/// Ten cores in use by services of one core at priority 0, in a pool whose work may be preempted within it as
/// this says, with this upper bound of priority. A large instance of priority 9 waits beside them.
fn among_services(within: PreemptWithin, bound: u32, services: JobBuilder) -> (Case, [JobId; 2]) {
    let mut case = Case::with(&[("a", 10)]);
    case.change_pool("/default", |pool| {
        pool.preempt_within = within;
        pool.priority.max = bound;
    });
    case.run_for(Span::seconds(6));
    case.most_unavailable.insert(JobId::new(case.born, 1 << 64), 4);
    let services = case.job(1, services);
    case.run_for(Span::seconds(3));
    assert_eq!(case.total_active(services), 10);
    let large = large(&mut case, 2, 9);
    (case, [services, large])
}

fn active(case: &Case, jobs: [JobId; 2]) -> [usize; 2] {
    jobs.map(|job| case.total_active(job))
}

#[test]
fn higher_priority_preempts_lower_priority_of_a_pool_that_bounds_it() {
    let (mut case, jobs) = among_services(PreemptWithin::Auto, 9, service(10).max_unavailable(4));
    case.run_for(Span::seconds(20));
    assert_eq!(active(&case, jobs), [10, 0], "not at once");
    case.run_for(Span::seconds(30));
    assert_eq!(active(&case, jobs), [6, 1]);
    case.run_for(Span::minutes(5));
    assert_eq!(active(&case, jobs), [6, 1], "and no more than is needed");
}

#[test]
fn batch_work_of_lower_priority_is_preempted_where_the_pool_says_so() {
    let long = batch(10);
    let (mut case, jobs) = among_services(PreemptWithin::LowerPriority, u32::MAX, long.clone());
    case.run_for(Span::minutes(1));
    assert_eq!(active(&case, jobs), [6, 1]);
    for (within, bound, long) in [
        (PreemptWithin::Auto, u32::MAX, long.clone()),
        (PreemptWithin::Never, 9, long.clone()),
        (PreemptWithin::LowerPriority, 9, long.clone().priority(9)),
    ] {
        let (mut case, jobs) = among_services(within, bound, long);
        case.run_for(Span::minutes(5));
        assert_eq!(active(&case, jobs), [10, 0], "{within:?} {bound}");
    }
}

#[test]
fn work_that_is_not_preemptible_is_not_stopped_for_higher_priority() {
    let mut case = Case::with(&[("a", 10)]);
    case.change_pool("/default", |pool| {
        pool.preempt_within = PreemptWithin::LowerPriority;
        pool.reservation.cpus = 10_000;
        pool.reservation.memory = 100_000;
    });
    case.run_for(Span::seconds(6));
    let firm = case.job(1, batch(10).not_preemptible());
    case.run_for(Span::seconds(3));
    let large = large(&mut case, 2, 9);
    case.run_for(Span::minutes(5));
    assert_eq!(active(&case, [firm, large]), [10, 0]);
}

#[test]
fn a_pool_at_its_limit_beside_free_hosts_preempts_within_itself() {
    let mut case = Case::with(&[("a", 20)]);
    case.set_pool("/small", 6);
    case.change_pool("/small", |pool| {
        pool.preempt_within = PreemptWithin::LowerPriority
    });
    case.run_for(Span::seconds(6));
    let low = case.job(1, batch(100).pool("/small"));
    case.run_for(Span::seconds(3));
    let high = case.sized(2, batch(1).shape(shape(4, 100)).priority(9).pool("/small"));
    case.run_for(Span::minutes(1));
    assert_eq!(active(&case, [low, high]), [2, 1]);
    case.run_for(Span::minutes(5));
    assert_eq!(active(&case, [low, high]), [2, 1]);
}

#[test]
fn nothing_more_is_preempted_within_a_pool_under_a_new_leader() {
    let (mut case, jobs) = among_services(PreemptWithin::LowerPriority, 9, batch(10));
    case.shard("a").dies_at_once = false;
    case.run_for(Span::seconds(40));
    let taken = |case: &Case| -> u64 {
        let slices = case.shards.values().flat_map(|s| s.slices.values());
        slices.map(|s| s.own.preempted).sum()
    };
    assert_eq!((active(&case, jobs), taken(&case)), ([10, 0], 4));
    case.fail_over();
    case.run_for(Span::minutes(2));
    assert_eq!(taken(&case), 4);
    case.at("a", |s, now| s.die(now));
    case.run_for(Span::seconds(5));
    assert_eq!((active(&case, jobs), taken(&case)), ([6, 1], 4));
}

#[test]
fn the_capacity_of_a_host_is_kept_for_a_granted_instance_that_finds_none() {
    let mut case = Case::with(&[("a", 10)]);
    let small = case.job(1, batch(6));
    case.run_for(Span::seconds(2));
    case.shard("a").unplaceable = Some(ReasonCode::HostResources);
    case.shard("a").keeps_hosts = true;
    let large = large(&mut case, 2, 0);
    case.run_for(Span::seconds(20));
    assert_eq!((case.total_active(small), case.total_active(large)), (6, 0));
    case.run_for(Span::seconds(20));
    assert_eq!((case.total_active(small), case.total_active(large)), (6, 1));
    assert!(case.rm.picture().preemption.all.is_empty());
}

#[test]
fn nothing_is_kept_for_a_job_whose_pool_is_gone() {
    let mut case = Case::with(&[("a", 10)]);
    case.set_pool("/x", 1_000_000);
    case.set_pool("/y", 1_000_000);
    case.run_for(Span::seconds(6));
    case.job(1, batch(20).pool("/x"));
    case.run_for(Span::seconds(2));
    case.shard("a").dies_at_once = false;
    case.job(2, batch(5).pool("/y"));
    case.run_for(Span::seconds(40));
    assert_eq!(case.rm.picture().preemption.all.len(), 1);
    case.remove_pool("/y");
    case.run_for(Span::seconds(10));
    assert!(case.rm.picture().preemption.all.is_empty());
}
