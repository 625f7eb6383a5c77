//! `echelon pool ...`

mod apply;
mod certify;
mod explain;
mod file;
pub mod left_out;
mod lent;
pub mod record;
mod simulate;
pub mod trace;
mod usage;

use crate::context::Context;
use crate::exit::Failure;
use crate::output::{self, Listing};
use crate::{quantity, shape};
use clap::{Args, Subcommand};
use echelon_clients_rust::{self as client, v1};
use echelon_core_model::pool::{PoolKind, PreemptWithin};
use echelon_core_model::resources::Kind;
use echelon_core_model::time::Span;
use echelon_proto::convert::Problems;
use echelon_proto::convert::pool::{kind as pool_kind, preempt_within as within_on_wire};
use echelon_proto::convert::spec::{read_silence, silence};
use std::path::PathBuf;

/// Verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a pool
    Create {
        /// Path: /ml or /ml/training
        path: String,
        #[command(flatten)]
        amounts: Box<Amounts>,
    },
    /// Show one pool
    Get {
        /// Path
        path: String,
    },
    /// List pools
    List,
    /// Change what is named, keep the rest
    Update {
        /// Path
        path: String,
        #[command(flatten)]
        amounts: Box<Amounts>,
        /// Only if nobody changed it since
        #[arg(long, default_value = "")]
        etag: String,
    },
    /// Replace the whole tree by that of a file, at once
    Apply {
        /// YAML file, `-` for standard input
        file: PathBuf,
        /// Only tell what would change, and who would gain and lose now
        #[arg(long)]
        plan: bool,
        /// Only if the tree is still the one that a plan told of
        #[arg(long, default_value = "")]
        etag: String,
    },
    /// Show what pools want, use and are entitled to now
    Usage {
        /// This pool and those below it; all when it is left out
        path: Option<String>,
    },
    /// Tell step by step where a pool's entitlement comes from
    Explain {
        /// Path
        path: String,
    },
    /// Check here, without believing anybody, that the resource manager divides fairly; exit code 1 if it does not
    Certify,
    /// Write a trace of what was asked for and when it ran to the standard output, for `simulate`
    Record {
        /// How long to rest after each call
        #[arg(long, default_value = "10ms", value_parser = quantity::span, value_name = "TIME")]
        rest: Span,
    },
    /// Tell how long jobs of a trace would have waited under other trees or with other capacity
    Simulate(simulate::Simulate),
    /// Delete a pool; one that has jobs takes no new ones and goes when its last one has ended
    Delete {
        /// Path
        path: String,
        /// Only if nobody changed it since
        #[arg(long, default_value = "")]
        etag: String,
    },
    /// Keep a pool that is being deleted
    Undelete {
        /// Path
        path: String,
        /// Only if nobody changed it since
        #[arg(long, default_value = "")]
        etag: String,
    },
}

/// What becomes of a pool's unused reservation, and that it is to go.
fn kind_text(pool: &v1::Pool) -> String {
    let kind = kind_word(pool.kind());
    if pool.deleting {
        format!("{kind}, deleting")
    } else {
        kind.to_owned()
    }
}

/// Amounts of a pool, written `cpus=4,memory=8GiB,disk=100GiB,gpus=1`.
#[derive(Debug, Args)]
pub struct Amounts {
    /// What it gets first
    #[arg(long, value_parser = amounts, value_name = "KIND=AMOUNT,...")]
    reservation: Option<v1::ResourceLimit>,
    /// What it never exceeds; a kind that is not named has no limit
    #[arg(long, value_parser = amounts, value_name = "KIND=AMOUNT,...")]
    limit: Option<v1::ResourceLimit>,
    /// Its weight when what is left is shared
    #[arg(long, value_name = "N")]
    share: Option<u64>,
    /// elastic (others may use what it has reserved and does not want) or static (it keeps it)
    #[arg(long, value_parser = kind, value_name = "KIND")]
    kind: Option<v1::PoolKind>,
    /// The most that one instance may ask for, its sidecars included
    #[arg(long, value_parser = amounts, value_name = "KIND=AMOUNT,...")]
    max_instance: Option<v1::ResourceLimit>,
    /// Which priorities its jobs may have: `min=0,max=9,default=3`; what is not named is no bound
    #[arg(long, value_parser = bounds, value_name = "BOUND=N,...")]
    priority: Option<v1::PriorityBounds>,
    /// What its controllers, jobs that start others, never exceed together; a kind that is not named has no limit
    #[arg(long, value_parser = amounts, value_name = "KIND=AMOUNT,...")]
    controller_limit: Option<v1::ResourceLimit>,
    /// What its revocable jobs never exceed of the room that hosts lend; a kind that is not named has no limit
    #[arg(long, value_parser = amounts, value_name = "KIND=AMOUNT,...")]
    revocable_limit: Option<v1::ResourceLimit>,
    /// Most jobs of which something has begun, `none` for no bound; further ones wait
    #[arg(long, value_parser = most, value_name = "N")]
    max_jobs: Option<Most>,
    /// Most active instances, `none` for no bound; further ones wait
    #[arg(long, value_parser = most, value_name = "N")]
    max_instances: Option<Most>,
    /// Whether, among jobs of equal priority, the owner who has least of the pool goes first
    #[arg(long, value_name = "true|false")]
    fair_users: Option<bool>,
    /// Whether work of it may be preempted for work of it with higher priority: never, lower_priority, or auto (if priorities are
    /// bounded)
    #[arg(long, value_parser = preempt_within, value_name = "WORD")]
    preempt_within: Option<v1::PreemptWithin>,
    /// What becomes of instances at a silent cluster where a batch job or service does not say it:
    /// `wait`, `replace after 15m`, or `default` (as the pool above says)
    #[arg(long, value_parser = loss_default, value_name = "WORDS")]
    on_cluster_loss: Option<LossDefault>,
}

/// A bound on a number of things, or that there is none.
#[derive(Debug, Clone, Copy)]
struct Most(Option<u64>);

fn most(text: &str) -> Result<Most, String> {
    match text {
        "none" => Ok(Most(None)),
        n => n
            .parse()
            .map(|n| Most(Some(n)))
            .map_err(|_| format!("`{n}` is neither a whole number nor none")),
    }
}

/// What a pool says of silent clusters; none: nothing.
#[derive(Debug, Clone, Copy)]
struct LossDefault(Option<v1::OnSilence>);

fn loss_default(text: &str) -> Result<LossDefault, String> {
    file::loss_default(text).map(|on| LossDefault(on.map(silence)))
}

/// The same for people.
fn loss_text(on: Option<v1::OnSilence>) -> String {
    let on = read_silence(on, "on_cluster_loss", &mut Problems::default());
    on.map_or_else(|| "default".to_owned(), |on| on.to_string())
}

/// The same for people.
fn most_text(most: Option<u64>) -> String {
    most.map_or("none".to_owned(), |n| n.to_string())
}

fn bounds(text: &str) -> Result<v1::PriorityBounds, String> {
    let mut out: v1::PriorityBounds = Default::default();
    for part in text.split(',').filter(|p| !p.is_empty()) {
        let (name, n) = part.split_once('=').ok_or(format!("`{part}` is not BOUND=N"))?;
        let n = Some(
            n.parse()
                .map_err(|_| format!("`{n}` is not a priority: write a whole number"))?,
        );
        match name {
            "min" => out.min = n,
            "max" => out.max = n,
            "default" => out.default = n,
            _ => {
                return Err(format!(
                    "`{name}` is no bound of priority: use min, max or default"
                ));
            }
        }
    }
    Ok(out)
}

/// Bounds of priority for people.
fn bounds_text(bounds: Option<v1::PriorityBounds>) -> String {
    let b = bounds.unwrap_or_default();
    let named = [("min", b.min), ("max", b.max), ("default", b.default)];
    let told: Vec<String> = named
        .into_iter()
        .filter_map(|(name, n)| Some(format!("{name} {}", n?)))
        .collect();
    if told.is_empty() {
        "any".to_owned()
    } else {
        told.join(", ")
    }
}

fn kind(text: &str) -> Result<v1::PoolKind, String> {
    let known = PoolKind::ALL.into_iter().find(|k| k.word() == text);
    known
        .map(pool_kind)
        .ok_or_else(|| format!("`{text}` is neither elastic nor static"))
}

fn preempt_within(text: &str) -> Result<v1::PreemptWithin, String> {
    let known = PreemptWithin::ALL.into_iter().find(|w| w.word() == text);
    known
        .map(within_on_wire)
        .ok_or_else(|| format!("`{text}` is neither auto, never nor lower_priority"))
}

/// The word of files and commands.
fn within_word(within: v1::PreemptWithin) -> &'static str {
    match within {
        v1::PreemptWithin::Unspecified => PreemptWithin::Auto.word(),
        v1::PreemptWithin::Never => PreemptWithin::Never.word(),
        v1::PreemptWithin::LowerPriority => PreemptWithin::LowerPriority.word(),
    }
}

fn amounts(text: &str) -> Result<v1::ResourceLimit, String> {
    let mut out = v1::ResourceLimit::default();
    for part in text.split(',').filter(|p| !p.is_empty()) {
        let (kind, amount) = part
            .split_once('=')
            .ok_or(format!("`{part}` is not KIND=AMOUNT"))?;
        match kind {
            "cpus" => out.cpus_milli = Some(quantity::thousandths(amount)?),
            "gpus" => out.gpus_milli = Some(quantity::thousandths(amount)?),
            "memory" => out.memory_mib = Some(quantity::mebibytes(amount)?),
            "disk" => out.disk_mib = Some(quantity::mebibytes(amount)?),
            _ => {
                return Err(format!(
                    "`{kind}` is not a kind of resource: use cpus, memory, disk or gpus"
                ));
            }
        }
    }
    Ok(out)
}

impl Amounts {
    fn mask(&self) -> Vec<String> {
        let named = [
            ("reservation", self.reservation.is_some()),
            ("limit", self.limit.is_some()),
            ("share", self.share.is_some()),
            ("kind", self.kind.is_some()),
            ("max_instance", self.max_instance.is_some()),
            ("priority", self.priority.is_some()),
            ("controller_limit", self.controller_limit.is_some()),
            ("revocable_limit", self.revocable_limit.is_some()),
            ("fair_users", self.fair_users.is_some()),
            ("preempt_within", self.preempt_within.is_some()),
            ("on_cluster_loss", self.on_cluster_loss.is_some()),
            ("max_jobs", self.max_jobs.is_some()),
            ("max_instances", self.max_instances.is_some()),
        ];
        named
            .into_iter()
            .filter(|(_, is)| *is)
            .map(|(name, _)| name.to_owned())
            .collect()
    }

    fn pool(self, path: &str, etag: String) -> v1::Pool {
        let all = |n: u64| v1::Resources {
            cpus_milli: n,
            memory_mib: n,
            disk_mib: n,
            gpus_milli: n,
        };
        v1::Pool {
            name: name_of(path),
            path: path.to_owned(),
            reservation: self.reservation.map(|r| v1::Resources {
                cpus_milli: r.cpus_milli(),
                memory_mib: r.memory_mib(),
                disk_mib: r.disk_mib(),
                gpus_milli: r.gpus_milli(),
            }),
            limit: self.limit,
            share: self.share.map(all),
            kind: self.kind.unwrap_or_default().into(),
            max_instance: self.max_instance,
            priority: self.priority,
            controller_limit: self.controller_limit,
            revocable_limit: self.revocable_limit,
            fair_users: self.fair_users.unwrap_or_default(),
            preempt_within: self.preempt_within.unwrap_or_default().into(),
            on_cluster_loss: self.on_cluster_loss.and_then(|on| on.0),
            max_jobs: self.max_jobs.and_then(|most| most.0),
            max_instances: self.max_instances.and_then(|most| most.0),
            etag,
            ..v1::Pool::default()
        }
    }
}

/// A share: one number where all kinds have the same, else each.
fn share_text(share: Option<v1::Resources>) -> String {
    let share = echelon_proto::convert::quantity::read_resources(share);
    let of = |kind| share.get(kind);
    match Kind::ALL.map(of) {
        [one, b, c, d] if [b, c, d] == [one; 3] => one.to_string(),
        _ => Kind::ALL.map(|k| format!("{k} {}", of(k))).join(", "),
    }
}

fn kind_word(kind: v1::PoolKind) -> &'static str {
    match kind {
        v1::PoolKind::Unspecified | v1::PoolKind::Elastic => PoolKind::Elastic.word(),
        v1::PoolKind::Static => PoolKind::Static.word(),
    }
}

fn name_of(path: &str) -> String {
    format!("pools/{}", path.trim_start_matches('/'))
}

/// Runs a verb.
pub async fn run(command: Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Record { rest } => record::record(context, rest).await,
        Command::Simulate(flags) => simulate::simulate(context, &flags),
        command => ask(command, context).await,
    }
}

/// Runs a verb that is a call or two.
async fn ask(command: Command, context: &Context) -> Result<(), Failure> {
    let client = context.client().await?;
    match command {
        Command::Create { path, amounts } => {
            let request = v1::CreatePoolRequest {
                pool: Some(amounts.pool(&path, String::new())),
            };
            let made = client
                .once(|| {
                    let (mut service, request) = (client.pool_service(), request.clone());
                    async move { service.create_pool(request).await }
                })
                .await?;
            show(context, &made.pool.unwrap_or_default());
        }
        Command::Get { path } => {
            let request = v1::GetPoolRequest { name: name_of(&path) };
            let got = client.repeat(|| {
                let (mut service, request) = (client.pool_service(), request.clone());
                async move { service.get_pool(request).await }
            });
            show(context, &got.await?.pool.unwrap_or_default());
        }
        Command::List => list(context, &client).await?,
        Command::Update { path, amounts, etag } => {
            let paths = amounts.mask();
            if paths.is_empty() {
                return Err(Failure::wrong(
                    "say what to change: --reservation, --limit, --share, --kind, --max-instance, --priority, --controller-limit, --revocable-limit, --max-jobs, --max-instances, --fair-users, --preempt-within or --on-cluster-loss",
                ));
            }
            let request = v1::UpdatePoolRequest {
                pool: Some(amounts.pool(&path, etag)),
                update_mask: Some(prost_types::FieldMask { paths }),
            };
            let changed = client
                .once(|| {
                    let (mut service, request) = (client.pool_service(), request.clone());
                    async move { service.update_pool(request).await }
                })
                .await?;
            show(context, &changed.pool.unwrap_or_default());
        }
        Command::Apply { file, plan, etag } => {
            apply::apply(context, &client, &file, (plan, etag)).await?;
        }
        Command::Usage { path } => usage::usage(context, &client, path.as_deref()).await?,
        Command::Explain { path } => explain::explain(context, &client, &path).await?,
        Command::Certify => certify::certify(context, &client).await?,
        Command::Record { .. } | Command::Simulate(_) => {}
        Command::Delete { path, etag } => {
            let request = v1::DeletePoolRequest {
                name: name_of(&path),
                etag,
            };
            let left = client
                .once(|| {
                    let (mut service, request) = (client.pool_service(), request.clone());
                    async move { service.delete_pool(request).await }
                })
                .await?;
            let what = match left.pool {
                None => "deleted",
                Some(_) => "is being deleted: it takes no new job and goes when its last one has ended",
            };
            output::line(format_args!("pool {} {what}", output::escape(&path)));
        }
        Command::Undelete { path, etag } => {
            let request = v1::UndeletePoolRequest {
                name: name_of(&path),
                etag,
            };
            let kept = client
                .once(|| {
                    let (mut service, request) = (client.pool_service(), request.clone());
                    async move { service.undelete_pool(request).await }
                })
                .await?;
            show(context, &kept.pool.unwrap_or_default());
        }
    }
    Ok(())
}

async fn list(context: &Context, client: &client::Client) -> Result<(), Failure> {
    let all = client::pools(client, v1::ListPoolsRequest::default(), usize::MAX)
        .await?
        .rows;
    let row = |p: &v1::Pool| {
        vec![
            p.path.clone(),
            shape::resources(p.reservation.as_ref()),
            shape::limit(p.limit.as_ref()),
            kind_text(p),
            share_text(p.share),
            shape::limit(p.max_instance.as_ref()),
            bounds_text(p.priority),
            shape::limit(p.controller_limit.as_ref()),
            shape::limit(p.revocable_limit.as_ref()),
            most_text(p.max_jobs),
            most_text(p.max_instances),
            p.fair_users.to_string(),
            within_word(p.preempt_within()).to_owned(),
            loss_text(p.on_cluster_loss),
            p.pool_id.clone(),
            p.etag.clone(),
        ]
    };
    let listing = Listing {
        columns: &[
            "POOL",
            "RESERVATION",
            "LIMIT",
            "KIND",
            "SHARE",
            "MAX INSTANCE",
            "PRIORITY",
            "CONTROLLER LIMIT",
            "REVOCABLE LIMIT",
            "MAX JOBS",
            "MAX INSTANCES",
            "FAIR USERS",
            "PREEMPT WITHIN",
            "ON CLUSTER LOSS",
            "ID",
            "ETAG",
        ],
        narrow: 4,
        rows: all.iter().map(row).collect(),
        names: all.iter().map(|p| p.path.clone()).collect(),
        values: all.iter().map(|p| output::message("Pool", p)).collect(),
    };
    output::print(output::list(&listing, context.format()));
    Ok(())
}

fn show(context: &Context, p: &v1::Pool) {
    let people = format!(
        "pool:        {}\nreservation: {}\nlimit:       {}\nkind:        {}\nshare:       {}\ninstance:    {}\npriority:    {}\ncontrollers: {}\nrevocable:   {}\njobs:        {}\ninstances:   {}\nfair users:  {}\npreempts:    {}\nlost:        {}\netag:        {}\n",
        output::escape(&p.path),
        shape::resources(p.reservation.as_ref()),
        shape::limit(p.limit.as_ref()),
        kind_text(p),
        share_text(p.share),
        shape::limit(p.max_instance.as_ref()),
        bounds_text(p.priority),
        shape::limit(p.controller_limit.as_ref()),
        shape::limit(p.revocable_limit.as_ref()),
        most_text(p.max_jobs),
        most_text(p.max_instances),
        p.fair_users,
        within_word(p.preempt_within()),
        loss_text(p.on_cluster_loss),
        p.etag,
    );
    output::print(output::one(
        &output::message("Pool", p),
        &p.path,
        &people,
        context.format(),
    ));
}
