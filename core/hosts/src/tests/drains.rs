//! Hosts that operators want empty: which agents they are, and when Mesos is asked about them.

use super::{at, launch, offer, say, task, with_offers};
use crate::{Call, Drain, Event, Hosts};
use echelon_core_model::HostId;
use echelon_core_model::drain::{AgentDrain, HostDrain};
use echelon_core_testkit::build::shape;
use std::collections::{BTreeMap, BTreeSet};

fn wished(agent: bool) -> BTreeMap<String, HostDrain> {
    let wish = HostDrain {
        batch_until: at(100),
        agent,
    };
    [("a.example".to_owned(), wish)].into()
}

/// One host with a task and one without; the first is to be empty.
fn two(agent: bool) -> Hosts {
    let offers = vec![offer("o1", "a", shape(2, 100)), offer("o2", "b", shape(2, 100))];
    let mut hosts = with_offers(offers);
    hosts
        .accept(&HostId::new("a"), vec![launch(1, shape(1, 10))], at(0))
        .unwrap();
    hosts.set_drains(wished(agent));
    hosts
}

fn asked(hosts: &mut Hosts, drained: &[&str], second: u64) -> String {
    let drained: BTreeSet<HostId> = drained.iter().map(HostId::new).collect();
    say(&hosts.agent_calls(&drained, at(second)))
}

#[test]
fn services_leave_at_once_and_batch_when_its_time_is_over() {
    let hosts = two(false);
    let drain = |second| hosts.draining(at(second)).get(&HostId::new("a")).copied();
    assert_eq!(drain(0), Some(Drain::Services));
    assert_eq!(drain(99), Some(Drain::Services));
    assert_eq!(drain(100), Some(Drain::All));
    assert_eq!(hosts.maintenance_wake(at(0)), Some(at(100)));
    assert_eq!(hosts.draining(at(0)).len(), 1);
}

#[test]
fn an_agent_is_not_drained_while_a_launch_is_on_its_way_there() {
    let mut hosts = with_offers(vec![offer("o1", "a", shape(2, 100))]);
    let a = HostId::new("a");
    hosts.speak_for(&a);
    hosts.set_drains(wished(true));
    assert_eq!(asked(&mut hosts, &[], 1), "");
    // What was chosen is not launched after all.
    hosts.let_go(&a);
    assert_eq!(asked(&mut hosts, &[], 2), "drain a");
}

#[test]
fn an_agent_that_comes_back_under_another_id_is_the_same_host() {
    let mut hosts = two(true);
    let mut again = offer("o3", "a2", shape(2, 100));
    again.hostname = "a.example".into();
    hosts.on_event(&Event::Offers(vec![again]), at(1));
    let draining: Vec<HostId> = hosts.draining(at(1)).into_keys().collect();
    assert_eq!(draining, [HostId::new("a"), HostId::new("a2")]);
    assert_eq!(asked(&mut hosts, &[], 1), "drain a2");
}

#[test]
fn mesos_is_asked_once_nothing_is_left_and_again_after_a_minute_without_an_answer() {
    let mut hosts = two(true);
    assert_eq!(asked(&mut hosts, &[], 1), "");
    hosts.release(&task(1), at(2));
    assert_eq!(asked(&mut hosts, &[], 2), "drain a");
    assert_eq!(asked(&mut hosts, &["a"], 61), "");
    assert_eq!(asked(&mut hosts, &["a"], 62), "drain a");
    hosts.on_event(
        &Event::Operated(Call::DrainAgent {
            host: HostId::new("a"),
        }),
        at(63),
    );
    assert_eq!(asked(&mut hosts, &["a"], 200), "");
    let row = hosts.host(&HostId::new("a")).unwrap();
    assert_eq!(row.drain.unwrap().agent, AgentDrain::Done);
}

#[test]
fn without_the_wish_about_the_agent_mesos_is_not_asked() {
    let mut hosts = two(false);
    hosts.release(&task(1), at(2));
    assert_eq!(asked(&mut hosts, &[], 2), "");
}

#[test]
fn what_was_drained_is_offered_again_when_nobody_wants_it_empty() {
    let mut hosts = two(true);
    hosts.release(&task(1), at(2));
    assert_eq!(asked(&mut hosts, &[], 2), "drain a");
    hosts.set_drains(BTreeMap::new());
    assert!(hosts.draining(at(200)).is_empty());
    assert_eq!(asked(&mut hosts, &["a"], 3), "reactivate a", "another call");
    assert_eq!(asked(&mut hosts, &["a"], 62), "");
    assert_eq!(asked(&mut hosts, &["a"], 63), "reactivate a");
    assert_eq!(asked(&mut hosts, &[], 200), "");
}
