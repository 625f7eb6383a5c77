//! `echelon job endpoints`.

use crate::context::Context;
use crate::exit::Failure;
use crate::output::{self, Listing};
use crate::shape;
use clap::Args;
use echelon_clients_rust::{self as client, v1};

/// Which endpoints.
#[derive(Debug, Args)]
pub struct Filter {
    /// Id or name of the job
    job: String,
    /// Only of this group
    #[arg(long)]
    group: Option<String>,
    /// Only on this cluster
    #[arg(long, default_value = "")]
    cluster: String,
    /// At most this many
    #[arg(long, default_value_t = 10_000)]
    limit: usize,
}

/// Lists where available instances can be reached, in order of group and number.
pub async fn list(context: &Context, filter: Filter) -> Result<(), Failure> {
    let group = filter.group.map(|g| format!("/groups/{g}")).unwrap_or_default();
    let request = v1::ListEndpointsRequest {
        parent: format!("jobs/{}{group}", filter.job),
        cluster: filter.cluster,
        ..v1::ListEndpointsRequest::default()
    };
    let all = client::endpoints(&context.client().await?, request, filter.limit).await?;
    let listing = Listing {
        columns: &[
            "INSTANCE",
            "HOST",
            "PORTS",
            "AVAILABLE FOR",
            "CLUSTER",
            "VERSION",
            "TASK",
        ],
        narrow: 6,
        rows: all.iter().map(row).collect(),
        names: all.iter().map(|e| format!("{}/{}", e.group, e.number)).collect(),
        values: all.iter().map(|e| output::message("Endpoint", e)).collect(),
    };
    print!("{}", output::list(&listing, context.format()));
    if all.iter().any(|e| e.stale) {
        eprintln!("those with a `?` are as last heard: their cluster is silent at the moment");
    }
    Ok(())
}

fn row(e: &v1::Endpoint) -> Vec<String> {
    let doubt = if e.stale { "?" } else { "" };
    vec![
        format!("{}/{}{doubt}", e.group, e.number),
        e.hostname.clone(),
        shape::ports(&e.ports),
        shape::ago(e.since.as_ref()),
        e.cluster.clone(),
        e.spec_version.to_string(),
        e.task_id.clone(),
    ]
}
