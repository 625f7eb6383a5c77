use super::*;
use crate::mesos::v1::resource::ReservationInfo;
use crate::mesos::v1::resource::disk_info::{Source, source};
use crate::mesos::v1::resource::reservation_info::Type as ReservationType;
use crate::mesos::v1::{Label, Labels};
use echelon_core_hosts::VOLUME_LABEL;
use echelon_core_model::runtime::Runtime;
use echelon_core_model::{Resources, Span};
use std::collections::BTreeMap;

/// A volume as a real master offers it (recording `reserve-volume`), with the label of a shard.
fn recorded() -> Resource {
    Resource {
        name: "disk".to_owned(),
        r#type: i32::from(Type::Scalar),
        scalar: Some(Scalar { value: 64.0 }),
        allocation_info: Some(AllocationInfo {
            role: Some("ra".to_owned()),
        }),
        reservations: vec![ReservationInfo {
            r#type: Some(i32::from(ReservationType::Dynamic)),
            role: Some("ra".to_owned()),
            principal: Some("rec".to_owned()),
            labels: Some(Labels {
                labels: vec![Label {
                    key: VOLUME_LABEL.to_owned(),
                    value: Some("vol-1".to_owned()),
                }],
            }),
        }],
        disk: Some(DiskInfo {
            persistence: Some(Persistence {
                id: "vol-1".to_owned(),
                principal: Some("rec".to_owned()),
            }),
            volume: Some(Volume {
                container_path: "data".to_owned(),
                mode: i32::from(Mode::Rw),
                ..Volume::default()
            }),
            ..DiskInfo::default()
        }),
        ..Resource::default()
    }
}

fn framework() -> Framework {
    Framework {
        role: "ra".to_owned(),
        principal: Some("rec".to_owned()),
        ..Framework::named("f")
    }
}

fn launch(offered: Option<Reserved>) -> Launch {
    Launch {
        task: "0000000000000000000000000a.main.0.1.1".parse().unwrap(),
        name: "db".to_owned(),
        discovery: "db".to_owned(),
        runtime: Runtime::shell("true"),
        ports: Vec::new(),
        resources: Resources {
            cpus: 100,
            ..Resources::ZERO
        },
        revocable: Resources::ZERO,
        reserved: Vec::new(),
        sidecars: Vec::new(),
        volume: Some(TaskVolume {
            id: VolumeId::new("vol-1"),
            path: "data".to_owned(),
            size: 64,
            used: false,
            offered,
        }),
        grace: Span::seconds(1),
        max_run: None,
        labels: BTreeMap::new(),
    }
}

fn kinds(operations: &[Operation]) -> Vec<operation::Type> {
    operations.iter().map(Operation::r#type).collect()
}

#[test]
fn a_volume_is_named_exactly_as_it_was_offered() {
    let read = reserved(&recorded(), "ra").unwrap();
    assert_eq!((read.disk, read.volume_id()), (64, Some(VolumeId::new("vol-1"))));
    assert_eq!(resource(&read, "ra"), recorded());
    let launch = launch(Some(read));
    assert_eq!(prepare(&launch, &framework()), []);
    assert_eq!(
        volume_of(launch.volume.as_ref().unwrap(), &framework()),
        recorded()
    );
}

#[test]
fn what_is_missing_of_a_volume_is_made_in_order_with_ids_of_its_own() {
    use operation::Type::{Create, Reserve};
    let new = launch(None);
    let operations = prepare(&new, &framework());
    assert_eq!(kinds(&operations), [Reserve, Create]);
    let ids: Vec<&str> = operations
        .iter()
        .map(|o| o.id.as_ref().unwrap().value.as_str())
        .collect();
    assert_eq!(
        ids,
        [
            "0000000000000000000000000a.main.0.1.1.reserve",
            "0000000000000000000000000a.main.0.1.1.create"
        ]
    );
    let room = &operations[0].reserve.as_ref().unwrap().resources[0];
    assert_eq!((room.disk.is_none(), room.reservations.len()), (true, 1));
    let made = &operations[1].create.as_ref().unwrap().volumes[0];
    assert_eq!(made, &volume_of(new.volume.as_ref().unwrap(), &framework()));
    // The volume lies on what was reserved.
    assert_eq!(made.reservations, room.reservations);
    let again = launch(reserved(room, "ra"));
    assert_eq!(kinds(&prepare(&again, &framework())), [Create]);
}

#[test]
fn a_volume_is_destroyed_before_its_disk_is_given_back() {
    use operation::Type::{Destroy, Unreserve};
    let read = reserved(&recorded(), "ra").unwrap();
    let operations = discard(std::slice::from_ref(&read), 7, "ra");
    assert_eq!(kinds(&operations), [Destroy, Unreserve]);
    assert_eq!(operations[0].destroy.as_ref().unwrap().volumes, [recorded()]);
    let freed = &operations[1].unreserve.as_ref().unwrap().resources[0];
    assert_eq!(
        (freed.disk.is_none(), &freed.reservations),
        (true, &recorded().reservations)
    );
    let bare = Reserved { volume: None, ..read };
    assert_eq!(kinds(&discard(&[bare], 8, "ra")), [Unreserve]);
}

/// On disk that an agent keeps for our role a volume is made and destroyed, and the reservation stays.
#[test]
fn a_volume_on_disk_that_others_have_reserved_leaves_the_reservation() {
    use operation::Type::{Create, Destroy};
    let mut disk = recorded();
    disk.reservations[0] = ReservationInfo {
        r#type: Some(i32::from(ReservationType::Static)),
        role: Some("ra".to_owned()),
        ..ReservationInfo::default()
    };
    let by = reservations(&disk, "ra").unwrap();
    let new = launch(Some(Reserved {
        disk: 64,
        by,
        volume: None,
    }));
    let operations = prepare(&new, &framework());
    assert_eq!(kinds(&operations), [Create]);
    assert_eq!(operations[0].create.as_ref().unwrap().volumes, [disk.clone()]);
    let read = reserved(&disk, "ra").unwrap();
    assert_eq!(prepare(&launch(Some(read.clone())), &framework()), []);
    let operations = discard(&[read], 7, "ra");
    assert_eq!(kinds(&operations), [Destroy]);
    assert_eq!(operations[0].destroy.as_ref().unwrap().volumes, [disk]);
}

type Change<'a> = &'a dyn Fn(&mut Resource);

#[test]
fn what_is_not_plainly_ours_is_left_alone() {
    let with = |change: &dyn Fn(&mut Resource)| {
        let mut r = recorded();
        change(&mut r);
        reserved(&r, "ra")
    };
    let mount = Source {
        r#type: i32::from(source::Type::Mount),
        ..Source::default()
    };
    let cases: [(&str, Change<'_>); 6] = [
        ("not for a volume", &|r| {
            r.reservations[0].labels = None;
            r.disk = None;
        }),
        ("another role's", &|r| {
            r.reservations[0].role = Some("rb".to_owned())
        }),
        ("refined", &|r| r.reservations.push(ReservationInfo::default())),
        ("shared", &|r| r.shared = Some(Default::default())),
        ("memory", &|r| r.name = "mem".to_owned()),
        ("mounted", &|r| {
            r.disk.as_mut().unwrap().source = Some(mount.clone())
        }),
    ];
    for (what, change) in cases {
        assert_eq!(with(change), None, "{what}");
    }
}

#[test]
fn only_an_end_is_an_end() {
    let of = |state: OperationState| {
        let status = operation_status(&WireStatus {
            operation_id: Some(OperationId {
                value: "op".to_owned(),
            }),
            state: i32::from(state),
            ..WireStatus::default()
        });
        (status.done, status.refused)
    };
    assert_eq!(of(OperationState::OperationFinished), (true, false));
    assert_eq!(of(OperationState::OperationError), (false, true));
    assert_eq!(of(OperationState::OperationUnreachable), (false, false));
    assert_eq!(of(OperationState::OperationUnknown), (false, false));
}
