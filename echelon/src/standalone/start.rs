//! Starts the parts of a federation in one process, in the order of who needs whom.

use super::clusters;
use super::config::{Cluster, Config};
use super::folder::Folder;
use super::masters::{Masters, Simulated};
use crate::process::{BUILD, Process, metrics_of, observed, tell_doubts, unique_name};
use crate::roles::shard;
use anyhow::{Context, Result, bail};
use echelon_io_membership::in_process::Hub;
use echelon_io_membership::{Membership, Timeouts};
use echelon_io_process::config::Common;
use echelon_io_process::http::Admin;
use echelon_io_process::shutdown::End;
use echelon_io_process::{Metrics, Shutdown};
use echelon_io_storage::{Observation, Observed, Store};
use echelon_resource_manager as resource_manager;
use echelon_shard::LogLimits;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Reading a large storage takes its time; an empty one takes a tenth of a second.
const READY_WITHIN: Duration = Duration::from_secs(60);

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long a shard that ends alone is waited for.
const SHARD_GRACE: Duration = Duration::from_secs(20);

/// A federation that serves, until its shutdown begins.
pub struct Running {
    address: SocketAddr,
    writes: Arc<AtomicU64>,
    reads: Arc<AtomicU64>,
    shared: Shared,
    /// The end of each cluster's shard.
    shards: BTreeMap<String, Shutdown>,
    logs: LogLimits,
    /// They end after everything that listens to them.
    masters: Masters,
    folder: Arc<Folder>,
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
        self.masters.addresses()
    }

    /// Breaks every subscription to a simulated master, as a network would.
    pub fn cut_streams(&self) {
        self.masters.cut_streams();
    }

    /// How many tasks the simulated masters track: those that live, and those whose end is not acknowledged.
    #[must_use]
    pub fn n_tracked(&self) -> usize {
        self.masters.n_tracked()
    }

    /// All metrics of all parts, as Prometheus reads them.
    #[must_use]
    pub fn exposition(&self) -> String {
        echelon_io_process::metrics::exposition(&self.shared.metrics)
    }

    /// Rows given to storage so far, by all parts together.
    #[must_use]
    pub fn store_writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Questions asked of storage so far, by all parts together.
    #[must_use]
    pub fn store_reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Ends everything; tasks that are processes run on.
    pub async fn stop(self) {
        self.shared.process.shutdown.begin();
        self.ended().await;
    }

    /// Ends everything, and kills the tasks of the simulated clusters.
    ///
    /// # Errors
    /// A work folder cannot be read, or a process does not go.
    pub async fn stop_with_tasks(self) -> Result<()> {
        self.shared.process.shutdown.begin();
        self.shared.process.shutdown.finished().await;
        self.masters.power_all_off().await
    }

    /// Takes a simulated cluster away, as a site that loses its power: its shard, its master, and all that
    /// its hosts run. Returns how many runs lived there.
    ///
    /// # Errors
    /// There is no such cluster, or a process does not go.
    pub async fn lose_cluster(&self, cluster: &str) -> Result<usize> {
        if let Some(shard) = self.shards.get(cluster) {
            shard.begin();
            shard.finished().await;
        }
        self.masters.power_off(cluster).await
    }

    /// Brings a cluster back that was taken away. Its hosts have what they had stored, and nothing runs
    /// there. What its new shard measures is not in [`Running::exposition`].
    ///
    /// # Errors
    /// There is no such cluster, or a port is taken.
    pub async fn bring_cluster_back(&mut self, cluster: &str) -> Result<()> {
        let masters = self.masters.power_on(cluster).await?.to_string();
        let metrics = shard_metrics(cluster)?;
        let shard = ShardStart {
            cluster: cluster.to_owned(),
            masters,
            logs: self.logs,
            metrics,
        };
        let end = self.shared.serve_shard(shard).await?;
        self.shards.insert(cluster.to_owned(), end);
        Ok(())
    }

    /// Waits for the end of the shutdown, and ends the simulated masters after it.
    pub async fn ended(self) -> End {
        let end = self.shared.process.shutdown.finished().await;
        self.masters.end().await;
        end
    }
}

/// What a shard is started with.
struct ShardStart {
    cluster: String,
    /// `host:port`, several with commas between them.
    masters: String,
    logs: LogLimits,
    metrics: Metrics,
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
    let folder = Arc::new(Folder::take(&config.data_dir)?);
    let url = config.storage.unwrap_or_else(|| folder.storage());
    let opened = echelon_io_storage::open_checked(&url)
        .await
        .with_context(|| format!("open {url}"))?;
    tell_doubts(&opened.durability().await);
    let (writes, reads) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let hub = Hub::new(Timeouts::default());
    let mut shared = Shared {
        store: counted(opened, writes.clone(), reads.clone()),
        membership: Arc::new(hub.connect("standalone")),
        metrics: Vec::new(),
        process,
    };
    let mut masters = Masters::new(folder.clone(), shared.process.readiness.clone());
    let mut clusters = Vec::new();
    for cluster in config.clusters {
        clusters.push(match cluster {
            Cluster::Real { name, masters } => (name, masters),
            Cluster::Simulated { name, hosts, tasks } => {
                let simulated = Simulated {
                    name: name.clone(),
                    hosts,
                    tasks,
                };
                (name, masters.serve(simulated).await?.to_string())
            }
        });
    }
    if let Some(why) = forgotten(&url, masters.n_tracked()) {
        masters.end().await;
        bail!(why);
    }
    let mut shards = BTreeMap::new();
    for (name, masters) in clusters {
        clusters::add(shared.store.as_ref(), &name).await?;
        let metrics = shard_metrics(&name)?;
        shared.metrics.push(metrics.clone());
        let shard = ShardStart {
            cluster: name.clone(),
            masters,
            logs: config.logs,
            metrics,
        };
        shards.insert(name, shared.serve_shard(shard).await?);
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
        reads,
        shared,
        shards,
        logs: config.logs,
        masters,
        folder,
    })
}

/// Why a storage is not used that knows nothing while the simulated masters know tasks.
fn forgotten(url: &str, n_tracked: usize) -> Option<String> {
    (n_tracked > 0 && echelon_io_storage::is_new(url)).then(|| {
        format!(
            "the storage {url} is new, and the simulated clusters of this folder run {n_tracked} tasks that it does not know: \
             the file that knew them is missing. Put it and its card back, or run `echelon storage accept --storage {url}` to \
             begin with an empty one; no job controls these tasks then"
        )
    })
}

fn shard_metrics(cluster: &str) -> Result<Metrics> {
    Ok(metrics_of(&[("role", "shard"), ("cluster", cluster)])?)
}

/// A storage that counts the rows that it is given and the questions that it is asked.
fn counted(store: Arc<dyn Store>, writes: Arc<AtomicU64>, reads: Arc<AtomicU64>) -> Arc<dyn Store> {
    let count = move |seen: Observation<'_>| {
        writes.fetch_add(u64::try_from(seen.writes).unwrap_or_default(), Ordering::Relaxed);
        if seen.operation.starts_with("read_") {
            reads.fetch_add(1, Ordering::Relaxed);
        }
    };
    Arc::new(Observed::new(store, count))
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
            store: observed(self.store.clone(), &metrics, &self.process.readiness)?,
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

    /// Serves a shard until its process ends, or until the end that is returned begins.
    async fn serve_shard(&self, shard: ShardStart) -> Result<Shutdown> {
        let ShardStart {
            cluster,
            masters,
            logs,
            metrics,
        } = shard;
        let process = Process {
            shutdown: Shutdown::new(SHARD_GRACE),
            ..self.process.clone()
        };
        let (whole, own) = (self.process.shutdown.token(), process.shutdown.clone());
        self.process.shutdown.spawn(async move {
            whole.run_until_cancelled(own.token().cancelled_owned()).await;
            own.begin();
            // The grace of the process is the one that counts.
            while own.finished().await != End::Drained {}
        });
        let needs = process.needs(&metrics)?;
        let contacts = process.watch(needs, self.membership.clone(), self.store.clone());
        let parts = echelon_shard::Parts {
            store: observed(self.store.clone(), &metrics, &process.readiness)?,
            membership: self.membership.clone(),
            clock: process.clock.clone(),
            metrics,
            readiness: process.readiness.clone(),
            contacts,
            build: BUILD.to_owned(),
            shutdown: process.shutdown.clone(),
        };
        let config = echelon_shard::Config {
            listen: Common::default().listen,
            advertise: None,
            cluster,
            mesos: shard::plain_mesos(&masters)?,
            holder: unique_name(),
            seed: rand::random(),
            timing: echelon_shard::DriverTiming {
                logs,
                ..Default::default()
            },
        };
        echelon_shard::serve(config, parts).await?;
        Ok(process.shutdown)
    }

    async fn serve_gateway(&self, listen: SocketAddr) -> Result<SocketAddr> {
        let mut config = echelon_gateway::Config::loopback(listen.port(), BUILD);
        config.listen = listen;
        let metrics = metrics_of(&[("role", "gateway")])?;
        let store = observed(self.store.clone(), &metrics, &self.process.readiness)?;
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
