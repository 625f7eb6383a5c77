//! The answers of GET_AGENTS, GET_QUOTA and GET_MAINTENANCE_SCHEDULE, as a master writes them in JSON, read
//! as the messages that they are. What we do not use is skipped.

use echelon_core_hosts::Event;
use echelon_proto::convert::mesos::{Beside, agents_from_wire};
use echelon_proto::mesos::v1::domain_info::FaultDomain;
use echelon_proto::mesos::v1::domain_info::fault_domain::{RegionInfo, ZoneInfo};
use echelon_proto::mesos::v1::master::response::{GetAgents, get_agents};
use echelon_proto::mesos::v1::master::{QuotaConfig, QuotaStatus, Schedule, Window};
use echelon_proto::mesos::v1::resource::disk_info::{Persistence, Source};
use echelon_proto::mesos::v1::resource::reservation_info::Type as ReservationType;
use echelon_proto::mesos::v1::resource::{
    AllocationInfo, DiskInfo, ReservationInfo, RevocableInfo, SharedInfo,
};
use echelon_proto::mesos::v1::value::{Range, Ranges, Scalar, Set, Text, Type};
use echelon_proto::mesos::v1::{
    AgentId, AgentInfo, Attribute, DomainInfo, DrainInfo, DrainState, DurationInfo, Label, Labels, MachineId,
    Resource, ResourceProviderId, TimeInfo, Unavailability, Volume,
};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use std::collections::BTreeMap;

/// What a master has answered.
#[derive(Debug, Clone, Default)]
pub struct Answers<B> {
    /// To GET_AGENTS.
    pub agents: B,
    /// To GET_QUOTA, where that was got.
    pub quota: Option<B>,
    /// To GET_MAINTENANCE_SCHEDULE, where that was got.
    pub schedule: Option<B>,
}

/// The list of agents, as a framework of this role sees it, with what is told beside it.
///
/// # Errors
/// What is wrong with the list, for people. What is beside it and cannot be read is not told.
pub fn read<B: AsRef<[u8]>>(answers: &Answers<B>, role: &str) -> Result<Event, String> {
    let answer: Answer = serde_json::from_slice(answers.agents.as_ref()).map_err(|e| e.to_string())?;
    let list = answer.get_agents.ok_or("it has no `get_agents`")?;
    let quota = told::<_, QuotaAnswer>(answers.quota.as_ref());
    let schedule = told::<_, ScheduleAnswer>(answers.schedule.as_ref());
    let beside = Beside {
        quota: quota.map(|answer| answer.get_quota.status.into()),
        schedule: schedule.map(|answer| answer.get_maintenance_schedule.schedule.into()),
    };
    Ok(agents_from_wire(&list.into(), &beside, role))
}

fn told<B: AsRef<[u8]>, T: DeserializeOwned>(body: Option<&B>) -> Option<T> {
    serde_json::from_slice(body?.as_ref()).ok()
}

#[derive(Deserialize)]
struct ScheduleAnswer {
    get_maintenance_schedule: GetSchedule,
}

#[derive(Deserialize)]
struct GetSchedule {
    schedule: Windows,
}

#[derive(Deserialize)]
struct Windows {
    #[serde(default)]
    windows: Vec<PlannedWindow>,
}

#[derive(Deserialize)]
struct PlannedWindow {
    #[serde(default)]
    machine_ids: Vec<Machine>,
    unavailability: Away,
}

#[derive(Deserialize)]
struct Machine {
    hostname: Option<String>,
    ip: Option<String>,
}

#[derive(Deserialize)]
struct Away {
    start: Nanoseconds,
    duration: Option<Nanoseconds>,
}

#[derive(Deserialize)]
struct Nanoseconds {
    nanoseconds: i64,
}

impl From<Windows> for Schedule {
    fn from(all: Windows) -> Self {
        Self {
            windows: all.windows.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<PlannedWindow> for Window {
    fn from(window: PlannedWindow) -> Self {
        let machine = |Machine { hostname, ip }| MachineId { hostname, ip };
        let away = window.unavailability;
        Self {
            machine_ids: window.machine_ids.into_iter().map(machine).collect(),
            unavailability: Unavailability {
                start: TimeInfo {
                    nanoseconds: away.start.nanoseconds,
                },
                duration: away.duration.map(|of| DurationInfo {
                    nanoseconds: of.nanoseconds,
                }),
            },
        }
    }
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
    principal: Option<String>,
    labels: Option<Labelled>,
}

#[derive(Deserialize)]
struct Labelled {
    #[serde(default)]
    labels: Vec<Pair>,
}

#[derive(Deserialize)]
struct Pair {
    key: String,
    value: Option<String>,
}

#[derive(Deserialize)]
struct Disk {
    persistence: Option<Persistent>,
    volume: Option<Mounted>,
    source: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Mounted {
    #[serde(default)]
    container_path: String,
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
                volume: disk.volume.map(|Mounted { container_path }| Volume {
                    container_path,
                    ..Volume::default()
                }),
                source: disk.source.map(|_| Source::default()),
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
            principal: reserved.principal,
            labels: reserved.labels.map(|Labelled { labels }| Labels {
                labels: labels
                    .into_iter()
                    .map(|Pair { key, value }| Label { key, value })
                    .collect(),
            }),
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
