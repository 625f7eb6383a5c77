//! `echelon volume ...`

use crate::cluster;
use crate::context::Context;
use crate::exit::Failure;
use crate::output::{self, Listing};
use crate::shape;
use clap::Subcommand;
use echelon_clients_rust::{self as client, v1};
use std::time::{Duration, Instant};

/// A wish reaches its shard by way of the resource manager, which repeats it every few seconds.
const HEARD_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List persistent volumes, of all clusters or of one
    List {
        /// Only volumes of this cluster
        #[arg(long)]
        cluster: Option<String>,
        /// Only volumes that no instance holds
        #[arg(long)]
        unheld: bool,
        /// At most this many
        #[arg(long, default_value_t = 1000)]
        limit: usize,
    },
    /// Destroy a volume that no instance holds, with all that is in it
    Destroy {
        /// CLUSTER/VOLUME, as `volume list -o name` shows it
        volume: String,
    },
    /// Have an instance use a volume that no instance holds, from its next run on (`job restart`)
    Adopt {
        /// CLUSTER/VOLUME, as `volume list -o name` shows it
        volume: String,
        /// JOB/GROUP/NUMBER
        instance: String,
    },
}

/// Runs a verb.
pub async fn run(command: Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::List {
            cluster,
            unheld,
            limit,
        } => list(context, cluster, unheld, limit).await,
        Command::Destroy { volume } => destroy(context, &volume).await,
        Command::Adopt { volume, instance } => adopt(context, &volume, &instance).await,
    }
}

async fn list(context: &Context, cluster: Option<String>, unheld: bool, limit: usize) -> Result<(), Failure> {
    let client = context.client().await?;
    let mut all = Vec::new();
    let mut more = false;
    for cluster in cluster::one_or_all(&client, cluster).await? {
        let request = v1::ListVolumesRequest {
            parent: format!("clusters/{cluster}"),
            ..v1::ListVolumesRequest::default()
        };
        let most = if unheld {
            usize::MAX
        } else {
            limit.saturating_sub(all.len())
        };
        let found = client::volumes(&client, request, most).await?;
        more |= found.more;
        all.extend(found.rows.into_iter().filter(|v| !unheld || v.holder.is_empty()));
    }
    more |= all.len() > limit;
    all.truncate(limit);
    let listing = Listing {
        columns: &[
            "CLUSTER", "HOST", "SIZE", "HELD BY", "STATE", "SEEN", "PATH", "VOLUME", "MADE FOR",
        ],
        narrow: 6,
        rows: all.iter().map(row).collect(),
        names: all
            .iter()
            .map(|v| format!("{}/{}", v.cluster, v.volume_id))
            .collect(),
        values: all.iter().map(|v| output::message("HostVolume", v)).collect(),
    };
    output::print(output::list(&listing, context.format()));
    let left_out = output::left_out("volumes", all.len(), more, None);
    left_out.iter().for_each(output::remark);
    Ok(())
}

fn row(v: &v1::HostVolume) -> Vec<String> {
    vec![
        v.cluster.clone(),
        v.hostname.clone(),
        format!("{}MiB", v.size_mib),
        holder(v),
        state(v),
        shape::ago(v.seen_time.as_ref()),
        v.path.clone(),
        v.volume_id.clone(),
        short(&v.maker),
    ]
}

fn state(v: &v1::HostVolume) -> String {
    if v.destroying {
        "destroying".to_owned()
    } else if !v.adopting.is_empty() {
        format!("to be adopted by {}", short(&v.adopting))
    } else if v.holder.is_empty() {
        "unheld".to_owned()
    } else {
        "held".to_owned()
    }
}

/// The same with the job's name.
fn holder(v: &v1::HostVolume) -> String {
    let held = short(&v.holder);
    match held.split_once('/') {
        Some((_, rest)) if !v.holder_job.is_empty() => format!("{}/{rest}", v.holder_job),
        _ => held,
    }
}

/// `JOB/GROUP/NUMBER` of a resource name.
fn short(name: &str) -> String {
    let parts: Vec<&str> = name.split('/').collect();
    match parts.as_slice() {
        ["jobs", job, "groups", group, "instances", number] => format!("{job}/{group}/{number}"),
        _ => "none".to_owned(),
    }
}

fn name_of(volume: &str) -> Result<String, Failure> {
    match volume.split_once('/') {
        Some((cluster, id)) if !cluster.is_empty() && !id.is_empty() => {
            Ok(format!("clusters/{cluster}/volumes/{id}"))
        }
        _ => Err(Failure::wrong(format!(
            "`{volume}` is not CLUSTER/VOLUME; `echelon volume list -o name` shows them"
        ))),
    }
}

async fn destroy(context: &Context, volume: &str) -> Result<(), Failure> {
    let request = v1::DestroyVolumeRequest {
        name: name_of(volume)?,
    };
    let client = context.client().await?;
    let done = client.change(|| {
        let (mut service, request) = (client.volume_service(), request.clone());
        async move { service.destroy_volume(request).await }
    });
    show(context, volume, &done.await?.volume.unwrap_or_default());
    Ok(())
}

async fn adopt(context: &Context, volume: &str, instance: &str) -> Result<(), Failure> {
    let parts: Vec<&str> = instance.split('/').collect();
    let [job, group, number] = parts.as_slice() else {
        return Err(Failure::wrong(format!(
            "`{instance}` is not JOB/GROUP/NUMBER: for example db/main/0"
        )));
    };
    let request = v1::AdoptVolumeRequest {
        name: name_of(volume)?,
        instance: format!("jobs/{job}/groups/{group}/instances/{number}"),
    };
    let client = context.client().await?;
    let began = Instant::now();
    let volume_now = loop {
        let done = client.change(|| {
            let (mut service, request) = (client.volume_service(), request.clone());
            async move { service.adopt_volume(request).await }
        });
        let now = done.await?.volume.unwrap_or_default();
        // A restart before the shard has heard would take the instance's own volume again.
        if now.heard || now.adopting.is_empty() || began.elapsed() > HEARD_WITHIN {
            break now;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    };
    show(context, volume, &volume_now);
    Ok(())
}

fn show(context: &Context, name: &str, v: &v1::HostVolume) {
    let mut people = format!(
        "volume: {}\nstate:  {}\nhost:   {}\nsize:   {}MiB\n",
        output::escape(&v.volume_id),
        state(v),
        output::escape(&v.hostname),
        v.size_mib,
    );
    if !v.adopting.is_empty() {
        people.push_str(if v.heard {
            "next:   `echelon job restart` has it used\n"
        } else {
            "next:   its shard has not heard of it yet; it will, and uses it with the next run after that\n"
        });
    }
    output::print(output::one(
        &output::message("HostVolume", v),
        name,
        &people,
        context.format(),
    ));
}
