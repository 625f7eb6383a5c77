//! What a task costs: no walk over all instances for each, and little memory. Counted, not timed.

use crate::cluster::Cluster;
use crate::world::{World, range, seconds};
use echelon_core_hosts::TaskState;
use echelon_core_model::store::Op;
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
