//! Rules of pods as a table: what is changed, and the field that is wrong then.

use super::*;
use echelon_core_model::pod::Sidecar;
use echelon_core_model::runtime::{
    Container, Containerizer, HealthCheck, Network, PortReference, PortSpec, Probe, ProbeKind, Protocol,
    Runtime, Visibility,
};
use echelon_core_model::spec::{GroupSpec, defaults};
use echelon_core_model::{Resources, SidecarName, Span};

fn container(containerizer: Containerizer, network: Network) -> Container {
    Container {
        containerizer,
        network,
        image: "team/web:3".to_owned(),
        ..Container::default()
    }
}

fn asks(port: &str) -> HealthCheck {
    HealthCheck {
        probe: Probe {
            kind: ProbeKind::Tcp {
                port: PortReference::from(port),
            },
            delay: Span::ZERO,
            interval: defaults::PROBE_INTERVAL,
            timeout: defaults::PROBE_TIMEOUT,
        },
        grace: Span::ZERO,
        failures: 1,
    }
}

/// What is wrong with a pod of two sidecars and a port `http` after a change, as `field: problem` without the group's path.
fn wrong(change: impl FnOnce(&mut GroupSpec)) -> Vec<String> {
    let mut s = JobBuilder::service("web", 2)
        .sidecar("log", Runtime::shell("log"))
        .sidecar("proxy", Runtime::shell("proxy"))
        .build();
    let group = &mut s.groups[0];
    group.runtime.ports.push(PortSpec {
        name: "http".to_owned(),
        fixed: None,
        container_port: None,
        protocol: Protocol::Tcp,
        visibility: Visibility::Cluster,
    });
    change(group);
    let mut out = Violations::default();
    spec(&s, 100, Purpose::Create, "spec", &mut out);
    let all = out.kept.into_iter();
    all.map(|v| format!("{}: {}", v.field.trim_start_matches("spec.groups[0]."), v.problem))
        .collect()
}

fn named(name: &str) -> Sidecar {
    Sidecar {
        name: SidecarName::new(name),
        runtime: Runtime::shell("true"),
        resources: Resources {
            cpus: 100,
            ..Resources::ZERO
        },
    }
}

#[test]
fn a_good_pod_is_good() {
    let all = wrong(|g| {
        g.sidecars[0].runtime.health = Some(asks("http"));
        g.sidecars[1].runtime.container = Some(container(Containerizer::Mesos, Network::Host));
        g.runtime.container = Some(container(Containerizer::Mesos, Network::Host));
    });
    assert_eq!(all, Vec::<String>::new());
}

#[test]
fn what_mesos_could_not_run_as_a_pod_is_refused() {
    type Change = fn(&mut GroupSpec);
    let table: [(&str, &str, Change); 11] = [
        ("sidecars: ", "at most 8, not 9", |g| {
            g.sidecars = (0..9).map(|i| named(&format!("s{i}"))).collect();
        }),
        (
            "sidecars[1].name: ",
            "`log` is the name of an earlier sidecar",
            |g| {
                g.sidecars[1].name = SidecarName::new("log");
            },
        ),
        ("sidecars[0].name: ", "what the group's own task is called", |g| {
            g.sidecars[0].name = SidecarName::new("main");
        }),
        ("sidecars[0].name: ", "must be 1 to 63 characters", |g| {
            g.sidecars[0].name = SidecarName::new("-log");
        }),
        ("sidecars[1].container.type: ", "must be mesos", |g| {
            g.sidecars[1].runtime.container = Some(container(Containerizer::Docker, Network::Host));
        }),
        (
            "container.type: ",
            "Docker's containers cannot share a pod",
            |g| {
                g.runtime.container = Some(container(Containerizer::Docker, Network::Bridge));
            },
        ),
        ("container.network: ", "must be host", |g| {
            g.runtime.container = Some(container(Containerizer::Mesos, Network::Named("blue".to_owned())));
        }),
        ("sidecars[0].command: ", "must not be empty", |g| {
            g.sidecars[0].runtime.command.clear();
        }),
        ("sidecars[0].resources.cpus_milli: ", "must be more than 0", |g| {
            g.sidecars[0].resources.cpus = 0;
        }),
        (
            "sidecars[0].health.probe.tcp.port: ",
            "the group has no port `htp`; did you mean `http`?",
            |g| g.sidecars[0].runtime.health = Some(asks("htp")),
        ),
        ("sidecars[0].env[PORT_HTTP]: ", "is set by the system", |g| {
            let env = &mut g.sidecars[0].runtime.env;
            env.insert("PORT_HTTP".to_owned(), "1".to_owned());
        }),
    ];
    for (field, words, change) in table {
        let all = wrong(change);
        assert_eq!(all.len(), 1, "{field}: {all:?}");
        assert!(
            all[0].starts_with(field) && all[0].contains(words),
            "{field}{words}: {all:?}"
        );
    }
}

#[test]
fn a_pod_may_have_a_volume_in_its_sandbox_and_run_on_lent_room() {
    let problems = |s: &JobSpec| -> Vec<String> {
        let mut out = Violations::default();
        spec(s, 100, Purpose::Create, "spec", &mut out);
        out.kept
            .into_iter()
            .map(|v| format!("{}: {}", v.field, v.problem))
            .collect()
    };
    let mut stateful = JobBuilder::stateful("db", 2, 64)
        .sidecar("log", Runtime::shell("log"))
        .build();
    assert_eq!(problems(&stateful), Vec::<String>::new());
    let group = &mut stateful.groups[0];
    group.runtime.container = Some(container(Containerizer::Mesos, Network::Host));
    group.volume.as_mut().unwrap().path = "/data".to_owned();
    let [problem] = &problems(&stateful)[..] else {
        panic!()
    };
    assert!(problem.contains("volume.path: must be within the sandbox where a group has sidecars"));
    let revocable = JobBuilder::service("web", 2)
        .sidecar("log", Runtime::shell("log"))
        .revocable()
        .build();
    assert_eq!(problems(&revocable), Vec::<String>::new());
}
