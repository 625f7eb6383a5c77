//! Grants: how many may be active, from whom, and until when.

use crate::world::{World, c1, job, marked, range, seconds, task};
use echelon_core_hosts::TaskState;
use echelon_core_model::directive::{Directive, Order, ReportPart};
use echelon_core_model::spec::OnSilence;
use echelon_core_model::store::{Answer, Query};
use echelon_core_model::{Epoch, Generation, ReasonCode, RunState, Span};
use echelon_core_shard::Event;
use echelon_core_testkit::build::{JobBuilder, main_group};

fn granted(n: u32, active: u64) -> World {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", n).build());
    w.order(&[range(0, n - 1)], active);
    w.run(seconds(2));
    w
}

fn running(w: &World, n: u32) -> Vec<u32> {
    (0..n).filter(|i| w.state(*i) == RunState::Running).collect()
}

#[test]
fn no_more_become_active_than_granted_lowest_first() {
    let w = granted(6, 4);
    assert_eq!(running(&w, 6), [0, 1, 2, 3]);
    let slice = w.slice(1).unwrap();
    assert_eq!((slice.active, slice.unstarted), (4, 2));
    let codes: Vec<_> = slice.waiting.iter().map(|(r, n, _)| (r.code, *n)).collect();
    assert_eq!(codes, [(ReasonCode::AwaitingGrant, 2)]);
}

#[test]
fn expiry_stops_nothing_and_forbids_raising() {
    let mut w = granted(6, 4);
    // The one that has ended follows itself; that raises nothing.
    w.run(seconds(40));
    assert_eq!(running(&w, 6), [0, 1, 2, 3]);
    let mut v = World::new();
    let hosts = std::mem::take(&mut v.cluster.hosts);
    v.elect();
    v.run(seconds(1));
    v.connect();
    v.store_job(&JobBuilder::service("web", 6).build());
    v.order(&[range(0, 5)], 4);
    v.run(seconds(31));
    v.cluster.hosts = hosts;
    v.run(seconds(10));
    assert_eq!(v.accepted(), Vec::<String>::new(), "the grant had expired");
    v.order(&[range(0, 5)], 4);
    v.run(seconds(8));
    assert_eq!(v.accepted().len(), 4);
}

#[test]
fn a_smaller_grant_stops_the_highest_and_a_larger_one_brings_them_back() {
    let mut w = granted(6, 5);
    w.order(&[range(0, 5)], 2);
    w.run(seconds(3));
    assert_eq!(running(&w, 6), [0, 1]);
    let slice = w.slice(1).unwrap();
    assert_eq!((slice.active, slice.live, slice.unstarted), (2, 2, 4));
    assert_eq!(w.kills().len(), 3);
    w.order(&[range(0, 5)], 3);
    w.run(seconds(8));
    assert_eq!(running(&w, 6), [0, 1, 2]);
    assert!(w.accepted().contains(&task(2, 1, 2)));
}

#[test]
fn what_is_marked_is_stopped_by_its_mark_and_not_by_the_smaller_grant() {
    let mut w = granted(6, 6);
    let mut away = marked(range(2, 5), None, None);
    away.releasing.as_mut().unwrap().why = ReasonCode::ScaledDown;
    w.order(&[range(0, 1), away], 2);
    w.run(seconds(3));
    assert_eq!(running(&w, 6), [0, 1]);
    let wish = |n| w.record(n).unwrap().run.unwrap().stopping.unwrap();
    let why: Vec<ReasonCode> = (2..6).map(|n| wish(n).reason.code).collect();
    assert_eq!(why, [ReasonCode::ScaledDown; 4]);
    // A grant that is smaller still takes from what stays, the highest first.
    w.send_order(&[range(0, 1)], &[(1, 1)], 1);
    w.run(seconds(3));
    assert_eq!(running(&w, 6), [0]);
}

#[test]
fn a_smaller_grant_stops_what_is_being_launched_before_what_runs() {
    let mut w = granted(6, 6);
    w.cluster.set(&task(1, 1, 1), TaskState::Failed);
    while w.accepted().len() < 7 {
        w.run(Span::millis(10));
    }
    assert_ne!(w.state(1), RunState::Running);
    w.order(&[range(0, 5)], 5);
    w.run(seconds(3));
    assert_eq!(running(&w, 6), [0, 2, 3, 4, 5]);
}

#[test]
fn a_smaller_grant_takes_first_what_has_run_and_lost_its_host() {
    let mut w = granted(4, 4);
    w.cluster.hosts.clear();
    w.cluster.set(&task(1, 1, 1), TaskState::Gone);
    w.run(seconds(3));
    let slice = w.slice(1).unwrap();
    assert_eq!((slice.active, slice.between_runs, slice.unstarted), (4, 1, 0));
    assert_eq!(slice.returnable.numbers().map(|n| n.0).collect::<Vec<_>>(), [1]);
    w.order(&[range(0, 3)], 3);
    w.run(seconds(3));
    assert_eq!((running(&w, 4), w.kills().len()), (vec![0, 2, 3], 0));
    let slice = w.slice(1).unwrap();
    assert_eq!((slice.active, slice.between_runs, slice.unstarted), (3, 0, 1));
    // Now a mark by count gets it back.
    w.order(&[marked(range(0, 3), None, Some(1))], 3);
    w.run(seconds(3));
    let slice = w.slice(1).unwrap();
    assert_eq!(slice.released.numbers().map(|n| n.0).collect::<Vec<_>>(), [1]);
    assert_eq!((slice.active, slice.unstarted), (3, 0));
    assert!(slice.returnable.is_empty());
}

#[test]
fn what_may_still_run_goes_elsewhere_once_it_may_be_replaced() {
    for on_unreachable in [OnSilence::Replace(Span::minutes(5)), OnSilence::Wait] {
        let mut w = World::serving();
        let mut spec = JobBuilder::service("web", 2).build();
        spec.on_unreachable = on_unreachable;
        w.store_job(&spec);
        w.order(&[range(0, 1)], 2);
        w.run(seconds(2));
        w.cluster.hosts.clear();
        w.cluster.set(&task(0, 1, 1), TaskState::Unreachable);
        w.run(Span::minutes(4));
        let slice = w.slice(1).unwrap();
        assert_eq!((slice.active, slice.live, slice.between_runs), (2, 2, 0));
        assert!(slice.returnable.is_empty());
        w.run(Span::minutes(6));
        let slice = w.slice(1).unwrap();
        let goes = u64::from(on_unreachable != OnSilence::Wait);
        assert_eq!((slice.active, slice.live, slice.between_runs), (2, 2, goes));
        assert_eq!(slice.returnable.count(), goes);
    }
}

#[test]
fn a_late_grant_is_dropped() {
    let mut w = granted(6, 4);
    let late = w.sequence;
    w.order(&[range(0, 5)], 5);
    w.run(seconds(2));
    // The same link, an older grant number.
    w.sequence = late.saturating_sub(3);
    w.send_order(&[range(0, 5)], &[(1, 1)], 1);
    w.run(seconds(2));
    assert_eq!(running(&w, 6).len(), 5);
    // An older grant number in a newer directive.
    w.sequence = late + 10;
    let mut old = w.slice_order(&[range(0, 5)], &[(1, 1)], 1);
    old.grants[0].1.number = 1;
    w.direct(Order::Slices(vec![old]));
    w.run(seconds(2));
    assert_eq!(running(&w, 6).len(), 5);
}

#[test]
fn an_older_resource_manager_is_told_that_it_is_superseded() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 2).build());
    w.rm = Epoch(5);
    w.order(&[range(0, 1)], 1);
    w.run(seconds(2));
    w.rm = Epoch(4);
    w.send_order(&[range(0, 1)], &[(1, 2)], 1);
    w.run(seconds(2));
    assert_eq!(running(&w, 2), [0]);
    let told = w
        .reports
        .iter()
        .any(|r| r.part == ReportPart::Superseded(Epoch(5)));
    assert!(told);
    // Also after a restart: the epoch is stored.
    w.restart();
    w.reports.clear();
    w.connect();
    w.send_order(&[range(0, 1)], &[(1, 2)], 1);
    assert_eq!(running(&w, 2), [0]);
    assert!(
        w.reports
            .iter()
            .any(|r| r.part == ReportPart::Superseded(Epoch(5)))
    );
}

#[test]
fn what_a_deposed_resource_manager_grants_over_its_own_stream_begins_nothing() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 2).build());
    w.order(&[range(0, 1)], 0);
    w.run(seconds(2));
    let late = w.slice_order(&[range(0, 1)], &[(1, 2)], 1);
    let (of_old, old) = (w.link, w.rm);
    // The new one has opened its stream and granted nothing yet; that of the old one is still open.
    w.rm = Epoch(5);
    w.direct(Order::Report);
    w.run(seconds(2));
    w.step(Event::Directive(
        of_old,
        Directive {
            epoch: old,
            sequence: 1_000,
            order: Order::Slices(vec![late]),
        },
    ));
    w.run(seconds(5));
    assert_eq!(running(&w, 2), Vec::<u32>::new());
    let told = w.reports.iter().map(|r| &r.part);
    assert!(told.into_iter().any(|p| *p == ReportPart::Superseded(Epoch(5))));
}

#[test]
fn the_first_directive_of_a_larger_epoch_waits_until_the_epoch_is_stored() {
    use crate::world::Storage;
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 1).build());
    w.rm = Epoch(9);
    w.storage = Storage::StallsCommits;
    w.order(&[range(0, 0)], 1);
    assert_eq!(w.shard.slices().count(), 0, "obeyed before it was stored");
    w.unstall();
    w.run(seconds(2));
    assert_eq!(w.shard.slices().count(), 1);
    let Answer::Shard(row) = w.store.read(&Query::Shard(crate::world::c1())) else {
        panic!()
    };
    assert_eq!(row.obeyed, Epoch(9));
}

#[test]
fn a_restarted_shard_does_not_raise_by_a_stored_grant() {
    let mut w = granted(6, 3);
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.restart();
    w.run(seconds(20));
    // What was active follows itself; nothing new begins without a resource manager.
    assert_eq!(running(&w, 6), [0, 1, 2]);
}

#[test]
fn a_grant_that_takes_more_changes_into_account_is_stored_whatever_its_amount() {
    let mut w = granted(6, 3);
    let mut order = w.slice_order(&[range(0, 5)], &[(1, 3)], 0);
    order.grants[0].1.known.taken_over = 1;
    w.direct(Order::Slices(vec![order]));
    w.run(seconds(2));
    let of_job = Query::GroupBlocks {
        cluster: c1(),
        job: job(),
        group: main_group(),
        first: 0,
        last: u32::MAX,
    };
    let Answer::Blocks(_, rows) = w.store.read(&of_job) else {
        panic!()
    };
    let stored = rows.first().and_then(|row| row.grants.get(&Generation(1)));
    assert_eq!(stored.map(|g| (g.active, g.known.taken_over)), Some((3, 1)));
}

#[test]
fn an_older_part_of_what_may_be_unavailable_takes_the_place_of_no_newer_one() {
    let mut w = granted(4, 4);
    w.send_order(&[range(0, 3)], &[(1, 4)], 3);
    w.run(seconds(2));
    let mut late = w.slice_order(&[range(0, 3)], &[(1, 4)], 1);
    late.part_number = 1;
    w.direct(Order::Slices(vec![late]));
    w.run(seconds(2));
    assert_eq!(w.slice(1).unwrap().max_unavailable, 3);
}
