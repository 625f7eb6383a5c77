//! Room that is reserved for our role: by an agent's own settings (`cpus(ours):6`, `--default_role`) or by an
//! operator of Mesos, for the role itself or for one above it (R121, R128). It is used before room that every
//! role may use.
//!
//! Of an agent's disk only one part is used, the largest one: a volume cannot be made of two.

use crate::call::Launch;
use crate::event::{Reserved, VOLUME_LABEL};
use echelon_core_model::{PortSet, Resources, VolumeId};
use std::sync::Arc;

/// One reservation, as Mesos tells it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reservation {
    /// By the agent's own settings. Otherwise a framework or an operator has asked for it.
    pub is_static: bool,
    /// For which role.
    pub role: String,
    /// Who asked for it, where principals are known.
    pub principal: Option<String>,
    /// Labels in their order, each with its value where it has one. `None`: there is no list of labels.
    pub labels: Option<Vec<(String, Option<String>)>>,
}

/// How a resource is reserved: each reservation is for a role below that of the one before (R128). Calls name
/// the resource with just these.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Reservations(pub Arc<[Reservation]>);

impl Reservations {
    /// Most of them of one resource that is used.
    pub const MOST: usize = 4;
    /// Most bytes of all their texts.
    pub const MOST_BYTES: usize = 1024;

    /// The bytes of all their texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let of = |one: &Reservation| {
            let labels = one.labels.iter().flatten();
            let labels = labels.map(|(name, value)| name.len() + value.as_ref().map_or(0, String::len));
            one.role.len() + one.principal.as_ref().map_or(0, String::len) + labels.sum::<usize>()
        };
        self.0.iter().map(of).sum()
    }

    /// The name of the volume for which a shard has made the last one. No other reservation is taken back.
    #[must_use]
    pub fn volume(&self) -> Option<&str> {
        let last = self.0.last()?;
        let mut labels = last.labels.iter().flatten();
        let (_, value) = labels.find(|(name, _)| name == VOLUME_LABEL)?;
        value.as_deref()
    }

    /// How a shard reserves disk for a volume.
    #[must_use]
    pub fn for_volume(id: &VolumeId, role: &str, principal: Option<&str>) -> Self {
        Self(Arc::new([Reservation {
            is_static: false,
            role: role.to_owned(),
            principal: principal.map(str::to_owned),
            labels: Some(vec![(VOLUME_LABEL.to_owned(), Some(id.to_string()))]),
        }]))
    }
}

/// Room that is reserved in one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservedRoom {
    /// How.
    pub by: Reservations,
    /// The room.
    pub resources: Resources,
    /// Ports.
    pub ports: PortSet,
}

impl ReservedRoom {
    /// Ways in which the room of one host is reserved, at most: what is reserved in further ones is not used.
    pub const MOST: usize = 4;

    /// Takes what it has of some room, and tells what that is.
    pub fn take(&mut self, wanted: Resources) -> Resources {
        let taken = wanted.min_each(self.resources);
        self.resources = self.resources.minus(taken);
        taken
    }
}

/// These ports, and those that are reserved.
pub(crate) fn all_ports(unreserved: &PortSet, reserved: &[ReservedRoom]) -> PortSet {
    let parts = reserved.iter().map(|part| &part.ports);
    parts.fold(unreserved.clone(), |all, ports| all.union(ports))
}

/// Gives launches their parts of the room that is reserved on their host, in their order, as far as it goes.
/// All of them fit into what the host offers. `disk`: how the disk is reserved that is used there.
pub(crate) fn allot(launches: &mut [Launch], mut parts: Vec<ReservedRoom>, disk: Option<&Reservations>) {
    // Volumes come first: what is left of the disk is for tasks.
    if let Some(part) = parts.iter_mut().find(|part| Some(&part.by) == disk) {
        let volumes = launches.iter_mut().filter_map(|launch| launch.volume.as_mut());
        for volume in volumes.filter(|volume| volume.offered.is_none()) {
            part.resources.disk = part.resources.disk.saturating_sub(volume.size);
            volume.offered = Some(Reserved {
                disk: volume.size,
                by: part.by.clone(),
                volume: None,
            });
        }
    }
    for launch in launches {
        let room = launch.room_of_tasks();
        let mut wanted = room.minus(room.in_kinds_of(launch.revocable));
        for part in &mut parts {
            let resources = part.take(wanted);
            wanted = wanted.minus(resources);
            let numbers = launch.ports.iter().map(|port| port.number);
            let ports: PortSet = numbers.filter(|number| part.ports.take(*number)).collect();
            if !resources.is_zero() || !ports.is_empty() {
                let by = part.by.clone();
                launch.reserved.push(ReservedRoom { by, resources, ports });
            }
        }
    }
}
