//! Whether a task's check and health check are good, in the words of a real master (rule R77).

use crate::validate_container;
use echelon_proto::mesos::v1::{CheckInfo, CommandInfo, HealthCheck, check_info, health_check};

pub(crate) fn check(check: &CheckInfo) -> Result<(), String> {
    let told = |why: String| format!("Task uses invalid check: {why}");
    let path = check.http.as_ref().and_then(|http| http.path.as_deref());
    let command = check.command.as_ref().map(|of| &of.command);
    let (part, kind, there) = match check.r#type() {
        check_info::Type::Unknown => {
            return Err(told("'UNKNOWN' is not a valid check type".to_owned()));
        }
        check_info::Type::Command => ("command", "COMMAND", check.command.is_some()),
        check_info::Type::Http => ("http", "HTTP", check.http.is_some()),
        check_info::Type::Tcp => ("tcp", "TCP", check.tcp.is_some()),
    };
    if !there {
        return Err(told(format!("Expecting '{part}' to be set for {kind} check")));
    }
    match check.r#type() {
        check_info::Type::Command => line(command, "Command check").map_err(told)?,
        check_info::Type::Http => page(path, "HTTP check").map_err(told)?,
        check_info::Type::Tcp | check_info::Type::Unknown => {}
    }
    let times = [
        ("delay_seconds", check.delay_seconds),
        ("interval_seconds", check.interval_seconds),
        ("timeout_seconds", check.timeout_seconds),
    ];
    not_negative(&times).map_err(told)
}

pub(crate) fn health(check: &HealthCheck) -> Result<(), String> {
    let told = |why: String| format!("Task uses invalid health check: {why}");
    let (part, kind, there) = match check.r#type() {
        health_check::Type::Unknown => {
            return Err(told("'UNKNOWN' is not a valid health check type".to_owned()));
        }
        health_check::Type::Command => ("command", "COMMAND", check.command.is_some()),
        health_check::Type::Http => ("http", "HTTP", check.http.is_some()),
        health_check::Type::Tcp => ("tcp", "TCP", check.tcp.is_some()),
    };
    if !there {
        return Err(told(format!(
            "Expecting '{part}' to be set for {kind} health check"
        )));
    }
    match check.r#type() {
        health_check::Type::Command => line(check.command.as_ref(), "Command health check").map_err(told)?,
        health_check::Type::Http => {
            let http = check.http.as_ref();
            let scheme = http.and_then(|http| http.scheme.as_deref());
            if let Some(other) = scheme.filter(|s| !matches!(*s, "http" | "https")) {
                return Err(told(format!("Unsupported HTTP health check scheme: '{other}'")));
            }
            page(http.and_then(|http| http.path.as_deref()), "HTTP health check").map_err(told)?;
        }
        health_check::Type::Tcp | health_check::Type::Unknown => {}
    }
    let times = [
        ("delay_seconds", check.delay_seconds),
        ("grace_period_seconds", check.grace_period_seconds),
        ("interval_seconds", check.interval_seconds),
        ("timeout_seconds", check.timeout_seconds),
    ];
    not_negative(&times).map_err(told)
}

fn line(command: Option<&CommandInfo>, what: &str) -> Result<(), String> {
    let Some(command) = command else { return Ok(()) };
    if command.value.is_none() {
        let wanted = if command.shell() {
            "'shell command'"
        } else {
            "'executable path'"
        };
        return Err(format!("{what} must contain {wanted}"));
    }
    validate_container::command(command)
}

fn page(path: Option<&str>, what: &str) -> Result<(), String> {
    match path.filter(|path| !path.starts_with('/')) {
        Some(path) => Err(format!("The path '{path}' of {what} must start with '/'")),
        None => Ok(()),
    }
}

fn not_negative(times: &[(&str, Option<f64>)]) -> Result<(), String> {
    let negative = times.iter().find(|(_, time)| time.is_some_and(|t| t < 0.0));
    negative.map_or(Ok(()), |(name, _)| {
        Err(format!("Expecting '{name}' to be non-negative"))
    })
}
