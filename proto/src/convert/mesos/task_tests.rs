use super::framework::Framework;
use super::task::single;
use crate::convert::mesos::status_from_wire;
use crate::mesos::v1::check_status_info::{Command, Http, Tcp};
use crate::mesos::v1::container_info::docker_info;
use crate::mesos::v1::{CheckStatusInfo, TaskInfo, TaskStatus, container_info, volume};
use echelon_core_hosts::Launch;
use echelon_core_model::runtime::{
    Container, Containerizer, HealthCheck, ImageFormat, Network, Port, PortReference, PortSpec, Probe,
    ProbeKind, Protocol, Runtime, SecretReference, Uri, Visibility, Volume, VolumeSource,
};
use echelon_core_model::{HostId, Resources, Span};

fn launched(runtime: Runtime) -> TaskInfo {
    let numbers = 31_000u16..;
    let ports = runtime.ports.iter().zip(numbers).map(|(p, number)| Port {
        name: p.name.clone(),
        number: p.fixed.unwrap_or(number),
    });
    let launch = Launch {
        volume: None,
        task: "0000000000000000000000000a.main.0.1.1".parse().unwrap(),
        name: "web.main.0".to_owned(),
        discovery: "main.web".to_owned(),
        ports: ports.collect(),
        runtime,
        resources: Resources::ZERO,
        revocable: Resources::ZERO,
        reserved: Vec::new(),
        grace: Span::seconds(10),
        max_run: None,
        labels: [].into(),
        sidecars: Vec::new(),
    };
    single(&launch, &HostId::new("agent"), &Framework::named("f"))
}

fn port(name: &str, container_port: Option<u16>, visibility: Visibility) -> PortSpec {
    PortSpec {
        name: name.to_owned(),
        fixed: None,
        container_port,
        protocol: Protocol::Tcp,
        visibility,
    }
}

fn within(container: Container) -> Runtime {
    Runtime {
        container: Some(container),
        ..Runtime::shell("run")
    }
}

/// Shell, value and arguments of the command.
fn said(runtime: Runtime) -> (bool, Option<String>, String) {
    let command = launched(runtime).command.unwrap();
    (
        command.shell(),
        command.value.clone(),
        command.arguments.join(" "),
    )
}

#[test]
fn a_command_is_a_line_a_program_or_what_the_image_starts() {
    let args = |a: &[&str]| Some(a.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>());
    let by = |containerizer| {
        Some(Container {
            containerizer,
            image: "i".to_owned(),
            ..Container::default()
        })
    };
    let program = |command: &str, a: &[&str], container| Runtime {
        args: args(a),
        container,
        ..Runtime::shell(command)
    };
    let some = |text: &str| Some(text.to_owned());
    let (mesos, docker) = (by(Containerizer::Mesos), by(Containerizer::Docker));
    assert_eq!(
        said(Runtime::shell("a | b")),
        (true, some("a | b"), String::new())
    );
    assert_eq!(
        said(program("/bin/a", &["x", "y"], None)),
        (false, some("/bin/a"), "/bin/a x y".to_owned())
    );
    assert_eq!(
        said(program("/bin/a", &["x"], mesos.clone())),
        (false, some("/bin/a"), "/bin/a x".to_owned())
    );
    assert_eq!(
        said(program("/bin/a", &["x"], docker.clone())),
        (false, some("/bin/a"), "x".to_owned())
    );
    assert_eq!(
        said(program("", &["x"], mesos.clone())),
        (false, None, "x".to_owned())
    );
    let plain = Runtime {
        container: docker,
        ..Runtime::default()
    };
    assert_eq!(said(plain), (false, None, String::new()));
}

#[test]
fn an_entry_point_is_replaced_by_either_containerizer() {
    let words = |a: &[&str]| Some(a.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>());
    let runtime = |containerizer, args: Option<Vec<String>>| Runtime {
        entrypoint: words(&["/bin/a", "x"]),
        args,
        container: Some(Container {
            containerizer,
            image: "i".to_owned(),
            ..Container::default()
        }),
        ..Runtime::default()
    };
    let mesos = |args| said(runtime(Containerizer::Mesos, args));
    let program = Some("/bin/a".to_owned());
    assert_eq!(mesos(None), (false, program.clone(), "/bin/a x".to_owned()));
    assert_eq!(mesos(words(&["y"])), (false, program, "/bin/a x y".to_owned()));
    for (args, rest) in [(None, "x"), (words(&["y", "z"]), "x y z")] {
        let runtime = runtime(Containerizer::Docker, args);
        let task = launched(runtime.clone());
        let docker = task.container.and_then(|c| c.docker).unwrap();
        let options: Vec<_> = docker
            .parameters
            .iter()
            .map(|p| (p.key.as_str(), p.value.as_str()))
            .collect();
        assert_eq!(options, [("entrypoint", "/bin/a")]);
        assert_eq!(said(runtime), (false, None, rest.to_owned()));
    }
}

#[test]
fn a_shell_line_runs_in_its_folder() {
    let inside = |folder: &str| {
        let runtime = Runtime {
            working_dir: folder.to_owned(),
            ..Runtime::shell("run")
        };
        said(runtime).1.unwrap()
    };
    assert_eq!(inside("/srv/it's"), "cd '/srv/it'\\''s' || exit 1\nrun");
    assert_eq!(inside("a/b"), "cd \"$MESOS_SANDBOX\"/'a/b' || exit 1\nrun");
}

#[test]
fn secrets_go_by_name_and_files_as_they_are_to_be_fetched() {
    let task = launched(Runtime {
        env: [("A".to_owned(), "1".to_owned())].into(),
        secrets: [(
            "TOKEN".to_owned(),
            SecretReference {
                name: "team/api".to_owned(),
                key: "token".to_owned(),
            },
        )]
        .into(),
        user: "web".to_owned(),
        uris: vec![Uri {
            uri: "http://h/a.tgz".to_owned(),
            extract: true,
            executable: true,
            cache: true,
            output_file: String::new(),
        }],
        ..Runtime::shell("run")
    });
    let command = task.command.unwrap();
    let variables = &command.environment.as_ref().unwrap().variables;
    assert_eq!((variables[0].name.as_str(), variables[0].value()), ("A", "1"));
    let secret = variables[1].secret.as_ref().unwrap();
    let reference = secret.reference.as_ref().unwrap();
    assert_eq!((reference.name.as_str(), reference.key()), ("team/api", "token"));
    assert_eq!(
        (variables[1].r#type().as_str_name(), &variables[1].value),
        ("SECRET", &None)
    );
    assert_eq!(command.user(), "web");
    let uri = &command.uris[0];
    let flags = (uri.executable(), uri.extract(), uri.cache());
    assert_eq!(
        (uri.value.as_str(), flags),
        ("http://h/a.tgz", (true, false, true))
    );
    assert_eq!(uri.output_file, None);
}

#[test]
fn ports_are_a_resource_and_can_be_found() {
    let task = launched(Runtime {
        ports: vec![
            port("http", None, Visibility::External),
            port("admin", None, Visibility::Framework),
        ],
        ..Runtime::shell("run")
    });
    let ranges = task.resources.last().unwrap().ranges.as_ref().unwrap();
    assert_eq!((ranges.range[0].begin, ranges.range[0].end), (31_000, 31_001));
    let discovery = task.discovery.unwrap();
    assert_eq!(discovery.name(), "main.web");
    assert_eq!(discovery.visibility().as_str_name(), "EXTERNAL");
    let shown: Vec<String> = discovery
        .ports
        .unwrap()
        .ports
        .iter()
        .map(|p| {
            format!(
                "{} {} {} {}",
                p.name(),
                p.number,
                p.protocol(),
                p.visibility().as_str_name()
            )
        })
        .collect();
    assert_eq!(shown, ["http 31000 tcp EXTERNAL", "admin 31001 tcp FRAMEWORK"]);
    assert_eq!(launched(Runtime::shell("run")).discovery, None);
}

#[test]
fn a_mesos_container_has_image_volumes_and_network() {
    let secret = SecretReference {
        name: "s".to_owned(),
        key: String::new(),
    };
    let volume = |path: &str, read_only, source| Volume {
        path: path.to_owned(),
        read_only,
        source,
    };
    let mut runtime = within(Container {
        image: "team/web:3".to_owned(),
        force_pull: true,
        network: Network::Named("blue".to_owned()),
        hostname: "web".to_owned(),
        volumes: vec![
            volume("/data", true, VolumeSource::Host("/srv".to_owned())),
            volume("tmp", false, VolumeSource::Sandbox("scratch".to_owned())),
            volume("key", true, VolumeSource::Secret(secret)),
        ],
        ..Container::default()
    });
    runtime.ports = vec![port("http", Some(80), Visibility::Cluster)];
    let info = launched(runtime).container.unwrap();
    assert_eq!(
        (info.r#type(), info.hostname()),
        (container_info::Type::Mesos, "web")
    );
    let image = info.mesos.unwrap().image.unwrap();
    assert_eq!(
        (image.docker.as_ref().unwrap().name.as_str(), image.cached()),
        ("team/web:3", false)
    );
    let mapping = info.network_infos[0].port_mappings[0].clone();
    assert_eq!(info.network_infos[0].name(), "blue");
    assert_eq!(
        (mapping.host_port, mapping.container_port, mapping.protocol()),
        (31_000, 80, "tcp")
    );
    let sources: Vec<(Option<&str>, Option<&volume::Source>)> = info
        .volumes
        .iter()
        .map(|v| (v.host_path.as_deref(), v.source.as_ref()))
        .collect();
    assert_eq!(sources[0], (Some("/srv"), None));
    assert_eq!(
        sources[1].1.unwrap().sandbox_path.as_ref().unwrap().path,
        "scratch"
    );
    assert_eq!(
        sources[2]
            .1
            .unwrap()
            .secret
            .as_ref()
            .unwrap()
            .reference
            .as_ref()
            .unwrap()
            .name,
        "s"
    );
    let modes: Vec<&str> = info.volumes.iter().map(|v| v.mode().as_str_name()).collect();
    assert_eq!(modes, ["RO", "RW", "RO"]);
    let appc = within(Container {
        image: "example.com/a".to_owned(),
        image_format: ImageFormat::Appc,
        ..Container::default()
    });
    let image = launched(appc).container.unwrap().mesos.unwrap().image.unwrap();
    assert_eq!(
        (image.appc.as_ref().unwrap().name.as_str(), image.cached()),
        ("example.com/a", true)
    );
    let plain = launched(within(Container::default())).container.unwrap();
    assert_eq!(plain.mesos.unwrap().image, None, "the host's own file system");
}

#[test]
fn a_docker_container_maps_its_ports() {
    let on = |network: &str| {
        let mut runtime = within(Container {
            containerizer: Containerizer::Docker,
            image: "web".to_owned(),
            network: Network::from(network),
            volumes: vec![Volume {
                path: "/scratch".to_owned(),
                read_only: false,
                source: VolumeSource::Sandbox("scratch".to_owned()),
            }],
            ..Container::default()
        });
        runtime.ports = vec![
            port("http", Some(80), Visibility::Cluster),
            port("admin", None, Visibility::Cluster),
        ];
        launched(runtime).container.unwrap()
    };
    let table = [
        ("host", docker_info::Network::Host, None, ""),
        (
            "bridge",
            docker_info::Network::Bridge,
            None,
            "31000:80 31001:31001",
        ),
        ("none", docker_info::Network::None, None, ""),
        (
            "blue",
            docker_info::Network::User,
            Some("blue"),
            "31000:80 31001:31001",
        ),
    ];
    for (network, mode, name, mappings) in table {
        let info = on(network);
        let docker = info.docker.as_ref().unwrap();
        assert_eq!(
            (info.r#type(), docker.network()),
            (container_info::Type::Docker, mode)
        );
        let mapped = docker.port_mappings.iter();
        let mapped: Vec<String> = mapped
            .map(|m| format!("{}:{}", m.host_port, m.container_port))
            .collect();
        assert_eq!(mapped.join(" "), mappings, "{network}");
        let named = info.network_infos.first().and_then(|n| n.name.as_deref());
        assert_eq!(named, name);
        assert_eq!(info.volumes[0].host_path(), "scratch", "a folder of the sandbox");
    }
}

#[test]
fn probes_ask_the_port_on_which_the_task_listens() {
    let probe = |kind| Probe {
        kind,
        delay: Span::millis(500),
        interval: Span::seconds(2),
        timeout: Span::seconds(1),
    };
    let named = PortReference::Named("http".to_owned());
    let mut runtime = within(Container {
        containerizer: Containerizer::Docker,
        image: "web".to_owned(),
        network: Network::Bridge,
        ..Container::default()
    });
    runtime.ports = vec![port("http", Some(80), Visibility::Cluster)];
    runtime.health = Some(HealthCheck {
        probe: probe(ProbeKind::Http {
            port: named.clone(),
            path: "/up".to_owned(),
            tls: true,
        }),
        grace: Span::seconds(3),
        failures: 4,
    });
    runtime.readiness = Some(probe(ProbeKind::Tcp { port: named }));
    let task = launched(runtime.clone());
    let health = task.health_check.unwrap();
    let http = health.http.as_ref().unwrap();
    assert_eq!((http.port, http.path(), http.scheme()), (80, "/up", "https"));
    assert_eq!(health.r#type().as_str_name(), "HTTP");
    assert_eq!((health.delay_seconds(), health.interval_seconds()), (0.5, 2.0));
    assert_eq!(
        (health.timeout_seconds(), health.grace_period_seconds()),
        (1.0, 3.0)
    );
    assert_eq!(health.consecutive_failures(), 4);
    let check = task.check.unwrap();
    assert_eq!(
        (check.r#type().as_str_name(), check.tcp.unwrap().port),
        ("TCP", 80)
    );
    runtime.container = None;
    runtime.ports[0].container_port = None;
    assert_eq!(launched(runtime.clone()).check.unwrap().tcp.unwrap().port, 31_000);
    runtime.readiness = Some(probe(ProbeKind::Command("true".to_owned())));
    let check = launched(runtime).check.unwrap();
    assert_eq!(check.command.unwrap().command.value(), "true");
}

#[test]
fn what_a_check_says_is_readiness() {
    let says = |check_status| {
        let status = TaskStatus {
            check_status: Some(check_status),
            ..TaskStatus::default()
        };
        status_from_wire(&status).ready
    };
    let of = CheckStatusInfo::default;
    let command = |exit_code| CheckStatusInfo {
        command: Some(Command { exit_code }),
        ..of()
    };
    let http = |code| CheckStatusInfo {
        http: Some(Http {
            status_code: Some(code),
        }),
        ..of()
    };
    let tcp = |succeeded| CheckStatusInfo {
        tcp: Some(Tcp { succeeded }),
        ..of()
    };
    for (status, ready) in [
        (of(), None),
        (command(None), None),
        (command(Some(0)), Some(true)),
        (command(Some(2)), Some(false)),
        (http(204), Some(true)),
        (http(399), Some(true)),
        (http(404), Some(false)),
        (tcp(Some(true)), Some(true)),
        (tcp(Some(false)), Some(false)),
        (tcp(None), None),
    ] {
        assert_eq!(says(status), ready, "{status:?}");
    }
}
