//! A backup of storage is put back beside a cluster that went on: nothing is begun or killed on what storage
//! knows, and after an operator has resumed it each instance runs once.

use crate::world::{World, job, range, seconds, task};
use echelon_core_hosts::{Call, TaskState, TaskStatus};
use echelon_core_model::control::Control;
use echelon_core_model::directive::{Order, ReportPart};
use echelon_core_model::store::{
    Answer, Batch, Decision, Leadership, Mark, Op, Query, Role, ShardKey, ShardRow, Stamp, Write,
};
use echelon_core_model::{AssignedRange, ClusterId, Epoch, Generation, RunState, Version};
use echelon_core_shard::{Alarm, Mode};
use echelon_core_testkit::build::JobBuilder;
use echelon_core_testkit::store::ModelStore;

/// A service of which every instance runs.
fn service(n: u32) -> World {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", n).build());
    w.order(&[range(0, n - 1)], u64::from(n));
    w.run(seconds(5));
    assert_eq!(w.cluster.live().len(), usize::try_from(n).unwrap());
    w
}

/// The run of an instance fails and is followed by the next.
fn fail(w: &mut World, n: u32, run: u32) {
    w.cluster.set(&task(n, 1, run), TaskState::Failed);
    w.run(seconds(60));
    w.cluster.tasks.remove(&task(n, 1, run));
    assert!(w.cluster.live().contains(&task(n, 1, run + 1)));
}

/// All processes stop, the backup is put back, and a new leader is elected.
fn put_back(w: &mut World, backup: ModelStore) {
    w.crash();
    w.store = backup;
    w.elect();
    w.run(seconds(5));
}

/// The same, and membership has forgotten what it had seen: only the cluster itself can show it.
pub fn put_back_unseen(w: &mut World, backup: ModelStore) {
    w.published = Stamp::default();
    put_back(w, backup);
}

/// What `echelon storage resume` stores; leaders find it when they look.
pub fn resume(w: &mut World) {
    let Answer::Leadership(stored) = w.store.read(&Query::Leadership(w.role())) else {
        panic!()
    };
    let epoch = stored.epoch.max(w.published.epoch).next();
    let next = Leadership {
        resumed: epoch,
        ..Leadership::taken(epoch, "resume", 1)
    };
    w.store.perform(Op::Decide(Decision::TakeEpoch {
        role: w.role(),
        next,
        expected: stored.epoch,
    }));
    w.run(seconds(30));
    if w.shard.mode() == Mode::Follower {
        w.elect();
    }
    w.run(seconds(30));
}

#[test]
fn nothing_is_begun_before_the_cluster_has_listed_all() {
    let mut w = service(2);
    w.crash();
    w.cluster.loses_ends = true;
    w.cluster.tasks.remove(&task(0, 1, 1));
    w.elect();
    w.run(seconds(60));
    w.connect();
    w.order(&[range(0, 2)], 3);
    w.run(seconds(5));
    assert_eq!(w.accepted().len(), 2, "neither a further run nor a first one");
    w.cluster.loses_ends = false;
    w.run(seconds(900));
    assert!(
        w.cluster.live().contains(&task(0, 1, 2)),
        "{:?}",
        w.cluster.live()
    );
}

#[test]
fn a_backup_from_before_a_run_freezes_and_doubles_nothing() {
    let mut w = service(3);
    let backup = w.store.clone();
    fail(&mut w, 0, 1);
    let (accepted, live) = (w.accepted().len(), w.cluster.live());
    put_back_unseen(&mut w, backup);
    assert_eq!(w.shard.mode(), Mode::Frozen);
    assert!(
        matches!(&w.alarms[..], [Alarm::StorageRolledBack { evidence }] if evidence.contains(&task(0, 1, 2))),
        "{:?}",
        w.alarms
    );
    w.run(seconds(1200));
    assert_eq!(w.accepted().len(), accepted);
    assert_eq!((w.kills(), w.cluster.live()), (Vec::new(), live));
}

#[test]
fn a_backup_from_before_the_first_run_of_a_number_freezes() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 2).build());
    w.cluster.hosts.clear();
    w.order(&[range(0, 1)], 2);
    w.run(seconds(5));
    let backup = w.store.clone();
    w.cluster.hosts = crate::cluster::Cluster::of(2, echelon_core_testkit::build::shape(4, 4096)).hosts;
    w.run(seconds(60));
    assert_eq!(w.cluster.live().len(), 2);
    fail(&mut w, 1, 1);
    put_back_unseen(&mut w, backup);
    assert_eq!(w.shard.mode(), Mode::Frozen);
    assert_eq!(w.cluster.live().len(), 2);
}

#[test]
fn a_task_of_an_older_storage_that_a_list_leaves_out_shows_when_its_id_is_used_again() {
    let mut w = service(1);
    let backup = w.store.clone();
    fail(&mut w, 0, 1);
    // The master has the task and has not told of it yet: it is left out of the list.
    w.cluster.unlisted.insert(task(0, 1, 2));
    let accepted = w.accepted().len();
    put_back_unseen(&mut w, backup);
    w.run(seconds(60));
    assert_eq!(w.shard.mode(), Mode::Frozen, "{:?}", w.alarms);
    assert_eq!(
        w.accepted().len(),
        accepted + 1,
        "one launch was refused, and no further one followed"
    );
    assert_eq!(w.cluster.live(), [task(0, 1, 2)]);
    let host = w.cluster.tasks[&task(0, 1, 2)].host.clone();
    w.run(seconds(60));
    resume(&mut w);
    w.run(seconds(60));
    assert_eq!((w.shard.mode(), w.state(0)), (Mode::Serving, RunState::Running));
    assert_eq!(w.record(0).unwrap().run.unwrap().host, host);
    assert_eq!(w.cluster.live(), [task(0, 1, 2)]);
}

/// A service of one instance of which storage knows the first run and the cluster has the second one, whose launch is
/// refused like this; what is left of it, and how many launches there were before.
fn refused_anew(refusal: TaskStatus, lives: bool) -> (World, usize) {
    let mut w = service(1);
    let backup = w.store.clone();
    fail(&mut w, 0, 1);
    w.cluster.unlisted.insert(task(0, 1, 2));
    w.cluster.refusal = Some(refusal);
    if !lives {
        w.cluster.set(&task(0, 1, 2), TaskState::Finished);
        w.cluster
            .tasks
            .get_mut(&task(0, 1, 2))
            .unwrap()
            .unacknowledged
            .clear();
    }
    let accepted = w.accepted().len();
    put_back_unseen(&mut w, backup);
    w.run(seconds(60));
    (w, accepted)
}

/// A refusal by the master.
fn by_master(reason: &str, message: &str) -> TaskStatus {
    TaskStatus {
        reason: reason.to_owned(),
        message: message.to_owned(),
        ..crate::cluster::status("", TaskState::Error, None)
    }
}

#[test]
fn an_id_that_a_group_uses_again_freezes() {
    let message = format!("Task '{0}' is invalid: Task has duplicate ID: {0}", task(0, 1, 2));
    let (w, accepted) = refused_anew(by_master("TASK_GROUP_INVALID", &message), true);
    assert_eq!((w.shard.mode(), w.accepted().len()), (Mode::Frozen, accepted + 1));
}

#[test]
fn an_executor_that_has_the_id_freezes() {
    let message = "ExecutorInfo is not compatible with existing ExecutorInfo with same ExecutorID.\n";
    let (w, accepted) = refused_anew(by_master("TASK_GROUP_INVALID", message), true);
    assert_eq!((w.shard.mode(), w.accepted().len()), (Mode::Frozen, accepted + 1));
}

#[test]
fn an_agent_that_still_has_the_executor_of_an_ended_task_freezes_and_is_acknowledged() {
    for (reason, message) in [
        (
            "TASK_INVALID",
            "Cannot reuse an already existing executor for a command task",
        ),
        (
            "EXECUTOR_TERMINATED",
            "Master wants to launch executor, but one already exists",
        ),
        ("EXECUTOR_TERMINATED", "Executor terminated"),
    ] {
        let refusal = TaskStatus {
            state: TaskState::Dropped,
            uuid: Some([9; 16]),
            ..by_master(reason, message)
        };
        let (w, accepted) = refused_anew(refusal, false);
        assert_eq!(
            (w.shard.mode(), w.accepted().len()),
            (Mode::Frozen, accepted + 1),
            "{message}"
        );
        let told = w.calls.iter().any(|call| {
            matches!(call, Call::Acknowledge { task: of, uuid, .. } if *of == task(0, 1, 2) && *uuid == [9; 16])
        });
        assert!(told, "{message}: an agent repeats what is not acknowledged");
    }
}

#[test]
fn a_launch_with_invalid_offers_says_nothing_of_an_earlier_one() {
    let refusal = TaskStatus {
        state: TaskState::Dropped,
        ..by_master(
            "INVALID_OFFERS",
            "Task launched with invalid offers: Offer o is no longer valid",
        )
    };
    let (w, _) = refused_anew(refusal, false);
    assert_eq!(w.shard.mode(), Mode::Serving);
    assert_eq!(w.cluster.live(), [task(0, 1, 3)]);
}

#[test]
fn a_task_of_an_unreachable_host_is_waited_for_after_its_id_was_used_again() {
    let mut w = service(1);
    let backup = w.store.clone();
    fail(&mut w, 0, 1);
    let home = w.cluster.tasks[&task(0, 1, 2)].host.clone();
    w.cluster.silent.push(home.clone());
    w.cluster.unlisted.insert(task(0, 1, 2));
    let message = format!("Task reuses the ID of an unreachable task: {}", task(0, 1, 2));
    w.cluster.refusal = Some(by_master("TASK_INVALID", &message));
    put_back_unseen(&mut w, backup);
    w.run(seconds(60));
    assert_eq!(w.shard.mode(), Mode::Frozen, "{:?}", w.alarms);
    resume(&mut w);
    w.run(seconds(60));
    assert_eq!(
        (w.shard.mode(), w.state(0)),
        (Mode::Serving, RunState::Unreachable),
        "the host that it was to run on does not know it: that proves nothing"
    );
    assert_eq!(w.cluster.live(), [task(0, 1, 2)]);
    w.cluster.silent.clear();
    w.cluster.unlisted.clear();
    w.cluster.set(&task(0, 1, 2), TaskState::Running);
    w.run(seconds(60));
    let run = w.record(0).unwrap().run.unwrap();
    assert_eq!((run.state, run.host), (RunState::Running, home));
    assert_eq!(w.cluster.live(), [task(0, 1, 2)]);
}

#[test]
fn after_resume_what_mesos_lists_is_the_latest_and_numbers_go_on_from_there() {
    let mut w = service(3);
    let backup = w.store.clone();
    fail(&mut w, 0, 1);
    fail(&mut w, 0, 2);
    fail(&mut w, 2, 1);
    let live = w.cluster.live();
    put_back_unseen(&mut w, backup);
    assert_eq!(w.shard.mode(), Mode::Frozen);
    resume(&mut w);
    assert_eq!(w.shard.mode(), Mode::Serving);
    assert_eq!(
        (w.cluster.live(), w.states(3)),
        (live, vec![RunState::Running; 3])
    );
    assert_eq!(w.kills(), Vec::<String>::new());
    w.connect();
    w.order(&[range(0, 2)], 3);
    w.run(seconds(60));
    // A further leader has nothing to take over, and freezes no more.
    w.restart();
    w.connect();
    w.order(&[range(0, 2)], 3);
    w.run(seconds(60));
    fail(&mut w, 0, 3);
    assert_eq!(w.states(3), vec![RunState::Running; 3]);
    assert_eq!(w.cluster.live().len(), 3);
}

#[test]
fn what_has_ended_since_the_backup_is_no_mass_loss() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::batch("work", 12).build());
    w.order(&[range(0, 11)], 12);
    w.run(seconds(5));
    assert_eq!(w.cluster.live().len(), 12);
    let backup = w.store.clone();
    for n in 0..10 {
        w.cluster.set(&task(n, 1, 1), TaskState::Finished);
    }
    w.run(seconds(5));
    for n in 0..10 {
        w.cluster.tasks.remove(&task(n, 1, 1));
    }
    put_back(&mut w, backup);
    assert_eq!(w.shard.mode(), Mode::Frozen);
    resume(&mut w);
    w.connect();
    w.order(&[range(0, 11)], 12);
    w.run(seconds(60));
    assert_eq!((w.shard.mass_loss(), w.cluster.live().len()), (None, 12));
    // From then on a loss is a loss.
    w.cluster.tasks.clear();
    w.restart();
    w.connect();
    w.order(&[range(0, 11)], 12);
    w.run(seconds(60));
    assert!(w.shard.mass_loss().is_some());
}

#[test]
fn a_second_backup_freezes_after_an_earlier_resume() {
    let mut w = service(2);
    let backup = w.store.clone();
    fail(&mut w, 0, 1);
    put_back_unseen(&mut w, backup);
    resume(&mut w);
    w.connect();
    w.order(&[range(0, 1)], 2);
    w.run(seconds(60));
    let backup = w.store.clone();
    fail(&mut w, 1, 1);
    put_back_unseen(&mut w, backup);
    assert_eq!(w.shard.mode(), Mode::Frozen);
}

#[test]
fn a_task_of_a_job_that_storage_does_not_have_stays_in_quarantine_after_resume() {
    let mut w = World::serving();
    let backup = w.store.clone();
    w.store_job(&JobBuilder::service("web", 1).build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(5));
    put_back_unseen(&mut w, backup);
    assert_eq!(w.shard.mode(), Mode::Serving, "a deleted job would look the same");
    resume(&mut w);
    w.run(seconds(600));
    assert_eq!((w.kills(), w.cluster.live()), (Vec::new(), vec![task(0, 1, 1)]));
    assert_eq!(w.shard.quarantined().count(), 1);
    assert!(w.shard.slices().all(|s| s.job != job()));
}

#[test]
fn a_shard_without_its_row_beside_stored_hosts_registers_no_new_framework() {
    let mut w = service(1);
    let framework = w.cluster.framework.clone();
    w.crash();
    // An empty row reads like none.
    w.store.perform(Op::Commit(Batch {
        owner: w.role(),
        stamp: Stamp {
            epoch: w.published.epoch,
            sequence: 1 << 30,
        },
        writes: vec![Write::Shard(ShardKey::Own, ShardRow::default())],
    }));
    w.elect();
    w.run(seconds(60));
    assert_eq!(w.shard.mode(), Mode::Frozen);
    assert_eq!(
        (w.cluster.framework.clone(), w.cluster.subscribed),
        (framework, false)
    );
}

/// The evidence of the only alarm.
fn evidence(w: &World) -> String {
    match &w.alarms[..] {
        [Alarm::StorageRolledBack { evidence }] => evidence.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_backup_that_left_nothing_in_mesos_freezes_by_what_membership_has_seen() {
    let mut w = service(2);
    let backup = w.store.clone();
    w.run(seconds(20));
    assert!(w.published.sequence > 0);
    let (accepted, live) = (w.accepted().len(), w.cluster.live());
    put_back(&mut w, backup);
    assert_eq!(w.shard.mode(), Mode::Frozen);
    let told = evidence(&w);
    assert!(told.contains("membership has seen write"), "{told}");
    w.run(seconds(300));
    assert_eq!((w.accepted().len(), w.cluster.live()), (accepted, live.clone()));
    resume(&mut w);
    assert_eq!(
        (w.shard.mode(), w.cluster.live(), w.kills()),
        (Mode::Serving, live, Vec::new())
    );
    // What was resumed is no evidence again.
    w.restart();
    assert_eq!(w.shard.mode(), Mode::Serving);
}

#[test]
fn newer_storage_that_is_put_back_ends_the_freeze() {
    let mut w = service(2);
    let backup = w.store.clone();
    w.run(seconds(20));
    let newest = w.store.clone();
    put_back(&mut w, backup);
    assert_eq!(w.shard.mode(), Mode::Frozen);
    w.store = newest;
    w.run(seconds(30));
    assert_eq!(w.shard.mode(), Mode::Serving);
}

#[test]
fn leaders_that_change_without_a_backup_never_freeze() {
    let mut w = service(2);
    for n in 0..20 {
        w.run(seconds(n % 7));
        w.restart();
        assert_eq!(w.shard.mode(), Mode::Serving, "{:?}", w.alarms);
    }
}

/// A storage in which a leader of epoch 1 has stored how new it is, and of which other rows are lost.
fn remains(has_leadership: bool) -> World {
    let mut w = World::new();
    if has_leadership {
        w.store.perform(Op::Decide(Decision::TakeEpoch {
            role: w.role(),
            next: Leadership::taken(Epoch(1), "old", 1),
            expected: Epoch(0),
        }));
    }
    let stamp = Stamp {
        epoch: Epoch(1),
        sequence: 9,
    };
    w.store.perform(Op::Commit(Batch {
        owner: w.role(),
        stamp,
        writes: vec![Write::Mark(Mark {
            stamp,
            control: Version(u64::from(has_leadership)),
            at: w.now,
            settled: Epoch(0),
        })],
    }));
    w
}

#[test]
fn a_leadership_that_is_lost_is_no_first_one() {
    let mut w = remains(false);
    w.elect();
    w.run(seconds(30));
    assert_eq!((w.shard.mode(), w.cluster.subscribed), (Mode::Frozen, false));
    let told = evidence(&w);
    assert!(told.contains("the row of its leadership is of epoch 0"), "{told}");
}

#[test]
fn switches_that_are_lost_are_not_taken_for_kills_that_are_on() {
    let mut w = remains(true);
    w.elect();
    w.run(seconds(30));
    assert_eq!((w.shard.mode(), w.cluster.subscribed), (Mode::Frozen, false));
    let told = evidence(&w);
    assert!(told.contains("version 1 of the switches was obeyed"), "{told}");
}

#[test]
fn a_row_of_the_shard_that_is_lost_registers_no_new_framework() {
    let mut w = remains(true);
    let control = Control {
        version: Version(1),
        ..Control::default()
    };
    w.store.perform(Op::Decide(Decision::PutControl {
        control,
        expected: Version(0),
    }));
    w.elect();
    w.run(seconds(30));
    assert_eq!((w.shard.mode(), w.cluster.subscribed), (Mode::Frozen, false));
    let told = evidence(&w);
    assert!(told.contains("restore the table `shards`"), "{told}");
}

#[test]
fn a_leader_hands_on_that_storage_was_resumed() {
    let mut w = service(1);
    resume(&mut w);
    w.restart();
    let Answer::Leadership(stored) = w.store.read(&Query::Leadership(w.role())) else {
        panic!()
    };
    assert!(stored.resumed > Epoch(0) && stored.resumed < stored.epoch);
}

#[test]
fn a_resource_manager_is_obeyed_after_a_resume() {
    let mut w = service(1);
    w.rm = Epoch(3);
    let taken = Leadership::taken(w.rm, "rm", 7);
    w.store.perform(Op::Decide(Decision::TakeEpoch {
        role: Role::ResourceManager,
        next: Leadership {
            resumed: Epoch(2),
            ..taken.clone()
        },
        expected: Epoch(1),
    }));
    w.open(taken);
    w.order(&[range(0, 1)], 2);
    w.run(seconds(30));
    assert!(w.refused.is_empty(), "{:?}", w.refused);
    assert_eq!(w.cluster.live().len(), 2);
}

/// The numbers that were told as found last, by generation; `None`: nothing was told yet.
fn found(w: &World) -> Option<Vec<(u32, Vec<u32>)>> {
    let mut parts = w.reports.iter().filter_map(|r| match &r.part {
        ReportPart::Found(found) => Some(found),
        _ => None,
    });
    let last = parts.next_back()?;
    assert!(last.begins && last.ends);
    let slices = last.slices.iter();
    let slices = slices.map(|s| (s.generation.0, s.numbers.numbers().map(|n| n.0).collect()));
    Some(slices.collect())
}

/// A range of this cluster at another generation.
fn range_at(generation: u32, first: u32, last: u32) -> AssignedRange {
    AssignedRange {
        generation: Generation(generation),
        ..range(first, last)
    }
}

/// Two instances run at generation 1, and number 2 at generation `g`; the backup knows of number 2 what `before` says.
fn found_at(g: u32, before: &[AssignedRange]) -> World {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 3).build());
    w.order(before, 3);
    w.run(seconds(5));
    let backup = w.store.clone();
    let grants: &[(u32, u64)] = if g == 1 { &[(1, 3)] } else { &[(1, 2), (g, 1)] };
    w.order_at(&[range(0, 1), range_at(g, 2, 2)], grants);
    w.run(seconds(5));
    assert_eq!(w.cluster.live().len(), 3, "{:?}", w.cluster.live());
    put_back_unseen(&mut w, backup);
    resume(&mut w);
    w.reports.clear();
    w
}

#[test]
fn what_is_assigned_nowhere_is_told_and_adopted_once_it_is_assigned() {
    let mut w = found_at(1, &[range(0, 1)]);
    let (live, accepted) = (w.cluster.live(), w.accepted().len());
    w.connect();
    w.direct(Order::Report);
    w.run(seconds(5));
    assert_eq!(found(&w), Some(vec![(1, vec![2])]));
    // The next leader finds it, too, and does not take it for a newer storage that was put back.
    w.restart();
    w.reports.clear();
    w.connect();
    w.direct(Order::Report);
    w.run(seconds(5));
    assert_eq!(found(&w), Some(vec![(1, vec![2])]));
    w.order(&[range(0, 2)], 2);
    w.run(seconds(60));
    assert_eq!(
        (w.shard.mode(), w.cluster.live(), w.kills(), w.accepted().len()),
        (Mode::Serving, live, Vec::new(), accepted)
    );
    assert_eq!(w.states(3), vec![RunState::Running; 3]);
    assert_eq!(found(&w), Some(vec![]));
    assert_eq!(w.shard.quarantined().count(), 0);
    // The grant of 2 did not know of it, and stops none of the three; the next one includes it.
    w.order(&[range(0, 2)], 2);
    w.run(seconds(60));
    assert_eq!(w.kills(), Vec::<String>::new());
}

#[test]
fn what_is_of_a_later_generation_is_told_and_adopted_once_that_is_assigned() {
    let mut w = found_at(
        3,
        &[
            range(0, 1),
            AssignedRange {
                cluster: ClusterId::new("c2"),
                ..range(2, 2)
            },
        ],
    );
    let (live, accepted) = (w.cluster.live(), w.accepted().len());
    w.connect();
    w.direct(Order::Report);
    w.run(seconds(5));
    assert_eq!(found(&w), Some(vec![(3, vec![2])]));
    w.order_at(&[range(0, 1), range_at(3, 2, 2)], &[(1, 2)]);
    w.run(seconds(60));
    assert_eq!(
        (w.cluster.live(), w.kills(), w.accepted().len()),
        (live, Vec::new(), accepted)
    );
    assert_eq!(w.states(3), vec![RunState::Running; 3]);
    // Nothing is left to be taken over: what is newer from here on is new evidence.
    assert_eq!(found(&w), Some(vec![]));
    let backup = w.store.clone();
    fail(&mut w, 0, 1);
    put_back_unseen(&mut w, backup);
    assert_eq!(w.shard.mode(), Mode::Frozen);
}

#[test]
fn what_was_assigned_elsewhere_after_the_resume_is_stopped() {
    let mut w = found_at(1, &[range(0, 1)]);
    w.connect();
    let elsewhere = AssignedRange {
        cluster: ClusterId::new("c2"),
        ..range(2, 2)
    };
    w.assign(&[range(0, 1), elsewhere]);
    w.run(seconds(60));
    assert_eq!(w.cluster.live(), [task(0, 1, 1), task(1, 1, 1)]);
    assert_eq!(found(&w), Some(vec![]));
}

#[test]
fn nothing_is_told_as_found_before_the_cluster_has_listed_all() {
    let mut w = service(2);
    w.crash();
    w.cluster.loses_ends = true;
    w.elect();
    resume(&mut w);
    w.reports.clear();
    w.connect();
    w.direct(Order::Report);
    w.run(seconds(60));
    assert_eq!(found(&w), None);
    w.cluster.loses_ends = false;
    w.run(seconds(900));
    assert_eq!(found(&w), Some(vec![]));
}
