//! Whether a master takes a FrameworkInfo; the answers are Mesos' words (rules R25, R55, R73).

use crate::framework::has;
use echelon_proto::mesos::v1::FrameworkInfo;
use echelon_proto::mesos::v1::framework_info::capability;
use std::collections::BTreeSet;

/// The largest number of seconds that a signed 64-bit count of nanoseconds holds (rule R32).
const MAX_TIMEOUT_SECONDS: f64 = 9_223_372_036.0;

/// Checks a FrameworkInfo with its suppressed roles; the first problem is told.
pub(crate) fn check(info: &FrameworkInfo, suppressed: &[String]) -> Result<(), String> {
    check_roles(info)?;
    if let Some(id) = &info.id {
        check_id(&id.value)?;
    }
    let timeout = info.failover_timeout();
    if timeout.is_nan() || timeout > MAX_TIMEOUT_SECONDS {
        return Err(format!(
            "The framework failover_timeout ({}) is invalid",
            scientific(timeout)
        ));
    }
    let foreign: Vec<&str> = suppressed
        .iter()
        .filter(|role| !info.roles.contains(role))
        .map(String::as_str)
        .collect();
    if !foreign.is_empty() {
        return Err(format!(
            "Suppressed roles {{ {} }} are not contained in the set of roles",
            foreign.join(", ")
        ));
    }
    Ok(())
}

/// What may not change about a framework (rule R55).
pub(crate) fn check_update(old: &FrameworkInfo, new: &FrameworkInfo) -> Result<(), String> {
    let unsupported = |field: &str, from: &str, to: &str| {
        Err(format!(
            "FrameworkInfo update is not valid: Updating 'FrameworkInfo.{field}' is unsupported; attempted to \
             update from '{from}' to '{to}'"
        ))
    };
    if old.principal != new.principal {
        return Err(
            "FrameworkInfo update is not valid: Changing framework's principal is not allowed.".to_owned(),
        );
    }
    if old.user != new.user {
        return unsupported("user", &old.user, &new.user);
    }
    if old.checkpoint() != new.checkpoint() {
        return unsupported(
            "checkpoint",
            &old.checkpoint().to_string(),
            &new.checkpoint().to_string(),
        );
    }
    Ok(())
}

/// Whether a text may name a task, an executor or a framework (rule R73).
pub(crate) fn check_id(id: &str) -> Result<(), String> {
    if id.is_empty() {
        return Err("ID must not be empty".to_owned());
    }
    if id.len() > 255 {
        return Err("ID must not be greater than 255 characters".to_owned());
    }
    if id == "." || id == ".." {
        return Err(format!("'{id}' is disallowed"));
    }
    if id.chars().any(|c| c.is_ascii_control() || c == '/' || c == '\\') {
        return Err(format!("'{id}' contains invalid characters"));
    }
    Ok(())
}

#[expect(deprecated, reason = "`role` is what frameworks without MULTI_ROLE have")]
fn check_roles(info: &FrameworkInfo) -> Result<(), String> {
    let multi = has(info, capability::Type::MultiRole);
    if multi && info.role.is_some() {
        return Err(
            "'FrameworkInfo.role' must not be set when the framework is MULTI_ROLE capable".to_owned(),
        );
    }
    if !multi && !info.roles.is_empty() {
        return Err(
            "'FrameworkInfo.roles' must not be set when the framework is not MULTI_ROLE capable".to_owned(),
        );
    }
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<&str> = info
        .roles
        .iter()
        .map(String::as_str)
        .filter(|role| !seen.insert(*role))
        .collect();
    if !twice.is_empty() {
        let names: Vec<&str> = twice.into_iter().collect();
        return Err(format!(
            "'FrameworkInfo.roles' contains duplicate items: {{ {} }}",
            names.join(", ")
        ));
    }
    for role in info.roles.iter().chain(&info.role) {
        check_role(role).map_err(|why| format!("'FrameworkInfo.roles' contains invalid role: {why}"))?;
    }
    Ok(())
}

/// Whether a text may be a role; roles form a tree with `/`.
pub(crate) fn check_role(role: &str) -> Result<(), String> {
    if role == "*" {
        return Ok(());
    }
    for part in role.split('/') {
        let wrong = match part {
            "" => "is empty",
            "." | ".." => "is disallowed",
            "*" => "is disallowed below the root",
            _ if part.starts_with('-') => "starts with a dash",
            _ if part
                .chars()
                .any(|c| c.is_whitespace() || c.is_control() || c == '\\') =>
            {
                "contains invalid characters"
            }
            _ => continue,
        };
        return Err(format!("Role component '{part}' is invalid because it {wrong}"));
    }
    Ok(())
}

/// A number as C++ streams print large ones: `1e+30`.
fn scientific(value: f64) -> String {
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((digits, power)) if !power.starts_with('-') => format!("{digits}e+{power}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_and_ids_are_checked_part_by_part() {
        for good in ["*", "a", "a/b", "team-1", "a.b"] {
            assert_eq!(check_role(good), Ok(()), "{good}");
        }
        for bad in ["", "-x", "a//b", "a/.", "a/*", "a b", "a\\b", "/a"] {
            assert!(check_role(bad).is_err(), "{bad}");
        }
        for bad in ["", ".", "..", "a/b", "a\\b", "a\nb", &"x".repeat(256)] {
            assert!(check_id(bad).is_err(), "{bad}");
        }
        assert_eq!(check_id(&"x".repeat(255)), Ok(()));
    }

    #[test]
    fn a_timeout_must_fit_a_count_of_nanoseconds() {
        let with = |seconds| FrameworkInfo {
            failover_timeout: Some(seconds),
            ..Default::default()
        };
        assert!(check(&with(9.2e9), &[]).is_ok() && check(&with(-1.0), &[]).is_ok());
        assert!(check(&with(9.3e9), &[]).is_err() && check(&with(f64::NAN), &[]).is_err());
        assert_eq!(
            check(&with(1e30), &[]).unwrap_err(),
            "The framework failover_timeout (1e+30) is invalid"
        );
    }
}
