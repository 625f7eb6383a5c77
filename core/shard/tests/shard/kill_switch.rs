//! The switch that stops all kills: nothing is killed while it is off or not known, whatever it would be killed for, and what
//! waited goes at the usual pace when it is on again.

use crate::world::{Storage, World, config, range, seconds, task};
use echelon_core_hosts::{Call, TaskState};
use echelon_core_model::control::Control;
use echelon_core_model::directive::Order;
use echelon_core_model::drain::{Drains, HostDrain};
use echelon_core_model::job::Desired;
use echelon_core_model::store::{Answer, Decision, Op, Query};
use echelon_core_model::time::Span;
use echelon_core_model::{HostId, ReasonCode, RunState, Version};
use echelon_core_shard::{Rates, Shard};
use echelon_core_testkit::build::{JobBuilder, shape};

/// A gateway writes the row; nobody is told.
fn store(w: &mut World, off: bool) -> Version {
    let Answer::Control(before) = w.store.read(&Query::Control) else {
        panic!("no switches")
    };
    let control = Control {
        version: before.version.next(),
        kills_off: off,
        at: w.now,
        ..Control::default()
    };
    let version = control.version;
    let expected = before.version;
    w.store
        .perform(Op::Decide(Decision::PutControl { control, expected }));
    version
}

/// The row is written and ordered at once.
fn flip(w: &mut World, off: bool) {
    let version = store(w, off);
    w.direct(Order::Kills { version, off });
}

fn running(n: u32) -> (World, JobBuilder) {
    let spec = JobBuilder::service("web", n);
    let mut w = World::serving();
    w.store_job(&spec.clone().build());
    w.order(&[range(0, n - 1)], n.into());
    w.run(seconds(2));
    assert_eq!(w.states(n), vec![RunState::Running; n as usize]);
    (w, spec)
}

fn stop(w: &mut World, spec: &JobBuilder, n: u32) {
    w.wish(&spec.clone().build(), Desired::Stopped, 0);
    w.order(&[range(0, n - 1)], n.into());
}

fn control_reads(w: &World) -> usize {
    w.count_reads(|q| matches!(q, Query::Control))
}

#[test]
fn nothing_is_killed_while_kills_are_off_and_all_of_it_when_they_are_on() {
    let (mut w, spec) = running(4);
    flip(&mut w, true);
    assert_eq!(w.shard.kills_off(), Some(true));
    stop(&mut w, &spec, 4);
    w.run(seconds(120));
    assert_eq!(w.kills(), Vec::<String>::new());
    assert_eq!(w.states(4), [RunState::Stopping; 4]);
    let told = w.slice(1).unwrap().waiting;
    let told: Vec<(ReasonCode, u64)> = told.into_iter().map(|(r, n, _)| (r.code, n)).collect();
    assert_eq!(told, [(ReasonCode::KillsOff, 4)]);
    flip(&mut w, false);
    w.run(seconds(2));
    assert_eq!(w.kills().len(), 4);
    assert_eq!(w.states(4), [RunState::Killed; 4]);
    assert!(w.slice(1).unwrap().waiting.is_empty());
}

#[test]
fn every_kind_of_kill_is_held_back() {
    // A smaller grant, a restart, and an agent that an operator wants drained.
    let (mut w, spec) = running(4);
    flip(&mut w, true);
    w.order(&[range(0, 3)], 2);
    w.run(seconds(5));
    w.wish(&spec.clone().build(), Desired::Running, 1);
    w.order(&[range(0, 3)], 2);
    let hosts = (0..3).map(|i| format!("host-{i}.example"));
    let wish = HostDrain {
        batch_until: w.now,
        agent: true,
    };
    w.direct(Order::Drains(Drains {
        version: 1,
        hosts: hosts.map(|name| (name, wish.clone())).collect(),
    }));
    w.run(seconds(120));
    assert_eq!(w.kills(), Vec::<String>::new());
    let drains = |w: &World| {
        let asked = w.calls.iter().filter(|c| matches!(c, Call::DrainAgent { .. }));
        asked.count()
    };
    assert_eq!(drains(&w), 0, "Mesos kills what others run there");
    flip(&mut w, false);
    w.run(seconds(300));
    assert!(!w.kills().is_empty());
    assert!(drains(&w) > 0);
}

#[test]
fn an_agent_that_waits_for_storage_is_not_drained_when_kills_are_off_by_then() {
    let mut w = World::serving();
    let drained = |w: &World| w.calls.iter().any(|c| matches!(c, Call::DrainAgent { .. }));
    w.storage = Storage::Stalls;
    let wish = HostDrain {
        batch_until: w.now,
        agent: true,
    };
    w.direct(Order::Drains(Drains {
        version: 1,
        hosts: [("host-0.example".to_owned(), wish)].into(),
    }));
    w.run(seconds(1));
    flip(&mut w, true);
    w.unstall();
    w.run(seconds(90));
    assert!(!drained(&w));
    flip(&mut w, false);
    w.run(seconds(90));
    assert!(drained(&w));
}

#[test]
fn a_task_that_no_record_wants_lives_on_too() {
    let (mut w, spec) = running(2);
    flip(&mut w, true);
    stop(&mut w, &spec, 2);
    w.run(seconds(2));
    // A run from before the oldest that storage knows: a stranger that evidence condemns.
    w.hear(&task(7, 1, 1), TaskState::Running, "host-1");
    w.run(seconds(60));
    assert_eq!(w.kills(), Vec::<String>::new());
    flip(&mut w, false);
    w.run(seconds(5));
    assert!(w.kills().contains(&task(7, 1, 1)), "{:?}", w.kills());
}

#[test]
fn a_switch_that_nobody_tells_of_is_obeyed_within_thirty_seconds() {
    let (mut w, spec) = running(2);
    store(&mut w, true);
    w.run(seconds(30));
    stop(&mut w, &spec, 2);
    w.run(seconds(60));
    assert_eq!(w.kills(), Vec::<String>::new());
    store(&mut w, false);
    w.run(seconds(30));
    assert_eq!(w.kills().len(), 2);
}

#[test]
fn a_new_leader_kills_nothing_before_it_has_read_the_switch() {
    let (mut w, spec) = running(2);
    store(&mut w, true);
    stop(&mut w, &spec, 2);
    w.crash();
    w.calls.clear();
    w.elect();
    w.run(seconds(60));
    assert_eq!(w.kills(), Vec::<String>::new());
    assert_eq!(w.shard.kills_off(), Some(true));
    // An order of before it was read is obeyed, but permits nothing by itself.
    let version = store(&mut w, false);
    w.crash();
    w.slow_control = true;
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.direct(Order::Kills { version, off: false });
    w.run(seconds(8));
    assert_eq!(w.shard.kills_off(), None);
    assert_eq!(w.kills(), Vec::<String>::new());
    w.unstall();
    w.run(seconds(10));
    assert_eq!(w.kills().len(), 2);
}

#[test]
fn what_was_read_long_ago_permits_nothing() {
    let mut patient = config("one");
    // Its lease outlasts what it knows of the switch.
    patient.timing.lease = Span::minutes(60);
    let mut w = World::new();
    w.shard = Shard::new(patient);
    w.elect();
    w.run(seconds(1));
    w.connect();
    let spec = JobBuilder::service("web", 2);
    w.store_job(&spec.clone().build());
    w.order(&[range(0, 1)], 2);
    w.run(seconds(2));
    // Kills are repeated as long as nobody says that the tasks are dead.
    w.cluster.silent = (0..3).map(|i| HostId::new(format!("host-{i}"))).collect();
    stop(&mut w, &spec, 2);
    w.run(seconds(1));
    let sent = w.kills().len();
    assert_eq!(sent, 2);
    w.storage = Storage::Stalls;
    w.run(seconds(29));
    let before = w.kills().len();
    w.run(seconds(10));
    let last = w.kills().len();
    let wakes = w.wakes;
    w.run(seconds(120));
    assert!(before > sent);
    assert_eq!(w.kills().len(), last, "it was read more than 30 s ago");
    assert!(w.wakes - wakes < 2000, "it waits, and does not spin");
    w.unstall();
    w.run(seconds(60));
    assert!(w.kills().len() > last);
}

#[test]
fn an_older_word_of_the_switch_changes_nothing() {
    let (mut w, spec) = running(1);
    let first = store(&mut w, true);
    let second = store(&mut w, false);
    let third = store(&mut w, true);
    w.direct(Order::Kills {
        version: third,
        off: true,
    });
    w.direct(Order::Kills {
        version: second,
        off: false,
    });
    w.direct(Order::Kills {
        version: first,
        off: true,
    });
    stop(&mut w, &spec, 1);
    w.run(seconds(40));
    assert_eq!(w.kills(), Vec::<String>::new());
    assert_eq!(w.shard.kills_off(), Some(true));
}

#[test]
fn what_waited_goes_at_the_usual_pace() {
    const N: u32 = 60;
    let mut paced = config("one");
    paced.timing.rates = Rates {
        kills: 10,
        ..Rates::default()
    };
    let mut w = World::new();
    w.cluster = crate::cluster::Cluster::of(10, shape(100, 1_000_000));
    w.shard = Shard::new(paced);
    w.elect();
    w.run(seconds(1));
    w.connect();
    let spec = JobBuilder::service("web", N);
    w.store_job(&spec.clone().build());
    w.order(&[range(0, N - 1)], N.into());
    w.run(seconds(3));
    flip(&mut w, true);
    stop(&mut w, &spec, N);
    w.run(seconds(60));
    assert_eq!(w.kills().len(), 0);
    flip(&mut w, false);
    w.run(seconds(1));
    let first = w.kills().len();
    assert!((5..=12).contains(&first), "{first}");
    w.run(seconds(20));
    assert_eq!(w.states(N), vec![RunState::Killed; N as usize]);
}

#[test]
fn it_is_read_at_its_own_pace_and_no_oftener() {
    let (mut w, _) = running(1);
    let before = control_reads(&w);
    w.run(seconds(100));
    let n = control_reads(&w) - before;
    assert!((9..=11).contains(&n), "{n}");
}
