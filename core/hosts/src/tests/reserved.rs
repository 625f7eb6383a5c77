//! Room that is reserved for our role: used first, named as it is offered, and counted like all other room.

use super::agents::{agent, listed};
use super::{a, at, disconnected, launch, offer, subscribed, with_offers, with_ports};
use crate::{
    Agent, Call, Event, Hosts, Launch, Offer, Reservation, Reservations, Reserved, ReservedRoom, TaskVolume,
};
use echelon_core_model::{PortSet, Resources, VolumeId};
use echelon_core_testkit::build::shape;
use std::sync::Arc;

fn by(role: &str) -> Reservations {
    let reservation = Reservation {
        is_static: true,
        role: role.to_owned(),
        principal: None,
        labels: None,
    };
    Reservations(Arc::new([reservation]))
}

fn part(role: &str, resources: Resources, ports: &[u16]) -> ReservedRoom {
    ReservedRoom {
        by: by(role),
        resources,
        ports: ports.iter().copied().collect(),
    }
}

fn with_disk(resources: Resources, disk: u64) -> Resources {
    Resources { disk, ..resources }
}

/// An offer of room for every role, and of room that is reserved.
fn reserving(id: &str, open: Resources, parts: Vec<ReservedRoom>) -> Offer {
    Offer {
        reserved_room: parts,
        ..offer(id, "a", open)
    }
}

/// What the host offers.
fn free(hosts: &Hosts) -> Resources {
    hosts.views(at(0))[0].free
}

/// The launches of the call that uses the host's offers for these.
fn accepted(hosts: &mut Hosts, launches: Vec<Launch>) -> Vec<Launch> {
    match hosts.accept(&a(), launches, at(1)) {
        Some(Call::Accept { launches, .. }) => launches,
        other => panic!("{other:?}"),
    }
}

fn with_volume(mut launch: Launch, size: u64) -> Launch {
    launch.volume = Some(TaskVolume {
        id: VolumeId::new(format!("v-{}", launch.task)),
        path: "data".to_owned(),
        size,
        used: false,
        offered: None,
    });
    launch
}

#[test]
fn reserved_room_counts_and_is_used_before_other_room() {
    let parts = vec![
        part("eng", shape(3, 100), &[80]),
        part("eng/web", shape(1, 0), &[]),
    ];
    let open = Offer {
        ports: [31_000].into_iter().collect(),
        ..reserving("o1", shape(2, 900), parts)
    };
    let mut hosts = with_offers(vec![open]);
    assert_eq!(free(&hosts), shape(6, 1000));
    assert_eq!(hosts.host(&a()).unwrap().capacity, shape(6, 1000));
    assert_eq!(hosts.ports(&a()).to_string(), "80,31000");
    let two = vec![
        with_ports(launch(1, shape(2, 150)), &[31_000]),
        with_ports(launch(2, shape(3, 50)), &[80]),
    ];
    let launched = accepted(&mut hosts, two);
    assert_eq!(launched[0].reserved, [part("eng", shape(2, 100), &[])]);
    assert_eq!(
        launched[1].reserved,
        [part("eng", shape(1, 0), &[80]), part("eng/web", shape(1, 0), &[])],
        "the last core is not reserved"
    );
    assert_eq!(hosts.host(&a()).unwrap().used, shape(5, 200));
}

/// Rests of one reservation come in several offers.
#[test]
fn parts_of_several_offers_are_one() {
    let mut hosts = with_offers(vec![
        reserving("o1", Resources::ZERO, vec![part("eng", shape(1, 100), &[])]),
        reserving("o2", Resources::ZERO, vec![part("eng", shape(2, 100), &[])]),
    ]);
    let launched = accepted(&mut hosts, vec![launch(1, shape(3, 200))]);
    assert_eq!(launched[0].reserved, [part("eng", shape(3, 200), &[])]);
}

#[test]
fn more_than_all_parts_together_is_not_launched() {
    let parts = vec![part("eng", shape(3, 100), &[])];
    let mut hosts = with_offers(vec![reserving("o1", shape(2, 100), parts)]);
    assert_eq!(hosts.accept(&a(), vec![launch(1, shape(6, 10))], at(1)), None);
    assert_eq!(accepted(&mut hosts, vec![launch(1, shape(5, 10))]).len(), 1);
}

/// What a host only lends is never reserved (R91).
#[test]
fn lent_room_takes_nothing_of_what_is_reserved() {
    let lending = Offer {
        revocable: shape(4, 0),
        ..reserving("o1", shape(0, 50), vec![part("eng", shape(3, 100), &[])])
    };
    let mut hosts = with_offers(vec![lending]);
    let mut lent = launch(1, shape(2, 120));
    lent.revocable = shape(2, 0);
    let launched = accepted(&mut hosts, vec![lent]);
    assert_eq!(launched[0].reserved, [part("eng", shape(0, 100), &[])]);
}

/// All resources of the agent are reserved (`--default_role`), and its master lists nothing.
#[test]
fn a_volume_is_made_on_reserved_disk_where_there_is_no_other() {
    let parts = vec![part("eng", with_disk(shape(3, 100), 500), &[])];
    let mut hosts = with_offers(vec![reserving("o1", Resources::ZERO, parts)]);
    assert_eq!(free(&hosts), with_disk(shape(3, 100), 500));
    let mut task = with_volume(launch(1, with_disk(shape(1, 10), 100)), 300);
    let launched = accepted(&mut hosts, vec![task.clone()]);
    assert_eq!(
        launched[0].reserved,
        [part("eng", with_disk(shape(1, 10), 100), &[])]
    );
    let made = launched[0].volume.as_ref().unwrap().offered.clone();
    let disk = Reserved {
        disk: 300,
        by: by("eng"),
        volume: None,
    };
    assert_eq!(made, Some(disk));
    // A volume that does not fit beside the task is not made.
    let parts = vec![part("eng", with_disk(shape(3, 100), 350), &[])];
    let mut hosts = with_offers(vec![reserving("o1", Resources::ZERO, parts)]);
    task.reserved.clear();
    assert_eq!(hosts.accept(&a(), vec![task], at(1)), None);
}

/// A volume cannot be made of two parts, so only one of them counts.
#[test]
fn of_an_agents_disk_the_larger_part_counts() {
    let both = |open: u64, reserved: u64| {
        let parts = vec![part("eng", with_disk(shape(1, 0), reserved), &[])];
        reserving("o1", with_disk(shape(2, 100), open), parts)
    };
    let known = |disk: Option<&str>, size: u64| Agent {
        total: with_disk(shape(3, 100), size),
        disk: disk.map(by),
        ..agent("a", 0)
    };
    let mut hosts = with_offers(vec![both(300, 500)]);
    assert_eq!(free(&hosts).disk, 300, "not listed: what is not reserved");
    listed(&mut hosts, 100, vec![known(Some("eng"), 500)]);
    assert_eq!(free(&hosts), with_disk(shape(3, 100), 500));
    assert_eq!(hosts.host(&a()).unwrap().capacity.disk, 500);
    // It stays so with other offers, whatever is left of either.
    hosts.on_event(&disconnected(), at(200));
    hosts.on_event(&subscribed(), at(201));
    hosts.on_event(&Event::Offers(vec![both(300, 100)]), at(201));
    assert_eq!(free(&hosts).disk, 100);
    let task = with_volume(launch(1, shape(1, 10)), 60);
    let launched = accepted(&mut hosts, vec![task]);
    assert!(launched[0].volume.as_ref().unwrap().offered.is_some());
    // The agent was configured otherwise.
    listed(&mut hosts, 300, vec![known(None, 300)]);
    hosts.on_event(
        &Event::Offers(vec![Offer {
            id: offer("o2", "a", Resources::ZERO).id,
            ..both(300, 0)
        }]),
        at(302),
    );
    assert_eq!(free(&hosts).disk, 300);
    let task = with_volume(launch(2, shape(1, 10)), 60);
    let launched = accepted(&mut hosts, vec![task]);
    assert_eq!(
        launched[0].volume.as_ref().unwrap().offered,
        None,
        "it is reserved with the launch"
    );
}

#[test]
fn ports_that_are_reserved_are_known_ports_of_their_host() {
    let hosts = with_offers(vec![reserving(
        "o1",
        shape(1, 10),
        vec![part("eng", shape(1, 0), &[80, 81])],
    )]);
    assert_eq!(
        hosts.known_ports(&a()),
        Some([80, 81].into_iter().collect::<PortSet>())
    );
}
