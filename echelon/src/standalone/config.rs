//! What a federation in one process consists of.

use crate::process::unique_name;
use echelon_resource_manager::DriverConfig;
use echelon_shard::LogLimits;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// How a simulated cluster runs tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tasks {
    /// As real processes of this machine, which outlive this one.
    Processes,
    /// Not at all: they only count.
    Virtual,
}

/// A cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cluster {
    /// A simulated one.
    Simulated {
        /// Its name.
        name: String,
        /// Hosts of 4 CPUs and 4 GiB.
        hosts: usize,
        /// How it runs tasks.
        tasks: Tasks,
    },
    /// A real one.
    Real {
        /// Its name.
        name: String,
        /// `host:port`, several with commas between them.
        masters: String,
    },
}

/// What a federation in one process consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Folder of everything that is kept.
    pub data_dir: PathBuf,
    /// Where the gateway listens.
    pub listen: SocketAddr,
    /// Where state is kept, as a URL; a file in the data folder if nothing is said.
    pub storage: Option<String>,
    /// The clusters.
    pub clusters: Vec<Cluster>,
    /// How its resource manager decides.
    pub manager: DriverConfig,
    /// How much its shards keep of what ended runs have written.
    pub logs: LogLimits,
}

/// A simulated cluster of three hosts that runs real processes.
fn small(name: &str) -> Cluster {
    Cluster::Simulated {
        name: name.to_owned(),
        hosts: 3,
        tasks: Tasks::Processes,
    }
}

impl Cluster {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Simulated { name, .. } | Self::Real { name, .. } => name,
        }
    }
}

impl Config {
    /// Two simulated clusters of three hosts, with real processes, on a free port.
    #[must_use]
    pub fn new(data_dir: &Path) -> Self {
        Self {
            data_dir: data_dir.to_owned(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            storage: None,
            clusters: ["east", "west"].map(small).into(),
            manager: DriverConfig::new(unique_name(), rand::random()),
            logs: LogLimits::default(),
        }
    }

    /// As `echelon demo` runs it.
    #[must_use]
    pub fn demo(data_dir: &Path) -> Self {
        Self::new(data_dir)
    }

    /// As `echelon demo --scenario cluster-loss` runs it: one of three clusters may be silent before the
    /// resource manager doubts its own observation.
    #[must_use]
    pub fn cluster_loss(data_dir: &Path) -> Self {
        let mut config = Self::new(data_dir);
        config.clusters = ["east", "north", "west"].map(small).into();
        config
    }

    /// As `echelon bench` runs it: two clusters with room for `instances` small tasks.
    #[must_use]
    pub fn bench(data_dir: &Path, instances: u32, is_virtual: bool) -> Self {
        let mut config = Self::new(data_dir);
        config.simulate(if is_virtual {
            Tasks::Virtual
        } else {
            Tasks::Processes
        });
        // 40 tasks of 0.1 CPU fill a host; a tenth is left free, and each cluster takes half.
        let wanted = usize::try_from(instances.div_ceil(72)).unwrap_or(3).max(3);
        for cluster in &mut config.clusters {
            if let Cluster::Simulated { hosts, .. } = cluster {
                *hosts = wanted;
            }
        }
        config
    }

    /// As `echelon bench mesos` runs it: one cluster with room for so many small virtual tasks, state in memory.
    #[must_use]
    pub fn bench_mesos(data_dir: &Path, tasks: u32) -> Self {
        let cluster = Cluster::Simulated {
            name: "east".to_owned(),
            hosts: usize::try_from(tasks.div_ceil(36)).unwrap_or(3).max(3),
            tasks: Tasks::Virtual,
        };
        Self {
            storage: Some("memory:".to_owned()),
            clusters: vec![cluster],
            ..Self::new(data_dir)
        }
    }

    /// The hosts of each simulated cluster.
    #[must_use]
    pub fn simulated_hosts(&self) -> Vec<usize> {
        let hosts = |cluster: &Cluster| match cluster {
            Cluster::Simulated { hosts, .. } => Some(*hosts),
            Cluster::Real { .. } => None,
        };
        self.clusters.iter().filter_map(hosts).collect()
    }

    /// Lets every simulated cluster run tasks this way.
    pub fn simulate(&mut self, how: Tasks) {
        for cluster in &mut self.clusters {
            if let Cluster::Simulated { tasks, .. } = cluster {
                *tasks = how;
            }
        }
    }
}
