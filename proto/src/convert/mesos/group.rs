//! A pod's launch as one LAUNCH_GROUP: its tasks below the default executor of their own, so that they live and die together
//! and nothing else does (rules R71, R82, R83).

use super::amount::to_split;
use super::call::task_id;
use super::framework::Framework;
use super::task::task;
use crate::mesos::v1::offer::{Operation, operation};
use crate::mesos::v1::{ExecutorId, ExecutorInfo, FrameworkId, TaskGroupInfo, TaskInfo, executor_info};
use echelon_core_hosts::Launch;
use echelon_core_model::pod::{EXECUTOR, Sidecar};
use echelon_core_model::{HostId, MemberId};

/// The operation that launches a pod. The framework id is not filled in by a master here (R82).
pub fn launch_group(
    launch: &Launch,
    host: &HostId,
    framework: &Framework,
    id: Option<FrameworkId>,
) -> Operation {
    let sidecars = launch
        .sidecars
        .iter()
        .map(|s| sidecar(launch, s, host, framework));
    Operation {
        r#type: Some(i32::from(operation::Type::LaunchGroup)),
        launch_group: Some(operation::LaunchGroup {
            executor: executor(launch, &framework.role, id),
            task_group: TaskGroupInfo {
                tasks: std::iter::once(task(launch, host, framework))
                    .chain(sidecars)
                    .collect(),
            },
        }),
        ..Operation::default()
    }
}

/// It has the main task's id, as the executor of a command task has: one per run, never used again (R75).
fn executor(launch: &Launch, role: &str, framework: Option<FrameworkId>) -> ExecutorInfo {
    ExecutorInfo {
        r#type: Some(i32::from(executor_info::Type::Default)),
        executor_id: ExecutorId {
            value: launch.task.to_string(),
        },
        framework_id: framework,
        resources: to_split(EXECUTOR, launch.revocable, role),
        ..ExecutorInfo::default()
    }
}

/// The ports are the main task's; that one's time bounds the pod.
fn sidecar(launch: &Launch, sidecar: &Sidecar, host: &HostId, framework: &Framework) -> TaskInfo {
    let id = MemberId {
        run: launch.task.clone(),
        sidecar: Some(sidecar.name.clone()),
    };
    let alone = Launch {
        name: format!("{}.{}", launch.name, sidecar.name),
        runtime: sidecar.runtime.clone(),
        resources: sidecar.resources,
        max_run: None,
        sidecars: Vec::new(),
        volume: None,
        ..launch.clone()
    };
    TaskInfo {
        task_id: task_id(&id.to_string()),
        resources: to_split(sidecar.resources, launch.revocable, &framework.role),
        ..task(&alone, host, framework)
    }
}
