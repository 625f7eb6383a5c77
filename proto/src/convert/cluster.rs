//! Clusters between the public wire and the model.

use super::instance::health;
use super::quantity::{duration, held_by_others, kind, resources, timestamp};
use crate::echelon::v1;
use echelon_core_model::Timestamp;
use echelon_core_model::cluster::{Cluster, ClusterState, DesiredState, Heartbeat, MassLoss};
use echelon_core_model::health::{ClusterHealth, Declaration, HealthCause};
use echelon_core_model::sharing::{QuotaLimit, RoleShare};

/// To the wire.
#[must_use]
pub const fn desired_state(desired_state: DesiredState) -> v1::ClusterDesiredState {
    match desired_state {
        DesiredState::Active => v1::ClusterDesiredState::Active,
        DesiredState::Cordoned => v1::ClusterDesiredState::Cordoned,
        DesiredState::Draining => v1::ClusterDesiredState::Draining,
        DesiredState::Removing => v1::ClusterDesiredState::Removing,
        DesiredState::Removed => v1::ClusterDesiredState::Removed,
    }
}

/// From the wire, `None` when it names no desired state.
#[must_use]
pub fn read_desired_state(number: i32) -> Option<DesiredState> {
    [
        DesiredState::Active,
        DesiredState::Cordoned,
        DesiredState::Draining,
        DesiredState::Removing,
        DesiredState::Removed,
    ]
    .into_iter()
    .find(|w| i32::from(desired_state(*w)) == number)
}

/// To the wire: the desired state, what the resource manager observes, and what the shard reports.
#[must_use]
pub fn cluster(c: &Cluster, state: Option<&ClusterState>, heartbeat: Option<&Heartbeat>) -> v1::Cluster {
    let observed = state.map(|s| &s.health);
    let reported = state.and_then(|s| s.reported.as_ref());
    let limits = reported.and_then(|r| r.sharing.limits.as_ref());
    let silent = observed.filter(|h| h.health.is_silence());
    // What was declared of an earlier silence is over.
    let declared = c
        .declared
        .filter(|d| silent.is_some_and(|h| h.silence == d.silence));
    let declared = declared.map(|d| d.as_what);
    v1::Cluster {
        name: format!("clusters/{}", c.id),
        cluster_id: c.id.to_string(),
        display_name: c.name.clone(),
        etag: c.version.to_string(),
        desired_state: desired_state(c.desired_state).into(),
        mesos_address: c.mesos.clone(),
        labels: c.labels.clone(),
        health: health(observed.map(|h| h.health).unwrap_or_default()).into(),
        health_since: observed.map(|h| timestamp(h.since)),
        health_causes: causes(observed),
        health_unconfirmed_since: None,
        age: None,
        stale: false,
        silence: observed.map_or(0, |h| h.silence),
        silence_waited: silent.map(|h| duration(h.waited)),
        silence_doubted: silent.map(|h| duration(h.doubted)),
        declared_lost: declared.is_some_and(Declaration::is_loss),
        declared_alive_until: match declared {
            Some(Declaration::AliveUntil(until)) => Some(timestamp(until)),
            Some(Declaration::Lost | Declaration::NeverReturns) | None => None,
        },
        removed_as_lost: c.desired_state == DesiredState::Removing
            && declared == Some(Declaration::NeverReturns),
        recovering_until: observed.and_then(ClusterHealth::hold_until).map(timestamp),
        capacity: reported.map(|r| resources(&r.total)),
        used: reported.map(|r| resources(&r.used)),
        hosts: reported.map_or(0, |r| r.hosts),
        heartbeat_time: heartbeat.map(|h| timestamp(h.at)),
        mesos_event_time: heartbeat.and_then(event_time).map(timestamp),
        shard_address: heartbeat.map(|h| h.address.clone()).unwrap_or_default(),
        shard_epoch: heartbeat.map_or(0, |h| h.epoch.0),
        trouble: heartbeat.and_then(|h| h.trouble.clone()).unwrap_or_default(),
        loss: heartbeat.and_then(|h| h.loss).map(|l| loss(&l, c.accepted_loss)),
        other_roles: reported.map_or_else(Vec::new, |r| r.sharing.roles.iter().map(role_share).collect()),
        other_roles_left_out: reported.map_or(0, |r| r.sharing.roles_left_out),
        quota_limits: limits.map_or_else(Vec::new, |limits| limits.iter().map(quota_limit).collect()),
        quota_known: limits.is_some(),
    }
}

fn role_share(share: &RoleShare) -> v1::RoleShare {
    v1::RoleShare {
        role: share.role.clone(),
        held: Some(held_by_others(&share.held)),
    }
}

fn quota_limit(of: &QuotaLimit) -> v1::QuotaLimit {
    v1::QuotaLimit {
        role: of.role.clone(),
        kind: kind(of.kind).into(),
        limit: of.limit,
        ours: of.ours,
        one_host: of.one_host,
    }
}

/// Why a cluster is not simply healthy. One of which nothing is stored has not reported yet.
fn causes(observed: Option<&ClusterHealth>) -> Vec<v1::HealthCause> {
    let causes = observed.map_or(&[HealthCause::NoReport][..], |h| &h.causes);
    let shown = causes.iter().map(|cause| {
        let (count, of) = cause.figures();
        v1::HealthCause {
            code: cause.word().to_owned(),
            sentence: cause.to_string(),
            count,
            of,
        }
    });
    shown.collect()
}

/// When a shard's leader last received an event of Mesos, by its own clock.
#[must_use]
pub fn event_time(heartbeat: &Heartbeat) -> Option<Timestamp> {
    let age = heartbeat.signs.event_age?;
    Some(Timestamp(heartbeat.at.0.saturating_sub(age.0)))
}

fn loss(loss: &MassLoss, accepted: u64) -> v1::MassLoss {
    v1::MassLoss {
        number: loss.number,
        notice_time: Some(timestamp(loss.since)),
        running: loss.running,
        lost: loss.lost,
        missing: loss.missing,
        accepted: loss.number <= accepted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_read_back() {
        for number in 1..=5 {
            let w = read_desired_state(number).unwrap();
            assert_eq!(read_desired_state(desired_state(w).into()), Some(w));
        }
        assert_eq!((read_desired_state(0), read_desired_state(99)), (None, None));
    }
}
