//! Instances whose runs were given up leave their cluster: from hosts that are gone, and from a cluster without Mesos that is
//! lost to their job. What was given up is stopped if it is ever seen again.

use crate::world::{World, marked, range, seconds, task};
use echelon_core_hosts::{Event as Told, TaskState};
use echelon_core_model::spec::OnSilence;
use echelon_core_model::{AssignedRange, Generation, ReasonCode, RunState, Span};
use echelon_core_shard::Event;
use echelon_core_testkit::build::JobBuilder;

/// Three instances that run.
fn three() -> World {
    let mut w = World::serving();
    let mut spec = JobBuilder::service("web", 3).build();
    spec.on_unreachable = OnSilence::Replace(Span::minutes(1));
    w.store_job(&spec);
    w.order(&[range(0, 2)], 3);
    w.run(seconds(3));
    let running = (0..3).filter(|n| w.state(*n) == RunState::Running).count();
    assert_eq!(running, 3);
    w
}

fn lost() -> AssignedRange {
    let mut lost = marked(range(0, 2), None, None);
    if let Some(mark) = &mut lost.releasing {
        mark.why = ReasonCode::ClusterLost;
    }
    lost
}

/// Mesos goes away, and the resource manager goes on to be heard.
fn lose_mesos(w: &mut World) {
    w.cluster.deaf = true;
    w.cluster.subscribed = false;
    let why = "cut off".to_owned();
    w.step(Event::Cluster(Told::Disconnected { why }));
}

fn released(w: &World) -> Vec<u32> {
    let slice = w.slice(1).unwrap();
    slice.released.numbers().map(|n| n.0).collect()
}

#[test]
fn what_runs_at_a_cluster_without_mesos_is_given_up_and_stopped_when_it_is_seen_again() {
    let mut w = three();
    lose_mesos(&mut w);
    w.run(seconds(10));
    w.order(&[lost()], 3);
    w.run(seconds(5));
    assert_eq!(released(&w), [0, 1, 2]);
    assert_eq!(w.kills().len(), 0, "there is nobody to order it from");
    for n in 0..3 {
        let record = w.stored(n).unwrap();
        assert_eq!(record.run, None);
        assert_eq!(record.older.len(), 1, "{record:?}");
    }
    // Mesos is back, and what was given up is alive.
    w.cluster.deaf = false;
    w.run(Span::minutes(3));
    assert!(w.cluster.subscribed);
    let killed: Vec<String> = w.kills();
    for n in 0..3 {
        assert!(killed.contains(&task(n, 1, 1)), "{killed:?}");
    }
    assert_eq!(w.accepted().len(), 3, "nothing of it begins again here");
}

/// The shard's own word counts: a request that comes when Mesos is there stops nothing.
#[test]
fn nothing_is_given_up_while_mesos_is_there() {
    let mut w = three();
    w.order(&[lost()], 3);
    w.run(seconds(30));
    assert_eq!(released(&w), [] as [u32; 0]);
    assert_eq!(w.kills().len(), 0);
    // It is withdrawn.
    w.order(&[range(0, 2)], 3);
    w.run(seconds(5));
    assert_eq!((0..3).filter(|n| w.state(*n) == RunState::Running).count(), 3);
    assert_eq!(w.accepted().len(), 3);
}

/// Its process dies between the giving up and the release.
#[test]
fn a_new_leader_stops_what_the_one_before_had_given_up() {
    let mut w = three();
    lose_mesos(&mut w);
    w.run(seconds(10));
    w.order(&[lost()], 3);
    w.run(seconds(1));
    w.crash();
    w.cluster.deaf = false;
    w.elect();
    w.run(seconds(2));
    w.connect();
    w.order(&[lost()], 3);
    w.run(seconds(60));
    let killed = w.kills();
    let stopped = (0..3).filter(|n| killed.contains(&task(*n, 1, 1))).count();
    assert_eq!(stopped, 3, "{killed:?}");
}

/// All hosts vanish. Once their instances may be replaced and find no host they go back as what has not begun does.
#[test]
fn what_ran_on_hosts_that_are_gone_leaves_when_its_grant_is_taken_back() {
    let mut w = three();
    let hosts: Vec<_> = (0..3).map(|n| w.record(n).unwrap().run.unwrap().host).collect();
    w.cluster.silent.extend(hosts);
    w.cluster.hosts.clear();
    for n in 0..3 {
        w.cluster.say(&task(n, 1, 1), TaskState::Unreachable);
    }
    w.run(seconds(30));
    let slice = w.slice(1).unwrap();
    assert_eq!((slice.active, slice.between_runs), (3, 0), "patience is not over");
    w.run(seconds(60));
    let slice = w.slice(1).unwrap();
    assert_eq!((slice.active, slice.between_runs), (3, 3));
    let mut back = marked(range(0, 2), None, Some(3));
    back.generation = Generation(1);
    w.order(&[back], 0);
    w.run(seconds(5));
    assert_eq!(released(&w), [0, 1, 2]);
    // Their host is seen again.
    w.cluster.silent.clear();
    for n in 0..3 {
        w.cluster.say(&task(n, 1, 1), TaskState::Running);
    }
    w.run(seconds(10));
    let killed = w.kills();
    let stopped = (0..3).filter(|n| killed.contains(&task(*n, 1, 1))).count();
    assert_eq!(stopped, 3, "{killed:?}");
    assert_eq!(w.accepted().len(), 3, "nothing of it begins again here");
}
