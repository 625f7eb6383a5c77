//! Hosts that never return: an operator's word ends what was silent there, and nothing of it is kept.

use crate::world::{World, range, seconds, task};
use echelon_core_hosts::{Call, TaskState};
use echelon_core_model::directive::Order;
use echelon_core_model::forgotten::ForgottenHosts;
use echelon_core_model::job::Desired;
use echelon_core_model::spec::OnSilence;
use echelon_core_model::time::Span;
use echelon_core_model::{HostId, ReasonCode, RunState};
use echelon_core_testkit::build::JobBuilder;

/// A service of one, replaced a minute after its host falls silent.
fn web() -> World {
    let mut w = World::serving();
    let mut spec = JobBuilder::service("web", 1).build();
    spec.on_unreachable = OnSilence::Replace(Span::minutes(1));
    w.store_job(&spec);
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    w
}

/// The host of the latest run falls silent.
fn loses_its_host(w: &mut World) -> HostId {
    let run = w.record(0).unwrap().run.unwrap();
    w.cluster.silent.push(run.host.clone());
    w.cluster.say(&task(0, 1, run.number.0), TaskState::Unreachable);
    w.run(seconds(1));
    run.host
}

/// An operator says that hosts never return.
fn forget(w: &mut World, hosts: &[&HostId], version: u64) {
    let observed = w.shard.observed_in_sum();
    let hosts = hosts.iter().map(|h| (h.to_string(), observed));
    let word = ForgottenHosts {
        version,
        hosts: hosts.collect(),
    };
    w.direct(Order::ForgetHosts(word));
}

#[test]
fn a_silent_run_on_a_host_that_never_returns_is_replaced_at_once() {
    let mut w = web();
    let host = loses_its_host(&mut w);
    forget(&mut w, &[&host], 1);
    w.run(seconds(5));
    let record = w.stored(0).unwrap();
    let run = record.run.unwrap();
    assert_eq!((run.state, run.number.0), (RunState::Running, 2));
    assert_eq!(record.older.len(), 0);
    assert_eq!(w.kills().len(), 0);
}

#[test]
fn older_runs_of_a_forgotten_host_leave_the_record_and_are_asked_about_no_more() {
    let mut w = web();
    let host = loses_its_host(&mut w);
    w.run(seconds(70));
    assert_eq!(w.stored(0).unwrap().older.len(), 1);
    forget(&mut w, &[&host], 1);
    w.run(seconds(2));
    assert_eq!(w.stored(0).unwrap().older.len(), 0);
    w.calls.clear();
    // Longer than between two questions about everything.
    w.run(Span::minutes(40));
    let asked = w.calls.iter().any(|c| match c {
        Call::Reconcile { tasks } => tasks.iter().any(|(id, _)| *id == task(0, 1, 1)),
        _ => false,
    });
    assert!(!asked, "nothing is left to ask");
    // A job whose last loose end is gone can end, and go to the archive.
    w.wish(&JobBuilder::service("web", 1).build(), Desired::Stopped, 0);
    w.order(&[range(0, 0)], 0);
    w.run(seconds(30));
    w.direct(Order::Archive(crate::world::job()));
    w.run(seconds(5));
    assert_eq!(w.shard.instances().count(), 0);
}

#[test]
fn a_word_that_a_leader_missed_is_obeyed_by_the_next_and_ends_nothing_that_came_later() {
    let mut w = web();
    let host = loses_its_host(&mut w);
    w.run(seconds(70));
    let word = |w: &mut World, observed: Span| {
        let hosts = [(host.to_string(), observed)].into();
        w.direct(Order::ForgetHosts(ForgottenHosts { version: 1, hosts }));
    };
    let said = w.shard.observed_in_sum();
    w.restart();
    w.connect();
    w.order(&[range(0, 0)], 1);
    word(&mut w, said);
    w.run(seconds(2));
    assert_eq!(w.stored(0).unwrap().older.len(), 0);
    // Another host falls silent after that; the same word says nothing of it, nor does it of this host's
    // later silence.
    w.run(seconds(60));
    let other = loses_its_host(&mut w);
    assert_ne!(other, host);
    w.run(seconds(70));
    w.restart();
    w.connect();
    w.order(&[range(0, 0)], 1);
    let hosts = [(other.to_string(), said)].into();
    w.direct(Order::ForgetHosts(ForgottenHosts { version: 2, hosts }));
    w.run(seconds(2));
    assert_eq!(w.stored(0).unwrap().older.len(), 1, "it fell silent later");
}

#[test]
fn what_mesos_says_is_gone_by_an_operator_has_ended_by_that_word() {
    let mut w = web();
    let run = w.record(0).unwrap().run.unwrap();
    w.cluster.silent.push(run.host.clone());
    w.hear(&task(0, 1, 1), TaskState::GoneByOperator, run.host.as_str());
    w.cluster.marked_gone.insert(run.host.clone());
    let waits = w.record(0).unwrap().run.unwrap();
    assert_eq!(
        (waits.state, waits.reason.code),
        (RunState::Unreachable, ReasonCode::GoneByOperator)
    );
    w.run(seconds(20));
    assert_eq!((w.state(0), w.accepted().len()), (RunState::Running, 2));
    assert_eq!(w.stored(0).unwrap().older.len(), 0);
}

#[test]
fn with_eight_older_runs_an_instance_waits_and_says_so() {
    let mut w = web();
    w.cluster = {
        let mut cluster = std::mem::take(&mut w.cluster);
        for n in 3..12 {
            let room = *cluster.hosts.values().next().unwrap();
            cluster.hosts.insert(HostId::new(format!("host-{n}")), room);
        }
        cluster
    };
    let mut first = None;
    for _ in 0..9 {
        let host = loses_its_host(&mut w);
        first.get_or_insert(host);
        w.run(seconds(75));
    }
    let record = w.stored(0).unwrap();
    assert_eq!(record.older.len(), 8);
    assert_eq!(
        record.run.unwrap().state,
        RunState::Unreachable,
        "it is not given up"
    );
    let waits = w.slice(1).unwrap().waiting;
    assert!(
        waits
            .iter()
            .any(|(r, n, _)| (r.code, *n) == (ReasonCode::TooManyOlderRuns, 1)),
        "{waits:?}"
    );
    forget(&mut w, &[&first.unwrap()], 1);
    w.run(seconds(10));
    assert_eq!(
        (w.state(0), w.stored(0).unwrap().older.len()),
        (RunState::Running, 8)
    );
}
