//! `echelon host ...`

pub(crate) mod runs;
pub mod set;

use crate::cluster;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::{self, Listing};
use crate::shape;
use clap::Subcommand;
use echelon_clients_rust::{self as client, Client, v1};
use echelon_proto::convert::quantity::duration;
use std::time::Duration;

pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(500);

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
    /// Show one host, with the first of what runs on it
    Get {
        /// CLUSTER/HOST, the host by name or agent id
        host: String,
    },
    /// Have hosts left empty: services leave at once as far as their max_unavailable allows, nothing new comes
    Drain {
        #[command(flatten)]
        which: set::Which,
        #[command(flatten)]
        how: set::How,
    },
    /// Take drains back
    Undrain {
        #[command(flatten)]
        which: set::Which,
    },
    /// Say that a host never returns: runs that were silent there have ended, and nothing of them is waited
    /// for
    Forget {
        /// CLUSTER/HOST, the host by name or agent id
        host: String,
        /// Do it: without this only what it means is said
        #[arg(long)]
        yes: bool,
    },
    /// Hosts that are to be empty: how far each is, and what stays there and why
    Drains {
        /// Only hosts of this cluster
        #[arg(long)]
        cluster: Option<String>,
    },
}

/// Runs a verb.
pub async fn run(command: Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::List { cluster, limit } => list(context, cluster, limit).await,
        Command::Get { host } => get(context, &host).await,
        Command::Drain { which, how } if how.undo => match which.hosts.as_slice() {
            [host] if which.attributes.is_empty() => undrain(context, host).await,
            _ => set::undrain(context, &which).await,
        },
        Command::Drain { which, how } => match which.hosts.as_slice() {
            [host] if which.attributes.is_empty() && !how.dry_run => {
                let request = v1::DrainHostRequest {
                    name: name_of(host)?,
                    batch_for: Some(duration(how.batch_for)),
                    agent: how.agent,
                };
                drain(context, request, how.wait).await
            }
            _ => set::drain(context, &which, how).await,
        },
        Command::Undrain { which } => match which.hosts.as_slice() {
            [host] if which.attributes.is_empty() => undrain(context, host).await,
            _ => set::undrain(context, &which).await,
        },
        Command::Drains { cluster } => set::drains(context, cluster).await,
        Command::Forget { host, yes } => forget(context, &host, yes).await,
    }
}

async fn forget(context: &Context, host: &str, yes: bool) -> Result<(), Failure> {
    let request = v1::ForgetHostRequest { name: name_of(host)? };
    if !yes {
        let text = format!(
            "runs that are silent on host `{}` would count as ended, and be replaced at once: where the host runs on and comes back, they are \
             killed then. Nothing was changed; say --yes to do it",
            output::escape(host)
        );
        return Err(Failure::new(Exit::Failed, text));
    }
    let client = context.client().await?;
    let done = client.change(|| {
        let (mut service, request) = (client.host_service(), request.clone());
        async move { service.forget_host(request).await }
    });
    let told = done.await?;
    let text = if told.host.is_some() {
        "its silent runs end by this word"
    } else {
        "nothing is stored of it any more; runs that name it end by this word"
    };
    let people = format!("host {} never returns: {text}\n", output::escape(host));
    let value = output::message("ForgetHostResponse", &told);
    output::print(output::one(&value, host, &people, context.format()));
    Ok(())
}

async fn list(context: &Context, cluster: Option<String>, limit: usize) -> Result<(), Failure> {
    let client = context.client().await?;
    let mut all = Vec::new();
    let mut more = false;
    for cluster in cluster::one_or_all(&client, cluster).await? {
        let request = v1::ListHostsRequest {
            parent: format!("clusters/{cluster}"),
            ..v1::ListHostsRequest::default()
        };
        let found = client::hosts(&client, request, limit.saturating_sub(all.len())).await?;
        more |= found.more;
        all.extend(found.rows);
    }
    let columns = &[
        "CLUSTER",
        "HOST",
        "TASKS",
        "USED",
        "CAPACITY",
        "OTHERS",
        "REACHABLE",
        "SEEN",
        "DRAIN",
        "HOST POOL",
        "MAINTENANCE",
        "ID",
        "ADDRESS",
    ];
    print_all(context, &all, columns, (10, row));
    let left_out = output::left_out("hosts", all.len(), more, None);
    left_out.iter().for_each(output::remark);
    let cut = all.iter().filter(|h| !self::left_out(h).is_empty()).count();
    if cut > 0 {
        output::remark(format!(
            "{cut} of them have attributes or volumes that are too long or too many to be kept: `echelon host get` says how many"
        ));
    }
    Ok(())
}

/// Prints hosts, so many of the columns where it is to be narrow.
pub(crate) fn print_all(
    context: &Context,
    all: &[v1::Host],
    columns: &'static [&'static str],
    (narrow, row): (usize, impl Fn(&v1::Host) -> Vec<String>),
) {
    let listing = Listing {
        columns,
        narrow,
        rows: all.iter().map(row).collect(),
        names: all
            .iter()
            .map(|h| format!("{}/{}", h.cluster, h.host_id))
            .collect(),
        values: all.iter().map(|h| output::message("Host", h)).collect(),
    };
    output::print(output::list(&listing, context.format()));
}

fn row(h: &v1::Host) -> Vec<String> {
    vec![
        h.cluster.clone(),
        h.hostname.clone(),
        h.tasks.to_string(),
        shape::resources(h.used.as_ref()),
        shape::resources(h.capacity.as_ref()),
        shape::others(h.others.as_ref()),
        if h.reachable { "yes" } else { "no" }.to_owned(),
        shape::ago(h.seen_time.as_ref()),
        state(h),
        pool(h),
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

/// Its host pool, and where it is going.
pub(crate) fn pool(h: &v1::Host) -> String {
    match &h.r#move {
        Some(m) if m.ending => format!("{}, stays there", h.host_pool),
        Some(m) => format!("{}, goes to {}", h.host_pool, m.to),
        None => h.host_pool.clone(),
    }
}

/// How far a drain has come; of one that only operators of Mesos want, what they have done with the agent.
fn state(h: &v1::Host) -> String {
    let Some(d) = &h.drain else {
        let words = match h.agent_state() {
            v1::AgentState::Draining => "draining by Mesos",
            v1::AgentState::Drained => "drained by Mesos",
            v1::AgentState::Deactivated => "deactivated in Mesos",
            v1::AgentState::Active | v1::AgentState::Disconnected | v1::AgentState::Unspecified => "no",
        };
        return words.to_owned();
    };
    let words = match (d.ending, d.heard, h.tasks) {
        (true, ..) => "ending",
        (_, false, _) => "asked",
        (.., 1..) => "draining",
        (.., 0) if d.agent_drained => "drained with its agent",
        (.., 0) if !d.agent_refused.is_empty() => "drained, its agent not",
        (.., 0) => "drained",
    };
    words.to_owned()
}

fn name_of(host: &str) -> Result<String, Failure> {
    let (cluster, id) = parts_of(host)?;
    Ok(format!("clusters/{cluster}/hosts/{id}"))
}

/// The cluster and the host that are named.
pub(crate) fn parts_of(host: &str) -> Result<(&str, &str), Failure> {
    match host.split_once('/') {
        Some((cluster, id)) if !cluster.is_empty() && !id.is_empty() => Ok((cluster, id)),
        _ => Err(Failure::wrong(format!(
            "`{host}` is not CLUSTER/HOST; `echelon host list -o name` shows them"
        ))),
    }
}

async fn fetch(client: &Client, name: String) -> Result<v1::Host, Failure> {
    let request = v1::GetHostRequest { name };
    let got = client.repeat(|| {
        let (mut service, request) = (client.host_service(), request.clone());
        async move { service.get_host(request).await }
    });
    Ok(got.await?.host.unwrap_or_default())
}

async fn drain(context: &Context, request: v1::DrainHostRequest, wait: bool) -> Result<(), Failure> {
    let client = context.client().await?;
    let name = request.name.clone();
    let done = client.change(|| {
        let (mut service, request) = (client.host_service(), request.clone());
        async move { service.drain_host(request).await }
    });
    let mut h = done.await?.host.unwrap_or_default();
    while wait && !is_over(&h)? {
        tokio::time::sleep(LOOK_EVERY).await;
        h = fetch(&client, name.clone()).await?;
    }
    show_drain(context, &h);
    Ok(())
}

/// Whether nothing is left to wait for. What Mesos refuses, or somebody else takes back, is not waited for.
fn is_over(h: &v1::Host) -> Result<bool, Failure> {
    let Some(d) = h.drain.as_ref().filter(|d| !d.ending) else {
        return Err(Failure::new(
            Exit::Failed,
            format!("the drain of host `{}` was taken back", h.hostname),
        ));
    };
    if d.heard && h.tasks == 0 && !d.agent_refused.is_empty() {
        return Err(Failure::new(
            Exit::Failed,
            format!(
                "host `{}` is empty, but Mesos does not drain its agent: {}",
                h.hostname, d.agent_refused
            ),
        ));
    }
    Ok(d.heard && h.tasks == 0 && (!d.agent || d.agent_drained))
}

async fn undrain(context: &Context, host: &str) -> Result<(), Failure> {
    let request = v1::UndrainHostRequest { name: name_of(host)? };
    let client = context.client().await?;
    let done = client.change(|| {
        let (mut service, request) = (client.host_service(), request.clone());
        async move { service.undrain_host(request).await }
    });
    show_drain(context, &done.await?.host.unwrap_or_default());
    Ok(())
}

fn show_drain(context: &Context, h: &v1::Host) {
    let mut people = format!(
        "host:    {}\ncluster: {}\ndrain:   {}\ntasks:   {}\n",
        output::escape(&h.hostname),
        output::escape(&h.cluster),
        state(h),
        h.tasks,
    );
    if let Some(d) = h.drain.as_ref().filter(|d| !d.ending) {
        people.push_str(&batch_line(h, d));
    }
    output::print(one(context, h, &people));
}

fn batch_line(h: &v1::Host, d: &v1::HostDrain) -> String {
    let left = match set::left(h) {
        none if none.is_empty() => none,
        left => format!("left:    {left}\n"),
    };
    let refused = if d.agent_refused.is_empty() {
        String::new()
    } else {
        format!("agent:   not drained: {}\n", output::escape(&d.agent_refused))
    };
    format!(
        "batch:   until {}\n{left}{refused}",
        shape::time(d.batch_until_time.as_ref())
    )
}

fn one(context: &Context, h: &v1::Host, people: &str) -> String {
    output::one(
        &output::message("Host", h),
        &format!("{}/{}", h.cluster, h.host_id),
        people,
        context.format(),
    )
}

/// What the host's row has no place for.
fn left_out(h: &v1::Host) -> String {
    if (h.attributes_left_out, h.volumes_left_out) == (0, 0) {
        return String::new();
    }
    format!(
        "left out:    {} attributes and {} volumes, which are too long or too many to be kept\n",
        h.attributes_left_out, h.volumes_left_out
    )
}

async fn get(context: &Context, host: &str) -> Result<(), Failure> {
    let client = context.client().await?;
    let h = fetch(&client, name_of(host)?).await?;
    let attributes: Vec<String> = h.attributes.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let people = format!(
        "host:        {}\ncluster:     {}\nid:          {}\naddress:     {}\ncapacity:    {}\nused:        {}\nothers:      {}\ntasks:       {}\nreachable:   {}\nseen:        {} ago\ndrain:       {}\nhost pool:   {}\nmaintenance: {}\nattributes:  {}\n",
        output::escape(&h.hostname),
        output::escape(&h.cluster),
        output::escape(&h.host_id),
        output::escape(&h.address),
        shape::resources(h.capacity.as_ref()),
        shape::resources(h.used.as_ref()),
        shape::others(h.others.as_ref()),
        h.tasks,
        if h.reachable { "yes" } else { "no" },
        shape::ago(h.seen_time.as_ref()),
        state(&h),
        output::escape(&pool(&h)),
        maintenance(&h),
        output::escape(&attributes.join(" ")),
    );
    let people = people + &left_out(&h);
    let drain = h.drain.as_ref().filter(|d| !d.ending).map(|d| batch_line(&h, d));
    let people = people + &drain.unwrap_or_default();
    let runs = if context.format().is_for_people() {
        runs::on_host(&client, host).await?
    } else {
        String::new()
    };
    output::print(one(context, &h, &(people + &runs)));
    Ok(())
}
