//! Two clusters on one Mesos: the second one takes no work and counts for nothing.

use crate::tests::case::{Case, batch, service};
use echelon_core_model::Span;
use echelon_core_model::health::{Health, HealthCause, MasterId};

fn master(case: &mut Case, cluster: &str, id: u64) {
    case.shard(cluster).signs.master = Some(MasterId(id));
    case.at(cluster, |shard, now| shard.full(now));
}

fn is_refused(case: &Case, cluster: &str) -> bool {
    let clusters = &case.rm.picture().facts.clusters;
    let view = clusters.iter().find(|(id, _)| id.as_str() == cluster).unwrap().1;
    let health = &view.state.as_ref().unwrap().health;
    let is_refused = health.causes.contains(&HealthCause::SameMaster);
    assert!(!is_refused || health.health == Health::Degraded, "{health}");
    is_refused
}

fn capacity(case: &Case) -> u64 {
    let picture = case.rm.picture();
    crate::demand::capacity::capacity(&picture.facts, &picture.demand.ledger).cpus / 1000
}

/// Cluster `a` is there; then `b` comes, with the same master.
fn case() -> Case {
    let mut case = Case::with(&[("a", 8)]);
    master(&mut case, "a", 1);
    case.run_for(Span::seconds(20));
    case = case.cluster("b", 8);
    case.shard("b").signs.master = Some(MasterId(1));
    case.elect();
    case.run_for(Span::seconds(20));
    case
}

#[test]
fn the_cluster_that_comes_later_takes_no_work_and_counts_for_nothing() {
    let mut case = case();
    assert!(is_refused(&case, "b") && !is_refused(&case, "a"));
    assert_eq!(capacity(&case), 8, "the hosts count once");
    let job = case.job(1, service(6).spread());
    case.run_for(Span::seconds(5));
    assert_eq!(case.active(job), [("a", 6)]);
    let waits = case.job(2, batch(4));
    case.run_for(Span::seconds(20));
    assert_eq!(case.total_active(waits), 2);
    let said = |alarm: &&String| alarm.contains("the Mesos master of cluster b is that of cluster a");
    assert_eq!(case.alarms.iter().filter(said).count(), 1, "{:?}", case.alarms);
}

#[test]
fn a_failover_of_the_shared_master_lets_neither_change_places() {
    for first in ["a", "b"] {
        let mut case = case();
        let other = if first == "a" { "b" } else { "a" };
        master(&mut case, first, 2);
        case.run_for(Span::seconds(10));
        assert!(is_refused(&case, "b") && !is_refused(&case, "a"), "{first} first");
        master(&mut case, other, 2);
        case.run_for(Span::minutes(3));
        assert!(is_refused(&case, "b") && !is_refused(&case, "a"), "{first} first");
    }
}

#[test]
fn another_master_ends_it_and_a_new_leader_does_not() {
    let mut case = case();
    case.fail_over();
    case.run_for(Span::seconds(20));
    assert!(is_refused(&case, "b") && !is_refused(&case, "a"));
    master(&mut case, "b", 7);
    case.run_for(Span::minutes(2));
    assert!(!is_refused(&case, "b"));
    assert_eq!(capacity(&case), 16);
    // An operator points the older one at the master of the newer one.
    master(&mut case, "a", 7);
    case.run_for(Span::seconds(10));
    assert!(is_refused(&case, "a") && !is_refused(&case, "b"));
}

#[test]
fn masters_that_say_nothing_are_not_the_same() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    case.run_for(Span::seconds(20));
    assert!(!is_refused(&case, "a") && !is_refused(&case, "b"));
}
