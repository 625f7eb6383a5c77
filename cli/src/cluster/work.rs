//! What a cluster holds: `--plan` of each verb, and `--wait`.

use super::{named, read};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::{self, Listing};
use crate::shape;
use echelon_clients_rust::{Client, v1};
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Groups that a line about progress names.
const NAMED: usize = 3;

/// Shows what a change of a cluster would mean.
pub(super) async fn plan(context: &Context, cluster: v1::Cluster, fields: &[&str]) -> Result<(), Failure> {
    let client = context.client().await?;
    let planned = ask(&client, about(cluster, fields)).await?;
    let desired = named(planned.cluster.clone())?.desired_state();
    let desired = shape::word(desired.as_str_name(), "CLUSTER_DESIRED_STATE_");
    let line = format!("desired:   {desired} (planned, nothing was changed)");
    show_planned(context, &planned, &line)
}

/// Shows what would become of a cluster's work if it were lost now.
pub(super) async fn plan_loss(context: &Context, cluster: &str) -> Result<(), Failure> {
    let client = context.client().await?;
    let request = v1::PlanClusterRequest {
        lost: true,
        ..about(as_it_is(cluster), &[])
    };
    let planned = ask(&client, request).await?;
    show_planned(
        context,
        &planned,
        "lost:      as if it were now (nothing was declared)",
    )
}

/// Shows what would become of a cluster's work if it were removed now without its shard.
pub(super) async fn plan_lost_removal(
    context: &Context,
    cluster: &str,
    accepted_loss: u64,
) -> Result<(), Failure> {
    let client = context.client().await?;
    let removed = v1::Cluster {
        desired_state: v1::ClusterDesiredState::Removing.into(),
        ..as_it_is(cluster)
    };
    let request = v1::PlanClusterRequest {
        lost: true,
        accepted_loss,
        ..about(removed, &["desired_state"])
    };
    let planned = ask(&client, request).await?;
    let line = "desired:   removed without its shard (planned, nothing was changed)";
    show_planned(context, &planned, line)
}

fn show_planned(context: &Context, planned: &v1::PlanClusterResponse, what: &str) -> Result<(), Failure> {
    let shown = named(planned.cluster.clone())?;
    let people = people(&shown, planned, what);
    let value = output::message("PlanClusterResponse", planned);
    output::print(output::one(
        &value,
        &shown.display_name,
        &people,
        context.format(),
    ));
    match planned.problems.first() {
        None => Ok(()),
        Some(_) => Err(Failure::new(
            Exit::Conflict,
            "as things are this would be refused",
        )),
    }
}

/// A question about a cluster with some fields changed.
fn about(cluster: v1::Cluster, fields: &[&str]) -> v1::PlanClusterRequest {
    v1::PlanClusterRequest {
        cluster: Some(cluster),
        update_mask: Some(prost_types::FieldMask {
            paths: fields.iter().map(|&field| field.to_owned()).collect(),
        }),
        lost: false,
        accepted_loss: 0,
    }
}

fn as_it_is(cluster: &str) -> v1::Cluster {
    v1::Cluster {
        name: format!("clusters/{cluster}"),
        ..v1::Cluster::default()
    }
}

async fn ask(client: &Client, request: v1::PlanClusterRequest) -> Result<v1::PlanClusterResponse, Failure> {
    let planned = client.repeat(|| {
        let (mut service, request) = (client.cluster_service(), request.clone());
        async move { service.plan_cluster(request).await }
    });
    Ok(planned.await?)
}

/// What a cluster as it is holds, and what becomes of that.
async fn held(client: &Client, cluster: &str) -> Result<v1::ClusterWork, Failure> {
    let missing = || {
        Failure::new(
            Exit::Failed,
            "the gateway's answer says nothing of the cluster's work",
        )
    };
    let request = about(as_it_is(cluster), &[]);
    ask(client, request).await?.work.ok_or_else(missing)
}

fn people(cluster: &v1::Cluster, planned: &v1::PlanClusterResponse, what: &str) -> String {
    let Some(work) = &planned.work else {
        return "it is not known what the cluster holds\n".to_owned();
    };
    let mut out = format!(
        "cluster:   {}\n{what}\ninstances: {}\n",
        output::escape(&cluster.display_name),
        sums(work),
    );
    if work.victims > 0 {
        out.push_str(&format!(
            "preempted: about {} instances of other work would be stopped for these\n",
            work.victims
        ));
    }
    out.push_str(&format!(
        "waiting:   {} instances of all jobs are assigned to no cluster and may come here\n",
        work.waiting
    ));
    for problem in &planned.problems {
        out.push_str(&format!("refused:   {}\n", output::escape(problem)));
    }
    if !work.groups.is_empty() {
        out.push_str(&output::list(&listing(work), output::Format::Table));
    }
    if work.groups_left_out > 0 {
        out.push_str(&format!("and {} more groups\n", work.groups_left_out));
    }
    out
}

/// `90, of which 88 run; 87 can move now, 3 stay`.
fn sums(work: &v1::ClusterWork) -> String {
    let parts = [
        (work.movable, "can move now"),
        (work.after_preemption, "can once other work has given way"),
        (work.ending, "end"),
        (
            work.given_up,
            "would be given up although their jobs wait, or as daemons",
        ),
        (work.staying, "stay or wait"),
    ];
    let parts = parts.iter().filter(|(n, _)| *n > 0);
    let parts: Vec<String> = parts.map(|(n, what)| format!("{n} {what}")).collect();
    let reported = if work.instances == 0 {
        String::new()
    } else if work.reported {
        format!(", of which {} run", work.running)
    } else {
        ", as assigned: its shard does not report how many run".to_owned()
    };
    let mut out = format!("{}{reported}", work.instances);
    if !parts.is_empty() {
        out.push_str("; ");
        out.push_str(&parts.join(", "));
    }
    if work.results > 0 {
        out.push_str(&format!(
            "; and {} that have ended, of jobs that go on",
            work.results
        ));
    }
    out
}

fn listing(work: &v1::ClusterWork) -> Listing {
    Listing {
        columns: &[
            "JOB",
            "GROUP",
            "KIND",
            "INSTANCES",
            "RUNNING",
            "ENDED",
            "WHAT BECOMES OF IT",
        ],
        narrow: 7,
        rows: work.groups.iter().map(row).collect(),
        names: work
            .groups
            .iter()
            .map(|g| format!("{}/{}", name(g), g.group))
            .collect(),
        values: Vec::new(),
    }
}

/// The name of a group's job, else its id.
fn name(group: &v1::GroupWork) -> &str {
    if group.job.is_empty() {
        &group.job_id
    } else {
        &group.job
    }
}

fn row(group: &v1::GroupWork) -> Vec<String> {
    vec![
        name(group).to_owned(),
        group.group.clone(),
        shape::word(group.kind().as_str_name(), "JOB_KIND_"),
        group.instances.to_string(),
        group.running.to_string(),
        group.results.to_string(),
        departure(group),
    ]
}

fn departure(group: &v1::GroupWork) -> String {
    let why = group.reason.as_ref().map(|reason| reason.message.clone());
    match group.departure() {
        v1::Departure::Unspecified => "unknown".to_owned(),
        v1::Departure::None => "stays".to_owned(),
        v1::Departure::Unselected => "stays; its job would not choose this cluster any more".to_owned(),
        v1::Departure::Ends => "ends".to_owned(),
        v1::Departure::Moves => {
            let moves = match group.after_preemption {
                0 => format!(
                    "{} can move now, at most {} at a time",
                    group.movable, group.at_once
                ),
                more => format!(
                    "{} can move now, {more} once other work has given way",
                    group.movable
                ),
            };
            why.map_or_else(|| moves.clone(), |why| format!("{moves}; the others wait: {why}"))
        }
        v1::Departure::GivenUp => {
            why.map_or_else(|| "is given up".to_owned(), |why| format!("is given up: {why}"))
        }
        v1::Departure::Stays => why.map_or_else(|| "stays".to_owned(), |why| format!("stays: {why}")),
    }
}

/// Waits until nothing but daemons is left at a cluster, and says what stays and why whenever that changes.
pub(super) async fn wait_drained(context: &Context, cluster: &str) -> Result<(), Failure> {
    let client = context.client().await?;
    let mut said = String::new();
    loop {
        let now = read(context, cluster).await?;
        if now.desired_state() != v1::ClusterDesiredState::Draining {
            let what = shape::word(now.desired_state().as_str_name(), "CLUSTER_DESIRED_STATE_");
            let text = format!("cluster {cluster} is not drained any more, it is to be {what}");
            return Err(Failure::new(Exit::Conflict, text));
        }
        let work = held(&client, cluster).await?;
        let text = left(&work);
        if text.is_none() && work.reported {
            output::remark(format_args!("cluster {} is drained", output::escape(cluster)));
            return Ok(());
        }
        let text = text.unwrap_or_else(|| "its shard does not report".to_owned());
        if text != said {
            output::remark(format_args!("{text}"));
            said = text;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// What is left beside daemons, and what that waits for; none: nothing is.
fn left(work: &v1::ClusterWork) -> Option<String> {
    let is_daemon = |group: &&v1::GroupWork| group.kind() == v1::JobKind::Daemon;
    let daemons: u64 = work.groups.iter().filter(is_daemon).map(|g| g.instances).sum();
    let n = work.instances.saturating_sub(daemons);
    if n == 0 && work.groups_left_out == 0 {
        return None;
    }
    let others = work
        .groups
        .iter()
        .filter(|group| !is_daemon(group) && group.instances > 0);
    let named = others.take(NAMED).map(|group| {
        format!(
            "{}/{}: {} ({})",
            output::escape(name(group)),
            output::escape(&group.group),
            group.instances,
            output::escape(&departure(group))
        )
    });
    let named: Vec<String> = named.collect();
    Some(format!("{n} instances are left; {}", named.join("; ")))
}

/// Waits until a cluster is gone, with what was stored of it.
pub(super) async fn wait_removed(context: &Context, removing: &v1::Cluster) -> Result<(), Failure> {
    let client = context.client().await?;
    let mut said = String::new();
    loop {
        let now = read(context, &removing.cluster_id).await?;
        let is_shown = now.heartbeat_time.is_some() || now.health_since.is_some();
        if now.desired_state() == v1::ClusterDesiredState::Removed && !is_shown {
            let name = output::escape(&removing.display_name);
            output::remark(format_args!("cluster {name} is removed"));
            return Ok(());
        }
        let work = held(&client, &removing.cluster_id).await?;
        let text = if work.instances > 0 || work.results > 0 {
            format!(
                "{} instances and {} results of jobs that go on are left",
                work.instances, work.results
            )
        } else if now.removed_as_lost {
            "nothing is left; what is stored of it is about to be deleted".to_owned()
        } else {
            "nothing is left; its shard leaves Mesos and deletes what is stored".to_owned()
        };
        if text != said {
            output::remark(format_args!("{text}"));
            said = text;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
