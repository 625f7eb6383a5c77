//! The language of the tests, then cases, then a property against a small model of a master.

mod agents;
mod cases;
mod drains;
mod flags;
mod maintenance;
mod manners;
mod master;
mod ports;
mod reserved;
mod sharing;
mod slack;
mod views;

use crate::{Call, Config, Demand, Event, Hosts, Launch, Need, Offer, OfferId, TaskState, TaskStatus};
use echelon_core_model::runtime::{Port, Runtime};
use echelon_core_model::{
    Generation, HostId, InstanceId, InstanceNumber, JobId, PortSet, Resources, RunNumber, Span, TaskId,
    Timestamp,
};
use echelon_core_testkit::build::{main_group, shape};
use std::collections::BTreeMap;
use std::sync::Arc;

pub fn task(n: u32) -> TaskId {
    TaskId {
        instance: InstanceId {
            job: JobId(1),
            group: main_group(),
            number: InstanceNumber(n),
        },
        generation: Generation(1),
        run: RunNumber(1),
    }
}

pub fn launch(n: u32, resources: Resources) -> Launch {
    Launch {
        task: task(n),
        name: "n".to_owned(),
        discovery: "d".to_owned(),
        runtime: Runtime::shell("true"),
        ports: Vec::new(),
        volume: None,
        resources,
        revocable: Resources::ZERO,
        reserved: Vec::new(),
        grace: Span::seconds(1),
        max_run: None,
        labels: BTreeMap::new(),
        sidecars: Vec::new(),
    }
}

pub fn need(cores: u64, mebibytes: u64) -> Need {
    Need::new(shape(cores, mebibytes), Resources::ZERO, &[])
}

pub fn with_ports(mut launch: Launch, ports: &[u16]) -> Launch {
    let named = |n: &u16| Port {
        name: format!("p{n}"),
        number: *n,
    };
    launch.ports = ports.iter().map(named).collect();
    launch
}

pub fn offer(id: &str, host: &str, resources: Resources) -> Offer {
    Offer {
        id: OfferId(Arc::from(id)),
        host: HostId::new(host),
        hostname: Arc::from(format!("{host}.example")),
        address: format!("{host}.example:5051"),
        resources,
        revocable: Resources::ZERO,
        ports: PortSet::new(),
        attributes: BTreeMap::new(),
        maintenance: None,
        reserved_room: Vec::new(),
        reserved: Vec::new(),
    }
}

pub fn update(n: u32, host: &str, state: TaskState) -> Event {
    Event::Update(TaskStatus {
        task: task(n).to_string(),
        state,
        host: Some(HostId::new(host)),
        uuid: Some([7; 16]),
        source: None,
        reconciliation: false,
        reason: String::new(),
        message: String::new(),
        at: None,
        healthy: None,
        ready: None,
    })
}

pub fn subscribed() -> Event {
    Event::Subscribed {
        framework: "f".to_owned(),
        heartbeat: Span::seconds(15),
        master: None,
    }
}

pub fn disconnected() -> Event {
    Event::Disconnected {
        why: "test".to_owned(),
    }
}

pub fn at(seconds: u64) -> Timestamp {
    Timestamp(1_000_000 + seconds * 1000)
}

/// A subscribed host manager with these offers at second 0.
pub fn with_offers(offers: Vec<Offer>) -> Hosts {
    let mut hosts = Hosts::new(Config::usual());
    hosts.on_event(&subscribed(), at(0));
    hosts.on_event(&Event::Offers(offers), at(0));
    hosts
}

/// Something waits for hosts and placement is not at work, or nothing waits.
pub fn demand(waits: bool) -> Demand {
    if waits {
        Demand::Hosts {
            news: 0,
            placing: false,
        }
    } else {
        Demand::Nothing
    }
}

/// A call in a few words.
pub fn say(calls: &[Call]) -> String {
    let words = calls.iter().map(|c| match c {
        Call::Decline { offers, refuse } => {
            let ids: Vec<&str> = offers.iter().map(|o| &*o.0).collect();
            format!("decline {} {refuse}", ids.join(","))
        }
        Call::Accept { offers, launches, .. } => {
            let ids: Vec<&str> = offers.iter().map(|o| &*o.0).collect();
            format!("accept {} for {}", ids.join(","), launches.len())
        }
        Call::AnswerInverse {
            offers, host, accept, ..
        } => {
            let word = if *accept { "may go" } else { "not yet" };
            format!("{host} {word} ({})", offers.len())
        }
        Call::TearDown => "tear down".to_owned(),
        Call::Revive => "revive".to_owned(),
        Call::Suppress => "suppress".to_owned(),
        Call::DrainAgent { host } => format!("drain {host}"),
        Call::ReactivateAgent { host } => format!("reactivate {host}"),
        Call::ListAgents => "list agents".to_owned(),
        Call::ReadFlags { host, address } => format!("flags of {host} at {address}"),
        other => format!("{other:?}"),
    });
    words.collect::<Vec<_>>().join("; ")
}

pub fn a() -> HostId {
    HostId::new("a")
}

/// The reachable hosts with cores free, used, and in all.
pub fn free(hosts: &Hosts) -> String {
    let views = hosts.views(at(0));
    let show = |v: &echelon_core_model::cluster::HostView| {
        let cores = |r: Resources| r.cpus / 1000;
        format!(
            "{} {}/{}/{}",
            v.id,
            cores(v.free),
            cores(v.used),
            cores(v.capacity)
        )
    };
    views.iter().map(show).collect::<Vec<_>>().join(", ")
}
