//! What is under test, as the play sees it.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;

use crate::fault::Fault;
use crate::stored::Stored;

/// What a fault hits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Names of what is hit: processes, servers or links.
    pub names: Vec<String>,
    /// The cluster that suffers, if it is one alone.
    pub cluster: Option<String>,
}

/// Processes and servers that can be disturbed.
pub trait World {
    /// Where the API is served.
    fn gateways(&self) -> Vec<SocketAddr>;

    /// The masters by their clusters' names, past any proxy.
    ///
    /// # Errors
    /// They are not known.
    fn masters(&self) -> Result<Vec<(String, SocketAddr)>>;

    /// Its storage, where it can be read past the product while that runs.
    fn storage(&self) -> Option<Stored>;

    /// Logs of the simulated agents.
    fn agent_logs(&self) -> Vec<PathBuf>;

    /// Chooses what a fault hits now: each time it comes, another one of those that are alike.
    ///
    /// # Errors
    /// There is nothing to hit.
    fn target(&mut self, fault: Fault) -> Result<Target>;

    /// Why this machine cannot play a fault, if it cannot.
    fn cannot(&self, fault: Fault) -> Option<String>;

    /// Begins a fault.
    ///
    /// # Errors
    /// It cannot be done.
    fn begin(&mut self, fault: Fault, target: &Target) -> Result<()>;

    /// Ends a fault: what was stopped goes on or is started again.
    ///
    /// # Errors
    /// It cannot be done.
    fn end(&mut self, fault: Fault, target: &Target) -> Result<()>;

    /// Whether every process and server is there.
    ///
    /// # Errors
    /// The name of one that has ended by itself, with the end of its log.
    fn check(&mut self) -> Result<()>;
}
