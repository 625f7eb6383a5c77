//! What a simulated cluster is served with, and why it could not be.

use echelon_sim_mesos::Span;
use echelon_sim_mesos::{AgentSpec, Bundle, RecoverError, Virtual};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use thiserror::Error;

/// A simulated cluster.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the master listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// By which address of this machine others reach the master and the agents; the one that it listens on if
    /// left out.
    pub reached_at: Option<IpAddr>,
    /// The cluster's name, part of its hosts' names.
    pub cluster: String,
    /// The agents' shapes. A work folder that knows agents keeps them, and this counts only for the first
    /// start. With processes each agent offers ports of its own in place of its shape's.
    pub agents: Vec<AgentShape>,
    /// How tasks are run.
    pub mode: Mode,
    /// Time between two batches of offers.
    pub allocation_interval: Span,
    /// Principals and their secrets. Where there are any, every scheduler request needs them (rule R5).
    pub credentials: Vec<(String, String)>,
    /// The same for operators, at the master's operator API. What is signed by nobody or not by one of them is refused.
    pub operators: Vec<(String, String)>,
    /// Events that may wait for a slow reader before its stream is cut (S27).
    pub stream_bound: usize,
    /// What random ids are made from; a cluster that is started again should get another.
    pub seed: u64,
}

/// An agent's shape.
#[derive(Debug, Clone)]
pub struct AgentShape {
    /// Its host's name; `None` makes one of the cluster's name and its number.
    pub hostname: Option<String>,
    /// All it has.
    pub resources: Bundle,
    /// Attributes with text values, in order.
    pub attributes: Vec<(String, String)>,
}

/// How tasks are run.
#[derive(Debug, Clone)]
pub enum Mode {
    /// In virtual time, without processes, files and memory over restarts.
    Virtual(Virtual),
    /// As real processes under supervisors that outlive this one.
    Exec(Exec),
}

/// How real processes are run.
#[derive(Debug, Clone)]
pub struct Exec {
    /// The folder of sandboxes and of what is kept over a restart.
    pub work_dir: PathBuf,
    /// The program and the arguments before the run's folder that end in [`crate::supervise`]:
    /// `echelon mesos-sim-supervise`.
    pub supervisor: Vec<String>,
    /// The file that gets a line of JSON for each begin and end of a task's process; none: no such log.
    pub run_log: Option<PathBuf>,
}

/// A simulated cluster could not be served.
#[derive(Debug, Error)]
pub enum ServeError {
    /// A port is taken, or may not be used.
    #[error("cannot listen on {address}; is another mesos-sim running there?")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// The work folder cannot be used.
    #[error("cannot use the work folder {}", path.display())]
    WorkDir {
        /// Which.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// Another process uses the work folder.
    #[error("the work folder {} is in use by another mesos-sim; stop it or choose another folder", .0.display())]
    Locked(PathBuf),
    /// All ports that simulated hosts may have are taken.
    #[error(
        "no ports are free for another simulated host of this machine: end other simulated clusters, or use fewer agents"
    )]
    NoPorts,
    /// The records in the work folder cannot be read.
    #[error("the work folder {} holds records that cannot be read", path.display())]
    Records {
        /// Which folder.
        path: PathBuf,
        /// Which record.
        #[source]
        source: RecoverError,
    },
}

impl AgentShape {
    /// The CPUs, memory, disk and ports of a small host, as `demo` uses it.
    #[must_use]
    pub fn small() -> Self {
        Self {
            hostname: None,
            resources: Bundle::of(4, 4096, 16_384).with_ports(31_000, 31_999),
            attributes: Vec::new(),
        }
    }

    pub(crate) fn spec(&self, cluster: &str, number: usize, port: u16) -> AgentSpec {
        let hostname = self
            .hostname
            .clone()
            .unwrap_or_else(|| format!("{cluster}-host-{number}"));
        let mut spec = AgentSpec::new(hostname, self.resources.clone());
        spec.port = port;
        let attributes = self.attributes.iter();
        spec.attributes = attributes
            .map(|(name, value)| echelon_sim_mesos::text_attribute(name, value))
            .collect();
        spec
    }
}
