//! Whether a task of a LAUNCH is good, in the order and words of a real master; only the first problem is told (rules
//! R71 to R79).

use crate::accept::Remainder;
use crate::amount::to_thousandths;
use crate::bundle::Bundle;
use crate::framework_info::check_id;
use crate::{validate_container, validate_probe};
use echelon_proto::mesos::v1::{TaskInfo, container_info};

/// The task that has an id already (rule R74).
#[derive(Debug, Clone, Copy)]
pub(crate) enum Taken {
    /// The master tracks it.
    Tracked,
    /// Its agent is unreachable.
    Unreachable,
}

/// The resources of a good task of a LAUNCH, or what is wrong with it. Its executor and whether both fit are left to see.
pub(crate) fn task(task: &TaskInfo, taken: Option<Taken>, rest: &Remainder) -> Result<Bundle, String> {
    let resources = parts(task, taken, rest)?;
    if task.command.is_some() == task.executor.is_some() {
        return Err(
            "Task should have at least one (but not both) of CommandInfo or ExecutorInfo present".to_owned(),
        );
    }
    Ok(resources)
}

/// The resources of a good task of a group, or what is wrong with it. The sentence names the task, since all of the group
/// are refused with it.
pub(crate) fn task_of_group(
    task: &TaskInfo,
    taken: Option<Taken>,
    rest: &Remainder,
) -> Result<Bundle, String> {
    let resources = parts(task, taken, rest);
    let container = task.container.as_ref();
    let is_docker = container.is_some_and(|container| container.r#type() == container_info::Type::Docker);
    let verdict = match resources {
        Ok(_) if is_docker => Err("Docker ContainerInfo is not supported on the task".to_owned()),
        verdict => verdict,
    };
    verdict.map_err(|why| format!("Task '{}' is invalid: {why}", task.task_id.value))
}

fn parts(task: &TaskInfo, taken: Option<Taken>, rest: &Remainder) -> Result<Bundle, String> {
    check_id(&task.task_id.value)?;
    match taken {
        Some(Taken::Tracked) => return Err(format!("Task has duplicate ID: {}", task.task_id.value)),
        Some(Taken::Unreachable) => {
            let id = &task.task_id.value;
            return Err(format!("Task reuses the ID of an unreachable task: {id}"));
        }
        None => {}
    }
    if task.agent_id.value != rest.agent.as_str() {
        let (given, expected) = (&task.agent_id.value, &rest.agent);
        return Err(format!(
            "Task uses invalid agent {given} while agent {expected} is expected"
        ));
    }
    times(task)?;
    task.check.as_ref().map_or(Ok(()), validate_probe::check)?;
    task.health_check
        .as_ref()
        .map_or(Ok(()), validate_probe::health)?;
    if task.resources.is_empty() {
        return Err("Task uses no resources".to_owned());
    }
    let resources = Bundle::read(&task.resources)?;
    one_kind_of_each(&resources)?;
    let command = task.command.as_ref().map_or(Ok(()), validate_container::command);
    command.map_err(|why| format!("Task's `CommandInfo` is invalid: {why}"))?;
    let container = task
        .container
        .as_ref()
        .map_or(Ok(()), validate_container::container);
    container.map_err(|why| format!("Task's `ContainerInfo` is invalid: {why}"))?;
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
