//! How often a shard turns when nothing happens: its timers only, whatever it may not do at the moment.

use crate::world::{Storage, World, range, seconds};
use echelon_core_model::directive::Order;
use echelon_core_model::job::Desired;
use echelon_core_model::store::Query;
use echelon_core_testkit::build::JobBuilder;

/// Two services, one of which nothing can hold.
fn hungry() -> World {
    let mut w = World::serving();
    let spec = JobBuilder::service("web", 40).build();
    w.store_job(&spec);
    w.order(&[range(0, 39)], 40);
    w.run(seconds(5));
    w
}

/// Turns within ten seconds.
fn turns(w: &mut World) -> u64 {
    w.wakes = 0;
    w.run(seconds(10));
    w.wakes
}

#[test]
fn an_idle_shard_that_hears_its_resource_manager_reads_nothing_again() {
    let mut w = World::serving();
    w.run(seconds(30));
    w.ops.clear();
    w.wakes = 0;
    for _ in 0..12 {
        w.direct(Order::Slices(Vec::new()));
        w.run(seconds(5));
    }
    assert_eq!(w.count_reads(|q| matches!(q, Query::Assignments(_))), 0);
    // The capacity once a second, and some of three, five and ten seconds.
    assert!(w.wakes < 200, "{} turns a minute", w.wakes);
}

#[test]
fn a_shard_without_its_cluster_waits_and_does_not_spin() {
    let mut w = hungry();
    let spec = JobBuilder::service("web", 40).build();
    // Kills are due, hosts are wanted, and nothing can be said to anybody.
    w.cluster.deaf = true;
    w.cluster.disconnect();
    assert!(turns(&mut w) < 150);
    w.wish(&spec, Desired::Stopped, 0);
    w.send_order(&[range(0, 39)], &[(1, 40)], 1);
    let turned = turns(&mut w);
    assert!(turned < 150, "{turned} turns");
}

#[test]
fn a_shard_without_storage_waits_and_does_not_spin() {
    let mut w = hungry();
    w.storage = Storage::Fails;
    w.run(seconds(4));
    w.wakes = 0;
    w.run(seconds(4));
    assert!(w.wakes < 500, "{} turns", w.wakes);
}
