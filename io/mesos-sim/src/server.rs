//! Puts a simulated cluster together: its work folder, its records, its agents and their ports, its master's port.

use crate::agent::{self, AgentApi};
use crate::authentication::Credentials;
use crate::config::{AgentShape, Config, Exec, Mode, ServeError};
use crate::engine::Engine;
use crate::exec::{Runner, Sandbox, kill_all};
use crate::host_ports::HostPorts;
use crate::http;
use crate::journal::Journal;
use crate::operator;
use echelon_io_process::{Clock, Shutdown};
use echelon_sim_mesos::{AgentId, Cluster, Config as ClusterConfig, Executors};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, TryLockError};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;

/// Where virtual agents say that they listen.
const VIRTUAL_PORT: u16 = 5051;

/// A cluster that is served.
pub struct Running {
    /// Where its master listens.
    pub address: SocketAddr,
    /// Where its agents listen; none in virtual mode, where there are no files to ask for.
    pub agents: Vec<(AgentId, SocketAddr)>,
    engine: Arc<Engine>,
    /// Held as long as the work folder is in use.
    _lock: Option<Lock>,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("address", &self.address)
            .field("agents", &self.agents)
            .finish_non_exhaustive()
    }
}

impl Running {
    /// Breaks every framework's stream, as a network would.
    pub fn cut_streams(&self) {
        self.engine.cut_streams();
    }

    /// How many tasks the master tracks: those that live, and those whose end is not acknowledged.
    #[must_use]
    pub fn n_tracked(&self) -> usize {
        self.engine.view(Cluster::n_tracked)
    }

    /// What goes on when this process ends, and how it is ended; `None` where nothing does.
    #[must_use]
    pub fn left_behind(&self) -> Option<String> {
        let root = self.engine.home.root.as_ref()?;
        let n_live = self.engine.view(|cluster| {
            let agents = cluster.agent_ids();
            agents.map(|agent| cluster.live_runs(agent).len()).sum::<usize>()
        });
        let folder = root.display();
        (n_live > 0).then(|| {
            format!(
                "{n_live} tasks go on; start a simulated cluster with the work folder {folder} to have them managed again, or end \
                 them with: pkill -f 'mesos-sim-supervise {folder}/'"
            )
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.engine.home.ports.release();
    }
}

/// Serves a simulated cluster until `shutdown` begins. Tasks in exec mode live on then; serving the same work folder again
/// takes them over.
///
/// # Errors
/// `ServeError` when a port or the work folder cannot be used.
pub async fn serve(config: Config, shutdown: &Shutdown) -> Result<Running, ServeError> {
    let clock = Clock::new();
    let listener = http::listen(config.listen).await?;
    let address = local(&listener, config.listen)?;
    let kept = match &config.mode {
        Mode::Virtual(_) => None,
        Mode::Exec(exec) => Some(Kept::open(exec)?),
    };
    let (journal, records, lock, runner) = match kept {
        Some(Kept {
            journal,
            records,
            lock,
            exec,
        }) => (Some(journal), records, Some(lock), Some(Runner::new(exec))),
        None => (None, BTreeMap::new(), None, None),
    };
    let cluster = Cluster::recover(
        cluster_config(&config, address),
        config.seed,
        records,
        clock.now(),
    );
    let cluster = cluster.map_err(|source| ServeError::Records {
        path: work_dir(&config),
        source,
    })?;
    let home = Home::of(&config);
    let engine = Engine::new(
        cluster,
        (journal, runner, home),
        (config.stream_bound, clock),
        shutdown,
    );
    let agents = start_agents(&engine, &config, shutdown).await?;
    shutdown.spawn(engine.clone().keep_time());
    let credentials = (
        Arc::new(Credentials(config.credentials)),
        Arc::new(Credentials(config.operators)),
    );
    let served = engine.clone();
    http::serve(
        listener,
        move |request| operator::handle(served.clone(), credentials.clone(), request),
        shutdown,
    );
    Ok(Running {
        address,
        agents,
        engine,
        _lock: lock,
    })
}

/// Kills all that runs in the work folder of a cluster that is not served: the loss of all its hosts at once.
/// Nothing notes an end, so the agents report these tasks as failed when the folder is served again. Returns
/// how many runs lived.
///
/// # Errors
/// `ServeError::Locked` while it is served, `ServeError::WorkDir` when the folder cannot be read or a process
/// is still there after 5 s.
pub async fn power_off(work_dir: &Path) -> Result<usize, ServeError> {
    let _lock = Lock::take(work_dir)?;
    let killed = kill_all(work_dir).await;
    killed.map_err(|source| ServeError::WorkDir {
        path: work_dir.to_owned(),
        source,
    })
}

/// What is kept in a work folder.
struct Kept {
    journal: Journal,
    records: BTreeMap<String, Vec<u8>>,
    lock: Lock,
    exec: Exec,
}

impl Kept {
    fn open(exec: &Exec) -> Result<Self, ServeError> {
        let folder = &exec.work_dir;
        let failed = |source| ServeError::WorkDir {
            path: folder.clone(),
            source,
        };
        std::fs::create_dir_all(folder).map_err(failed)?;
        // Tasks get this path, and find it from their own folders.
        let folder = folder.canonicalize().map_err(failed)?;
        let lock = Lock::take(&folder)?;
        let (journal, records) = Journal::open(&folder).map_err(failed)?;
        Ok(Self {
            journal,
            records,
            lock,
            exec: Exec {
                work_dir: folder,
                ..exec.clone()
            },
        })
    }
}

/// A work folder's lock. A process that is just being started may share the file for a moment, so giving it up is said.
#[derive(Debug)]
struct Lock(File);

impl Lock {
    fn take(folder: &Path) -> Result<Self, ServeError> {
        let failed = |source| ServeError::WorkDir {
            path: folder.to_owned(),
            source,
        };
        let lock = File::create(folder.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self(lock)),
            Err(TryLockError::WouldBlock) => Err(ServeError::Locked(folder.to_owned())),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file does the same, only perhaps later.
        let _ = self.0.unlock();
    }
}

fn cluster_config(config: &Config, address: SocketAddr) -> ClusterConfig {
    let executors = match &config.mode {
        Mode::Virtual(how) => Executors::Virtual(how.clone()),
        Mode::Exec(_) => Executors::External,
    };
    let reached_at = config.reached_at.unwrap_or_else(|| address.ip());
    ClusterConfig {
        hostname: reached_at.to_string(),
        ip: match reached_at {
            IpAddr::V4(ip) => ip.octets(),
            IpAddr::V6(_) => [127, 0, 0, 1],
        },
        port: address.port(),
        allocation_interval: config.allocation_interval,
        durable: matches!(config.mode, Mode::Exec(_)),
        executors,
        ..ClusterConfig::default()
    }
}

fn work_dir(config: &Config) -> std::path::PathBuf {
    match &config.mode {
        Mode::Exec(exec) => exec.work_dir.clone(),
        Mode::Virtual(_) => std::path::PathBuf::new(),
    }
}

/// Where agents are started, also later.
#[derive(Debug)]
pub(crate) struct Home {
    cluster: String,
    ip: IpAddr,
    /// By which address others reach them.
    reached_at: IpAddr,
    /// Their folder; none in virtual mode.
    root: Option<PathBuf>,
    /// What one that joins is like.
    shape: Option<AgentShape>,
    /// Which ports its hosts have.
    ports: HostPorts,
}

impl Home {
    fn of(config: &Config) -> Self {
        let root = match &config.mode {
            Mode::Virtual(_) => None,
            Mode::Exec(exec) => Some(
                exec.work_dir
                    .canonicalize()
                    .unwrap_or_else(|_| exec.work_dir.clone()),
            ),
        };
        Self {
            cluster: config.cluster.clone(),
            ip: config.listen.ip(),
            reached_at: config.reached_at.unwrap_or_else(|| config.listen.ip()),
            shape: config.agents.first().cloned(),
            ports: HostPorts::of(&config.cluster, root.as_deref()),
            root,
        }
    }
}

/// Starts an agent that joins a cluster which is served: like the first one, with a host name of its own.
///
/// # Errors
/// `ServeError` when no port can be used, or the work folder.
pub(crate) async fn join(engine: &Arc<Engine>, hostname: String) -> Result<(), ServeError> {
    let number = engine.view(|cluster| cluster.agent_ids().count());
    let Some(shape) = &engine.home.shape else {
        return Ok(());
    };
    let shape = AgentShape {
        hostname: Some(hostname),
        ..shape.clone()
    };
    start_agent(engine, &shape, number).await.map(|_| ())
}

/// Starts an agent; in virtual mode it listens nowhere.
async fn start_agent(
    engine: &Arc<Engine>,
    shape: &AgentShape,
    number: usize,
) -> Result<(AgentId, SocketAddr), ServeError> {
    let any = SocketAddr::new(engine.home.ip, 0);
    let Some(root) = &engine.home.root else {
        let spec = shape.spec(&engine.home.cluster, number, VIRTUAL_PORT);
        return Ok((engine.with(|cluster, now| cluster.add_agent(spec, now)), any));
    };
    let listener = http::listen(any).await?;
    let address = local(&listener, any)?;
    let mut spec = shape.spec(&engine.home.cluster, number, address.port());
    spec.ip = engine.home.reached_at.to_string();
    let (first, last) = engine.home.ports.take()?;
    spec.resources = spec.resources.with_only_ports(first.into(), last.into());
    let id = engine.with(|cluster, now| cluster.add_agent(spec, now));
    serve_agent(engine, (&id, root), listener, &engine.shutdown)?;
    Ok((id, address))
}

/// Starts the agents that the records know, or the configured ones.
async fn start_agents(
    engine: &Arc<Engine>,
    config: &Config,
    shutdown: &Shutdown,
) -> Result<Vec<(AgentId, SocketAddr)>, ServeError> {
    let known: Vec<AgentId> = engine.view(|cluster| cluster.agent_ids().cloned().collect());
    let mut agents = Vec::new();
    for id in &known {
        let any = SocketAddr::new(config.listen.ip(), 0);
        let listener = http::listen(any).await?;
        let address = local(&listener, any)?;
        if let Some(first) = engine.view(|cluster| cluster.first_port(id)) {
            engine.home.ports.take_again(first);
        }
        resume(engine, id, address.port());
        if let Some(root) = &engine.home.root {
            serve_agent(engine, (id, root), listener, shutdown)?;
        }
        agents.push((id.clone(), address));
    }
    if known.is_empty() {
        for (number, shape) in config.agents.iter().enumerate() {
            agents.push(start_agent(engine, shape, number).await?);
        }
    }
    if matches!(config.mode, Mode::Virtual(_)) {
        agents.clear();
    }
    Ok(agents)
}

/// An agent comes back: first its runs are settled, then it registers, as a real one does.
fn resume(engine: &Arc<Engine>, id: &AgentId, port: u16) {
    let ip = engine.home.reached_at.to_string();
    let runs = engine.with(|cluster, _| {
        cluster.move_agent(id, &ip, port);
        cluster.live_runs(id)
    });
    if let Some(runner) = &engine.runner {
        for (run, _) in runs {
            runner.adopt(engine, &run);
        }
    }
    engine.with(|cluster, now| cluster.start_agent(id, now));
}

fn serve_agent(
    engine: &Arc<Engine>,
    (id, work_dir): (&AgentId, &Path),
    listener: TcpListener,
    shutdown: &Shutdown,
) -> Result<(), ServeError> {
    let root = Sandbox::agent_folder(work_dir, id);
    std::fs::create_dir_all(&root).map_err(|source| ServeError::WorkDir {
        path: root.clone(),
        source,
    })?;
    let api = AgentApi {
        engine: engine.clone(),
        id: id.clone(),
        root,
    };
    http::serve(
        listener,
        move |request| agent::handle(api.clone(), request),
        shutdown,
    );
    Ok(())
}

fn local(listener: &TcpListener, asked: SocketAddr) -> Result<SocketAddr, ServeError> {
    listener.local_addr().map_err(|source| ServeError::Listen {
        address: asked,
        source,
    })
}
