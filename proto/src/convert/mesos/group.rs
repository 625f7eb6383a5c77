//! A pod's launch as one LAUNCH_GROUP: its tasks below the default executor of their own, so that they live and die together
//! and nothing else does (rules R71, R82, R83).

use super::call::task_id;
use super::framework::Framework;
use super::parts::PartsLeft;
use super::task::{resources, task};
use crate::mesos::v1::offer::{Operation, operation};
use crate::mesos::v1::{
    ExecutorId, ExecutorInfo, FrameworkId, Resource, TaskGroupInfo, TaskInfo, executor_info,
};
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
    let mut left = PartsLeft::of(launch);
    let executor = executor(launch, &mut left, &framework.role, id);
    let main = resources(launch, &mut left, framework);
    let mut tasks = vec![task(launch, main, host)];
    for of in &launch.sidecars {
        let resources = left.take(of.resources, &framework.role);
        tasks.push(sidecar(launch, of, resources, host));
    }
    Operation {
        r#type: Some(i32::from(operation::Type::LaunchGroup)),
        launch_group: Some(operation::LaunchGroup {
            executor,
            task_group: TaskGroupInfo { tasks },
        }),
        ..Operation::default()
    }
}

/// It has the main task's id, as the executor of a command task has: one per run, never used again (R75).
fn executor(
    launch: &Launch,
    left: &mut PartsLeft,
    role: &str,
    framework: Option<FrameworkId>,
) -> ExecutorInfo {
    ExecutorInfo {
        r#type: Some(i32::from(executor_info::Type::Default)),
        executor_id: ExecutorId {
            value: launch.task.to_string(),
        },
        framework_id: framework,
        resources: left.take(EXECUTOR, role),
        ..ExecutorInfo::default()
    }
}

/// The ports are the main task's; that one's time bounds the pod.
fn sidecar(launch: &Launch, sidecar: &Sidecar, resources: Vec<Resource>, host: &HostId) -> TaskInfo {
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
        ..task(&alone, resources, host)
    }
}
