//! What an instance and its sidecars run.

use super::*;

const WEB: &str = "
name: web
kind: service
command: /bin/web
args: [-v, \"8080\"]
env: {MODE: fast}
secrets: {TOKEN: {name: team/api, key: token}}
user: web
working_dir: app
uris:
  - {uri: https://example.com/app.tar.gz, cache: true}
  - {uri: /opt/tool, executable: true, output_file: bin/tool}
container:
  type: docker
  image: team/web:3
  force_pull: true
  network: bridge
  hostname: web
  volumes:
    - {path: /data, host_path: /srv/data, read_only: true}
    - {path: /scratch, sandbox_path: scratch}
    - {path: /key, secret: {name: team/key}}
ports:
  - {name: http, container_port: 80, visibility: external}
  - {name: dns, port: 53, protocol: udp}
health: {http: {port: http, path: /up}, interval: 5s, grace: 1m, failures: 2}
readiness: {tcp: {port: \"80\"}, delay: 1s}
resources: {cpus: 0.1, memory: 32MiB}
";

#[test]
fn all_of_a_runtime_reads() {
    let spec = parse(WEB.as_bytes()).unwrap();
    let runtime = &spec.groups[0].runtime;
    assert_eq!(
        runtime.args.as_deref(),
        Some(&["-v".to_owned(), "8080".to_owned()][..])
    );
    assert_eq!(runtime.secrets["TOKEN"].key, "token");
    assert_eq!(
        (runtime.user.as_str(), runtime.working_dir.as_str()),
        ("web", "app")
    );
    let uris: Vec<_> = runtime
        .uris
        .iter()
        .map(|u| (u.extract, u.executable, u.cache, u.output_file.as_str()))
        .collect();
    assert_eq!(uris, [(true, false, true, ""), (true, true, false, "bin/tool")]);
    let container = runtime.container.as_ref().unwrap();
    assert_eq!(
        (container.containerizer, &container.network),
        (Containerizer::Docker, &Network::Bridge)
    );
    assert!(container.force_pull && container.volumes[0].read_only);
    let sources: Vec<String> = container
        .volumes
        .iter()
        .map(|v| format!("{:?}", v.source))
        .collect();
    assert_eq!(sources[0], "Host(\"/srv/data\")");
    assert_eq!(sources[1], "Sandbox(\"scratch\")");
    assert!(sources[2].starts_with("Secret("), "{sources:?}");
    let ports: Vec<_> = runtime
        .ports
        .iter()
        .map(|p| (p.fixed, p.container_port))
        .collect();
    assert_eq!(ports, [(None, Some(80)), (Some(53), None)]);
    assert_eq!(
        (runtime.ports[1].protocol, runtime.ports[0].visibility),
        (Protocol::Udp, Visibility::External)
    );
    let health = runtime.health.as_ref().unwrap();
    assert_eq!((health.failures, health.grace), (2, Span::minutes(1)));
    assert_eq!(
        (health.probe.interval, health.probe.timeout),
        (Span::seconds(5), defaults::PROBE_TIMEOUT)
    );
    let ready = runtime.readiness.as_ref().unwrap();
    let port = PortReference::Number(80);
    assert_eq!(
        (&ready.kind, ready.delay),
        (&ProbeKind::Tcp { port }, Span::seconds(1))
    );
}

#[test]
fn what_is_wrong_in_a_runtime_is_said_with_its_place() {
    let cases = [
        (
            "volumes:",
            "volums:",
            "unknown field `volums`; did you mean `volumes`?",
        ),
        (
            "type: docker",
            "type: dokcer",
            "container.type: `dokcer` is not a containerizer: use mesos or docker; did you mean `docker`?",
        ),
        (
            "visibility: external",
            "visibility: all",
            "ports[0].visibility: `all` is not a visibility: use framework, cluster or external",
        ),
        (
            "port: 53",
            "port: 70000",
            "ports[1].port: `70000` is not a port: write 1 to 65535",
        ),
        (
            "cache: true",
            "cache: yes",
            "uris[0].cache: `yes` is neither true nor false",
        ),
        (
            ", sandbox_path: scratch",
            "",
            "container.volumes[1]: needs exactly one of `host_path`, `sandbox_path` and `secret`",
        ),
        (
            "tcp: {port: \"80\"}, ",
            "",
            "readiness: needs exactly one of `command`, `http` and `tcp`",
        ),
        ("interval: 5s", "interval: 5", "health.interval: `5` has no unit"),
    ];
    for (right, wrong, told) in cases {
        let text = WEB.replacen(right, wrong, 1);
        assert!(said(&text).contains(told), "{wrong}: {}", said(&text));
    }
}

const POD: &str = "
name: web
kind: service
command: serve
ports: [{name: http}]
resources: {cpus: 1, memory: 64MiB}
sidecars:
  - name: log
    command: ship
    env: {LEVEL: info}
    health: {tcp: {port: http}}
    resources: {cpus: 0.2, memory: 32MiB}
  - {name: proxy, args: [run], command: proxy, container: {image: team/proxy}, resources: {cpus: 0.1}}
";

#[test]
fn a_group_may_have_sidecars() {
    let spec = parse(POD.as_bytes()).unwrap();
    let group = spec.groups.first().unwrap();
    let names: Vec<&str> = group.sidecars.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["log", "proxy"]);
    assert_eq!(group.room().to_string(), "cpus 1.4, memory 128MiB, disk 16MiB");
    let log = &group.sidecars[0].runtime;
    assert_eq!((log.env["LEVEL"].as_str(), log.health.is_some()), ("info", true));
    assert_eq!(group.sidecars[1].runtime.args, Some(vec!["run".to_owned()]));
}

#[test]
fn what_is_wrong_in_a_sidecar_is_said_with_its_place() {
    let cases = [
        (
            "name: log",
            "name: Log",
            "sidecars[0].name: `Log` is not a sidecar's name",
        ),
        (
            ", resources: {cpus: 0.1}",
            "",
            "sidecars[1].resources: is missing",
        ),
        ("command: ship", "command: ''", "sidecars[0].command: is empty"),
        ("cpus: 0.2", "cpus: some", "sidecars[0].resources.cpus"),
        ("name: proxy", "name: proxy, ports: []", "unknown field `ports`"),
        ("name: proxy", "name: proxy, grace: 1s", "unknown field `grace`"),
    ];
    for (right, wrong, told) in cases {
        let text = POD.replacen(right, wrong, 1);
        assert!(said(&text).contains(told), "{wrong}: {}", said(&text));
    }
}
