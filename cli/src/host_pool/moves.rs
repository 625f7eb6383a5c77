//! `echelon host-pool plan|move|undo|moves`: a plan is made and shown first; what is moved are the hosts of that plan, by name, so that
//! a repeated request moves no others.

use super::parts_of;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::host::set::{hosts_of, hosts_of_all, pair, told};
use crate::host::{LOOK_EVERY, pool, print_all};
use crate::output::{self, Listing};
use crate::shape;
use clap::Args;
use echelon_clients_rust::{Client, v1};
use echelon_core_model::Span;
use echelon_proto::convert::quantity::duration;
use std::collections::{BTreeMap, BTreeSet};

/// Which hosts, and where they are to go.
#[derive(Debug, Clone, Args)]
pub struct Which {
    /// Names or agent ids of hosts of the cluster
    #[arg(value_name = "HOST", conflicts_with_all = ["count", "size"])]
    hosts: Vec<String>,
    /// Of this cluster
    #[arg(long)]
    cluster: String,
    /// From this host pool
    #[arg(long, value_name = "HOST-POOL")]
    from: Option<String>,
    /// To this host pool
    #[arg(long, value_name = "HOST-POOL")]
    to: String,
    /// Only, or with names: and, hosts that have this attribute; said twice, both
    #[arg(long = "where", id = "where", value_name = "ATTRIBUTE=VALUE")]
    attributes: Vec<String>,
    /// So many hosts: those on which the fewest tasks run
    #[arg(long, requires = "from", conflicts_with = "size", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// As many as let --to have so many hosts in the end; repeating it moves no more
    #[arg(long, requires = "from", value_parser = clap::value_parser!(u32).range(1..))]
    size: Option<u32>,
}

/// How they are to go.
#[derive(Debug, Clone, Copy, Args)]
pub struct How {
    /// So long batch instances may end by themselves, like 30m; else they are stopped at once and begin again elsewhere
    #[arg(long, value_parser = crate::quantity::span, value_name = "TIME", default_value = "0s")]
    batch_for: Span,
    /// Only show what would be moved
    #[arg(long, conflicts_with = "wait")]
    plan: bool,
    /// Wait until all of them are there, and tell how far it is
    #[arg(long)]
    wait: bool,
}

async fn ask(client: &Client, which: &Which) -> Result<v1::PlanHostMovesResponse, Failure> {
    let attributes = which.attributes.iter().map(|text| pair(text));
    let request = v1::PlanHostMovesRequest {
        parent: format!("clusters/{}", which.cluster),
        from: which.from.clone().unwrap_or_default(),
        to: which.to.clone(),
        hosts: which.hosts.clone(),
        attributes: attributes.collect::<Result<BTreeMap<_, _>, _>>()?,
        count: which.count.unwrap_or_default(),
        size: which.size.unwrap_or_default(),
    };
    let done = client.repeat(|| {
        let (mut service, request) = (client.host_pool_service(), request.clone());
        async move { service.plan_host_moves(request).await }
    });
    Ok(done.await?)
}

/// Shows which hosts would go.
pub async fn plan(context: &Context, which: &Which) -> Result<(), Failure> {
    let client = context.client().await?;
    let plan = ask(&client, which).await?;
    show_plan(context, which, &plan);
    Ok(())
}

/// Has them go.
pub async fn move_hosts(context: &Context, which: &Which, how: How) -> Result<(), Failure> {
    let client = context.client().await?;
    let plan = ask(&client, which).await?;
    if how.plan {
        show_plan(context, which, &plan);
        return Ok(());
    }
    let chosen = plan.hosts.iter().filter_map(|p| p.host.as_ref());
    let hosts: Vec<String> = chosen.map(|h| h.hostname.clone()).collect();
    if hosts.is_empty() {
        output::remark("no host has to be moved");
        show(context, &[]);
        return Ok(());
    }
    let request = v1::MoveHostsRequest {
        parent: format!("clusters/{}", which.cluster),
        from: which.from.clone().unwrap_or_default(),
        to: which.to.clone(),
        hosts,
        batch_for: Some(duration(how.batch_for)),
    };
    let done = client.change(|| {
        let (mut service, request) = (client.host_pool_service(), request.clone());
        async move { service.move_hosts(request).await }
    });
    let mut all = done.await?.hosts;
    if how.wait {
        all = wait(&client, which, all).await?;
    }
    show(context, &all);
    Ok(())
}

/// Waits until all of them are there, and tells on standard error whenever that has come nearer.
async fn wait(client: &Client, which: &Which, first: Vec<v1::Host>) -> Result<Vec<v1::Host>, Failure> {
    let names: BTreeSet<String> = first.iter().map(|h| h.hostname.clone()).collect();
    let mut said = String::new();
    loop {
        let mut all = hosts_of(client, &which.cluster).await?;
        all.retain(|h| names.contains(&h.hostname));
        let there = all.iter().filter(|h| h.host_pool == which.to).count();
        let now = progress(&all, there, &which.to);
        if now != said {
            output::remark(&now);
            said = now;
        }
        if let Some(h) = all.iter().find(|h| taken_back(h, &which.to)) {
            return Err(Failure::new(
                Exit::Failed,
                format!("the move of host `{}` was taken back", h.hostname),
            ));
        }
        if there == all.len() {
            return Ok(all);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Whether a host is not there, nor on its way there.
fn taken_back(h: &v1::Host, to: &str) -> bool {
    let goes = h.r#move.as_ref().filter(|m| !m.ending);
    h.host_pool != to && goes.is_none_or(|m| m.to != to)
}

/// How many hosts are there, and what is left on the others.
fn progress(hosts: &[v1::Host], there: usize, to: &str) -> String {
    let moving = hosts.iter().filter_map(|h| h.r#move.as_ref());
    let left: u32 = moving.flat_map(|m| &m.left).map(|l| l.instances).sum();
    let rest = match left {
        0 => String::new(),
        n => format!("; {n} instances are left on the others (`echelon host-pool moves` shows why)"),
    };
    format!("{there} of {} hosts are in host pool {to}{rest}", hosts.len())
}

/// Takes moves back.
pub async fn undo(context: &Context, hosts: &[String], to: Option<&str>) -> Result<(), Failure> {
    let mut wanted: BTreeMap<&str, v1::UndoHostMovesRequest> = BTreeMap::new();
    for host in hosts {
        let (cluster, id) = crate::host::parts_of(host)?;
        wanted.entry(cluster).or_default().hosts.push(id.to_owned());
    }
    if let Some(to) = to {
        let (cluster, to) = parts_of(to)?;
        to.clone_into(&mut wanted.entry(cluster).or_default().to);
    }
    let client = context.client().await?;
    let mut all = Vec::new();
    for (cluster, request) in wanted {
        let request = v1::UndoHostMovesRequest {
            parent: format!("clusters/{cluster}"),
            ..request
        };
        let done = client.change(|| {
            let (mut service, request) = (client.host_pool_service(), request.clone());
            async move { service.undo_host_moves(request).await }
        });
        all.extend(done.await?.hosts);
    }
    show(context, &all);
    Ok(())
}

/// All hosts that are on their way.
pub async fn moves(context: &Context, cluster: Option<String>) -> Result<(), Failure> {
    let mut all = hosts_of_all(context, cluster).await?;
    all.retain(|h| h.r#move.is_some());
    show(context, &all);
    Ok(())
}

/// How far a move has come.
fn state(h: &v1::Host) -> &'static str {
    match &h.r#move {
        None => "there",
        Some(m) if m.ending => "ending",
        Some(m) if !m.heard => "asked",
        Some(_) if h.tasks > 0 => "leaving",
        Some(_) => "empty",
    }
}

fn show(context: &Context, all: &[v1::Host]) {
    let left = |h: &v1::Host| told(h.r#move.as_ref().map_or(&[][..], |m| &m.left));
    let row = |h: &v1::Host| {
        vec![
            h.cluster.clone(),
            h.hostname.clone(),
            pool(h),
            state(h).to_owned(),
            h.tasks.to_string(),
            left(h),
        ]
    };
    const COLUMNS: &[&str] = &["CLUSTER", "HOST", "HOST POOL", "MOVE", "TASKS", "LEFT"];
    print_all(context, all, COLUMNS, (6, row));
}

fn show_plan(context: &Context, which: &Which, plan: &v1::PlanHostMovesResponse) {
    let hosts = plan.hosts.iter().filter_map(|p| Some((p, p.host.as_ref()?)));
    let hosts: Vec<(&v1::PlannedHostMove, &v1::Host)> = hosts.collect();
    let row = |(p, h): &(&v1::PlannedHostMove, &v1::Host)| {
        vec![
            h.hostname.clone(),
            h.host_pool.clone(),
            which.to.clone(),
            h.tasks.to_string(),
            shape::resources(h.used.as_ref()),
            p.volumes.to_string(),
            p.why.clone(),
        ]
    };
    let listing = Listing {
        columns: &["HOST", "FROM", "TO", "TASKS", "USED", "VOLUMES", "WHY"],
        narrow: 7,
        rows: hosts.iter().map(row).collect(),
        names: hosts.iter().map(|(_, h)| h.hostname.clone()).collect(),
        values: plan
            .hosts
            .iter()
            .map(|p| output::message("PlannedHostMove", p))
            .collect(),
    };
    output::print(output::list(&listing, context.format()));
    output::remark(remarks(plan).trim_end());
}

/// What a plan does beside that, for people.
fn remarks(plan: &v1::PlanHostMovesResponse) -> String {
    let tasks: u32 = plan
        .hosts
        .iter()
        .filter_map(|p| p.host.as_ref())
        .map(|h| h.tasks)
        .sum();
    let mut out = format!(
        "{} hosts would go; {tasks} tasks on them would be stopped within max_unavailable and begin again elsewhere\n",
        plan.hosts.len()
    );
    if plan.hosts.iter().any(|p| p.volumes > 0) {
        out.push_str(
            "instances that hold a volume there would wait until their host is in their host pool again\n",
        );
    }
    for left in &plan.left_out {
        let named: Vec<String> = left.hostnames.iter().map(|name| output::escape(name)).collect();
        let more = if left.hosts as usize > named.len() {
            " ..."
        } else {
            ""
        };
        out.push_str(&format!(
            "left out: {} hosts {}: {}{more}\n",
            left.hosts,
            left.why,
            named.join(" ")
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, at: &str, to: Option<&str>, left: u32) -> v1::Host {
        let left = v1::HostLeft {
            instances: left,
            ..v1::HostLeft::default()
        };
        v1::Host {
            hostname: name.to_owned(),
            host_pool: at.to_owned(),
            tasks: left.instances,
            r#move: to.map(|to| v1::HostMove {
                to: to.to_owned(),
                heard: true,
                left: vec![left],
                ..v1::HostMove::default()
            }),
            ..v1::Host::default()
        }
    }

    #[test]
    fn progress_counts_hosts_that_are_there_and_what_is_left_on_the_others() {
        let hosts = [host("a", "gpu", None, 0), host("b", "default", Some("gpu"), 3)];
        assert_eq!(
            progress(&hosts, 1, "gpu"),
            "1 of 2 hosts are in host pool gpu; 3 instances are left on the others (`echelon host-pool moves` shows why)"
        );
        assert_eq!((state(&hosts[0]), state(&hosts[1])), ("there", "leaving"));
        assert!(!taken_back(&hosts[0], "gpu") && !taken_back(&hosts[1], "gpu"));
        assert!(taken_back(&host("c", "default", None, 0), "gpu"));
        assert!(taken_back(&host("c", "default", Some("web"), 0), "gpu"));
    }

    #[test]
    fn a_plan_says_what_is_stopped_and_who_is_left_out() {
        let plan = v1::PlanHostMovesResponse {
            hosts: vec![v1::PlannedHostMove {
                host: Some(host("a", "default", None, 2)),
                why: "asked for".to_owned(),
                volumes: 1,
            }],
            left_out: vec![v1::HostsLeftOut {
                why: "are being drained".to_owned(),
                hosts: 2,
                hostnames: vec!["b".to_owned()],
            }],
        };
        assert_eq!(
            remarks(&plan),
            "1 hosts would go; 2 tasks on them would be stopped within max_unavailable and begin again elsewhere\n\
             instances that hold a volume there would wait until their host is in their host pool again\n\
             left out: 2 hosts are being drained: b ...\n"
        );
    }

    #[test]
    fn a_host_pool_is_named_with_its_cluster() {
        assert!(matches!(parts_of("east/gpu"), Ok(("east", "gpu"))));
        for wrong in ["gpu", "/gpu", "east/"] {
            assert!(parts_of(wrong).is_err(), "{wrong}");
        }
    }
}
