//! The whole federation on one page: all processes are asked side by side, and what does not answer in time
//! is unknown.

mod alarms;

use crate::context::Gateway;
use crate::leaders::LedRole;
use crate::links::Links;
use crate::show::show_cluster;
use echelon_core_gateway::view::Federation;
use echelon_core_gateway::{ApiError, ask, clusters};
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::control::Control;
use echelon_core_model::role_state::{RoleAlarm, RoleStanding, RoleState, ServerContact};
use echelon_io_membership::{MembershipError, Role};
use echelon_proto::convert::quantity::timestamp;
use echelon_proto::echelon::v1;
use futures::StreamExt;
use futures::future::join_all;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long storage and the membership servers may take.
const LIST_WITHIN: Duration = Duration::from_millis(1200);
/// How long a process may take after that: all of it stays below 2.5 s.
const ANSWER_WITHIN: Duration = Duration::from_millis(1200);
/// Roles that are asked at once.
const ROLES_AT_ONCE: usize = 64;
/// Processes of a role that are shown.
const MOST_PROCESSES: usize = 16;

/// What storage says.
pub(crate) struct Stored {
    federation: Federation,
    control: Control,
}

/// One role, and the alarms of its processes.
pub(crate) struct AskedRole {
    shown: v1::RoleStatus,
    alarms: Vec<RoleAlarm>,
}

/// Asks for all of it.
pub(crate) async fn status(gateway: &Gateway) -> v1::Status {
    let (stored, gateways, roles) = tokio::join!(stored(gateway), gateways(gateway), roles(gateway));
    let mut status = v1::Status {
        time: Some(timestamp(gateway.now())),
        roles: vec![gateways],
        ..v1::Status::default()
    };
    let mut told = Vec::new();
    for role in roles {
        told.extend(role.alarms);
        status.roles.push(role.shown);
    }
    match &stored {
        Ok(stored) => status.clusters = shown_clusters(gateway, &stored.federation),
        Err(why) => status.clusters_unknown.clone_from(why),
    }
    let control = stored.as_ref().ok().map(|stored| &stored.control);
    status.alarms = alarms::open(&status, control, told);
    status
}

async fn stored(gateway: &Gateway) -> Result<Stored, String> {
    let reading = async {
        let federation = Federation::read(&gateway.facts).await?;
        let control = ask::control(&gateway.facts).await?;
        Ok::<_, ApiError>(Stored { federation, control })
    };
    match tokio::time::timeout(LIST_WITHIN, reading).await {
        Ok(Ok(stored)) => Ok(stored),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("storage does not answer".to_owned()),
    }
}

fn shown_clusters(gateway: &Gateway, federation: &Federation) -> Vec<v1::Cluster> {
    let present = federation
        .clusters
        .values()
        .filter(|c| c.desired_state != DesiredState::Removed);
    let mut shown: Vec<_> = present
        .map(|cluster| {
            let view = clusters::view(federation, cluster.clone());
            show_cluster(&view, &gateway.leaders, gateway.clock.now())
        })
        .collect();
    shown.sort_by(|a, b| a.display_name.cmp(&b.display_name));
    shown
}

/// This gateway, and the others by their own words.
async fn gateways(gateway: &Gateway) -> v1::RoleStatus {
    let own = process(gateway.address.clone(), &gateway.role_state());
    let mut shown = v1::RoleStatus {
        role: "gateway".to_owned(),
        processes: vec![own],
        ..v1::RoleStatus::default()
    };
    match in_time(gateway.links.membership().members(&Role::Gateway)).await {
        Ok(members) => {
            let others: BTreeSet<_> = members.into_iter().map(|member| member.address).collect();
            let others = others.into_iter().filter(|at| *at != gateway.address);
            let asked = others.take(MOST_PROCESSES);
            let answers = join_all(asked.map(|at| ask_process(&gateway.links, at))).await;
            shown
                .processes
                .extend(answers.into_iter().map(|(process, _)| process));
        }
        Err(why) => shown.unknown = why,
    }
    shown
}

async fn roles(gateway: &Gateway) -> Vec<AskedRole> {
    let roles = gateway.leaders.roles();
    let asked = roles
        .iter()
        .map(|led| ask_role(gateway.links.clone(), led.clone()));
    let asked: Vec<_> = asked.collect();
    let mut asked: Vec<AskedRole> = futures::stream::iter(asked)
        .buffer_unordered(ROLES_AT_ONCE)
        .collect()
        .await;
    asked.sort_by(|a, b| {
        let key = |role: &AskedRole| (role.shown.role.clone(), role.shown.cluster.clone());
        key(a).cmp(&key(b))
    });
    asked
}

async fn ask_role(links: Links, led: LedRole) -> AskedRole {
    let (role, cluster) = match &led.role {
        Role::Shard(_) => ("shard", led.cluster),
        Role::ResourceManager | Role::Gateway => ("resource-manager", String::new()),
    };
    let mut shown = v1::RoleStatus {
        role: role.to_owned(),
        cluster,
        ..v1::RoleStatus::default()
    };
    if let Some(absence) = led.absence {
        shown.absent_since = Some(timestamp(absence.since));
        shown.absent_reason = absence.reason;
    }
    // Without membership the leader that was known last is asked.
    let mut addresses: BTreeSet<String> = led.address.into_iter().collect();
    match in_time(links.membership().candidates(&led.role)).await {
        Ok(all) => addresses.extend(all.into_iter().map(|candidate| candidate.member.address)),
        Err(why) => shown.unknown = why,
    }
    let asked = addresses.into_iter().take(MOST_PROCESSES);
    let answers = join_all(asked.map(|address| ask_process(&links, address))).await;
    let mut alarms = Vec::new();
    for (process, state) in answers {
        alarms.extend(state.into_iter().flat_map(|state| state.alarms));
        shown.processes.push(process);
    }
    shown.processes.sort_by_key(|process| {
        let rank = match process.standing() {
            v1::Standing::Leader | v1::Standing::Frozen => 0,
            v1::Standing::Recovering | v1::Standing::Suspended => 1,
            v1::Standing::Standby | v1::Standing::Serving => 2,
            v1::Standing::Unspecified => 3,
        };
        (rank, process.address.clone())
    });
    AskedRole { shown, alarms }
}

async fn ask_process(links: &Links, address: String) -> (v1::ProcessStatus, Option<RoleState>) {
    let asked = tokio::time::timeout(ANSWER_WITHIN, links.role_state(&address)).await;
    let state = asked.unwrap_or_else(|_| Err("it does not answer".to_owned()));
    match state {
        Ok(state) => (process(address, &state), Some(state)),
        Err(unknown) => {
            let process = v1::ProcessStatus {
                address,
                unknown,
                ..v1::ProcessStatus::default()
            };
            (process, None)
        }
    }
}

fn process(address: String, state: &RoleState) -> v1::ProcessStatus {
    let standing = match state.standing {
        RoleStanding::Standby => v1::Standing::Standby,
        RoleStanding::Recovering => v1::Standing::Recovering,
        RoleStanding::Leader => v1::Standing::Leader,
        RoleStanding::Suspended => v1::Standing::Suspended,
        RoleStanding::Frozen => v1::Standing::Frozen,
        RoleStanding::Serving => v1::Standing::Serving,
    };
    v1::ProcessStatus {
        address,
        standing: standing.into(),
        epoch: state.epoch.0,
        build: state.build.clone(),
        membership: Some(server(&state.membership)),
        storage: Some(server(&state.storage)),
        unknown: String::new(),
    }
}

fn server(contact: &ServerContact) -> v1::ServerStatus {
    match contact {
        ServerContact::Unknown => v1::ServerStatus::default(),
        ServerContact::Connected => v1::ServerStatus {
            reach: v1::Reach::Connected.into(),
            ..v1::ServerStatus::default()
        },
        ServerContact::Silent { since, reason } => v1::ServerStatus {
            reach: v1::Reach::Silent.into(),
            silent_since: Some(timestamp(*since)),
            reason: reason.clone(),
        },
    }
}

/// What the membership servers answer in time.
async fn in_time<T>(asked: impl Future<Output = Result<T, MembershipError>>) -> Result<T, String> {
    match tokio::time::timeout(LIST_WITHIN, asked).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err("the membership servers do not answer".to_owned()),
    }
}
