//! Starts the parts of a federation in one process, in the order of who needs whom.

use super::config::{Cluster, Config, Tasks};
use super::folder::Folder;
use crate::process::{BUILD, Process, metrics_of, observed, tell_doubts, unique_name};
use crate::roles::{mesos_sim, shard};
use anyhow::{Context, Result, bail};
use echelon_io_membership::in_process::Hub;
use echelon_io_membership::{Membership, Timeouts};
use echelon_io_mesos_sim as sim;
use echelon_io_process::config::Common;
use echelon_io_process::http::Admin;
use echelon_io_process::shutdown::End;
use echelon_io_process::{Metrics, Shutdown};
use echelon_io_storage::{Observation, Observed, Store};
use echelon_resource_manager as resource_manager;
use echelon_shard::LogLimits;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Reading a large storage takes its time; an empty one takes a tenth of a second.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// Nobody listens to a simulated master any more when it ends.
const MASTERS_GRACE: Duration = Duration::from_secs(2);

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A federation that serves, until its shutdown begins.
pub struct Running {
    address: SocketAddr,
    writes: Arc<AtomicU64>,
    shutdown: Shutdown,
    /// The end of the simulated masters: after everybody who listens to them.
    masters_end: Shutdown,
    /// The simulated masters; they hold their work folders.
    masters: Vec<sim::Running>,
    folder: Folder,
    metrics: Vec<Metrics>,
}

impl Running {
    /// Where the gateway listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The folder of everything that is kept, absolute.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        self.folder.path()
    }

    /// Where the simulated clusters' masters listen, in the order of the configuration.
    #[must_use]
    pub fn masters(&self) -> Vec<SocketAddr> {
        self.masters.iter().map(|master| master.address).collect()
    }

    /// Breaks every subscription to a simulated master, as a network would.
    pub fn cut_streams(&self) {
        self.masters.iter().for_each(sim::Running::cut_streams);
    }

    /// How many tasks the simulated masters track: those that live, and those whose end is not acknowledged.
    #[must_use]
    pub fn n_tracked(&self) -> usize {
        self.masters.iter().map(sim::Running::n_tracked).sum()
    }

    /// All metrics of all parts, as Prometheus reads them.
    #[must_use]
    pub fn exposition(&self) -> String {
        echelon_io_process::metrics::exposition(&self.metrics)
    }

    /// Rows given to storage so far, by all parts together.
    #[must_use]
    pub fn store_writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Ends everything; tasks that are processes run on.
    pub async fn stop(self) {
        self.shutdown.begin();
        self.ended().await;
    }

    /// Waits for the end of the shutdown, and ends the simulated masters after it.
    pub async fn ended(self) -> End {
        let end = self.shutdown.finished().await;
        self.masters_end.begin();
        self.masters_end.finished().await;
        end
    }
}

/// What all parts share.
struct Shared {
    process: Process,
    store: Arc<dyn Store>,
    membership: Arc<dyn Membership>,
    metrics: Vec<Metrics>,
}

/// Starts a federation and waits until it can take jobs.
///
/// # Errors
/// The data folder is in use, a port is taken, or it was not ready within a minute; the error says what was missing.
pub async fn start(config: Config, shutdown: Shutdown) -> Result<Running> {
    start_in(config, Process::within(shutdown)).await
}

/// Starts a federation in a process that has begun.
///
/// # Errors
/// As [`start`].
pub async fn start_in(config: Config, process: Process) -> Result<Running> {
    let folder = Folder::take(&config.data_dir)?;
    let url = config.storage.unwrap_or_else(|| folder.storage());
    let opened = echelon_io_storage::open_checked(&url)
        .await
        .with_context(|| format!("open {url}"))?;
    tell_doubts(&opened.durability().await);
    let writes = Arc::new(AtomicU64::new(0));
    let hub = Hub::new(Timeouts::default());
    let mut shared = Shared {
        store: counted(opened, writes.clone()),
        membership: Arc::new(hub.connect("standalone")),
        metrics: Vec::new(),
        process,
    };
    let masters_end = Shutdown::new(MASTERS_GRACE);
    let (mut masters, mut clusters, mut before) = (Vec::new(), Vec::new(), 0);
    for cluster in &config.clusters {
        let address = match cluster {
            Cluster::Real { masters, .. } => masters.clone(),
            Cluster::Simulated { name, hosts, tasks } => {
                let master = simulate(&folder, (name, (before, *hosts), *tasks), &masters_end).await?;
                before += hosts;
                let address = master.address.to_string();
                masters.push(master);
                address
            }
        };
        clusters.push((cluster.name().to_owned(), address));
    }
    for (name, masters) in clusters {
        shared.serve_shard(name, &masters, config.logs).await?;
    }
    let resource_manager = metrics_of(&[("role", "resource-manager")])?;
    shared.metrics.push(resource_manager.clone());
    let address = shared.serve_gateway(config.listen).await?;
    // Clusters and the first pool are stored then: the resource manager finds them in its first look, not in its second.
    shared.ready().await?;
    shared
        .serve_resource_manager(config.manager, resource_manager)
        .await?;
    shared.ready().await?;
    Ok(Running {
        address,
        writes,
        shutdown: shared.process.shutdown,
        masters_end,
        masters,
        folder,
        metrics: shared.metrics,
    })
}

fn counted(store: Arc<dyn Store>, writes: Arc<AtomicU64>) -> Arc<dyn Store> {
    let count = move |seen: Observation| {
        writes.fetch_add(u64::try_from(seen.writes).unwrap_or_default(), Ordering::Relaxed);
    };
    Arc::new(Observed::new(store, count))
}

/// Serves a simulated cluster, at its last address if that is free.
async fn simulate(
    folder: &Folder,
    (name, hosts, tasks): (&str, (usize, usize), Tasks),
    shutdown: &Shutdown,
) -> Result<sim::Running> {
    let mode = match tasks {
        Tasks::Processes => mesos_sim::exec(folder.mesos(name), None)?,
        Tasks::Virtual => mesos_sim::virtual_tasks(),
    };
    let free = mesos_sim::cluster(name.to_owned(), hosts, mode);
    if let Some(listen) = folder.last_address(name) {
        let again = sim::Config {
            listen,
            ..free.clone()
        };
        match sim::serve(again, shutdown).await {
            Err(sim::ServeError::Listen { .. }) => {}
            served => return served.with_context(|| format!("serve the simulated cluster {name}")),
        }
    }
    let served = sim::serve(free, shutdown).await;
    let running = served.with_context(|| format!("serve the simulated cluster {name}"))?;
    folder.keep_address(name, running.address)?;
    Ok(running)
}

impl Shared {
    async fn serve_resource_manager(
        &self,
        driver: resource_manager::DriverConfig,
        metrics: Metrics,
    ) -> Result<()> {
        let needs = self.process.needs(&metrics)?;
        let contacts = self
            .process
            .watch(needs, self.membership.clone(), self.store.clone());
        let parts = resource_manager::Parts {
            store: observed(self.store.clone(), &metrics)?,
            membership: self.membership.clone(),
            clock: self.process.clock.clone(),
            metrics,
            readiness: self.process.readiness.clone(),
            contacts,
            build: BUILD.to_owned(),
            shutdown: self.process.shutdown.clone(),
        };
        let config = resource_manager::Config {
            listen: Common::default().listen,
            advertise: None,
            driver,
        };
        resource_manager::serve(config, parts).await?;
        Ok(())
    }

    async fn serve_shard(&mut self, cluster: String, masters: &str, logs: LogLimits) -> Result<()> {
        let metrics = metrics_of(&[("role", "shard"), ("cluster", &cluster)])?;
        let needs = self.process.needs(&metrics)?;
        let contacts = self
            .process
            .watch(needs, self.membership.clone(), self.store.clone());
        let parts = echelon_shard::Parts {
            store: observed(self.store.clone(), &metrics)?,
            membership: self.membership.clone(),
            clock: self.process.clock.clone(),
            metrics: metrics.clone(),
            readiness: self.process.readiness.clone(),
            contacts,
            build: BUILD.to_owned(),
            shutdown: self.process.shutdown.clone(),
        };
        self.metrics.push(metrics);
        let config = echelon_shard::Config {
            listen: Common::default().listen,
            advertise: None,
            cluster,
            mesos: shard::plain_mesos(masters)?,
            holder: unique_name(),
            seed: rand::random(),
            timing: echelon_shard::DriverTiming {
                logs,
                ..Default::default()
            },
        };
        echelon_shard::serve(config, parts).await?;
        Ok(())
    }

    async fn serve_gateway(&self, listen: SocketAddr) -> Result<SocketAddr> {
        let mut config = echelon_gateway::Config::loopback(listen.port(), BUILD);
        config.listen = listen;
        let metrics = metrics_of(&[("role", "gateway")])?;
        let store = observed(self.store.clone(), &metrics)?;
        let mut admin = Admin {
            metrics: self.metrics.clone(),
            readiness: self.process.readiness.clone(),
        };
        admin.metrics.push(metrics);
        let shutdown = self.process.shutdown.clone();
        let running = echelon_gateway::serve(config, store, self.membership.clone(), shutdown, admin).await?;
        Ok(running.address)
    }

    /// Waits until every condition of this process holds.
    async fn ready(&self) -> Result<()> {
        let stop = self.process.shutdown.token();
        let all_hold = async {
            while !self.process.readiness.report().ready {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        match stop
            .run_until_cancelled(tokio::time::timeout(READY_WITHIN, all_hold))
            .await
        {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) => {
                let report = self.process.readiness.report();
                let missing = report.conditions.iter().filter_map(|c| {
                    let reason = c.reason.as_ref()?;
                    Some(format!("{}: {reason}", c.name))
                });
                bail!(
                    "not ready within a minute: {}",
                    missing.collect::<Vec<_>>().join("; ")
                )
            }
            None => bail!("stopped before it was ready"),
        }
    }
}
