//! Mesos' events in our words. One event of the wire may be several of ours, or none.

use super::amount::{from_ports, from_resources, from_revocable};
use super::parts::reserved_room;
use super::reserve::{operation_status, reserved};
use super::status::status_from_wire;
use crate::mesos::v1::scheduler::{Event as Wire, event};
use crate::mesos::v1::{
    Attribute, DomainInfo, InverseOffer as WireInverseOffer, Offer as WireOffer, Unavailability, Url, value,
};
use echelon_core_hosts::{Event, InverseOffer, Offer, OfferId, Refusal};
use echelon_core_model::cluster::Maintenance;
use echelon_core_model::health::MasterId;
use echelon_core_model::{HostId, Span, Timestamp};
use std::collections::BTreeMap;

/// Heartbeats come this often where the master does not say it (R24).
const HEARTBEAT: Span = Span::seconds(15);

/// Our events of one event of the wire.
#[must_use]
pub fn event_from_wire(wire: &Wire) -> Vec<Event> {
    let Ok(kind) = event::Type::try_from(wire.r#type.unwrap_or_default()) else {
        return Vec::new();
    };
    match kind {
        event::Type::Subscribed => wire.subscribed.iter().map(subscribed).collect(),
        event::Type::Offers => wire
            .offers
            .iter()
            .map(|offers| Event::Offers(offers.offers.iter().map(offer).collect()))
            .collect(),
        event::Type::Rescind => wire
            .rescind
            .iter()
            .map(|r| Event::Rescind(OfferId(r.offer_id.value.as_str().into())))
            .collect(),
        event::Type::InverseOffers => wire
            .inverse_offers
            .iter()
            .map(|asked| {
                Event::InverseOffers(asked.inverse_offers.iter().filter_map(inverse_offer).collect())
            })
            .collect(),
        event::Type::RescindInverseOffer => wire
            .rescind_inverse_offer
            .iter()
            .map(|r| Event::RescindInverse(OfferId(r.inverse_offer_id.value.as_str().into())))
            .collect(),
        event::Type::Update => wire
            .update
            .iter()
            .map(|u| Event::Update(status_from_wire(&u.status)))
            .collect(),
        event::Type::UpdateOperationStatus => wire
            .update_operation_status
            .iter()
            .map(|u| Event::Operation(operation_status(&u.status)))
            .collect(),
        event::Type::Failure => wire.failure.iter().map(failure).collect(),
        event::Type::Error => wire.error.iter().map(|e| refused(&e.message)).collect(),
        event::Type::Heartbeat => vec![Event::Heartbeat],
        _ => Vec::new(),
    }
}

fn subscribed(s: &event::Subscribed) -> Event {
    let heartbeat = s.heartbeat_interval_seconds.map_or(HEARTBEAT, span);
    Event::Subscribed {
        framework: s.framework_id.value.clone(),
        heartbeat,
        master: s.master_info.as_ref().map(|info| MasterId::of(&info.id)),
    }
}

fn failure(f: &event::Failure) -> Event {
    Event::Failure {
        host: f.agent_id.as_ref().map(|id| HostId::new(&id.value)),
        executor: f.executor_id.as_ref().map(|id| id.value.clone()),
    }
}

/// An ERROR ends the stream; the only one after SUBSCRIBED means that a newer subscription took over (R28, R38).
fn refused(message: &str) -> Event {
    let says = |text| message.contains(text);
    let cause = if says("failed over") {
        Refusal::Superseded
    } else if says("Framework has been removed") {
        Refusal::Removed
    } else {
        Refusal::Wrong
    };
    Event::Refused {
        message: message.to_owned(),
        cause,
    }
}

fn offer(offer: &WireOffer) -> Offer {
    let role = offer.allocation_info.as_ref().map_or("", |info| info.role());
    Offer {
        id: OfferId(offer.id.value.as_str().into()),
        host: HostId::new(&offer.agent_id.value),
        hostname: name(&offer.hostname).into(),
        address: offer.url.as_ref().map(address).unwrap_or_default(),
        resources: from_resources(&offer.resources),
        reserved_room: reserved_room(&offer.resources, role),
        revocable: from_revocable(&offer.resources),
        ports: from_ports(&offer.resources),
        attributes: attributes(&offer.attributes, offer.domain.as_ref()),
        maintenance: offer.unavailability.as_ref().map(maintenance),
        reserved: offer.resources.iter().filter_map(|r| reserved(r, role)).collect(),
    }
}

/// `None` for one that names no agent: nobody could say what to leave.
fn inverse_offer(asked: &WireInverseOffer) -> Option<InverseOffer> {
    Some(InverseOffer {
        id: OfferId(asked.id.value.as_str().into()),
        host: HostId::new(&asked.agent_id.as_ref()?.value),
        maintenance: maintenance(&asked.unavailability),
    })
}

pub(super) fn maintenance(u: &Unavailability) -> Maintenance {
    let ms = |nanoseconds: i64| u64::try_from(nanoseconds / 1_000_000).unwrap_or(0);
    let from = Timestamp(ms(u.start.nanoseconds));
    Maintenance {
        from,
        until: u.duration.as_ref().map(|d| from.plus(Span(ms(d.nanoseconds)))),
    }
}

/// The IP where both are told: it needs no resolver.
fn address(url: &Url) -> String {
    let known = |text: &Option<String>| text.clone().filter(|t| !t.is_empty());
    let host = known(&url.address.ip)
        .or_else(|| known(&url.address.hostname))
        .unwrap_or_default();
    host_port(&host, url.address.port)
}

/// Longest name of a host; longer ones are cut.
const LONGEST_NAME: usize = 255;

/// A host's name, which Mesos does not bound: it is part of many rows.
pub(super) fn name(told: &str) -> &str {
    told.get(..told.floor_char_boundary(LONGEST_NAME))
        .unwrap_or_default()
}

/// `host:port`, where the host may be an IPv6 address.
pub(super) fn host_port(host: &str, port: i32) -> String {
    let host = name(host);
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// Attributes as text. Their names need not be unique (R60): several values of a name are joined by a comma. Region and zone of the
/// agent's fault domain are there under these names, unless the agent has attributes of these names.
pub(super) fn attributes(told: &[Attribute], domain: Option<&DomainInfo>) -> BTreeMap<String, String> {
    let mut out: BTreeMap<String, String> = BTreeMap::new();
    for a in told {
        let Some(text) = text(a) else { continue };
        out.entry(a.name.clone())
            .and_modify(|all| {
                all.push(',');
                all.push_str(&text);
            })
            .or_insert(text);
    }
    if let Some(domain) = domain.and_then(|d| d.fault_domain.as_ref()) {
        for (name, value) in [("region", &domain.region.name), ("zone", &domain.zone.name)] {
            out.entry(name.to_owned()).or_insert_with(|| value.clone());
        }
    }
    out
}

fn text(a: &Attribute) -> Option<String> {
    match value::Type::try_from(a.r#type).ok()? {
        value::Type::Text => a.text.as_ref().map(|t| t.value.clone()),
        value::Type::Scalar => a.scalar.as_ref().map(|s| s.value.to_string()),
        value::Type::Set => a.set.as_ref().map(|s| s.item.join(",")),
        value::Type::Ranges => a.ranges.as_ref().map(|r| {
            let each = r.range.iter().map(|r| format!("{}-{}", r.begin, r.end));
            each.collect::<Vec<_>>().join(",")
        }),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to an hour before the cast"
)]
fn span(seconds: f64) -> Span {
    if seconds.is_finite() {
        Span((seconds.clamp(0.001, 3600.0) * 1000.0) as u64)
    } else {
        HEARTBEAT
    }
}
