//! Clusters, what is known of them, and hosts.

use super::host_pool::{by_host, by_host_to_wire};
use crate::convert::fields::{
    WireEnum as _, by_volume, by_volume_to_wire, cluster, group, job_bytes, job_id, list, messages, moment,
    optional, required, wire_enum, word,
};
use crate::convert::{FieldError, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::cluster::{
    Cluster, ClusterState, DesiredState, Heartbeat, Host, LeftOut, Maintenance, MassLoss, ReportedCapacity,
};
use echelon_core_model::drain::DrainState;
use echelon_core_model::forgotten::ForgottenHosts;
use echelon_core_model::host_pool::{HostMoves, HostPlace, HostPoolWishes};
use echelon_core_model::sharing::{Others, Sharing};
use echelon_core_model::store::ShardRow;
use echelon_core_model::volume::{HostVolume, VolumeWish};
use echelon_core_model::{Epoch, HostId, InstanceId, InstanceNumber, Span, Timestamp, Version, VolumeId};

wire_enum!(
    DesiredState,
    wire::DesiredState,
    Active,
    Cordoned,
    Draining,
    Removing,
    Removed
);

impl Wire for Cluster {
    type Message = wire::Cluster;

    fn to_wire(&self) -> Self::Message {
        let Self {
            id,
            name,
            version,
            desired_state,
            mesos,
            labels,
            accepted_loss,
            volumes,
            drains,
            host_pools,
            forgotten,
            declared,
        } = self;
        wire::Cluster {
            id: id.to_string(),
            name: name.clone(),
            version: version.0,
            desired_state: desired_state.number(),
            mesos: mesos.clone(),
            labels: labels.clone(),
            accepted_loss: *accepted_loss,
            volumes: by_volume_to_wire(volumes),
            drains: Some(drains.to_wire()),
            host_pools: (*host_pools != HostPoolWishes::default()).then(|| host_pools.to_wire()),
            forgotten: (*forgotten != ForgottenHosts::default()).then(|| forgotten.to_wire()),
            declared: declared.map(|declared| declared.to_wire()),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let wire::Cluster {
            id,
            name,
            version,
            desired_state,
            mesos,
            labels,
            accepted_loss,
            volumes,
            drains,
            host_pools,
            forgotten,
            declared,
        } = message;
        Ok(Self {
            id: cluster("id", &id)?,
            name,
            version: Version(version),
            desired_state: word("desired_state", desired_state)?,
            mesos,
            labels,
            accepted_loss,
            volumes: by_volume("volumes", volumes)?,
            drains: optional("drains", drains)?.unwrap_or_default(),
            host_pools: optional("host_pools", host_pools)?.unwrap_or_default(),
            forgotten: optional("forgotten", forgotten)?.unwrap_or_default(),
            declared: optional("declared", declared)?,
        })
    }
}

impl Wire for ForgottenHosts {
    type Message = wire::ForgottenHosts;

    fn to_wire(&self) -> Self::Message {
        let Self { version, hosts } = self;
        let hosts = hosts.iter().map(|(host, observed)| wire::ForgottenHost {
            host: host.clone(),
            observed_ms: observed.0,
        });
        wire::ForgottenHosts {
            version: *version,
            hosts: hosts.collect(),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let hosts = message.hosts.into_iter();
        Ok(Self {
            version: message.version,
            hosts: hosts.map(|h| (h.host, Span(h.observed_ms))).collect(),
        })
    }
}

impl Wire for ClusterState {
    type Message = wire::ClusterState;

    fn to_wire(&self) -> Self::Message {
        let Self {
            cluster,
            health,
            reported,
        } = self;
        wire::ClusterState {
            cluster: cluster.to_string(),
            health: Some(health.to_wire()),
            reported: reported.as_ref().map(Wire::to_wire),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            cluster: cluster("cluster", &message.cluster)?,
            health: required("health", message.health)?,
            reported: optional("reported", message.reported)?,
        })
    }
}

impl Wire for ReportedCapacity {
    type Message = wire::ReportedCapacity;

    fn to_wire(&self) -> Self::Message {
        let Self {
            total,
            used,
            hosts,
            largest_host,
            sharing,
        } = self;
        wire::ReportedCapacity {
            total: Some(total.to_wire()),
            used: Some(used.to_wire()),
            hosts: *hosts,
            largest_host: Some(largest_host.to_wire()),
            sharing: (*sharing != Sharing::default()).then(|| sharing.to_wire()),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            total: required("total", message.total)?,
            used: required("used", message.used)?,
            hosts: message.hosts,
            largest_host: required("largest_host", message.largest_host)?,
            sharing: optional("sharing", message.sharing)?.unwrap_or_default(),
        })
    }
}

impl Wire for Heartbeat {
    type Message = wire::Heartbeat;

    fn to_wire(&self) -> Self::Message {
        let Self {
            cluster,
            epoch,
            at,
            signs,
            address,
            trouble,
            loss,
            no_manager_since,
        } = self;
        wire::Heartbeat {
            cluster: cluster.to_string(),
            epoch: epoch.0,
            at_ms: at.0,
            signs: Some(signs.to_wire()),
            address: address.clone(),
            trouble: trouble.clone(),
            loss: loss.as_ref().map(MassLoss::to_wire),
            no_manager_since_ms: no_manager_since.map(|t| t.0),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            cluster: cluster("cluster", &message.cluster)?,
            epoch: Epoch(message.epoch),
            at: Timestamp(message.at_ms),
            signs: required("signs", message.signs)?,
            address: message.address,
            trouble: message.trouble,
            loss: optional("loss", message.loss)?,
            no_manager_since: moment(message.no_manager_since_ms),
        })
    }
}

impl Wire for MassLoss {
    type Message = wire::MassLoss;

    fn to_wire(&self) -> Self::Message {
        let Self {
            number,
            since,
            running,
            lost,
            missing,
        } = self;
        wire::MassLoss {
            number: *number,
            since_ms: since.0,
            running: *running,
            lost: *lost,
            missing: *missing,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            number: message.number,
            since: Timestamp(message.since_ms),
            running: message.running,
            lost: message.lost,
            missing: message.missing,
        })
    }
}

impl Wire for Host {
    type Message = wire::Host;

    fn to_wire(&self) -> Self::Message {
        let Self {
            id,
            hostname,
            address,
            capacity,
            used,
            tasks,
            attributes,
            reachable,
            seen_at,
            maintenance,
            volumes,
            drain,
            place,
            left_out,
            others,
            agent,
        } = self;
        wire::Host {
            id: id.to_string(),
            hostname: hostname.clone(),
            address: address.clone(),
            capacity: Some(capacity.to_wire()),
            used: Some(used.to_wire()),
            tasks: *tasks,
            attributes: attributes.clone(),
            reachable: *reachable,
            seen_at_ms: seen_at.0,
            maintenance: maintenance.map(|m| wire::Maintenance {
                from_ms: m.from.0,
                until_ms: m.until.map(|t| t.0),
            }),
            volumes: messages(volumes),
            drain: drain.as_ref().map(DrainState::to_wire),
            place: (*place != HostPlace::default()).then(|| place.to_wire()),
            attributes_left_out: left_out.attributes,
            volumes_left_out: left_out.volumes,
            others: (*others != Others::default()).then(|| others.to_wire()),
            agent: agent.number(),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            id: HostId::new(message.id),
            hostname: message.hostname,
            address: message.address,
            capacity: required("capacity", message.capacity)?,
            used: required("used", message.used)?,
            tasks: message.tasks,
            attributes: message.attributes,
            reachable: message.reachable,
            seen_at: Timestamp(message.seen_at_ms),
            maintenance: message.maintenance.map(|m| Maintenance {
                from: Timestamp(m.from_ms),
                until: moment(m.until_ms),
            }),
            volumes: list("volumes", message.volumes)?,
            drain: optional("drain", message.drain)?,
            place: optional("place", message.place)?.unwrap_or_default(),
            left_out: LeftOut {
                attributes: message.attributes_left_out,
                volumes: message.volumes_left_out,
            },
            others: optional("others", message.others)?.unwrap_or_default(),
            agent: word("agent", message.agent)?,
        })
    }
}

impl Wire for HostVolume {
    type Message = wire::HostVolume;

    fn to_wire(&self) -> Self::Message {
        let Self {
            id,
            size,
            path,
            seen_at,
        } = self;
        wire::HostVolume {
            id: id.to_string(),
            size_mib: *size,
            path: path.clone(),
            seen_at_ms: seen_at.0,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            id: VolumeId::new(message.id),
            size: message.size_mib,
            path: message.path,
            seen_at: Timestamp(message.seen_at_ms),
        })
    }
}

impl Wire for VolumeWish {
    type Message = wire::VolumeWish;

    fn to_wire(&self) -> Self::Message {
        let adopt = match self {
            Self::Destroy => None,
            Self::Adopt(instance) | Self::GiveUp { instance, .. } => Some(wire::Instance {
                job: job_bytes(instance.job),
                group: instance.group.to_string(),
                number: instance.number.0,
            }),
        };
        wire::VolumeWish {
            adopt,
            give_up: self.given_up_by().is_some(),
            asked_at_ms: match self {
                Self::GiveUp { asked_at, .. } => asked_at.0,
                Self::Destroy | Self::Adopt(_) => 0,
            },
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let Some(instance) = message.adopt else {
            return Ok(Self::Destroy);
        };
        let instance = InstanceId {
            job: job_id("adopt.job", &instance.job)?,
            group: group("adopt.group", &instance.group)?,
            number: InstanceNumber(instance.number),
        };
        Ok(if message.give_up {
            Self::GiveUp {
                instance,
                asked_at: Timestamp(message.asked_at_ms),
            }
        } else {
            Self::Adopt(instance)
        })
    }
}

impl Wire for ShardRow {
    type Message = wire::ShardRow;

    fn to_wire(&self) -> Self::Message {
        let Self {
            framework,
            obeyed,
            adopted,
            last_loss,
            loss,
            volumes,
            wishes_heard,
            drains,
            moves,
            host_pools,
            drained_agents,
            log_gaps,
            observed,
            tears_down,
        } = self;
        wire::ShardRow {
            framework: framework.clone(),
            obeyed: obeyed.0,
            adopted: adopted.0,
            last_loss: *last_loss,
            loss: loss.as_ref().map(MassLoss::to_wire),
            volumes: by_volume_to_wire(volumes),
            drains: Some(drains.to_wire()),
            moves: (*moves != HostMoves::default()).then(|| moves.to_wire()),
            host_pools: by_host_to_wire(host_pools),
            drained_agents: drained_agents.iter().map(HostId::to_string).collect(),
            log_gaps: messages(log_gaps),
            wishes_heard_ms: wishes_heard.0,
            observed_ms: observed.0,
            tears_down: *tears_down,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            framework: message.framework,
            obeyed: Epoch(message.obeyed),
            adopted: Epoch(message.adopted),
            last_loss: message.last_loss,
            loss: optional("loss", message.loss)?,
            volumes: by_volume("volumes", message.volumes)?,
            drains: optional("drains", message.drains)?.unwrap_or_default(),
            moves: optional("moves", message.moves)?.unwrap_or_default(),
            host_pools: by_host("host_pools", message.host_pools)?,
            drained_agents: message.drained_agents.into_iter().map(HostId::new).collect(),
            log_gaps: list("log_gaps", message.log_gaps)?,
            wishes_heard: Timestamp(message.wishes_heard_ms),
            observed: Span(message.observed_ms),
            tears_down: message.tears_down,
        })
    }
}
