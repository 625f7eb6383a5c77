//! `echelon cluster ...`

mod loss;
mod work;

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::host;
use crate::output::{self, Listing};
use crate::shape;
use clap::Subcommand;
use echelon_clients_rust::{self as client, Client, v1};
use echelon_core_model::Span;

/// Verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List clusters
    List {
        /// Also those that were removed
        #[arg(long)]
        all: bool,
    },
    /// Show one cluster, with the first of what is unreachable there
    Get {
        /// Name or id
        cluster: String,
    },
    /// Add a cluster; then start its shards, which wait for it
    Add {
        /// Its name: 1 to 63 characters of a-z, 0-9 and `-`
        name: String,
        /// Set a label: `--label region=eu`; repeat for more
        #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
        labels: Vec<(String, String)>,
        /// Give it no work until `echelon cluster activate`
        #[arg(long)]
        cordoned: bool,
        /// Only show what it would mean
        #[arg(long)]
        plan: bool,
    },
    /// Change its labels, which jobs select and prefer clusters by
    Update {
        /// Name or id
        cluster: String,
        /// Set a label: `--label region=eu`; repeat for more
        #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
        labels: Vec<(String, String)>,
        /// Remove a label; repeat for more
        #[arg(long = "remove-label", value_name = "KEY")]
        removed: Vec<String>,
        /// Only show what it would mean
        #[arg(long)]
        plan: bool,
    },
    /// Give it nothing new; what runs there goes on
    Cordon {
        /// Name or id
        cluster: String,
        /// Only show what it would mean
        #[arg(long)]
        plan: bool,
    },
    /// Move work off, as far as it may run elsewhere; daemons stay on its hosts
    Drain {
        /// Name or id
        cluster: String,
        /// Only show what it would mean: what moves, what stays and why
        #[arg(long, conflicts_with = "wait")]
        plan: bool,
        /// Return when nothing but daemons is left, and show what stays and why meanwhile
        #[arg(long)]
        wait: bool,
    },
    /// Take it into service again
    Activate {
        /// Name or id
        cluster: String,
        /// Only show what it would mean
        #[arg(long)]
        plan: bool,
    },
    /// Remove it for good, once it is drained: daemons end, its shard leaves Mesos and deletes what is stored of it
    Remove {
        /// Name or id
        cluster: String,
        /// Leave persistent volumes on their hosts, unlisted
        #[arg(long)]
        forget_volumes: bool,
        /// It is gone, and no shard of it will report again: remove it without its shard, and give up what it
        /// has. Only after declare-lost
        #[arg(long)]
        lost: bool,
        /// With --lost: give up so many instances at most whose jobs wait for the cluster, or that are of
        /// daemons
        #[arg(long, value_name = "N", requires = "lost", default_value_t)]
        accept_loss_of: u64,
        /// Only show what it would mean, and what is in the way
        #[arg(long, conflicts_with = "wait")]
        plan: bool,
        /// Return when it is gone
        #[arg(long)]
        wait: bool,
    },
    /// Accept that many hosts of a living cluster are gone: you are sure that their tasks do not run any more.
    /// For a whole cluster that is out of reach see declare-lost
    AcceptLoss {
        /// Name or id
        cluster: String,
    },
    /// Declare a whole cluster lost that is cut off or without Mesos: what may be replaced begins elsewhere as
    /// soon as the cluster is barred from starting it, about 70 s after it fell silent. What still runs there is
    /// stopped when the cluster is back. For many hosts of a living cluster see accept-loss
    DeclareLost {
        /// Name or id
        cluster: String,
        /// The number of the silence that is meant, as `cluster get` shows it; the present one if it is
        /// left out
        #[arg(long)]
        silence: Option<u64>,
        /// Only show what would begin elsewhere and what would not, also of a cluster that is well
        #[arg(long, conflicts_with = "silence")]
        plan: bool,
    },
    /// Declare that what runs at a cluster that is cut off or without Mesos is alive: for a time nothing of it is
    /// replaced
    DeclareAlive {
        /// Name or id
        cluster: String,
        /// The number of the silence that is meant, as `cluster get` shows it; the present one if it is
        /// left out
        #[arg(long)]
        silence: Option<u64>,
        /// For how long, 1m to 7d
        #[arg(long = "for", value_name = "TIME", value_parser = crate::quantity::span)]
        alive_for: Span,
    },
}

/// Runs a verb.
pub async fn run(command: Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::List { all } => list(context, all).await,
        Command::Get { cluster } => get(context, &cluster).await,
        Command::Add {
            name,
            labels,
            cordoned,
            plan,
        } => {
            let desired_state = if cordoned {
                v1::ClusterDesiredState::Cordoned
            } else {
                v1::ClusterDesiredState::Active
            };
            let new = v1::Cluster {
                display_name: name,
                desired_state: i32::from(desired_state),
                labels: labels.into_iter().collect(),
                ..v1::Cluster::default()
            };
            if plan {
                return work::plan(context, new, &[]).await;
            }
            add(context, new).await
        }
        Command::Update {
            cluster,
            labels,
            removed,
            plan,
        } => {
            let changed = labelled(context, &cluster, labels, &removed).await?;
            if plan {
                return work::plan(context, changed, &["labels"]).await;
            }
            change(context, changed, "labels").await
        }
        Command::Cordon { cluster, plan } => {
            let cordoned = desiring(&cluster, v1::ClusterDesiredState::Cordoned);
            change_desired_state(context, cordoned, plan).await
        }
        Command::Drain { cluster, plan, wait } => {
            let draining = desiring(&cluster, v1::ClusterDesiredState::Draining);
            change_desired_state(context, draining, plan).await?;
            if wait {
                work::wait_drained(context, &cluster).await?;
            }
            Ok(())
        }
        Command::Activate { cluster, plan } => {
            let active = desiring(&cluster, v1::ClusterDesiredState::Active);
            change_desired_state(context, active, plan).await
        }
        Command::Remove {
            cluster,
            forget_volumes,
            lost,
            accept_loss_of,
            plan,
            wait,
        } => {
            if plan && lost {
                return work::plan_lost_removal(context, &cluster, accept_loss_of).await;
            }
            if plan {
                return work::plan(
                    context,
                    desiring(&cluster, v1::ClusterDesiredState::Removing),
                    &["desired_state"],
                )
                .await;
            }
            let request = v1::RemoveClusterRequest {
                name: format!("clusters/{cluster}"),
                etag: String::new(),
                forget_volumes,
                lost,
                silence: if lost {
                    loss::seen_silence(context, &cluster, None).await?
                } else {
                    0
                },
                accepted_loss: accept_loss_of,
            };
            let removing = remove(context, request).await?;
            if wait {
                work::wait_removed(context, &removing).await?;
            }
            Ok(())
        }
        Command::AcceptLoss { cluster } => loss::accept(context, &cluster).await,
        Command::DeclareLost {
            cluster, plan: true, ..
        } => work::plan_loss(context, &cluster).await,
        Command::DeclareLost { cluster, silence, .. } => loss::declare_lost(context, &cluster, silence).await,
        Command::DeclareAlive {
            cluster,
            silence,
            alive_for,
        } => loss::declare_alive(context, &cluster, silence, alive_for).await,
    }
}

/// The cluster that is named, or the ids of all.
pub(crate) async fn one_or_all(client: &Client, named: Option<String>) -> Result<Vec<String>, Failure> {
    if let Some(one) = named {
        return Ok(vec![one]);
    }
    let all = client::clusters(client, v1::ListClustersRequest::default(), usize::MAX).await?;
    Ok(all.rows.into_iter().map(|c| c.cluster_id).collect())
}

async fn list(context: &Context, with_removed: bool) -> Result<(), Failure> {
    let mut all = client::clusters(
        &context.client().await?,
        v1::ListClustersRequest::default(),
        usize::MAX,
    )
    .await?
    .rows;
    all.retain(|c| with_removed || c.desired_state() != v1::ClusterDesiredState::Removed);
    let listing = Listing {
        columns: &[
            "CLUSTER", "DESIRED", "HEALTH", "SINCE", "CAUSE", "HOSTS", "USED", "CAPACITY", "EPOCH", "SHARD",
            "MESOS",
        ],
        narrow: 8,
        rows: all.iter().map(row).collect(),
        names: all.iter().map(|c| c.display_name.clone()).collect(),
        values: all.iter().map(|c| output::message("Cluster", c)).collect(),
    };
    output::print(output::list(&listing, context.format()));
    for c in all.iter().filter(|c| !c.trouble.is_empty()) {
        output::remark(format_args!(
            "cluster {}: {}",
            output::escape(&c.display_name),
            output::escape(&c.trouble)
        ));
    }
    Ok(())
}

/// Why a cluster is not simply healthy, and since when no resource manager has confirmed that.
pub(crate) fn cause(c: &v1::Cluster) -> String {
    let causes = c.health_causes.iter().map(|cause| cause.sentence.clone());
    let until = c.recovering_until.as_ref();
    let until = until.map(|at| format!("takes work like others from {}", shape::time(Some(at))));
    let unconfirmed = c.health_unconfirmed_since.as_ref();
    let unconfirmed = unconfirmed.map(|since| format!("unconfirmed for {}", shape::ago(Some(since))));
    let all: Vec<String> = causes.chain(until).chain(unconfirmed).collect();
    all.join("; ")
}

/// Its hosts, once its shard has reported, with how old that is where it may be.
pub(crate) fn hosts(c: &v1::Cluster) -> String {
    let count = |_| {
        let age = c
            .stale
            .then(|| format!(", {}", shape::unconfirmed(c.age.as_ref())));
        format!("{}{}", c.hosts, age.unwrap_or_default())
    };
    c.capacity.map_or_else(unknown, count)
}

fn amount(of: Option<&v1::Resources>) -> String {
    of.map_or_else(unknown, |r| shape::resources(Some(r)))
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// How it is, and why; nothing of a cluster that was removed.
fn health(c: &v1::Cluster) -> (String, String) {
    if c.desired_state() == v1::ClusterDesiredState::Removed {
        return (String::new(), String::new());
    }
    (shape::cluster_health(c.health()), cause(c))
}

fn row(c: &v1::Cluster) -> Vec<String> {
    let (health, cause) = health(c);
    vec![
        c.display_name.clone(),
        shape::word(c.desired_state().as_str_name(), "CLUSTER_DESIRED_STATE_"),
        health,
        shape::ago(c.health_since.as_ref()),
        cause,
        hosts(c),
        amount(c.used.as_ref()),
        amount(c.capacity.as_ref()),
        c.shard_epoch.to_string(),
        c.shard_address.clone(),
        c.mesos_address.clone(),
    ]
}

async fn get(context: &Context, cluster: &str) -> Result<(), Failure> {
    let c = read(context, cluster).await?;
    let client = context.client().await?;
    let unreachable = if context.format().is_for_people() {
        host::runs::unreachable(&client, &c.cluster_id).await
    } else {
        String::new()
    };
    print(context, &c, &(text(&c) + &unreachable));
    Ok(())
}

async fn read(context: &Context, cluster: &str) -> Result<v1::Cluster, Failure> {
    let client = context.client().await?;
    let request = v1::GetClusterRequest {
        name: format!("clusters/{cluster}"),
    };
    let got = client.repeat(|| {
        let (mut service, request) = (client.cluster_service(), request.clone());
        async move { service.get_cluster(request).await }
    });
    named(got.await?.cluster)
}

/// The cluster of an answer.
fn named(cluster: Option<v1::Cluster>) -> Result<v1::Cluster, Failure> {
    let missing = || Failure::new(Exit::Failed, "the gateway's answer names no cluster");
    cluster.ok_or_else(missing)
}

fn show(context: &Context, c: &v1::Cluster) {
    print(context, c, &text(c));
}

fn text(c: &v1::Cluster) -> String {
    if c.desired_state() == v1::ClusterDesiredState::Removed {
        let name = output::escape(&c.display_name);
        return format!("cluster:   {name}\ndesired:   removed; it is gone for good\n");
    }
    let mut people = format!(
        "cluster:   {}\ndesired:   {}\nhealth:    {} for {}\n{}hosts:     {}\ncapacity:  {}\nused:      {}\nshard:     {} (epoch {})\nheartbeat: {} ago\nmesos:     {} (last event {} ago)\n",
        output::escape(&c.display_name),
        shape::word(c.desired_state().as_str_name(), "CLUSTER_DESIRED_STATE_"),
        shape::cluster_health(c.health()),
        shape::ago(c.health_since.as_ref()),
        cause_line(c) + &loss::silence(c),
        hosts(c),
        amount(c.capacity.as_ref()),
        amount(c.used.as_ref()),
        output::escape(&c.shard_address),
        c.shard_epoch,
        shape::ago(c.heartbeat_time.as_ref()),
        output::escape(&c.mesos_address),
        shape::ago(c.mesos_event_time.as_ref()),
    );
    for (i, (key, value)) in c.labels.iter().enumerate() {
        let head = if i == 0 { "labels:   " } else { "          " };
        people.push_str(&format!(
            "{head} {}={}\n",
            output::escape(key),
            output::escape(value)
        ));
    }
    people.push_str(&sharing(c));
    if !c.trouble.is_empty() {
        people.push_str(&format!("trouble:   {}\n", output::escape(&c.trouble)));
    }
    if let Some(loss) = &c.loss {
        people.push_str(&loss::of_hosts(loss, &c.display_name));
    }
    people
}

/// What other frameworks of its Mesos hold, and what quota allows.
fn sharing(c: &v1::Cluster) -> String {
    let mut lines = Vec::new();
    for share in &c.other_roles {
        let held = shape::others(share.held.as_ref());
        lines.push(format!("role {}: {held}", output::escape(&share.role)));
    }
    if c.other_roles_left_out > 0 {
        lines.push(format!("{} more roles", c.other_roles_left_out));
    }
    let mut out = headed("others:   ", &lines);
    let limits = c.quota_limits.iter().map(|limit| {
        format!(
            "role {} may have {}, Echelon {} of it",
            output::escape(&limit.role),
            shape::quantity(limit.kind(), limit.limit),
            shape::quantity(limit.kind(), limit.ours),
        )
    });
    out.push_str(&headed("quota:    ", &limits.collect::<Vec<_>>()));
    out
}

/// Lines of which the first one has a head.
fn headed(head: &str, lines: &[String]) -> String {
    let mut out = String::new();
    for (i, line) in lines.iter().enumerate() {
        let head = if i == 0 { head } else { "          " };
        out.push_str(&format!("{head} {line}\n"));
    }
    out
}

fn print(context: &Context, c: &v1::Cluster, people: &str) {
    output::print(output::one(
        &output::message("Cluster", c),
        &c.display_name,
        people,
        context.format(),
    ));
}

fn cause_line(c: &v1::Cluster) -> String {
    let cause = cause(c);
    if cause.is_empty() {
        return cause;
    }
    format!("cause:     {}\n", output::escape(&cause))
}

fn label(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=');
    let pair = pair.filter(|(key, _)| !key.is_empty());
    pair.map(|(key, value)| (key.to_owned(), value.to_owned()))
        .ok_or_else(|| format!("`{text}` is not of the form KEY=VALUE"))
}

async fn add(context: &Context, new: v1::Cluster) -> Result<(), Failure> {
    let client = context.client().await?;
    let request = v1::AddClusterRequest { cluster: Some(new) };
    let added = client.repeat(|| {
        let (mut service, request) = (client.cluster_service(), request.clone());
        async move { service.add_cluster(request).await }
    });
    show(context, &named(added.await?.cluster)?);
    Ok(())
}

/// A cluster with changed labels. The change is based on the labels that were read. Its etag refuses it if
/// another change came in between.
async fn labelled(
    context: &Context,
    cluster: &str,
    labels: Vec<(String, String)>,
    removed: &[String],
) -> Result<v1::Cluster, Failure> {
    if labels.is_empty() && removed.is_empty() {
        return Err(Failure::wrong(
            "nothing is to change: give --label or --remove-label",
        ));
    }
    let seen = read(context, cluster).await?;
    let mut all = seen.labels;
    if let Some(missing) = removed.iter().find(|key| !all.contains_key(*key)) {
        return Err(Failure::wrong(format!(
            "cluster {cluster} has no label `{missing}`"
        )));
    }
    all.retain(|key, _| !removed.contains(key));
    all.extend(labels);
    Ok(v1::Cluster {
        name: format!("clusters/{cluster}"),
        labels: all,
        etag: seen.etag,
        ..v1::Cluster::default()
    })
}

/// A cluster with another desired state.
fn desiring(cluster: &str, desired_state: v1::ClusterDesiredState) -> v1::Cluster {
    v1::Cluster {
        name: format!("clusters/{cluster}"),
        desired_state: i32::from(desired_state),
        ..v1::Cluster::default()
    }
}

async fn change_desired_state(context: &Context, wished: v1::Cluster, plan: bool) -> Result<(), Failure> {
    if plan {
        return work::plan(context, wished, &["desired_state"]).await;
    }
    change(context, wished, "desired_state").await
}

async fn change(context: &Context, changed: v1::Cluster, field: &str) -> Result<(), Failure> {
    let client = context.client().await?;
    let request = v1::UpdateClusterRequest {
        cluster: Some(changed),
        update_mask: Some(prost_types::FieldMask {
            paths: vec![field.to_owned()],
        }),
    };
    let changed = client.change(|| {
        let (mut service, request) = (client.cluster_service(), request.clone());
        async move { service.update_cluster(request).await }
    });
    show(context, &named(changed.await?.cluster)?);
    Ok(())
}

async fn remove(context: &Context, request: v1::RemoveClusterRequest) -> Result<v1::Cluster, Failure> {
    let client = context.client().await?;
    let removing = client.change(|| {
        let (mut service, request) = (client.cluster_service(), request.clone());
        async move { service.remove_cluster(request).await }
    });
    let removing = named(removing.await?.cluster)?;
    show(context, &removing);
    Ok(removing)
}
