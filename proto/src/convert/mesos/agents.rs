//! All agents of a master in our words. What somebody holds says by its role whose it is: an agent's own figures name no framework.

use super::amount::{from_ports, from_resources, from_revocable, from_scalars, kind_of, milli};
use super::event::{attributes, host_port, maintenance, name};
use super::parts::{is_within, part_of, reserved_room};
use super::reserve::reserved;
use crate::mesos::v1::master::response::GetAgents;
use crate::mesos::v1::master::response::get_agents::Agent as Wire;
use crate::mesos::v1::master::{QuotaStatus, Schedule};
use crate::mesos::v1::{DrainState, MachineId, Resource};
use echelon_core_hosts::{Agent, Event, ListedSharing, QuotaUse, Reservations, ReservedRoom};
use echelon_core_model::cluster::Maintenance;
use echelon_core_model::sharing::{AgentState, Others};
use echelon_core_model::{HostId, PortSet, Resources};
use std::collections::BTreeMap;

/// What a master tells beside its list of agents. `None`: it does not tell us.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// The quotas of all roles.
    pub quota: Option<QuotaStatus>,
    /// The planned maintenance of all machines.
    pub schedule: Option<Schedule>,
}

/// The list of all agents as a framework of this role sees it, with what is told beside it. An agent without
/// an id cannot be used and is left out.
#[must_use]
pub fn agents_from_wire(list: &GetAgents, beside: &Beside, role: &str) -> Event {
    let known = |id: &crate::mesos::v1::AgentId| HostId::new(&id.value);
    Event::Agents {
        agents: list.agents.iter().filter_map(|a| agent(a, role)).collect(),
        awaited: list
            .recovered_agents
            .iter()
            .filter_map(|a| a.id.as_ref().map(known))
            .collect(),
        sharing: ListedSharing {
            role: role.to_owned(),
            roles: of_other_roles(list, role),
            limits: beside.quota.as_ref().map(|quota| limits(list, quota, role)),
        },
        planned: beside.schedule.as_ref().map(|schedule| planned(list, schedule)),
    }
}

/// When agents are planned to be away, by the schedule of their machines (R129).
fn planned(list: &GetAgents, schedule: &Schedule) -> BTreeMap<HostId, Maintenance> {
    let mut out = BTreeMap::new();
    for window in &schedule.windows {
        let is_in = |agent: &&Wire| window.machine_ids.iter().any(|machine| is_on(agent, machine));
        let agents = list.agents.iter().filter(is_in);
        let ids = agents.filter_map(|agent| agent.agent_info.id.as_ref());
        out.extend(ids.map(|id| (HostId::new(&id.value), maintenance(&window.unavailability))));
    }
    out
}

/// Whether an agent is on a machine, by its name and its address as far as they are named.
fn is_on(agent: &Wire, machine: &MachineId) -> bool {
    let address = address(agent);
    let ip = address.rsplit_once(':').map_or("", |(ip, _)| ip);
    let name = &agent.agent_info.hostname;
    let is_named = machine.hostname.is_some() || machine.ip.is_some();
    is_named
        && machine
            .hostname
            .as_ref()
            .is_none_or(|h| h.eq_ignore_ascii_case(name))
        && machine
            .ip
            .as_ref()
            .is_none_or(|machine| machine == ip.trim_matches(['[', ']']))
}

/// What frameworks of other roles hold of all agents.
fn of_other_roles(list: &GetAgents, role: &str) -> BTreeMap<String, Others> {
    let mut out: BTreeMap<String, Others> = BTreeMap::new();
    for agent in &list.agents {
        let disk = Usable::of(&agent.total_resources, role).disk();
        let amount = |resource| Usable::of(std::slice::from_ref(resource), role).sum(disk.as_ref());
        for resource in agent.allocated_resources.iter().filter(|r| role_of(r) != role) {
            let held = out.entry(role_of(resource).to_owned()).or_default();
            held.used = held.used.plus(amount(resource));
        }
        for resource in agent.offered_resources.iter().filter(|r| role_of(r) != role) {
            let held = out.entry(role_of(resource).to_owned()).or_default();
            held.offered = held.offered.plus(amount(resource));
        }
    }
    out
}

/// The limits that count what this role uses: its own, and those of the roles above it (R132, R133).
fn limits(list: &GetAgents, quota: &QuotaStatus, role: &str) -> Vec<QuotaUse> {
    let above = quota
        .configs
        .iter()
        .filter(|config| is_within(role, &config.role));
    let mut out = Vec::new();
    for config in above {
        let counted = counted(list, &config.role, role);
        out.extend(config.limits.iter().filter_map(|(name, limit)| {
            let (kind, thousandths) = kind_of(name)?;
            Some(QuotaUse {
                role: config.role.clone(),
                kind,
                limit: milli(limit.value) / thousandths,
                counted: counted.get(kind),
            })
        }));
    }
    out
}

/// What counts against the quota of a role, but for what frameworks of `role` could still use: what is
/// offered to them, and what is reserved for them.
fn counted(list: &GetAgents, limited: &str, role: &str) -> Resources {
    let reserved = |resource: &&Resource| {
        let reservation = resource.reservations.last();
        reservation.is_some_and(|r| is_within(r.role(), limited) && !is_within(role, r.role()))
    };
    let mut sum = Resources::ZERO;
    for agent in &list.agents {
        let allocated = || agent.allocated_resources.iter();
        let used = allocated().filter(|r| is_within(role_of(r), limited));
        let offers = agent.offered_resources.iter();
        let offered = offers.filter(|r| role_of(r) != role && is_within(role_of(r), limited));
        let kept = from_scalars(agent.total_resources.iter().filter(reserved));
        let kept_in_use = from_scalars(allocated().filter(reserved));
        sum = sum
            .plus(from_scalars(used))
            .plus(from_scalars(offered))
            .plus(kept.minus(kept_in_use));
    }
    sum
}

/// The role that a resource is used by, or offered to.
fn role_of(resource: &Resource) -> &str {
    resource.allocation_info.as_ref().map_or("", |info| info.role())
}

fn agent(wire: &Wire, role: &str) -> Option<Agent> {
    let info = &wire.agent_info;
    let (of_role, others): (Vec<Resource>, Vec<Resource>) = wire
        .allocated_resources
        .iter()
        .cloned()
        .partition(|r| role_of(r) == role);
    let (offered_of_role, offered): (Vec<Resource>, Vec<Resource>) = wire
        .offered_resources
        .iter()
        .cloned()
        .partition(|r| role_of(r) == role);
    let total = Usable::of(&wire.total_resources, role);
    let disk = total.disk();
    let sum = |resources: &[Resource]| Usable::of(resources, role).sum(disk.as_ref());
    Some(Agent {
        host: HostId::new(&info.id.as_ref()?.value),
        hostname: name(&info.hostname).into(),
        address: address(wire),
        attributes: attributes(&info.attributes, info.domain.as_ref()),
        total: total.sum(disk.as_ref()),
        reserved: total.reserved(disk.as_ref()),
        lent: from_revocable(&wire.total_resources).minus(from_revocable(&others)),
        ports: total.ports(from_ports(&wire.total_resources)),
        others: Others {
            used: sum(&others),
            offered: sum(&offered),
        },
        of_role: sum(&of_role),
        offered_of_role: sum(&offered_of_role),
        disk,
        state: state(wire),
    })
}

/// An agent that is drained is deactivated, too, and one that is deactivated is not active.
fn state(wire: &Wire) -> AgentState {
    match wire.drain_info.as_ref().map(|drain| drain.state()) {
        Some(DrainState::Drained) => AgentState::Drained,
        Some(_) => AgentState::Draining,
        None if wire.deactivated() => AgentState::Deactivated,
        None if !wire.active => AgentState::Disconnected,
        None => AgentState::Active,
    }
}

/// What our role may use of some resources.
struct Usable {
    /// What is not reserved, and volumes on disk that was not.
    unreserved: Resources,
    /// What is reserved for it, and the volumes on that.
    reserved: Vec<ReservedRoom>,
}

impl Usable {
    fn of(resources: &[Resource], role: &str) -> Self {
        let mut out = Self {
            unreserved: from_resources(resources),
            reserved: reserved_room(resources, role),
        };
        for volume in resources.iter().filter_map(|r| reserved(r, role)) {
            let disk = if volume.by.volume().is_some() {
                Some(&mut out.unreserved.disk)
            } else {
                part_of(&mut out.reserved, volume.by).map(|part| &mut part.resources.disk)
            };
            if let Some(disk) = disk {
                *disk = disk.saturating_add(volume.disk);
            }
        }
        out
    }

    /// How the largest part of its disk is reserved. `None`: it is not.
    fn disk(&self) -> Option<Reservations> {
        let largest = self.reserved.iter().max_by_key(|part| part.resources.disk)?;
        (largest.resources.disk > self.unreserved.disk).then(|| largest.by.clone())
    }

    /// What is reserved, and of its disk what is reserved in this way.
    fn reserved(&self, disk: Option<&Reservations>) -> Resources {
        let parts = || self.reserved.iter();
        let all = parts().fold(Resources::ZERO, |sum, part| sum.plus(part.resources));
        let used = parts().find(|part| Some(&part.by) == disk);
        Resources {
            disk: used.map_or(0, |part| part.resources.disk),
            ..all
        }
    }

    /// All of it, and of its disk what is reserved in this way.
    fn sum(&self, disk: Option<&Reservations>) -> Resources {
        let unreserved = Resources {
            disk: if disk.is_none() { self.unreserved.disk } else { 0 },
            ..self.unreserved
        };
        unreserved.plus(self.reserved(disk))
    }

    /// These ports, and those that are reserved.
    fn ports(&self, unreserved: PortSet) -> PortSet {
        let parts = self.reserved.iter().map(|part| &part.ports);
        parts.fold(unreserved, |all, ports| all.union(ports))
    }
}

/// Of `slave(1)@10.0.0.1:5051` what is behind the sign; an agent that tells none is found by its name.
fn address(wire: &Wire) -> String {
    let told = wire.pid().rsplit_once('@').map(|(_, address)| address.to_owned());
    let port = wire.agent_info.port;
    told.or_else(|| port.map(|port| host_port(&wire.agent_info.hostname, port)))
        .unwrap_or_default()
}
