//! The roles as commands: flags over a configuration file, and what each starts.

#[cfg(test)]
mod deploy_tests;
mod gateway;
#[cfg(test)]
mod handover_tests;
mod kept_logs;
mod losses;
pub(crate) mod mesos_sim;
mod options;
mod preemption;
mod resource_manager;
pub(crate) mod shard;
mod standalone;
mod timeouts;

pub use gateway::GatewayOptions;
pub use mesos_sim::MesosSimOptions;
pub use options::{Configured, Options, WrongOption};
pub use resource_manager::ResourceManagerOptions;
pub use shard::ShardOptions;
pub use standalone::StandaloneOptions;
pub use timeouts::TimeoutOptions;

use anyhow::Result;
use clap::Subcommand;

/// Everything that a process of Echelon can be.
#[derive(Debug, Subcommand)]
pub enum Role {
    /// Run everything in this process, with simulated or real clusters
    Standalone(Configured<StandaloneOptions>),
    /// Serve the public API
    Gateway(Configured<GatewayOptions>),
    /// Decide how much of each job may run, and on which clusters
    ResourceManager(Configured<ResourceManagerOptions>),
    /// Drive one Mesos cluster
    Shard(Box<Configured<ShardOptions>>),
    /// Serve a simulated Mesos cluster, for development and tests
    MesosSim(Configured<MesosSimOptions>),
    /// Supervise one task of a simulated cluster
    #[command(hide = true)]
    MesosSimSupervise {
        /// The folder of its run
        folder: String,
    },
}

impl Role {
    /// Runs until the process is told to end.
    ///
    /// # Errors
    /// It could not be started, or did not end cleanly.
    pub async fn run(self) -> Result<()> {
        match self {
            Self::Standalone(options) => standalone::run(options.resolve()?).await,
            Self::Gateway(options) => gateway::run(options.resolve()?).await,
            Self::ResourceManager(options) => resource_manager::run(options.resolve()?).await,
            Self::Shard(options) => shard::run((*options).resolve()?).await,
            Self::MesosSim(options) => mesos_sim::run(options.resolve()?).await,
            // `main` does this without a runtime.
            Self::MesosSimSupervise { .. } => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
