//! Puts the process together: its cluster's row, its port, its candidacy, its loop.

use crate::gateways;
use crate::grpc::{self, KEEP_ALIVE, Service};
use crate::host_manager::{Addresses, HostManager, Mesos};
use crate::job_manager::{JobManager, QUEUE};
use crate::log::Logs;
use crate::measure::Measures;
use crate::register::{self, RegisterError};
use echelon_core_model::ClusterId;
use echelon_core_shard as core;
use echelon_io_changes::Publisher;
use echelon_io_membership::{Member, Membership, Office, Role};
use echelon_io_process::listener::{ConnectionLimits, ConnectionRefusals, GuardedPort};
use echelon_io_process::metrics::MetricError;
use echelon_io_process::{Clock, Contacts, Metrics, Readiness, Shutdown};
use echelon_io_storage::Store;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// After giving the leadership up, others may take it for this long before this process stands again.
const RECESS: Duration = Duration::from_secs(2);

/// What this process is told at its start.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the resource manager and gateways reach it.
    pub listen: SocketAddr,
    /// `host:port` by which others reach `listen`, where that is not the address itself.
    pub advertise: Option<String>,
    /// The cluster's name. It is waited for until a cluster of this name was added.
    pub cluster: String,
    /// Its Mesos.
    pub mesos: Mesos,
    /// Names this process among all, in storage and membership.
    pub holder: String,
    /// Start of its random streams.
    pub seed: u64,
    /// Spans and bounds of the driver.
    pub timing: core::Timing,
}

/// What this process works with.
#[derive(Clone)]
pub struct Parts {
    /// Where facts are kept.
    pub store: Arc<dyn Store>,
    /// Where the others are.
    pub membership: Arc<dyn Membership>,
    /// This process's time.
    pub clock: Clock,
    /// This role's metrics.
    pub metrics: Metrics,
    /// This process's conditions.
    pub readiness: Readiness,
    /// The membership servers and storage, as this role sees them.
    pub contacts: Contacts,
    /// This process's version and commit, for people.
    pub build: String,
    /// This process's end.
    pub shutdown: Shutdown,
}

/// A shard that is served.
#[derive(Debug, Clone)]
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    /// The id of its cluster.
    pub cluster: ClusterId,
}

/// It could not be started.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The port is taken, or may not be used.
    #[error("the shard of cluster {cluster} cannot listen on {address}: is another process there?")]
    Listen {
        /// Of which cluster.
        cluster: String,
        /// Where.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Others cannot reach an address that stands for all.
    #[error(
        "the shard listens on {0}, which names no machine: set `advertise` to the host:port that others reach it by"
    )]
    Advertise(SocketAddr),
    /// The cluster cannot be found.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// A mistake in this program.
    #[error(transparent)]
    Metric(#[from] MetricError),
}

/// Serves until the shutdown begins. Whether it leads is for the election to say. Returns once the cluster is known to
/// storage, which takes as long as storage does not answer.
///
/// # Errors
/// [`ServeError`].
pub async fn serve(config: Config, parts: Parts) -> Result<Running, ServeError> {
    let listen = |source| ServeError::Listen {
        cluster: config.cluster.clone(),
        address: config.listen,
        source,
    };
    let listener = TcpListener::bind(config.listen).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let reached_at = match &config.advertise {
        Some(text) => format!("http://{text}"),
        None if address.ip().is_unspecified() => return Err(ServeError::Advertise(address)),
        None => format!("http://{address}"),
    };
    let port = GuardedPort {
        listener,
        limits: ConnectionLimits::between_roles(KEEP_ALIVE),
        refusals: ConnectionRefusals::new(&parts.metrics)?,
    };
    let measures = Measures::new(&parts.metrics, parts.build.clone())?;
    let stop = parts.shutdown.token();
    let masters = config.mesos.masters.to_string();
    let known = parts.readiness.condition(
        &format!("row of cluster {}", config.cluster),
        &format!(
            "not found in storage yet; `echelon cluster add {}` adds it",
            config.cluster
        ),
    );
    let cluster = register::find(
        parts.store.as_ref(),
        &config.cluster,
        &masters,
        (config.seed, &stop),
    )
    .await?;
    known.ready();

    let (inbox, inputs) = mpsc::channel(QUEUE);
    let addresses = Addresses::default();
    let logs = Logs::new(&parts, cluster.clone(), (&config.mesos, addresses.clone()));
    let service = Service::new(inbox.clone(), logs.clone(), stop);
    let (told, contacts) = (measures.state(), parts.contacts.clone());
    let state = move || contacts.within(&told.borrow());
    let changed = Publisher::default();
    grpc::serve((service, changed.clone()), state, port, &parts.shutdown);
    let role = Role::Shard(cluster.clone());
    let member = Member {
        id: config.holder.clone(),
        address: reached_at.clone(),
    };
    let office = Office::stand(parts.membership.clone(), role.clone(), member, RECESS);
    let driver = core::Shard::new(core::Config {
        cluster: cluster.clone(),
        name: config.cluster,
        holder: config.holder,
        address: reached_at,
        seed: config.seed,
        timing: config.timing,
        reserves: config.mesos.framework.role != "*",
        replaced_framework: config.mesos.replaced_framework.clone(),
    });
    parts.shutdown.spawn(gateways::follow(
        parts.membership.clone(),
        inbox.clone(),
        parts.shutdown.token(),
    ));
    let hosts = HostManager::new(config.mesos, config.seed, addresses);
    let shutdown = parts.shutdown.clone();
    let job_manager = JobManager::new(
        (driver, measures),
        hosts,
        logs,
        inbox,
        (parts, cluster.clone()),
        changed,
    );
    shutdown.spawn(job_manager.run(role, office, inputs));
    Ok(Running { address, cluster })
}
