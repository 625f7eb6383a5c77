//! `echelon pool ...`

use crate::context::Context;
use crate::exit::Failure;
use crate::output::{self, Listing};
use crate::{quantity, shape};
use clap::{Args, Subcommand};
use echelon_clients_rust::{self as client, v1};

/// Verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a pool
    Create {
        /// Path: /ml or /ml/training
        path: String,
        #[command(flatten)]
        amounts: Amounts,
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
        amounts: Amounts,
        /// Only if nobody changed it since
        #[arg(long, default_value = "")]
        etag: String,
    },
    /// Delete an empty pool
    Delete {
        /// Path
        path: String,
        /// Only if nobody changed it since
        #[arg(long, default_value = "")]
        etag: String,
    },
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
            etag,
            ..v1::Pool::default()
        }
    }
}

fn name_of(path: &str) -> String {
    format!("pools/{}", path.trim_start_matches('/'))
}

/// Runs a verb.
pub async fn run(command: Command, context: &Context) -> Result<(), Failure> {
    let client = context.client().await?;
    match command {
        Command::Create { path, amounts } => {
            let request = v1::CreatePoolRequest {
                pool: Some(amounts.pool(&path, String::new())),
            };
            let made = client.once(client.pool_service().create_pool(request)).await?;
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
                    "say what to change: --reservation, --limit or --share",
                ));
            }
            let request = v1::UpdatePoolRequest {
                pool: Some(amounts.pool(&path, etag)),
                update_mask: Some(prost_types::FieldMask { paths }),
            };
            let changed = client.once(client.pool_service().update_pool(request)).await?;
            show(context, &changed.pool.unwrap_or_default());
        }
        Command::Delete { path, etag } => {
            let request = v1::DeletePoolRequest {
                name: name_of(&path),
                etag,
            };
            client.once(client.pool_service().delete_pool(request)).await?;
            println!("pool {} deleted", output::escape(&path));
        }
    }
    Ok(())
}

async fn list(context: &Context, client: &client::Client) -> Result<(), Failure> {
    let all = client::pools(client, v1::ListPoolsRequest::default(), usize::MAX).await?;
    let row = |p: &v1::Pool| {
        vec![
            p.path.clone(),
            shape::resources(p.reservation.as_ref()),
            shape::limit(p.limit.as_ref()),
            shape::resources(p.share.as_ref()),
            p.pool_id.clone(),
            p.etag.clone(),
        ]
    };
    let listing = Listing {
        columns: &["POOL", "RESERVATION", "LIMIT", "SHARE", "ID", "ETAG"],
        narrow: 3,
        rows: all.iter().map(row).collect(),
        names: all.iter().map(|p| p.path.clone()).collect(),
        values: all.iter().map(|p| output::message("Pool", p)).collect(),
    };
    print!("{}", output::list(&listing, context.format()));
    Ok(())
}

fn show(context: &Context, p: &v1::Pool) {
    let people = format!(
        "pool:        {}\nreservation: {}\nlimit:       {}\nshare:       {}\netag:        {}\n",
        output::escape(&p.path),
        shape::resources(p.reservation.as_ref()),
        shape::limit(p.limit.as_ref()),
        shape::resources(p.share.as_ref()),
        p.etag,
    );
    print!(
        "{}",
        output::one(&output::message("Pool", p), &p.path, &people, context.format())
    );
}
