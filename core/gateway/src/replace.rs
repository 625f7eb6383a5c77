//! Replaces an instance whose host is gone for good, and with it its volume: it begins anew with an empty one. What is in the volume is lost
//! to it, so the caller has to name the volume that is given up. The wish is stored with the cluster and carried out by its shard, once: it
//! is void when the host is heard again before, and has to be said anew when the host is away another time.

use crate::clusters;
use crate::error::{ApiError, ErrorReason};
use crate::instances::{self, InstanceSeen};
use crate::port::Facts;
use crate::resource::JobRef;
use crate::{volumes, wishes};
use echelon_core_model::instance::{InstanceRecord, Run};
use echelon_core_model::volume::VolumeWish;
use echelon_core_model::{
    ClusterId, GroupName, InstanceId, InstanceNumber, ReasonCode, RunState, Timestamp, VolumeId,
};

/// Has an instance begin anew with an empty volume in place of the one that it holds, which is named.
///
/// # Errors
/// No such job or instance; one without a volume, or with another one; one of which something is heard; too many wishes of which the
/// shard has not heard; or storage.
pub async fn replace_instance<F: Facts>(
    facts: &F,
    (job, group, number): (&JobRef, &GroupName, InstanceNumber),
    volume: &VolumeId,
    now: Timestamp,
) -> Result<InstanceSeen, ApiError> {
    let seen = instances::get_instance(facts, job, group, number, now).await?;
    let refuse = |why: String| {
        ApiError::new(
            ErrorReason::VolumeUnfit,
            format!(
                "instance {number} of group {group} of job `{job}` is not replaced: {why}; nothing was changed"
            ),
        )
    };
    let record = seen.instance.record.as_ref();
    let Some(held) = record.and_then(|r| r.volume.as_ref()) else {
        return Err(refuse("it holds no volume that would be known".to_owned()));
    };
    if held.id != *volume {
        return Err(refuse(format!(
            "it holds volume `{}` on host {}, and not `{volume}`",
            held.id, held.hostname
        )));
    }
    if let Some(run) = record.and_then(heard) {
        return Err(refuse(format!(
            "its run on host {} is {}; what runs has its volume. Only what nobody hears of is replaced",
            run.hostname, run.state
        )));
    }
    let Some(cluster) = seen.instance.cluster.as_ref().map(|part| part.id.clone()) else {
        return Err(refuse("it belongs to no cluster".to_owned()));
    };
    let instance = InstanceId {
        job: seen.job,
        group: group.clone(),
        number,
    };
    put(facts, &cluster, (volume, &instance), now).await?;
    Ok(seen)
}

/// A run of which something is heard.
fn heard(record: &InstanceRecord) -> Option<&Run> {
    let silent = |r: &&Run| {
        r.state == RunState::Unreachable
            || (r.state == RunState::Stopping && r.reason.code == ReasonCode::HostUnreachable)
    };
    record.live_runs().find(|r| !silent(r))
}

async fn put<F: Facts>(
    facts: &F,
    cluster: &ClusterId,
    (volume, instance): (&VolumeId, &InstanceId),
    now: Timestamp,
) -> Result<(), ApiError> {
    let own = volumes::own(facts, cluster).await?;
    clusters::put(facts, cluster.as_str(), |before, _| {
        let mut after = before.clone();
        let asked = before
            .volumes
            .get(volume)
            .filter(|wish| wishes::waits(&own, volume, wish));
        let waits = [asked, own.volumes.get(volume)].into_iter().flatten();
        if waits.filter_map(VolumeWish::given_up_by).any(|by| by == instance) {
            return Ok(after);
        }
        let wish = VolumeWish::GiveUp {
            instance: instance.clone(),
            asked_at: wishes::next_moment(&before.volumes, &own, now),
        };
        wishes::drop_heard(&mut after.volumes, &own);
        after.volumes.insert(volume.clone(), wish);
        wishes::check_room(&before.name, &after.volumes)?;
        Ok(after)
    })
    .await?;
    Ok(())
}

#[cfg(test)]
#[path = "replace_tests.rs"]
mod tests;
