//! Gangs: all instances of all groups begin together on one cluster, or none does.

use crate::tests::case::{Case, batch, service};
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::job::JobState;
use echelon_core_model::{JobId, ReasonCode, RunState, Span};
use echelon_core_testkit::build::{JobBuilder, shape};

/// A gang of so many in its first group, and so many in its second.
fn gang(first: u32, second: u32) -> JobBuilder {
    batch(first).with_group("ps", second, shape(1, 64)).gang()
}

#[test]
fn a_gang_of_two_groups_begins_whole_or_not_at_all() {
    let mut case = Case::with(&[("a", 10)]);
    let small = case.job(1, batch(4));
    let job = case.job(2, gang(5, 2));
    case.run_for(Span::seconds(3));
    assert_eq!((case.total_active(small), case.total_active(job)), (4, 0));
    assert_eq!(
        case.waiting(job),
        [
            (ReasonCode::NoClusterCapacity, 5),
            (ReasonCode::NoClusterCapacity, 2)
        ]
    );
    let told = case.progress(job).unwrap().waiting[0].reason.to_string();
    assert!(told.contains("cpus needs 7, has at most 6"), "{told}");
    case.at("a", |s, now| s.finish(1, RunState::Succeeded, now));
    case.run_for(Span::seconds(1));
    assert_eq!((case.total_active(small), case.total_active(job)), (3, 7));
}

#[test]
fn what_fits_behind_a_waiting_gang_is_not_blocked() {
    let mut case = Case::with(&[("a", 10)]);
    case.job(1, service(6));
    let job = case.job(2, gang(4, 3));
    let behind = case.job(3, batch(2));
    case.run_for(Span::seconds(2));
    assert_eq!((case.total_active(job), case.total_active(behind)), (0, 2));
}

#[test]
fn members_that_have_ended_are_not_waited_for_and_one_that_follows_asks_for_nothing() {
    let mut case = Case::with(&[("a", 10)]);
    let job = case.job(1, gang(4, 3));
    assert_eq!(case.total_active(job), 7);
    case.at("a", |s, now| s.finish(2, RunState::Succeeded, now));
    let other = case.job(2, service(9));
    case.run_for(Span::seconds(2));
    assert_eq!((case.total_active(job), case.total_active(other)), (5, 5));
}

#[test]
fn a_gang_goes_where_all_of_it_has_room() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    let filler = case.job(9, service(6).spread());
    assert_eq!(case.active(filler), [("a", 3), ("b", 3)]);
    // Nowhere are there six of its cores; together there would be ten.
    let job = case.job(1, gang(3, 3));
    case.run_for(Span::seconds(30));
    assert_eq!(case.total_active(job), 0);
    let home = if case.ranges(job).contains("@a") { "a" } else { "b" };
    let other = if home == "a" { "b" } else { "a" };
    case.shard(other).cores += 1;
    case.run_for(Span::seconds(40));
    assert_eq!(case.active(job), [(other, 6)]);
}

#[test]
fn a_gang_that_is_not_offered_enough_goes_where_it_is() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    for cluster in ["a", "b"] {
        case.shard(cluster).unplaceable = Some(ReasonCode::AwaitingOffer);
    }
    let job = case.job(1, gang(4, 2));
    case.run_for(Span::seconds(5));
    let assigned = &case.rm.picture().facts.jobs.get(&job).unwrap().durable;
    let at_a = assigned.holders.keys().any(|c| c.as_str() == "a");
    let other = if at_a { "b" } else { "a" };
    case.shard(other).unplaceable = None;
    case.run_for(Span::seconds(30));
    assert_eq!(case.total_active(job), 0, "offers may still come");
    case.run_for(Span::seconds(40));
    assert_eq!(case.total_active(job), 6);
    assert!(case.active(job).iter().all(|(cluster, _)| *cluster == other));
}

#[test]
fn what_no_cluster_can_hold_whole_says_so() {
    let mut case = Case::with(&[("a", 4), ("b", 6)]);
    let job = case.job(1, gang(5, 3));
    case.run_for(Span::seconds(2));
    assert_eq!(
        case.assignment(job).map(|a| a.groups.len()).unwrap_or_default(),
        0
    );
    let told = case.progress(job).unwrap().waiting[0].reason.to_string();
    assert!(
        told.contains("cpus needs 8, has at most 6") && told.contains("large enough for its whole gang"),
        "{told}"
    );
    case.shard("b").cores = 8;
    case.run_for(Span::seconds(10));
    assert_eq!(case.active(job), [("b", 8)]);
}

#[test]
fn a_gang_beyond_its_pools_entitlement_waits_and_says_so() {
    let mut case = Case::with(&[("a", 10)]);
    case.set_pool("/x", 1_000_000);
    case.run_for(Span::seconds(6));
    case.job(1, service(10));
    let job = case.job(2, gang(4, 3).pool("/x"));
    case.run_for(Span::seconds(5));
    assert_eq!(case.total_active(job), 0);
    let codes: Vec<ReasonCode> = case.waiting(job).iter().map(|(code, _)| *code).collect();
    assert!(
        codes
            .iter()
            .all(|c| matches!(c, ReasonCode::PoolEntitlement | ReasonCode::NoClusterCapacity)),
        "{codes:?}"
    );
}

#[test]
fn a_limit_on_instances_counts_all_of_a_gang() {
    let mut case = Case::with(&[("a", 10)]);
    case.change_pool("/default", |p| p.max_instances = 6);
    case.run_for(Span::seconds(6));
    let job = case.job(1, gang(4, 3));
    case.run_for(Span::seconds(2));
    assert_eq!(case.total_active(job), 0);
    let codes: Vec<ReasonCode> = case.waiting(job).iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, [ReasonCode::PoolInstances, ReasonCode::PoolInstances]);
    case.change_pool("/default", |p| p.max_instances = 7);
    case.run_for(Span::seconds(6));
    assert_eq!(case.total_active(job), 7);
}

#[test]
fn a_gang_leaves_a_draining_cluster_whole() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    let job = case.job(1, gang(3, 2));
    let [(home, 5)] = case.active(job)[..] else {
        panic!("{:?}", case.active(job));
    };
    let home = home.to_owned();
    let other = if home == "a" { "b" } else { "a" };
    case.desire(&home, DesiredState::Draining);
    case.run_for(Span::seconds(40));
    assert_eq!(case.active(job), [(other, 5)]);
}

#[test]
fn a_gang_that_has_ended_does_not_leave_a_draining_cluster() {
    let mut case = Case::with(&[("a", 8), ("b", 4)]);
    let job = case.job(1, gang(4, 3));
    case.desire("a", DesiredState::Draining);
    case.run_for(Span::seconds(5));
    assert_eq!(case.active(job), [("a", 7)], "no other cluster has room");
    case.at("a", |s, now| s.finish(7, RunState::Succeeded, now));
    case.run_for(Span::seconds(3));
    assert_eq!(case.progress(job).unwrap().state, JobState::Succeeded);
}

#[test]
fn a_new_leader_takes_a_gang_over_as_it_is() {
    let mut case = Case::with(&[("a", 10)]);
    let jobs: [JobId; 2] = [case.job(1, gang(3, 2)), case.job(2, gang(3, 3))];
    case.run_for(Span::seconds(2));
    assert_eq!(jobs.map(|j| case.total_active(j)), [5, 0]);
    case.fail_over();
    case.run_for(Span::seconds(10));
    assert_eq!(jobs.map(|j| case.total_active(j)), [5, 0]);
    case.at("a", |s, now| s.finish(1, RunState::Succeeded, now));
    case.run_for(Span::seconds(2));
    assert_eq!(jobs.map(|j| case.total_active(j)), [4, 6]);
}

/// Ten cores in use by work that ends within a minute, then a gang of six, then work without an end.
fn behind_what_ends() -> (Case, [JobId; 3]) {
    let mut case = Case::with(&[("a", 10)]);
    let ending = case.job(1, batch(10).max_run(Span::minutes(1)).retry_limit(1));
    let gang = case.job(2, gang(4, 2));
    let small = case.job(3, batch(20));
    case.run_for(Span::seconds(3));
    assert_eq!([ending, gang, small].map(|j| case.total_active(j)), [10, 0, 0]);
    (case, [ending, gang, small])
}

#[test]
fn room_is_kept_together_for_a_gang_as_what_is_there_ends() {
    let (mut case, [ending, gang, small]) = behind_what_ends();
    let told = case.progress(gang).unwrap().waiting[0].reason.to_string();
    assert!(
        told.contains("capacity is kept for it as other work ends")
            && told.contains("on a, all of it by 1970-01-02"),
        "{told}"
    );
    case.at("a", |s, now| s.finish(5, RunState::Succeeded, now));
    case.run_for(Span::seconds(2));
    let active = |case: &Case| [ending, gang, small].map(|j| case.total_active(j));
    assert_eq!(active(&case), [5, 0, 0], "five are kept");
    case.at("a", |s, now| s.finish(1, RunState::Succeeded, now));
    case.run_for(Span::seconds(2));
    assert_eq!(active(&case), [4, 6, 0]);
    case.at("a", |s, now| s.finish(2, RunState::Succeeded, now));
    case.run_for(Span::seconds(2));
    assert_eq!(active(&case), [2, 6, 2], "then it is for others again");
}

#[test]
fn what_ends_before_a_gang_needs_its_room_may_use_it() {
    let (mut case, [_, gang, small]) = behind_what_ends();
    let short = case.job(4, batch(2).max_run(Span::seconds(10)).retry_limit(1));
    let long = case.job(5, batch(2).max_run(Span::minutes(2)).retry_limit(1));
    case.at("a", |s, now| s.finish(5, RunState::Succeeded, now));
    case.run_for(Span::seconds(2));
    assert_eq!(
        [gang, small, short, long].map(|j| case.total_active(j)),
        [0, 0, 2, 0]
    );
}

#[test]
fn a_gang_in_whose_way_nothing_ends_keeps_nobody_waiting_and_says_so() {
    let mut case = Case::with(&[("a", 10)]);
    case.job(1, batch(10));
    let gang = case.job(2, gang(4, 2));
    let small = case.job(3, batch(20));
    case.run_for(Span::seconds(3));
    case.at("a", |s, now| s.finish(3, RunState::Succeeded, now));
    case.run_for(Span::seconds(3));
    assert_eq!([gang, small].map(|j| case.total_active(j)), [0, 3]);
    let told: Vec<ReasonCode> = case.waiting(gang).into_iter().map(|(code, _)| code).collect();
    assert!(
        told.iter().all(|c| matches!(
            c,
            ReasonCode::GangBlocked | ReasonCode::NoClusterCapacity | ReasonCode::PoolClusterHeld
        )),
        "{told:?}"
    );
}

#[test]
fn who_comes_before_a_gang_is_kept_from_nothing() {
    let (mut case, [_, gang, _]) = behind_what_ends();
    let first = case.job(4, batch(3).priority(5));
    case.at("a", |s, now| s.finish(5, RunState::Succeeded, now));
    case.run_for(Span::seconds(2));
    assert_eq!([gang, first].map(|j| case.total_active(j)), [0, 3]);
}

#[test]
fn in_a_pool_beside_others_a_gang_is_not_starved_by_younger_work_of_its_own() {
    let mut case = Case::with(&[("a", 20)]);
    case.set_pool("/x", 1_000_000);
    case.set_pool("/y", 1_000_000);
    case.run_for(Span::seconds(6));
    case.job(9, service(40).pool("/y"));
    let ending = case.job(1, batch(10).pool("/x").max_run(Span::minutes(1)).retry_limit(1));
    case.run_for(Span::seconds(60));
    assert_eq!(case.total_active(ending), 10);
    let gang = case.job(10, gang(4, 2).pool("/x"));
    let small = case.job(11, batch(20).pool("/x"));
    case.run_for(Span::seconds(3));
    for _ in 0..6 {
        let left = case.total_active(ending) as u64;
        case.at("a", |s, now| s.finish_of(ending, 1, RunState::Succeeded, now));
        case.run_for(Span::seconds(2));
        assert_eq!(case.total_active(ending) as u64, left - 1);
        if left - 1 > 4 {
            assert_eq!([gang, small].map(|j| case.total_active(j)), [0, 0]);
        }
    }
    case.run_for(Span::seconds(2));
    assert_eq!([gang, small].map(|j| case.total_active(j)), [6, 0]);
}

#[test]
fn a_gang_does_not_wait_for_its_date_where_others_have_more_than_their_own() {
    let mut case = Case::with(&[("a", 20)]);
    for pool in ["/x", "/y", "/z"] {
        case.set_pool(pool, 1_000_000);
    }
    case.run_for(Span::seconds(6));
    let dated = batch(6).pool("/z").max_run(Span::minutes(10)).retry_limit(1);
    let dated = case.job(1, dated);
    let other = case.job(2, batch(14).pool("/y"));
    case.run_for(Span::seconds(2));
    let gang = case.job(3, gang(4, 2).pool("/x"));
    case.run_for(Span::seconds(5));
    let active = |case: &Case| [dated, other, gang].map(|j| case.total_active(j));
    assert_eq!(active(&case), [6, 14, 0]);
    assert!(
        case.waiting(gang).contains(&(ReasonCode::CapacityHold, 4)),
        "{:?}",
        case.waiting(gang)
    );
    case.run_for(Span::seconds(60));
    assert_eq!(active(&case), [6, 8, 6]);
}
