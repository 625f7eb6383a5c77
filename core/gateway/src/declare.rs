//! What operators declare of a cluster that is cut off or without Mesos: that it is lost, or alive. Each command is about one
//! silence, so one that comes late is of no effect on a later silence.

use crate::clusters::{ClusterView, get_cluster, put};
use crate::error::{ApiError, ErrorReason};
use crate::port::Facts;
use echelon_core_model::cluster::Cluster;
use echelon_core_model::health::{Declaration, DeclaredHealth};

/// Declares what a silent cluster is: lost, or alive for a time. `silence` names the silence that was seen, 0 the present one.
///
/// # Errors
/// No such cluster, a cluster that is not silent or is in another silence, or storage.
pub async fn declare<F: Facts>(
    facts: &F,
    wanted: &str,
    silence: u64,
    as_what: Declaration,
) -> Result<ClusterView, ApiError> {
    let seen = get_cluster(facts, wanted).await?;
    let health = seen.state.as_ref().map(|state| &state.health);
    let present = health.filter(|health| health.health.is_silence());
    let named = present.filter(|health| silence == 0 || health.silence == silence);
    let silence = named.ok_or_else(|| not_silent(wanted, silence))?.silence;
    put(facts, wanted, |before, _| {
        let declared = DeclaredHealth { silence, as_what };
        // A later silence was declared meanwhile.
        let is_over = before.declared.is_some_and(|there| there.silence > silence);
        if is_over {
            return Err(not_silent(wanted, silence));
        }
        // A cluster that is removed as lost is declared lost already.
        let is_known = before.declared.is_some_and(|there| {
            there.silence == silence && there.as_what.is_loss() && as_what == Declaration::Lost
        });
        if is_known {
            return Ok(before.clone());
        }
        Ok(Cluster {
            declared: Some(declared),
            ..before.clone()
        })
    })
    .await
}

/// That a cluster is not silent, or not in the silence that is named.
pub(crate) fn not_silent(wanted: &str, silence: u64) -> ApiError {
    let which = if silence == 0 {
        String::new()
    } else {
        format!(" in silence {silence}")
    };
    ApiError::new(
        ErrorReason::ClusterNotSilent,
        format!(
            "cluster `{wanted}` is not cut off or without Mesos{which}; nothing was changed (`echelon cluster get` shows its health and the number of its silence)"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Memory, run};
    use echelon_core_model::Timestamp;
    use echelon_core_model::cluster::ClusterState;
    use echelon_core_model::health::{ClusterHealth, Health};

    fn with(health: Health, silence: u64) -> Memory {
        let mut store = Memory::new();
        let cluster = store.add_cluster("east");
        let health = ClusterHealth {
            health,
            silence,
            ..ClusterHealth::default()
        };
        let state = ClusterState {
            cluster: cluster.clone(),
            health,
            reported: None,
        };
        store.states.insert(cluster, state);
        store
    }

    fn declared(
        store: &mut Memory,
        silence: u64,
        as_what: Declaration,
    ) -> Result<Option<DeclaredHealth>, ErrorReason> {
        let done = run(store, move |facts| async move {
            declare(&facts, "east", silence, as_what).await
        });
        done.map(|view| view.cluster.declared).map_err(|e| e.reason)
    }

    const LOST: Declaration = Declaration::Lost;

    #[test]
    fn a_silence_is_declared_once_however_often_it_is_asked_for() {
        for health in [Health::CutOff, Health::WithoutMesos, Health::Lost] {
            let mut store = with(health, 17);
            let lost = Some(DeclaredHealth {
                silence: 17,
                as_what: LOST,
            });
            assert_eq!(declared(&mut store, 0, LOST), Ok(lost));
            let version = store.clusters.values().next().unwrap().version;
            assert_eq!(declared(&mut store, 17, LOST), Ok(lost));
            assert_eq!(store.clusters.values().next().unwrap().version, version);
            let alive = Declaration::AliveUntil(Timestamp(9));
            let changed = declared(&mut store, 17, alive).unwrap().unwrap();
            assert_eq!(changed.as_what, alive, "the last word counts");
        }
    }

    /// A repeated command does not take back that it is removed without its shard.
    #[test]
    fn a_cluster_that_is_removed_as_lost_stays_so() {
        let mut store = with(Health::Lost, 17);
        let gone = DeclaredHealth {
            silence: 17,
            as_what: Declaration::NeverReturns,
        };
        store.clusters.values_mut().for_each(|c| c.declared = Some(gone));
        assert_eq!(declared(&mut store, 17, LOST), Ok(Some(gone)));
        let alive = Declaration::AliveUntil(Timestamp(9));
        let changed = declared(&mut store, 17, alive).unwrap().unwrap();
        assert_eq!(changed.as_what, alive);
    }

    #[test]
    fn nothing_is_declared_of_a_cluster_that_speaks_or_of_another_silence() {
        for health in [
            Health::Healthy,
            Health::Degraded,
            Health::Recovering,
            Health::WithoutAgents,
        ] {
            let mut store = with(health, 17);
            assert_eq!(declared(&mut store, 17, LOST), Err(ErrorReason::ClusterNotSilent));
            assert_eq!(store.clusters.values().next().unwrap().declared, None);
        }
        let mut store = with(Health::CutOff, 17);
        assert_eq!(declared(&mut store, 16, LOST), Err(ErrorReason::ClusterNotSilent));
        assert_eq!(declared(&mut store, 18, LOST), Err(ErrorReason::ClusterNotSilent));
        let mut empty = Memory::new();
        assert_eq!(declared(&mut empty, 0, LOST), Err(ErrorReason::ClusterNotFound));
    }
}
