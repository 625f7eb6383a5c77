//! `echelon job instances`.

use crate::context::Context;
use crate::exit::Failure;
use crate::output::{self, Listing};
use crate::shape;
use clap::Args;
use echelon_clients_rust::{self as client, v1};

/// Which instances.
#[derive(Debug, Args)]
pub struct Filter {
    /// Id or name of the job
    job: String,
    /// Only in these states: pending, placing, launching, starting, running, unreachable, stopping, succeeded, ...
    #[arg(long, value_delimiter = ',', value_parser = state)]
    state: Vec<v1::RunState>,
    /// Only on this cluster
    #[arg(long, default_value = "")]
    cluster: String,
    /// Only of this group
    #[arg(long)]
    group: Option<String>,
    /// At most this many
    #[arg(long, default_value_t = 10_000)]
    limit: usize,
}

fn state(text: &str) -> Result<v1::RunState, String> {
    let name = format!("RUN_STATE_{}", text.to_uppercase());
    v1::RunState::from_str_name(&name)
        .filter(|s| *s != v1::RunState::Unspecified)
        .ok_or(format!("`{text}` is not a state of an instance"))
}

/// Lists instances in order of group and number.
pub async fn list(context: &Context, filter: Filter) -> Result<(), Failure> {
    let group = filter.group.map(|g| format!("/groups/{g}")).unwrap_or_default();
    let request = v1::ListInstancesRequest {
        parent: format!("jobs/{}{group}", filter.job),
        states: filter.state.into_iter().map(i32::from).collect(),
        cluster: filter.cluster,
        ..v1::ListInstancesRequest::default()
    };
    let all = client::instances(&context.client().await?, request, filter.limit).await?;
    let listing = Listing {
        columns: &[
            "INSTANCE",
            "STATE",
            "CLUSTER",
            "HOST",
            "SINCE",
            "WHY",
            "PORTS",
            "HEALTH",
            "MEMBERS",
            "FAILED RUNS",
            "TASK",
        ],
        narrow: 6,
        rows: all.iter().map(row).collect(),
        names: all.iter().map(|i| format!("{}/{}", i.group, i.number)).collect(),
        values: all.iter().map(|i| output::message("Instance", i)).collect(),
    };
    print!("{}", output::list(&listing, context.format()));
    if all.iter().any(|i| i.stale) {
        eprintln!("states with a `?` are as last heard: their cluster is silent at the moment");
    }
    Ok(())
}

fn row(i: &v1::Instance) -> Vec<String> {
    let run = i.run.clone().unwrap_or_default();
    let doubt = if i.stale { "?" } else { "" };
    vec![
        format!("{}/{}", i.group, i.number),
        format!("{}{doubt}", shape::run_state(i.state())),
        i.cluster.clone(),
        run.hostname,
        shape::ago(i.since.as_ref()),
        shape::reason(i.reason.as_ref()),
        shape::ports(&run.ports),
        shape::health(run.healthy, run.ready),
        shape::members(&run.members),
        i.attempts.to_string(),
        run.task_id,
    ]
}
