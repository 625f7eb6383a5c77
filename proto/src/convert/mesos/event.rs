//! Mesos' events in our words. One event of the wire may be several of ours, or none.

use super::amount::from_resources;
use super::status::status_from_wire;
use crate::mesos::v1::scheduler::{Event as Wire, event};
use crate::mesos::v1::{Attribute, Offer as WireOffer, Url, value};
use echelon_core_hosts::{Event, Offer, OfferId, Refusal};
use echelon_core_model::{HostId, Span};
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
        event::Type::Update => wire
            .update
            .iter()
            .map(|u| Event::Update(status_from_wire(&u.status)))
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
    Offer {
        id: OfferId(offer.id.value.as_str().into()),
        host: HostId::new(&offer.agent_id.value),
        hostname: offer.hostname.as_str().into(),
        address: offer.url.as_ref().map(address).unwrap_or_default(),
        resources: from_resources(&offer.resources),
        attributes: attributes(&offer.attributes),
    }
}

/// The IP where both are told: it needs no resolver.
fn address(url: &Url) -> String {
    let known = |text: &Option<String>| text.clone().filter(|t| !t.is_empty());
    let host = known(&url.address.ip)
        .or_else(|| known(&url.address.hostname))
        .unwrap_or_default();
    if host.contains(':') {
        format!("[{host}]:{}", url.address.port)
    } else {
        format!("{host}:{}", url.address.port)
    }
}

/// Attributes as text. Their names need not be unique (R60): several values of a name are joined by a comma.
fn attributes(attributes: &[Attribute]) -> BTreeMap<String, String> {
    let mut out: BTreeMap<String, String> = BTreeMap::new();
    for a in attributes {
        let Some(text) = text(a) else { continue };
        out.entry(a.name.clone())
            .and_modify(|all| {
                all.push(',');
                all.push_str(&text);
            })
            .or_insert(text);
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
