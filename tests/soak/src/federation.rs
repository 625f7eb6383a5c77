//! Three gateways, two processes of each other role, two clusters of simulated Mesos, and real servers.
//! Each process is started from its file in `deploy/config`. Links that a fault can cut go through proxies.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use echelon_tests::net::LoopbackNet;
use echelon_tests::process::{self, Process, Role};
use echelon_tests::proxy::{Mode, Proxy};
use echelon_tests::server::Server;
use echelon_tests::servers::{Cassandra, Mesos, MesosMember, MesosPrograms, ZooKeeper};
use echelon_tests::work::WorkFolder;
use echelon_tests::{http, wait};
use echelon_tests_judge::Event;
use toml::Table;

use crate::clock::Clock;
use crate::disk::Disk;
use crate::fault::{Action, Fault, Subject};
use crate::hostility::Hostility;
use crate::recorder::Recorder;
use crate::stored::Stored;
use crate::world::{Target, World};

mod backup;
mod hosts;
mod mesos;
mod rows;

const CLUSTERS: [&str; 2] = ["east", "west"];

const GATEWAYS: [u8; 3] = [1, 2, 3];

/// How long a silent leader keeps its place, for which reliability.md promises its times.
const SESSION: &str = "3s";

/// A process that was asked to end ends its requests first.
const ENDS_WITHIN: Duration = Duration::from_secs(40);

/// Writes a second of a slow disk: a commit needs one or two.
pub(crate) const SLOW: u32 = 4;

/// How long a leader is looked for before any process is taken in its place.
const LEADS_WITHIN: Duration = Duration::from_secs(20);

/// How a federation is started.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Cassandra nodes.
    pub n_cassandra: u8,
    /// Seconds that clocks of processes are ahead or behind.
    pub clocks_apart: u16,
}

/// The federation shape.
pub struct Federation {
    processes: BTreeMap<String, Process>,
    /// Where each role's processes serve their metrics.
    metrics: BTreeMap<String, SocketAddr>,
    /// Where they are called, past any proxy.
    ports: BTreeMap<String, SocketAddr>,
    links: BTreeMap<String, Vec<Proxy>>,
    cassandra: Cassandra,
    /// The disk of the last Cassandra node, or why it has none. After the node, which ends first.
    disk: Result<Disk, String>,
    /// Real clusters by their names; none where Mesos is simulated. Before ZooKeeper, which ends later.
    mesos: BTreeMap<String, Mesos>,
    zookeeper: ZooKeeper,
    n_cassandra: u8,
    recorder: Arc<Recorder>,
    /// Rows that were written by hand and are not put back yet.
    written: Vec<rows::Written>,
    /// Logs that are to tell of these rows, and from where on.
    read_from: Vec<(PathBuf, usize)>,
    /// Tasks of the lasting services before a backup was put back.
    ran: BTreeSet<String>,
    /// The clocks of processes.
    clocks: BTreeMap<String, Clock>,
    /// Seconds between the clocks of processes.
    apart: u16,
    /// What is sent to a process while a fault lasts.
    hostility: Option<Hostility>,
    /// How often each fault came.
    turns: BTreeMap<String, u32>,
    /// How often the latest fault had come before.
    turn: u32,
    net: LoopbackNet,
    // last, so that the processes are gone before their files
    work: WorkFolder,
}

impl Federation {
    /// Starts all of it and waits until it is ready.
    ///
    /// # Errors
    /// Something does not start; the error has the end of its log.
    pub fn start(
        setting: &Setting,
        recorder: &Arc<Recorder>,
        programs: Option<&MesosPrograms>,
    ) -> Result<Self> {
        let n_cassandra = setting.n_cassandra;
        let mut disk = None;
        let cassandra = Cassandra::start_in(n_cassandra, |node, folder| {
            // the last node has a disk of its own
            if node + 1 == n_cassandra {
                let image = folder.with_extension("disk");
                disk = Some(Disk::mount(&image, folder).map_err(|error| format!("{error:#}")));
            }
            Ok(())
        })?;
        let disk = disk.unwrap_or_else(|| Err("there is no node".to_owned()));
        let zookeeper = ZooKeeper::start(3)?;
        let mesos = mesos::start(programs, &zookeeper)?;
        let mut federation = Self {
            processes: BTreeMap::new(),
            metrics: BTreeMap::new(),
            ports: BTreeMap::new(),
            links: BTreeMap::new(),
            cassandra,
            disk,
            mesos,
            zookeeper,
            n_cassandra,
            recorder: recorder.clone(),
            written: Vec::new(),
            read_from: Vec::new(),
            ran: BTreeSet::new(),
            clocks: BTreeMap::new(),
            apart: setting.clocks_apart,
            hostility: None,
            turns: BTreeMap::new(),
            turn: 0,
            net: LoopbackNet::take()?,
            work: WorkFolder::new("soak")?,
        };
        let mut migrate = process::command()?;
        let migrated = migrate
            .args(["storage", "migrate", "--storage", &federation.storage()])
            .output()?;
        ensure!(
            migrated.status.success(),
            "{}",
            String::from_utf8_lossy(&migrated.stderr)
        );
        for (cluster, host) in CLUSTERS.into_iter().zip([41, 51]) {
            if federation.mesos.is_empty() {
                federation.start_master(cluster, host)?;
            } else {
                fs::write(federation.dropped(cluster), "")?;
            }
        }
        for host in GATEWAYS {
            federation.start_gateway(host)?;
        }
        for cluster in CLUSTERS {
            federation.add_cluster(cluster)?;
        }
        for number in [1, 2] {
            federation.start_manager(number)?;
        }
        for (cluster, host) in CLUSTERS.into_iter().zip([20, 30]) {
            for number in [1, 2] {
                federation.start_shard(cluster, number, host)?;
            }
        }
        Ok(federation)
    }

    /// A folder for what belongs to this world and dies with it.
    ///
    /// # Errors
    /// The file system's.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        self.work.folder(name)
    }

    fn storage(&self) -> String {
        let points = self.cassandra.contact_points();
        format!("cassandra://{points}/soak?replication={}", self.n_cassandra)
    }

    fn start_gateway(&mut self, host: u8) -> Result<()> {
        let address = SocketAddr::from(self.net.socket(host, 7070));
        let mut config = sample("gateway")?;
        self.shared(&mut config, address, self.zookeeper.contact_points());
        config.insert("advertise".into(), text(address));
        let name = format!("gateway-{host}");
        self.ports.insert(name.clone(), address);
        self.start_process(&name, "gateway", &config, Some(address))
    }

    fn add_cluster(&self, cluster: &str) -> Result<()> {
        let [first, ..] = GATEWAYS;
        let gateway = format!("http://{}", SocketAddr::from(self.net.socket(first, 7070)));
        let mut command = process::command()?;
        let added = command
            .args(["--address", &gateway, "cluster", "add", cluster])
            .output()?;
        ensure!(
            added.status.success(),
            "{}",
            String::from_utf8_lossy(&added.stderr)
        );
        Ok(())
    }

    fn start_manager(&mut self, number: u8) -> Result<()> {
        let name = format!("manager-{number}");
        let address = SocketAddr::from(self.net.socket(10 + number, 7071));
        let admin = SocketAddr::from(self.net.socket(10 + number, 7171));
        let mut config = sample("resource-manager")?;
        let membership = self.own_zookeeper(&name)?;
        self.shared(&mut config, address, membership);
        config.insert(
            "advertise".into(),
            text(self.link(&format!("to-{name}"), address)?),
        );
        config.insert("admin".into(), text(admin));
        self.metrics.insert(name.clone(), admin);
        self.ports.insert(name.clone(), address);
        self.start_process(&name, "resource-manager", &config, Some(admin))
    }

    fn start_shard(&mut self, cluster: &str, number: u8, host: u8) -> Result<()> {
        let name = format!("shard-{cluster}-{number}");
        let address = SocketAddr::from(self.net.socket(host + number, 7072));
        let admin = SocketAddr::from(self.net.socket(host + number, 7172));
        let mut config = sample("shard")?;
        let membership = self.own_zookeeper(&name)?;
        self.shared(&mut config, address, membership);
        let masters = self.masters_for(&name, cluster)?;
        config.insert(
            "advertise".into(),
            text(self.link(&format!("to-{name}"), address)?),
        );
        config.insert("admin".into(), text(admin));
        config.insert("cluster".into(), text(cluster));
        config.insert("mesos".into(), text(masters));
        self.metrics.insert(name.clone(), admin);
        self.ports.insert(name.clone(), address);
        self.start_process(&name, "shard", &config, Some(admin))
    }

    fn start_master(&mut self, cluster: &str, host: u8) -> Result<()> {
        let mut config = sample("mesos-sim")?;
        listen(&mut config, self.net.socket(host, 5050).into());
        config.insert("cluster".into(), text(cluster));
        config.insert(
            "work_dir".into(),
            text(self.work.folder(&format!("agents-{cluster}"))?.display()),
        );
        config.insert("run_log".into(), text(self.agent_log(cluster).display()));
        self.start_process(&format!("master-{cluster}"), "mesos-sim", &config, None)
    }

    /// Where the cluster's agents note what they ran.
    fn agent_log(&self, cluster: &str) -> PathBuf {
        self.work.path().join(format!("agents-{cluster}.jsonl"))
    }

    fn master(&self, cluster: &str) -> Result<SocketAddr> {
        let place = CLUSTERS.iter().position(|name| *name == cluster);
        let host = place.and_then(|place| [41, 51].get(place).copied());
        let host = host.with_context(|| format!("no cluster {cluster}"))?;
        Ok(self.net.socket(host, 5050).into())
    }

    /// A proxy in front of an address, known by the link's name.
    fn link(&mut self, name: &str, to: SocketAddr) -> Result<SocketAddr> {
        let proxy = Proxy::start(to)?;
        let address = proxy.address();
        self.links.entry(name.to_owned()).or_default().push(proxy);
        Ok(address)
    }

    /// ZooKeeper's servers through this process's own proxies.
    fn own_zookeeper(&mut self, name: &str) -> Result<String> {
        let link = format!("{name}-zookeeper");
        let mut points = Vec::new();
        for server in self.zookeeper.addresses() {
            points.push(self.link(&link, server)?.to_string());
        }
        Ok(points.join(","))
    }

    /// Storage, membership and address, which all but the simulated Mesos have.
    fn shared(&self, config: &mut Table, address: SocketAddr, zookeeper: String) {
        config.insert("storage".into(), text(self.storage()));
        config.insert("membership".into(), text(format!("zookeeper://{zookeeper}/soak")));
        let session = Table::from_iter([("session".to_owned(), text(SESSION))]);
        config.insert("timeouts".into(), toml::Value::Table(session));
        listen(config, address);
    }

    fn start_process(
        &mut self,
        name: &str,
        role: &str,
        config: &Table,
        ready: Option<SocketAddr>,
    ) -> Result<()> {
        let file = self.work.folder(name)?.join("config.toml");
        fs::write(&file, config.to_string())?;
        let args = [role.to_owned(), "--config".to_owned(), file.display().to_string()];
        let ahead = ahead_of(self.clocks.len(), self.apart);
        let clock = Clock::of(self.work.path(), name, ahead)?;
        let mut process = Role::new(name)
            .args(args)
            .env("ECHELON_CLOCK_OFFSET_FILE", &clock.file().to_string_lossy());
        self.clocks.insert(name.to_owned(), clock);
        if let Some(address) = ready {
            process = process.ready_at(address);
        }
        let started = process.start(&self.work)?;
        self.processes.insert(name.to_owned(), started);
        Ok(())
    }

    /// The one of these processes that says that it leads; the first, when none does in time.
    fn leader(&self, prefix: &str) -> Result<String> {
        let all: Vec<(&String, &SocketAddr)> = self
            .metrics
            .iter()
            .filter(|(name, _)| name.starts_with(prefix))
            .collect();
        let leads = |address: SocketAddr| {
            let answer = http::get(address, "/metrics");
            answer.is_ok_and(|(_, body)| {
                let mut lines = body.lines().filter(|line| line.starts_with("echelon_leading"));
                lines.any(|line| line.ends_with(" 1"))
            })
        };
        let found = wait::until(&format!("a leader of {prefix}"), LEADS_WITHIN, || {
            Ok(all
                .iter()
                .find(|(_, address)| leads(**address))
                .map(|(name, _)| (*name).clone()))
        });
        let first = all.first().map(|(name, _)| (*name).clone());
        found
            .ok()
            .or(first)
            .with_context(|| format!("no process {prefix}"))
    }

    fn server(&mut self, name: &str) -> Result<&mut Server> {
        if let Some(place) = name.strip_prefix("zookeeper ") {
            return self.zookeeper.member(place.parse()?);
        }
        if let Some(place) = name.strip_prefix("cassandra ") {
            return self.cassandra.node(place.parse()?);
        }
        let process = self.processes.get_mut(name);
        Ok(process.with_context(|| format!("no process {name}"))?.server())
    }

    /// Moves the clock of a process, if it has one of its own.
    fn set_clock(&self, name: &str, seconds: i64) -> Result<()> {
        let clock = self.clocks.get(name);
        clock.map_or(Ok(()), |clock| clock.moved(seconds))
    }

    fn disk(&self) -> Result<&Disk> {
        let disk = self.disk.as_ref();
        disk.map_err(|why| anyhow::anyhow!("the node has no disk of its own: {why}"))
    }

    fn set_links(&self, target: &Target, mode: Mode) -> Result<()> {
        for name in &target.names {
            let link = self.links.get(name).with_context(|| format!("no link {name}"))?;
            link.iter().for_each(|proxy| proxy.set(mode));
        }
        Ok(())
    }

    fn zookeepers(&self, subject: Subject) -> Result<Vec<String>> {
        let all = 0..3;
        let named = |places: Vec<usize>| places.iter().map(|place| format!("zookeeper {place}")).collect();
        if subject == Subject::ZooKeeper {
            return Ok(named(all.collect()));
        }
        let leader = wait::until("a leader of ZooKeeper", LEADS_WITHIN, || {
            Ok(self.zookeeper.leader().ok())
        })?;
        if subject == Subject::ZooKeeperLeader {
            return Ok(named(vec![leader]));
        }
        Ok(named(all.filter(|place| *place != leader).take(1).collect()))
    }
}

impl World for Federation {
    fn gateways(&self) -> Vec<SocketAddr> {
        GATEWAYS.map(|host| self.net.socket(host, 7070).into()).into()
    }

    fn masters(&self) -> Result<Vec<(String, SocketAddr)>> {
        let masters = CLUSTERS.map(|cluster| Ok((cluster.to_owned(), self.leading_master(cluster)?)));
        masters.into_iter().collect()
    }

    fn storage(&self) -> Option<Stored> {
        Some(Stored::new(self.cassandra.addresses()))
    }

    fn agent_logs(&self) -> Vec<PathBuf> {
        if !self.mesos.is_empty() {
            // real agents write none; what stands in for executors of one that is broken does
            return CLUSTERS.map(|cluster| self.dropped(cluster)).into();
        }
        CLUSTERS.map(|cluster| self.agent_log(cluster)).into()
    }

    fn target(&mut self, fault: Fault) -> Result<Target> {
        let count = self.turns.entry(fault.to_string()).or_default();
        let turn = *count;
        *count += 1;
        let cluster = if turn.is_multiple_of(2) { "east" } else { "west" };
        self.turn = turn;
        let suffers = match fault.subject {
            Subject::Shard
            | Subject::Master
            | Subject::Agent
            | Subject::ToShard
            | Subject::ShardMaster
            | Subject::ShardZooKeeper => Some(cluster.to_owned()),
            _ => None,
        };
        let shard = |world: &Self| world.leader(&format!("shard-{cluster}"));
        let names = match fault.subject {
            Subject::Gateway => vec![format!("gateway-{}", turn % 3 + 1)],
            Subject::Manager => vec![self.leader("manager")?],
            Subject::Shard => vec![shard(self)?],
            Subject::Master => vec![self.master_name(cluster)?],
            Subject::Agent => vec![self.agent_name(cluster, turn)?],
            Subject::ZooKeeperFollower | Subject::ZooKeeperLeader | Subject::ZooKeeper => {
                self.zookeepers(fault.subject)?
            }
            Subject::CassandraNode if fault.action == Action::SlowDisk => {
                vec![format!("cassandra {}", self.n_cassandra - 1)]
            }
            Subject::CassandraNode => vec![format!("cassandra {}", turn % u32::from(self.n_cassandra))],
            Subject::Cassandra => (0..self.n_cassandra).map(|n| format!("cassandra {n}")).collect(),
            Subject::ToManager => vec![format!("to-{}", self.leader("manager")?)],
            Subject::ToShard => vec![format!("to-{}", shard(self)?)],
            Subject::ShardMaster => vec![format!("{}-master", shard(self)?)],
            Subject::ShardZooKeeper => vec![format!("{}-zookeeper", shard(self)?)],
            Subject::ManagerZooKeeper => vec![format!("{}-zookeeper", self.leader("manager")?)],
            Subject::Backup => vec!["storage".to_owned()],
            Subject::Standalone => bail!("{fault} belongs to the shape standalone"),
        };
        Ok(Target {
            names,
            cluster: suffers,
        })
    }

    fn cannot(&self, fault: Fault) -> Option<String> {
        let no_disk = self.disk.as_ref().err();
        no_disk.filter(|_| fault.action == Action::SlowDisk).cloned()
    }

    fn begin(&mut self, fault: Fault, target: &Target) -> Result<()> {
        if fault.action.is_of_agent() {
            return self.begin_at_host(fault.action, target);
        }
        match fault.action {
            Action::Cut => return self.set_links(target, Mode::Silence),
            Action::CutAnswers => return self.set_links(target, Mode::DropAnswers),
            Action::Hostile => return self.begin_hostility(target),
            Action::SlowDisk => return self.disk()?.slow(Some(SLOW)),
            Action::UnknownCodes => return self.write_unknown_codes(target),
            Action::UnreadableRows => return self.write_unreadable_rows(target),
            Action::Restored => return self.put_backup_back(),
            // done to processes
            _ => {}
        }
        for name in &target.names {
            self.set_clock(name, fault.action.clock())?;
            if let Some((mesos, which)) = self.mesos_member(name)? {
                if let (MesosMember::Agent(_), Action::Kill) = (which, fault.action) {
                    let host = mesos.host(which)?;
                    self.recorder.tell(Event::AgentDown { host })?;
                }
                mesos.hold(which, |server| disturb(server, fault.action))?;
                continue;
            }
            disturb(self.server(name)?, fault.action)?;
        }
        Ok(())
    }

    fn end(&mut self, fault: Fault, target: &Target) -> Result<()> {
        if fault.action.is_of_agent() {
            return self.end_at_host(fault.action, target);
        }
        match fault.action {
            Action::Cut | Action::CutAnswers => return self.set_links(target, Mode::Pass),
            Action::Hostile => return self.end_hostility(),
            Action::UnknownCodes => return self.check_unknown_codes(target),
            Action::UnreadableRows => return self.put_rows_back(target),
            Action::SlowDisk => return self.disk()?.slow(None),
            Action::Restored => return self.resume_storage(),
            _ => {}
        }
        for name in &target.names {
            self.set_clock(name, 0)?;
            if let Some((mesos, which)) = self.mesos_member(name)? {
                mesos.release(which, |server| mend(server, fault.action))?;
                if let (MesosMember::Agent(_), Action::Kill) = (which, fault.action) {
                    let host = mesos.host(which)?;
                    self.recorder.tell(Event::AgentUp { host })?;
                }
                continue;
            }
            mend(self.server(name)?, fault.action)?;
        }
        Ok(())
    }

    fn check(&mut self) -> Result<()> {
        for (name, process) in &mut self.processes {
            let server = process.server();
            ensure!(
                server.is_running()?,
                "{name} has ended by itself; the end of its log:\n{}",
                server.log_tail()
            );
        }
        Ok(())
    }
}

/// Does to a process what a fault does, once its clock is set.
pub(crate) fn disturb(server: &mut Server, action: Action) -> Result<()> {
    match action {
        Action::Kill => server.kill(),
        Action::Pause | Action::Freeze => server.pause(),
        Action::End => server.terminate(ENDS_WITHIN).map(|_| ()),
        Action::RestartAhead => restart(server),
        Action::ClockAhead | Action::ClockBehind => Ok(()),
        _ => bail!("{action:?} is not done to a process"),
    }
}

/// Undoes what a fault did to a process, once its clock is set back.
pub(crate) fn mend(server: &mut Server, action: Action) -> Result<()> {
    match action {
        Action::Kill | Action::End => server.start_again(),
        Action::Pause | Action::Freeze => server.resume(),
        Action::RestartAhead => restart(server),
        Action::ClockAhead | Action::ClockBehind => Ok(()),
        _ => bail!("{action:?} is not done to a process"),
    }
}

fn restart(server: &mut Server) -> Result<()> {
    server.kill()?;
    server.start_again()
}

/// How far the clock of the nth process is ahead, of which one in three is right, one is ahead and one behind. The two
/// processes of a role differ, so that a change of leaders moves the clock.
fn ahead_of(nth: usize, apart: u16) -> i64 {
    let apart = i64::from(apart);
    match nth % 3 {
        0 => 0,
        1 => apart,
        _ => -apart,
    }
}

fn sample(role: &str) -> Result<Table> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../deploy/config/{role}.toml"));
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    Ok(text.parse()?)
}

fn listen(config: &mut Table, address: SocketAddr) {
    if let Some(process) = config.get_mut("process").and_then(toml::Value::as_table_mut) {
        process.insert("listen".into(), text(address));
    }
}

fn text(value: impl std::fmt::Display) -> toml::Value {
    toml::Value::String(value.to_string())
}
