//! A real Mesos: three masters that elect through a ZooKeeper, and agents that run tasks as processes.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::net::LoopbackNet;
use crate::server::{Launch, Server};
use crate::work::WorkFolder;
use crate::{http, wait};

/// Names a folder with the programs of Mesos 1.12: what was given to its build as prefix.
pub const MESOS: &str = "ECHELON_TEST_MESOS";

/// Where an installation may keep its programs.
const FOLDERS: [&str; 4] = ["sbin", "bin", "libexec/mesos", "."];

/// What an agent starts besides itself; all of it lies in one folder.
const LAUNCHED: [&str; 3] = ["mesos-containerizer", "mesos-fetcher", "mesos-executor"];

/// What runs tasks for it; the second only where a task comes with others.
const EXECUTORS: [&str; 2] = ["mesos-executor", "mesos-default-executor"];

/// How long an executor lives on without its agent.
const RECOVERY: &str = "45secs";

const N_MASTERS: u8 = 3;
const MASTER_PORT: u16 = 5050;
const AGENT_PORT: u16 = 5051;

/// A build without optimisation on a machine that compiles beside it.
const SERVES_WITHIN: Duration = Duration::from_secs(120);

/// A master that loses its session with ZooKeeper ends by itself. It is started again after this time, as what
/// watches over services does.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The programs of an installed Mesos.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MesosPrograms {
    master: PathBuf,
    agent: PathBuf,
    launcher: PathBuf,
    libraries: PathBuf,
}

impl MesosPrograms {
    /// Those of the folder that [`MESOS`] names.
    ///
    /// # Errors
    /// The variable is not set, or the folder lacks a program; one sentence.
    pub fn find() -> Result<Self> {
        let folder = std::env::var_os(MESOS);
        let folder = folder.with_context(|| {
            format!("{MESOS} is not set: it has to name a folder with the programs of Mesos (mesos-master, mesos-agent)")
        })?;
        Self::of(Path::new(&folder))
    }

    /// Those of a folder.
    ///
    /// # Errors
    /// It lacks one; one sentence that names it.
    pub fn of(folder: &Path) -> Result<Self> {
        let program = |name: &str| -> Result<PathBuf> {
            let places = FOLDERS.map(|place| folder.join(place).join(name));
            let found = places.iter().find(|path| path.is_file());
            found
                .and_then(|path| path.canonicalize().ok())
                .with_context(|| format!("{MESOS}={}: there is no {name}", folder.display()))
        };
        let [containerizer, others @ ..] = LAUNCHED;
        let launcher = program(containerizer)?;
        let launcher = launcher
            .parent()
            .context("a program without a folder")?
            .to_owned();
        for name in others {
            ensure!(
                launcher.join(name).is_file(),
                "{MESOS}={}: there is no {name} beside {containerizer}",
                folder.display()
            );
        }
        Ok(Self {
            master: program("mesos-master")?,
            agent: program("mesos-agent")?,
            launcher,
            libraries: folder.join("lib"),
        })
    }
}

/// A process of a [`Mesos`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MesosMember {
    /// A master, from 0.
    Master(usize),
    /// An agent, from 0.
    Agent(usize),
}

/// What an agent starts for each task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Executors {
    /// Those of its Mesos.
    Good,
    /// This script in the place of each of them.
    Script(String),
}

struct Member {
    server: Server,
    address: SocketAddr,
    /// A test disturbs it, so that its end is not answered with a start.
    is_held: bool,
}

#[derive(Default)]
struct Members {
    masters: Vec<Member>,
    agents: Vec<Member>,
}

/// One cluster. Dropping it ends its processes and all tasks.
pub struct Mesos {
    members: Arc<Mutex<Members>>,
    stop: Arc<AtomicBool>,
    keeper: Option<JoinHandle<()>>,
    zk: String,
    /// Where the good programs that agents start are.
    launcher: PathBuf,
    _net: LoopbackNet,
    // last, so that the processes are gone before their files
    _work: WorkFolder,
}

impl Mesos {
    /// Starts three masters, which elect below `/mesos-CLUSTER` of this ZooKeeper, and agents. Half of each agent's
    /// processors and memory is reserved for `role`. Waits until a master leads and has all agents.
    ///
    /// # Errors
    /// A program does not start or serve; the error has the end of a log.
    pub fn start(
        programs: &MesosPrograms,
        zookeeper: &str,
        cluster: &str,
        role: &str,
        n_agents: u8,
    ) -> Result<Self> {
        Self::start_with(programs, zookeeper, cluster, role, n_agents, &[])
    }

    /// The same, with further arguments of the masters.
    ///
    /// # Errors
    /// As [`Mesos::start`].
    pub fn start_with(
        programs: &MesosPrograms,
        zookeeper: &str,
        cluster: &str,
        role: &str,
        n_agents: u8,
        master_args: &[&str],
    ) -> Result<Self> {
        let (work, net) = (WorkFolder::new("mesos")?, LoopbackNet::take()?);
        let zk = format!("zk://{zookeeper}/mesos-{cluster}");
        let mut members = Members::default();
        for number in 1..=N_MASTERS {
            let address = SocketAddr::from(net.socket(number, MASTER_PORT));
            let name = format!("master-{number}");
            let folder = work.folder(&name)?;
            let mut args = shared_args(address);
            args.extend([
                format!("--zk={zk}"),
                format!("--quorum={}", N_MASTERS / 2 + 1),
                format!("--cluster={cluster}"),
                "--zk_session_timeout=4secs".to_owned(),
                format!("--work_dir={}", folder.join("data").display()),
            ]);
            args.extend(master_args.iter().map(|&arg| arg.to_owned()));
            let server = Server::start(programs.launch(&name, &programs.master, args, address, &work)?)?;
            members.masters.push(member(server, address));
        }
        for number in 1..=n_agents {
            let address = SocketAddr::from(net.socket(10 + number, AGENT_PORT));
            let name = format!("agent-{number}");
            let folder = work.folder(&name)?;
            let launcher = work.folder(&format!("{name}/launcher"))?;
            for entry in fs::read_dir(&programs.launcher)? {
                let entry = entry?;
                symlink(entry.path(), launcher.join(entry.file_name()))?;
            }
            let mut args = shared_args(address);
            args.extend([
                format!("--master={zk}"),
                format!("--work_dir={}", folder.join("data").display()),
                format!("--runtime_dir={}", folder.join("run").display()),
                format!("--launcher_dir={}", launcher.display()),
                format!("--recovery_timeout={RECOVERY}"),
                format!("--resources={}", resources(role)),
                "--launcher=posix".to_owned(),
                "--isolation=posix/cpu,posix/mem".to_owned(),
                "--containerizers=mesos".to_owned(),
                "--no-systemd_enable_support".to_owned(),
                "--no-switch_user".to_owned(),
            ]);
            let server = Server::start(programs.launch(&name, &programs.agent, args, address, &work)?)?;
            members.agents.push(member(server, address));
        }
        let members = Arc::new(Mutex::new(members));
        let stop = Arc::new(AtomicBool::new(false));
        let mut mesos = Self {
            keeper: None,
            members: members.clone(),
            stop: stop.clone(),
            zk,
            launcher: programs.launcher.clone(),
            _net: net,
            _work: work,
        };
        mesos.wait_for_agents(n_agents)?;
        mesos.keeper = Some(thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                lock(&members).start_ended();
                thread::sleep(LOOK_EVERY);
            }
        }));
        Ok(mesos)
    }

    /// Where the masters are found: `zk://HOST:PORT,.../mesos-CLUSTER`.
    #[must_use]
    pub fn zk(&self) -> &str {
        &self.zk
    }

    /// Waits until a master leads and has so many active agents.
    ///
    /// # Errors
    /// The time is up, or a process has ended; the error has the ends of the logs.
    pub fn wait_for_agents(&self, n_agents: u8) -> Result<()> {
        let waited = wait::until("a master with all agents", SERVES_WITHIN, || {
            let leader = self.look_for_leader();
            let active = leader.and_then(|(_, _, metrics)| number(&metrics, "master/slaves_active"));
            Ok(active.filter(|active| *active >= f64::from(n_agents)))
        });
        waited
            .map(|_| ())
            .with_context(|| lock(&self.members).log_tails())
    }

    /// The master that leads, with its address.
    ///
    /// # Errors
    /// None leads in time.
    pub fn leader(&self) -> Result<(MesosMember, SocketAddr)> {
        wait::until("a leading master", SERVES_WITHIN, || {
            Ok(self
                .look_for_leader()
                .map(|(place, address, _)| (MesosMember::Master(place), address)))
        })
    }

    /// One that leads, with its metrics.
    fn look_for_leader(&self) -> Option<(usize, SocketAddr, Value)> {
        // not under the lock, since a paused master takes seconds not to answer
        let addresses: Vec<SocketAddr> = {
            let members = lock(&self.members);
            members.masters.iter().map(|master| master.address).collect()
        };
        addresses.into_iter().enumerate().find_map(|(place, address)| {
            let (_, body) = http::get(address, "/metrics/snapshot").ok()?;
            let metrics: Value = serde_json::from_str(&body).ok()?;
            (number(&metrics, "master/elected")? > 0.0).then_some((place, address, metrics))
        })
    }

    /// All masters.
    #[must_use]
    pub fn masters(&self) -> Vec<MesosMember> {
        let n_masters = lock(&self.members).masters.len();
        (0..n_masters).map(MesosMember::Master).collect()
    }

    /// How many agents there are.
    #[must_use]
    pub fn n_agents(&self) -> usize {
        lock(&self.members).agents.len()
    }

    /// The host of a process, as its tasks know it.
    ///
    /// # Errors
    /// There is no such process.
    pub fn host(&self, which: MesosMember) -> Result<String> {
        let mut members = lock(&self.members);
        Ok(members.get(which)?.address.ip().to_string())
    }

    /// Sets what an agent starts for tasks from now on.
    ///
    /// # Errors
    /// There is no such agent, or the file system's.
    pub fn set_executors(&self, which: MesosMember, executors: &Executors) -> Result<()> {
        let folder = {
            let mut members = lock(&self.members);
            members.get(which)?.server.launch().folder.join("launcher")
        };
        for name in EXECUTORS.iter().filter(|name| self.launcher.join(name).is_file()) {
            // an agent that starts a task now finds one of both
            let made = folder.join("made");
            match executors {
                Executors::Good => symlink(self.launcher.join(name), &made)?,
                Executors::Script(script) => {
                    fs::write(&made, script)?;
                    fs::set_permissions(&made, fs::Permissions::from_mode(0o755))?;
                }
            }
            fs::rename(&made, folder.join(name))?;
        }
        Ok(())
    }

    /// Does something to a process. Until [`Mesos::release`] it is not started again when it ends.
    ///
    /// # Errors
    /// There is no such process, or that of `act`.
    pub fn hold(&self, which: MesosMember, act: impl FnOnce(&mut Server) -> Result<()>) -> Result<()> {
        let mut members = lock(&self.members);
        let member = members.get(which)?;
        member.is_held = true;
        act(&mut member.server)
    }

    /// Does something to a process that [`Mesos::hold`] has disturbed; from then on it is watched over again.
    ///
    /// # Errors
    /// There is no such process, or that of `act`.
    pub fn release(&self, which: MesosMember, act: impl FnOnce(&mut Server) -> Result<()>) -> Result<()> {
        let mut members = lock(&self.members);
        let member = members.get(which)?;
        act(&mut member.server)?;
        member.is_held = false;
        Ok(())
    }
}

impl Drop for Mesos {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(keeper) = self.keeper.take() {
            // a keeper that panicked has nothing to tell here
            let _ = keeper.join();
        }
    }
}

impl Members {
    fn get(&mut self, which: MesosMember) -> Result<&mut Member> {
        let found = match which {
            MesosMember::Master(place) => self.masters.get_mut(place),
            MesosMember::Agent(place) => self.agents.get_mut(place),
        };
        found.with_context(|| format!("no {which:?}"))
    }

    fn start_ended(&mut self) {
        let all = self.masters.iter_mut().chain(&mut self.agents);
        for member in all.filter(|member| !member.is_held) {
            if matches!(member.server.is_running(), Ok(false)) {
                // tried again at the next look
                let _ = member.server.start_again();
            }
        }
    }

    fn log_tails(&self) -> String {
        let mut text = "the ends of the logs of Mesos:".to_owned();
        for member in self.masters.iter().chain(&self.agents) {
            let _ = write!(text, "\n{}:\n{}", member.address, member.server.log_tail());
        }
        text
    }
}

impl MesosPrograms {
    fn launch(
        &self,
        name: &str,
        program: &Path,
        args: Vec<String>,
        address: SocketAddr,
        work: &WorkFolder,
    ) -> Result<Launch> {
        let ip = address.ip().to_string();
        let libraries = self.libraries.as_os_str().to_owned();
        Ok(Launch {
            name: name.to_owned(),
            program: program.to_owned(),
            args: args.into_iter().map(Into::into).collect(),
            env: vec![
                ("LD_LIBRARY_PATH".into(), libraries),
                // executors take it from their agent
                ("LIBPROCESS_IP".into(), ip.into()),
            ],
            folder: work.folder(name)?,
        })
    }
}

fn member(server: Server, address: SocketAddr) -> Member {
    Member {
        server,
        address,
        is_held: false,
    }
}

fn shared_args(address: SocketAddr) -> Vec<String> {
    let (ip, port) = (address.ip(), address.port());
    vec![
        format!("--ip={ip}"),
        format!("--port={port}"),
        format!("--hostname={ip}"),
    ]
}

/// Resources of an agent: half of them are reserved for the role, and the larger part of the disk.
fn resources(role: &str) -> String {
    format!("cpus({role}):4;mem({role}):2048;disk({role}):4096;cpus:4;mem:2048;disk:2048;ports:[31000-32000]")
}

fn number(metrics: &Value, key: &str) -> Option<f64> {
    metrics.get(key)?.as_f64()
}

fn lock(members: &Mutex<Members>) -> MutexGuard<'_, Members> {
    members.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_lacks_a_program_is_refused_by_its_name() {
        let work = WorkFolder::new("programs").unwrap();
        let missing = |name: &str| {
            let error = MesosPrograms::of(work.path()).unwrap_err().to_string();
            assert!(error.contains(&format!("there is no {name}")), "{error}");
        };
        let (sbin, libexec) = (
            work.folder("sbin").unwrap(),
            work.folder("libexec/mesos").unwrap(),
        );
        missing("mesos-containerizer");
        fs::write(libexec.join("mesos-containerizer"), "").unwrap();
        missing("mesos-fetcher beside mesos-containerizer");
        fs::write(libexec.join("mesos-fetcher"), "").unwrap();
        // an executor in another folder would not be found by the agent
        fs::write(sbin.join("mesos-executor"), "").unwrap();
        missing("mesos-executor beside mesos-containerizer");
        fs::write(libexec.join("mesos-executor"), "").unwrap();
        missing("mesos-master");
        fs::write(sbin.join("mesos-master"), "").unwrap();
        missing("mesos-agent");
        fs::write(sbin.join("mesos-agent"), "").unwrap();
        let found = MesosPrograms::of(work.path()).unwrap();
        assert_eq!(
            (found.master, found.launcher),
            (sbin.join("mesos-master"), libexec)
        );
    }
}
