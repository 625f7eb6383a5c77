//! `echelon host drain|undrain` of several hosts, and `echelon host drains`: how far each host is, and what stays there and why.

use super::{LOOK_EVERY, is_over, state};
use crate::cluster;
use crate::context::Context;
use crate::exit::Failure;
use crate::output;
use clap::Args;
use echelon_clients_rust::{self as client, Client, Error, v1};
use echelon_core_model::Span;
use echelon_proto::convert::quantity::duration;
use std::collections::{BTreeMap, BTreeSet};

/// Which hosts.
#[derive(Debug, Clone, Args)]
pub struct Which {
    /// CLUSTER/HOST ..., the hosts by name or agent id
    #[arg(required_unless_present = "where", value_name = "CLUSTER/HOST")]
    pub(super) hosts: Vec<String>,
    /// And all hosts that have this attribute; said twice, both
    #[arg(long = "where", id = "where", value_name = "ATTRIBUTE=VALUE")]
    pub(super) attributes: Vec<String>,
    /// Of `--where`: only hosts of this cluster
    #[arg(long, requires = "where")]
    pub(super) cluster: Option<String>,
}

/// How they are to be left.
#[derive(Debug, Clone, Copy, Args)]
pub struct How {
    /// So long batch instances may end by themselves, like 30m; else they are stopped at once and begin again elsewhere
    #[arg(long, value_parser = crate::quantity::span, value_name = "TIME", default_value = "0s")]
    pub(super) batch_for: Span,
    /// Then have Mesos drain the agents, so that other frameworks leave, too
    #[arg(long)]
    pub(super) agent: bool,
    /// Wait until nothing of ours is left, and tell how far it is
    #[arg(long, conflicts_with = "undo")]
    pub(super) wait: bool,
    /// Only show which hosts these are
    #[arg(long, conflicts_with_all = ["wait", "undo"])]
    pub(super) dry_run: bool,
    /// Take the drain back, as `host undrain` does
    #[arg(long)]
    pub(super) undo: bool,
}

/// The hosts of one cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Set {
    hosts: Vec<String>,
    attributes: BTreeMap<String, String>,
}

/// What is wanted, by cluster; hosts of clusters where only attributes count need not be there.
async fn sets(client: &Client, which: &Which) -> Result<BTreeMap<String, Set>, Failure> {
    let mut out: BTreeMap<String, Set> = BTreeMap::new();
    for host in &which.hosts {
        let (cluster, id) = super::parts_of(host)?;
        out.entry(cluster.to_owned())
            .or_default()
            .hosts
            .push(id.to_owned());
    }
    if which.attributes.is_empty() {
        return Ok(out);
    }
    let attributes = which.attributes.iter().map(|text| pair(text));
    let attributes: BTreeMap<String, String> = attributes.collect::<Result<_, _>>()?;
    for cluster in cluster::one_or_all(client, which.cluster.clone()).await? {
        out.entry(cluster).or_default().attributes.clone_from(&attributes);
    }
    Ok(out)
}

pub(crate) fn pair(text: &str) -> Result<(String, String), Failure> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(Failure::wrong(format!(
            "`--where {text}`: write attribute=value; `echelon host get` shows a host's attributes"
        ))),
    }
}

/// Drains the hosts: all of them are looked up before the first is.
pub async fn drain(context: &Context, which: &Which, how: How) -> Result<(), Failure> {
    let client = context.client().await?;
    let mut wanted = Vec::new();
    let mut missing = None;
    for (cluster, set) in sets(&client, which).await? {
        let request = v1::DrainHostsRequest {
            parent: format!("clusters/{cluster}"),
            hosts: set.hosts.clone(),
            attributes: set.attributes,
            batch_for: Some(duration(how.batch_for)),
            agent: how.agent,
            validate_only: true,
        };
        match send(&client, request.clone()).await {
            Ok(hosts) => wanted.push((request, hosts)),
            // A cluster without such hosts is not meant, unless it was named.
            Err(error) if set.hosts.is_empty() && error.code() == tonic::Code::NotFound => {
                missing = Some(error);
            }
            Err(error) => return Err(error.into()),
        }
    }
    if let (true, Some(error)) = (wanted.is_empty(), missing) {
        return Err(error.into());
    }
    let mut all = Vec::new();
    for (request, seen) in wanted {
        let request = v1::DrainHostsRequest {
            validate_only: false,
            ..request
        };
        all.extend(if how.dry_run {
            seen
        } else {
            send(&client, request).await?
        });
    }
    if how.wait {
        all = wait(&client, all).await?;
    }
    show(context, &all);
    Ok(())
}

async fn send(client: &Client, request: v1::DrainHostsRequest) -> Result<Vec<v1::Host>, Error> {
    let done = client.change(|| {
        let (mut service, request) = (client.host_service(), request.clone());
        async move { service.drain_hosts(request).await }
    });
    Ok(done.await?.hosts)
}

/// Takes the drains back. Clusters without such hosts are passed over, unless they were named.
pub async fn undrain(context: &Context, which: &Which) -> Result<(), Failure> {
    let client = context.client().await?;
    let (mut all, mut any, mut missing) = (Vec::new(), false, None);
    for (cluster, set) in sets(&client, which).await? {
        let request = v1::UndrainHostsRequest {
            parent: format!("clusters/{cluster}"),
            hosts: set.hosts.clone(),
            attributes: set.attributes,
        };
        let done = client.change(|| {
            let (mut service, request) = (client.host_service(), request.clone());
            async move { service.undrain_hosts(request).await }
        });
        match done.await {
            Ok(answer) => {
                any = true;
                all.extend(answer.hosts);
            }
            Err(error) if set.hosts.is_empty() && error.code() == tonic::Code::NotFound => {
                missing = Some(error);
            }
            Err(error) => return Err(error.into()),
        }
    }
    if let (false, Some(error)) = (any, missing) {
        return Err(error.into());
    }
    show(context, &all);
    Ok(())
}

/// All hosts that are to be empty.
pub async fn drains(context: &Context, cluster: Option<String>) -> Result<(), Failure> {
    let mut all = hosts_of_all(context, cluster).await?;
    all.retain(|h| h.drain.is_some());
    show(context, &all);
    Ok(())
}

/// The hosts of a cluster, or of all.
pub(crate) async fn hosts_of_all(
    context: &Context,
    cluster: Option<String>,
) -> Result<Vec<v1::Host>, Failure> {
    let client = context.client().await?;
    let mut all = Vec::new();
    for cluster in cluster::one_or_all(&client, cluster).await? {
        all.extend(hosts_of(&client, &cluster).await?);
    }
    Ok(all)
}

pub(crate) async fn hosts_of(client: &Client, cluster: &str) -> Result<Vec<v1::Host>, Failure> {
    let request = v1::ListHostsRequest {
        parent: format!("clusters/{cluster}"),
        ..v1::ListHostsRequest::default()
    };
    Ok(client::hosts(client, request, usize::MAX).await?.rows)
}

/// Waits until nothing is left on any of them, and tells on standard error whenever that has come nearer.
async fn wait(client: &Client, first: Vec<v1::Host>) -> Result<Vec<v1::Host>, Failure> {
    let names: BTreeSet<String> = first.iter().map(|h| h.name.clone()).collect();
    let clusters: BTreeSet<String> = first.iter().map(|h| h.cluster_id.clone()).collect();
    let (mut all, mut told) = (first, String::new());
    loop {
        let over: Vec<bool> = all.iter().map(is_over).collect::<Result<_, _>>()?;
        let now = progress(&all, over.iter().filter(|over| **over).count());
        if now != told {
            output::remark(&now);
            told = now;
        }
        if over.iter().all(|over| *over) {
            return Ok(all);
        }
        tokio::time::sleep(LOOK_EVERY).await;
        all.clear();
        for cluster in &clusters {
            all.extend(hosts_of(client, cluster).await?);
        }
        all.retain(|h| names.contains(&h.name));
    }
}

/// How many hosts are empty, and what the others wait for: `3 of 10 hosts are empty; ...`.
fn progress(hosts: &[v1::Host], n_over: usize) -> String {
    let mut waits: BTreeMap<&str, (u32, BTreeSet<&str>)> = BTreeMap::new();
    let left = hosts.iter().filter_map(|h| Some((h, h.drain.as_ref()?)));
    for (host, left) in left.flat_map(|(h, d)| d.left.iter().map(move |left| (h, left))) {
        let (n, on) = waits.entry(why(left.why())).or_default();
        *n += left.instances;
        on.insert(&host.name);
    }
    let waits = waits.into_iter().map(|(why, (n, on))| {
        let hosts = on.len();
        format!("; {n} instances on {hosts} hosts {why}")
    });
    format!(
        "{n_over} of {} hosts are empty{}",
        hosts.len(),
        waits.collect::<String>()
    )
}

/// Why instances are there, after "instances".
const fn why(why: v1::HostLeftWhy) -> &'static str {
    match why {
        v1::HostLeftWhy::KillsOff => "stay: kills are switched off",
        v1::HostLeftWhy::MassLoss => "stay: their cluster waits for a loss to be accepted",
        v1::HostLeftWhy::MaxUnavailable => "wait for their job's max_unavailable",
        v1::HostLeftWhy::MayEnd => "may end by themselves",
        v1::HostLeftWhy::GoesLast => "go when all others have gone",
        v1::HostLeftWhy::Leaves | v1::HostLeftWhy::Unspecified => "are leaving",
    }
}

/// Why instances that are left on a host are there.
pub(crate) fn told(left: &[v1::HostLeft]) -> String {
    let one = |l: &v1::HostLeft| format!("{}/{} {} {}", l.job, l.group, l.instances, why(l.why()));
    left.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Of one host: `web/main 2 wait for their job's max_unavailable`.
pub(super) fn left(h: &v1::Host) -> String {
    told(h.drain.as_ref().map_or(&[][..], |d| &d.left))
}

fn show(context: &Context, all: &[v1::Host]) {
    let row = |h: &v1::Host| {
        vec![
            h.cluster.clone(),
            h.hostname.clone(),
            state(h),
            h.tasks.to_string(),
            left(h),
        ]
    };
    super::print_all(
        context,
        all,
        &["CLUSTER", "HOST", "DRAIN", "TASKS", "LEFT"],
        (5, row),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, left: &[(v1::HostLeftWhy, u32)]) -> v1::Host {
        let left = left.iter().map(|(why, instances)| v1::HostLeft {
            why: (*why).into(),
            job: "j".into(),
            group: "main".into(),
            instances: *instances,
        });
        v1::Host {
            name: name.into(),
            drain: Some(v1::HostDrain {
                left: left.collect(),
                ..v1::HostDrain::default()
            }),
            ..v1::Host::default()
        }
    }

    #[test]
    fn progress_counts_hosts_and_says_what_waits_and_why() {
        use v1::HostLeftWhy::{Leaves, MaxUnavailable};
        let hosts = [
            host("a", &[]),
            host("b", &[(MaxUnavailable, 2), (Leaves, 1)]),
            host("c", &[(MaxUnavailable, 3)]),
        ];
        assert_eq!(
            progress(&hosts, 1),
            "1 of 3 hosts are empty; 1 instances on 1 hosts are leaving; 5 instances on 2 hosts wait for their job's max_unavailable"
        );
        assert_eq!(
            left(&hosts[1]),
            "j/main 2 wait for their job's max_unavailable; j/main 1 are leaving"
        );
        assert_eq!(left(&hosts[0]), "");
    }

    #[test]
    fn attributes_are_pairs() {
        assert_eq!(pair("rack=a=b").unwrap(), ("rack".to_owned(), "a=b".to_owned()));
        for wrong in ["rack", "=a", "rack="] {
            assert!(pair(wrong).is_err(), "{wrong}");
        }
    }
}
