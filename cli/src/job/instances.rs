//! `echelon job instances`.

use crate::context::Context;
use crate::exit::Failure;
use crate::host;
use crate::output::{self, Listing};
use crate::shape;
use clap::Args;
use echelon_clients_rust::{self as client, Client, v1};

/// Which instances.
#[derive(Debug, Args)]
pub struct Filter {
    /// Id or name of the job
    #[arg(required_unless_present = "host")]
    job: Option<String>,
    /// What runs on this host, CLUSTER/HOST, over all jobs
    #[arg(long, conflicts_with_all = ["job", "state", "cluster", "group"])]
    host: Option<String>,
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

/// States after which an instance has nothing left to do.
const ENDED: [v1::RunState; 5] = [
    v1::RunState::Succeeded,
    v1::RunState::Failed,
    v1::RunState::Killed,
    v1::RunState::Lost,
    v1::RunState::Rejected,
];

/// The wanted states that are over, or the others; all states are wanted when none is named.
fn half(wanted: &[v1::RunState], over: bool) -> Vec<v1::RunState> {
    let all = (1..).map_while(|n| v1::RunState::try_from(n).ok());
    let passes = |s: &v1::RunState| wanted.is_empty() || wanted.contains(s);
    all.filter(|s| ENDED.contains(s) == over && passes(s)).collect()
}

/// Those that have not ended, then the others, in each half in order of group and number.
async fn find(
    client: &Client,
    request: &v1::ListInstancesRequest,
    wanted: &[v1::RunState],
    limit: usize,
) -> Result<client::Found<v1::Instance>, Failure> {
    let mut all = client::Found {
        rows: Vec::new(),
        more: false,
        total: None,
    };
    for over in [false, true] {
        let states = half(wanted, over);
        if states.is_empty() {
            continue;
        }
        let request = v1::ListInstancesRequest {
            states: states.into_iter().map(i32::from).collect(),
            ..request.clone()
        };
        let found = client::instances(client, request, limit.saturating_sub(all.rows.len())).await?;
        // What cannot be read passes both halves.
        let twice = over && wanted_both(wanted);
        let rows = found.rows.into_iter();
        all.rows
            .extend(rows.filter(|i| !twice || i.state() != v1::RunState::Unspecified));
        all.more |= found.more;
    }
    Ok(all)
}

fn wanted_both(wanted: &[v1::RunState]) -> bool {
    [false, true].iter().all(|over| !half(wanted, *over).is_empty())
}

/// How many pass, as the clusters' shards counted last; unknown of one cluster.
async fn count(client: &Client, job: &str, filter: &Filter) -> Result<Option<u64>, Failure> {
    if !filter.cluster.is_empty() {
        return Ok(None);
    }
    let job = client.get_job(job).await?;
    let groups = job.groups.iter();
    let groups = groups.filter(|g| filter.group.as_ref().is_none_or(|wanted| *wanted == g.group));
    let counts = groups.flat_map(|g| &g.counts);
    let wanted = counts.filter(|c| filter.state.is_empty() || filter.state.contains(&c.state()));
    Ok(Some(wanted.map(|c| c.count).sum()))
}

/// Lists instances of a job: those that have not ended first; or what runs on a host.
pub async fn list(context: &Context, filter: Filter) -> Result<(), Failure> {
    if let Some(host) = &filter.host {
        return host::runs::list(context, host, filter.limit).await;
    }
    let Some(job) = &filter.job else {
        return Err(Failure::wrong("name a job, or a host with `--host CLUSTER/HOST`"));
    };
    let group = filter
        .group
        .as_ref()
        .map(|g| format!("/groups/{g}"))
        .unwrap_or_default();
    let request = v1::ListInstancesRequest {
        parent: format!("jobs/{job}{group}"),
        cluster: filter.cluster.clone(),
        ..v1::ListInstancesRequest::default()
    };
    let client = context.client().await?;
    let found = find(&client, &request, &filter.state, filter.limit).await?;
    let all = &found.rows;
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
    output::print(output::list(&listing, context.format()));
    if found.more {
        let total = count(&client, job, &filter).await?;
        let left_out = output::left_out("instances", all.len(), found.more, total);
        left_out.iter().for_each(output::remark);
    }
    let stale = all.iter().filter(|i| i.stale);
    let unconfirmed = shape::unconfirmed_rows(stale.map(|i| (i.cluster.as_str(), i.age.as_ref())));
    unconfirmed
        .iter()
        .map(|text| output::escape(text))
        .for_each(output::remark);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_is_in_one_half() {
        let halves = [half(&[], false), half(&[], true)];
        assert!(halves[0].contains(&v1::RunState::Running) && halves[0].contains(&v1::RunState::Unreachable));
        assert_eq!(halves[1].len(), ENDED.len());
        let all = (1..).map_while(|n| v1::RunState::try_from(n).ok()).count();
        assert_eq!(halves[0].len() + halves[1].len(), all);
        assert_eq!(half(&[v1::RunState::Failed], true), [v1::RunState::Failed]);
        assert!(half(&[v1::RunState::Failed], false).is_empty());
    }
}
