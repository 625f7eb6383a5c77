//! Ports of hosts: offered, given to tasks, free again.

use super::{at, launch, need, offer, task, update, with_offers, with_ports};
use crate::{Event, Hosts, Need, Offer, TaskState};
use echelon_core_model::runtime::Port;
use echelon_core_model::{HostId, Resources};
use echelon_core_testkit::build::shape;

fn a() -> HostId {
    HostId::new("a")
}

fn offering(mut offer: Offer, first: u16, last: u16) -> Offer {
    offer.ports.insert(first, last);
    offer
}

/// Ports of host `a`: offered, and left by our tasks of all that are known.
fn seen(hosts: &Hosts) -> String {
    let mut views = hosts.views(at(0));
    hosts.add_ports(&mut views);
    let view = views.into_iter().find(|v| v.id == a()).unwrap();
    let left = view.ports_left.map_or("?".to_owned(), |p| p.to_string());
    format!("{} of {left}", view.ports)
}

#[test]
fn ports_of_all_offers_of_a_host_are_used_together() {
    let mut hosts = with_offers(vec![
        offering(offer("o1", "a", shape(1, 50)), 80, 81),
        offering(offer("o2", "a", shape(1, 50)), 90, 91),
    ]);
    assert_eq!(seen(&hosts), "80-81,90-91 of 80-81,90-91");
    let one = with_ports(launch(1, shape(1, 10)), &[81, 90]);
    assert!(hosts.accept(&a(), vec![one], at(1)).is_some());
    assert_eq!(seen(&hosts), " of 80,91");
    hosts.on_event(&update(1, "a", TaskState::Failed), at(2));
    assert_eq!(seen(&hosts), " of 80-81,90-91");
}

#[test]
fn a_port_that_is_not_offered_or_named_twice_launches_nothing() {
    let one = |n, ports: &[u16]| with_ports(launch(n, shape(1, 10)), ports);
    for (why, launches) in [
        ("not offered", vec![one(1, &[82])]),
        ("twice in a task", vec![one(1, &[80, 80])]),
        ("in two tasks", vec![one(1, &[80]), one(2, &[80])]),
    ] {
        let mut hosts = with_offers(vec![offering(offer("o1", "a", shape(4, 100)), 80, 81)]);
        assert_eq!(hosts.accept(&a(), launches, at(1)), None, "{why}");
        assert_eq!(seen(&hosts), "80-81 of 80-81", "{why}");
    }
}

#[test]
fn a_port_used_again_before_its_end_is_told_stays_used() {
    let mut hosts = with_offers(vec![offering(offer("o1", "a", shape(1, 50)), 80, 80)]);
    let first = with_ports(launch(1, shape(1, 10)), &[80]);
    hosts.accept(&a(), vec![first], at(1)).unwrap();
    let again = offering(offer("o2", "a", shape(1, 50)), 80, 80);
    hosts.on_event(&Event::Offers(vec![again]), at(2));
    let second = with_ports(launch(2, shape(1, 10)), &[80]);
    hosts.accept(&a(), vec![second], at(3)).unwrap();
    hosts.release(&task(1), at(4));
    assert_eq!(seen(&hosts), " of ");
}

#[test]
fn what_a_host_has_is_not_known_before_it_offers() {
    let mut hosts = with_offers(vec![]);
    hosts.adopt(&task(9), &a(), &need(1, 1), at(0));
    assert_eq!(seen(&hosts), " of ?");
    let http = Port {
        name: "http".to_owned(),
        number: 80,
    };
    hosts.adopt(
        &task(8),
        &a(),
        &Need::new(shape(1, 1), Resources::ZERO, &[http]),
        at(0),
    );
    let rest = offering(offer("o1", "a", shape(1, 50)), 80, 82);
    hosts.on_event(&Event::Offers(vec![rest]), at(2));
    assert_eq!(seen(&hosts), "80-82 of 81-82");
}
