//! Instances that are bound where they cannot begin, and go back.

use crate::tests::case::{Case, batch, service};
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::siting::Constraint;
use echelon_core_model::{JobId, ReasonCode, Span};
use echelon_core_testkit::build::{JobBuilder, shape};

#[test]
fn a_gang_is_bound_where_the_sum_of_its_groups_fits() {
    let mut case = Case::with(&[("a", 10)]);
    // By memory four of the large ones would fit alone, and by cores five of the others.
    let gang = batch(4)
        .shape(shape(1, 22_000))
        .with_group("ps", 2, shape(2, 1_000))
        .gang();
    let job = case.job(1, gang);
    case.run_for(Span::seconds(2));
    assert_eq!(case.active(job), [("a", 6)]);
}

#[test]
fn a_service_is_bound_in_steps_and_none_of_it_stays_at_a_full_cluster() {
    for clusters in [[("a", 1), ("b", 900)], [("a", 900), ("b", 1)]] {
        let mut case = Case::with(&clusters);
        let job = case.job(1, service(600));
        case.run_for(Span::seconds(60));
        assert_eq!(case.total_active(job), 600, "{clusters:?}: {}", case.ranges(job));
    }
}

#[test]
fn batch_work_at_its_most_running_comes_to_rest() {
    let mut case = Case::with(&[("a", 10), ("b", 10)]);
    let job = case.job(1, batch(30).max_running(10));
    case.run_for(Span::minutes(1));
    assert_eq!(case.total_active(job), 10);
    let bound = case.ranges(job);
    let writes = case.rm.written.clone();
    case.run_for(Span::minutes(2));
    assert_eq!(case.ranges(job), bound);
    assert_eq!(case.rm.written, writes);
}

#[test]
fn the_last_index_that_is_bound_ahead_goes_where_it_can_begin() {
    let mut case = Case::with(&[("a", 4)]);
    let job = case.job(1, batch(5));
    case.run_for(Span::seconds(5));
    assert_eq!(case.total_active(job), 4);
    case = case.cluster("b", 4);
    case.run_for(Span::seconds(60));
    assert_eq!(case.active(job), [("a", 4), ("b", 1)], "{}", case.ranges(job));
}

#[test]
fn what_is_bound_ahead_at_a_full_cluster_gets_what_no_other_pool_can_use() {
    let mut case = Case::with(&[("a", 4), ("b", 4)]);
    for pool in ["/x", "/y"] {
        case.set_pool(pool, 1_000_000);
        case.change_pool(pool, |p| p.reservation.cpus = 4000);
    }
    let other = case.job(1, service(6).pool("/y").only(&["a"]));
    let job = case.job(2, batch(5).pool("/x").only(&["b", "c"]));
    case.run_for(Span::seconds(5));
    assert_eq!(
        (case.active(other), case.active(job)),
        (vec![("a", 4)], vec![("b", 4)])
    );
    assert_eq!(case.ranges(job), "0-4@b.1", "one is bound ahead");
    // Each pool is entitled to half of the new core, and only one of them can use it.
    case = case.cluster("c", 1);
    case.run_for(Span::minutes(1));
    assert_eq!(case.active(job), [("b", 4), ("c", 1)], "{}", case.ranges(job));
}

#[test]
fn what_is_bound_ahead_at_a_full_cluster_is_requested_where_others_have_more_than_their_own() {
    let mut case = Case::with(&[("a", 4), ("b", 2)]);
    for pool in ["/x", "/y"] {
        case.set_pool(pool, 1_000_000);
    }
    let other = case.job(1, batch(8).pool("/x").only(&["a"]));
    case.run_for(Span::seconds(5));
    let claimant = case.job(2, batch(6).pool("/y"));
    case.run_for(Span::minutes(3));
    // Each pool is entitled to three cores.
    let active = [case.active(other), case.active(claimant)];
    assert_eq!(
        active,
        [vec![("a", 3)], vec![("a", 1), ("b", 2)]],
        "{}",
        case.ranges(claimant)
    );
    let before = taken(&case);
    case.run_for(Span::minutes(5));
    assert_eq!((before, taken(&case)), (1, 1), "nothing goes to and fro");
}

#[test]
fn a_draining_cluster_out_of_reach_holds_up_no_other() {
    let mut case = Case::with(&[("a", 300), ("b", 4), ("c", 400)]);
    case.desire("c", DesiredState::Cordoned);
    let large = case.job(1, batch(300).only(&["a"]));
    let small = case.job(2, service(4).only(&["b", "c"]));
    case.run_for(Span::seconds(5));
    assert_eq!((case.total_active(large), case.total_active(small)), (300, 4));
    // More than leave at once wait there, and its shard is not heard.
    case.shard("a").unplaceable = Some(ReasonCode::HostResources);
    let waiting = case.job(3, batch(250).only(&["a"]).shape(shape(0, 1)));
    case.run_for(Span::seconds(2));
    assert_eq!(case.total_active(waiting), 0);
    case.desire("c", DesiredState::Active);
    case.desire("a", DesiredState::Draining);
    case.cut("a");
    case.desire("b", DesiredState::Draining);
    case.run_for(Span::minutes(2));
    assert_eq!(case.active(small), [("c", 4)]);
}

#[test]
fn a_drain_waits_for_what_a_fault_has_taken_of_a_service_elsewhere() {
    let mut case = Case::with(&[("a", 8), ("c", 8)]);
    let job = case.job(1, service(4).spread());
    assert_eq!(case.active(job), [("a", 2), ("c", 2)]);
    case = case.cluster("b", 8);
    case.shard("c").unplaceable = Some(ReasonCode::HostResources);
    case.at("c", |shard, now| shard.lose_host_of(job, 1, now));
    case.desire("a", DesiredState::Draining);
    case.run_for(Span::seconds(5));
    assert_eq!(
        case.shard("a").active_of_job(job),
        2,
        "one is unavailable already"
    );
    // It finds a host at the third cluster after a while, and those of the first one follow.
    case.run_for(Span::minutes(2));
    assert_eq!(case.active(job), [("b", 3), ("c", 1)]);
}

#[test]
fn what_waits_for_its_next_run_does_not_hold_up_a_drain() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    let job = case.job(1, service(4).spread());
    assert_eq!(case.active(job), [("a", 2), ("b", 2)]);
    // It rests for good, as what fails again and again does for most of the time.
    case.shard("a").unplaceable = Some(ReasonCode::CrashLooping);
    case.at("a", |shard, now| shard.lose_host_of(job, 1, now));
    case.desire("a", DesiredState::Draining);
    case.run_for(Span::minutes(1));
    assert_eq!(case.active(job), [("b", 4)]);
}

#[test]
fn a_gang_that_has_not_begun_leaves_a_draining_cluster_although_no_other_has_capacity() {
    let mut case = Case::with(&[("a", 4), ("b", 4)]);
    let other = case.job(1, service(4).only(&["b"]));
    case.shard("a").unplaceable = Some(ReasonCode::HostResources);
    let job = case.job(2, batch(3).gang());
    case.run_for(Span::seconds(5));
    assert_eq!((case.total_active(other), case.total_active(job)), (4, 0));
    assert_eq!(case.ranges(job), "0-2@a.1");
    case.desire("a", DesiredState::Draining);
    case.run_for(Span::seconds(30));
    assert_eq!(case.ranges(job), "", "it is bound nowhere");
    case.scale(other, 1);
    case.run_for(Span::seconds(30));
    assert_eq!(case.active(job), [("b", 3)]);
}

/// Two clusters and two pools; the hosts of the second cluster meet no constraint.
fn constrained(b_cores: u64) -> Case {
    let mut case = Case::with(&[("a", 10), ("b", b_cores)]);
    case.set_pool("/x", 1_000_000);
    case.set_pool("/y", 1_000_000);
    case.shard("b").constrained_cores = Some(0);
    case.run_for(Span::seconds(6));
    case
}

/// Batch work with a constraint.
fn zoned(instances: u32) -> JobBuilder {
    batch(instances).group(|g| g.constraints = vec![Constraint::one_of("zone", &["x"])])
}

fn taken(case: &Case) -> u64 {
    let slices = case.shards.values().flat_map(|s| s.slices.values());
    slices.map(|s| s.own.preempted).sum()
}

#[test]
fn capacity_is_made_where_hosts_can_hold_what_it_is_made_for() {
    let mut case = constrained(10);
    case.job(1, batch(60).pool("/x"));
    case.run_for(Span::seconds(8));
    let claimants = [2, 3, 4, 5].map(|n| case.job(n, zoned(1).pool("/y")));
    case.run_for(Span::minutes(3));
    for job in claimants {
        assert_eq!(case.active(job), [("a", 1)]);
    }
    assert_eq!(taken(&case), 4);
}

#[test]
fn capacity_of_hosts_that_cannot_hold_it_keeps_nothing_from_being_preempted() {
    // Of the second cluster three cores are free.
    let mut case = constrained(7);
    case.job(1, batch(60).pool("/x").only(&["a"]));
    case.job(2, batch(30).pool("/x").shape(shape(4, 100)).only(&["b"]));
    case.run_for(Span::seconds(8));
    // Each pool is entitled to 8.5 cores, and the first has 14.
    let job = case.job(3, zoned(10).pool("/y"));
    case.run_for(Span::minutes(2));
    assert_eq!(case.active(job), [("a", 6)]);
}

#[test]
fn work_that_finds_no_host_goes_where_there_is_capacity_before_others_are_stopped() {
    let mut case = Case::with(&[("a", 10)]);
    case.set_pool("/x", 1_000_000);
    case.set_pool("/y", 1_000_000);
    case.run_for(Span::seconds(6));
    case.job(1, batch(8).pool("/x"));
    case.run_for(Span::seconds(2));
    case.shard("a").unplaceable = Some(ReasonCode::HostResources);
    let job = case.job(2, batch(2).pool("/y"));
    case.run_for(Span::seconds(3));
    case = case.cluster("c", 4);
    case.run_for(Span::seconds(26));
    assert_eq!((case.active(job), taken(&case)), (vec![("c", 2)], 0));
}

#[test]
fn work_that_finds_no_host_makes_way_for_what_its_cluster_has_hosts_for() {
    let mut case = Case::with(&[("a", 10)]);
    case.shard("a").largest_piece = Some(1);
    case.shard("a").keeps_hosts = true;
    case.job(1, service(8));
    case.run_for(Span::seconds(2));
    let large = case.sized(2, batch(1).shape(shape(2, 100)));
    case.run_for(Span::seconds(2));
    let small = case.job(3, service(4));
    case.run_for(Span::minutes(9));
    assert_eq!(case.total_active(small), 0, "a host is kept for the other one");
    case.run_for(Span::minutes(3));
    assert_eq!((case.total_active(large), case.total_active(small)), (0, 2));
}

#[test]
fn what_has_run_and_lost_its_host_goes_where_there_is_capacity() {
    for job in [batch(6), service(6)] {
        let mut case = Case::with(&[("a", 6)]);
        let job = case.job(1, job);
        case.run_for(Span::seconds(2));
        case = case.cluster("b", 4);
        case.run_for(Span::seconds(10));
        assert_eq!(case.active(job), [("a", 6)]);
        case.at("a", |shard, now| shard.lose_host_of(job, 2, now));
        case.run_for(Span::seconds(10));
        assert_eq!(case.active(job), [("a", 4)], "its cluster may have a host soon");
        case.run_for(Span::seconds(30));
        assert_eq!(case.active(job), [("a", 4), ("b", 2)], "{}", case.ranges(job));
    }
}

#[test]
fn what_has_run_and_lost_its_host_stays_where_no_other_cluster_has_capacity() {
    let mut case = Case::with(&[("a", 6), ("b", 2)]);
    let other = case.job(1, service(2).only(&["b"]));
    case.run_for(Span::seconds(2));
    let job = case.job(2, service(6));
    case.run_for(Span::seconds(2));
    case.at("a", |shard, now| shard.lose_host_of(job, 2, now));
    let bound = case.ranges(job);
    case.run_for(Span::minutes(5));
    assert_eq!((case.active(job), case.ranges(job)), (vec![("a", 4)], bound));
    case.shard("a").cores += 2;
    case.at("a", |shard, now| shard.full(now));
    case.run_for(Span::seconds(5));
    assert_eq!((case.active(job), case.total_active(other)), (vec![("a", 6)], 2));
}

#[test]
fn capacity_is_made_for_what_has_run_and_lost_its_host() {
    let mut case = Case::with(&[("a", 12)]);
    case.set_pool("/x", 1_000_000);
    case.set_pool("/y", 1_000_000);
    let has_more = case.job(1, batch(20).pool("/x"));
    case.run_for(Span::seconds(2));
    let job = case.job(2, service(4).pool("/y"));
    case.run_for(Span::minutes(2));
    assert_eq!((case.total_active(has_more), case.total_active(job)), (8, 4));
    // Each pool is entitled to five cores.
    case.at("a", |shard, now| shard.lose_host_of(job, 2, now));
    case.run_for(Span::minutes(2));
    assert_eq!((case.total_active(has_more), case.total_active(job)), (6, 4));
}

#[test]
fn two_groups_of_a_job_get_capacity_each() {
    let mut case = Case::with(&[("a", 20)]);
    case.set_pool("/x", 1_000_000);
    case.set_pool("/y", 1_000_000);
    case.run_for(Span::seconds(6));
    case.job(1, batch(60).pool("/x"));
    case.run_for(Span::seconds(2));
    let job = case.job(2, batch(3).with_group("ps", 3, shape(1, 100)).pool("/y"));
    case.run_for(Span::seconds(45));
    assert_eq!((case.total_active(job), taken(&case)), (6, 6));
}

#[test]
fn a_step_of_binding_takes_nothing_from_the_next_cluster() {
    for clusters in [[("a", 101), ("b", 2_000)], [("a", 2_000), ("b", 101)]] {
        let mut case = Case::with(&clusters);
        let job = case.job(1, batch(1_000));
        case.run_for(Span::seconds(5));
        assert_eq!(
            case.total_active(job),
            1_000,
            "{clusters:?}: {}",
            case.ranges(job)
        );
    }
}

/// A job that is granted at the first of the clusters `a` and `b` and cannot begin there, for this reason. At the other
/// one it can.
pub fn held_up(case: &mut Case, spec: JobBuilder, reason: ReasonCode) -> (JobId, &'static str, &'static str) {
    for cluster in ["a", "b"] {
        case.shard(cluster).unplaceable = Some(reason);
    }
    let job = case.job(1, spec);
    case.run_for(Span::seconds(5));
    let (home, other) = if case.ranges(job).contains("@a") {
        ("a", "b")
    } else {
        ("b", "a")
    };
    case.shard(other).unplaceable = None;
    (job, home, other)
}

/// Offers do not come since another framework holds them, or the shard cannot store an intent, for example.
#[test]
fn what_is_granted_and_cannot_begin_goes_elsewhere_whatever_it_waits_for() {
    for reason in [
        ReasonCode::AwaitingOffer,
        ReasonCode::StorageUnavailable,
        ReasonCode::NoVolumes,
    ] {
        let mut case = Case::with(&[("a", 10), ("b", 10)]);
        let (job, home, other) = held_up(&mut case, service(2), reason);
        case.run_for(Span::seconds(30));
        assert_eq!(case.active(job), [(other, 2)], "{reason:?} at {home}");
    }
}

/// With room for it nowhere else it keeps its place and its grant: offers may come.
#[test]
fn what_is_not_offered_a_host_stays_where_no_other_cluster_has_capacity() {
    let mut case = Case::with(&[("a", 10), ("b", 10)]);
    case.desire("b", DesiredState::Cordoned);
    case.shard("a").unplaceable = Some(ReasonCode::AwaitingOffer);
    let job = case.job(1, service(2));
    let other = case.job(2, service(9));
    case.run_for(Span::minutes(2));
    assert_eq!(case.ranges(job), "0-1@a.1");
    assert_eq!(case.total_active(other), 0);
    case.shard("a").unplaceable = None;
    case.run_for(Span::seconds(5));
    assert_eq!(case.active(job), [("a", 2)]);
}

#[test]
fn what_no_host_takes_is_tried_less_and_less_often() {
    let mut case = Case::with(&[("a", 10), ("b", 10)]);
    for cluster in ["a", "b"] {
        case.shard(cluster).unplaceable = Some(ReasonCode::HostResources);
    }
    let job = case.job(1, batch(2));
    let writes = |case: &Case| case.rm.written.values().sum::<u64>();
    case.run_for(Span::minutes(2));
    let first = writes(&case);
    case.run_for(Span::minutes(10));
    let before = writes(&case);
    case.run_for(Span::minutes(2));
    let later = writes(&case) - before;
    assert!(later * 2 <= first, "{first} writes at first, {later} later");
    case.shard("b").unplaceable = None;
    case.run_for(Span::minutes(4));
    assert_eq!(case.active(job), [("b", 2)]);
}

/// Indexes that were returned have a new generation, and no grant of their own there.
#[test]
fn what_is_bound_ahead_again_stays() {
    let mut case = Case::with(&[("a", 8)]);
    case.set_pool("/x", 2);
    case.run_for(Span::seconds(6));
    let job = case.job(1, batch(8).pool("/x"));
    case.run_for(Span::seconds(2));
    assert_eq!(case.total_active(job), 2);
    case.desire("a", DesiredState::Draining);
    case.run_for(Span::seconds(15));
    let kept = case.ranges(job);
    assert_eq!((kept.as_str(), case.total_active(job)), ("0-1@a.1", 2));
    case.desire("a", DesiredState::Active);
    case.run_for(Span::seconds(15));
    let bound = case.ranges(job);
    assert!(
        bound.starts_with("0-1@a.1 2") && bound.ends_with("@a.2"),
        "{bound}"
    );
    case.trace.clear();
    case.run_for(Span::seconds(60));
    assert_eq!(case.ranges(job), bound);
    let writes = case.trace.iter().filter(|t| t.starts_with("store assignment"));
    assert_eq!(writes.count(), 0);
}
