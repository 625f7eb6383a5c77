//! Tasks that stay too long between two states are asked about one by one, and what the answer says is obeyed: lost updates,
//! agents that come back, agents that come back as others.

use crate::world::{World, range, seconds, task};
use echelon_core_hosts::{Call, TaskState};
use echelon_core_model::job::Desired;
use echelon_core_model::{HostId, RunState};
use echelon_core_testkit::build::JobBuilder;

fn web(n: u32) -> World {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", n).build());
    w.order(&[range(0, n - 1)], u64::from(n));
    w.run(seconds(5));
    w.calls.clear();
    w
}

/// The tasks asked about by name, the end marker of a complete reconciliation left out.
fn asked(w: &World) -> Vec<String> {
    let tasks = w.calls.iter().filter_map(|c| match c {
        Call::Reconcile { tasks } => Some(tasks),
        _ => None,
    });
    let ids = tasks.flatten().map(|(id, _)| id.clone());
    ids.filter(|id| !id.starts_with("echelon-")).collect()
}

/// Moves a task on, and the word of it is lost.
fn silently(w: &mut World, id: &str, state: TaskState) {
    let t = w.cluster.tasks.get_mut(id).unwrap();
    t.state = state;
    t.unacknowledged.clear();
}

#[test]
fn a_running_task_is_not_asked_about_by_itself() {
    let mut w = web(3);
    w.run(seconds(500));
    assert_eq!(asked(&w), Vec::<String>::new());
}

#[test]
fn a_task_that_starts_for_too_long_is_asked_about_at_growing_intervals() {
    let mut w = World::serving();
    w.cluster.starts = false;
    w.store_job(&JobBuilder::service("web", 1).build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    w.cluster.set(&task(0, 1, 1), TaskState::Starting);
    w.run(seconds(50));
    assert_eq!(asked(&w), Vec::<String>::new());
    w.run(seconds(500));
    // After 1, 2, 4 and 8 minutes at most.
    assert!((3..=4).contains(&asked(&w).len()), "{:?}", asked(&w));
    silently(&mut w, &task(0, 1, 1), TaskState::Running);
    w.run(seconds(800));
    assert_eq!(w.state(0), RunState::Running);
}

#[test]
fn an_end_whose_word_was_lost_is_heard_when_asked_for() {
    let mut w = web(2);
    w.hear(&task(0, 1, 1), TaskState::Starting, "host-0");
    w.wish(&JobBuilder::service("web", 2).build(), Desired::Stopped, 0);
    // The kills are lost, and so is the word of the end.
    w.cluster.deaf = true;
    w.order(&[range(0, 1)], 2);
    w.run(seconds(3));
    assert_eq!(w.state(0), RunState::Stopping);
    w.cluster.tasks.clear();
    w.cluster.deaf = false;
    w.run(seconds(120));
    assert_eq!(w.states(2), [RunState::Killed; 2]);
}

#[test]
fn an_agent_that_comes_back_with_its_tasks_is_found_though_nothing_announces_it() {
    let mut w = web(3);
    let id = task(0, 1, 1);
    let host = w.cluster.tasks[&id].host.clone();
    w.cluster.silent.push(host.clone());
    // Its room is used up, so that no offer of it tells either.
    w.cluster.hosts.insert(host.clone(), w.cluster.used(&host));
    w.cluster.say(&id, TaskState::Unreachable);
    w.run(seconds(30));
    assert_eq!(w.state(0), RunState::Unreachable);
    w.cluster.silent.clear();
    w.run(seconds(40));
    assert_eq!(w.state(0), RunState::Running);
    assert_eq!((w.accepted().len(), w.kills().len()), (0, 0));
}

#[test]
fn an_agent_that_comes_back_under_another_id_has_its_tasks_replaced_after_their_patience() {
    let mut w = web(3);
    let id = task(0, 1, 1);
    let host = w.cluster.tasks[&id].host.clone();
    let lost: Vec<String> = w
        .cluster
        .tasks
        .iter()
        .filter(|(_, t)| t.host == host)
        .map(|(id, _)| id.clone())
        .collect();
    let room = w.cluster.hosts.remove(&host).unwrap();
    w.cluster.offers.retain(|_, (h, _)| *h != host);
    w.cluster.hosts.insert(HostId::new("host-new"), room);
    // The master removes the old id at once: TASK_LOST, and afterwards it knows nothing of it (R115).
    for id in &lost {
        w.cluster.say(id, TaskState::Lost);
    }
    w.run(seconds(1));
    for id in &lost {
        w.cluster.tasks.remove(id);
    }
    assert_eq!(w.state(0), RunState::Unreachable);
    w.run(seconds(200));
    assert_eq!((w.state(0), w.accepted().len()), (RunState::Unreachable, 0));
    w.run(seconds(120));
    assert_eq!(w.states(3), [RunState::Running; 3]);
    assert_eq!(w.accepted().len(), lost.len());
}

#[test]
fn a_run_that_does_not_start_in_time_is_stopped_and_another_one_begins() {
    let mut w = World::serving();
    w.cluster.starts = false;
    w.store_job(&JobBuilder::batch("once", 1).max_start(seconds(60)).build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    w.cluster.set(&task(0, 1, 1), TaskState::Starting);
    w.run(seconds(55));
    assert_eq!(w.kills(), Vec::<String>::new());
    w.cluster.starts = true;
    w.run(seconds(10));
    assert_eq!(w.kills(), [task(0, 1, 1)]);
    assert_eq!(w.state(0), RunState::Running);
    let record = w.stored(0).unwrap();
    assert_eq!((record.attempts, record.run.unwrap().number.0), (1, 2));
}
