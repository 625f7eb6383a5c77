//! `echelon host-pool ...`

mod moves;

use crate::cluster;
use crate::context::Context;
use crate::exit::Failure;
use crate::output::{self, Listing};
use crate::shape;
use clap::Subcommand;
use echelon_clients_rust::{Client, v1};

/// Verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List host pools, of all clusters or of one
    List {
        /// Only host pools of this cluster
        #[arg(long)]
        cluster: Option<String>,
    },
    /// Show one host pool and its hosts
    Get {
        /// CLUSTER/HOST-POOL
        host_pool: String,
    },
    /// Make a host pool, without hosts
    Create {
        /// CLUSTER/HOST-POOL
        host_pool: String,
    },
    /// Delete a host pool that has no hosts
    Delete {
        /// CLUSTER/HOST-POOL
        host_pool: String,
    },
    /// Show which hosts a move would take, and why: `move --plan`
    Plan(moves::Which),
    /// Have hosts go to another host pool: each is left empty within max_unavailable, changes, and takes work again
    Move {
        #[command(flatten)]
        which: moves::Which,
        #[command(flatten)]
        how: moves::How,
    },
    /// Take moves back: hosts that have not changed yet stay where they are
    Undo {
        /// CLUSTER/HOST ..., the hosts by name or agent id
        #[arg(required_unless_present = "to", value_name = "CLUSTER/HOST")]
        hosts: Vec<String>,
        /// And all hosts that are on their way to this host pool
        #[arg(long, value_name = "CLUSTER/HOST-POOL")]
        to: Option<String>,
    },
    /// Hosts that are on their way: how far each is, and what stays there and why
    Moves {
        /// Only hosts of this cluster
        #[arg(long)]
        cluster: Option<String>,
    },
}

/// Runs a verb.
pub async fn run(command: Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::List { cluster } => list(context, cluster).await,
        Command::Get { host_pool } => get(context, &host_pool).await,
        Command::Create { host_pool } => create(context, &host_pool).await,
        Command::Delete { host_pool } => delete(context, &host_pool).await,
        Command::Plan(which) => moves::plan(context, &which).await,
        Command::Move { which, how } => moves::move_hosts(context, &which, how).await,
        Command::Undo { hosts, to } => moves::undo(context, &hosts, to.as_deref()).await,
        Command::Moves { cluster } => moves::moves(context, cluster).await,
    }
}

async fn list(context: &Context, cluster: Option<String>) -> Result<(), Failure> {
    let client = context.client().await?;
    let mut all = Vec::new();
    for cluster in cluster::one_or_all(&client, cluster).await? {
        all.extend(of_cluster(&client, &cluster).await?);
    }
    show(context, &all);
    Ok(())
}

async fn of_cluster(client: &Client, cluster: &str) -> Result<Vec<v1::HostPool>, Failure> {
    let request = v1::ListHostPoolsRequest {
        parent: format!("clusters/{cluster}"),
    };
    let done = client.repeat(|| {
        let (mut service, request) = (client.host_pool_service(), request.clone());
        async move { service.list_host_pools(request).await }
    });
    Ok(done.await?.host_pools)
}

fn show(context: &Context, all: &[v1::HostPool]) {
    let row = |p: &v1::HostPool| {
        vec![
            p.cluster.clone(),
            p.host_pool.clone(),
            p.hosts.to_string(),
            p.unreachable.to_string(),
            p.leaving.to_string(),
            p.coming.to_string(),
            p.tasks.to_string(),
            shape::resources(p.used.as_ref()),
            shape::resources(p.capacity.as_ref()),
        ]
    };
    let listing = Listing {
        columns: &[
            "CLUSTER",
            "HOST POOL",
            "HOSTS",
            "UNREACHABLE",
            "LEAVING",
            "COMING",
            "TASKS",
            "USED",
            "CAPACITY",
        ],
        narrow: 9,
        rows: all.iter().map(row).collect(),
        names: all.iter().map(name).collect(),
        values: all.iter().map(|p| output::message("HostPool", p)).collect(),
    };
    output::print(output::list(&listing, context.format()));
}

fn name(p: &v1::HostPool) -> String {
    format!("{}/{}", p.cluster, p.host_pool)
}

/// The cluster and the host pool that are named.
fn parts_of(host_pool: &str) -> Result<(&str, &str), Failure> {
    match host_pool.split_once('/') {
        Some((cluster, name)) if !cluster.is_empty() && !name.is_empty() => Ok((cluster, name)),
        _ => Err(Failure::wrong(format!(
            "`{host_pool}` is not CLUSTER/HOST-POOL; `echelon host-pool list -o name` shows them"
        ))),
    }
}

async fn get(context: &Context, wanted: &str) -> Result<(), Failure> {
    let (cluster, wanted) = parts_of(wanted)?;
    let client = context.client().await?;
    let all = of_cluster(&client, cluster).await?;
    let Some(p) = all.into_iter().find(|p| p.host_pool == wanted) else {
        return Err(Failure::wrong(format!(
            "cluster `{cluster}` has no host pool `{wanted}`; `echelon host-pool list --cluster {cluster}` shows what there is"
        )));
    };
    let hosts = crate::host::set::hosts_of(&client, cluster).await?;
    let hosts: Vec<String> = hosts
        .into_iter()
        .filter(|h| h.host_pool == p.host_pool)
        .map(|h| output::escape(&h.hostname))
        .collect();
    let mut people = lines(&p);
    people.push_str(&format!("hosts:       {}\n", hosts.join(" ")));
    output::print(output::one(
        &output::message("HostPool", &p),
        &name(&p),
        &people,
        context.format(),
    ));
    Ok(())
}

fn lines(p: &v1::HostPool) -> String {
    format!(
        "host pool:   {}\ncluster:     {}\nhosts:       {}\nunreachable: {}\nleaving:     {}\ncoming:      {}\ntasks:       {}\nused:        {}\ncapacity:    {}\n",
        output::escape(&p.host_pool),
        output::escape(&p.cluster),
        p.hosts,
        p.unreachable,
        p.leaving,
        p.coming,
        p.tasks,
        shape::resources(p.used.as_ref()),
        shape::resources(p.capacity.as_ref()),
    )
}

async fn create(context: &Context, wanted: &str) -> Result<(), Failure> {
    let (cluster, wanted) = parts_of(wanted)?;
    let request = v1::CreateHostPoolRequest {
        parent: format!("clusters/{cluster}"),
        host_pool: wanted.to_owned(),
    };
    let client = context.client().await?;
    let done = client.change(|| {
        let (mut service, request) = (client.host_pool_service(), request.clone());
        async move { service.create_host_pool(request).await }
    });
    let p = done.await?.host_pool.unwrap_or_default();
    output::print(output::one(
        &output::message("HostPool", &p),
        &name(&p),
        &lines(&p),
        context.format(),
    ));
    Ok(())
}

async fn delete(context: &Context, wanted: &str) -> Result<(), Failure> {
    let (cluster, pool) = parts_of(wanted)?;
    let request = v1::DeleteHostPoolRequest {
        name: format!("clusters/{cluster}/hostPools/{pool}"),
    };
    let client = context.client().await?;
    let done = client.change(|| {
        let (mut service, request) = (client.host_pool_service(), request.clone());
        async move { service.delete_host_pool(request).await }
    });
    done.await?;
    output::line(format_args!("host pool {} is deleted", output::escape(wanted)));
    Ok(())
}
