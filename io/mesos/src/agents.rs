//! The answers of GET_AGENTS and GET_QUOTA, as a master writes them in JSON, read as the messages that they are. What we do not
//! use is skipped.

use echelon_core_hosts::Event;
use echelon_proto::convert::mesos::agents_from_wire;
use echelon_proto::mesos::v1::domain_info::FaultDomain;
use echelon_proto::mesos::v1::domain_info::fault_domain::{RegionInfo, ZoneInfo};
use echelon_proto::mesos::v1::master::response::{GetAgents, get_agents};
use echelon_proto::mesos::v1::master::{QuotaConfig, QuotaStatus};
use echelon_proto::mesos::v1::resource::disk_info::{Persistence, Source};
use echelon_proto::mesos::v1::resource::reservation_info::Type as ReservationType;
use echelon_proto::mesos::v1::resource::{
    AllocationInfo, DiskInfo, ReservationInfo, RevocableInfo, SharedInfo,
};
use echelon_proto::mesos::v1::value::{Range, Ranges, Scalar, Set, Text, Type};
use echelon_proto::mesos::v1::{
    AgentId, AgentInfo, Attribute, DomainInfo, DrainInfo, DrainState, Resource, ResourceProviderId,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

/// The list of agents in an answer, as a framework of this role sees it, with the quotas in another one where that was got.
///
/// # Errors
/// What is wrong with the list, for people. Quotas that cannot be read are not told.
pub fn read(body: &[u8], quota: Option<&[u8]>, role: &str) -> Result<Event, String> {
    let answer: Answer = serde_json::from_slice(body).map_err(|e| e.to_string())?;
    let list = answer.get_agents.ok_or("it has no `get_agents`")?;
    let quota = quota.and_then(|body| serde_json::from_slice::<QuotaAnswer>(body).ok());
    let quota = quota.map(|answer| QuotaStatus::from(answer.get_quota.status));
    Ok(agents_from_wire(&list.into(), quota.as_ref(), role))
}

#[derive(Deserialize)]
struct QuotaAnswer {
    get_quota: GetQuota,
}

#[derive(Deserialize)]
struct GetQuota {
    status: Quotas,
}

#[derive(Deserialize)]
struct Quotas {
    #[serde(default)]
    configs: Vec<QuotaOfRole>,
}

#[derive(Deserialize)]
struct QuotaOfRole {
    role: String,
    #[serde(default)]
    limits: BTreeMap<String, Number>,
}

impl From<Quotas> for QuotaStatus {
    fn from(quotas: Quotas) -> Self {
        let limits = |limits: BTreeMap<String, Number>| {
            let limits = limits.into_iter();
            limits
                .map(|(name, limit)| (name, Scalar { value: limit.value }))
                .collect()
        };
        let configs = quotas.configs.into_iter().map(|config| QuotaConfig {
            role: config.role,
            limits: limits(config.limits),
            ..QuotaConfig::default()
        });
        Self {
            configs: configs.collect(),
        }
    }
}

#[derive(Deserialize)]
struct Answer {
    get_agents: Option<List>,
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    agents: Vec<Listed>,
    #[serde(default)]
    recovered_agents: Vec<Info>,
}

#[derive(Deserialize)]
struct Listed {
    agent_info: Info,
    active: bool,
    #[serde(default)]
    deactivated: bool,
    drain_info: Option<Drain>,
    pid: Option<String>,
    #[serde(default)]
    total_resources: Vec<Amount>,
    #[serde(default)]
    allocated_resources: Vec<Amount>,
    #[serde(default)]
    offered_resources: Vec<Amount>,
}

#[derive(Deserialize)]
struct Drain {
    state: String,
}

#[derive(Deserialize)]
struct Info {
    id: Option<Id>,
    #[serde(default)]
    hostname: String,
    port: Option<i32>,
    #[serde(default)]
    attributes: Vec<Named>,
    domain: Option<Domain>,
}

#[derive(Deserialize)]
struct Id {
    value: String,
}

#[derive(Deserialize)]
struct Domain {
    fault_domain: Option<Fault>,
}

#[derive(Deserialize)]
struct Fault {
    region: Name,
    zone: Name,
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

/// An attribute.
#[derive(Deserialize)]
struct Named {
    name: String,
    scalar: Option<Number>,
    ranges: Option<Numbers>,
    set: Option<Items>,
    text: Option<Id>,
}

#[derive(Deserialize)]
struct Number {
    value: f64,
}

#[derive(Deserialize)]
struct Numbers {
    #[serde(default)]
    range: Vec<Ends>,
}

#[derive(Deserialize)]
struct Ends {
    begin: u64,
    end: u64,
}

#[derive(Deserialize)]
struct Items {
    #[serde(default)]
    item: Vec<String>,
}

/// A resource.
#[derive(Deserialize)]
struct Amount {
    name: String,
    scalar: Option<Number>,
    ranges: Option<Numbers>,
    #[serde(default)]
    reservations: Vec<Reserved>,
    disk: Option<Disk>,
    allocation_info: Option<Allocated>,
    revocable: Option<IgnoredAny>,
    shared: Option<IgnoredAny>,
    provider_id: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Reserved {
    #[serde(rename = "type")]
    kind: Option<String>,
    role: Option<String>,
}

#[derive(Deserialize)]
struct Disk {
    persistence: Option<Persistent>,
    source: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Persistent {
    id: String,
}

#[derive(Deserialize)]
struct Allocated {
    role: Option<String>,
}

impl From<List> for GetAgents {
    fn from(list: List) -> Self {
        Self {
            agents: list.agents.into_iter().map(Into::into).collect(),
            recovered_agents: list.recovered_agents.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<Listed> for get_agents::Agent {
    fn from(listed: Listed) -> Self {
        Self {
            agent_info: listed.agent_info.into(),
            active: listed.active,
            deactivated: Some(listed.deactivated),
            drain_info: listed.drain_info.map(Into::into),
            pid: listed.pid,
            total_resources: listed.total_resources.into_iter().map(Into::into).collect(),
            allocated_resources: listed.allocated_resources.into_iter().map(Into::into).collect(),
            offered_resources: listed.offered_resources.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }
}

impl From<Drain> for DrainInfo {
    fn from(drain: Drain) -> Self {
        Self {
            state: DrainState::from_str_name(&drain.state)
                .unwrap_or(DrainState::Unknown)
                .into(),
            ..Self::default()
        }
    }
}

impl From<Info> for AgentInfo {
    fn from(info: Info) -> Self {
        let named = |Name { name }| name;
        let fault = info.domain.and_then(|d| d.fault_domain);
        Self {
            hostname: info.hostname,
            port: info.port,
            resources: Vec::new(),
            attributes: info.attributes.into_iter().map(Into::into).collect(),
            id: info.id.map(|Id { value }| AgentId { value }),
            domain: fault.map(|fault| DomainInfo {
                fault_domain: Some(FaultDomain {
                    region: RegionInfo {
                        name: named(fault.region),
                    },
                    zone: ZoneInfo {
                        name: named(fault.zone),
                    },
                }),
            }),
        }
    }
}

impl From<Named> for Attribute {
    fn from(named: Named) -> Self {
        let kind = match (&named.scalar, &named.ranges, &named.set) {
            (Some(_), ..) => Type::Scalar,
            (_, Some(_), _) => Type::Ranges,
            (.., Some(_)) => Type::Set,
            _ => Type::Text,
        };
        Self {
            name: named.name,
            r#type: kind.into(),
            scalar: named.scalar.map(Into::into),
            ranges: named.ranges.map(Into::into),
            set: named.set.map(|Items { item }| Set { item }),
            text: named.text.map(|Id { value }| Text { value }),
        }
    }
}

impl From<Amount> for Resource {
    fn from(amount: Amount) -> Self {
        Self {
            name: amount.name,
            scalar: amount.scalar.map(Into::into),
            ranges: amount.ranges.map(Into::into),
            reservations: amount.reservations.into_iter().map(Into::into).collect(),
            disk: amount.disk.map(|disk| DiskInfo {
                persistence: disk.persistence.map(|Persistent { id }| Persistence {
                    id,
                    ..Persistence::default()
                }),
                source: disk.source.map(|_| Source::default()),
                ..DiskInfo::default()
            }),
            allocation_info: amount
                .allocation_info
                .map(|Allocated { role }| AllocationInfo { role }),
            revocable: amount.revocable.map(|_| RevocableInfo::default()),
            shared: amount.shared.map(|_| SharedInfo::default()),
            provider_id: amount.provider_id.map(|_| ResourceProviderId::default()),
            ..Self::default()
        }
    }
}

impl From<Reserved> for ReservationInfo {
    fn from(reserved: Reserved) -> Self {
        let kind = reserved.kind.as_deref().and_then(ReservationType::from_str_name);
        Self {
            role: reserved.role,
            r#type: kind.map(Into::into),
            ..Self::default()
        }
    }
}

impl From<Number> for Scalar {
    fn from(Number { value }: Number) -> Self {
        Self { value }
    }
}

impl From<Numbers> for Ranges {
    fn from(numbers: Numbers) -> Self {
        let ends = |Ends { begin, end }| Range { begin, end };
        Self {
            range: numbers.range.into_iter().map(ends).collect(),
        }
    }
}
