//! What a shard does with offers: it asks for them when something waits, keeps none that serve nobody, and is quick.

use crate::world::{Storage, World, range, seconds, task};
use echelon_core_hosts::Call;
use echelon_core_model::RunState;
use echelon_core_model::time::Span;
use echelon_core_testkit::build::{JobBuilder, shape};

fn revivals(w: &World) -> usize {
    w.calls.iter().filter(|c| matches!(c, Call::Revive)).count()
}

/// How long declined offers are refused.
fn refused(w: &World) -> Vec<Span> {
    let declines = w.calls.iter().filter_map(|c| match c {
        Call::Decline { refuse, .. } => Some(*refuse),
        _ => None,
    });
    declines.collect()
}

#[test]
fn an_idle_shard_holds_nothing_and_launches_at_once_when_something_comes() {
    let mut w = World::serving();
    w.run(seconds(60));
    assert!(w.cluster.suppressed);
    assert_eq!((w.shard.open_offers(), w.cluster.offers.len()), (0, 0));
    let spec = JobBuilder::service("web", 2).build();
    w.store_job(&spec);
    w.order(&[range(0, 1)], 2);
    w.run(Span::millis(100));
    let launched = w.calls.iter().filter(|c| matches!(c, Call::Accept { .. }));
    assert!(launched.count() > 0, "{:?}", w.calls.last());
}

#[test]
fn what_fits_nothing_that_waits_is_refused_for_long() {
    let mut w = World::serving();
    let spec = JobBuilder::service("large", 1).shape(shape(64, 100)).build();
    w.store_job(&spec);
    w.order(&[range(0, 0)], 1);
    w.run(seconds(20));
    w.calls.clear();
    w.cluster.offer();
    w.run(seconds(1));
    assert_eq!(w.shard.open_offers(), 0);
    assert_eq!(refused(&w), [Span::minutes(5)]);
    w.calls.clear();
    w.run(seconds(30));
    assert_eq!(revivals(&w), 0, "the same demand asks for the same room seldom");
}

#[test]
fn another_demand_asks_for_what_the_first_refused() {
    let mut w = World::serving();
    let large = JobBuilder::service("large", 1).shape(shape(64, 100)).build();
    w.store_job(&large);
    w.order(&[range(0, 0)], 1);
    w.run(seconds(20));
    w.calls.clear();
    // All filters are in force: nothing is offered before offers are revived.
    w.cluster.suppressed = true;
    // The same job in a smaller shape: a new version of its spec.
    let small = JobBuilder::service("large", 1).build();
    w.store_job(&small);
    w.order(&[range(0, 0)], 1);
    w.run(seconds(1));
    assert_eq!(revivals(&w), 1);
    assert!(w.calls.iter().any(|c| matches!(c, Call::Accept { .. })));
}

#[test]
fn room_that_is_offered_again_before_an_end_is_told_is_used() {
    let mut w = World::new();
    w.cluster = crate::cluster::Cluster::of(1, shape(4, 4096));
    w.cluster.lists = Some(true);
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.store_job(&JobBuilder::service("web", 5).build());
    w.order(&[range(0, 4)], 5);
    w.run(seconds(2));
    assert_eq!(w.accepted().len(), 4);
    // It has ended, its update does not get through, and Mesos offers its room.
    w.cluster.tasks.remove(&task(0, 1, 1));
    w.cluster.offers.clear();
    w.run(seconds(3));
    assert_eq!(w.accepted().len(), 5);
}

#[test]
fn a_list_of_agents_does_not_hide_what_is_offered_again() {
    let mut w = World::new();
    w.cluster = crate::cluster::Cluster::of(1, shape(4, 4096));
    w.cluster.lists = Some(true);
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.store_job(&JobBuilder::service("web", 5).build());
    w.order(&[range(0, 4)], 5);
    w.run(seconds(2));
    assert_eq!(w.accepted().len(), 4);
    // The next list is late.
    w.cluster.lists = None;
    w.calls.clear();
    while !w.calls.contains(&Call::ListAgents) {
        w.run(seconds(1));
    }
    w.cluster.tasks.remove(&task(0, 1, 1));
    w.cluster.offers.clear();
    w.storage = Storage::StallsCommits;
    w.run(Span::millis(500));
    assert_eq!(w.state(4), RunState::Launching);
    // It comes when the capacity that is offered again is about to be used. The checker looks after each step.
    w.cluster.lists = Some(true);
    w.cluster.call(&Call::ListAgents);
    w.drain();
    w.unstall();
    w.run(seconds(1));
    assert_eq!(w.accepted().len(), 1);
}
