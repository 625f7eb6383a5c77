//! Tasks as an agent prepares and watches them: files in the sandbox, ports, health checks, checks, and what it cannot do.

use crate::client::{Framework, cluster, file, get, task};
use echelon_proto::mesos::v1::command_info::Uri;
use echelon_proto::mesos::v1::task_status::Reason;
use echelon_proto::mesos::v1::{
    CheckInfo, CommandInfo, ContainerInfo, HealthCheck, Image, Secret, TaskInfo, TaskState, check_info,
    container_info, environment, health_check, image,
};
use std::fs;

fn line(line: &str) -> CommandInfo {
    CommandInfo {
        value: Some(line.to_owned()),
        ..CommandInfo::default()
    }
}

fn health(line: &str) -> HealthCheck {
    HealthCheck {
        r#type: Some(health_check::Type::Command.into()),
        command: Some(self::line(line)),
        delay_seconds: Some(0.0),
        interval_seconds: Some(0.05),
        timeout_seconds: Some(5.0),
        grace_period_seconds: Some(30.0),
        consecutive_failures: Some(2),
        ..HealthCheck::default()
    }
}

fn fetching(name: &str, line: &str, uris: Vec<Uri>) -> TaskInfo {
    let mut task = task(name, line);
    task.command.as_mut().unwrap().uris = uris;
    task
}

fn uri(value: &str) -> Uri {
    Uri {
        value: value.to_owned(),
        ..Uri::default()
    }
}

#[tokio::test]
async fn files_are_fetched_unpacked_and_made_executable() {
    let folder = tempfile::tempdir().unwrap();
    let (running, _shutdown) = cluster(folder.path()).await;
    let source = tempfile::tempdir().unwrap();
    fs::write(source.path().join("inside"), "packed").unwrap();
    fs::write(source.path().join("tool"), "#!/bin/sh\necho tool\n").unwrap();
    let packed = std::process::Command::new("tar")
        .args(["-czf", "a.tar.gz", "inside"])
        .current_dir(source.path())
        .status();
    assert!(packed.unwrap().success());
    let here = |name: &str| source.path().join(name).display().to_string();
    // The agent itself is a web server that is near.
    let page = format!("http://{}/files/read?path=x", running.agents[0].1);
    assert_eq!(get(running.agents[0].1, "/files/read?path=x").await.status, 404);
    let state = format!("http://{}/health", running.agents[0].1);
    let mut framework = Framework::subscribe(running.address, None).await;
    let uris = vec![
        uri(&format!("file://{}", here("a.tar.gz"))),
        Uri {
            executable: Some(true),
            output_file: Some("bin/run".to_owned()),
            ..uri(&here("tool"))
        },
        Uri {
            output_file: Some("state".to_owned()),
            ..uri(&state)
        },
    ];
    let line = "cat inside; ./bin/run; test -e state && echo got";
    framework.launch(fetching("fetch", line, uris)).await;
    framework.state("fetch", TaskState::TaskFinished).await;
    let out = file(&running, &framework.id, "fetch", "stdout").await;
    assert_eq!(out, "packedtool\ngot\n");
    for (name, bad, words) in [
        ("absent", format!("file://{}", here("absent")), "No such file"),
        ("refused", page, "HTTP status 404"),
        (
            "tls",
            "https://127.0.0.1/a".to_owned(),
            "only files and by plain http",
        ),
    ] {
        framework.launch(fetching(name, "true", vec![uri(&bad)])).await;
        let status = framework.state(name, TaskState::TaskFailed).await;
        assert!(status.message().contains(words), "{name}: {}", status.message());
        assert_eq!(status.reason(), Reason::ContainerLaunchFailed);
    }
}

#[tokio::test]
async fn bad_health_ends_a_task_and_good_health_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let (running, _shutdown) = cluster(folder.path()).await;
    let mut framework = Framework::subscribe(running.address, None).await;
    let mut ill = task("ill", "touch ok; sleep 1000");
    ill.health_check = Some(health("test -e ok && ! test -e \"$MESOS_SANDBOX/gone\""));
    framework.launch(ill).await;
    let status = framework
        .reason("ill", Reason::TaskHealthCheckStatusUpdated)
        .await;
    assert_eq!(
        (status.state(), status.healthy),
        (TaskState::TaskRunning, Some(true))
    );
    let sandbox = folder.path().join("agents");
    let found = find(&sandbox, "ok");
    fs::write(found.with_file_name("gone"), "").unwrap();
    let status = framework.state("ill", TaskState::TaskKilled).await;
    assert_eq!(status.healthy, Some(false));
}

#[tokio::test]
async fn checks_of_pages_and_ports_tell_what_they_saw() {
    let folder = tempfile::tempdir().unwrap();
    let (running, _shutdown) = cluster(folder.path()).await;
    let mut framework = Framework::subscribe(running.address, None).await;
    let near = u32::from(running.address.port());
    let check = |kind: check_info::Type| CheckInfo {
        r#type: Some(kind.into()),
        delay_seconds: Some(0.0),
        interval_seconds: Some(0.05),
        timeout_seconds: Some(5.0),
        ..CheckInfo::default()
    };
    let mut page = task("page", "sleep 1000");
    page.check = Some(CheckInfo {
        http: Some(check_info::Http {
            port: near,
            path: Some("/no/such/page".to_owned()),
        }),
        ..check(check_info::Type::Http)
    });
    framework.launch(page).await;
    let status = framework.state("page", TaskState::TaskRunning).await;
    assert_eq!(
        status.check_status.unwrap().http.unwrap().status_code,
        None,
        "not asked yet"
    );
    let status = framework.reason("page", Reason::TaskCheckStatusUpdated).await;
    assert_eq!(status.check_status.unwrap().http.unwrap().status_code, Some(404));
    let mut port = task("port", "sleep 1000");
    port.check = Some(CheckInfo {
        tcp: Some(check_info::Tcp { port: near }),
        ..check(check_info::Type::Tcp)
    });
    framework.launch(port).await;
    let status = framework.reason("port", Reason::TaskCheckStatusUpdated).await;
    assert_eq!(status.check_status.unwrap().tcp.unwrap().succeeded, Some(true));
    let mut code = task("code", "sleep 1000");
    code.check = Some(CheckInfo {
        command: Some(check_info::Command {
            command: line("exit 7"),
        }),
        ..check(check_info::Type::Command)
    });
    framework.launch(code).await;
    let status = framework.reason("code", Reason::TaskCheckStatusUpdated).await;
    assert_eq!(status.check_status.unwrap().command.unwrap().exit_code, Some(7));
}

#[tokio::test]
async fn what_the_agent_cannot_do_fails_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (running, _shutdown) = cluster(folder.path()).await;
    let mut framework = Framework::subscribe(running.address, None).await;
    let mesos = || ContainerInfo {
        r#type: container_info::Type::Mesos.into(),
        ..ContainerInfo::default()
    };
    let within = |name: &str, container| TaskInfo {
        container: Some(container),
        ..task(name, "true")
    };
    let image = Image {
        r#type: image::Type::Docker.into(),
        docker: Some(image::Docker {
            name: "team/web".to_owned(),
            config: None,
        }),
        ..Image::default()
    };
    let imaged = ContainerInfo {
        mesos: Some(container_info::MesosInfo { image: Some(image) }),
        ..mesos()
    };
    let docker = ContainerInfo {
        r#type: container_info::Type::Docker.into(),
        docker: Some(container_info::DockerInfo {
            image: "team/web".to_owned(),
            ..Default::default()
        }),
        ..mesos()
    };
    let mut secret = task("secret", "true");
    let environment = secret.command.as_mut().unwrap().environment.as_mut().unwrap();
    environment.variables.push(environment::Variable {
        name: "TOKEN".to_owned(),
        r#type: Some(environment::variable::Type::Secret.into()),
        secret: Some(Secret {
            r#type: Some(echelon_proto::mesos::v1::secret::Type::Reference.into()),
            reference: Some(echelon_proto::mesos::v1::secret::Reference {
                name: "team/api".to_owned(),
                key: None,
            }),
            value: None,
        }),
        ..Default::default()
    });
    let mut user = task("user", "true");
    user.command.as_mut().unwrap().user = Some("nobody-here".to_owned());
    for (bad, words) in [
        (within("imaged", imaged), "has no image `team/web`"),
        (
            within("docker", docker),
            "has no Docker and cannot run image `team/web`",
        ),
        (secret, "no secret store"),
        (user, "as user `nobody-here`: there is no such user"),
    ] {
        let name = bad.name.clone();
        framework.launch(bad).await;
        let status = framework.state(&name, TaskState::TaskFailed).await;
        assert!(status.message().contains(words), "{name}: {}", status.message());
        assert_eq!(status.reason(), Reason::ContainerLaunchFailed);
    }
    framework.launch(within("plain", mesos())).await;
    framework.state("plain", TaskState::TaskFinished).await;
}

/// A file of that name somewhere below a folder.
fn find(folder: &std::path::Path, name: &str) -> std::path::PathBuf {
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_name() == name {
                return entry.path();
            }
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            }
        }
    }
    panic!("no file {name}");
}
