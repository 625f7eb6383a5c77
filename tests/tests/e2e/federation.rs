//! One gateway, one resource manager, two shards and two simulated Mesos clusters as processes of the built binary, each
//! started from its file in `deploy/config` with the addresses of this test.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use echelon_tests::net::LoopbackNet;
use echelon_tests::process::{self, Process, Role};
use echelon_tests::proxy::{Mode, Proxy};
use echelon_tests::servers::{Cassandra, ZooKeeper};
use echelon_tests::work::WorkFolder;
use echelon_tests::{http, wait};
use serde_json::Value;
use toml::Table;

/// A killed leader's session ends after 10 s; then the next one reads all that is stored, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

const GATEWAY: &str = "gateway";
const CLUSTERS: [&str; 2] = ["east", "west"];

pub struct Federation {
    processes: BTreeMap<String, Process>,
    gateway: SocketAddr,
    /// Before the membership servers.
    meets: Proxy,
    net: LoopbackNet,
    // last, so that the processes are gone before their files
    work: WorkFolder,
}

/// Where everything is.
struct Places<'a> {
    net: &'a LoopbackNet,
    work: &'a WorkFolder,
    storage: String,
    membership: String,
}

impl Federation {
    /// Over simulated clusters.
    pub fn start() -> Result<Self> {
        Self::start_over(&CLUSTERS.map(|cluster| (cluster, None)))
    }

    /// Over clusters whose masters are found there; those of which none are named are simulated.
    pub fn start_over(clusters: &[(&str, Option<&str>)]) -> Result<Self> {
        let (cassandra, zookeeper) = (Cassandra::shared()?, ZooKeeper::shared()?);
        let (work, net) = (WorkFolder::new("e2e")?, LoopbackNet::take()?);
        let server = zookeeper.addresses().first().copied();
        let meets = Proxy::start(server.context("no membership server")?)?;
        let name = uuid::Uuid::new_v4().simple().to_string();
        let places = Places {
            net: &net,
            work: &work,
            storage: format!(
                "cassandra://{}/e2e_{name}?replication=1",
                cassandra.contact_points()
            ),
            membership: format!("zookeeper://{}/e2e-{name}", meets.address()),
        };
        let mut migrate = process::command()?;
        let migrated = migrate
            .args(["storage", "migrate", "--storage", &places.storage])
            .output()?;
        ensure!(
            migrated.status.success(),
            "{}",
            String::from_utf8_lossy(&migrated.stderr)
        );

        let mut processes = BTreeMap::new();
        for (number, (cluster, masters)) in (10..).zip(clusters) {
            if masters.is_none() {
                let started = places.mesos_sim(cluster, number)?;
                processes.insert(format!("mesos-{cluster}"), started);
            }
        }
        processes.insert(GATEWAY.to_owned(), places.gateway()?);
        for (cluster, _) in clusters {
            places.add(cluster)?;
        }
        processes.insert("resource-manager".to_owned(), places.resource_manager()?);
        for (number, (cluster, masters)) in (10..).zip(clusters) {
            let started = places.shard(cluster, number, *masters)?;
            processes.insert(format!("shard-{cluster}"), started);
        }
        let gateway = net.socket(1, 7070).into();
        Ok(Self {
            processes,
            gateway,
            meets,
            net,
            work,
        })
    }

    /// Every process.
    pub fn names(&self) -> Vec<String> {
        self.processes.keys().cloned().collect()
    }

    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        self.work.folder(name)
    }

    /// kill -9.
    pub fn kill(&mut self, name: &str) -> Result<()> {
        self.process(name)?.kill()
    }

    pub fn start_again(&mut self, name: &str) -> Result<()> {
        self.process(name)?.start_again()
    }

    /// Stops a process in place: its sockets stay open and answer nothing.
    pub fn pause(&mut self, name: &str) -> Result<()> {
        self.process(name)?.server().pause()
    }

    pub fn resume(&mut self, name: &str) -> Result<()> {
        self.process(name)?.server().resume()
    }

    /// Status and text of a path of the gateway.
    pub fn page(&self, path: &str) -> Result<(u16, String)> {
        http::get(self.gateway, path)
    }

    /// Silences the membership servers for all processes, or lets them answer again.
    pub fn silence_membership(&self, silent: bool) {
        self.meets.set(if silent { Mode::Silence } else { Mode::Pass });
    }

    /// The status of `/readyz` of a process, and its conditions that do not hold.
    pub fn conditions(&self, name: &str) -> Result<(u16, Vec<String>)> {
        let at = |host| SocketAddr::from(self.net.socket(host, 7172));
        let address = match name {
            GATEWAY => self.gateway,
            "resource-manager" => self.net.socket(2, 7171).into(),
            "shard-east" => at(10),
            _ => at(11),
        };
        let (status, body) = http::get(address, "/readyz")?;
        let report: Value = serde_json::from_str(&body)?;
        let all = report["conditions"].as_array().cloned().unwrap_or_default();
        let away = all.iter().filter(|condition| condition["ready"] == false);
        let names = away.filter_map(|condition| condition["name"].as_str());
        Ok((status, names.map(str::to_owned).collect()))
    }

    fn process(&mut self, name: &str) -> Result<&mut Process> {
        self.processes
            .get_mut(name)
            .with_context(|| format!("no process {name}"))
    }

    /// Submits a job and gives its resource name.
    pub fn submit(&self, job: &Value) -> Result<String> {
        let (status, body) = self.post("jobs", job)?;
        ensure!(status == 200, "{status}: {body}");
        let job: Value = serde_json::from_str(&body)?;
        Ok(job["name"]
            .as_str()
            .with_context(|| format!("a job without a name: {body}"))?
            .to_owned())
    }

    pub fn post(&self, path: &str, body: &Value) -> Result<(u16, String)> {
        http::post(self.gateway, &format!("/v1/{path}"), body)
    }

    /// What a command says: its output as JSON, and what it says beside it.
    pub fn command(&self, args: &[&str]) -> Result<(Value, String)> {
        let address = format!("http://{}", self.gateway);
        let ran = process::command()?
            .args(["--address", &address, "-o", "json"])
            .args(args)
            .output()?;
        let beside = String::from_utf8_lossy(&ran.stderr).into_owned();
        ensure!(ran.status.success(), "{args:?}: {beside}");
        Ok((serde_json::from_slice(&ran.stdout)?, beside))
    }

    /// What a command shows to people.
    pub fn shown(&self, args: &[&str]) -> Result<String> {
        let address = format!("http://{}", self.gateway);
        let mut command = process::command()?;
        let ran = command.args(["--address", &address]).args(args).output()?;
        ensure!(
            ran.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&ran.stderr)
        );
        Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
    }

    pub fn get(&self, path: &str) -> Result<Value> {
        let (status, body) = http::get(self.gateway, &format!("/v1/{path}"))?;
        ensure!(status == 200, "{path}: {status}: {body}");
        Ok(serde_json::from_str(&body)?)
    }

    /// Waits until a job is in a state.
    pub fn wait_for(&self, job: &str, state: &str) -> Result<()> {
        self.wait_for_within(job, state, PATIENCE)
    }

    /// The same for as long.
    pub fn wait_for_within(&self, job: &str, state: &str, within: Duration) -> Result<()> {
        let mut last = Value::Null;
        let waited = wait::until(&format!("{job} to be {state}"), within, || {
            last = self.get(job)?;
            Ok((last["state"] == state).then_some(()))
        });
        waited.with_context(|| format!("{job} is {last:#}"))
    }

    /// Waits until so many instances run, and gives their task ids by number.
    pub fn all_running(&self, job: &str, n_instances: usize) -> Result<BTreeMap<u64, String>> {
        self.instances(job, n_instances, |state| state == "RUN_STATE_RUNNING")
    }

    /// Waits until so many instances run or have ended.
    pub fn all_begun(&self, job: &str, n_instances: usize) -> Result<BTreeMap<u64, String>> {
        self.instances(job, n_instances, |state| {
            matches!(state, "RUN_STATE_RUNNING" | "RUN_STATE_SUCCEEDED")
        })
    }

    fn instances(
        &self,
        job: &str,
        n_instances: usize,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<BTreeMap<u64, String>> {
        let mut last = Value::Null;
        let waited = wait::until(&format!("{n_instances} instances of {job}"), PATIENCE, || {
            last = self.get(&format!("{job}/instances"))?;
            let listed = last["instances"].as_array().cloned().unwrap_or_default();
            let found: BTreeMap<u64, String> = listed
                .iter()
                .filter(|instance| instance["state"].as_str().is_some_and(&is_wanted))
                .map(|instance| {
                    let task = instance["run"]["taskId"].as_str().unwrap_or_default().to_owned();
                    // JSON leaves zeros out.
                    (instance["number"].as_u64().unwrap_or_default(), task)
                })
                .collect();
            Ok((found.len() == n_instances).then_some(found))
        });
        waited.with_context(|| format!("instances are {last:#}"))
    }
}

impl Places<'_> {
    fn gateway(&self) -> Result<Process> {
        let address = SocketAddr::from(self.net.socket(1, 7070));
        let mut config = sample("gateway")?;
        self.shared(&mut config, address);
        self.start(GATEWAY, ("gateway", config), address)
    }

    fn resource_manager(&self) -> Result<Process> {
        let mut config = sample("resource-manager")?;
        self.shared(&mut config, self.net.socket(2, 7071).into());
        let admin = self.net.socket(2, 7171).into();
        config.insert("admin".into(), text(admin));
        self.start("resource-manager", ("resource-manager", config), admin)
    }

    /// `echelon cluster add`.
    fn add(&self, cluster: &str) -> Result<()> {
        let gateway = format!("http://{}", SocketAddr::from(self.net.socket(1, 7070)));
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

    fn shard(&self, cluster: &str, host: u8, masters: Option<&str>) -> Result<Process> {
        let mut config = sample("shard")?;
        self.shared(&mut config, self.net.socket(host, 7072).into());
        let admin = self.net.socket(host, 7172).into();
        config.insert("admin".into(), text(admin));
        config.insert("cluster".into(), text(cluster));
        let simulated = self.net.socket(host, 5050).to_string();
        config.insert("mesos".into(), text(masters.unwrap_or(&simulated)));
        self.start(&format!("shard-{cluster}"), ("shard", config), admin)
    }

    fn mesos_sim(&self, cluster: &str, host: u8) -> Result<Process> {
        let address = SocketAddr::from(self.net.socket(host, 5050));
        let mut config = sample("mesos-sim")?;
        listen(&mut config, address);
        config.insert("cluster".into(), text(cluster));
        let work_dir = self.work.folder(&format!("agents-{cluster}"))?;
        config.insert("work_dir".into(), text(work_dir.display()));
        self.start(&format!("mesos-{cluster}"), ("mesos-sim", config), address)
    }

    /// Storage, membership and address, which all but the simulated Mesos have.
    fn shared(&self, config: &mut Table, address: SocketAddr) {
        config.insert("storage".into(), text(&self.storage));
        config.insert("membership".into(), text(&self.membership));
        config.insert("advertise".into(), text(address));
        listen(config, address);
    }

    fn start(&self, name: &str, (role, config): (&str, Table), ready_at: SocketAddr) -> Result<Process> {
        let file = self.work.folder(name)?.join("config.toml");
        fs::write(&file, config.to_string())?;
        let args = [role.to_owned(), "--config".to_owned(), file.display().to_string()];
        let process = Role::new(name).args(args);
        // A simulated master has no readiness of its own.
        let process = if role == "mesos-sim" {
            process
        } else {
            process.ready_at(ready_at)
        };
        process.start(self.work)
    }
}

fn sample(role: &str) -> Result<Table> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../deploy/config/{role}.toml"));
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
