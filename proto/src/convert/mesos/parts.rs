//! Room that is reserved for our role, in Mesos' words (R121, R128). A task names it with just the
//! reservations with which it was offered.

use super::amount::{from_ports, from_scalars, to_ports, to_resources, to_revocable};
use crate::mesos::v1::resource::ReservationInfo;
use crate::mesos::v1::resource::reservation_info::Type as ReservationType;
use crate::mesos::v1::{Label, Labels, Resource};
use echelon_core_hosts::{Launch, Reservation, Reservations, ReservedRoom};
use echelon_core_model::Resources;
use std::sync::Arc;

/// How a resource is reserved, if it is for this role or for one above it. `None` too where that is longer
/// than what is kept of a reservation.
pub fn reservations(resource: &Resource, role: &str) -> Option<Reservations> {
    let all = &resource.reservations;
    let is_ours = all.last().is_some_and(|last| is_within(role, last.role()));
    if !is_ours || all.len() > Reservations::MOST {
        return None;
    }
    let read: Option<Arc<[Reservation]>> = all.iter().map(reservation).collect();
    let read = Reservations(read?);
    (read.bytes() <= Reservations::MOST_BYTES).then_some(read)
}

/// `None`: it is of a kind that is not known.
fn reservation(wire: &ReservationInfo) -> Option<Reservation> {
    let label = |label: &Label| (label.key.clone(), label.value.clone());
    let labels = wire.labels.as_ref();
    Some(Reservation {
        is_static: match wire.r#type() {
            ReservationType::Static => true,
            ReservationType::Dynamic => false,
            ReservationType::Unknown => return None,
        },
        role: wire.role().to_owned(),
        principal: wire.principal.clone(),
        labels: labels.map(|all| all.labels.iter().map(label).collect()),
    })
}

/// The same in Mesos' words.
pub fn to_reservations(by: &Reservations) -> Vec<ReservationInfo> {
    let label = |(key, value): &(String, Option<String>)| Label {
        key: key.clone(),
        value: value.clone(),
    };
    let one = |one: &Reservation| {
        let kind = if one.is_static {
            ReservationType::Static
        } else {
            ReservationType::Dynamic
        };
        ReservationInfo {
            r#type: Some(i32::from(kind)),
            role: Some(one.role.clone()),
            principal: one.principal.clone(),
            labels: one.labels.as_ref().map(|all| Labels {
                labels: all.iter().map(label).collect(),
            }),
        }
    };
    by.0.iter().map(one).collect()
}

/// What is reserved for this role, one part for each way. What a framework has reserved with labels is its
/// own, also where it has our role.
pub fn reserved_room(resources: &[Resource], role: &str) -> Vec<ReservedRoom> {
    let mut out: Vec<ReservedRoom> = Vec::new();
    for resource in resources.iter().filter(|r| is_for_tasks(r)) {
        let Some(by) = reservations(resource, role) else {
            continue;
        };
        let bare = Resource {
            reservations: Vec::new(),
            ..resource.clone()
        };
        let bare = std::slice::from_ref(&bare);
        let part = part_of(&mut out, by);
        let Some(part) = part else { continue };
        part.resources = part.resources.plus(from_scalars(bare.iter()));
        part.ports = part.ports.union(&from_ports(bare));
    }
    out
}

/// The part that is reserved in this way, also where there was none. `None`: there are as many others as are
/// told apart.
pub fn part_of(parts: &mut Vec<ReservedRoom>, by: Reservations) -> Option<&mut ReservedRoom> {
    let found = parts.iter().position(|part| part.by == by);
    if found.is_none() && parts.len() < ReservedRoom::MOST {
        parts.push(ReservedRoom {
            by,
            resources: Resources::ZERO,
            ports: Default::default(),
        });
        return parts.last_mut();
    }
    parts.get_mut(found?)
}

fn is_for_tasks(resource: &Resource) -> bool {
    let reserved_by_hand =
        |last: &ReservationInfo| last.r#type() == ReservationType::Static || last.labels.is_none();
    resource.reservations.last().is_some_and(reserved_by_hand)
        && resource.disk.is_none()
        && resource.revocable.is_none()
        && resource.shared.is_none()
        && resource.provider_id.is_none()
}

/// Whether a role is another one or lies below it.
pub fn is_within(role: &str, above: &str) -> bool {
    let rest = role.strip_prefix(above);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What is left of the parts of a launch while its tasks are named one after the other.
#[derive(Debug)]
pub struct PartsLeft {
    reserved: Vec<ReservedRoom>,
    /// Of these kinds its tasks take what the host only lends.
    lent: Resources,
}

impl PartsLeft {
    /// All parts of a launch.
    pub fn of(launch: &Launch) -> Self {
        Self {
            reserved: launch.reserved.clone(),
            lent: launch.revocable,
        }
    }

    /// The room of a task or an executor: first what is reserved, and what the host only lends as such.
    pub fn take(&mut self, wanted: Resources, role: &str) -> Vec<Resource> {
        let lent = wanted.in_kinds_of(self.lent);
        let mut rest = wanted.minus(lent);
        let mut out = Vec::new();
        for part in &mut self.reserved {
            let taken = part.take(rest);
            rest = rest.minus(taken);
            let resources = to_resources(taken, role).into_iter();
            out.extend(resources.map(|resource| reserved_by(&part.by, resource)));
        }
        out.extend(to_resources(rest, role));
        out.extend(to_revocable(lent, role));
        out
    }

    /// The ports of a launch, which are its main task's.
    pub fn take_ports(&self, launch: &Launch, role: &str) -> Vec<Resource> {
        let numbers = || launch.ports.iter().map(|port| port.number);
        let is_reserved = |number: &u16| self.reserved.iter().any(|part| part.ports.contains(*number));
        let reserved = self.reserved.iter().filter_map(|part| {
            let ports = to_ports(part.ports.iter(), role)?;
            Some(reserved_by(&part.by, ports))
        });
        let rest = to_ports(numbers().filter(|number| !is_reserved(number)), role);
        reserved.chain(rest).collect()
    }
}

fn reserved_by(by: &Reservations, resource: Resource) -> Resource {
    Resource {
        reservations: to_reservations(by),
        ..resource
    }
}

#[cfg(test)]
#[path = "parts_tests.rs"]
mod tests;
