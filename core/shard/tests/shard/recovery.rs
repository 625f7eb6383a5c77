//! A new leader: reading, sealing, reconciling, and what it may do before the cluster has answered.

use crate::world::{Storage, World, config, range, seconds, task};
use echelon_core_hosts::{Call, Event as Told, TaskState};
use echelon_core_model::RunState;
use echelon_core_model::job::Desired;
use echelon_core_model::store::{Op, Write};
use echelon_core_model::time::Span;
use echelon_core_shard::{Alarm, Event, Mode, Shard};
use echelon_core_testkit::build::JobBuilder;

fn web(n: u32) -> World {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", n).build());
    w.order(&[range(0, n - 1)], u64::from(n));
    w.run(seconds(2));
    w
}

#[test]
fn running_tasks_survive_a_restart_untouched() {
    let mut w = web(5);
    let before = w.cluster.live();
    w.restart();
    w.run(seconds(60));
    assert_eq!(
        (w.cluster.live(), w.kills().len(), w.accepted().len()),
        (before, 0, 5)
    );
    assert_eq!(w.states(5), [RunState::Running; 5]);
}

#[test]
fn every_block_and_row_is_written_back_under_the_new_epoch() {
    let mut w = web(2);
    w.crash();
    w.ops.clear();
    w.elect();
    w.run(seconds(1));
    let epoch = w.shard.epoch();
    let mut sealed = (0, 0);
    for op in &w.ops {
        let Op::Commit(batch) = op else { continue };
        assert_eq!(batch.stamp.epoch, epoch);
        for write in &batch.writes {
            match write {
                Write::Block(b) if b.instances.len() == 2 => sealed.0 += 1,
                Write::Slice(_) => sealed.1 += 1,
                _ => {}
            }
        }
    }
    assert!(sealed.0 >= 1 && sealed.1 >= 1, "{sealed:?}");
    assert_eq!(
        w.count_reads(|q| matches!(q, echelon_core_model::store::Query::BlockBucket(..))),
        256
    );
}

#[test]
fn nothing_is_read_before_the_subscription_stands() {
    let mut w = web(1);
    w.crash();
    w.ops.clear();
    w.step(Event::Elected {
        published: w.published,
    });
    let subscribe = w.calls.iter().rposition(|c| matches!(c, Call::Subscribe { .. }));
    assert!(subscribe.is_some());
    // A subscription that never stands: no bucket is read.
    let mut v = web(1);
    v.crash();
    v.shard = Shard::new(config("two"));
    v.ops.clear();
    v.feed(Event::Elected {
        published: v.published,
    });
    while let Some(event) = v.events.pop_front() {
        v.feed(event);
    }
    assert_eq!(
        v.count_reads(|q| matches!(q, echelon_core_model::store::Query::BlockBucket(..))),
        0
    );
}

#[test]
fn updates_that_come_while_reading_are_applied_and_acknowledged_later() {
    let mut w = web(1);
    w.crash();
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    let before = w.acknowledged();
    w.storage = Storage::StallsCommits;
    w.elect();
    w.run(seconds(1));
    assert_eq!((w.shard.mode(), w.acknowledged()), (Mode::Recovering, before));
    w.unstall();
    w.run(seconds(5));
    assert_eq!(w.accepted(), [task(0, 1, 1), task(0, 1, 2)]);
}

#[test]
fn a_full_queue_drops_updates_unacknowledged_and_declines_offers() {
    let mut w = web(2);
    w.crash();
    let mut small = config("small");
    small.timing.held_events = 1;
    w.shard = Shard::new(small);
    w.storage = Storage::StallsCommits;
    w.elect();
    w.run(Span::millis(100));
    let before = w.acknowledged();
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.cluster.set(&task(1, 1, 1), TaskState::Failed);
    w.run(seconds(3));
    assert!(w.alarms.contains(&Alarm::HeldQueueFull));
    assert!(w.calls.iter().any(|c| matches!(c, Call::Decline { .. })));
    w.unstall();
    w.run(seconds(2));
    // The agent sends what was not acknowledged again.
    w.cluster.resend();
    w.run(seconds(5));
    assert!(w.acknowledged() > before);
    assert_eq!(w.states(2), [RunState::Running; 2]);
}

#[test]
fn an_intent_found_at_recovery_is_not_launched_again_under_the_same_run() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 1).build());
    w.cluster.drops_accepts = true;
    w.order(&[range(0, 0)], 1);
    w.run(seconds(1));
    assert_eq!(w.stored(0).unwrap().state(), RunState::Launching);
    w.restart();
    w.cluster.drops_accepts = false;
    w.run(seconds(10));
    // GONE from its own agent: it never ran there, and the next run has another number.
    assert_eq!(w.accepted(), [task(0, 1, 1), task(0, 1, 2)]);
}

#[test]
fn an_intent_whose_task_lives_is_adopted() {
    let mut w = World::serving();
    w.cluster.starts = false;
    w.store_job(&JobBuilder::service("web", 1).build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(1));
    w.restart();
    w.cluster.set(&task(0, 1, 1), TaskState::Running);
    w.run(seconds(60));
    assert_eq!((w.accepted().len(), w.state(0)), (1, RunState::Running));
}

#[test]
fn an_intent_without_an_answer_waits() {
    let mut w = World::serving();
    w.cluster.starts = false;
    w.store_job(&JobBuilder::service("web", 1).build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(1));
    w.crash();
    let host = w.cluster.tasks[&task(0, 1, 1)].host.clone();
    // The agent is unknown to the master: UNKNOWN proves nothing.
    w.cluster.tasks.clear();
    w.cluster.hosts.remove(&host);
    w.elect();
    w.run(seconds(60));
    assert_eq!(w.accepted().len(), 1);
    w.cluster.starts = true;
    // Its job says: replace five minutes after the host fell silent.
    w.run(seconds(300));
    assert_eq!(w.accepted(), [task(0, 1, 1), task(0, 1, 2)]);
}

#[test]
fn what_never_had_a_task_starts_at_once() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 2).build());
    w.cluster.hosts.clear();
    w.order(&[range(0, 1)], 2);
    w.run(seconds(2));
    w.restart();
    w.cluster.hosts = crate::cluster::Cluster::of(2, echelon_core_testkit::build::shape(4, 4096)).hosts;
    w.connect();
    w.order(&[range(0, 1)], 2);
    w.run(seconds(3));
    assert_eq!(w.accepted().len(), 2);
}

#[test]
fn nothing_is_stopped_before_the_cluster_has_answered_for_it() {
    let mut w = web(2);
    w.crash();
    w.wish(&JobBuilder::service("web", 2).build(), Desired::Stopped, 0);
    // The agents are only recovered by the master: no answer at all.
    let tasks = std::mem::take(&mut w.cluster.tasks);
    w.shard = Shard::new(config("three"));
    w.elect();
    for _ in 0..20 {
        w.cluster.out.retain(|e| !matches!(e, Told::Update(_)));
        w.run(Span::millis(1));
        w.cluster.out.retain(|e| !matches!(e, Told::Update(_)));
    }
    w.cluster.tasks = tasks;
    w.run(seconds(20));
    // Now it has answered.
    assert_eq!(w.states(2), [RunState::Killed; 2]);
}

#[test]
fn a_stored_wish_to_end_is_carried_out_by_the_next_leader() {
    let mut w = web(1);
    let host = w.cluster.tasks[&task(0, 1, 1)].host.clone();
    w.cluster.silent.push(host);
    w.wish(&JobBuilder::service("web", 1).build(), Desired::Stopped, 0);
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    assert_eq!(w.stored(0).unwrap().state(), RunState::Stopping);
    w.cluster.silent.clear();
    let before = w.kills().len();
    w.restart();
    w.run(seconds(10));
    assert!(w.kills().len() > before);
    assert_eq!(w.state(0), RunState::Killed);
}

#[test]
fn without_a_resource_manager_services_are_restarted_and_goals_obeyed() {
    let mut w = web(2);
    w.step(Event::LinkClosed(w.link));
    w.run(seconds(120));
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.run(seconds(20));
    assert_eq!(w.accepted().len(), 3);
    w.wish(&JobBuilder::service("web", 2).build(), Desired::Stopped, 0);
    w.run(seconds(40));
    assert_eq!(w.states(2), [RunState::Killed; 2]);
}

#[test]
fn a_silent_host_is_replaced_after_its_time_and_the_late_returner_is_killed() {
    let mut w = web(1);
    let host = w.cluster.tasks[&task(0, 1, 1)].host.clone();
    w.cluster.silent.push(host);
    w.cluster.say(&task(0, 1, 1), TaskState::Unreachable);
    w.run(seconds(290));
    assert_eq!((w.accepted().len(), w.state(0)), (1, RunState::Unreachable));
    w.run(seconds(45));
    assert_eq!((w.accepted().len(), w.state(0)), (2, RunState::Running));
    assert_eq!(w.stored(0).unwrap().older.len(), 1);
    w.cluster.silent.clear();
    w.cluster.say(&task(0, 1, 1), TaskState::Running);
    w.run(seconds(5));
    assert_eq!(w.kills(), [task(0, 1, 1)]);
    assert_eq!(w.cluster.live(), [task(0, 1, 2)]);
    assert!(w.stored(0).unwrap().older.is_empty());
}

#[test]
fn a_returner_is_adopted_while_the_newer_one_is_a_mere_intent() {
    let mut w = web(1);
    let host = w.cluster.tasks[&task(0, 1, 1)].host.clone();
    w.cluster.silent.push(host);
    w.cluster.say(&task(0, 1, 1), TaskState::Unreachable);
    w.run(seconds(299));
    w.storage = Storage::StallsCommits;
    // The lease ends after ten seconds without a commit: the intent must come within that.
    for _ in 0..8 {
        w.run(seconds(1));
    }
    let given_up = w.record(0).unwrap();
    assert_eq!(
        (given_up.state(), given_up.older.len()),
        (RunState::Launching, 1),
        "no intent yet"
    );
    w.cluster.silent.clear();
    w.cluster.say(&task(0, 1, 1), TaskState::Running);
    w.run(Span::millis(50));
    w.unstall();
    w.run(seconds(5));
    assert_eq!((w.accepted().len(), w.kills().len()), (1, 0));
    assert_eq!(w.cluster.live(), [task(0, 1, 1)]);
    assert_eq!(w.stored(0).unwrap().run.unwrap().number.0, 1);
}

#[test]
fn silence_is_counted_from_our_own_return() {
    let mut w = web(1);
    let host = w.cluster.tasks[&task(0, 1, 1)].host.clone();
    w.cluster.silent.push(host);
    w.cluster.say(&task(0, 1, 1), TaskState::Unreachable);
    w.run(seconds(5));
    w.crash();
    w.now = w.now.plus(seconds(3600));
    w.elect();
    w.run(seconds(60));
    assert_eq!(w.accepted().len(), 1, "we were the ones who were away");
    w.run(seconds(300));
    assert_eq!(w.accepted().len(), 2);
}

#[test]
fn a_break_of_the_stream_voids_offers_and_asks_again() {
    let mut w = web(1);
    w.cluster.disconnect();
    let asked = |w: &World| {
        w.calls
            .iter()
            .filter(|c| matches!(c, Call::Reconcile { .. }))
            .count()
    };
    let before = asked(&w);
    w.run(seconds(5));
    assert!(asked(&w) >= before + 3, "explicit, implicit, end marker");
    assert_eq!(w.cluster.live().len(), 1);
}

#[test]
fn hosts_are_stored() {
    use echelon_core_model::store::{Answer, Query};
    let mut w = web(1);
    w.run(seconds(10));
    let query = Query::Hosts {
        cluster: crate::world::c1(),
        after: None,
        limit: 10,
    };
    let Answer::Hosts(hosts) = w.store.read(&query) else {
        panic!()
    };
    assert_eq!(hosts.len(), 3);
    assert_eq!(hosts.iter().map(|h| h.tasks).sum::<u32>(), 1);
}
