//! The files of `deploy/` do together what its page says: on three machines, and in containers.

use super::options::reachable;
use super::tests::{deploy, understood};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

fn text(file: &str) -> String {
    std::fs::read_to_string(deploy(file)).unwrap()
}

/// What is in the blocks of shell of the page.
fn documented(page: &str) -> String {
    let blocks = page.split("```sh\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap()).collect()
}

/// A machine of the page.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord, Clone)]
struct Machine {
    name: String,
    gateway: bool,
    manager: bool,
    shards: Vec<String>,
}

fn machines(page: &str) -> Vec<Machine> {
    let rows = page.lines().filter(|line| line.starts_with("| `node-"));
    let read = |row: &str| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        Machine {
            name: cells[0].trim_matches('`').to_owned(),
            gateway: cells[2] == "yes",
            manager: cells[3] == "yes",
            shards: cells[4]
                .split(", ")
                .map(|name| name.trim_matches('`').to_owned())
                .collect(),
        }
    };
    rows.map(read).collect()
}

#[test]
fn no_machine_has_all_of_a_role() {
    let machines = machines(&text("README.md"));
    assert_eq!(machines.len(), 3);
    assert_eq!(machines.iter().filter(|machine| machine.gateway).count(), 2);
    assert_eq!(machines.iter().filter(|machine| machine.manager).count(), 2);
    for cluster in ["east", "west"] {
        let with = machines
            .iter()
            .filter(|machine| machine.shards.iter().any(|name| name == cluster));
        assert_eq!(with.count(), 2, "{cluster}");
    }
}

/// Runs the page's commands for a machine, below a folder in place of `/`. Users and services are the machine's own business.
fn set_up(machine: &Machine, root: &Path) {
    let program = std::env::current_exe().unwrap();
    for folder in ["usr/bin", "etc/systemd/system"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    let below = root.display();
    let is_for = |line: &str| {
        let is_command = line.starts_with("install ") || line.starts_with("sed ");
        let is_west = line.contains("shard-west") || line.contains("\"west\"");
        is_command
            && !line.contains("advertise")
            && (!is_west || machine.shards.iter().any(|name| name == "west"))
    };
    let page = text("README.md");
    let lines = documented(&page);
    let rename = lines.lines().find(|line| line.contains("advertise")).unwrap();
    let rename = rename.replace("\"node-2:/", &format!("\"{}:/", machine.name));
    for line in lines.lines().filter(|line| is_for(line)).chain([rename.as_str()]) {
        let line = line
            .replace(" -g echelon", "")
            .replace("target/release/echelon", &program.display().to_string())
            .replace("/usr/bin/", &format!("{below}/usr/bin/"))
            .replace("/etc/", &format!("{below}/etc/"));
        let ran = Command::new("sh")
            .args(["-ec", &line])
            .current_dir(deploy(".."))
            .output()
            .unwrap();
        assert!(
            ran.status.success(),
            "{line}: {}",
            String::from_utf8_lossy(&ran.stderr)
        );
    }
}

#[test]
fn the_commands_of_the_page_set_three_machines_up() {
    let page = text("README.md");
    for machine in machines(&page) {
        let root = tempfile::tempdir().unwrap();
        set_up(&machine, root.path());
        let mode = |file: &Path| file.metadata().unwrap().permissions().mode() & 0o777;
        let list = |folder: &str| {
            let entries = std::fs::read_dir(root.path().join(folder)).unwrap();
            entries.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
        };
        let units = list("etc/systemd/system");
        assert_eq!(units.len(), 4);
        assert!(units.iter().all(|unit| mode(unit) == 0o644), "{units:?}");
        let mut ports = BTreeSet::new();
        for file in list("etc/echelon") {
            assert_eq!(mode(&file), 0o640, "{}", file.display());
            let config: toml::Table = std::fs::read_to_string(&file).unwrap().parse().unwrap();
            let advertise = config["advertise"].as_str().unwrap();
            let listen: SocketAddr = config["process"]["listen"].as_str().unwrap().parse().unwrap();
            reachable(listen, Some(advertise)).unwrap();
            assert!(!listen.ip().is_loopback(), "{}", file.display());
            assert_eq!(advertise, format!("{}:{}", machine.name, listen.port()));
            let admin = config
                .get("admin")
                .map(|at| at.as_str().unwrap().parse::<SocketAddr>().unwrap());
            assert!(admin.is_none_or(|admin| !admin.ip().is_loopback()));
            for port in [Some(listen.port()), admin.map(|at| at.port())]
                .into_iter()
                .flatten()
            {
                assert!(
                    ports.insert(port),
                    "{}: port {port} twice on {}",
                    file.display(),
                    machine.name
                );
                assert!(page.contains(&port.to_string()));
            }
        }
        for cluster in &machine.shards {
            // `shard-east.toml` is installed on each machine, and started where the table says.
            let file = root.path().join(format!("etc/echelon/shard-{cluster}.toml"));
            let config: toml::Table = std::fs::read_to_string(file).unwrap().parse().unwrap();
            assert_eq!(config["cluster"].as_str(), Some(cluster.as_str()));
            assert!(
                config["mesos"]
                    .as_str()
                    .unwrap()
                    .contains(&format!("-{cluster}-"))
            );
        }
    }
}

#[test]
fn units_are_read_again_before_they_are_started() {
    let page = documented(&text("README.md"));
    let at = |words: &str| page.find(words).unwrap_or_else(|| panic!("no `{words}`"));
    assert!(at("/etc/systemd/system") < at("systemctl daemon-reload"));
    assert!(at("systemctl daemon-reload") < at("systemctl enable"));
}

/// The ports where the page's machines have metrics.
fn scraped() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for machine in machines(&text("README.md")) {
        let name = &machine.name;
        all.extend(machine.gateway.then(|| format!("{name}:7070")));
        all.extend(machine.manager.then(|| format!("{name}:7171")));
        for cluster in &machine.shards {
            let port = if cluster == "east" { 7172 } else { 7173 };
            all.insert(format!("{name}:{port}"));
        }
    }
    all
}

#[derive(Deserialize)]
struct Prometheus {
    rule_files: Vec<String>,
    scrape_configs: Vec<Scrape>,
}

#[derive(Deserialize)]
struct Scrape {
    static_configs: Vec<Targets>,
}

#[derive(Deserialize)]
struct Targets {
    targets: Vec<String>,
}

impl Prometheus {
    fn targets(&self) -> BTreeSet<String> {
        let configs = self
            .scrape_configs
            .iter()
            .flat_map(|scrape| &scrape.static_configs);
        configs.flat_map(|config| config.targets.clone()).collect()
    }
}

#[test]
fn every_role_of_the_three_machines_is_scraped() {
    let prometheus: Prometheus = serde_saphyr::from_str(&text("prometheus.yaml")).unwrap();
    assert_eq!(prometheus.targets(), scraped());
    assert_eq!(prometheus.rule_files, ["/etc/prometheus/echelon-alerts.yaml"]);
}

#[test]
fn the_balancer_asks_each_gateway_whether_it_is_ready() {
    let config = text("haproxy.cfg");
    let servers: BTreeSet<&str> = config
        .lines()
        .filter_map(|line| line.trim().strip_prefix("server "))
        .map(|line| line.split_whitespace().nth(1).unwrap())
        .collect();
    let scraped = scraped();
    let gateways: BTreeSet<&str> = scraped
        .iter()
        .map(String::as_str)
        .filter(|at| at.ends_with(":7070"))
        .collect();
    assert_eq!(servers, gateways);
    // A gateway refuses a name that is not its own, and a request without one.
    assert!(config.contains("http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host localhost"));
    // Two checks fail before a gateway that ends closes its port.
    assert!(config.contains("check inter 1s fall 2") && text("config/gateway.toml").contains("drain_s = 5"));
}

#[derive(Deserialize)]
struct Compose {
    services: BTreeMap<String, Service>,
    volumes: BTreeMap<String, Option<toml::Value>>,
    configs: BTreeMap<String, Content>,
}

#[derive(Deserialize)]
struct Content {
    content: String,
}

#[derive(Deserialize)]
struct Service {
    #[serde(default)]
    command: Vec<String>,
    restart: String,
    healthcheck: Option<Check>,
    #[serde(default)]
    volumes: Vec<String>,
    #[serde(default)]
    depends_on: BTreeMap<String, Condition>,
}

#[derive(Deserialize)]
struct Check {
    test: Vec<String>,
}

#[derive(Deserialize)]
struct Condition {
    condition: String,
}

fn compose() -> Compose {
    serde_saphyr::from_str(&text("compose.yaml")).unwrap()
}

fn word_after<'a>(service: &'a Service, flag: &str) -> Option<&'a str> {
    let at = service.command.iter().position(|word| word == flag)?;
    service.command.get(at + 1).map(String::as_str)
}

#[test]
fn compose_starts_what_there_is() {
    let compose = compose();
    let ours = compose
        .services
        .iter()
        .filter(|(_, service)| !service.command.is_empty());
    let mut roles: BTreeMap<String, usize> = BTreeMap::new();
    for (name, service) in ours {
        let command = service.command.join(" ");
        // The address comes from the environment there.
        let where_from = if command.starts_with("storage") {
            " --storage memory:"
        } else {
            ""
        };
        understood(&format!("{command}{where_from}"));
        let cluster = word_after(service, "--cluster").unwrap_or_default();
        *roles
            .entry(format!("{} {cluster}", service.command[0]))
            .or_default() += 1;
        if let Some(advertise) = word_after(service, "--advertise") {
            reachable(
                word_after(service, "--listen").unwrap().parse().unwrap(),
                Some(advertise),
            )
            .unwrap();
            assert!(
                advertise.starts_with(&format!("{name}:")),
                "{name} advertises {advertise}"
            );
        }
    }
    let expected = [
        ("cluster ", 2),
        ("gateway ", 2),
        ("mesos-sim east", 1),
        ("mesos-sim west", 1),
        ("resource-manager ", 2),
        ("shard east", 2),
        ("shard west", 2),
        ("storage ", 1),
    ];
    let expected = expected.map(|(role, count)| (role.to_owned(), count));
    assert_eq!(roles, expected.into_iter().collect());
}

#[test]
fn containers_are_started_again_in_order_and_keep_what_they_hold() {
    let compose = compose();
    let mut volumes = BTreeSet::new();
    for (name, service) in &compose.services {
        let again = if ["migrate", "add-east", "add-west"].contains(&name.as_str()) {
            "on-failure"
        } else {
            "unless-stopped"
        };
        assert_eq!(service.restart, again, "{name}");
        let named = service.volumes.iter().filter(|volume| !volume.starts_with('.'));
        volumes.extend(named.map(|volume| volume.split(':').next().unwrap().to_owned()));
        for on in service
            .depends_on
            .iter()
            .filter(|(_, on)| on.condition == "service_healthy")
        {
            assert!(
                compose.services[on.0].healthcheck.is_some(),
                "{name} waits for {}",
                on.0
            );
        }
        let first = service.command.first().map(String::as_str);
        if matches!(first, Some("gateway" | "resource-manager" | "shard")) {
            for waited in ["migrate", "zookeeper"] {
                assert!(service.depends_on.contains_key(waited), "{name}");
            }
        }
        if first == Some("mesos-sim") {
            let kept = format!(":{}", word_after(service, "--work-dir").unwrap());
            assert!(
                service.volumes.iter().any(|volume| volume.ends_with(&kept)),
                "{name}"
            );
            // A volume has the owner of the folder in the image.
            assert!(text("Dockerfile").contains(&format!("--owner echelon --group echelon {}", &kept[1..])));
        }
    }
    assert_eq!(volumes, compose.volumes.keys().cloned().collect());
    for server in ["cassandra", "zookeeper"] {
        let check = compose.services[server].healthcheck.as_ref().unwrap();
        assert_eq!(check.test[0], "CMD", "{server}");
    }
}

#[test]
fn every_container_of_ours_is_scraped() {
    let compose = compose();
    let scraped: Prometheus = serde_saphyr::from_str(&compose.configs["prometheus"].content).unwrap();
    let at = |(name, service): (&String, &Service)| {
        let port = |flag: &str| {
            word_after(service, flag)?
                .rsplit_once(':')
                .map(|(_, port)| port.to_owned())
        };
        let port = match service.command.first().map(String::as_str) {
            Some("gateway") => port("--listen"),
            Some("resource-manager" | "shard") => port("--admin"),
            _ => None,
        };
        port.map(|port| format!("{name}:{port}"))
    };
    let ours: BTreeSet<String> = compose.services.iter().filter_map(at).collect();
    assert_eq!(scraped.targets(), ours);
    for rules in &scraped.rule_files {
        let mounted = compose.services["prometheus"]
            .volumes
            .iter()
            .find_map(|v| v.strip_suffix(&format!(":{rules}:ro")));
        assert!(deploy(mounted.unwrap()).exists());
    }
}

#[test]
fn a_build_of_the_image_leaves_out_what_is_large_and_has_what_examples_run() {
    let ignored = std::fs::read_to_string(deploy("../.dockerignore")).unwrap();
    for folder in ["target", ".git"] {
        assert!(ignored.lines().any(|line| line == folder), "{folder}");
    }
    // What the example jobs call beside a shell and the base system.
    let mut called = BTreeSet::new();
    for entry in std::fs::read_dir(deploy("../examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "yaml") {
            let job = std::fs::read_to_string(path).unwrap();
            called.extend(
                ["python3", "curl", "jq", "perl"]
                    .into_iter()
                    .filter(|program| job.contains(program)),
            );
        }
    }
    let image = text("Dockerfile");
    let installed: BTreeSet<&str> = image
        .lines()
        .filter_map(|line| line.split_once("--no-install-recommends "))
        .flat_map(|(_, rest)| rest.split(" &&").next().unwrap().split_whitespace())
        .collect();
    assert!(
        called.is_subset(&installed),
        "examples call {called:?}, the image has {installed:?}"
    );
}
