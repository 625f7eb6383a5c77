//! Checks and containers: what a master refuses of them, and what is told of them.

use crate::framework::{World, task_info};
use echelon_core_model::time::Span;
use echelon_proto::mesos::v1::{
    CheckInfo, CheckStatusInfo, ContainerInfo, HealthCheck, TaskInfo, TaskState, Volume, check_info,
    check_status_info, container_info, health_check, volume,
};
use echelon_sim_mesos::{Config, Executors, Virtual};

const LONG: Span = Span::minutes(30);

#[test]
fn a_check_tells_its_kind_first_and_then_what_is_new() {
    let executors = Executors::Virtual(Virtual::default());
    let mut world = World::with(
        Config {
            executors,
            ..Config::default()
        },
        1,
    );
    let offer = world.offers.remove(0);
    let check = CheckInfo {
        r#type: Some(check_info::Type::Tcp.into()),
        tcp: Some(check_info::Tcp { port: 80 }),
        ..CheckInfo::default()
    };
    let task = TaskInfo {
        check: Some(check),
        ..task_info("t", &offer, LONG)
    };
    world.accept(&offer, vec![task]);
    world.pass(Span::seconds(2));
    let run = world.cluster.live_runs(&world.agents[0])[0].0.clone();
    let says = |succeeded| CheckStatusInfo {
        r#type: Some(check_info::Type::Tcp.into()),
        tcp: Some(check_status_info::Tcp {
            succeeded: Some(succeeded),
        }),
        ..CheckStatusInfo::default()
    };
    for succeeded in [false, false, true] {
        world.cluster.check_said(&run, says(succeeded), world.now);
        world.take();
    }
    let told: Vec<Option<Option<bool>>> = world
        .updates
        .iter()
        .map(|status| {
            status
                .check_status
                .as_ref()
                .map(|check| check.tcp.unwrap().succeeded)
        })
        .collect();
    assert_eq!(told, [None, Some(None), Some(Some(false)), Some(Some(true))]);
}

#[test]
fn probes_and_containers_that_no_master_takes_are_refused_in_its_words() {
    let mut world = World::with(Config::default(), 1);
    let http = |path: &str, scheme: &str| HealthCheck {
        r#type: Some(health_check::Type::Http.into()),
        http: Some(health_check::HttpCheckInfo {
            port: 80,
            path: Some(path.to_owned()),
            scheme: Some(scheme.to_owned()),
            ..Default::default()
        }),
        ..HealthCheck::default()
    };
    let docker = ContainerInfo {
        r#type: container_info::Type::Docker.into(),
        ..ContainerInfo::default()
    };
    let with_health = |check| TaskInfo {
        health_check: Some(check),
        ..TaskInfo::default()
    };
    let with_container = |container| TaskInfo {
        container: Some(container),
        ..TaskInfo::default()
    };
    let secret = Volume {
        container_path: "key".to_owned(),
        source: Some(volume::Source {
            r#type: Some(volume::source::Type::Secret.into()),
            ..Default::default()
        }),
        ..Volume::default()
    };
    for (parts, words) in [
        (
            with_health(http("up", "http")),
            "Task uses invalid health check: The path 'up' of HTTP health check must start with '/'",
        ),
        (
            with_health(http("/", "ftp")),
            "Task uses invalid health check: Unsupported HTTP health check scheme: 'ftp'",
        ),
        (
            with_health(HealthCheck {
                interval_seconds: Some(-1.0),
                ..http("/", "http")
            }),
            "Task uses invalid health check: Expecting 'interval_seconds' to be non-negative",
        ),
        (
            with_container(docker.clone()),
            "Task's `ContainerInfo` is invalid: DockerInfo 'docker' is not set for DOCKER typed ContainerInfo",
        ),
        (
            with_container(ContainerInfo {
                r#type: container_info::Type::Mesos.into(),
                volumes: vec![secret],
                ..docker
            }),
            "Task's `ContainerInfo` is invalid: Invalid volume: 'source.secret' is not set for SECRET volume",
        ),
    ] {
        let offer = world.offers.remove(0);
        let task = TaskInfo {
            health_check: parts.health_check,
            container: parts.container,
            ..task_info("t", &offer, LONG)
        };
        world.accept(&offer, vec![task]);
        world.pass(Span::seconds(10));
        let status = world.updates.last().unwrap();
        assert_eq!((status.state(), status.message()), (TaskState::TaskError, words));
    }
}
