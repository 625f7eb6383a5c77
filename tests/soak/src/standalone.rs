//! One process over embedded storage, with simulated clusters in it.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use echelon_tests::http;
use echelon_tests::net::LoopbackNet;
use echelon_tests::process::{Process, Role};
use echelon_tests::work::WorkFolder;
use serde_json::json;

use crate::clock::Clock;
use crate::disk::Disk;
use crate::expect::expect;
use crate::fault::{Action, Fault};
use crate::federation::{SLOW, disturb, mend};
use crate::recorder::Recorder;
use crate::stored::Stored;
use crate::world::{Target, World};

/// How long a start may take until it has refused its file.
const REFUSES_WITHIN: Duration = Duration::from_secs(60);

/// Pools that are added before the time is looked at.
const ADDED_AT_ONCE: u32 = 50;

/// The standalone shape.
pub struct Standalone {
    process: Process,
    clock: Clock,
    /// The disk of its data folder, or why it has none. After the process, which ends first.
    disk: Result<Disk, String>,
    recorder: Arc<Recorder>,
    /// Pools that were asked for, to have something written.
    n_pools: u32,
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
    pub fn start(recorder: &Arc<Recorder>) -> Result<Self> {
        let (net, work) = (LoopbackNet::take()?, WorkFolder::new("soak")?);
        let address = SocketAddr::from(net.socket(1, 7070));
        let data = work.folder("data")?;
        let disk = Disk::mount(&work.path().join("data.disk"), &data).map_err(|error| format!("{error:#}"));
        let args = [
            "standalone".to_owned(),
            "--listen".to_owned(),
            address.to_string(),
            "--data-dir".to_owned(),
            data.display().to_string(),
        ];
        let clock = Clock::of(work.path(), "standalone", 0)?;
        let process = Role::new("standalone")
            .args(args)
            .env("ECHELON_CLOCK_OFFSET_FILE", &clock.file().to_string_lossy())
            .ready_at(address)
            .start(&work)?;
        Ok(Self {
            process,
            clock,
            disk,
            address,
            recorder: recorder.clone(),
            n_pools: 0,
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

    fn storage(&self) -> PathBuf {
        self.work.path().join("data/storage")
    }

    /// Where the good file is while it is away or damaged.
    fn kept(&self) -> PathBuf {
        self.work.path().join("data/storage.kept")
    }

    /// Files that the process writes may have so many bytes.
    fn limit(&mut self, bytes: &str) -> Result<()> {
        let pid = self.process.server().pid().context("it does not run")?;
        let set = Command::new("prlimit")
            .args(["--pid", &pid.to_string()])
            .arg(format!("--fsize={bytes}:unlimited"))
            .status()
            .context("run prlimit")?;
        ensure!(set.success(), "prlimit refuses the limit: {set}");
        Ok(())
    }

    fn disk(&self) -> Result<&Disk> {
        let disk = self.disk.as_ref();
        disk.map_err(|why| anyhow::anyhow!("the data folder has no disk of its own: {why}"))
    }

    /// Asks for one pool more, of which nothing but its row comes: status and answer.
    fn add_pool(&mut self) -> Result<(u16, String)> {
        self.n_pools += 1;
        // long names fill what room the file has left
        let path = format!("/filler-{}-{}", self.n_pools, "x".repeat(40));
        http::post(self.address, "/v1/pools", &json!({"path": path}))
    }

    /// Changes are asked for until one meets the limit: it has to be refused with a sentence, and readiness has to say
    /// why.
    fn meets_the_limit(&mut self) -> Result<()> {
        let (recorder, address) = (self.recorder.clone(), self.address);
        expect(
            &recorder,
            "a change meets the limit and is refused with a sentence",
            || {
                for _ in 0..ADDED_AT_ONCE {
                    let (status, body) = self.add_pool()?;
                    if status != 200 {
                        return Ok((body.contains("storage is full"), format!("{status} {body}")));
                    }
                }
                Ok((false, format!("{} pools were added", self.n_pools)))
            },
        )?;
        expect(&recorder, "it says that it is not ready, and why", || {
            let (status, body) = http::get(address, "/readyz")?;
            let says = status == 503 && body.contains("storage is full");
            Ok((says, format!("{status} {body}")))
        })
    }

    /// Changes have to be taken again by the same process.
    fn takes_changes_again(&mut self, before: Option<u32>) -> Result<()> {
        let (recorder, address) = (self.recorder.clone(), self.address);
        expect(&recorder, "a change is taken again", || {
            let (status, body) = self.add_pool()?;
            Ok((status == 200, format!("{status} {body}")))
        })?;
        let server = self.process.server();
        expect(&recorder, "it is ready again without a restart", || {
            let (status, _) = http::get(address, "/readyz")?;
            let is_same = server.is_running()? && server.pid() == before;
            Ok((status == 200 && is_same, format!("{status}, process {before:?}")))
        })
    }

    /// Starts it on the file that is there now. It has to end with exit code 1 and a sentence that has
    /// `expected`.
    fn is_refused(&mut self, expected: &str) -> Result<()> {
        let server = self.process.server();
        server.start_again()?;
        let status = server.wait_for_end(REFUSES_WITHIN)?;
        let log = server.log_tail();
        let lines = log.lines().rev();
        let told = lines.take_while(|line| !line.starts_with("--- start"));
        let told: Vec<&str> = told.collect();
        ensure!(status.code() == Some(1), "the start ended with {status}:\n{log}");
        ensure!(
            told.iter().any(|line| line.contains(expected)),
            "the start did not say `{expected}`:\n{log}"
        );
        ensure!(
            !told.iter().any(|line| line.contains("panicked")),
            "the start panicked:\n{log}"
        );
        Ok(())
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

    // its file is of one process alone
    fn storage(&self) -> Option<Stored> {
        None
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

    fn cannot(&self, fault: Fault) -> Option<String> {
        let no_disk = self.disk.as_ref().err();
        no_disk.filter(|_| fault.action == Action::SlowDisk).cloned()
    }

    fn begin(&mut self, fault: Fault, _target: &Target) -> Result<()> {
        self.clock.moved(fault.action.clock())?;
        let (storage, kept) = (self.storage(), self.kept());
        match fault.action {
            Action::FullDisk => {
                self.limit(&fs::metadata(storage)?.len().to_string())?;
                self.meets_the_limit()
            }
            Action::SlowDisk => self.disk()?.slow(Some(SLOW)),
            Action::DamagedFile => {
                self.process.kill()?;
                let good = fs::read(&storage)?;
                fs::rename(&storage, &kept)?;
                fs::write(&storage, good.get(..good.len() / 2).unwrap_or_default())?;
                self.is_refused("is damaged")
            }
            Action::MissingFile => {
                self.process.kill()?;
                fs::rename(&storage, &kept)?;
                self.is_refused("is missing or empty")
            }
            action => disturb(self.process.server(), action),
        }
    }

    fn end(&mut self, fault: Fault, _target: &Target) -> Result<()> {
        self.clock.moved(0)?;
        match fault.action {
            Action::FullDisk => {
                let before = self.process.server().pid();
                self.limit("unlimited")?;
                self.takes_changes_again(before)
            }
            Action::SlowDisk => self.disk()?.slow(None),
            Action::DamagedFile | Action::MissingFile => {
                fs::rename(self.kept(), self.storage())?;
                self.process.server().start_again()
            }
            action => mend(self.process.server(), action),
        }
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
