//! A simulated cluster that is started again with its work folder: tasks live on, ends are told, updates come again.

use crate::client::{Framework, cluster, file, task};
use crate::processes::{process_lives, until};
use echelon_io_mesos_sim::{ServeError, power_off};
use echelon_io_process::{Shutdown, shutdown::End};
use echelon_proto::mesos::v1::TaskState;
use echelon_proto::mesos::v1::task_status::Reason;

async fn stop(shutdown: Shutdown) {
    shutdown.begin();
    assert_eq!(shutdown.finished().await, End::Drained);
}

#[tokio::test]
async fn tasks_outlive_a_restart_and_their_ends_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let (first, shutdown) = cluster(folder.path()).await;
    let mut framework = Framework::subscribe(first.address, None).await;
    let id = framework.id.clone();
    framework
        .launch(task(
            "lives",
            "for i in $(seq 2000); do [ -e stop ] && break; sleep 0.02; done; echo done",
        ))
        .await;
    let pid = framework
        .state("lives", TaskState::TaskRunning)
        .await
        .container_status
        .unwrap()
        .executor_pid
        .unwrap();
    framework
        .launch(task(
            "ends",
            "for i in $(seq 2000); do [ -e ../../../stop ] && break; sleep 0.02; done; exit 4",
        ))
        .await;
    let other = framework
        .state("ends", TaskState::TaskRunning)
        .await
        .container_status
        .unwrap()
        .executor_pid
        .unwrap();
    let agent = first.agents[0].0.clone();
    stop(shutdown).await;
    drop(first);
    // One task ends while nobody is there.
    let executors = folder
        .path()
        .join("agents")
        .join(agent.as_str())
        .join("frameworks")
        .join(&id.value);
    std::fs::write(executors.join("executors/stop"), "").unwrap();
    until(|| !process_lives(other)).await;
    assert!(process_lives(pid));

    let (second, _shutdown) = cluster(folder.path()).await;
    assert_eq!(second.agents[0].0, agent);
    let mut framework = Framework::subscribe(second.address, Some(&id)).await;
    assert_eq!(framework.id, id);
    let ended = framework.state("ends", TaskState::TaskFailed).await;
    assert_eq!(ended.message(), "Command exited with status 4");
    assert!(ended.uuid.is_some());
    assert!(process_lives(pid));
    std::fs::write(executors.join("executors/lives/runs/latest/stop"), "").unwrap();
    let finished = framework.state("lives", TaskState::TaskFinished).await;
    assert_eq!(finished.container_status.unwrap().executor_pid, Some(pid));
    assert_eq!(file(&second, &id, "lives", "stdout").await, "done\n");
}

#[tokio::test]
async fn what_ran_when_the_power_went_is_gone_and_reported_as_failed() {
    let folder = tempfile::tempdir().unwrap();
    let (first, shutdown) = cluster(folder.path()).await;
    let mut framework = Framework::subscribe(first.address, None).await;
    let id = framework.id.clone();
    let line = "trap '' TERM; sleep 1000 & echo $! > ../../../child; wait";
    framework.launch(task("runs", line)).await;
    let running = framework.state("runs", TaskState::TaskRunning).await;
    let pid = running.container_status.unwrap().executor_pid.unwrap();
    let agent = first.agents[0].0.clone();
    let executors = folder
        .path()
        .join("agents")
        .join(agent.as_str())
        .join("frameworks")
        .join(&id.value)
        .join("executors");
    let child = || std::fs::read_to_string(executors.join("child")).unwrap_or_default();
    until(|| child().ends_with('\n')).await;
    let child = child().trim().parse().unwrap();
    let refused = power_off(folder.path()).await.unwrap_err();
    assert!(matches!(refused, ServeError::Locked(_)), "{refused}");
    assert!(process_lives(pid) && process_lives(child));
    stop(shutdown).await;
    drop(first);

    assert_eq!(power_off(folder.path()).await.unwrap(), 1);
    until(|| !process_lives(pid) && !process_lives(child)).await;
    assert_eq!(power_off(folder.path()).await.unwrap(), 0);
    let (second, _shutdown) = cluster(folder.path()).await;
    let mut framework = Framework::subscribe(second.address, Some(&id)).await;
    let ended = framework.state("runs", TaskState::TaskFailed).await;
    assert_eq!(ended.reason(), Reason::ExecutorTerminated);
}

#[tokio::test]
async fn unacknowledged_updates_come_again_with_their_uuid() {
    let folder = tempfile::tempdir().unwrap();
    let (first, shutdown) = cluster(folder.path()).await;
    let mut framework = Framework::subscribe(first.address, None).await;
    let id = framework.id.clone();
    framework.acknowledges = false;
    framework.launch(task("quick", "true")).await;
    let starting = framework.state("quick", TaskState::TaskStarting).await;
    stop(shutdown).await;
    drop(first);

    let (second, shutdown) = cluster(folder.path()).await;
    let mut framework = Framework::subscribe(second.address, Some(&id)).await;
    framework.acknowledges = false;
    let again = framework.state("quick", TaskState::TaskStarting).await;
    assert_eq!(again.uuid, starting.uuid);
    framework.acknowledge(&again).await;
    framework.acknowledges = true;
    framework.state("quick", TaskState::TaskFinished).await;
    stop(shutdown).await;
    drop(second);

    // All is acknowledged: nothing comes any more, and the task is gone.
    let (third, _shutdown) = cluster(folder.path()).await;
    let mut framework = Framework::subscribe(third.address, Some(&id)).await;
    let offer = framework.offer().await;
    assert_eq!(offer.resources.iter().filter(|one| one.name == "cpus").count(), 1);
    let state = crate::client::operate(third.address, r#"{"type":"GET_TASKS"}"#)
        .await
        .text();
    assert!(!state.contains("quick"), "{state}");
}

#[tokio::test]
async fn a_task_whose_supervisor_died_is_ended_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let (first, shutdown) = cluster(folder.path()).await;
    let mut framework = Framework::subscribe(first.address, None).await;
    let id = framework.id.clone();
    framework.launch(task("orphan", "sleep 60")).await;
    let pid = framework
        .state("orphan", TaskState::TaskRunning)
        .await
        .container_status
        .unwrap()
        .executor_pid
        .unwrap();
    stop(shutdown).await;
    drop(first);
    let parent = std::process::Command::new("ps")
        .args(["-o", "ppid=", "-p", &pid.to_string()])
        .output()
        .unwrap();
    let parent = String::from_utf8(parent.stdout).unwrap().trim().to_owned();
    assert!(
        std::process::Command::new("kill")
            .args(["-9", &parent])
            .status()
            .unwrap()
            .success()
    );

    let (second, _shutdown) = cluster(folder.path()).await;
    let mut framework = Framework::subscribe(second.address, Some(&id)).await;
    let status = framework.state("orphan", TaskState::TaskFailed).await;
    assert_eq!(status.reason(), Reason::ExecutorTerminated);
    until(|| !process_lives(pid)).await;
}

#[tokio::test]
async fn a_work_folder_has_one_user() {
    let folder = tempfile::tempdir().unwrap();
    let (_first, _shutdown) = cluster(folder.path()).await;
    let exec = echelon_io_mesos_sim::Exec {
        work_dir: folder.path().to_owned(),
        supervisor: vec!["unused".to_owned()],
        run_log: None,
    };
    let config = crate::client::config(echelon_io_mesos_sim::Mode::Exec(exec));
    let other = Shutdown::new(std::time::Duration::from_secs(1));
    let Err(error) = echelon_io_mesos_sim::serve(config, &other).await else {
        panic!("two masters with one work folder");
    };
    assert!(matches!(error, ServeError::Locked(_)), "{error}");
}
