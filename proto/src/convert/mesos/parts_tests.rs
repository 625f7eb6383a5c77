use super::super::amount::from_resources;
use super::*;
use crate::mesos::v1::resource::{DiskInfo, RevocableInfo, SharedInfo};
use echelon_core_model::pod::{self, EXECUTOR, Sidecar};
use echelon_core_model::runtime::{Port, Runtime};
use echelon_core_model::{SidecarName, Span};
use std::collections::BTreeMap;
use std::sync::Arc;

fn wire(kind: ReservationType, role: &str) -> ReservationInfo {
    ReservationInfo {
        r#type: Some(i32::from(kind)),
        role: Some(role.to_owned()),
        principal: None,
        labels: None,
    }
}

fn fixed(role: &str) -> ReservationInfo {
    wire(ReservationType::Static, role)
}

/// Processor time that is reserved in this way.
fn cpus(cores: u64, by: Vec<ReservationInfo>) -> Resource {
    let amount = Resources {
        cpus: cores * 1000,
        ..Resources::ZERO
    };
    let mut all = to_resources(amount, "eng/web");
    Resource {
        reservations: by,
        ..all.remove(0)
    }
}

fn by(role: &str) -> Reservations {
    let reservation = Reservation {
        is_static: true,
        role: role.to_owned(),
        principal: None,
        labels: None,
    };
    Reservations(Arc::new([reservation]))
}

#[test]
fn what_is_reserved_for_our_role_or_one_above_is_told_by_the_way_it_is_reserved() {
    let told = |resource: Resource| {
        let parts = reserved_room(&[resource], "eng/web");
        parts.iter().map(|part| part.resources.cpus).sum::<u64>()
    };
    let by_hand = wire(ReservationType::Dynamic, "eng/web");
    let labelled = ReservationInfo {
        labels: Some(Labels::default()),
        ..by_hand.clone()
    };
    for (what, by, is_ours) in [
        ("ours", vec![fixed("eng/web")], true),
        ("above", vec![fixed("eng")], true),
        ("refined", vec![fixed("eng"), by_hand.clone()], true),
        ("by an operator", vec![by_hand], true),
        ("below", vec![fixed("eng/web/x")], false),
        ("beside", vec![fixed("eng/db")], false),
        ("of a similar name", vec![fixed("en")], false),
        (
            "refined for another one",
            vec![fixed("eng"), fixed("eng/db")],
            false,
        ),
        ("by a framework with labels", vec![labelled], false),
        ("too deep", vec![fixed("eng"); Reservations::MOST + 1], false),
        (
            "too long",
            vec![
                fixed("eng"),
                ReservationInfo {
                    principal: Some("p".repeat(Reservations::MOST_BYTES)),
                    ..fixed("eng/web")
                },
            ],
            false,
        ),
        ("not reserved", vec![], false),
    ] {
        let expected = if is_ours { 2000 } else { 0 };
        assert_eq!(told(cpus(2, by)), expected, "{what}");
    }
    let ours = || cpus(2, vec![fixed("eng")]);
    for special in [
        Resource {
            disk: Some(DiskInfo::default()),
            ..ours()
        },
        Resource {
            revocable: Some(RevocableInfo::default()),
            ..ours()
        },
        Resource {
            shared: Some(SharedInfo::default()),
            ..ours()
        },
    ] {
        assert_eq!(told(special.clone()), 0, "{special:?}");
    }
}

#[test]
fn parts_are_summed_by_way_and_there_are_few() {
    let mut all: Vec<Resource> = ["eng", "eng/web", "eng"]
        .map(|role| cpus(1, vec![fixed(role)]))
        .into();
    let ports = to_ports(31_000..31_003, "eng/web").unwrap();
    all.push(Resource {
        reservations: vec![fixed("eng")],
        ..ports
    });
    let parts = reserved_room(&all, "eng/web");
    let told: Vec<_> = parts
        .iter()
        .map(|part| (part.by.clone(), part.resources.cpus, part.ports.to_string()))
        .collect();
    assert_eq!(
        told,
        [
            (by("eng"), 2000, "31000-31002".to_owned()),
            (by("eng/web"), 1000, String::new()),
        ]
    );
    let of = |n: usize| ReservationInfo {
        principal: Some(n.to_string()),
        ..fixed("eng")
    };
    let many: Vec<Resource> = (0..9).map(|n| cpus(1, vec![of(n)])).collect();
    assert_eq!(reserved_room(&many, "eng").len(), ReservedRoom::MOST);
}

#[test]
fn reservations_are_named_as_they_were_offered() {
    let offered = vec![
        ReservationInfo {
            labels: Some(Labels {
                labels: ["z", "a", "a"]
                    .map(|key| Label {
                        key: key.to_owned(),
                        value: None,
                    })
                    .into(),
            }),
            ..fixed("eng")
        },
        ReservationInfo {
            principal: Some("p".to_owned()),
            labels: Some(Labels {
                labels: vec![Label {
                    key: "k".to_owned(),
                    value: Some("v".to_owned()),
                }],
            }),
            ..wire(ReservationType::Dynamic, "eng/web")
        },
    ];
    let read = reservations(&cpus(1, offered.clone()), "eng/web").unwrap();
    assert_eq!(to_reservations(&read), offered);
}

/// A pod of 1 and 2 cores beside its executor, and its ports.
fn pod() -> Launch {
    let shape = |cpus, memory| Resources {
        cpus,
        memory,
        ..Resources::ZERO
    };
    let port = |number| Port {
        name: format!("p{number}"),
        number,
    };
    Launch {
        task: "0000000000000000000000000a.main.0.1.1".parse().unwrap(),
        name: "web.main.0".to_owned(),
        discovery: "main.web".to_owned(),
        runtime: Runtime::shell("true"),
        ports: vec![port(31_000), port(80)],
        resources: shape(1000, 64),
        revocable: Resources::ZERO,
        reserved: Vec::new(),
        volume: None,
        grace: Span::seconds(1),
        max_run: None,
        labels: BTreeMap::new(),
        sidecars: vec![Sidecar {
            name: SidecarName::new("log"),
            runtime: Runtime::shell("true"),
            resources: shape(2000, 32),
        }],
    }
}

#[test]
fn tasks_take_what_is_reserved_first_and_nothing_twice() {
    let mut launch = pod();
    let part = |role: &str, cpus, ports: &[u16]| ReservedRoom {
        by: by(role),
        resources: Resources {
            cpus,
            ..Resources::ZERO
        },
        ports: ports.iter().copied().collect(),
    };
    launch.reserved = vec![part("eng", 1500, &[80]), part("eng/web", 500, &[])];
    let mut left = PartsLeft::of(&launch);
    let taken = [EXECUTOR, launch.resources, launch.sidecars[0].resources].map(|r| left.take(r, "eng/web"));
    let all: Vec<Resource> = taken.iter().flatten().cloned().collect();
    let of = |role: &str| {
        let parts = reserved_room(&all, "eng/web");
        let part = parts.into_iter().find(|part| part.by == by(role));
        part.map_or(0, |part| part.resources.cpus)
    };
    assert_eq!([of("eng"), of("eng/web")], [1500, 500]);
    let room = pod::room(launch.resources, launch.sidecars.iter().map(|s| s.resources));
    assert_eq!(from_resources(&all).cpus, room.cpus - 2000);
    assert_eq!(from_resources(&all).memory, room.memory);
    // Nothing of an amount of zero is named (R79).
    assert!(
        all.iter().all(|r| r.scalar.is_some_and(|s| s.value > 0.0)),
        "{all:?}"
    );
    let ports = left.take_ports(&launch, "eng/web");
    let told: Vec<_> = ports
        .iter()
        .map(|r| {
            (
                r.reservations.len(),
                from_ports(&[Resource {
                    reservations: Vec::new(),
                    ..r.clone()
                }])
                .to_string(),
            )
        })
        .collect();
    assert_eq!(told, [(1, "80".to_owned()), (0, "31000".to_owned())]);
    // What the host only lends is never reserved.
    launch.revocable = Resources {
        cpus: room.cpus,
        ..Resources::ZERO
    };
    launch.reserved.clear();
    let lent = PartsLeft::of(&launch).take(launch.resources, "eng/web");
    let is_lent = |name: &str| {
        lent.iter()
            .filter(|r| r.name == name)
            .all(|r| r.revocable.is_some())
    };
    assert!(is_lent("cpus") && !is_lent("mem"));
}
