//! What a plan says of a cluster's loss, and that a loss does then what was said.

use crate::queries::cluster_work::{ClusterWork, Departure, cluster_work};
use crate::tests::case::{Case, batch, service};
use crate::tests::lost::{cut, filled, other_of, replace_after, running};
use crate::tests::silent::store_record;
use echelon_core_model::cluster::{ClusterQuestion, DesiredState};
use echelon_core_model::spec::OnSilence;
use echelon_core_model::{ClusterId, JobId, ReasonCode, Span};
use echelon_core_testkit::build::JobBuilder;
use std::collections::BTreeMap;

/// The answer is computed on a snapshot, as it is for a gateway.
fn lost(case: &mut Case, cluster: &str) -> ClusterWork {
    let question = ClusterQuestion {
        cluster: ClusterId::new(cluster),
        name: cluster.to_owned(),
        desired: DesiredState::Active,
        labels: BTreeMap::new(),
        is_lost: true,
    };
    cluster_work(case.snapshot(), &question)
}

fn departure(work: &ClusterWork, job: JobId) -> &Departure {
    let group = work.groups.iter().find(|group| group.job == job);
    &group
        .unwrap_or_else(|| panic!("{job} is not in {work:?}"))
        .departure
}

/// A job that runs at one of the two clusters, and which one that is.
fn placed(case: &mut Case, spec: JobBuilder) -> (JobId, &'static str) {
    let job = case.job(1, spec);
    case.run_for(Span::seconds(8));
    let home = if case.ranges(job).contains("@a") { "a" } else { "b" };
    for (number, _) in case.shard(home).running(job) {
        store_record(case, home, job, number.0, running());
    }
    (job, home)
}

#[test]
fn what_gives_way_is_said_before_and_happens_then() {
    let (mut case, web, work, home) = filled(3);
    let other = other_of(home);
    let planned = lost(&mut case, home);
    let four_after = Departure::Moves {
        movable: 0,
        after_preemption: 4,
        at_once: 4,
        others: None,
    };
    assert_eq!(*departure(&planned, web), four_after);
    let Departure::Stays(why) = departure(&planned, work) else {
        panic!("{planned:?}")
    };
    assert_eq!(why.code, ReasonCode::ClusterLost);
    let totals = planned.totals;
    assert_eq!((totals.movable, totals.after_preemption), (0, 4));
    assert_eq!((totals.victims, totals.staying), (4, 4), "{planned:?}");
    // A plan changes nothing.
    case.run_for(Span::seconds(10));
    assert_eq!(case.active(web), [(home, 4)]);
    cut(&mut case, home);
    case.run_for(Span::seconds(230));
    assert_eq!(case.shard(other).running(web).len(), 4);
    assert_eq!(case.shard(other).running(work).len(), 4);
}

/// Without anything that gives way, what does not fit is said with its number.
#[test]
fn what_does_not_fit_elsewhere_is_counted() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    let (first, home) = placed(&mut case, service(6).on_cluster_loss(replace_after(3)));
    let other = other_of(home);
    let second = case.job(2, service(4).only(&[other]).on_cluster_loss(OnSilence::Wait));
    case.run_for(Span::seconds(8));
    assert_eq!((case.total_active(first), case.total_active(second)), (6, 4));
    let planned = lost(&mut case, home);
    let Departure::Moves {
        movable,
        after_preemption,
        others: Some(others),
        ..
    } = departure(&planned, first)
    else {
        panic!("{planned:?}")
    };
    assert_eq!((*movable, *after_preemption), (4, 0));
    assert_eq!(others.code, ReasonCode::NoClusterCapacity);
    assert_eq!(planned.totals.staying, 2);
    assert_eq!(planned.waiting, 0, "nothing comes to a cluster that is lost");
    cut(&mut case, home);
    case.run_for(Span::seconds(230));
    assert_eq!(case.shard(other).running(first).len(), 4);
}

/// A gang goes whole or not at all.
#[test]
fn a_gang_that_no_other_cluster_holds_is_not_covered() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    let (_, home) = placed(&mut case, batch(6).gang().on_cluster_loss(replace_after(3)));
    let other = other_of(home);
    assert_eq!(lost(&mut case, home).totals.movable, 6);
    let filler = case.job(2, service(4).only(&[other]).on_cluster_loss(OnSilence::Wait));
    case.run_for(Span::seconds(8));
    assert_eq!(case.total_active(filler), 4);
    let planned = lost(&mut case, home);
    assert_eq!((planned.totals.movable, planned.totals.after_preemption), (0, 0));
    assert_eq!(planned.totals.staying, 6);
}
