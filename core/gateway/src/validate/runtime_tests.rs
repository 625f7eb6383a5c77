//! Rules of runtimes as tables: what is changed, and the field that is wrong then.

use super::*;
use echelon_core_model::runtime::{
    Container, Containerizer, HealthCheck, ImageFormat, Network, PortReference, PortSpec, Probe, ProbeKind,
    Protocol, Runtime, SecretReference, Uri, Visibility, Volume, VolumeSource,
};

/// What is wrong after a change to the runtime, as `field: problem` without the group's path.
pub(super) fn wrong(change: impl FnOnce(&mut Runtime)) -> Vec<String> {
    let s = JobBuilder::batch("hello", 8).runtime(change).build();
    let mut out = Violations::default();
    spec(&s, 100, Purpose::Create, "spec", &mut out);
    let all = out.kept.into_iter();
    all.map(|v| format!("{}: {}", v.field.trim_start_matches("spec.groups[0]."), v.problem))
        .collect()
}

/// Checks that a change makes exactly this field wrong, with these words.
pub(super) fn refused(field: &str, words: &str, change: impl FnOnce(&mut Runtime)) {
    let all = wrong(change);
    assert_eq!(all.len(), 1, "{field}: {all:?}");
    assert!(all[0].starts_with(&format!("{field}: ")), "{field}: {all:?}");
    assert!(all[0].contains(words), "{words}: {all:?}");
}

pub(super) fn docker() -> Container {
    Container {
        containerizer: Containerizer::Docker,
        image: "team/web:3".to_owned(),
        ..Container::default()
    }
}

fn secret(name: &str) -> SecretReference {
    SecretReference {
        name: name.to_owned(),
        key: String::new(),
    }
}

fn uri(uri: &str) -> Uri {
    Uri {
        uri: uri.to_owned(),
        extract: true,
        executable: false,
        cache: false,
        output_file: String::new(),
    }
}

fn port(name: &str) -> PortSpec {
    PortSpec {
        name: name.to_owned(),
        fixed: None,
        container_port: None,
        protocol: Protocol::Tcp,
        visibility: Visibility::Cluster,
    }
}

fn probe(kind: ProbeKind) -> Probe {
    Probe {
        kind,
        delay: Span::ZERO,
        interval: Span::seconds(1),
        timeout: Span::seconds(1),
    }
}

fn tcp(port: &str) -> ProbeKind {
    ProbeKind::Tcp {
        port: PortReference::from(port),
    }
}

fn http(port: &str, path: &str, tls: bool) -> ProbeKind {
    ProbeKind::Http {
        port: PortReference::from(port),
        path: path.to_owned(),
        tls,
    }
}

#[test]
fn a_full_runtime_is_fine() {
    let all = wrong(|r| {
        r.command = "/bin/web".to_owned();
        r.args = Some(vec!["-v".to_owned()]);
        r.secrets = [("TOKEN".to_owned(), secret("team/api"))].into();
        r.user = "web".to_owned();
        r.uris = vec![
            uri("https://example.com/a.tar.gz?x=1"),
            uri("/opt/b.zip"),
            uri("file:///c"),
        ];
        r.container = Some(Container {
            image: "registry.example:5000/team/web@sha256:0ab".to_owned(),
            network: Network::Named("blue".to_owned()),
            hostname: "web.example".to_owned(),
            force_pull: true,
            volumes: vec![
                Volume {
                    path: "/data".to_owned(),
                    read_only: true,
                    source: VolumeSource::Host("/srv/data".to_owned()),
                },
                Volume {
                    path: "key".to_owned(),
                    read_only: true,
                    source: VolumeSource::Secret(secret("team/key")),
                },
            ],
            ..Container::default()
        });
        r.ports = vec![port("http"), port("admin")];
        r.ports[0].container_port = Some(80);
        r.health = Some(HealthCheck {
            probe: probe(http("http", "/up?full=1", true)),
            grace: Span::ZERO,
            failures: 1,
        });
        r.readiness = Some(probe(tcp("admin")));
    });
    assert_eq!(all, Vec::<String>::new());
    let image = wrong(|r| {
        r.command.clear();
        r.container = Some(docker());
    });
    assert_eq!(image, Vec::<String>::new(), "an image starts by itself");
}

#[test]
fn a_command_has_something_to_run() {
    refused("command", "must not be empty", |r| {
        r.command.clear();
        r.args = Some(vec!["x".to_owned()]);
    });
    refused("command", "must not be empty", |r| {
        r.command.clear();
        r.container = Some(Container::default());
    });
    refused("args", "without NUL", |r| r.args = Some(vec!["\0".to_owned()]));
    refused("args", "1024 arguments", |r| {
        r.args = Some(vec![String::new(); 1025])
    });
    refused("working_dir", "needs a shell line", |r| {
        r.args = Some(Vec::new());
        r.working_dir = "/srv".to_owned();
    });
    refused("working_dir", "control characters", |r| {
        r.working_dir = "a\nb".to_owned()
    });
    refused("user", "name of a user", |r| r.user = "-web".to_owned());
    refused("user", "name of a user", |r| r.user = "we b".to_owned());
    refused("user", "not heeded by Docker", |r| {
        r.user = "web".to_owned();
        r.container = Some(docker());
    });
}

#[test]
fn variables_have_one_origin() {
    refused("secrets[A]", "variable in `env`", |r| {
        r.env.insert("A".to_owned(), "1".to_owned());
        r.secrets.insert("A".to_owned(), secret("s"));
    });
    refused("secrets[A].name", "1 to 255", |r| {
        drop(r.secrets.insert("A".to_owned(), secret("")))
    });
    refused("secrets[MESOS_A]", "set by the system", |r| {
        r.secrets.insert("MESOS_A".to_owned(), secret("s"));
    });
    refused("secrets", "Mesos runs itself", |r| {
        r.secrets.insert("A".to_owned(), secret("s"));
        r.container = Some(docker());
    });
    for name in ["PORT", "PORT_HTTP_2"] {
        refused(&format!("env[{name}]"), "group's ports", |r| {
            r.ports = vec![port("http-2")];
            r.env.insert(name.to_owned(), "1".to_owned());
        });
    }
    let without = wrong(|r| drop(r.env.insert("PORT".to_owned(), "1".to_owned())));
    assert_eq!(without, Vec::<String>::new(), "a group without ports may set it");
}

#[test]
fn files_can_be_fetched() {
    for (text, words) in [
        ("htttp://h/a", "did you mean `http`"),
        ("git://h/a", "cannot fetch by `git`"),
        ("a.tgz", "must be a URI"),
        ("file://a/b", "absolute path"),
        ("http://h/a b", "without spaces"),
        ("http://h/it's", "without spaces"),
        ("http://h/", "file has no name"),
    ] {
        refused("uris[0].uri", words, |r| r.uris = vec![uri(text)]);
    }
    for name in ["/a", "../a", "a'b"] {
        refused("uris[0].output_file", "within the sandbox", |r| {
            r.uris = vec![uri("http://h/a")];
            r.uris[0].output_file = name.to_owned();
        });
    }
    refused("uris[1].output_file", "`a` for an earlier file", |r| {
        r.uris = vec![uri("http://h/a"), uri("http://g/a")];
    });
    refused("uris", "at most 64", |r| {
        r.uris = (0..65).map(|n| uri(&format!("http://h/{n}"))).collect();
    });
}

#[test]
fn a_container_is_one_that_its_containerizer_can_run() {
    let with = |field: &str, words: &str, change: fn(&mut Container)| {
        refused(&format!("container.{field}"), words, |r| {
            let mut c = docker();
            change(&mut c);
            r.container = Some(c);
        });
    };
    with("image", "is missing", |c| c.image.clear());
    with("image", "must be like", |c| c.image = "a b".to_owned());
    with("image", "must be like", |c| c.image = "--privileged".to_owned());
    with("image_format", "use container type mesos", |c| {
        c.image_format = ImageFormat::Appc
    });
    with("image_format", "without an image", |c| {
        *c = Container {
            image_format: ImageFormat::Appc,
            ..Container::default()
        };
    });
    with("force_pull", "without an image", |c| {
        *c = Container {
            force_pull: true,
            ..Container::default()
        };
    });
    for network in [Network::Bridge, Network::None] {
        refused("container.network", "own containers know no", |r| {
            r.container = Some(Container {
                network,
                ..Container::default()
            });
        });
    }
    with("network", "name of a network", |c| {
        c.network = Network::Named("a b".to_owned())
    });
    with("hostname", "network of the container's own", |c| {
        c.hostname = "web".to_owned()
    });
    with("hostname", "names of a-z", |c| {
        c.network = Network::Bridge;
        c.hostname = "Web".to_owned();
    });
}

#[test]
fn volumes_lead_nowhere_else() {
    let volume = |path: &str, source| Volume {
        path: path.to_owned(),
        read_only: false,
        source,
    };
    let host = |from: &str| VolumeSource::Host(from.to_owned());
    let sandbox = |from: &str| VolumeSource::Sandbox(from.to_owned());
    for (field, words, by, bad) in [
        (
            "path",
            "without `..`",
            Container::default(),
            volume("", host("/a")),
        ),
        ("path", "without `..`", docker(), volume("/a:ro", host("/a"))),
        ("host_path", "absolute path", docker(), volume("/a", host("a"))),
        (
            "host_path",
            "absolute path",
            docker(),
            volume("/a", host("/a/../b")),
        ),
        (
            "sandbox_path",
            "within the sandbox",
            docker(),
            volume("/a", sandbox("/a")),
        ),
        (
            "sandbox_path",
            "within the sandbox",
            docker(),
            volume("/a", sandbox("../a")),
        ),
        (
            "secret",
            "Mesos runs itself",
            docker(),
            volume("/a", VolumeSource::Secret(secret("s"))),
        ),
        (
            "secret.name",
            "1 to 255",
            Container::default(),
            volume("/a", VolumeSource::Secret(secret(""))),
        ),
    ] {
        refused(&format!("container.volumes[0].{field}"), words, |r| {
            r.container = Some(Container {
                volumes: vec![bad],
                ..by
            });
        });
    }
    refused("container.volumes[1].path", "earlier volume", |r| {
        r.container = Some(Container {
            volumes: vec![volume("/a", host("/a")), volume("/a", host("/b"))],
            ..docker()
        });
    });
}

#[test]
fn ports_are_different_and_reachable() {
    let two = |change: fn(&mut [PortSpec])| {
        move |r: &mut Runtime| {
            r.container = Some(Container {
                network: Network::Bridge,
                ..docker()
            });
            r.ports = vec![port("a"), port("b")];
            change(&mut r.ports);
        }
    };
    refused("ports[0].name", "must not be a number", |r| {
        r.ports = vec![port("80")]
    });
    refused("ports[0].name", "1 to 63", |r| r.ports = vec![port("a_b")]);
    refused(
        "ports[1].name",
        "earlier port",
        two(|p| p[1].name = "a".to_owned()),
    );
    refused("ports[0].port", "1 to 65535", two(|p| p[0].fixed = Some(0)));
    refused(
        "ports[1].port",
        "earlier port",
        two(|p| p.iter_mut().for_each(|p| p.fixed = Some(80))),
    );
    refused(
        "ports[1].container_port",
        "earlier port",
        two(|p| p.iter_mut().for_each(|p| p.container_port = Some(80))),
    );
    refused("ports[0].container_port", "network of its own", |r| {
        r.ports = vec![port("a")];
        r.ports[0].container_port = Some(80);
    });
    refused("ports", "without a network", |r| {
        r.ports = vec![port("a")];
        r.container = Some(Container {
            network: Network::None,
            ..docker()
        });
    });
    refused("ports", "at most 32", |r| {
        r.ports = (0..33).map(|n| port(&format!("p{n}"))).collect()
    });
}

#[test]
fn probes_ask_what_can_answer() {
    let asks = |field: &str, words: &str, probe: Probe| {
        refused(&format!("readiness.{field}"), words, |r| {
            r.ports = vec![port("http"), port("dns")];
            r.ports[1].protocol = Protocol::Udp;
            r.readiness = Some(probe);
        });
    };
    asks("command", "1 to 65536", probe(ProbeKind::Command(" ".to_owned())));
    asks("tcp.port", "did you mean `http`", probe(tcp("htp")));
    asks("tcp.port", "is of UDP", probe(tcp("dns")));
    asks("tcp.port", "1 to 65535", probe(tcp("0")));
    asks("http.path", "begin with `/`", probe(http("http", "up", false)));
    asks(
        "http.tls",
        "only in a health check",
        probe(http("http", "/", true)),
    );
    let fine = || probe(tcp("8080"));
    asks(
        "interval",
        "0.1 seconds",
        Probe {
            interval: Span::ZERO,
            ..fine()
        },
    );
    asks(
        "timeout",
        "0.1 seconds",
        Probe {
            timeout: Span::ZERO,
            ..fine()
        },
    );
    asks(
        "delay",
        "24 hours",
        Probe {
            delay: Span::minutes(24 * 60 + 1),
            ..fine()
        },
    );
    let health = |failures, grace| {
        move |r: &mut Runtime| {
            r.health = Some(HealthCheck {
                probe: probe(tcp("80")),
                grace,
                failures,
            });
        }
    };
    refused("health.failures", "1 or more", health(0, Span::ZERO));
    refused("health.grace", "24 hours", health(1, Span(u64::MAX)));
    refused("health.probe.tcp.port", "without a network", |r| {
        health(1, Span::ZERO)(r);
        r.container = Some(Container {
            network: Network::None,
            ..docker()
        });
    });
}
