//! Whether a task of a LAUNCH is good, in the order and words of a real master; only the first problem is told (rules
//! R71 to R79).

use crate::accept::Remainder;
use crate::amount::to_thousandths;
use crate::bundle::Bundle;
use crate::framework_info::check_id;
use echelon_proto::mesos::v1::{
    CheckInfo, CommandInfo, HealthCheck, TaskInfo, Volume, check_info, container_info, environment,
    health_check,
};

/// The resources of a good task of a LAUNCH, or what is wrong with it. Its executor and whether both fit are left to see.
pub(crate) fn task(task: &TaskInfo, id_is_taken: bool, rest: &Remainder) -> Result<Bundle, String> {
    let resources = parts(task, id_is_taken, rest)?;
    if task.command.is_some() == task.executor.is_some() {
        return Err(
            "Task should have at least one (but not both) of CommandInfo or ExecutorInfo present".to_owned(),
        );
    }
    Ok(resources)
}

/// The resources of a good task of a group, or what is wrong with it.
pub(crate) fn task_of_group(task: &TaskInfo, id_is_taken: bool, rest: &Remainder) -> Result<Bundle, String> {
    let resources = parts(task, id_is_taken, rest)?;
    let container = task.container.as_ref();
    if container.is_some_and(|container| container.r#type() == container_info::Type::Docker) {
        return Err("Docker ContainerInfo is not supported on the task in the task group".to_owned());
    }
    Ok(resources)
}

fn parts(task: &TaskInfo, id_is_taken: bool, rest: &Remainder) -> Result<Bundle, String> {
    check_id(&task.task_id.value)?;
    if id_is_taken {
        return Err(format!("Task has duplicate ID: {}", task.task_id.value));
    }
    if task.agent_id.value != rest.agent.as_str() {
        let (given, expected) = (&task.agent_id.value, &rest.agent);
        return Err(format!(
            "Task uses invalid agent {given} while agent {expected} is expected"
        ));
    }
    times(task)?;
    task.check.as_ref().map_or(Ok(()), check)?;
    task.health_check.as_ref().map_or(Ok(()), health)?;
    if task.resources.is_empty() {
        return Err("Task uses no resources".to_owned());
    }
    let resources = Bundle::read(&task.resources)?;
    one_kind_of_each(&resources)?;
    task.command.as_ref().map_or(Ok(()), command)?;
    let volumes = task
        .container
        .as_ref()
        .map(|container| container.volumes.as_slice())
        .unwrap_or_default();
    volumes.iter().try_for_each(volume)?;
    limits(task)?;
    Ok(resources)
}

/// Revocable and regular resources of one kind do not mix in a task (rule R91).
fn one_kind_of_each(resources: &Bundle) -> Result<(), String> {
    let revocable = resources.only(|mark| mark.revocable).sum();
    let regular = resources.only(|mark| !mark.revocable).sum();
    let mixed = revocable
        .kinds()
        .find(|kind| regular.kinds().any(|other| other == *kind));
    match mixed {
        Some(kind) => Err(format!(
            "Task mixes revocable and non-revocable resources: Cannot use both revocable and non-revocable '{kind}' at \
             the same time"
        )),
        None => Ok(()),
    }
}

fn times(task: &TaskInfo) -> Result<(), String> {
    let grace = task
        .kill_policy
        .as_ref()
        .and_then(|policy| policy.grace_period.as_ref());
    if grace.is_some_and(|grace| grace.nanoseconds < 0) {
        return Err("Task's 'kill_policy.grace_period' must be non-negative".to_owned());
    }
    if task
        .max_completion_time
        .as_ref()
        .is_some_and(|time| time.nanoseconds < 0)
    {
        return Err("Task's `max_completion_time` must be non-negative".to_owned());
    }
    Ok(())
}

fn check(check: &CheckInfo) -> Result<(), String> {
    let (part, kind, there) = match check.r#type() {
        check_info::Type::Unknown => {
            return Err("Task uses invalid check: 'UNKNOWN' is not a valid check type".to_owned());
        }
        check_info::Type::Command => ("command", "COMMAND", check.command.is_some()),
        check_info::Type::Http => ("http", "HTTP", check.http.is_some()),
        check_info::Type::Tcp => ("tcp", "TCP", check.tcp.is_some()),
    };
    if there {
        Ok(())
    } else {
        Err(format!(
            "Task uses invalid check: Expecting '{part}' to be set for {kind} check"
        ))
    }
}

fn health(check: &HealthCheck) -> Result<(), String> {
    let (part, kind, there) = match check.r#type() {
        health_check::Type::Unknown => {
            return Err(
                "Task uses invalid health check: 'UNKNOWN' is not a valid health check type".to_owned(),
            );
        }
        health_check::Type::Command => ("command", "COMMAND", check.command.is_some()),
        health_check::Type::Http => ("http", "HTTP", check.http.is_some()),
        health_check::Type::Tcp => ("tcp", "TCP", check.tcp.is_some()),
    };
    if there {
        Ok(())
    } else {
        Err(format!(
            "Task uses invalid health check: Expecting '{part}' to be set for {kind} health check"
        ))
    }
}

fn command(command: &CommandInfo) -> Result<(), String> {
    let variables = command
        .environment
        .as_ref()
        .map(|env| env.variables.as_slice())
        .unwrap_or_default();
    for variable in variables {
        if variable.r#type() == environment::variable::Type::Value && variable.value.is_none() {
            return Err(format!(
                "Task's `CommandInfo` is invalid: Environment variable '{}' of type 'VALUE' must have a value set",
                variable.name
            ));
        }
    }
    Ok(())
}

fn volume(volume: &Volume) -> Result<(), String> {
    let sources = [
        volume.host_path.is_some(),
        volume.image.is_some(),
        volume.source.is_some(),
    ];
    if sources.into_iter().filter(|set| *set).count() == 1 {
        return Ok(());
    }
    Err("Task's `ContainerInfo` is invalid: Invalid volume: Only one of them should be set: 'host_path', 'image' and \
         'source'"
        .to_owned())
}

fn limits(task: &TaskInfo) -> Result<(), String> {
    for (name, limit) in &task.limits {
        let of_kind = task.resources.iter().filter(|resource| resource.name == *name);
        let request: f64 = of_kind
            .filter_map(|resource| resource.scalar.as_ref())
            .map(|scalar| scalar.value)
            .sum();
        let kind = match name.as_str() {
            "cpus" => "cpu",
            "mem" => "memory",
            other => return Err(format!("The '{other}' limit is not supported")),
        };
        if to_thousandths(limit.value) < to_thousandths(request) {
            return Err(format!(
                "The {kind} limit must be greater than or equal to the {kind} request"
            ));
        }
    }
    Ok(())
}

/// Whether a task and its executor fit into what is left.
pub(crate) fn fits(task: &TaskInfo, resources: &Bundle, rest: &Remainder) -> Result<(), String> {
    let named = task
        .resources
        .iter()
        .filter_map(|resource| resource.allocation_info.as_ref())
        .find_map(|i| i.role.as_ref());
    let role = named.map_or(&*rest.role, |role| role.as_str());
    if role == &*rest.role && rest.resources.contains(resources) {
        return Ok(());
    }
    Err(format!(
        "Total resources {} required by task and its executor is more than available {}",
        resources.text(role),
        rest.resources.text(&rest.role)
    ))
}
