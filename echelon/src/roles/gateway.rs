//! `echelon gateway`.

use super::options::{self, Options};
use super::timeouts::TimeoutOptions;
use crate::process::{Process, VERSION, membership};
use anyhow::Result;
use clap::Args;
use echelon_io_process::Metrics;
use echelon_io_process::config::Common;
use echelon_io_process::http::Admin;
use serde::Deserialize;
use std::time::Duration;

/// How often a watch looks at storage.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// What a gateway is told.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GatewayOptions {
    #[arg(skip)]
    process: Common,
    /// Where facts are kept: cassandra://h1:9042,h2:9042/keyspace?replication=3
    #[arg(long, value_name = "URL", env = "ECHELON_STORAGE")]
    storage: Option<String>,
    /// Where processes meet: zookeeper://h1:2181,h2:2181/echelon
    #[arg(long, value_name = "URL", env = "ECHELON_MEMBERSHIP")]
    membership: Option<String>,
    #[command(flatten)]
    timeouts: TimeoutOptions,
    /// host:port by which others reach it, where that is not the address it listens on
    #[arg(long, value_name = "HOST:PORT")]
    advertise: Option<String>,
    /// Further names under which browsers may ask for it
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    allowed_hosts: Option<Vec<String>>,
}

impl Options for GatewayOptions {
    fn over(self, file: Self) -> Self {
        Self {
            process: file.process,
            storage: self.storage.or(file.storage),
            membership: self.membership.or(file.membership),
            timeouts: self.timeouts.over(file.timeouts),
            advertise: self.advertise.or(file.advertise),
            allowed_hosts: self.allowed_hosts.or(file.allowed_hosts),
        }
    }

    fn process(&mut self) -> &mut Common {
        &mut self.process
    }
}

pub(super) async fn run(options: GatewayOptions) -> Result<()> {
    let storage_url = options::storage(options.storage)?;
    let membership = membership(
        &options::membership(options.membership)?,
        options.timeouts.timeouts()?,
    )?;
    let process = Process::begin(&options.process)?;
    let store_metrics = Metrics::new(&[("role", "gateway")], VERSION)?;
    let store = process.storage(&storage_url, &store_metrics).await?;
    let config = echelon_gateway::Config {
        listen: options.process.listen,
        allowed_hosts: options.allowed_hosts.unwrap_or_default(),
        advertise: options.advertise.map(|at| format!("http://{at}")),
        watch_interval: WATCH_INTERVAL,
        version: VERSION.to_owned(),
    };
    let admin = Admin {
        metrics: vec![store_metrics],
        readiness: process.readiness.clone(),
    };
    let running = echelon_gateway::serve(config, store, membership, process.shutdown.clone(), admin).await?;
    tracing::info!(address = %running.address, "the gateway serves");
    process.ended().await
}
