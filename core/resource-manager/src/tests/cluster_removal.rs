//! Clusters that are removed for good: everything leaves or ends first, nothing is lost, and nothing is left.

use crate::tests::case::{Case, batch, service};
use echelon_core_model::cluster::{Cluster, DesiredState};
use echelon_core_model::job::{Desired, JobState};
use echelon_core_model::store::{Answer, Decision, Leadership, Query, Role};
use echelon_core_model::{ClusterId, Epoch, GroupName, RunState, Span};
use echelon_core_testkit::build::JobBuilder;

pub fn row(case: &Case, name: &str) -> Cluster {
    let Answer::Clusters(rows) = case.store.read(&Query::Clusters) else {
        panic!()
    };
    rows.into_iter().find(|c| c.name == name).unwrap()
}

/// What is stored beside the row: whether there is a heartbeat, and whether the manager has stored anything.
pub fn left(case: &Case, name: &str) -> (bool, bool) {
    let id = ClusterId::new(name);
    let (Answer::Heartbeats(beats), Answer::ClusterStates(states)) = (
        case.store.read(&Query::Heartbeats),
        case.store.read(&Query::ClusterStates),
    ) else {
        panic!()
    };
    (
        beats.iter().any(|h| h.cluster == id),
        states.iter().any(|s| s.cluster == id),
    )
}

pub fn epoch(case: &Case, name: &str) -> Epoch {
    let Answer::Leadership(there) = case
        .store
        .read(&Query::Leadership(Role::Shard(ClusterId::new(name))))
    else {
        panic!()
    };
    there.epoch
}

/// Clusters `a` and `b`, whose shards have taken their epochs.
fn case() -> Case {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    for name in ["a", "b"] {
        case.decide(Decision::TakeEpoch {
            role: Role::Shard(ClusterId::new(name)),
            next: Leadership::taken(Epoch(1), name, 1),
            expected: Epoch(0),
        });
    }
    case.run_for(Span::seconds(12));
    case
}

#[test]
fn everything_leaves_and_nothing_but_the_row_is_left() {
    let mut case = case();
    case.shard("a").hosts_of_daemons = Some(3);
    case.shard("b").hosts_of_daemons = Some(2);
    let service = case.job(1, service(4).spread());
    let daemon = case.job(2, JobBuilder::daemon("agent"));
    case.run_for(Span::seconds(3));
    assert_eq!(left(&case, "b"), (true, true));
    case.desire("b", DesiredState::Draining);
    case.run_for(Span::seconds(60));
    assert_eq!(case.active(service), [("a", 4)]);
    assert_eq!(
        case.active(daemon),
        [("a", 3), ("b", 2)],
        "daemons stay on their hosts"
    );
    case.desire("b", DesiredState::Removing);
    case.run_for(Span::seconds(30));
    assert!(case.shard("b").signs.torn_down);
    assert_eq!(row(&case, "b").desired_state, DesiredState::Removed);
    assert_eq!(left(&case, "b"), (false, false));
    assert_eq!(
        epoch(&case, "b"),
        Epoch(2),
        "a leader that is left can write no more"
    );
    assert_eq!(case.active(service), [("a", 4)]);
    assert_eq!(case.active(daemon), [("a", 3)]);
    // A job that is stopped now waits for no word of it.
    case.want(service, Desired::Stopped);
    case.run_for(Span::seconds(5));
    assert_eq!(case.state(service), Some(JobState::Stopped));
}

#[test]
fn results_go_to_another_cluster_and_count_once() {
    let mut case = case();
    let job = case.job(1, batch(6).spread());
    case.run_for(Span::seconds(2));
    let before = case.active(job);
    assert_eq!(before.len(), 2, "{before:?}");
    let n = before.iter().find(|(at, _)| *at == "b").unwrap().1;
    case.at("b", |s, now| s.finish_of(job, n as u64, RunState::Succeeded, now));
    case.run_for(Span::seconds(2));
    case.desire("b", DesiredState::Draining);
    case.run_for(Span::seconds(20));
    case.desire("b", DesiredState::Removing);
    case.run_for(Span::seconds(30));
    assert_eq!(
        row(&case, "b").desired_state,
        DesiredState::Removed,
        "{}",
        case.ranges(job)
    );
    let assignment = case.assignment(job).unwrap();
    assert_eq!(assignment.assigned(&GroupName::new("main")).count(), 6);
    assert!(!case.ranges(job).contains("@b"), "{}", case.ranges(job));
}

#[test]
fn a_shard_does_not_leave_while_anything_is_assigned_to_it() {
    let mut case = case();
    let job = case.job(1, service(4).spread());
    case.shard("b").stubborn = true;
    case.desire("b", DesiredState::Removing);
    case.run_for(Span::seconds(60));
    assert!(case.ranges(job).contains("@b"));
    assert!(!case.shard("b").signs.torn_down);
    assert_eq!(row(&case, "b").desired_state, DesiredState::Removing);
    case.shard("b").stubborn = false;
    case.at("b", |s, now| s.work(now));
    case.run_for(Span::seconds(60));
    assert_eq!(row(&case, "b").desired_state, DesiredState::Removed);
    assert_eq!(case.active(job), [("a", 4)]);
}

#[test]
fn a_mistyped_cluster_goes_at_once() {
    let mut case = case();
    case.decide(Decision::PutCluster {
        cluster: Cluster::new(ClusterId::new("wset"), "wset"),
        expected: None,
    });
    case.run_for(Span::seconds(20));
    case.desire("wset", DesiredState::Removing);
    case.run_for(Span::seconds(20));
    assert_eq!(row(&case, "wset").desired_state, DesiredState::Removed);
    assert_eq!(left(&case, "wset"), (false, false));
}

#[test]
fn a_new_leader_goes_on_wherever_the_one_before_has_stopped() {
    for seconds in [0, 1, 2, 3, 4, 6] {
        let mut case = case();
        let job = case.job(1, service(4).spread());
        case.run_for(Span::seconds(2));
        case.desire("b", DesiredState::Draining);
        case.run_for(Span::seconds(40));
        case.desire("b", DesiredState::Removing);
        case.run_for(Span::seconds(seconds));
        case.fail_over();
        case.run_for(Span::seconds(40));
        assert_eq!(
            row(&case, "b").desired_state,
            DesiredState::Removed,
            "after {seconds} s"
        );
        assert_eq!(left(&case, "b"), (false, false), "after {seconds} s");
        assert_eq!(case.active(job), [("a", 4)]);
    }
}

#[test]
fn a_new_leader_waits_for_no_report_of_a_removed_cluster() {
    let mut case = case();
    let job = case.job(1, service(4).spread());
    case.run_for(Span::seconds(2));
    case.desire("b", DesiredState::Draining);
    case.run_for(Span::seconds(40));
    case.desire("b", DesiredState::Removing);
    case.run_for(Span::seconds(30));
    assert_eq!(row(&case, "b").desired_state, DesiredState::Removed);
    case.shard("b").cores = 0;
    case.fail_over();
    case.want(job, Desired::Stopped);
    case.run_for(Span::seconds(20));
    assert_eq!(case.state(job), Some(JobState::Stopped));
}

#[test]
fn a_leader_that_finds_rows_of_a_removed_cluster_deletes_them() {
    let mut case = case();
    let mut removed = row(&case, "b");
    let expected = Some(removed.version);
    removed.version = removed.version.next();
    removed.desired_state = DesiredState::Removed;
    case.decide(Decision::PutCluster {
        cluster: removed,
        expected,
    });
    case.shard("b").cores = 0;
    case.fail_over();
    case.run_for(Span::seconds(20));
    assert_eq!(left(&case, "b"), (false, false));
}
