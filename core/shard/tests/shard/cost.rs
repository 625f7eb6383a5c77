//! What a task costs: no walk over all instances for each, and little memory. Counted, not timed.

use crate::cluster::Cluster;
use crate::world::{World, config, range, seconds};
use echelon_core_hosts::TaskState;
use echelon_core_model::store::Op;
use echelon_core_shard::Shard;
use echelon_core_testkit::build::{JobBuilder, shape};

#[test]
fn writes_a_task_stay_few_when_many_start_at_once() {
    const N: u32 = 2_000;
    let mut w = World::new();
    w.cluster = Cluster::of(20, shape(100, 1_000_000));
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.store_job(&JobBuilder::batch("many", N).build());
    w.ops.clear();
    w.order(&[range(0, N - 1)], u64::from(N));
    w.run(seconds(5));
    assert_eq!(w.cluster.live().len(), N as usize);
    for task in w.cluster.live() {
        w.cluster.set(&task, TaskState::Finished);
    }
    w.run(seconds(5));
    assert_eq!(w.slice(1).unwrap().succeeded, u64::from(N));
    let commits = w.ops.iter().filter(|op| matches!(op, Op::Commit(_))).count();
    assert!(commits < N as usize / 4, "{commits} commits for {N} tasks");
}

/// How many views of hosts were made while 12 instances were placed one by one on so many hosts.
fn views_for_a_dozen(hosts: u32) -> u64 {
    let mut w = World::new();
    let mut config = config("one");
    config.timing.place_batch = 1;
    w.shard = Shard::new(config);
    w.cluster = Cluster::of(hosts, shape(4, 1000));
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.store_job(&JobBuilder::service("web", 12).shape(shape(1, 64)).build());
    w.order(&[range(0, 11)], 12);
    w.run(seconds(5));
    assert_eq!(w.cluster.live().len(), 12);
    w.shard.views_renewed()
}

#[test]
fn a_question_of_placement_looks_at_the_hosts_that_have_changed_and_not_at_all() {
    let beyond_the_first = |hosts: u32| views_for_a_dozen(hosts) - u64::from(hosts);
    let few = beyond_the_first(20);
    assert_eq!(beyond_the_first(400), few);
    assert!(few <= 3 * 12, "{few} views for 12 instances");
}
