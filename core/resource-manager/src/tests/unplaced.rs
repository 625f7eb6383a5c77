//! Granted, and on no host: there is room in sum, but no host has enough of it.

use crate::tests::case::{Case, batch, service};
use echelon_core_model::directive::{ReportPart, SliceReport};
use echelon_core_model::{ClusterId, JobId, ReasonCode, RunState, Span};

/// Two clusters of ten cores, and three pools.
fn pools() -> Case {
    let mut case = Case::with(&[("a", 10), ("b", 10)]);
    for pool in ["/x", "/y", "/z"] {
        case.set_pool(pool, 1_000_000);
    }
    case.run_for(Span::seconds(6));
    case
}

/// The first pool has more than its own, the second is granted what is left in sum, and no host has room for it; the third waits.
fn in_pieces(case: &mut Case) -> [JobId; 2] {
    let x = case.job(1, batch(8).pool("/x").only(&["a"]));
    case.job(2, batch(10).pool("/x").only(&["b"]).priority(9));
    case.run_for(Span::seconds(2));
    case.shard("a").unplaceable = Some(ReasonCode::HostResources);
    let y = case.job(3, batch(2).pool("/y").only(&["a"]));
    case.job(4, batch(5).pool("/z").only(&["b"]));
    [x, y]
}

fn told(case: &Case, job: JobId) -> String {
    case.progress(job).unwrap().waiting[0].reason.to_string()
}

#[test]
fn who_is_granted_and_finds_no_host_gets_one_from_those_who_have_more_than_their_own() {
    let mut case = pools();
    let [x, y] = in_pieces(&mut case);
    case.run_for(Span::seconds(20));
    assert_eq!(
        (case.total_active(x), case.total_active(y)),
        (8, 0),
        "not at once"
    );
    case.run_for(Span::seconds(40));
    assert_eq!((case.total_active(x), case.total_active(y)), (6, 2));
    case.run_for(Span::minutes(3));
    assert_eq!((case.total_active(x), case.total_active(y)), (6, 2));
}

#[test]
fn who_is_granted_and_finds_no_host_is_told_that_nobody_could_make_room() {
    let mut case = Case::with(&[("a", 10)]);
    case.set_pool("/x", 1_000_000);
    case.set_pool("/y", 1_000_000);
    case.run_for(Span::seconds(6));
    let x = case.job(1, batch(8).pool("/x"));
    case.run_for(Span::seconds(2));
    case.shard("a").unplaceable = Some(ReasonCode::HostResources);
    let y = case.job(2, batch(2).pool("/y"));
    case.run_for(Span::minutes(1));
    // Both have what they want: nobody has too much.
    assert_eq!((case.total_active(x), case.total_active(y)), (8, 0));
    assert!(
        told(&case, y).ends_with("pools that exceed their entitlement leave no host with enough capacity)"),
        "{}",
        told(&case, y)
    );
    case.shard("a").unplaceable = None;
    case.at("a", |s, now| s.finish_of(x, 1, RunState::Succeeded, now));
    case.run_for(Span::seconds(20));
    assert_eq!(case.total_active(y), 2);
}

#[test]
fn a_pool_that_has_more_than_its_own_gets_no_host_made_and_the_reason_says_so() {
    let mut case = pools();
    let has = case.job(1, batch(16).pool("/y"));
    case.run_for(Span::minutes(1));
    assert_eq!(case.total_active(has), 16);
    for name in ["a", "b"] {
        case.shard(name).unplaceable = Some(ReasonCode::HostResources);
    }
    let more = case.job(2, batch(2).pool("/y"));
    case.job(3, batch(20).pool("/x"));
    case.run_for(Span::seconds(5));
    let reason = told(&case, more);
    assert!(
        reason.contains("no instance is preempted for it: /y has 18 cpus and is entitled to 10"),
        "{reason}"
    );
}

#[test]
fn a_gang_that_is_granted_and_finds_no_hosts_gets_them_all_or_takes_nobody() {
    let mut case = pools();
    let x = case.job(1, batch(8).pool("/x").only(&["a"]));
    case.job(2, batch(10).pool("/x").only(&["b"]).priority(9));
    case.run_for(Span::seconds(2));
    case.shard("a").unplaceable = Some(ReasonCode::HostResources);
    let y = case.job(3, batch(2).gang().pool("/y").only(&["a"]));
    case.job(4, batch(5).pool("/z").only(&["b"]));
    case.run_for(Span::minutes(2));
    assert_eq!((case.total_active(x), case.total_active(y)), (6, 2));
}

#[test]
fn a_retry_that_finds_no_host_waits_beside_those_that_never_began() {
    let mut case = Case::with(&[("a", 2)]);
    let job = case.job(1, service(3).only(&["a"]));
    case.run_for(Span::seconds(2));
    assert_eq!(case.active(job), [("a", 2)]);
    let a = ClusterId::new("a");
    let (_, told) = case.rm.picture().facts.clusters[&a]
        .reports_of(job)
        .next()
        .unwrap();
    let mut told = SliceReport::clone(told);
    told.live = 1;
    told.waiting = vec![(ReasonCode::HostResources.into(), 1, case.now)];
    case.at("a", |s, _| vec![s.report(ReportPart::Slices(vec![told]))]);
    case.run_for(Span::millis(200));
    let mut waiting = case.waiting(job);
    waiting.sort();
    let mut wanted = [(ReasonCode::NoClusterCapacity, 1), (ReasonCode::HostResources, 1)];
    wanted.sort();
    assert_eq!(waiting, wanted);
}
