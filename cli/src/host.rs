//! `echelon host ...`

use crate::cluster;
use crate::context::Context;
use crate::exit::Failure;
use crate::output::{self, Listing};
use crate::shape;
use clap::Subcommand;
use echelon_clients_rust::{self as client, v1};

/// Verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List hosts, of all clusters or of one
    List {
        /// Only hosts of this cluster
        #[arg(long)]
        cluster: Option<String>,
        /// At most this many
        #[arg(long, default_value_t = 1000)]
        limit: usize,
    },
    /// Show one host
    Get {
        /// CLUSTER/HOST, the host by its agent id
        host: String,
    },
}

/// Runs a verb.
pub async fn run(command: Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::List { cluster, limit } => list(context, cluster, limit).await,
        Command::Get { host } => get(context, &host).await,
    }
}

async fn list(context: &Context, cluster: Option<String>, limit: usize) -> Result<(), Failure> {
    let client = context.client().await?;
    let mut all = Vec::new();
    for cluster in cluster::one_or_all(&client, cluster).await? {
        let request = v1::ListHostsRequest {
            parent: format!("clusters/{cluster}"),
            ..v1::ListHostsRequest::default()
        };
        all.extend(client::hosts(&client, request, limit.saturating_sub(all.len())).await?);
    }
    let listing = Listing {
        columns: &[
            "CLUSTER",
            "HOST",
            "TASKS",
            "USED",
            "CAPACITY",
            "REACHABLE",
            "SEEN",
            "MAINTENANCE",
            "ID",
            "ADDRESS",
        ],
        narrow: 6,
        rows: all.iter().map(row).collect(),
        names: all
            .iter()
            .map(|h| format!("{}/{}", h.cluster, h.host_id))
            .collect(),
        values: all.iter().map(|h| output::message("Host", h)).collect(),
    };
    print!("{}", output::list(&listing, context.format()));
    Ok(())
}

fn row(h: &v1::Host) -> Vec<String> {
    vec![
        h.cluster.clone(),
        h.hostname.clone(),
        h.tasks.to_string(),
        shape::resources(h.used.as_ref()),
        shape::resources(h.capacity.as_ref()),
        if h.reachable { "yes" } else { "no" }.to_owned(),
        shape::ago(h.seen_time.as_ref()),
        maintenance(h),
        h.host_id.clone(),
        h.address.clone(),
    ]
}

/// From when to when, in UTC.
fn maintenance(h: &v1::Host) -> String {
    let Some(m) = &h.maintenance else {
        return "none".to_owned();
    };
    let start = shape::time(m.start_time.as_ref());
    match &m.end_time {
        Some(end) => format!("{start} to {}", shape::time(Some(end))),
        None => format!("from {start}"),
    }
}

async fn get(context: &Context, host: &str) -> Result<(), Failure> {
    let Some((cluster, id)) = host.split_once('/') else {
        return Err(Failure::wrong(format!(
            "`{host}` is not CLUSTER/HOST; `echelon host list -o name` shows them"
        )));
    };
    let client = context.client().await?;
    let request = v1::GetHostRequest {
        name: format!("clusters/{cluster}/hosts/{id}"),
    };
    let got = client.repeat(|| {
        let (mut service, request) = (client.host_service(), request.clone());
        async move { service.get_host(request).await }
    });
    let h = got.await?.host.unwrap_or_default();
    let attributes: Vec<String> = h.attributes.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let people = format!(
        "host:        {}\ncluster:     {}\nid:          {}\naddress:     {}\ncapacity:    {}\nused:        {}\ntasks:       {}\nreachable:   {}\nseen:        {} ago\nmaintenance: {}\nattributes:  {}\n",
        output::escape(&h.hostname),
        output::escape(&h.cluster),
        output::escape(&h.host_id),
        output::escape(&h.address),
        shape::resources(h.capacity.as_ref()),
        shape::resources(h.used.as_ref()),
        h.tasks,
        if h.reachable { "yes" } else { "no" },
        shape::ago(h.seen_time.as_ref()),
        maintenance(&h),
        output::escape(&attributes.join(" ")),
    );
    print!(
        "{}",
        output::one(
            &output::message("Host", &h),
            &format!("{}/{}", h.cluster, h.host_id),
            &people,
            context.format()
        )
    );
    Ok(())
}
