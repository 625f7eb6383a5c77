//! Replaces an instance whose host is gone for good, and with it its volume: it begins anew with an empty one. What is in the volume is lost
//! to it, so the caller has to name the volume that is given up. The wish is stored with the cluster and carried out by its shard,
//! which leaves it out when the host is heard again before.

use crate::clusters;
use crate::error::{ApiError, ErrorReason};
use crate::instances::{self, InstanceSeen};
use crate::port::Facts;
use crate::resource::JobRef;
use echelon_core_model::instance::{InstanceRecord, Run};
use echelon_core_model::volume::VolumeWish;
use echelon_core_model::{
    ClusterId, GroupName, InstanceId, InstanceNumber, ReasonCode, RunState, Timestamp, VolumeId,
};
use std::collections::BTreeMap;

/// Most volumes that may be given up at a cluster and not replaced yet: a wish is small, and a cluster's row has to stay so, too.
const MOST_GIVEN_UP: usize = 1000;

/// Has an instance begin anew with an empty volume in place of the one that it holds, which is named.
///
/// # Errors
/// No such job or instance; one without a volume, or with another one; one of which something is heard; or storage.
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
    let wish = VolumeWish::GiveUp(InstanceId {
        job: seen.job,
        group: group.clone(),
        number,
    });
    put(facts, &cluster, volume, &wish).await?;
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
    volume: &VolumeId,
    wish: &VolumeWish,
) -> Result<(), ApiError> {
    clusters::put(facts, cluster.as_str(), |before, _| {
        let mut after = before.clone();
        // An instance has one volume: what it gave up before, it has another for.
        after.volumes.retain(|_, w| w != wish);
        if given_up(&after.volumes) >= MOST_GIVEN_UP {
            drop_oldest(&mut after.volumes);
        }
        after.volumes.insert(volume.clone(), wish.clone());
        Ok(after)
    })
    .await?;
    Ok(())
}

fn given_up(wishes: &BTreeMap<VolumeId, VolumeWish>) -> usize {
    let is = |w: &&VolumeWish| matches!(w, VolumeWish::GiveUp(_));
    wishes.values().filter(is).count()
}

/// Volumes are named after the jobs that they were made for, and these in order of time.
fn drop_oldest(wishes: &mut BTreeMap<VolumeId, VolumeWish>) {
    let oldest = wishes.iter().find(|(_, w)| matches!(w, VolumeWish::GiveUp(_)));
    if let Some(id) = oldest.map(|(id, _)| id.clone()) {
        wishes.remove(&id);
    }
}

#[cfg(test)]
#[path = "replace_tests.rs"]
mod tests;
