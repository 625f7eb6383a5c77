//! Removes a cluster for good. Its work has left before. Its row asks for the removal then. The resource manager
//! sees to it that nothing is assigned there, its shard leaves Mesos and deletes what it has stored, and the
//! resource manager closes the row.
//!
//! A cluster that is lost for ever has no shard that could do its part. It is removed without, and what it
//! still has is given up. Its row says so for the present silence.

use crate::clusters::{self, ClusterView};
use crate::error::{ApiError, ErrorReason};
use crate::hosts;
use crate::port::Facts;
use echelon_core_model::ClusterId;
use echelon_core_model::cluster::{Cluster, DesiredState};
use echelon_core_model::health::{Declaration, DeclaredHealth, Health, HealthCause};

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
    out.extend(volumes_problem(name, held.volumes));
    out
}

fn volumes_problem(name: &str, volumes: Option<u64>) -> Option<String> {
    let volumes = volumes.filter(|n| *n > 0)?;
    Some(format!(
        "hosts of cluster `{name}` have {volumes} persistent volumes (`echelon volume list {name}`): destroy them, or leave them on their \
         hosts with `--forget-volumes`"
    ))
}

/// What may be in the way of removing a cluster without its shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostRemovalFacts {
    /// Groups of which instances would be given up against their job's policy, as `JOB/GROUP: n`: the first
    /// ones.
    pub groups: Vec<String>,
    /// How many instances that are, of all groups.
    pub given_up: u64,
    /// How many the operator has accepted.
    pub accepted: u64,
    /// Persistent volumes on its hosts; none: the caller forgets them.
    pub volumes: Option<u64>,
}

/// Why a cluster cannot be removed now without its shard, each with what to do. Empty: it can.
#[must_use]
pub fn lost_removal_problems(view: &ClusterView, held: &LostRemovalFacts) -> Vec<String> {
    let name = &view.cluster.name;
    let mut out: Vec<String> = not_gone(view).into_iter().collect();
    if held.given_up > held.accepted {
        let n = held.given_up;
        out.push(format!(
            "{n} instances at cluster `{name}` would be given up although their jobs wait for it, or as daemons ({}): accept that with \
             `--accept-loss-of {n}`",
            held.groups.join(", ")
        ));
    }
    out.extend(volumes_problem(name, held.volumes));
    out
}

/// Why a cluster does not count as gone for ever; none: it does.
fn not_gone(view: &ClusterView) -> Option<String> {
    let name = &view.cluster.name;
    let silent = view.state.as_ref().map(|state| &state.health);
    let Some(health) = silent.filter(|health| health.health.is_silence()) else {
        return Some(format!(
            "cluster `{name}` is not lost: remove it without `--lost`, so that its shard leaves Mesos"
        ));
    };
    if !health.causes.contains(&HealthCause::ShardSilent) {
        return Some(format!(
            "the shard of cluster `{name}` reports, and only its Mesos is away: stop the shard on all machines first, and declare the \
             silence that begins then"
        ));
    }
    let declared = view.cluster.declared.filter(|of| of.silence == health.silence);
    let is_declared = declared.is_some_and(|of| of.as_what.is_loss());
    if !is_declared || health.health != Health::Lost {
        return Some(format!(
            "nobody has declared cluster `{name}` lost in its present silence, which is number {}: \
             `echelon cluster declare-lost {name}`",
            health.silence
        ));
    }
    None
}

/// The present silence of a cluster, if it is the one that is named; 0 names the present one.
fn named_silence(view: &ClusterView, silence: u64) -> Option<u64> {
    let health = &view.state.as_ref()?.health;
    (silence == 0 || silence == health.silence).then_some(health.silence)
}

/// Whether a cluster is removed without its shard already, or is being removed so in its present silence.
#[must_use]
pub fn is_removed_as_lost(view: &ClusterView) -> bool {
    let silence = view.state.as_ref().map(|state| state.health.silence);
    let declared = view.cluster.declared;
    let is_gone =
        declared.is_some_and(|of| of.as_what == Declaration::NeverReturns && (Some(of.silence) == silence));
    match view.cluster.desired_state {
        DesiredState::Removed => true,
        DesiredState::Removing => is_gone,
        DesiredState::Active | DesiredState::Cordoned | DesiredState::Draining => false,
    }
}

/// Asks for the removal of a cluster without its shard, if it has this etag, is in this silence and nothing
/// is in the way. To repeat it changes nothing.
///
/// # Errors
/// Another etag, another silence, what is in the way, or storage.
pub async fn remove_lost_cluster<F: Facts>(
    facts: &F,
    seen: &ClusterView,
    etag: &str,
    silence: u64,
    problems: &[String],
) -> Result<ClusterView, ApiError> {
    let wanted = &seen.cluster.name;
    if !problems.is_empty() {
        return Err(ApiError::new(ErrorReason::ClusterInUse, problems.join("; ")));
    }
    let named = named_silence(seen, silence);
    let silence = named.ok_or_else(|| crate::declare::not_silent(&seen.cluster.name, silence))?;
    clusters::put(facts, wanted, |before, _| {
        let declared = DeclaredHealth {
            silence,
            as_what: Declaration::NeverReturns,
        };
        crate::change::check_etag(etag, before.version, &format!("cluster `{}`", before.name))?;
        Ok(Cluster {
            desired_state: DesiredState::Removing,
            declared: Some(declared),
            ..before.clone()
        })
    })
    .await
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
    use crate::testing::{Memory, run};
    use crate::view::ClusterMoments;
    use echelon_core_model::cluster::ClusterState;
    use echelon_core_model::health::ClusterHealth;

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

    const GONE: DeclaredHealth = DeclaredHealth {
        silence: 17,
        as_what: Declaration::NeverReturns,
    };

    /// A cluster in silence 17, lost for this cause, of which this was declared.
    fn lost(cause: HealthCause, declared: Option<Declaration>) -> Memory {
        let mut store = Memory::new();
        let id = store.add_cluster("west");
        let health = ClusterHealth {
            health: Health::Lost,
            causes: vec![cause],
            silence: 17,
            ..ClusterHealth::default()
        };
        let state = ClusterState {
            cluster: id.clone(),
            health,
            reported: None,
        };
        store.states.insert(id.clone(), state);
        let row = store.clusters.get_mut(&id).unwrap();
        row.declared = declared.map(|as_what| DeclaredHealth { silence: 17, as_what });
        store
    }

    fn view(store: &Memory) -> ClusterView {
        let (id, cluster) = store.clusters.iter().next().unwrap();
        ClusterView {
            cluster: cluster.clone(),
            state: store.states.get(id).cloned(),
            heartbeat: None,
            moments: ClusterMoments::default(),
        }
    }

    fn nothing_given_up() -> LostRemovalFacts {
        LostRemovalFacts {
            groups: Vec::new(),
            given_up: 0,
            accepted: 0,
            volumes: Some(0),
        }
    }

    #[test]
    fn only_a_cluster_that_is_silent_and_declared_lost_goes_without_its_shard() {
        let problems = |store: &Memory| lost_removal_problems(&view(store), &nothing_given_up());
        let declared = lost(HealthCause::ShardSilent, Some(Declaration::Lost));
        assert_eq!(problems(&declared), Vec::<String>::new());
        let undeclared = lost(HealthCause::ShardSilent, None);
        assert!(problems(&undeclared)[0].contains("echelon cluster declare-lost west"));
        let alive = Declaration::AliveUntil(echelon_core_model::Timestamp(9));
        let alive = lost(HealthCause::ShardSilent, Some(alive));
        assert!(problems(&alive)[0].contains("its present silence, which is number 17"));
        let mut other = declared.clone();
        other.states.values_mut().for_each(|s| s.health.silence = 18);
        assert!(problems(&other)[0].contains("which is number 18"));
        let heard = lost(HealthCause::NotSubscribed, Some(Declaration::Lost));
        assert!(problems(&heard)[0].contains("stop the shard on all machines"));
        let mut well = declared;
        well.states
            .values_mut()
            .for_each(|s| s.health.health = Health::Healthy);
        assert!(problems(&well)[0].contains("remove it without `--lost`"));
    }

    #[test]
    fn what_is_given_up_against_its_policy_is_accepted_by_its_number() {
        let store = lost(HealthCause::ShardSilent, Some(Declaration::Lost));
        let held = LostRemovalFacts {
            groups: vec!["db/main: 3".to_owned()],
            given_up: 3,
            accepted: 2,
            volumes: Some(2),
        };
        let problems = lost_removal_problems(&view(&store), &held);
        assert!(problems[0].contains("(db/main: 3): accept that with `--accept-loss-of 3`"));
        assert!(problems[1].contains("--forget-volumes"));
        let accepted = LostRemovalFacts {
            accepted: 3,
            volumes: None,
            ..held
        };
        assert_eq!(
            lost_removal_problems(&view(&store), &accepted),
            Vec::<String>::new()
        );
    }

    #[test]
    fn the_row_says_in_which_silence_it_was_removed_as_lost() {
        let mut store = lost(HealthCause::ShardSilent, Some(Declaration::Lost));
        let seen = view(&store);
        let mut remove = |etag: &str, silence: u64, problems: &[String]| {
            let (seen, etag, problems) = (seen.clone(), etag.to_owned(), problems.to_vec());
            let done = run(&mut store, move |facts| async move {
                remove_lost_cluster(&facts, &seen, &etag, silence, &problems).await
            });
            done.map(|view| view.cluster).map_err(|e| e.reason)
        };
        assert_eq!(remove("1", 16, &[]), Err(ErrorReason::ClusterNotSilent));
        assert_eq!(remove("9", 17, &[]), Err(ErrorReason::EtagStale));
        let refused = ["in the way".to_owned()];
        assert_eq!(remove("1", 17, &refused), Err(ErrorReason::ClusterInUse));
        let row = remove("1", 17, &[]).unwrap();
        assert_eq!(
            (row.desired_state, row.declared),
            (DesiredState::Removing, Some(GONE))
        );
        let mut after = view(&store);
        assert!(is_removed_as_lost(&after));
        // A removal that waits for its shard is none without it.
        after.cluster.declared = None;
        assert!(!is_removed_as_lost(&after));
    }
}
