//! The three machines of `deploy/README.md`, set up by its commands, started by the command lines of its units from its configurations,
//! over a real Cassandra and ZooKeeper and two simulated clusters: jobs that are submitted through each gateway go on when a leader of each
//! role is killed.
//!
//! All machines are this one, each with an address of its own, so all ports are those of the files. Substituted in the files, as
//! text: names of machines and `0.0.0.0` by that address, servers of Cassandra, ZooKeeper and Mesos by those of this test, three copies of
//! a row by one, since its Cassandra has one node, and the folders `/etc`, `/usr/bin` and `/var/lib` by folders of this test.
#![cfg(test)]

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use echelon_tests::net::LoopbackNet;
use echelon_tests::process::{self, Process, Role};
use echelon_tests::servers::{Cassandra, ZooKeeper};
use echelon_tests::work::WorkFolder;
use echelon_tests::{http, wait};
use serde_json::Value;

/// A machine that compiles beside it.
const PATIENCE: Duration = Duration::from_secs(180);

const CLUSTERS: [&str; 2] = ["east", "west"];

/// Addresses of the simulated masters, behind those of the machines.
const FIRST_MASTER: u8 = 10;

const SERVICE: &str = "kind: service\ninstances: 4\nclusters: {spread: even}\ncommand: exec sleep 100000\n";
const BATCH: &str = "kind: batch\ninstances: 4\nclusters: {spread: even}\ncommand: echo done\n";

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(file)
}

/// A machine of the page, and what is started there: names of units as they are given to `systemctl`.
struct Machine {
    number: u8,
    units: Vec<String>,
}

/// The machines, as the table of the page has them.
fn machines(page: &str) -> Vec<Machine> {
    let rows = page.lines().filter(|line| line.starts_with("| `node-"));
    let read = |(number, row): (u8, &str)| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let gateway = (cells[2] == "yes").then(|| "echelon-gateway".to_owned());
        let manager = (cells[3] == "yes").then(|| "echelon-resource-manager".to_owned());
        let shards = cells[4]
            .split(", ")
            .map(|name| format!("echelon-shard@{}", name.trim_matches('`')));
        Machine {
            number,
            units: gateway.into_iter().chain(manager).chain(shards).collect(),
        }
    };
    (1..).zip(rows).map(read).collect()
}

/// What the commands of the page are replaced by.
struct Places {
    work: WorkFolder,
    net: LoopbackNet,
    storage: String,
    membership: String,
}

struct Federation {
    /// By machine and unit.
    processes: BTreeMap<String, Process>,
    masters: Vec<Process>,
    gateways: Vec<SocketAddr>,
    // Last, so that the processes are gone before their files.
    places: Places,
}

impl Places {
    fn new() -> Result<Self> {
        let (cassandra, zookeeper) = (Cassandra::shared()?, ZooKeeper::shared()?);
        let name = uuid::Uuid::new_v4().simple().to_string();
        Ok(Self {
            work: WorkFolder::new("production")?,
            net: LoopbackNet::take()?,
            storage: format!(
                "cassandra://{}/walk_{name}?replication=1",
                cassandra.contact_points()
            ),
            membership: format!("zookeeper://{}/walk-{name}", zookeeper.contact_points()),
        })
    }

    /// The root of a machine.
    fn root(&self, number: u8) -> Result<PathBuf> {
        self.work.folder(&format!("node-{number}"))
    }

    /// Runs the page's commands that install files and edit them.
    fn install(&self, machine: &Machine, page: &str) -> Result<()> {
        let root = self.root(machine.number)?;
        for folder in ["usr/bin", "etc/systemd/system"] {
            fs::create_dir_all(root.join(folder))?;
        }
        let has_west = machine.units.iter().any(|unit| unit.ends_with("@west"));
        let blocks = page
            .split("```sh\n")
            .skip(1)
            .filter_map(|block| block.split("```").next());
        let lines = blocks.flat_map(str::lines);
        let lines = lines.filter(|line| line.starts_with("install ") || line.starts_with("sed "));
        // The command that names the machine comes last, as the page says.
        let (naming, installing): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.contains("advertise"));
        let wanted = installing
            .into_iter()
            .filter(|line| has_west || !line.contains("west"));
        for line in wanted.chain(naming) {
            let line = line
                .replace(" -g echelon", "")
                .replace("\"node-2:/", &format!("\"node-{}:/", machine.number))
                .replace(
                    "target/release/echelon",
                    &process::binary()?.display().to_string(),
                )
                .replace("/usr/bin/", &format!("{}/usr/bin/", root.display()))
                .replace("/etc/", &format!("{}/etc/", root.display()));
            let ran = Command::new("sh")
                .args(["-ec", &line])
                .current_dir(deploy(".."))
                .output()?;
            ensure!(
                ran.status.success(),
                "{line}: {}",
                String::from_utf8_lossy(&ran.stderr)
            );
        }
        for file in fs::read_dir(root.join("etc/echelon"))? {
            self.substitute(&file?.path(), machine.number)?;
        }
        Ok(())
    }

    /// Puts what is there in place of what a configuration names. Each text must be there.
    fn substitute(&self, file: &Path, number: u8) -> Result<()> {
        let mut text = fs::read_to_string(file)?;
        let mut put = |old: &str, new: &str| {
            ensure!(text.contains(old), "no `{old}` in {}", file.display());
            text = text.replace(old, new);
            Ok(())
        };
        put(
            "cassandra://node-1:9042,node-2:9042,node-3:9042/echelon?replication=3",
            &self.storage,
        )?;
        put(
            "zookeeper://node-1:2181,node-2:2181,node-3:2181/echelon",
            &self.membership,
        )?;
        let own = self.net.address(number).to_string();
        put("0.0.0.0", &own)?;
        put(
            &format!("advertise = \"node-{number}:"),
            &format!("advertise = \"{own}:"),
        )?;
        for (index, cluster) in (0..).zip(CLUSTERS) {
            if file.ends_with(format!("shard-{cluster}.toml")) {
                let masters = (1..=3).map(|n| format!("zookeeper-{cluster}-{n}:2181"));
                let masters = format!("zk://{}/mesos", masters.collect::<Vec<_>>().join(","));
                put(&masters, &self.net.socket(FIRST_MASTER + index, 5050).to_string())?;
            }
        }
        Ok(fs::write(file, text)?)
    }

    /// Starts a unit by its own command line.
    fn start(&self, machine: &Machine, unit: &str) -> Result<Process> {
        let (template, instance) = unit
            .split_once('@')
            .map_or((unit, ""), |(template, of)| (template, of));
        let file = if instance.is_empty() {
            format!("{template}.service")
        } else {
            format!("{template}@.service")
        };
        let root = self.root(machine.number)?;
        let text = fs::read_to_string(root.join("etc/systemd/system").join(file))?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("ExecStart=/usr/bin/echelon "));
        let line = line.with_context(|| format!("{unit} starts something else"))?;
        let line = line
            .replace("%i", instance)
            .replace("/etc/", &format!("{}/etc/", root.display()));
        let args: Vec<&str> = line.split_whitespace().collect();
        let config: toml::Table = fs::read_to_string(args.last().context("no file")?)?.parse()?;
        let served = config
            .get("admin")
            .or_else(|| config.get("process")?.get("listen"));
        let ready: SocketAddr = served
            .and_then(toml::Value::as_str)
            .context("no address")?
            .parse()?;
        Role::new(&format!("node-{}-{unit}", machine.number))
            .args(args)
            .ready_at(ready)
            .start(&self.work)
    }

    /// Starts a simulated cluster from its sample, at an address of its own.
    fn start_master(&self, index: u8, cluster: &str) -> Result<Process> {
        let at = self.net.socket(FIRST_MASTER + index, 5050);
        let folder = self.work.folder(&format!("mesos-{cluster}"))?;
        let text = fs::read_to_string(deploy("config/mesos-sim.toml"))?;
        let text = text
            .replace("\"127.0.0.1:5050\"", &format!("\"{at}\""))
            .replace("cluster = \"east\"", &format!("cluster = \"{cluster}\""))
            .replace(
                "/var/lib/echelon/mesos-sim/east",
                &folder.join("work").display().to_string(),
            );
        let file = folder.join("mesos-sim.toml");
        fs::write(&file, text)?;
        let role = Role::new(&format!("mesos-sim-{cluster}"));
        role.args(["mesos-sim", "--config", &file.display().to_string()])
            .start(&self.work)
    }
}

impl Federation {
    fn start() -> Result<Self> {
        let places = Places::new()?;
        let page = fs::read_to_string(deploy("README.md"))?;
        for verb in ["migrate", "status"] {
            command(&["storage", verb, "--storage", &places.storage])?;
        }
        command(&[
            "doctor",
            "--storage",
            &places.storage,
            "--membership",
            &places.membership,
        ])?;
        let mut masters = Vec::new();
        for (index, cluster) in (0..).zip(CLUSTERS) {
            masters.push(places.start_master(index, cluster)?);
        }
        let (mut processes, mut gateways) = (BTreeMap::new(), Vec::new());
        for machine in machines(&page) {
            places.install(&machine, &page)?;
            for unit in &machine.units {
                let started = places.start(&machine, unit)?;
                processes.insert(format!("node-{} {unit}", machine.number), started);
                if unit == "echelon-gateway" {
                    let gateway = places.net.socket(machine.number, 7070).into();
                    if gateways.is_empty() {
                        add_clusters(&page, gateway)?;
                    }
                    gateways.push(gateway);
                }
            }
        }
        Ok(Self {
            processes,
            masters,
            gateways,
            places,
        })
    }

    /// The leader of a role, as all gateways that answer see it: the name of its process.
    fn leader(&self, role: &str, cluster: &str) -> Result<String> {
        let seen = self
            .gateways
            .iter()
            .find_map(|gateway| http::get(*gateway, "/v1/status").ok());
        let (_, body) = seen.context("no gateway answers")?;
        let status: Value = serde_json::from_str(&body)?;
        let roles = status["roles"].as_array().context("no roles")?;
        let is_it = |of: &&Value| of["role"] == role && of["cluster"].as_str().unwrap_or_default() == cluster;
        let processes = roles.iter().find(is_it).and_then(|of| of["processes"].as_array());
        let leads = |process: &&Value| process["standing"] == "STANDING_LEADER";
        let leader = processes.into_iter().flatten().find(leads);
        let address = leader.and_then(|process| process["address"].as_str());
        let address = address.with_context(|| format!("nobody leads {role} {cluster}: {status:#}"))?;
        let address: SocketAddr = address.trim_start_matches("http://").parse()?;
        let machine = (1..=3)
            .find(|number| SocketAddr::from(self.places.net.socket(*number, address.port())) == address);
        let unit = match cluster {
            "" => format!("echelon-{role}"),
            cluster => format!("echelon-{role}@{cluster}"),
        };
        Ok(format!("node-{} {unit}", machine.context("no such machine")?))
    }

    /// Waits until another process than that leads.
    fn led_by_another(&self, (role, cluster): (&str, &str), than: &str) -> Result<String> {
        wait::until(&format!("another leader of {role} {cluster}"), PATIENCE, || {
            Ok(self.leader(role, cluster).ok().filter(|name| name != than))
        })
    }

    fn submit(&self, gateway: SocketAddr, name: &str, rest: &str) -> Result<()> {
        let file = self.places.work.path().join(format!("{name}.yaml"));
        let text = format!("name: {name}\npool: /default\n{rest}resources: {{cpus: 0.1, memory: 32MiB}}\n");
        fs::write(&file, text)?;
        command(&[
            "--address",
            &format!("http://{gateway}"),
            "job",
            "run",
            &file.display().to_string(),
        ])
        .map(drop)
    }

    /// Waits until all clusters are healthy. A job takes its share of those that can start work when it comes.
    fn healthy(&self, gateway: SocketAddr) -> Result<()> {
        let mut last = String::new();
        let waited = wait::until("all clusters to be healthy", PATIENCE, || {
            let Ok((200, body)) = http::get(gateway, "/v1/clusters") else {
                return Ok(None);
            };
            last.clone_from(&body);
            let listed: Value = serde_json::from_str(&body)?;
            let listed = listed["clusters"].as_array().cloned().unwrap_or_default();
            let healthy = listed.iter().filter(|c| c["health"] == "HEALTH_HEALTHY");
            Ok((healthy.count() == CLUSTERS.len()).then_some(()))
        });
        waited.with_context(|| last)
    }

    /// Task ids of a job by instance, when all of them are in a state.
    fn tasks(&self, gateway: SocketAddr, job: &str, state: &str) -> Result<BTreeMap<u64, String>> {
        let mut last = String::new();
        let waited = wait::until(&format!("{job} to be {state}"), PATIENCE, || {
            let Ok((200, body)) = http::get(gateway, &format!("/v1/jobs/{job}/instances")) else {
                return Ok(None);
            };
            last.clone_from(&body);
            let listed: Value = serde_json::from_str(&body)?;
            let listed = listed["instances"].as_array().cloned().unwrap_or_default();
            let found = listed
                .iter()
                .filter(|instance| instance["state"] == state)
                .map(|instance| {
                    let task = instance["run"]["taskId"].as_str().unwrap_or_default().to_owned();
                    // JSON leaves zeros out.
                    (instance["number"].as_u64().unwrap_or_default(), task)
                });
            let found: BTreeMap<u64, String> = found.collect();
            Ok((found.len() == 4).then_some(found))
        });
        waited.with_context(|| last)
    }
}

/// Runs the commands of the page that add clusters. Their shards are ready only then.
fn add_clusters(page: &str, gateway: SocketAddr) -> Result<()> {
    let address = format!("http://{gateway}");
    let added = page
        .lines()
        .filter_map(|line| line.strip_prefix("echelon cluster add "));
    for cluster in added {
        command(&["--address", &address, "cluster", "add", cluster])?;
    }
    Ok(())
}

/// Runs one command of `echelon`, and is its standard output. A command that fails is an error.
fn command(args: &[&str]) -> Result<String> {
    let ran = process::command()?.args(args).output()?;
    let beside = String::from_utf8_lossy(&ran.stderr);
    ensure!(ran.status.success(), "{args:?}: {beside}");
    Ok(String::from_utf8(ran.stdout)?)
}

#[test]
fn what_the_pages_say_runs_jobs_and_outlives_a_leader_of_each_role() {
    let mut federation = Federation::start().unwrap();
    let [first, second] = federation.gateways[..] else {
        panic!("two gateways are expected: {:?}", federation.gateways);
    };
    federation.healthy(second).unwrap();
    for (gateway, job) in [(first, "one"), (second, "two")] {
        federation.submit(gateway, job, SERVICE).unwrap();
    }
    let before = ["one", "two"].map(|job| federation.tasks(second, job, "RUN_STATE_RUNNING").unwrap());

    // Gateways do not elect; the first of them goes.
    federation
        .processes
        .get_mut("node-1 echelon-gateway")
        .unwrap()
        .kill()
        .unwrap();
    federation.gateways = vec![second];
    for (role, cluster) in [("resource-manager", ""), ("shard", "east"), ("shard", "west")] {
        let led = federation.leader(role, cluster).unwrap();
        federation.processes.get_mut(&led).unwrap().kill().unwrap();
        federation.led_by_another((role, cluster), &led).unwrap();
    }
    federation.submit(second, "last", BATCH).unwrap();
    federation.tasks(second, "last", "RUN_STATE_SUCCEEDED").unwrap();
    let after = ["one", "two"].map(|job| federation.tasks(second, job, "RUN_STATE_RUNNING").unwrap());
    assert_eq!(before, after, "tasks were touched");

    // A simulated cluster that ends says how its tasks are ended.
    for (master, cluster) in federation.masters.iter_mut().zip(CLUSTERS) {
        let server = master.server();
        server.terminate(Duration::from_secs(60)).unwrap();
        let log = server.log_tail();
        let (_, said) = log
            .split_once("end them with: ")
            .unwrap_or_else(|| panic!("{cluster}: {log}"));
        let said = said.lines().next().unwrap();
        // As it is said; its own shell has the same words in its command line, so it is started without one.
        let (pkill, words) = said.split_once(" -f '").unwrap();
        let ended = Command::new(pkill)
            .args(["-f", words.trim_end_matches('\'')])
            .status()
            .unwrap();
        assert!(ended.success(), "{said}");
    }
}
