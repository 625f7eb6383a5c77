//! Hosts to the public wire.

use super::quantity::{resources, timestamp};
use crate::echelon::v1;
use echelon_core_model::ClusterId;
use echelon_core_model::cluster::Host;

/// To the wire.
#[must_use]
pub fn host(h: &Host, cluster: &ClusterId, cluster_name: &str) -> v1::Host {
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
    }
}
