//! Daemons: as many instances at each cluster as its shard counts hosts, however these come and go.

use crate::tests::case::{Case, batch};
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::job::JobState;
use echelon_core_model::{ClusterId, JobId, RangeSet, ReasonCode, Span};
use echelon_core_testkit::build::JobBuilder;

fn daemon() -> JobBuilder {
    JobBuilder::daemon("agent")
}

/// Two clusters of which the first counts three hosts and the second two, and a daemon.
fn case() -> (Case, JobId) {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    case.shard("a").hosts_of_daemons = Some(3);
    case.shard("b").hosts_of_daemons = Some(2);
    let job = case.job(1, daemon());
    case.run_for(Span::seconds(3));
    (case, job)
}

fn at(case: &Case, name: &str) -> RangeSet {
    let shard = &case.shards[&ClusterId::new(name)];
    let all = shard.slices.values();
    all.fold(RangeSet::new(), |sum, slice| sum.union(&slice.active))
}

fn assigned(case: &Case, job: JobId, name: &str) -> u64 {
    let job = case.rm.picture().facts.jobs.get(&job).unwrap();
    let ranges = job.durable.groups.values().flatten();
    let here = ranges.filter(|r| r.cluster == ClusterId::new(name));
    here.map(|r| r.range.count()).sum()
}

#[test]
fn each_cluster_has_as_many_as_it_counts_hosts() {
    let (case, job) = case();
    assert_eq!((at(&case, "a").count(), at(&case, "b").count()), (3, 2));
    assert_eq!(case.state(job), Some(JobState::Running));
    assert_eq!(case.waiting(job), []);
}

#[test]
fn a_host_that_joins_gets_one_and_nothing_moves() {
    let (mut case, _) = case();
    let before = (at(&case, "a"), at(&case, "b"));
    case.at("b", |s, now| s.count_hosts(4, now));
    case.run_for(Span::seconds(2));
    assert_eq!(at(&case, "a"), before.0);
    assert_eq!(at(&case, "b").intersect(&before.1), before.1);
    assert_eq!(at(&case, "b").count(), 4);
}

#[test]
fn the_number_of_a_host_that_is_gone_is_given_back_and_no_other_is_stopped() {
    let (mut case, job) = case();
    let before = at(&case, "a");
    case.at("a", |s, now| s.lose_hosts(1, now));
    case.run_for(Span::seconds(5));
    assert_eq!(at(&case, "a"), before.minus(&before.lowest(1)));
    assert_eq!(assigned(&case, job, "a"), 2);
    assert_eq!(case.waiting(job), []);
    case.at("a", |s, now| s.count_hosts(3, now));
    case.run_for(Span::seconds(2));
    assert_eq!(at(&case, "a").count(), 3);
}

#[test]
fn without_hosts_there_is_none_and_the_first_one_that_joins_gets_one() {
    let mut case = Case::with(&[("a", 8)]);
    case.shard("a").hosts_of_daemons = Some(0);
    let job = case.job(1, daemon());
    case.run_for(Span::seconds(5));
    assert_eq!((at(&case, "a").count(), assigned(&case, job, "a")), (0, 0));
    assert_eq!(case.waiting(job), []);
    case.at("a", |s, now| s.count_hosts(1, now));
    case.run_for(Span::seconds(2));
    assert_eq!(at(&case, "a").count(), 1);
}

#[test]
fn a_cluster_that_is_added_gets_its_own() {
    let (mut case, _) = case();
    case = case.cluster("c", 8);
    case.shard("c").hosts_of_daemons = Some(2);
    case.fail_over();
    case.run_for(Span::seconds(20));
    assert_eq!(at(&case, "c").count(), 2);
    assert_eq!((at(&case, "a").count(), at(&case, "b").count()), (3, 2));
}

#[test]
fn a_shard_that_does_not_know_its_hosts_yet_loses_none() {
    let (mut case, job) = case();
    for shard in case.shards.values_mut() {
        shard.hosts_of_daemons = None;
    }
    case.fail_over();
    case.run_for(Span::minutes(2));
    assert_eq!((at(&case, "a").count(), at(&case, "b").count()), (3, 2));
    assert_eq!(assigned(&case, job, "a") + assigned(&case, job, "b"), 5);
}

#[test]
fn a_cluster_that_takes_nothing_new_keeps_what_it_has() {
    let (mut case, _) = case();
    case.desire("a", DesiredState::Cordoned);
    case.at("a", |s, now| s.count_hosts(5, now));
    case.run_for(Span::seconds(3));
    assert_eq!(at(&case, "a").count(), 3);
    case.desire("a", DesiredState::Active);
    case.run_for(Span::seconds(3));
    assert_eq!(at(&case, "a").count(), 5);
}

#[test]
fn a_full_pool_bounds_it_and_it_goes_before_the_others_of_its_pool() {
    let mut case = Case::with(&[("a", 8)]).pool("/small", 3);
    case.fail_over();
    case.shard("a").hosts_of_daemons = None;
    let small = |job: JobBuilder| job.pool("/small");
    let others = case.job(1, small(batch(2).priority(1_000)));
    case.shard("a").hosts_of_daemons = Some(5);
    let job = case.job(2, small(daemon()));
    case.run_for(Span::seconds(3));
    assert_eq!(case.total_active(job), 1, "what runs is not stopped for it");
    let (reason, _) = case.waiting(job)[0];
    assert_eq!(reason, ReasonCode::PoolLimit);
    let third = case.job(3, small(batch(4).priority(1_000)));
    case.want(others, echelon_core_model::job::Desired::Stopped);
    case.run_for(Span::seconds(3));
    assert_eq!((case.total_active(job), case.total_active(third)), (3, 0));
}

fn ranges(case: &Case, job: JobId) -> usize {
    let job = case.rm.picture().facts.jobs.get(&job).unwrap();
    job.durable.groups.values().map(Vec::len).sum()
}

#[test]
fn hosts_that_join_one_by_one_at_two_clusters_cut_the_assignment_into_few_ranges() {
    let (mut case, job) = case();
    for hosts in 4..=300 {
        for name in ["a", "b"] {
            case.at(name, |s, now| s.count_hosts(hosts, now));
            case.run_for(Span::millis(100));
        }
    }
    case.run_for(Span::seconds(2));
    assert_eq!((assigned(&case, job, "a"), assigned(&case, job, "b")), (300, 300));
    assert_eq!(ranges(&case, job), 4, "two spans of 256 each");
}
