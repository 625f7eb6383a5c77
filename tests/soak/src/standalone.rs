//! One process over embedded storage, with simulated clusters in it.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use echelon_tests::net::LoopbackNet;
use echelon_tests::process::{Process, Role};
use echelon_tests::work::WorkFolder;

use crate::fault::Fault;
use crate::federation::{clock_file, disturb, mend};
use crate::world::{Target, World};

/// The standalone shape.
pub struct Standalone {
    process: Process,
    address: SocketAddr,
    _net: LoopbackNet,
    // last, so that the process is gone before its files
    work: WorkFolder,
}

impl Standalone {
    /// Starts it and waits until it is ready.
    ///
    /// # Errors
    /// It does not start; the error has the end of its log.
    pub fn start() -> Result<Self> {
        let (net, work) = (LoopbackNet::take()?, WorkFolder::new("soak")?);
        let address = SocketAddr::from(net.socket(1, 7070));
        let data = work.folder("data")?;
        let args = [
            "standalone".to_owned(),
            "--listen".to_owned(),
            address.to_string(),
            "--data-dir".to_owned(),
            data.display().to_string(),
        ];
        let clock = clock_file(&work, "standalone");
        let process = Role::new("standalone")
            .args(args)
            .env("ECHELON_CLOCK_OFFSET_FILE", &clock.to_string_lossy())
            .ready_at(address)
            .start(&work)?;
        Ok(Self {
            process,
            address,
            _net: net,
            work,
        })
    }

    /// A folder for what belongs to this world and dies with it.
    ///
    /// # Errors
    /// The file system's.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        self.work.folder(name)
    }
}

impl World for Standalone {
    fn gateways(&self) -> Vec<SocketAddr> {
        vec![self.address]
    }

    fn masters(&self) -> Result<Vec<(String, SocketAddr)>> {
        let mut masters = Vec::new();
        for cluster in ["east", "west"] {
            let file = self.work.path().join(format!("data/mesos/{cluster}.address"));
            let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
            masters.push((cluster.to_owned(), text.trim().parse()?));
        }
        Ok(masters)
    }

    fn agent_logs(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn target(&mut self, _fault: Fault) -> Result<Target> {
        Ok(Target {
            names: vec!["standalone".to_owned()],
            cluster: None,
        })
    }

    fn begin(&mut self, fault: Fault, _target: &Target) -> Result<()> {
        let clock = clock_file(&self.work, "standalone");
        disturb(self.process.server(), fault.action, &clock)
    }

    fn end(&mut self, fault: Fault, _target: &Target) -> Result<()> {
        let clock = clock_file(&self.work, "standalone");
        mend(self.process.server(), fault.action, &clock)
    }

    fn check(&mut self) -> Result<()> {
        let server = self.process.server();
        ensure!(
            server.is_running()?,
            "the process has ended by itself; the end of its log:\n{}",
            server.log_tail()
        );
        Ok(())
    }
}
