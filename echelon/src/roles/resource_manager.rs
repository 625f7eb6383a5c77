//! `echelon resource-manager`.

use super::losses::LossOptions;
use super::options::{self, Options};
use super::preemption::PreemptionOptions;
use super::timeouts::TimeoutOptions;
use crate::process::{BUILD, Process, membership, metrics_of, unique_name};
use anyhow::Result;
use clap::Args;
use echelon_io_process::config::Common;
use echelon_resource_manager::{Config, DriverConfig, Parts, serve};
use serde::Deserialize;
use std::net::SocketAddr;

/// What a resource manager is told.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResourceManagerOptions {
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
    /// Address of metrics and health
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,
    #[command(flatten)]
    preemption: PreemptionOptions,
    #[command(flatten)]
    losses: LossOptions,
}

impl Options for ResourceManagerOptions {
    fn over(self, file: Self) -> Self {
        Self {
            process: file.process,
            storage: self.storage.or(file.storage),
            membership: self.membership.or(file.membership),
            timeouts: self.timeouts.over(file.timeouts),
            advertise: self.advertise.or(file.advertise),
            admin: self.admin.or(file.admin),
            preemption: self.preemption.over(file.preemption),
            losses: self.losses.over(file.losses),
        }
    }

    fn process(&mut self) -> &mut Common {
        &mut self.process
    }
}

pub(super) async fn run(options: ResourceManagerOptions) -> Result<()> {
    options::reachable(options.process.listen, options.advertise.as_deref())?;
    let storage_url = options::storage(options.storage)?;
    let timeouts = options.timeouts.timeouts()?;
    let membership = membership(&options::membership(options.membership)?, timeouts)?;
    let process = Process::begin(&options.process)?;
    let metrics = metrics_of(&[("role", "resource-manager")])?;
    let needs = process.needs(&metrics)?;
    process.serve_admin(options.admin, vec![metrics.clone()]).await?;
    let store = process.storage(&storage_url, &metrics).await?;
    let contacts = process.watch(needs, membership.clone(), store.clone());
    let parts = Parts {
        store,
        membership,
        clock: process.clock.clone(),
        metrics,
        readiness: process.readiness.clone(),
        contacts,
        build: BUILD.to_owned(),
        shutdown: process.shutdown.clone(),
    };
    let driver = DriverConfig {
        lease: super::timeouts::lease(timeouts),
        ..DriverConfig::new(unique_name(), rand::random())
    };
    let config = Config {
        listen: options.process.listen,
        advertise: options.advertise,
        driver: options.losses.apply(options.preemption.apply(driver)?)?,
    };
    let running = serve(config, parts).await?;
    tracing::info!(address = %running.address, "the resource manager stands for election");
    process.ended().await
}
