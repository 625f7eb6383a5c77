//! Flags of agents: which agent is asked, how often, and what stays unknown.

use super::agents::{agent, listed};
use super::{a, at, disconnected, launch, offer, say, subscribed, update, with_offers};
use crate::{Agent, Call, Event, Hosts, TaskState};
use echelon_core_model::gone::AgentTimes;
use echelon_core_model::{HostId, Span};
use echelon_core_testkit::build::shape;
use std::sync::Arc;

fn host(n: usize) -> HostId {
    HostId::new(format!("h{n:02}"))
}

/// An agent that is at the address of another one.
fn successor(of: &HostId) -> Agent {
    Agent {
        hostname: Arc::from(format!("{of}.example")),
        address: format!("{of}.example:5051"),
        ..agent(&format!("{of}-new"), 0)
    }
}

/// Hosts with something of ours, all of them replaced at second 61.
fn replaced(all: &[HostId]) -> Hosts {
    let offers = all
        .iter()
        .map(|h| offer(&format!("o-{h}"), h.as_str(), shape(2, 100)));
    let mut hosts = with_offers(offers.collect());
    for (n, of) in (1..).zip(all) {
        hosts.accept(of, vec![launch(n, shape(1, 10))], at(0)).unwrap();
    }
    listed(&mut hosts, 1, all.iter().map(|h| agent(h.as_str(), 0)).collect());
    for (n, of) in (1..).zip(all) {
        hosts.on_event(&update(n, of.as_str(), TaskState::Unreachable), at(10));
    }
    listed(&mut hosts, 60, all.iter().map(successor).collect());
    assert_eq!(hosts.take_replaced(), all);
    hosts
}

fn times(minutes: u64) -> AgentTimes {
    AgentTimes {
        recovery: Some(Span::minutes(minutes)),
        shutdown: None,
    }
}

fn told(host: &HostId, times: AgentTimes) -> Event {
    Event::Flags {
        host: host.clone(),
        times,
    }
}

fn failed(host: &HostId) -> Event {
    let call = Call::ReadFlags {
        host: host.clone(),
        address: format!("{host}.example:5051"),
    };
    Event::CallFailed {
        call,
        why: "test".to_owned(),
        refused: false,
    }
}

#[test]
fn the_agent_at_the_address_is_asked_once_and_only_when_somebody_wants_to_know() {
    let mut hosts = replaced(&[a()]);
    assert_eq!((hosts.read_flags(at(61)), hosts.next_flags()), (vec![], None));
    assert_eq!(hosts.times_of_replaced(&a()), None);
    assert!(hosts.awaits_flags(&a()));
    assert!(hosts.next_flags().unwrap() <= at(61));
    assert_eq!(say(&hosts.read_flags(at(61))), "flags of a at a.example:5051");
    assert_eq!(hosts.times_of_replaced(&a()), None);
    assert_eq!(hosts.read_flags(at(61)), []);
    hosts.on_event(&told(&a(), times(60)), at(62));
    assert_eq!(hosts.take_replaced(), [a()], "its runs are looked at again");
    assert_eq!(hosts.times_of_replaced(&a()), Some(times(60)));
    assert!(!hosts.awaits_flags(&a()));
    assert_eq!((hosts.read_flags(at(900)), hosts.next_flags()), (vec![], None));
    // An answer without a question does not count.
    hosts.on_event(&told(&a(), times(1)), at(901));
    assert_eq!(hosts.times_of_replaced(&a()), Some(times(60)));
    // One that is not replaced is asked nothing.
    assert_eq!(hosts.times_of_replaced(&HostId::new("a-new")), None);
    assert!(!hosts.awaits_flags(&HostId::new("a-new")));
}

#[test]
fn it_is_asked_five_times_and_then_its_flags_are_unknown() {
    let mut hosts = replaced(&[a()]);
    hosts.times_of_replaced(&a());
    let mut now = 61;
    // The second question is lost, and no failure is told.
    for wait in [15, 30 + 60, 60, 120] {
        assert_eq!(hosts.read_flags(at(now)).len(), 1, "at {now}");
        if wait != 90 {
            hosts.on_event(&failed(&a()), at(now));
        }
        assert_eq!(hosts.read_flags(at(now + wait - 1)), []);
        assert!(hosts.awaits_flags(&a()));
        now += wait;
        if wait == 90 {
            // It counts as lost after a minute, at the moment of the next look.
            now += 29;
            assert_eq!(hosts.read_flags(at(now - 1)), []);
        }
    }
    assert_eq!(hosts.read_flags(at(now)).len(), 1);
    hosts.on_event(&failed(&a()), at(now));
    assert_eq!(hosts.times_of_replaced(&a()), Some(AgentTimes::UNKNOWN));
    assert!(!hosts.awaits_flags(&a()));
    assert_eq!(hosts.take_replaced(), [a()]);
    assert_eq!(hosts.next_flags(), None);
}

#[test]
fn eight_are_asked_at_a_time_and_none_without_a_subscription() {
    let all: Vec<HostId> = (0..12).map(host).collect();
    let mut hosts = replaced(&all);
    for of in &all {
        assert_eq!(hosts.times_of_replaced(of), None);
    }
    hosts.on_event(&disconnected(), at(62));
    assert_eq!((hosts.read_flags(at(63)), hosts.next_flags()), (vec![], None));
    hosts.on_event(&subscribed(), at(64));
    let asked = hosts.read_flags(at(64));
    assert_eq!(asked.len(), 8);
    assert_eq!(hosts.next_flags(), Some(at(124)), "when the first counts as lost");
    let Call::ReadFlags { host: first, .. } = &asked[0] else {
        panic!()
    };
    hosts.on_event(&told(first, times(1)), at(65));
    assert_eq!(hosts.read_flags(at(65)).len(), 1);
    // Those without an answer make room for the others.
    assert_eq!(hosts.read_flags(at(126)).len(), 3);
}

#[test]
fn an_agent_that_is_back_is_asked_again_when_it_is_replaced_again() {
    let mut hosts = replaced(&[a()]);
    hosts.times_of_replaced(&a());
    hosts.read_flags(at(61));
    hosts.on_event(&told(&a(), times(1)), at(62));
    hosts.on_event(&update(1, "a", TaskState::Running), at(70));
    listed(&mut hosts, 130, vec![agent("a", 0)]);
    hosts.on_event(&update(1, "a", TaskState::Unreachable), at(140));
    listed(&mut hosts, 200, vec![successor(&a())]);
    assert_eq!(hosts.times_of_replaced(&a()), None);
    assert_eq!(hosts.read_flags(at(201)).len(), 1);
}
