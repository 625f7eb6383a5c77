//! Whether a master takes an ExecutorInfo, in the words of a real one (rules R81, R82).

use crate::amount::to_thousandths;
use crate::framework_info::check_id;
use crate::id::FrameworkId;
use echelon_proto::mesos::v1::resource::AllocationInfo;
use echelon_proto::mesos::v1::{ExecutorInfo, Resource, container_info, executor_info, value};
use std::fmt::Write as _;

/// What a default executor needs at least, in thousandths.
const MIN_CPUS: u64 = 10;
const MIN_MEM: u64 = 32_000;

/// Fills in what a framework may leave out, so that infos can be compared.
pub(crate) fn completed(info: &ExecutorInfo, framework: &FrameworkId, role: &str) -> ExecutorInfo {
    let mut info = info.clone();
    info.framework_id = Some(framework.proto());
    for resource in &mut info.resources {
        resource.allocation_info.get_or_insert_with(|| AllocationInfo {
            role: Some(role.to_owned()),
        });
    }
    info
}

/// The executor of a task in LAUNCH.
pub(crate) fn check_custom(info: &ExecutorInfo, framework: &FrameworkId) -> Result<(), String> {
    if info.r#type() == executor_info::Type::Default {
        return Err("'ExecutorInfo.type' must be 'CUSTOM'".to_owned());
    }
    if info.command.is_none() {
        return Err("'ExecutorInfo.command' must be set".to_owned());
    }
    check_id(&info.executor_id.value)?;
    check_framework(info, framework)
}

/// The executor of a LAUNCH_GROUP, apart from its resources.
pub(crate) fn check_default(info: &ExecutorInfo, framework: &FrameworkId) -> Result<(), String> {
    match info.r#type() {
        executor_info::Type::Unknown => return Err("'ExecutorInfo.type' must be set".to_owned()),
        executor_info::Type::Custom if info.command.is_none() => {
            return Err("'ExecutorInfo.command' must be set for 'CUSTOM' executor".to_owned());
        }
        executor_info::Type::Custom => {
            return Err("Custom executors of task groups are not simulated".to_owned());
        }
        executor_info::Type::Default if info.command.is_some() => {
            return Err("'ExecutorInfo.command' must not be set for 'DEFAULT' executor".to_owned());
        }
        executor_info::Type::Default => {}
    }
    let container = info.container.as_ref();
    if container.is_some_and(|container| container.r#type() != container_info::Type::Mesos) {
        return Err("'ExecutorInfo.container.type' must be 'MESOS' for 'DEFAULT' executor".to_owned());
    }
    check_id(&info.executor_id.value)?;
    check_framework(info, framework)
}

fn check_framework(info: &ExecutorInfo, framework: &FrameworkId) -> Result<(), String> {
    match &info.framework_id {
        Some(given) if given.value != framework.as_str() => Err(format!(
            "ExecutorInfo has an invalid FrameworkID (Actual: {} vs Expected: {framework})",
            given.value
        )),
        None if info.r#type() == executor_info::Type::Default => {
            Err("'ExecutorInfo.framework_id' must be set".to_owned())
        }
        _ => Ok(()),
    }
}

/// Whether a default executor has enough to live on.
pub(crate) fn check_minimum(info: &ExecutorInfo) -> Result<(), String> {
    let id = &info.executor_id.value;
    let of = |name: &str| -> u64 {
        let of_kind = info.resources.iter().filter(|resource| resource.name == name);
        let amounts = of_kind.filter_map(|resource| resource.scalar.as_ref());
        to_thousandths(amounts.map(|scalar| scalar.value).sum())
    };
    if of("cpus") < MIN_CPUS {
        return Err(format!(
            "Executor '{id}' uses less CPUs than the minimum required (0.01)"
        ));
    }
    if of("mem") < MIN_MEM {
        return Err(format!(
            "Executor '{id}' uses less memory than the minimum required (32MB)"
        ));
    }
    if of("disk") == 0 {
        return Err(format!("Executor '{id}' uses no disk"));
    }
    Ok(())
}

/// Another executor has the name.
pub(crate) fn incompatible(known: &ExecutorInfo, given: &ExecutorInfo) -> String {
    const LINE: &str = "------------------------------------------------------------";
    format!(
        "ExecutorInfo is not compatible with existing ExecutorInfo with same ExecutorID.\n{LINE}\nExisting \
         ExecutorInfo:\n{}\n{LINE}\nExecutorInfo:\n{}\n{LINE}\n",
        text(known),
        text(given)
    )
}

/// The text form of the parts that mostly differ.
fn text(info: &ExecutorInfo) -> String {
    let mut text = format!("executor_id {{\n  value: {:?}\n}}\n", info.executor_id.value);
    for resource in &info.resources {
        add_resource(&mut text, resource);
    }
    if let Some(value) = info.command.as_ref().and_then(|command| command.value.as_ref()) {
        let _ = write!(text, "command {{\n  value: {value:?}\n}}\n");
    }
    if let Some(framework) = &info.framework_id {
        let _ = write!(text, "framework_id {{\n  value: {:?}\n}}\n", framework.value);
    }
    if let Some(name) = &info.name {
        let _ = writeln!(text, "name: {name:?}");
    }
    if info.r#type.is_some() {
        let _ = writeln!(text, "type: {}", info.r#type().as_str_name());
    }
    text
}

fn add_resource(text: &mut String, resource: &Resource) {
    let kind = value::Type::try_from(resource.r#type).map_or("", |kind| kind.as_str_name());
    let _ = write!(
        text,
        "resources {{\n  name: {:?}\n  type: {kind}\n",
        resource.name
    );
    if let Some(scalar) = &resource.scalar {
        let _ = write!(text, "  scalar {{\n    value: {}\n  }}\n", scalar.value);
    }
    let role = resource
        .allocation_info
        .as_ref()
        .and_then(|info| info.role.as_ref());
    if let Some(role) = role {
        let _ = write!(text, "  allocation_info {{\n    role: {role:?}\n  }}\n");
    }
    text.push_str("}\n");
}
