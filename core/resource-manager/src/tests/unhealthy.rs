//! Clusters that cannot start work: new work goes elsewhere, and so does what was granted there and has not begun.

use crate::tests::case::{Case, batch, service};
use crate::tests::lost::lose_mesos;
use echelon_core_model::directive::ReportPart;
use echelon_core_model::health::{Health, ShardSigns};
use echelon_core_model::platform::PlatformCause;
use echelon_core_model::spec::OnSilence;
use echelon_core_model::starts::{GroupStarts, HostHash, StartCounts, StartGroup};
use echelon_core_model::{JobId, ReasonCode, Span};

/// Sets what the shard of a cluster observes, and has it reported.
fn observe(case: &mut Case, cluster: &str, signs: ShardSigns) {
    case.shard(cluster).signs = signs;
    case.at(cluster, |shard, now| shard.full(now));
}

fn find_mesos(case: &mut Case, cluster: &str) {
    case.shard(cluster).unplaceable = None;
    let signs = ShardSigns {
        subscribed: true,
        ..ShardSigns::default()
    };
    observe(case, cluster, signs);
}

fn health(case: &Case, cluster: &str) -> Health {
    let clusters = &case.rm.picture().facts.clusters;
    let view = clusters.iter().find(|(id, _)| id.as_str() == cluster);
    view.unwrap().1.health()
}

/// The cluster to which a job is bound, and the other one.
fn bound(case: &Case, job: JobId) -> (&'static str, &'static str) {
    if case.ranges(job).contains("@a") {
        ("a", "b")
    } else {
        ("b", "a")
    }
}

/// A job that is granted and has not begun, since no cluster places anything.
fn granted(
    case: &mut Case,
    spec: echelon_core_testkit::build::JobBuilder,
) -> (JobId, &'static str, &'static str) {
    for cluster in ["a", "b"] {
        case.shard(cluster).unplaceable = Some(ReasonCode::MesosUnavailable);
    }
    let job = case.job(1, spec);
    case.run_for(Span::seconds(2));
    let (home, other) = bound(case, job);
    case.shard(other).unplaceable = None;
    (job, home, other)
}

#[test]
fn new_work_goes_where_it_can_begin() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    lose_mesos(&mut case, "a");
    case.run_for(Span::seconds(2));
    assert_eq!(health(&case, "a"), Health::WithoutMesos);
    for n in 1..=4 {
        let job = case.job(n, batch(2));
        assert_eq!(case.active(job), [("b", 2)], "job {n}");
    }
    // It is full. What waits is bound nowhere.
    let job = case.job(5, batch(2));
    case.run_for(Span::seconds(20));
    assert_eq!(case.ranges(job), "");
}

#[test]
fn what_was_granted_and_has_not_begun_leaves_after_ten_seconds() {
    for spec in [service(4), batch(4), batch(4).gang()] {
        let mut case = Case::with(&[("a", 8), ("b", 8)]);
        let (job, home, other) = granted(&mut case, spec);
        assert_eq!(case.total_active(job), 0);
        lose_mesos(&mut case, home);
        case.run_for(Span::seconds(7));
        assert_eq!(bound(&case, job).0, home);
        case.run_for(Span::seconds(8));
        assert!(case.total_active(job) >= 4, "{}", case.ranges(job));
        assert!(
            case.active(job).iter().all(|(at, _)| *at == other),
            "{}",
            case.ranges(job)
        );
        let granted = case.rm.picture().facts.jobs.get(&job).unwrap();
        let left = granted
            .grants
            .iter()
            .filter(|(key, _)| key.cluster.as_str() == home);
        assert_eq!(left.map(|(_, line)| line.granted()).sum::<u64>(), 0);
    }
}

#[test]
fn what_runs_stays() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    let job = case.job(1, service(4).spread().on_cluster_loss(OnSilence::Wait));
    let before = case.ranges(job);
    lose_mesos(&mut case, "a");
    case.run_for(Span::minutes(20));
    assert_eq!(health(&case, "a"), Health::Lost);
    assert_eq!(case.ranges(job), before);
    assert_eq!(case.active(job), [("a", 2), ("b", 2)]);
}

#[test]
fn a_job_that_may_use_no_other_cluster_waits_and_says_so() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    lose_mesos(&mut case, "a");
    case.run_for(Span::seconds(2));
    let job = case.job(1, batch(2).only(&["a"]));
    case.run_for(Span::seconds(30));
    assert_eq!(case.waiting(job), [(ReasonCode::ClusterUnhealthy, 2)]);
    find_mesos(&mut case, "a");
    // The hold of 15 s is not over, and no other cluster may take it.
    case.run_for(Span::seconds(3));
    assert_eq!(health(&case, "a"), Health::Recovering);
    assert_eq!(case.active(job), [("a", 2)]);
}

#[test]
fn a_cluster_that_has_just_come_back_takes_what_no_other_may() {
    let mut case = Case::with(&[("a", 8), ("b", 2)]);
    lose_mesos(&mut case, "a");
    case.run_for(Span::seconds(2));
    find_mesos(&mut case, "a");
    case.run_for(Span::seconds(2));
    // The other one takes work, but has no host for it.
    let job = case.job(1, batch(4));
    case.run_for(Span::seconds(5));
    assert_eq!(case.active(job), [("b", 2)]);
    case.run_for(Span::seconds(15));
    assert_eq!(health(&case, "a"), Health::Healthy);
    case.run_for(Span::seconds(15));
    assert_eq!(case.total_active(job), 4);
}

/// The shard of a cluster reports three groups of starts, of which so many of 20 have failed.
fn report_starts(case: &mut Case, cluster: &str, failed: u32) {
    let groups = (1..4).map(|number| GroupStarts {
        group: StartGroup(number),
        begun: 20,
        failed,
        cause: (failed > 0).then_some(PlatformCause::ImageStore),
        hosts: (1..4).map(HostHash).collect(),
    });
    let starts = StartCounts {
        groups: groups.collect(),
        left_out: 0,
    };
    case.at(cluster, |shard, _| vec![shard.report(ReportPart::Starts(starts))]);
    case.run_for(Span::seconds(2));
}

/// Two clusters under a leader that has led for long enough to compare them.
fn compared() -> Case {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    case.run_for(Span::seconds(10));
    case
}

#[test]
fn new_work_avoids_a_cluster_where_starts_fail() {
    let mut case = compared();
    report_starts(&mut case, "b", 0);
    report_starts(&mut case, "a", 18);
    assert_eq!(health(&case, "a"), Health::Degraded);
    let state = case.rm.picture().facts.clusters.iter();
    let shown: Vec<String> = state
        .map(|(_, view)| view.state.as_ref().unwrap().health.to_string())
        .collect();
    let causes = "degraded, 90 % of starts fail there, mostly by the image store";
    assert_eq!(shown, [causes, "healthy"]);
    for n in 1..=3 {
        let job = case.job(n, batch(2));
        assert_eq!(case.active(job), [("b", 2)], "job {n}");
    }
    // What may use no other cluster begins there.
    let job = case.job(4, batch(2).only(&["a"]));
    assert_eq!(case.active(job), [("a", 2)]);
}

#[test]
fn what_runs_where_starts_fail_stays_and_what_was_granted_there_begins() {
    let mut case = compared();
    let job = case.job(1, service(4).spread());
    let before = case.ranges(job);
    report_starts(&mut case, "a", 20);
    case.run_for(Span::minutes(2));
    assert_eq!(case.ranges(job), before);
    assert_eq!(case.active(job), [("a", 2), ("b", 2)]);
}

#[test]
fn two_clusters_where_the_same_fails_are_both_used() {
    let mut case = compared();
    report_starts(&mut case, "b", 20);
    assert_eq!(health(&case, "b"), Health::Degraded);
    report_starts(&mut case, "a", 20);
    assert_eq!(health(&case, "a"), Health::Healthy);
    assert_eq!(health(&case, "b"), Health::Recovering);
}

#[test]
fn a_cluster_takes_work_again_when_its_starts_succeed() {
    let mut case = compared();
    report_starts(&mut case, "a", 20);
    report_starts(&mut case, "a", 5);
    assert_eq!(health(&case, "a"), Health::Degraded, "25 % is too much still");
    report_starts(&mut case, "a", 4);
    assert_eq!(health(&case, "a"), Health::Recovering);
    case.run_for(Span::seconds(16));
    assert_eq!(health(&case, "a"), Health::Healthy);
    let job = case.job(1, batch(2));
    assert_eq!(case.active(job), [("a", 2)]);
}

#[test]
fn a_cluster_where_nothing_starts_any_more_is_tried_again() {
    let mut case = compared();
    report_starts(&mut case, "a", 20);
    case.run_for(Span::seconds(290));
    assert_eq!(health(&case, "a"), Health::Degraded);
    // No start there is in the last five minutes.
    case.run_for(Span::seconds(30));
    assert_eq!(health(&case, "a"), Health::Healthy);
    // It fails again at once, and is held for longer.
    report_starts(&mut case, "a", 20);
    report_starts(&mut case, "a", 0);
    case.run_for(Span::seconds(20));
    assert_eq!(health(&case, "a"), Health::Recovering);
}
