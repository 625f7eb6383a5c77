//! Tasks as processes: they run, end, fail, are killed, and their files are read.

use crate::client::{Framework, cluster, file, get, operate, send, task, whole, with_grace};
use echelon_proto::mesos::v1::TaskState;
use echelon_proto::mesos::v1::agent::Response;
use echelon_proto::mesos::v1::task_status::Reason;
use prost::Message as _;
use std::time::Duration;

#[tokio::test]
async fn a_task_runs_in_its_sandbox_and_its_output_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (running, _shutdown) = cluster(folder.path()).await;
    let mut framework = Framework::subscribe(running.address, None).await;
    let line = "echo \"$GREETING from $MESOS_TASK_ID\"; echo oops >&2; test \"$PWD\" = \"$MESOS_SANDBOX\" && echo here";
    let agent = framework.launch(task("hello", line)).await;
    let status = framework.state("hello", TaskState::TaskRunning).await;
    assert_eq!(status.agent_id, Some(agent));
    assert!(status.container_status.unwrap().executor_pid.unwrap() > 1);
    let status = framework.state("hello", TaskState::TaskFinished).await;
    assert_eq!(status.message(), "Command exited with status 0");
    assert_eq!(
        file(&running, &framework.id, "hello", "stdout").await,
        "hello from hello\nhere\n"
    );
    assert_eq!(file(&running, &framework.id, "hello", "stderr").await, "oops\n");
}

/// Root starts a task as the user that its command names; another user says why it cannot.
#[tokio::test]
async fn a_task_runs_as_the_user_that_its_command_names() {
    let folder = tempfile::tempdir().unwrap();
    // A folder for temporary files is its maker's only.
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (running, _shutdown) = cluster(folder.path()).await;
    let mut framework = Framework::subscribe(running.address, None).await;
    let is_root = rustix::process::geteuid().is_root();
    let line = "id -un; echo \"$USER\"; echo said > /dev/stderr; touch made && test \"$HOME\" = \"$PWD\"";
    let mut other = task("other", line);
    other.command.as_mut().unwrap().user = Some("nobody".to_owned());
    framework.launch(other).await;
    if is_root {
        framework.state("other", TaskState::TaskFinished).await;
        let said = file(&running, &framework.id, "other", "stdout").await;
        assert_eq!(said, "nobody\nnobody\n");
        assert_eq!(file(&running, &framework.id, "other", "stderr").await, "said\n");
    } else {
        let status = framework.state("other", TaskState::TaskFailed).await;
        assert!(
            status.message().contains("not started as root"),
            "{}",
            status.message()
        );
        assert_eq!(status.reason(), Reason::ContainerLaunchFailed);
    }
    let own = std::process::Command::new("id").arg("-un").output().unwrap();
    let own = String::from_utf8(own.stdout).unwrap();
    let mut same = task("same", "id -un");
    same.command.as_mut().unwrap().user = Some(own.trim().to_owned());
    framework.launch(same).await;
    framework.state("same", TaskState::TaskFinished).await;
    assert_eq!(file(&running, &framework.id, "same", "stdout").await, own);
}

/// Two clusters on one machine never offer the same port, and each offers its own again after a restart.
#[tokio::test]
async fn clusters_of_one_machine_offer_different_ports() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let (first, shutdown) = cluster(folders[0].path()).await;
    let (second, _shutdown) = cluster(folders[1].path()).await;
    let before = offered(&first).await;
    let others = offered(&second).await;
    assert!(
        before.0 < before.1 && others.0 < others.1,
        "{before:?} {others:?}"
    );
    assert!(
        before.1 < others.0 || others.1 < before.0,
        "{before:?} {others:?}"
    );
    drop(first);
    shutdown.begin();
    shutdown.finished().await;
    let (again, _shutdown) = cluster(folders[0].path()).await;
    assert_eq!(offered(&again).await, before);
}

/// The ports of a cluster's host.
async fn offered(running: &echelon_io_mesos_sim::Running) -> (u64, u64) {
    let mut framework = Framework::subscribe(running.address, None).await;
    let offer = framework.offer().await;
    let ports = offer
        .resources
        .iter()
        .find(|resource| resource.name == "ports")
        .unwrap();
    let range = &ports.ranges.as_ref().unwrap().range[0];
    (range.begin, range.end)
}

#[tokio::test]
async fn a_cluster_that_ends_says_what_goes_on_and_how_to_end_it() {
    let folder = tempfile::tempdir().unwrap();
    let (running, _shutdown) = cluster(folder.path()).await;
    assert_eq!(running.left_behind(), None);
    let mut framework = Framework::subscribe(running.address, None).await;
    framework.launch(task("long", "sleep 300")).await;
    framework.state("long", TaskState::TaskRunning).await;
    let said = running.left_behind().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for part in [
        "1 tasks go on",
        &format!("pkill -f 'mesos-sim-supervise {}/'", root.display()),
    ] {
        assert!(said.contains(part), "{said}");
    }
    framework.kill("long").await;
    framework.state("long", TaskState::TaskKilled).await;
}

#[tokio::test]
async fn what_really_ran_is_logged() {
    let folder = tempfile::tempdir().unwrap();
    let (running, _shutdown) = cluster(folder.path()).await;
    let mut framework = Framework::subscribe(running.address, None).await;
    let agent = framework.launch(task("work", "echo $$; exit 3")).await;
    framework.state("work", TaskState::TaskFailed).await;
    let pid = file(&running, &framework.id, "work", "stdout").await;
    let text = std::fs::read_to_string(folder.path().join("runs.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2, "{text}");
    for line in &lines {
        assert_eq!(
            (&line["task"], &line["agent"]),
            (&"work".into(), &agent.value.clone().into())
        );
    }
    assert_eq!(
        (&lines[0]["event"], lines[0]["pid"].to_string()),
        (&"began".into(), pid.trim().to_owned())
    );
    assert_eq!(
        (&lines[1]["event"], &lines[1]["how"]["exit"]),
        (&"ended".into(), &3.into())
    );
}

#[tokio::test]
async fn what_an_agent_drops_is_logged() {
    let folder = tempfile::tempdir().unwrap();
    let (running, _shutdown) = cluster(folder.path()).await;
    let mut framework = Framework::subscribe(running.address, None).await;
    let first = framework.launch(task("first", "exit 0")).await;
    framework.state("first", TaskState::TaskFinished).await;
    let agent = &first.value;
    let body = format!(r#"{{"fault":"starts_fail","agent":"{agent}","message":"no room"}}"#);
    let request = http::Request::post("/sim/v1/faults")
        .header("content-type", "application/json")
        .body(body.into())
        .unwrap();
    assert_eq!(send(running.address, request).await.status(), 200);
    framework.launch(task("dropped", "exit 0")).await;
    framework.state("dropped", TaskState::TaskDropped).await;
    let text = std::fs::read_to_string(folder.path().join("runs.jsonl")).unwrap();
    let last: serde_json::Value = serde_json::from_str(text.lines().next_back().unwrap()).unwrap();
    assert_eq!(
        (&last["task"], &last["agent"]),
        (&"dropped".into(), &agent.clone().into())
    );
    let why = last["how"]["not_started"].as_str().unwrap();
    assert!(why.contains("no room"), "{text}");
}

#[tokio::test]
async fn files_are_listed_and_read_by_the_v1_calls() {
    let folder = tempfile::tempdir().unwrap();
    let (running, _shutdown) = cluster(folder.path()).await;
    let mut framework = Framework::subscribe(running.address, None).await;
    framework
        .launch(task("files", "printf 0123456789; echo x > made"))
        .await;
    framework.state("files", TaskState::TaskFinished).await;
    let (_, agent) = running.agents[0];
    let sandbox = format!("/frameworks/{}/executors/files/runs/latest", framework.id.value);
    let body = format!(r#"{{"type":"LIST_FILES","list_files":{{"path":"{sandbox}"}}}}"#);
    let listed = operate(agent, &body).await.text();
    for name in ["stdout", "stderr", "made"] {
        assert!(listed.contains(&format!("{sandbox}/{name}\"")), "{listed}");
    }
    let read = |offset| {
        let part = format!(r#"{{"path":"{sandbox}/stdout","offset":{offset},"length":4}}"#);
        format!(r#"{{"type":"READ_FILE","read_file":{part}}}"#)
    };
    let answer = operate(agent, &read(3)).await.text();
    assert!(
        answer.contains(r#""data":"MzQ1Ng==""#) && answer.contains(r#""size":10"#),
        "{answer}"
    );
    assert_eq!(get(agent, "/files/read?path=/../../etc/passwd").await.status, 404);
    assert_eq!(
        operate(agent, &read(3).replace("stdout", "nothing")).await.status,
        404
    );
    let size = get(agent, &format!("/files/read?path={sandbox}/stdout&offset=-1"))
        .await
        .text();
    assert!(size.contains(r#""offset":10"#), "{size}");
}

#[tokio::test]
async fn an_agent_tells_its_flags_in_both_encodings() {
    let folder = tempfile::tempdir().unwrap();
    let (running, _shutdown) = cluster(folder.path()).await;
    let (_, agent) = running.agents[0];
    let question = r#"{"type":"GET_FLAGS"}"#;
    let told = operate(agent, question).await.text();
    for part in [
        r#""type":"GET_FLAGS""#,
        r#"{"name":"recovery_timeout","value":"15mins"}"#,
        r#"{"name":"executor_shutdown_grace_period","value":"5secs"}"#,
        &format!(r#"{{"name":"port","value":"{}"}}"#, agent.port()),
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }
    let request = http::Request::post("/api/v1")
        .header("content-type", "application/json")
        .header("accept", "application/x-protobuf")
        .body(http_body_util::Full::new(bytes::Bytes::from(question)))
        .unwrap();
    let answer = whole(send(agent, request).await).await;
    let response = Response::decode(&answer.body[..]).unwrap();
    let flags = response.get_flags.unwrap().flags;
    let value = flags.iter().find(|flag| flag.name == "recovery_timeout");
    assert_eq!(value.unwrap().value(), "15mins");
}

#[tokio::test]
async fn an_id_that_is_known_is_refused_in_the_words_of_a_real_master() {
    let folder = tempfile::tempdir().unwrap();
    let (running, _shutdown) = cluster(folder.path()).await;
    let mut framework = Framework::subscribe(running.address, None).await;
    framework.launch(task("known", "sleep 300")).await;
    framework.state("known", TaskState::TaskRunning).await;
    framework.launch(task("known", "true")).await;
    let status = framework.state("known", TaskState::TaskError).await;
    assert_eq!(
        (status.reason(), status.message()),
        (Reason::TaskInvalid, "Task has duplicate ID: known")
    );
    let group = vec![task("pod", "true"), task("known", "true")];
    framework.launch_group("pod", group).await;
    let status = framework.state("pod", TaskState::TaskError).await;
    assert_eq!(
        (status.reason(), status.message()),
        (
            Reason::TaskGroupInvalid,
            "Task 'known' is invalid: Task has duplicate ID: known"
        )
    );
}

#[tokio::test]
async fn the_tasks_of_a_group_are_processes_that_end_with_the_first_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let (running, _shutdown) = cluster(folder.path()).await;
    let mut framework = Framework::subscribe(running.address, None).await;
    let fails = task("pod", "echo main; sleep 0.3; exit 7");
    let beside = task("pod.log", "echo \"$MESOS_EXECUTOR_ID/$MESOS_TASK_ID\"; sleep 300");
    let ends = task("pod.init", "true");
    framework.launch_group("pod", vec![fails, beside, ends]).await;
    let status = framework.state("pod", TaskState::TaskFailed).await;
    assert_eq!(status.message(), "Command exited with status 7");
    let status = framework.state("pod.log", TaskState::TaskKilled).await;
    assert_eq!(status.message(), "Command terminated with signal Terminated");
    for (name, said) in [("pod", "main\n"), ("pod.log", "pod/pod.log\n"), ("pod.init", "")] {
        let path = format!("tasks/{name}/stdout");
        assert_eq!(file(&running, &framework.id, "pod", &path).await, said);
    }
}

#[tokio::test]
async fn failures_say_how_a_task_ended() {
    let folder = tempfile::tempdir().unwrap();
    let (running, _shutdown) = cluster(folder.path()).await;
    let mut framework = Framework::subscribe(running.address, None).await;
    for (name, line, words) in [
        ("code", "exit 3", "Command exited with status 3"),
        ("signal", "kill -9 $$", "Command terminated with signal Killed"),
        ("missing", "/no/such/program", "Command exited with status 127"),
    ] {
        framework.launch(task(name, line)).await;
        let status = framework.state(name, TaskState::TaskFailed).await;
        assert_eq!(status.message(), words);
        assert_eq!(status.reason, None);
    }
    let mut no_shell = task("no-shell", "/no/such/program");
    no_shell.command.as_mut().unwrap().shell = Some(false);
    framework.launch(no_shell).await;
    let status = framework.state("no-shell", TaskState::TaskFailed).await;
    assert_eq!(status.reason(), Reason::ContainerLaunchFailed);
    assert!(
        status.message().contains("/no/such/program"),
        "{}",
        status.message()
    );
}

#[tokio::test]
async fn a_killed_task_has_its_grace_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let (running, _shutdown) = cluster(folder.path()).await;
    let mut framework = Framework::subscribe(running.address, None).await;
    let polite = "trap 'echo cleaned; exit 0' TERM; echo ready; for i in $(seq 1000); do sleep 0.05; done";
    // What the shell starts ignores SIGTERM as well: the whole group must go.
    let stubborn = "trap '' TERM; echo ready; for i in $(seq 1000); do sleep 0.05; done";
    for (name, line, grace, words) in [
        (
            "polite",
            polite,
            Duration::from_secs(20),
            "Command exited with status 0",
        ),
        (
            "stubborn",
            stubborn,
            Duration::from_millis(200),
            "Command terminated with signal Killed",
        ),
    ] {
        framework.launch(with_grace(task(name, line), grace)).await;
        framework.state(name, TaskState::TaskRunning).await;
        wait_until_ready(&running, &framework, name).await;
        framework.kill(name).await;
        framework.state(name, TaskState::TaskKilling).await;
        assert_eq!(
            framework.state(name, TaskState::TaskKilled).await.message(),
            words
        );
    }
    assert_eq!(
        file(&running, &framework.id, "polite", "stdout").await,
        "ready\ncleaned\n"
    );
}

#[tokio::test]
async fn teardown_ends_processes() {
    let folder = tempfile::tempdir().unwrap();
    let (running, _shutdown) = cluster(folder.path()).await;
    let mut framework = Framework::subscribe(running.address, None).await;
    framework
        .launch(with_grace(
            task("left", "trap '' TERM; sleep 60"),
            Duration::from_secs(300),
        ))
        .await;
    let status = framework.state("left", TaskState::TaskRunning).await;
    let pid = status.container_status.unwrap().executor_pid.unwrap();
    assert!(process_lives(pid));
    let body = format!(
        r#"{{"type":"TEARDOWN","teardown":{{"framework_id":{{"value":"{}"}}}}}}"#,
        framework.id.value
    );
    assert_eq!(operate(running.address, &body).await.status, 200);
    assert!(framework.next().await.is_none_or(|event| event.update.is_none()));
    until(|| !process_lives(pid)).await;
}

/// Whether a process runs, by asking `ps`.
pub fn process_lives(pid: u32) -> bool {
    let output = std::process::Command::new("ps")
        .args(["-o", "state=", "-p", &pid.to_string()])
        .output()
        .unwrap();
    let state = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    !state.is_empty() && !state.starts_with('Z')
}

/// Waits for something that real processes do in their own time.
pub async fn until(mut holds: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(30), async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    waited.await.expect("it does not come true");
}

async fn wait_until_ready(running: &echelon_io_mesos_sim::Running, framework: &Framework, name: &str) {
    let waited = tokio::time::timeout(Duration::from_secs(30), async {
        while file(running, &framework.id, name, "stdout").await != "ready\n" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    waited.await.expect("the task does not begin");
}
