//! Which streams are obeyed, and what an order may end.

use crate::world::{World, range, seconds};
use echelon_core_model::directive::{Order, ReportPart};
use echelon_core_model::job::{Desired, Goal};
use echelon_core_model::store::{Answer, Consistency, Leadership, Op, Query, Role};
use echelon_core_model::{Epoch, Version};
use echelon_core_shard::Event;
use echelon_core_testkit::build::JobBuilder;

/// A service of two that runs.
fn running() -> World {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 2).build());
    w.order(&[range(0, 1)], 2);
    w.run(seconds(2));
    assert_eq!(n_running(&w), 2);
    w.refused.clear();
    w
}

fn n_running(w: &World) -> usize {
    w.shard
        .instances()
        .filter(|(_, r)| r.run.as_ref().is_some_and(|run| run.is_available()))
        .count()
}

/// An order to stop the job, whatever its head says.
fn false_stop(w: &mut World, version: u64, desired: Desired) -> Order {
    let mut order = w.slice_order(&[range(0, 1)], &[(1, 2)], 1);
    order.head_version = Version(version);
    order.goal = Goal { desired, restarts: 0 };
    Order::Slices(vec![order])
}

fn obeyed(w: &World) -> Epoch {
    let Answer::Shard(row) = w.store.read(&Query::Shard(crate::world::c1())) else {
        panic!()
    };
    row.obeyed
}

fn n_reads_of_the_row(w: &World) -> usize {
    let of = Query::Leadership(Role::ResourceManager);
    let reads = w.ops.iter();
    reads
        .filter(|op| matches!(op, Op::Read(query, _) if *query == of))
        .count()
}

#[test]
fn a_stream_that_begins_without_hello_is_refused() {
    let mut w = running();
    w.link = echelon_core_shard::LinkId(90);
    w.step(Event::LinkOpened(w.link));
    let stop = false_stop(&mut w, 99, Desired::Stopped);
    w.direct(stop);
    w.run(seconds(30));
    assert_eq!(w.refused.len(), 1);
    assert!(w.refused[0].1.contains("no Hello"), "{:?}", w.refused);
    assert_eq!(n_running(&w), 2);
}

#[test]
fn a_stream_whose_opener_did_not_take_the_epoch_changes_nothing() {
    let taken = |epoch, proof| Leadership {
        proof,
        ..Leadership::taken(Epoch(epoch), "rm", 7)
    };
    // A guessed number for the epoch that is taken, and an epoch that was never taken.
    for (said, epoch) in [(taken(1, 5), 1), (taken(8_388_607, 5), 8_388_607)] {
        let mut w = running();
        w.reports.clear();
        w.rm = Epoch(epoch);
        w.open(said);
        let stop = false_stop(&mut w, 99, Desired::Stopped);
        w.direct(stop);
        w.run(seconds(30));
        assert_eq!(w.refused.len(), 1, "{:?}", w.refused);
        assert!(
            w.refused[0].1.contains("storage does not know"),
            "{:?}",
            w.refused
        );
        assert_eq!((n_running(&w), obeyed(&w)), (2, Epoch(1)));
        let superseded = |part: &ReportPart| matches!(part, ReportPart::Superseded(_));
        assert!(!w.reports.iter().any(|r| superseded(&r.part)));
        // The one that leads is heard as before.
        w.rm = Epoch(1);
        w.connect();
        w.order(&[range(0, 1)], 1);
        w.run(seconds(5));
        assert_eq!(n_running(&w), 1);
    }
}

#[test]
fn one_that_orders_by_another_epoch_than_its_own_is_refused() {
    let mut w = running();
    let mut order = w.slice_order(&[range(0, 1)], &[(1, 0)], 1);
    order.grants[0].1.epoch = Epoch(77);
    let directive = echelon_core_model::directive::Directive {
        epoch: Epoch(77),
        sequence: 900,
        order: Order::Slices(vec![order]),
    };
    w.step(Event::Directive(w.link, directive));
    w.run(seconds(30));
    assert_eq!(w.refused.len(), 1);
    assert_eq!((n_running(&w), obeyed(&w)), (2, Epoch(1)));
}

#[test]
fn the_row_is_read_once_for_all_streams_of_an_epoch() {
    let mut w = World::serving();
    let before = n_reads_of_the_row(&w);
    (0..5).for_each(|_| w.connect());
    assert_eq!(n_reads_of_the_row(&w), before);
    w.rm = Epoch(2);
    (0..5).for_each(|_| w.connect());
    assert_eq!(n_reads_of_the_row(&w), before + 1);
}

#[test]
fn what_came_before_the_proof_is_obeyed_after_it() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 2).build());
    w.assign(&[range(0, 1)]);
    w.rm = Epoch(2);
    w.lead(Epoch(2));
    w.storage = crate::world::Storage::Stalls;
    w.connect();
    w.send_order(&[range(0, 1)], &[(1, 2)], 1);
    w.unstall();
    w.run(seconds(2));
    assert_eq!((n_running(&w), obeyed(&w), w.refused.len()), (2, Epoch(2), 0));
}

#[test]
fn streams_that_prove_nothing_are_few() {
    let mut w = running();
    for n in 100..200 {
        w.step(Event::LinkOpened(echelon_core_shard::LinkId(n)));
    }
    assert_eq!(w.refused.len(), 84);
    // The stream that is proven stays.
    w.order(&[range(0, 1)], 1);
    w.run(seconds(5));
    assert_eq!(n_running(&w), 1);
}

#[test]
fn an_order_ends_nothing_that_the_stored_head_wants_to_run() {
    let goals = [1, 99]
        .into_iter()
        .flat_map(|version| [(version, Desired::Stopped), (version, Desired::Deleted)]);
    for (version, desired) in goals {
        let mut w = running();
        let stop = false_stop(&mut w, version, desired);
        w.direct(stop);
        w.run(seconds(60));
        assert_eq!((n_running(&w), w.refused.len()), (2, 0));
        // The stored head is still the one that counts.
        let spec = JobBuilder::service("web", 2).build();
        w.wish(&spec, Desired::Stopped, 0);
        w.send_order(&[range(0, 1)], &[(1, 2)], 1);
        w.run(seconds(30));
        assert_eq!(n_running(&w), 0);
    }
}

#[test]
fn the_row_that_proves_an_opener_is_read_at_serial() {
    let mut w = running();
    w.ops.clear();
    w.rm = Epoch(2);
    w.connect();
    w.run(seconds(1));
    let of = Query::Leadership(Role::ResourceManager);
    let reads = w.ops.iter().filter_map(|op| match op {
        Op::Read(query, how) if *query == of => Some(*how),
        _ => None,
    });
    let reads: Vec<Consistency> = reads.collect();
    assert!(
        !reads.is_empty() && reads.iter().all(|how| *how == Consistency::Serial),
        "a majority may not know yet who leads: {reads:?}"
    );
}
