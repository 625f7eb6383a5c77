//! The rule of evidence: each row of the table a case.

use crate::cluster::Task;
use crate::world::{Storage, World, job, marked, range, seconds, task};
use echelon_core_hosts::{Event as Told, TaskState, TaskStatus};
use echelon_core_model::job::Desired;

use echelon_core_model::time::Span;
use echelon_core_model::{AssignedRange, ClusterId, Generation, HostId, RunState, Timestamp};
use echelon_core_shard::{Alarm, Event, Mode};
use echelon_core_testkit::build::{JobBuilder, job_id, shape};
use std::collections::{BTreeMap, VecDeque};

/// Puts a running task onto the cluster without the shard's doing, and lets the cluster tell of it.
fn plant(w: &mut World, id: &str) {
    let host = HostId::new("host-0");
    let new = Task {
        volume: None,
        host,
        state: TaskState::Staging,
        resources: shape(1, 64),
        env: BTreeMap::new(),
        ports: Vec::new(),
        pod: None,
        unacknowledged: VecDeque::new(),
    };
    w.cluster.tasks.insert(id.to_owned(), new);
    w.cluster.set(id, TaskState::Running);
    w.run(seconds(3));
}

fn with_job(n: u32) -> World {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", n).build());
    w.order(&[range(0, n - 1)], u64::from(n));
    w.run(seconds(2));
    w
}

#[test]
fn what_is_not_our_naming_is_never_touched() {
    let mut w = with_job(1);
    for id in ["someone-elses", "01jd.main.0.1.1", "."] {
        plant(&mut w, id);
        assert!(
            w.cluster.tasks[id].unacknowledged.is_empty(),
            "{id} repeats itself for ever"
        );
    }
    w.run(seconds(1200));
    assert_eq!(w.kills(), Vec::<String>::new());
    assert!(w.alarms.is_empty());
}

#[test]
fn ours_without_any_record_is_quarantined() {
    let mut w = World::serving();
    let id = format!("{}.main.0.1.1", job_id(99));
    plant(&mut w, &id);
    assert_eq!(w.alarms, [Alarm::Quarantined(id.parse().unwrap())]);
    w.run(seconds(1200));
    assert_eq!(w.kills(), Vec::<String>::new());
    assert_eq!(w.shard.quarantined().count(), 1);
    // It leaves when it ends.
    w.cluster.set(&id, TaskState::Finished);
    w.run(seconds(1));
    assert_eq!(w.shard.quarantined().count(), 0);
}

#[test]
fn an_instance_does_not_begin_beside_its_quarantined_task() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::batch("hello", 1).build());
    plant(&mut w, &task(0, 1, 1));
    w.order(&[range(0, 0)], 1);
    w.run(seconds(5));
    assert_eq!(w.accepted(), Vec::<String>::new());
}

#[test]
fn a_stranger_of_a_stopped_or_deleted_job_is_killed() {
    for desired in [Desired::Stopped, Desired::Deleted] {
        let mut w = World::serving();
        w.wish(&JobBuilder::service("web", 1).build(), desired, 0);
        plant(&mut w, &task(0, 1, 1));
        assert_eq!(w.kills(), [task(0, 1, 1)], "{desired:?}");
    }
}

#[test]
fn a_stranger_whose_number_another_cluster_holds_at_a_newer_generation_is_killed() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 1).build());
    w.assign(&[AssignedRange {
        cluster: ClusterId::new("c2"),
        generation: Generation(2),
        ..range(0, 0)
    }]);
    plant(&mut w, &task(0, 1, 1));
    assert_eq!(w.kills(), [task(0, 1, 1)]);
}

#[test]
fn a_stranger_whose_number_another_cluster_holds_at_the_same_generation_is_left() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 1).build());
    w.assign(&[AssignedRange {
        cluster: ClusterId::new("c2"),
        ..range(0, 0)
    }]);
    plant(&mut w, &task(0, 1, 1));
    assert_eq!(w.kills(), Vec::<String>::new());
}

#[test]
fn a_stranger_whose_range_is_marked_away_is_killed() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 1).build());
    w.assign(&[marked(range(0, 0), Some("c2"), None)]);
    plant(&mut w, &task(0, 1, 1));
    assert_eq!(w.kills(), [task(0, 1, 1)]);
}

#[test]
fn a_task_of_a_released_number_is_killed() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 1).build());
    w.order(&[marked(range(0, 0), Some("c2"), None)], 0);
    w.run(seconds(1));
    assert_eq!(w.slice(1).unwrap().released.to_string(), "0");
    w.order(&[], 0);
    w.run(seconds(1));
    plant(&mut w, &task(0, 1, 1));
    assert_eq!(w.kills(), [task(0, 1, 1)]);
}

#[test]
fn an_older_run_than_the_stored_one_is_killed_and_its_updates_change_nothing() {
    let mut w = with_job(1);
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.run(seconds(5));
    let before = w.stored(0).unwrap();
    w.cluster.tasks.remove(&task(0, 1, 1));
    plant(&mut w, &task(0, 1, 1));
    assert_eq!(w.kills(), [task(0, 1, 1)]);
    w.hear(&task(0, 1, 1), TaskState::Finished, "host-0");
    w.run(seconds(1));
    assert_eq!(w.stored(0).unwrap(), before);
}

#[test]
fn a_newer_run_that_is_not_stored_yet_is_no_evidence() {
    let mut w = with_job(1);
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    while w.record(0).unwrap().run.unwrap().number.0 == 1 {
        w.storage = Storage::Works;
        w.run(Span::millis(1));
        w.storage = Storage::StallsCommits;
    }
    // The master lags behind: it still says that the older run lives.
    w.hear(&task(0, 1, 1), TaskState::Running, "host-0");
    w.run(seconds(1));
    assert_eq!(w.kills(), Vec::<String>::new());
    w.storage = Storage::Works;
    w.unstall();
    w.run(seconds(1));
    assert_eq!(w.kills(), [task(0, 1, 1)]);
}

#[test]
fn a_run_newer_than_storage_knows_freezes_kills_and_starts() {
    let mut w = with_job(2);
    plant(&mut w, &task(0, 1, 9));
    assert_eq!(w.shard.mode(), Mode::Frozen);
    assert!(matches!(w.alarms[..], [Alarm::StorageRolledBack { .. }]));
    w.wish(&JobBuilder::service("web", 2).build(), Desired::Stopped, 0);
    w.order(&[range(0, 1)], 2);
    w.run(seconds(5));
    assert_eq!(w.kills(), Vec::<String>::new());
    w.cluster.set(&task(1, 1, 1), TaskState::Failed);
    let accepted = w.accepted().len();
    w.run(seconds(10));
    assert_eq!(w.accepted().len(), accepted);
}

#[test]
fn an_absent_job_is_no_evidence() {
    let mut w = with_job(2);
    w.store = {
        // Heads and assignments are gone, the epoch is not.
        let mut fresh = echelon_core_testkit::store::ModelStore::new();
        let take = echelon_core_model::store::Decision::TakeEpoch {
            role: w.role(),
            next: echelon_core_model::store::Leadership {
                epoch: w.shard.epoch(),
                holder: "one".to_owned(),
                proof: 1,
                resumed: echelon_core_model::Epoch(0),
            },
            expected: echelon_core_model::Epoch(0),
        };
        fresh.perform(echelon_core_model::store::Op::Decide(take));
        fresh
    };
    w.step(Event::LinkClosed(w.link));
    w.run(seconds(120));
    assert_eq!((w.kills().len(), w.cluster.live().len()), (0, 2));
}

#[test]
fn a_killed_stranger_is_killed_again_until_it_is_dead() {
    let mut w = World::serving();
    w.wish(&JobBuilder::service("web", 1).build(), Desired::Deleted, 0);
    w.cluster.silent.push(HostId::new("host-0"));
    plant(&mut w, &task(0, 1, 1));
    w.run(seconds(30));
    assert!(w.kills().len() > 1);
    w.cluster.silent.clear();
    w.run(seconds(60));
    let killed = w.kills().len();
    w.run(seconds(200));
    assert_eq!(w.kills().len(), killed);
}

#[test]
fn an_order_that_names_other_groups_or_nothing_leaves_the_rest_alone() {
    use echelon_core_model::directive::Order;
    let mut w = with_job(2);
    w.direct(Order::Slices(Vec::new()));
    w.run(seconds(40));
    assert_eq!((w.kills().len(), w.states(2)), (0, vec![RunState::Running; 2]));
    let empty = w.shard.slices().filter(|s| s.job == job()).count();
    assert_eq!(empty, 1);
}

#[test]
fn an_update_without_agent_or_of_an_unknown_state_of_things_proves_nothing() {
    let mut w = with_job(1);
    for state in [TaskState::Unknown, TaskState::Lost, TaskState::Unreachable] {
        let status = crate::cluster::status(&task(0, 1, 1), state, None);
        w.step(Event::Cluster(Told::Update(status)));
        assert_eq!(w.state(0), RunState::Unreachable);
        w.run(seconds(20));
        assert_eq!(w.accepted().len(), 1, "{state:?} is not proof of death");
    }
}

#[test]
fn what_is_told_late_is_dated_when_it_happened() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::batch("sums", 1).build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    assert_eq!(w.state(0), RunState::Running);
    w.run(seconds(600));
    let ended = Timestamp(w.now.0 - 60_000);
    let host = w.record(0).unwrap().run.unwrap().host;
    let status = TaskStatus {
        at: Some(ended),
        ..crate::cluster::status(&task(0, 1, 1), TaskState::Finished, Some(host))
    };
    w.step(Event::Cluster(Told::Update(status)));
    w.run(seconds(2));
    assert_eq!(w.slice(1).unwrap().last_ended, Some(ended));
    let events = w.store.events_of(job(), &w.role());
    let end = events.iter().find(|e| e.state == Some(RunState::Succeeded));
    let end = end.unwrap();
    assert_eq!(end.happened, ended);
    assert!(end.at > ended.plus(seconds(59)), "it is written now");
}
