//! `echelon gateway`.

use super::options::{self, Options, WrongOption};
use super::timeouts::TimeoutOptions;
use crate::process::{BUILD, Process, membership, metrics_of};
use anyhow::Result;
use clap::Args;
use echelon_io_process::config::Common;
use echelon_io_process::http::Admin;
use echelon_io_process::listener::ConnectionLimits;
use serde::Deserialize;
use std::time::Duration;

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
    /// Further names under which browsers, Prometheus and balancers may ask for it, beside the one it advertises
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    allowed_hosts: Option<Vec<String>>,
    /// How long it serves on after SIGTERM, while it says that it is not ready: 5 when it is left out
    #[arg(long, value_name = "SECONDS")]
    drain_s: Option<u32>,
}

/// How long a gateway serves on after it was told to end.
const DRAIN_S: u32 = 5;
/// The longest such time.
const LONGEST_DRAIN_S: u32 = 3600;

impl Options for GatewayOptions {
    fn over(self, file: Self) -> Self {
        Self {
            process: file.process,
            storage: self.storage.or(file.storage),
            membership: self.membership.or(file.membership),
            timeouts: self.timeouts.over(file.timeouts),
            advertise: self.advertise.or(file.advertise),
            allowed_hosts: self.allowed_hosts.or(file.allowed_hosts),
            drain_s: self.drain_s.or(file.drain_s),
        }
    }

    fn process(&mut self) -> &mut Common {
        &mut self.process
    }
}

fn drain(given: Option<u32>) -> Result<u32, WrongOption> {
    match given {
        None => Ok(DRAIN_S),
        Some(seconds) if seconds <= LONGEST_DRAIN_S => Ok(seconds),
        Some(seconds) => Err(WrongOption(format!(
            "`drain_s` is {seconds}: it must be 0 to {LONGEST_DRAIN_S}"
        ))),
    }
}

pub(super) async fn run(options: GatewayOptions) -> Result<()> {
    options::reachable(options.process.listen, options.advertise.as_deref())?;
    let storage_url = options::storage(options.storage)?;
    let membership = membership(
        &options::membership(options.membership)?,
        options.timeouts.timeouts()?,
    )?;
    let drain_s = drain(options.drain_s)?;
    // What is under way when the port closes has the whole grace.
    let grace_s = options.process.grace_s.saturating_add(drain_s);
    let process = Process::begin(&Common {
        grace_s,
        ..options.process.clone()
    })?;
    let store_metrics = metrics_of(&[("role", "gateway")])?;
    let store = process.storage(&storage_url, &store_metrics).await?;
    let config = echelon_gateway::Config {
        listen: options.process.listen,
        allowed_hosts: options::names(options.allowed_hosts, options.advertise.as_deref()),
        advertise: options.advertise.map(|at| format!("http://{at}")),
        watch_round: echelon_gateway::WATCH_ROUND,
        drain: Duration::from_secs(drain_s.into()),
        most_requests: echelon_gateway::MOST_REQUESTS,
        request_time: echelon_gateway::REQUEST_TIME,
        connections: ConnectionLimits::of_process(),
        version: BUILD.to_owned(),
    };
    let admin = Admin {
        metrics: vec![store_metrics],
        readiness: process.readiness.clone(),
    };
    let running = echelon_gateway::serve(config, store, membership, process.shutdown.clone(), admin).await?;
    tracing::info!(address = %running.address, "the gateway serves");
    process.ended().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_serves_on_for_five_seconds_unless_it_is_told_otherwise() {
        assert_eq!(drain(None).unwrap(), 5);
        assert_eq!(drain(Some(0)).unwrap(), 0);
        assert!(drain(Some(LONGEST_DRAIN_S + 1)).is_err());
    }
}
