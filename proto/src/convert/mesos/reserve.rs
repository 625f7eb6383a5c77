//! Reserved disk and persistent volumes in Mesos' words (rules R121 to R125). Resources are named exactly as they were offered,
//! or as the operation before has made them.

use super::amount::{mib_scalar, scalar_mib};
use super::framework::Framework;
use super::parts::{reservations, to_reservations};
use crate::mesos::v1::offer::{Operation, operation};
use crate::mesos::v1::resource::disk_info::Persistence;
use crate::mesos::v1::resource::{AllocationInfo, DiskInfo};
use crate::mesos::v1::value::{Scalar, Type};
use crate::mesos::v1::volume::Mode;
use crate::mesos::v1::{OperationId, OperationState, OperationStatus as WireStatus, Resource, Volume};
use echelon_core_hosts::{Launch, OfferedVolume, OperationStatus, Reservations, Reserved, TaskVolume};
use echelon_core_model::{HostId, VolumeId};

/// A volume of this role, or disk that a shard has reserved for one, if it is of the plain kind: whole,
/// neither shared nor of a provider or mount.
pub fn reserved(resource: &Resource, role: &str) -> Option<Reserved> {
    let by = reservations(resource, role)?;
    let special = resource.revocable.is_some() || resource.shared.is_some() || resource.provider_id.is_some();
    let is_for_volume = resource.disk.is_some() || by.volume().is_some();
    if resource.name != "disk" || special || !is_for_volume {
        return None;
    }
    let volume = match &resource.disk {
        None => None,
        Some(disk) if disk.source.is_some() => return None,
        Some(disk) => {
            let persistence = disk.persistence.as_ref()?;
            Some(OfferedVolume {
                id: VolumeId::new(&persistence.id),
                principal: persistence.principal.clone(),
                path: disk.volume.as_ref()?.container_path.clone(),
            })
        }
    };
    Some(Reserved {
        disk: scalar_mib(resource.scalar.as_ref()?.value),
        by,
        volume,
    })
}

/// What an operation's status says.
pub fn operation_status(status: &WireStatus) -> OperationStatus {
    let state = status.state();
    OperationStatus {
        id: status
            .operation_id
            .as_ref()
            .map(|id| id.value.clone())
            .unwrap_or_default(),
        done: state == OperationState::OperationFinished,
        refused: matches!(
            state,
            OperationState::OperationFailed
                | OperationState::OperationError
                | OperationState::OperationDropped
                | OperationState::OperationUnsupported
        ),
        host: status.agent_id.as_ref().map(|id| HostId::new(&id.value)),
        uuid: status
            .uuid
            .as_ref()
            .and_then(|u| u.value.as_slice().try_into().ok()),
        message: status.message.clone().unwrap_or_default(),
    }
}

/// The volume of a launch as the operations before it leave it.
pub fn volume_of(volume: &TaskVolume, framework: &Framework) -> Resource {
    let offered = volume.offered.as_ref();
    let made = OfferedVolume {
        id: volume.id.clone(),
        principal: framework.principal.clone(),
        path: volume.path.clone(),
    };
    let whole = Reserved {
        volume: Some(offered.and_then(|r| r.volume.clone()).unwrap_or(made)),
        ..room_of(volume, framework)
    };
    resource(&whole, &framework.role)
}

/// The operations that a launch needs before it, since its volume is not there yet.
pub fn prepare(launch: &Launch, framework: &Framework) -> Vec<Operation> {
    let Some(volume) = &launch.volume else {
        return Vec::new();
    };
    let id = |what: &str| format!("{}.{what}", launch.task);
    let mut out = Vec::new();
    if volume.offered.is_none() {
        let room = resource(&room_of(volume, framework), &framework.role);
        out.push(operation(operation::Type::Reserve, id("reserve"), |o| {
            o.reserve = Some(operation::Reserve {
                resources: vec![room],
                ..operation::Reserve::default()
            });
        }));
    }
    if volume.offered.as_ref().is_none_or(|r| r.volume.is_none()) {
        out.push(operation(operation::Type::Create, id("create"), |o| {
            o.create = Some(operation::Create {
                volumes: vec![volume_of(volume, framework)],
            });
        }));
    }
    out
}

/// The operations that destroy volumes and give their disk back.
pub fn discard(reserved: &[Reserved], attempt: u64, role: &str) -> Vec<Operation> {
    reserved
        .iter()
        .flat_map(|r| discard_one(r, attempt, role))
        .collect()
}

fn discard_one(r: &Reserved, attempt: u64, role: &str) -> Vec<Operation> {
    let name = r.volume_id().map(|id| id.to_string()).unwrap_or_default();
    let mut out = Vec::new();
    if r.volume.is_some() {
        out.push(operation(
            operation::Type::Destroy,
            format!("{name}.destroy.{attempt}"),
            |o| {
                o.destroy = Some(operation::Destroy {
                    volumes: vec![resource(r, role)],
                });
            },
        ));
    }
    if r.by.volume().is_none() {
        // The reservation is not ours, and stays.
        return out;
    }
    let bare = Reserved {
        volume: None,
        ..r.clone()
    };
    out.push(operation(
        operation::Type::Unreserve,
        format!("{name}.unreserve.{attempt}"),
        |o| {
            o.unreserve = Some(operation::Unreserve {
                resources: vec![resource(&bare, role)],
            });
        },
    ));
    out
}

/// The reserved disk of a launch's volume, without the volume.
fn room_of(volume: &TaskVolume, framework: &Framework) -> Reserved {
    match &volume.offered {
        Some(offered) => Reserved {
            volume: None,
            ..offered.clone()
        },
        None => Reserved {
            disk: volume.size,
            by: Reservations::for_volume(&volume.id, &framework.role, framework.principal.as_deref()),
            volume: None,
        },
    }
}

fn operation(kind: operation::Type, id: String, fill: impl FnOnce(&mut Operation)) -> Operation {
    let mut out = Operation {
        r#type: Some(i32::from(kind)),
        id: Some(OperationId { value: id }),
        ..Operation::default()
    };
    fill(&mut out);
    out
}

fn resource(r: &Reserved, role: &str) -> Resource {
    Resource {
        name: "disk".to_owned(),
        r#type: i32::from(Type::Scalar),
        scalar: Some(Scalar {
            value: mib_scalar(r.disk),
        }),
        allocation_info: Some(AllocationInfo {
            role: Some(role.to_owned()),
        }),
        reservations: to_reservations(&r.by),
        disk: r.volume.as_ref().map(|v| DiskInfo {
            persistence: Some(Persistence {
                id: v.id.to_string(),
                principal: v.principal.clone(),
            }),
            volume: Some(Volume {
                container_path: v.path.clone(),
                mode: i32::from(Mode::Rw),
                ..Volume::default()
            }),
            ..DiskInfo::default()
        }),
        ..Resource::default()
    }
}

#[cfg(test)]
#[path = "reserve_tests.rs"]
mod tests;
