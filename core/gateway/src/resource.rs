//! Resource names of the public API: `jobs/hello`, `jobs/{j}/groups/{g}/instances/{n}`, `pools/ml/training`,
//! `clusters/c1/hosts/h7`.

use crate::error::ApiError;
use echelon_core_model::{GroupName, InstanceNumber, JobId, VolumeId};
use std::fmt;

/// A job as a caller names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobRef {
    /// By id.
    Id(JobId),
    /// By name: the live one, else the latest that ended.
    Name(String),
}

impl fmt::Display for JobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "{id}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

fn wrong(field: &str, form: &str, text: &str) -> ApiError {
    let shown: String = text.chars().take(80).collect();
    ApiError::field(field, format!("must look like `{form}`, not `{shown}`"))
}

/// A job's name or id.
#[must_use]
pub fn job_ref(text: &str) -> Option<JobRef> {
    if let Ok(id) = text.parse() {
        return Some(JobRef::Id(id));
    }
    crate::validate::text::is_label(text).then(|| JobRef::Name(text.to_owned()))
}

/// `jobs/{id or name}`.
///
/// # Errors
/// When it does not look so.
pub fn job(name: &str, field: &str) -> Result<JobRef, ApiError> {
    name.strip_prefix("jobs/")
        .and_then(job_ref)
        .ok_or_else(|| wrong(field, "jobs/{id or name}", name))
}

/// `jobs/{j}` or `jobs/{j}/groups/{g}`.
///
/// # Errors
/// When it does not look so.
pub fn job_or_group(name: &str, field: &str) -> Result<(JobRef, Option<GroupName>), ApiError> {
    let wrong = || {
        wrong(
            field,
            "jobs/{id or name} or jobs/{id or name}/groups/{group}",
            name,
        )
    };
    let parts: Vec<&str> = name.split('/').collect();
    match parts.as_slice() {
        ["jobs", job] => Ok((job_ref(job).ok_or_else(wrong)?, None)),
        ["jobs", job, "groups", group] => Ok((
            job_ref(job).ok_or_else(wrong)?,
            Some(GroupName::parse(group).map_err(|_| wrong())?),
        )),
        _ => Err(wrong()),
    }
}

/// `jobs/{j}/groups/{g}/instances/{n}`.
///
/// # Errors
/// When it does not look so.
pub fn instance(name: &str, field: &str) -> Result<(JobRef, GroupName, InstanceNumber), ApiError> {
    let wrong = || wrong(field, "jobs/{id or name}/groups/{group}/instances/{number}", name);
    let parts: Vec<&str> = name.split('/').collect();
    let ["jobs", job, "groups", group, "instances", number] = parts.as_slice() else {
        return Err(wrong());
    };
    Ok((
        job_ref(job).ok_or_else(wrong)?,
        GroupName::parse(group).map_err(|_| wrong())?,
        InstanceNumber(number.parse().map_err(|_| wrong())?),
    ))
}

/// `pools/{path without its leading slash}`; the answer is the path with it.
///
/// # Errors
/// When it does not look so.
pub fn pool(name: &str, field: &str) -> Result<String, ApiError> {
    let path = name
        .strip_prefix("pools/")
        .map(|rest| format!("/{}", rest.trim_start_matches('/')));
    path.filter(|p| crate::validate::text::is_pool_path(p))
        .ok_or_else(|| wrong(field, "pools/{path}", name))
}

/// `clusters/{id or name}`.
///
/// # Errors
/// When it does not look so.
pub fn cluster<'a>(name: &'a str, field: &str) -> Result<&'a str, ApiError> {
    name.strip_prefix("clusters/")
        .filter(|rest| !rest.is_empty() && !rest.contains('/'))
        .ok_or_else(|| wrong(field, "clusters/{id or name}", name))
}

/// `clusters/{id or name}/hosts/{id or hostname}`.
///
/// # Errors
/// When it does not look so.
pub fn host<'a>(name: &'a str, field: &str) -> Result<(&'a str, &'a str), ApiError> {
    let parts: Vec<&str> = name.split('/').collect();
    match parts.as_slice() {
        ["clusters", cluster, "hosts", host] if !cluster.is_empty() && !host.is_empty() => {
            Ok((cluster, host))
        }
        _ => Err(wrong(field, "clusters/{id or name}/hosts/{id or hostname}", name)),
    }
}

/// `clusters/{id or name}/hostPools/{host pool}`.
///
/// # Errors
/// When it does not look so.
pub fn host_pool<'a>(name: &'a str, field: &str) -> Result<(&'a str, &'a str), ApiError> {
    let parts: Vec<&str> = name.split('/').collect();
    match parts.as_slice() {
        ["clusters", cluster, "hostPools", pool] if !cluster.is_empty() && !pool.is_empty() => {
            Ok((cluster, pool))
        }
        _ => Err(wrong(field, "clusters/{id or name}/hostPools/{host pool}", name)),
    }
}

/// `clusters/{id or name}/volumes/{volume id}`.
///
/// # Errors
/// When it does not look so.
pub fn volume<'a>(name: &'a str, field: &str) -> Result<(&'a str, VolumeId), ApiError> {
    let parts: Vec<&str> = name.split('/').collect();
    match parts.as_slice() {
        ["clusters", cluster, "volumes", id] if !cluster.is_empty() && !id.is_empty() => {
            Ok((cluster, VolumeId::new(id)))
        }
        _ => Err(wrong(field, "clusters/{id or name}/volumes/{volume id}", name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_or_refused() {
        let id = JobId(77);
        assert_eq!(job(&format!("jobs/{id}"), "name"), Ok(JobRef::Id(id)));
        assert_eq!(job("jobs/hello", "name"), Ok(JobRef::Name("hello".into())));
        for bad in [
            "",
            "hello",
            "jobs/",
            "jobs/a/b",
            "jobs/Hello",
            "job/hello",
            "jobs/a b",
        ] {
            assert_eq!(job(bad, "name").unwrap_err().violations[0].field, "name", "{bad}");
        }
        let (j, g, n) = instance("jobs/hello/groups/main/instances/7", "name").unwrap();
        assert_eq!((j.to_string(), g.as_str(), n.0), ("hello".into(), "main", 7));
        for bad in [
            "jobs/hello/groups/main/instances/-1",
            "jobs/hello/groups/main/instances/4294967296",
            "jobs/hello/groups//instances/1",
            "jobs/hello/groups/main",
        ] {
            assert!(instance(bad, "name").is_err(), "{bad}");
        }
        assert_eq!(pool("pools/ml/training", "name"), Ok("/ml/training".into()));
        for bad in ["pools/", "pools//", "pools/a//b", "pools/A", "/a"] {
            assert!(pool(bad, "name").is_err(), "{bad}");
        }
        assert_eq!(host("clusters/c1/hosts/h", "name"), Ok(("c1", "h")));
        assert!(host("clusters/c1/hosts/", "name").is_err());
        assert!(cluster("clusters/a/b", "name").is_err());
    }
}
