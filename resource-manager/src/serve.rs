//! Puts the process together: its port, its candidacy, its loop.

use crate::grpc::{self, Service};
use crate::measure::Measures;
use crate::run::{Loop, QUEUE};
use echelon_core_resource_manager as core;
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
    /// Where gateways reach it.
    pub listen: SocketAddr,
    /// `host:port` by which others reach `listen`, where that is not the address itself.
    pub advertise: Option<String>,
    /// Timings of the driver, and who it is.
    pub driver: core::Config,
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

/// A resource manager that is served.
#[derive(Debug, Clone, Copy)]
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
}

/// It could not be started.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The port is taken, or may not be used.
    #[error("the resource manager cannot listen on {address}: is another process there?")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Others cannot reach an address that stands for all.
    #[error(
        "the resource manager listens on {0}, which names no machine: set `advertise` to the host:port that others reach it by"
    )]
    Advertise(SocketAddr),
    /// A mistake in this program.
    #[error(transparent)]
    Metric(#[from] MetricError),
}

/// Serves until the shutdown begins. Whether it leads is for the election to say.
///
/// # Errors
/// [`ServeError`].
pub async fn serve(config: Config, parts: Parts) -> Result<Running, ServeError> {
    let listen = |source| ServeError::Listen {
        address: config.listen,
        source,
    };
    let listener = TcpListener::bind(config.listen).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let reached_at = match config.advertise {
        Some(text) => text,
        None if address.ip().is_unspecified() => return Err(ServeError::Advertise(address)),
        None => address.to_string(),
    };
    let port = GuardedPort {
        listener,
        limits: ConnectionLimits::of_process(),
        refusals: ConnectionRefusals::new(&parts.metrics)?,
    };
    let measures = Measures::new(&parts.metrics, parts.build.clone())?;
    let (inbox, inputs) = mpsc::channel(QUEUE);
    let (told, contacts) = (measures.state(), parts.contacts.clone());
    let state = move || contacts.within(&told.borrow());
    let changed = Publisher::default();
    grpc::serve(
        (Service::new(inbox.clone(), parts.clock.clone()), changed.clone()),
        state,
        port,
        &parts.shutdown,
    );
    let member = Member {
        id: config.driver.holder.clone(),
        address: format!("http://{reached_at}"),
    };
    let office = Office::stand(parts.membership.clone(), Role::ResourceManager, member, RECESS);
    let seed = config.driver.seed;
    let driver = core::ResourceManager::new(config.driver);
    let shutdown = parts.shutdown.clone();
    shutdown.spawn(Loop::new(driver, parts, measures, (inbox, seed), changed).run(office, inputs));
    Ok(Running { address })
}
