//! All agents of a master in our words. What somebody holds says by its role whose it is: an agent's own figures name no framework.

use super::amount::{from_ports, from_resources, from_revocable, scalar_mib};
use super::event::{attributes, host_port, name};
use crate::mesos::v1::Resource;
use crate::mesos::v1::master::response::GetAgents;
use crate::mesos::v1::master::response::get_agents::Agent as Wire;
use crate::mesos::v1::resource::reservation_info::Type as ReservationType;
use echelon_core_hosts::{Agent, Event};
use echelon_core_model::{HostId, Resources};

/// The list of all agents as somebody of this role sees it. An agent without an id cannot be used and is left out.
#[must_use]
pub fn agents_from_wire(list: &GetAgents, role: &str) -> Event {
    let known = |id: &crate::mesos::v1::AgentId| HostId::new(&id.value);
    Event::Agents {
        agents: list.agents.iter().filter_map(|a| agent(a, role)).collect(),
        awaited: list
            .recovered_agents
            .iter()
            .filter_map(|a| a.id.as_ref().map(known))
            .collect(),
    }
}

fn agent(wire: &Wire, role: &str) -> Option<Agent> {
    let info = &wire.agent_info;
    let (of_role, others): (Vec<Resource>, Vec<Resource>) = wire
        .allocated_resources
        .iter()
        .cloned()
        .partition(|r| r.allocation_info.as_ref().is_some_and(|a| a.role() == role));
    Some(Agent {
        host: HostId::new(&info.id.as_ref()?.value),
        hostname: name(&info.hostname).into(),
        address: address(wire),
        attributes: attributes(&info.attributes, info.domain.as_ref()),
        total: usable(&wire.total_resources, role),
        lent: from_revocable(&wire.total_resources).minus(from_revocable(&others)),
        ports: from_ports(&wire.total_resources),
        others: from_resources(&others),
        of_role: usable(&of_role, role),
        active: wire.active && !wire.deactivated() && wire.drain_info.is_none(),
    })
}

/// What nobody has reserved, and disk that a scheduler reserved for our role, with or without a volume: nothing else of a reservation
/// is ever used.
fn usable(resources: &[Resource], role: &str) -> Resources {
    let ours = resources.iter().filter(|r| is_our_disk(r, role));
    let disk: u64 = ours.flat_map(|r| &r.scalar).map(|s| scalar_mib(s.value)).sum();
    from_resources(resources).plus(Resources {
        disk,
        ..Resources::ZERO
    })
}

fn is_our_disk(resource: &Resource, role: &str) -> bool {
    let [reservation] = resource.reservations.as_slice() else {
        return false;
    };
    let special = resource.revocable.is_some() || resource.shared.is_some() || resource.provider_id.is_some();
    let mounted = resource.disk.as_ref().is_some_and(|d| d.source.is_some());
    resource.name == "disk"
        && !special
        && !mounted
        && reservation.r#type() == ReservationType::Dynamic
        && reservation.role() == role
}

/// Of `slave(1)@10.0.0.1:5051` what is behind the sign; an agent that tells none is found by its name.
fn address(wire: &Wire) -> String {
    let told = wire.pid().rsplit_once('@').map(|(_, address)| address.to_owned());
    let port = wire.agent_info.port;
    told.or_else(|| port.map(|port| host_port(&wire.agent_info.hostname, port)))
        .unwrap_or_default()
}
