//! Mass loss: too many running tasks answered gone or unknown at once. Nothing is replaced until they come back or an operator
//! accepts the loss; one by one they are replaced as ever.

use crate::cluster::Cluster;
use crate::world::{World, config, marked, range, seconds, task};
use echelon_core_hosts::{Event as Told, TaskState, TaskStatus};
use echelon_core_model::directive::{Order, ReportPart};
use echelon_core_model::job::Desired;
use echelon_core_model::spec::OnSilence;
use echelon_core_model::store::{Answer, Batch, Op, Query, Stamp};
use echelon_core_model::{HostId, ReasonCode, RunState};
use echelon_core_shard::{Alarm, Event, Mode, Shard};
use echelon_core_testkit::build::{JobBuilder, shape};

fn serving() -> World {
    let mut w = World::new();
    w.cluster = Cluster::of(5, shape(64, 64 * 1024));
    w.elect();
    w.run(seconds(1));
    assert_eq!(w.shard.mode(), Mode::Serving);
    w.connect();
    w
}

fn web(n: u32) -> World {
    let mut w = serving();
    w.store_job(&JobBuilder::service("web", n).build());
    w.order(&[range(0, n - 1)], u64::from(n));
    w.run(seconds(2));
    assert_eq!(running(&w), usize::try_from(n).unwrap());
    w
}

fn running(w: &World) -> usize {
    w.cluster
        .tasks
        .values()
        .filter(|t| t.state == TaskState::Running)
        .count()
}

/// The master answers for tasks in one breath, as after a question.
fn answered(w: &mut World, numbers: std::ops::Range<u32>, state: TaskState) {
    for n in numbers {
        let id = task(n, 1, 1);
        let host = w.cluster.tasks.get(&id).map(|t| t.host.clone());
        if matches!(state, TaskState::Gone | TaskState::Unknown) {
            w.cluster.tasks.remove(&id);
        }
        let status = TaskStatus {
            reconciliation: true,
            ..crate::cluster::status(&id, state, host)
        };
        w.events.push_back(Event::Cluster(Told::Update(status)));
    }
    w.step(Event::Wake);
}

/// The address leads to a master of another cluster, which knows neither our tasks nor our hosts.
fn wrong_address(w: &mut World, n: u32) {
    let others = w.cluster.hosts.values().enumerate();
    w.cluster.hosts = others
        .map(|(i, room)| (HostId::new(format!("other-{i}")), *room))
        .collect();
    w.cluster.offers.clear();
    answered(w, 0..n, TaskState::Unknown);
}

fn losses(w: &World) -> usize {
    w.alarms
        .iter()
        .filter(|a| matches!(a, Alarm::MassLoss { .. }))
        .count()
}

fn accept(w: &mut World) {
    let number = w.shard.mass_loss().unwrap().number;
    w.direct(Order::AcceptLoss(number));
}

#[test]
fn up_to_a_fifth_is_replaced_one_by_one() {
    let mut w = web(50);
    answered(&mut w, 0..10, TaskState::Gone);
    w.run(seconds(30));
    assert_eq!((losses(&w), w.shard.mass_loss()), (0, None));
    assert_eq!(running(&w), 50);
}

#[test]
fn one_host_of_a_small_cluster_is_no_mass() {
    let mut w = web(8);
    answered(&mut w, 0..4, TaskState::Gone);
    w.run(seconds(30));
    assert_eq!((losses(&w), running(&w)), (0, 8));
}

#[test]
fn the_same_number_over_a_longer_time_is_no_mass() {
    let mut w = web(20);
    for n in 0..10 {
        answered(&mut w, n..n + 1, TaskState::Gone);
        w.run(seconds(20));
    }
    assert_eq!((losses(&w), running(&w)), (0, 20));
}

#[test]
fn more_than_a_fifth_gone_at_once_waits_for_an_operator() {
    let mut w = web(50);
    answered(&mut w, 0..20, TaskState::Gone);
    assert_eq!(losses(&w), 1);
    w.run(seconds(600));
    let loss = w.shard.mass_loss().unwrap();
    let begun = w.accepted().len() - 50;
    // Those before the limit was reached were taken for ordinary ones.
    assert!(begun <= 11, "{begun}");
    assert_eq!(loss.running, 50);
    assert_eq!(loss.missing, 20 - u64::try_from(begun).unwrap());
    assert_eq!((w.kills().len(), losses(&w)), (0, 1));
    let report = w.slice(1).unwrap();
    let waits = report
        .waiting
        .iter()
        .find(|(r, ..)| r.code == ReasonCode::MassLoss);
    assert_eq!(waits.map(|(_, n, _)| *n), Some(loss.missing));
    accept(&mut w);
    w.run(seconds(30));
    assert_eq!((w.shard.mass_loss(), running(&w)), (None, 50));
    assert!(w.slice(1).unwrap().waiting.is_empty());
}

#[test]
fn a_master_that_knows_nothing_has_nothing_replaced_however_long_it_takes() {
    let mut w = web(20);
    wrong_address(&mut w, 20);
    w.run(seconds(1200));
    assert_eq!((w.accepted().len(), w.kills().len(), losses(&w)), (20, 0, 1));
    assert_eq!(w.shard.mass_loss().unwrap().missing, 20);
    let reason = w.record(0).unwrap().run.unwrap().reason.code;
    assert_eq!(reason, ReasonCode::TaskUnknown);
}

#[test]
fn what_comes_back_is_not_replaced_and_ends_the_wait() {
    let mut w = web(20);
    wrong_address(&mut w, 20);
    w.run(seconds(400));
    for n in 0..15 {
        w.hear(&task(n, 1, 1), TaskState::Running, "host-0");
    }
    assert!(w.shard.mass_loss().is_some());
    w.hear(&task(15, 1, 1), TaskState::Running, "host-0");
    assert_eq!(w.shard.mass_loss(), None);
    w.run(seconds(5));
    // The last four have been away for longer than they may.
    assert_eq!(w.accepted().len(), 24);
    assert_eq!(w.kills().len(), 0);
}

#[test]
fn the_wait_survives_a_new_leader_and_an_older_acceptance_is_none() {
    let mut w = web(20);
    answered(&mut w, 0..20, TaskState::Gone);
    let number = w.shard.mass_loss().unwrap().number;
    w.run(seconds(1));
    let (before, begun) = (w.shard.mass_loss().unwrap().missing, w.accepted().len());
    w.restart();
    w.connect();
    w.run(seconds(600));
    let loss = w.shard.mass_loss().unwrap();
    assert_eq!(
        (loss.number, loss.missing, w.accepted().len()),
        (number, before, begun)
    );
    w.direct(Order::AcceptLoss(number - 1));
    assert!(w.shard.mass_loss().is_some());
    w.order(&[range(0, 19)], 20);
    w.direct(Order::AcceptLoss(number));
    w.direct(Order::AcceptLoss(number));
    w.run(seconds(30));
    assert_eq!((w.shard.mass_loss(), running(&w)), (None, 20));
}

#[test]
fn a_leader_that_dies_before_it_stored_the_wait_leaves_a_successor_that_waits() {
    let mut w = web(20);
    wrong_address(&mut w, 20);
    w.run(seconds(1));
    let Answer::Shard(mut row) = w.store.read(&Query::Shard(crate::world::c1())) else {
        panic!()
    };
    assert!(row.loss.take().is_some());
    let lost = Batch {
        owner: w.role(),
        stamp: Stamp {
            epoch: w.shard.epoch(),
            sequence: 1 << 39,
        },
        writes: row.writes(),
    };
    w.crash();
    w.store.perform(Op::Commit(lost));
    w.elect();
    w.run(seconds(1));
    assert!(w.shard.mass_loss().is_some());
}

#[test]
fn it_is_told_upward_with_its_figures() {
    let mut w = web(20);
    wrong_address(&mut w, 20);
    w.run(seconds(4));
    let loss = w.shard.mass_loss().unwrap();
    let told = w.reports.iter().rev().find_map(|r| match &r.part {
        ReportPart::Capacity(c) => Some(c.loss),
        _ => None,
    });
    assert_eq!(told, Some(Some(loss.number)));
    let Answer::Heartbeats(beats) = w.store.read(&Query::Heartbeats) else {
        panic!()
    };
    assert_eq!(beats[0].loss, Some(loss));
    assert_eq!((loss.running, loss.lost, loss.missing), (20, 20, 20));
}

#[test]
fn goals_are_obeyed_while_it_waits() {
    let mut w = web(20);
    answered(&mut w, 0..10, TaskState::Gone);
    assert!(w.shard.mass_loss().is_some());
    w.wish(&JobBuilder::service("web", 20).build(), Desired::Stopped, 0);
    w.order(&[range(0, 19)], 20);
    w.run(seconds(30));
    assert_eq!((running(&w), w.shard.mass_loss()), (0, None));
}

#[test]
fn nothing_is_restarted_or_given_away_while_it_waits() {
    let mut w = web(20);
    answered(&mut w, 0..10, TaskState::Gone);
    w.run(seconds(1));
    let before = (w.accepted().len(), w.cluster.live());
    w.wish(&JobBuilder::service("web", 20).build(), Desired::Running, 1);
    w.assign(&[range(0, 19)]);
    w.send_order(&[range(0, 19)], &[(1, 20)], 20);
    w.run(seconds(120));
    assert_eq!((w.accepted().len(), w.cluster.live()), before);
    // A move asks for the numbers: what may live is not released.
    w.order(&[marked(range(0, 19), Some("c2"), None)], 20);
    w.run(seconds(30));
    let missing = w.shard.mass_loss().map(|l| l.missing);
    let released = w.slice(1).unwrap().released.count();
    assert_eq!(Some(20 - released), missing);
    accept(&mut w);
    w.run(seconds(5));
    assert_eq!(w.slice(1).unwrap().released.count(), 20);
}

#[test]
fn a_removed_or_silent_agent_is_told_in_other_words() {
    for state in [TaskState::Lost, TaskState::Unreachable] {
        let mut w = web(20);
        answered(&mut w, 0..20, state);
        assert_eq!(losses(&w), 0, "{state:?}");
        assert_eq!(w.state(0), RunState::Unreachable);
    }
}

#[test]
fn a_successor_that_reads_group_by_group_judges_by_all_of_them() {
    let mut w = web(50);
    w.crash();
    for n in 0..8 {
        w.cluster.tasks.remove(&task(n, 1, 1));
    }
    w.elect();
    w.run(seconds(2));
    w.connect();
    w.order(&[range(0, 49)], 50);
    w.run(seconds(30));
    assert_eq!((losses(&w), running(&w)), (0, 50));
}

#[test]
fn launches_that_never_began_are_no_loss() {
    let mut w = web(22);
    w.cluster.starts = false;
    w.order(&[range(0, 46)], 47);
    w.run(seconds(3));
    assert_eq!(running(&w), 22);
    answered(&mut w, 22..47, TaskState::Unknown);
    w.run(seconds(2));
    assert_eq!((losses(&w), w.shard.mass_loss()), (0, None));
    // One that ran may be replaced as ever.
    w.cluster.starts = true;
    answered(&mut w, 0..1, TaskState::Gone);
    w.run(seconds(5));
    assert_eq!(w.state(0), RunState::Running);
}

/// Tells the same of all tasks of the first hosts, in one breath.
fn told_of_hosts(w: &mut World, hosts: &[HostId], numbers: &[u32], state: TaskState) {
    for n in numbers {
        let id = task(*n, 1, 1);
        let run = w.record(*n).unwrap().run.unwrap();
        assert!(hosts.contains(&run.host));
        if state == TaskState::Gone {
            w.cluster.tasks.remove(&id);
        }
        let status = TaskStatus {
            reconciliation: true,
            ..crate::cluster::status(&id, state, Some(run.host))
        };
        w.events.push_back(Event::Cluster(Told::Update(status)));
    }
    w.step(Event::Wake);
}

#[test]
fn what_returned_hosts_have_lost_counts_once_for_each() {
    for offers_first in [true, false] {
        let mut w = web(50);
        let hosts: Vec<HostId> = w.cluster.hosts.keys().take(2).cloned().collect();
        let on_them = |n: &u32| hosts.contains(&w.record(*n).unwrap().run.unwrap().host);
        let numbers: Vec<u32> = (0..50).filter(on_them).collect();
        assert!(numbers.len() > 11, "more than a fifth");
        told_of_hosts(&mut w, &hosts, &numbers, TaskState::Unreachable);
        if offers_first {
            w.cluster.offers.clear();
            w.run(seconds(2));
        }
        told_of_hosts(&mut w, &hosts, &numbers, TaskState::Gone);
        assert_eq!(losses(&w), usize::from(!offers_first));
        // Where it was taken for a mass loss, it is none any more when the hosts are seen.
        w.cluster.offers.clear();
        w.run(seconds(40));
        assert_eq!((w.shard.mass_loss(), running(&w)), (None, 50), "{offers_first}");
    }
}

/// All is lost to a master that knows neither the tasks nor their hosts, and an operator says that nothing
/// of it runs.
fn lost_and_accepted(w: &mut World, n: u32) -> u64 {
    wrong_address(w, n);
    w.run(seconds(10));
    let begun = w.accepted().len();
    let number = w.shard.mass_loss().unwrap().number;
    w.direct(Order::AcceptLoss(number));
    assert_eq!((w.shard.mass_loss(), w.accepted().len()), (None, begun));
    number
}

#[test]
fn what_an_operator_accepts_is_replaced_at_once() {
    let mut w = web(20);
    lost_and_accepted(&mut w, 20);
    // Long before `on_unreachable` would have it replaced.
    w.run(seconds(5));
    assert_eq!(running(&w), 20);
    let older = |n: u32| w.record(n).unwrap().older.len();
    assert_eq!(
        (0..20).map(older).sum::<usize>(),
        0,
        "an operator's word is an end"
    );
    assert_eq!(w.kills().len(), 0);
}

#[test]
fn what_waits_for_its_host_for_ever_is_replaced_too_when_it_is_accepted() {
    let mut w = serving();
    let mut spec = JobBuilder::service("web", 20).build();
    spec.on_unreachable = OnSilence::Wait;
    w.store_job(&spec);
    w.order(&[range(0, 19)], 20);
    w.run(seconds(2));
    lost_and_accepted(&mut w, 20);
    w.run(seconds(5));
    assert_eq!(running(&w), 20);
}

#[test]
fn an_accepted_loss_stays_accepted_under_a_new_leader() {
    let mut w = web(20);
    // Nothing can be placed before the leader dies.
    w.placement_works = false;
    let number = lost_and_accepted(&mut w, 20);
    w.run(seconds(1));
    assert_eq!(running(&w), 0);
    w.placement_works = true;
    w.restart();
    w.connect();
    w.order(&[range(0, 19)], 20);
    w.run(seconds(5));
    assert_eq!((w.shard.mass_loss(), running(&w)), (None, 20), "{number}");
}

#[test]
fn accepted_losses_are_replaced_at_their_pace() {
    let mut w = World::new();
    w.cluster = Cluster::of(5, shape(64, 64 * 1024));
    let mut config = config("one");
    config.timing.rates.replacements = 10;
    w.shard = Shard::new(config);
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.store_job(&JobBuilder::service("web", 40).build());
    w.order(&[range(0, 39)], 40);
    w.run(seconds(2));
    lost_and_accepted(&mut w, 40);
    let mut begun = vec![w.accepted().len()];
    for _ in 0..10 {
        w.run(seconds(1));
        begun.push(w.accepted().len());
    }
    let most = begun.windows(2).map(|n| n[1] - n[0]).max().unwrap();
    assert!((5..=20).contains(&most), "{begun:?}");
    assert_eq!(running(&w), 40);
}

#[test]
fn hosts_of_an_accepted_loss_are_no_capacity() {
    let mut w = web(20);
    let before = w.shard.capacity();
    wrong_address(&mut w, 20);
    // They are not listed as gone: the master refuses to list its agents.
    w.cluster.lists = Some(false);
    w.run(seconds(10));
    accept(&mut w);
    w.run(seconds(5));
    let after = w.shard.capacity();
    assert_eq!(
        (after.hosts, after.total),
        (before.hosts, before.total),
        "the new ones only"
    );
}
