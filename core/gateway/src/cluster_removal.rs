//! Removes a cluster for good. Its work has left before. Its row asks for the removal then. The resource manager
//! sees to it that nothing is assigned there, its shard leaves Mesos and deletes what it has stored, and the
//! resource manager closes the row.

use crate::clusters::{self, ClusterView};
use crate::error::{ApiError, ErrorReason};
use crate::hosts;
use crate::port::Facts;
use echelon_core_model::ClusterId;
use echelon_core_model::cluster::DesiredState;

/// What may be in the way of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemovalFacts {
    /// Its shard has never reported anything.
    pub is_unused: bool,
    /// Its shard has reported all that it has to the resource manager's leader.
    pub is_reported: bool,
    /// Instances there that have not ended and do not end with the cluster.
    pub instances: u64,
    /// Persistent volumes on its hosts; none: the caller forgets them.
    pub volumes: Option<u64>,
}

/// Why a cluster cannot be removed now, each with what to do. Empty: it can.
#[must_use]
pub fn removal_problems(name: &str, held: &RemovalFacts) -> Vec<String> {
    let mut out = Vec::new();
    if !held.is_unused && !held.is_reported {
        out.push(format!(
            "the shard of cluster `{name}` does not report to the resource manager; it has to leave Mesos and to delete what is stored: \
             start it, and see `echelon cluster get {name}`"
        ));
    }
    if held.instances > 0 {
        out.push(format!(
            "{} instances are at cluster `{name}`: move them off first with `echelon cluster drain {name} --wait`, which shows what stays and why",
            held.instances
        ));
    }
    if let Some(volumes) = held.volumes.filter(|n| *n > 0) {
        out.push(format!(
            "hosts of cluster `{name}` have {volumes} persistent volumes (`echelon volume list {name}`): destroy them, or leave them on their \
             hosts with `--forget-volumes`"
        ));
    }
    out
}

/// How many persistent volumes the hosts of a cluster have.
///
/// # Errors
/// Storage.
pub async fn count_volumes<F: Facts>(facts: &F, cluster: &ClusterId) -> Result<u64, ApiError> {
    let hosts = hosts::all(facts, cluster).await?;
    let volumes = hosts.iter().map(|host| {
        let listed = u64::try_from(host.volumes.len()).unwrap_or(u64::MAX);
        listed.saturating_add(u64::from(host.left_out.volumes))
    });
    Ok(volumes.fold(0, u64::saturating_add))
}

/// Asks for the removal of a cluster, if it has this etag and nothing is in the way. To repeat it changes nothing.
///
/// # Errors
/// No such cluster, another etag, what is in the way, or storage.
pub async fn remove_cluster<F: Facts>(
    facts: &F,
    wanted: &str,
    etag: &str,
    problems: &[String],
) -> Result<ClusterView, ApiError> {
    clusters::put(facts, wanted, |before, _| {
        let mut after = before.clone();
        if matches!(
            before.desired_state,
            DesiredState::Removing | DesiredState::Removed
        ) {
            return Ok(after);
        }
        crate::change::check_etag(etag, before.version, &format!("cluster `{wanted}`"))?;
        if !problems.is_empty() {
            return Err(ApiError::new(ErrorReason::ClusterInUse, problems.join("; ")));
        }
        after.desired_state = DesiredState::Removing;
        Ok(after)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_in_the_way_is_named_with_what_to_do() {
        let free = RemovalFacts {
            is_unused: false,
            is_reported: true,
            instances: 0,
            volumes: Some(0),
        };
        assert_eq!(removal_problems("west", &free), Vec::<String>::new());
        let held = RemovalFacts {
            is_unused: false,
            is_reported: false,
            instances: 3,
            volumes: Some(2),
        };
        let problems = removal_problems("west", &held);
        for (problem, command) in problems.iter().zip([
            "echelon cluster get west",
            "echelon cluster drain west --wait",
            "--forget-volumes",
        ]) {
            assert!(problem.contains(command), "{problem}");
        }
        assert_eq!(problems.len(), 3);
        // A mistyped name has no shard that could report.
        let unused = RemovalFacts {
            is_unused: true,
            is_reported: false,
            volumes: None,
            ..free
        };
        assert_eq!(removal_problems("wset", &unused), Vec::<String>::new());
    }
}
