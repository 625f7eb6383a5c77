//! `echelon standalone` as a process: a job from file to output, a service with ports, kill -9 and the same folder again, and who may use it.
#![cfg(test)]

#[path = "standalone/batch.rs"]
mod batch;
#[path = "standalone/clock.rs"]
mod clock;
#[path = "standalone/counter.rs"]
mod counter;
#[path = "standalone/daemons.rs"]
mod daemons;
#[path = "standalone/file.rs"]
mod file;
#[path = "standalone/gangs.rs"]
mod gangs;
#[path = "standalone/host_runs.rs"]
mod host_runs;
#[path = "standalone/instance_limit.rs"]
mod instance_limit;
#[path = "standalone/liars.rs"]
mod liars;
#[path = "standalone/logs.rs"]
mod logs;
#[path = "standalone/restored.rs"]
mod restored;
#[path = "standalone/unread.rs"]
mod unread;
#[path = "standalone/updates.rs"]
mod updates;

use echelon_tests::work::WorkFolder;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const BINARY: &str = env!("CARGO_BIN_EXE_echelon");

/// A folder for one test. Tasks outlive the process that started them, so those of a test are killed with its folder.
fn work() -> WorkFolder {
    WorkFolder::new("standalone").unwrap()
}

/// Kills its process when the test ends, in whatever way.
struct Standalone {
    child: Child,
    address: String,
}

impl Standalone {
    /// Starts on a folder and reads the line that says where it is.
    fn start(folder: &Path) -> Self {
        Self::start_with(folder, &[])
    }

    /// The same with further options.
    fn start_with(folder: &Path, options: &[&str]) -> Self {
        Self::start_by(plain(), folder, (options, Stdio::null()))
    }

    /// The same by a command that says more, and what is told goes there.
    fn start_by(mut command: Command, folder: &Path, told: (&[&str], Stdio)) -> Self {
        let (options, stderr) = told;
        let mut child = command
            .args(["standalone", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder)
            .args(options)
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let shown = folder.canonicalize().unwrap();
        let address = line
            .strip_prefix("echelon standalone: ready at ")
            .and_then(|rest| rest.strip_suffix(&format!(" (data in {})\n", shown.display())))
            .unwrap_or_else(|| panic!("it said {line:?}"));
        Self {
            address: address.to_owned(),
            child,
        }
    }

    fn echelon(&self, args: &[&str]) -> Output {
        plain()
            .args(args)
            .env("ECHELON_ADDRESS", &self.address)
            .output()
            .unwrap()
    }

    /// What a command that succeeds prints.
    fn printed(&self, args: &[&str]) -> String {
        let output = self.echelon(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn instances(&self, job: &str) -> Vec<serde_json::Value> {
        let listed = self.printed(&["job", "instances", job, "-o", "json"]);
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let listed = listed.get("instances").unwrap_or(&listed);
        listed.as_array().unwrap().clone()
    }

    /// Task ids of the running instances of a job, in order, once there are so many.
    fn running(&self, job: &str, n_instances: usize) -> Vec<String> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let listed = self.instances(job);
            let running = listed.iter().filter(|i| i["state"] == "running");
            let tasks: Vec<String> = running.map(|i| i["run"]["task_id"].to_string()).collect();
            if tasks.len() == n_instances {
                return tasks;
            }
            assert!(Instant::now() < deadline, "{listed:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn interrupt(&mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-INT", &pid])
                .status()
                .unwrap()
                .success()
        );
        self.child.wait().unwrap().code()
    }
}

impl Drop for Standalone {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Without the developer's own settings.
fn plain() -> Command {
    let mut command = Command::new(BINARY);
    for name in [
        "ECHELON_ADDRESS",
        "ECHELON_CONFIG",
        "ECHELON_LOG",
        "ECHELON_STORAGE",
        "ECHELON_MEMBERSHIP",
        "ECHELON_TOKEN",
    ] {
        command.env_remove(name);
    }
    command
}

fn example(name: &str) -> String {
    format!("{}/../examples/{name}.yaml", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn everything_outlives_the_process() {
    let folder = work();
    let mut first = Standalone::start(folder.path());
    first.printed(&["job", "run", &example("hello"), "--wait"]);
    let log = first.printed(&["job", "logs", "hello", "3"]);
    assert!(log.contains("hello from instance 3 on "), "{log}");
    first.printed(&["job", "run", &example("service")]);
    let before = first.running("ticker", 2);

    let second = plain()
        .args(["standalone", "--data-dir"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(!second.status.success());
    let refused = String::from_utf8_lossy(&second.stderr);
    assert!(
        refused.contains("is in use by another `echelon standalone`"),
        "{refused}"
    );

    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let mut again = Standalone::start(folder.path());
    assert_eq!(
        again.running("ticker", 2),
        before,
        "the service's tasks were touched"
    );
    let hello = again.printed(&["job", "get", "hello"]);
    assert!(hello.contains("succeeded"), "{hello}");

    again.printed(&["job", "stop", "ticker", "--wait"]);
    assert_eq!(again.interrupt(), Some(0), "Ctrl-C ends it cleanly");
}

#[test]
fn what_was_scaled_away_comes_back_with_the_next_scale() {
    let folder = work();
    let standalone = Standalone::start(folder.path());
    standalone.printed(&["job", "run", &example("service")]);
    standalone.running("ticker", 2);
    for n in [4, 2, 4] {
        standalone.printed(&["job", "scale", "ticker", &n.to_string()]);
        standalone.running("ticker", n);
    }
}

#[test]
fn the_demo_runs_on_both_clusters() {
    let output = plain().arg("demo").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("demo: 24 of 24 instances succeeded on 2 clusters"),
        "{said}"
    );
}

/// Each step of the demo has a bound of its own, three times what is promised.
#[test]
fn the_demo_of_a_lost_cluster_doubles_and_loses_nothing() {
    let folder = work();
    let output = plain()
        .args(["demo", "--scenario", "cluster-loss"])
        // What it leaves in whatever way goes with the test.
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let beside = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{beside}");
    let last = said.lines().last().unwrap();
    let (figures, seconds) = last
        .strip_prefix("cluster-loss: ")
        .and_then(|rest| rest.rsplit_once(", in "))
        .unwrap_or_else(|| panic!("{last}"));
    let counted = |what: &str| -> u32 {
        let mut parts = figures.split(", ");
        let figure = parts.find_map(|part| part.strip_suffix(what)?.trim().parse().ok());
        figure.unwrap_or_else(|| panic!("no figure `{what}` in {last}"))
    };
    // Four service instances ran at the lost cluster, and the two others were full.
    assert!(counted("moved") >= 4 && counted("killed") >= 4, "{said}");
    assert_eq!((counted("doubled"), counted("lost")), (0, 0), "{said}");
    assert!(seconds.ends_with(" s"), "{last}");
    let has_declared = said.contains("echelon cluster declare-lost west --silence 1\n");
    assert!(has_declared, "{said}");
    assert!(said.lines().count() <= 100, "{said}");
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 0, "it removes what it made");
}

#[test]
fn the_steps_of_a_pipeline_run_one_after_the_other() {
    let folder = work();
    let standalone = Standalone::start(folder.path());
    let early = standalone.echelon(&["job", "run", &example("pipeline/work")]);
    let refused = String::from_utf8_lossy(&early.stderr);
    assert!(refused.contains("there is no job `split`"), "{refused}");
    for step in ["split", "work"] {
        standalone.printed(&["job", "run", &example(&format!("pipeline/{step}"))]);
    }
    standalone.printed(&["job", "run", &example("pipeline/merge"), "--wait"]);
    let work = standalone.printed(&["job", "get", "work"]);
    assert!(work.contains("succeeded"), "{work}");
    assert!(work.contains("after:     split has succeeded"), "{work}");
    let merged = standalone.printed(&["job", "logs", "merge", "0"]);
    assert!(merged.contains("merged"), "{merged}");
    let begun = |job: &str| -> String {
        let first = &standalone.instances(job)[0];
        first["run"]["start_time"].as_str().unwrap_or_default().to_owned()
    };
    assert!(begun("split") <= begun("work") && begun("work") <= begun("merge"));
}

#[test]
fn what_is_in_a_volume_outlives_runs_processes_and_the_job() {
    let folder = work();
    let mut first = Standalone::start(folder.path());
    first.printed(&["job", "run", &example("counter")]);
    let log = |standalone: &Standalone, job: &str, wanted: &str| {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            // A run that ends while it is asked about is no failure: the next one is asked.
            let log = String::from_utf8(standalone.echelon(&["job", "logs", job, "0"]).stdout).unwrap();
            if log.contains(wanted) {
                return;
            }
            assert!(Instant::now() < deadline, "no `{wanted}` in `{log}`");
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    first.running("counter", 1);
    log(&first, "counter", "start number 1");
    first.printed(&["job", "restart", "counter"]);
    log(&first, "counter", "start number 2");
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let again = Standalone::start(folder.path());
    again.running("counter", 1);
    again.printed(&["job", "restart", "counter"]);
    log(&again, "counter", "start number 3");

    // A host's row is written within seconds.
    let deadline = Instant::now() + Duration::from_secs(60);
    while again.printed(&["volume", "list"]).matches(" held ").count() != 1 {
        assert!(Instant::now() < deadline, "the volume is not listed as held");
        std::thread::sleep(Duration::from_millis(200));
    }
    let name = again.printed(&["volume", "list", "-o", "name"]).trim().to_owned();
    let refused = again.echelon(&["volume", "destroy", &name]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("is held by instance 0"),
        "{said}"
    );

    again.printed(&["job", "stop", "counter", "--wait"]);
    let volumes = again.printed(&["volume", "list", "--unheld", "-o", "name"]);
    assert_eq!(volumes.trim(), name);
    // Another job goes on where it stopped.
    let (cluster, _) = name.split_once('/').unwrap();
    let text = std::fs::read_to_string(example("counter")).unwrap();
    let text = text.replace(
        "name: counter",
        &format!("name: heir\nclusters: {{only: [{cluster}]}}"),
    );
    let file = folder.path().join("heir.yaml");
    std::fs::write(&file, text).unwrap();
    again.printed(&["job", "run", file.to_str().unwrap()]);
    again.running("heir", 1);
    let adopted = again.printed(&["volume", "adopt", &name, "heir/main/0"]);
    assert!(adopted.contains("`echelon job restart` has it used"), "{adopted}");
    again.printed(&["job", "restart", "heir"]);
    log(&again, "heir", "start number 4");

    let left = again.printed(&["volume", "list", "--unheld", "-o", "name"]);
    let name = left.trim();
    again.printed(&["volume", "destroy", name]);
    let deadline = Instant::now() + Duration::from_secs(120);
    let left = || again.printed(&["volume", "list", "--unheld", "-o", "name"]);
    while !left().trim().is_empty() {
        assert!(Instant::now() < deadline, "the volume is still there");
        std::thread::sleep(Duration::from_millis(200));
    }
    // Tasks outlive their cluster's process, and would outlive the test.
    again.printed(&["job", "stop", "heir", "--wait"]);
}

#[test]
fn a_host_is_left_empty_and_comes_back() {
    let folder = work();
    let standalone = Standalone::start(folder.path());
    standalone.printed(&["job", "run", &example("web")]);
    standalone.running("web", 2);
    let hosts = || {
        let listed = standalone.instances("web");
        let host = |i: &serde_json::Value| {
            let text = |v: &serde_json::Value| v.as_str().unwrap().to_owned();
            format!("{}/{}", text(&i["cluster"]), text(&i["run"]["hostname"]))
        };
        listed.iter().map(host).collect::<Vec<_>>()
    };
    let host = hosts()[0].clone();
    let drained = standalone.printed(&["host", "drain", &host, "--agent", "--wait"]);
    assert!(drained.contains("drained with its agent"), "{drained}");
    standalone.running("web", 2);
    assert!(!hosts().contains(&host), "{host} is empty");
    let listed = standalone.printed(&["host", "list"]);
    assert_eq!(listed.matches("drained with its agent").count(), 1, "{listed}");

    standalone.printed(&["host", "undrain", &host]);
    let deadline = Instant::now() + Duration::from_secs(120);
    while !standalone
        .printed(&["host", "get", &host])
        .contains("drain:       no")
    {
        assert!(Instant::now() < deadline, "it is still drained");
        std::thread::sleep(Duration::from_millis(200));
    }
    let unknown = standalone.echelon(&["host", "drain", "east/nowhere"]);
    assert_eq!(unknown.status.code(), Some(3));
    let wrong = standalone.echelon(&["host", "drain", &host, "--batch-for", "12"]);
    assert_eq!(wrong.status.code(), Some(2));
    standalone.printed(&["job", "stop", "web", "--wait"]);
}

#[test]
fn a_service_gets_ports_and_is_watched() {
    let folder = work();
    let standalone = Standalone::start(folder.path());
    standalone.printed(&["job", "run", &example("web")]);
    standalone.running("web", 2);
    let deadline = Instant::now() + Duration::from_secs(60);
    let runs = loop {
        let listed = standalone.instances("web");
        let runs: Vec<_> = listed.iter().map(|i| i["run"].clone()).collect();
        let well = |r: &serde_json::Value| r["healthy"] == true && r["ready"] == true;
        if runs.iter().all(well) {
            break runs;
        }
        assert!(Instant::now() < deadline, "{listed:?}");
        std::thread::sleep(Duration::from_millis(50));
    };
    let port = |run: &serde_json::Value| run["ports"][0]["number"].as_u64().unwrap();
    let ports: Vec<u64> = runs.iter().map(port).collect();
    assert_ne!(ports[0], ports[1], "both hosts are this machine");
    for (run, port) in runs.iter().zip(&ports) {
        assert_eq!(run["ports"][0]["name"], "http");
        let stream = std::net::TcpStream::connect(("127.0.0.1", u16::try_from(*port).unwrap()));
        assert!(stream.is_ok(), "nobody listens on {port}");
    }
    let wide = standalone.printed(&["job", "instances", "web", "-o", "wide"]);
    let shown = format!("http {}", ports[0]);
    assert!(wide.contains(&shown) && wide.contains("healthy, ready"), "{wide}");
    standalone.printed(&["job", "stop", "web", "--wait"]);
}

#[test]
fn a_wrong_command_says_what_to_do() {
    let cases = [
        (vec!["shard"], "`--mesos` is missing"),
        (vec!["shard", "--mesos", "zk://h:1"], "ends with the path"),
        (
            vec!["shard", "--mesos", "https://h:1"],
            "reached by http or found by ZooKeeper",
        ),
        (
            vec!["shard", "--mesos", "zk://h:1/mesos"],
            "`--cluster` is missing",
        ),
        (vec!["gateway"], "`--storage` is missing"),
        (
            vec!["gateway", "--storage", "memory:"],
            "`--membership` is missing",
        ),
        (
            vec!["gateway", "--storage", "memory:", "--membership", "etcd:"],
            "is not a membership URL",
        ),
        (vec!["standalone", "--clusters", "m:5050"], "write name=host:5050"),
        (
            vec!["gateway", "--config", "nowhere.toml"],
            "cannot read the configuration file nowhere.toml",
        ),
    ];
    for (args, expected) in cases {
        let output = plain().args(&args).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.contains(expected), "{args:?}: {told}");
        assert_eq!(output.status.code(), Some(2), "{args:?}: {told}");
    }
}

#[test]
fn the_tasks_of_a_pod_run_side_by_side_and_end_together() {
    let folder = work();
    let standalone = Standalone::start(folder.path());
    standalone.printed(&["job", "run", &example("pod"), "--wait"]);
    let listed = standalone.printed(&["job", "instances", "pod", "-o", "json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let instances = listed.get("instances").unwrap_or(&listed).as_array().unwrap();
    assert_eq!(instances.len(), 2);
    for instance in instances {
        assert_eq!(instance["state"], "succeeded", "{instance}");
        let members = instance["run"]["members"].as_array().unwrap();
        let told: Vec<_> = members.iter().map(|m| (&m["name"], &m["state"])).collect();
        assert_eq!(told[0].0, "main", "{instance}");
        assert_eq!((told[0].1, told[1].0), (&"succeeded".into(), &"clock".into()));
        assert_eq!(told[1].1, "killed", "{instance}");
    }
    let main = standalone.printed(&["job", "logs", "pod", "1"]);
    assert!(main.contains("step 3 of instance 1"), "{main}");
    let clock = standalone.printed(&["job", "logs", "pod", "1", "--sidecar", "clock"]);
    assert!(clock.contains("clock of instance 1: "), "{clock}");
    assert!(clock.ends_with("the main task has ended\n"), "{clock}");
    let wrong = standalone.echelon(&["job", "logs", "pod", "1", "--sidecar", "clok"]);
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert!(
        !wrong.status.success() && said.contains("no sidecar `clok`, only clock"),
        "{said}"
    );
}
