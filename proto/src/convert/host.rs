//! Hosts to the public wire.

use super::quantity::{held_by_others, resources, timestamp};
use crate::echelon::v1;
use echelon_core_model::ClusterId;
use echelon_core_model::cluster::Host;
use echelon_core_model::drain::{AgentDrain, HostDrain, Left, Stays};
use echelon_core_model::host_pool::HostMove;
use echelon_core_model::sharing::AgentState;

/// To the wire. `wish` and `to` are what operators want by now; the host tells what its shard has heard.
#[must_use]
pub fn host(
    h: &Host,
    wish: Option<&HostDrain>,
    to: Option<&HostMove>,
    cluster: &ClusterId,
    cluster_name: &str,
) -> v1::Host {
    v1::Host {
        name: format!("clusters/{cluster}/hosts/{}", h.id),
        host_id: h.id.to_string(),
        hostname: h.hostname.clone(),
        address: h.address.clone(),
        capacity: Some(resources(&h.capacity)),
        used: Some(resources(&h.used)),
        tasks: h.tasks,
        attributes: h.attributes.clone(),
        reachable: h.reachable,
        seen_time: Some(timestamp(h.seen_at)),
        cluster_id: cluster.to_string(),
        cluster: cluster_name.to_owned(),
        maintenance: h.maintenance.map(|m| v1::Maintenance {
            start_time: Some(timestamp(m.from)),
            end_time: m.until.map(timestamp),
        }),
        drain: drain(h, wish),
        host_pool: h.place.pool.to_string(),
        r#move: moving(h, to),
        attributes_left_out: h.left_out.attributes,
        volumes_left_out: h.left_out.volumes,
        others: Some(held_by_others(&h.others)),
        agent_state: agent_state(h.agent).into(),
    }
}

const fn agent_state(state: AgentState) -> v1::AgentState {
    match state {
        AgentState::Active => v1::AgentState::Active,
        AgentState::Disconnected => v1::AgentState::Disconnected,
        AgentState::Deactivated => v1::AgentState::Deactivated,
        AgentState::Draining => v1::AgentState::Draining,
        AgentState::Drained => v1::AgentState::Drained,
    }
}

fn moving(h: &Host, wish: Option<&HostMove>) -> Option<v1::HostMove> {
    let wish = wish.filter(|wish| wish.to != h.place.pool);
    let heard = h.place.moving.as_ref();
    let shown = wish.or(heard.map(|m| &m.wish))?;
    Some(v1::HostMove {
        to: shown.to.to_string(),
        batch_until_time: Some(timestamp(shown.batch_until)),
        heard: wish.is_some() && wish == heard.map(|m| &m.wish),
        ending: wish.is_none(),
        left: heard.map_or(&[][..], |m| &m.left).iter().map(left).collect(),
    })
}

fn left(left: &Left) -> v1::HostLeft {
    let why = match left.why {
        Stays::KillsOff => v1::HostLeftWhy::KillsOff,
        Stays::MassLoss => v1::HostLeftWhy::MassLoss,
        Stays::MaxUnavailable => v1::HostLeftWhy::MaxUnavailable,
        Stays::MayEnd => v1::HostLeftWhy::MayEnd,
        Stays::GoesLast => v1::HostLeftWhy::GoesLast,
        Stays::Leaves => v1::HostLeftWhy::Leaves,
    };
    v1::HostLeft {
        why: why.into(),
        job: left.job.to_string(),
        group: left.group.to_string(),
        instances: left.runs,
    }
}

fn drain(h: &Host, wish: Option<&HostDrain>) -> Option<v1::HostDrain> {
    let heard = h.drain.as_ref();
    let shown = wish.or(heard.map(|d| &d.wish))?;
    let agent = heard.map(|d| &d.agent);
    Some(v1::HostDrain {
        batch_until_time: Some(timestamp(shown.batch_until)),
        agent: shown.agent,
        heard: wish.is_some() && wish == heard.map(|d| &d.wish),
        ending: wish.is_none(),
        agent_drained: agent == Some(&AgentDrain::Done),
        agent_refused: match agent {
            Some(AgentDrain::Refused(why)) => why.clone(),
            _ => String::new(),
        },
        left: heard.map_or(&[][..], |d| &d.left).iter().map(left).collect(),
    })
}
