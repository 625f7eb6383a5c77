//! What a cluster holds, and what would become of it: the answer, and that a drain does then what was said.

use crate::queries::cluster_work::{ClusterWork, Departure, cluster_work};
use crate::tests::case::{Case, batch, service};
use echelon_core_model::cluster::{ClusterQuestion, DesiredState};
use echelon_core_model::cluster_choice::Preference;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::{ClusterId, ReasonCode, Span};
use echelon_core_testkit::build::{JobBuilder, shape};
use std::collections::BTreeMap;

fn question(name: &str, desired: DesiredState) -> ClusterQuestion {
    ClusterQuestion {
        cluster: ClusterId::new(name),
        name: name.to_owned(),
        desired,
        labels: BTreeMap::new(),
        is_lost: false,
    }
}

fn work(case: &Case, name: &str, desired: DesiredState) -> ClusterWork {
    cluster_work(case.rm.picture(), &question(name, desired))
}

/// The only group there, as it would depart.
fn departure(case: &Case, name: &str, desired: DesiredState) -> Departure {
    let work = work(case, name, desired);
    assert_eq!(work.groups.len(), 1, "{work:?}");
    work.groups[0].departure.clone()
}

fn only(spec: JobBuilder, cluster: &str) -> JobSpec {
    let mut spec = spec.build();
    spec.clusters.only = vec![cluster.to_owned()];
    spec
}

#[test]
fn a_drain_moves_what_the_plan_said() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    let job = case.job_of(1, {
        let mut spec = service(6).build();
        spec.clusters.prefer = Preference::Ordered(vec!["a".to_owned()]);
        spec
    });
    case.run_for(Span::seconds(2));
    assert_eq!(case.active(job), [("a", 6)]);
    let before = work(&case, "a", DesiredState::Draining);
    assert!(before.is_reported);
    assert_eq!((before.totals.instances, before.totals.running), (6, 6));
    assert_eq!((before.totals.movable, before.totals.staying), (6, 0));
    assert_eq!(
        before.groups[0].departure,
        Departure::Moves {
            movable: 6,
            after_preemption: 0,
            at_once: 1,
            others: None
        }
    );
    assert_eq!(work(&case, "b", DesiredState::Draining).groups, []);
    case.desire("a", DesiredState::Draining);
    case.run_for(Span::seconds(60));
    assert_eq!(case.active(job), [("b", 6)]);
    assert_eq!(work(&case, "a", DesiredState::Draining).totals.instances, 0);
}

#[test]
fn two_groups_do_not_count_the_same_capacity() {
    let mut case = Case::with(&[("a", 8), ("b", 5)]);
    for n in 1..=2 {
        let mut spec = service(4).build();
        spec.clusters.prefer = Preference::Ordered(vec!["a".to_owned()]);
        case.job_of(n, spec);
    }
    case.run_for(Span::seconds(2));
    let work = work(&case, "a", DesiredState::Draining);
    assert_eq!((work.totals.instances, work.totals.movable), (8, 5));
    assert_eq!(work.totals.staying, 3);
    let others = work.groups.iter().map(|g| match &g.departure {
        Departure::Moves { movable, others, .. } => (*movable, others.as_ref().map(|r| r.code)),
        other => panic!("{other:?}"),
    });
    let others: Vec<_> = others.collect();
    assert_eq!(others, [(4, None), (1, Some(ReasonCode::NoClusterCapacity))]);
}

#[test]
fn what_cannot_leave_says_why() {
    let mut case = Case::with(&[("a", 8), ("b", 2)]);
    let job = case.job_of(1, only(service(2), "a"));
    case.run_for(Span::seconds(2));
    assert_eq!(case.active(job), [("a", 2)]);
    let Departure::Stays(why) = departure(&case, "a", DesiredState::Draining) else {
        panic!()
    };
    assert_eq!(why.code, ReasonCode::NoCluster);
    assert!(why.to_string().contains("the job names other clusters"), "{why}");
    assert_eq!(departure(&case, "a", DesiredState::Active), Departure::None);
    // A gang needs its capacity in one piece.
    let mut case = Case::with(&[("a", 8), ("b", 2)]);
    case.job(1, batch(4).gang());
    case.run_for(Span::seconds(2));
    let Departure::Stays(why) = departure(&case, "a", DesiredState::Draining) else {
        panic!()
    };
    assert_eq!(why.code, ReasonCode::GangBlocked);
}

#[test]
fn a_daemon_stays_until_its_cluster_is_removed() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    case.shard("a").hosts_of_daemons = Some(3);
    case.shard("b").hosts_of_daemons = Some(2);
    case.job(1, JobBuilder::daemon("agent"));
    case.run_for(Span::seconds(3));
    assert!(matches!(
        departure(&case, "a", DesiredState::Draining),
        Departure::Stays(_)
    ));
    let removed = work(&case, "a", DesiredState::Removing);
    assert_eq!(removed.groups[0].departure, Departure::End);
    assert_eq!((removed.totals.instances, removed.totals.ending), (3, 3));
}

#[test]
fn labels_show_what_would_not_choose_the_cluster_and_what_waits_for_one() {
    let mut case = Case::with(&[("a", 8)]);
    case.change_cluster("a", |c| drop(c.labels.insert("tier".into(), "gold".into())));
    case.job_of(1, only(service(2), "tier=gold"));
    case.job_of(2, only(batch(3).shape(shape(1, 64)), "tier=silver"));
    case.run_for(Span::seconds(2));
    let gold = BTreeMap::from([("tier".to_owned(), "gold".to_owned())]);
    let silver = BTreeMap::from([("tier".to_owned(), "silver".to_owned())]);
    let ask = |name: &str, labels| {
        let question = ClusterQuestion {
            labels,
            ..question(name, DesiredState::Active)
        };
        cluster_work(case.rm.picture(), &question)
    };
    let same = ask("a", gold);
    assert_eq!(
        (same.groups[0].departure.clone(), same.waiting),
        (Departure::None, 0)
    );
    let other = ask("a", silver.clone());
    assert_eq!(other.groups[0].departure, Departure::Unselected);
    assert_eq!(other.waiting, 3);
    // A cluster that is not there yet.
    let new = ask("new", silver);
    assert_eq!((new.groups.len(), new.waiting, new.is_reported), (0, 3, false));
}

#[test]
fn before_a_shard_has_reported_what_is_assigned_counts() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    case.job_of(1, only(service(2), "a"));
    case.run_for(Span::seconds(2));
    case.cut("a");
    let work = work(&case, "a", DesiredState::Draining);
    assert!(!work.is_reported);
    assert_eq!(work.totals.instances, 2);
}
