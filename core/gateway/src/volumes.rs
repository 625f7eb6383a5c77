//! Persistent volumes of a cluster's hosts: whose they are, and what is wanted of those that nobody holds. A wish is stored with the
//! cluster and carried out by its shard when the host offers the volume.

use crate::ask;
use crate::clusters;
use crate::error::{ApiError, ErrorReason};
use crate::hosts;
use crate::lookup;
use crate::page::{Page, PageRequest};
use crate::port::Facts;
use crate::resource::JobRef;
use echelon_core_model::cluster::{Cluster, Host};
use echelon_core_model::instance::{BlockKey, InstanceRecord};
use echelon_core_model::job::Desired;
use echelon_core_model::store::{Answer, Consistency, Query, ShardRow};
use echelon_core_model::volume::{HostVolume, VolumeWish};
use echelon_core_model::{ClusterId, GroupName, HostId, InstanceId, InstanceNumber, VolumeId};
use std::collections::BTreeSet;

/// A volume with whose it is.
#[derive(Debug, Clone)]
pub struct VolumeView {
    /// The volume.
    pub volume: HostVolume,
    /// Its host's agent.
    pub host: HostId,
    /// Its host's name.
    pub hostname: String,
    /// Its cluster's id.
    pub cluster: ClusterId,
    /// Its cluster's name.
    pub cluster_name: String,
    /// The instance that holds it.
    pub holder: Option<InstanceId>,
    /// What is wanted of it.
    pub wish: Option<VolumeWish>,
}

/// A page of volumes, by host and id; the page's size counts hosts.
///
/// # Errors
/// No such cluster, a wrong page token or size, or storage.
pub async fn list_volumes<F: Facts>(
    facts: &F,
    wanted: &str,
    page: PageRequest,
) -> Result<Page<VolumeView>, ApiError> {
    let cluster = hosts::cluster(facts, wanted).await?;
    let own = own(facts, &cluster.id).await?;
    let hosts = hosts::list_hosts(facts, wanted, page).await?;
    let mut items = Vec::new();
    for host in &hosts.items {
        for volume in &host.host.volumes {
            items.push(view(facts, &cluster, &own, &host.host, volume).await?);
        }
    }
    Ok(Page {
        items,
        next: hosts.next,
    })
}

/// Stores the wish that a volume which nobody holds is destroyed.
///
/// # Errors
/// No such cluster or volume, one that an instance holds, or storage.
pub async fn destroy_volume<F: Facts>(
    facts: &F,
    wanted: &str,
    id: &VolumeId,
) -> Result<VolumeView, ApiError> {
    let found = find(facts, wanted, id).await?;
    refuse_held(&found.volume)?;
    wish(facts, wanted, &found, VolumeWish::Destroy).await
}

/// Stores the wish that an instance uses a volume which nobody holds.
///
/// # Errors
/// No such cluster, volume or instance; a volume that is held or smaller than the job asks for; an instance that is over, belongs to
/// another cluster or has no volumes; or storage.
pub async fn adopt_volume<F: Facts>(
    facts: &F,
    wanted: &str,
    id: &VolumeId,
    (job, group, number): (JobRef, GroupName, InstanceNumber),
) -> Result<VolumeView, ApiError> {
    let found = find(facts, wanted, id).await?;
    refuse_held(&found.volume)?;
    if found.volume.wish == Some(VolumeWish::Destroy) {
        return Err(ApiError::new(
            ErrorReason::VolumeDestroying,
            format!("volume `{id}` is to be destroyed; nothing was changed"),
        ));
    }
    let head = lookup::settled(facts, &job).await?;
    let instance = InstanceId {
        job: head.job,
        group,
        number,
    };
    let refuse = |why: &str| {
        ApiError::new(
            ErrorReason::VolumeUnfit,
            format!(
                "instance {number} of group {} of job `{job}` cannot adopt volume `{id}`: {why}; nothing was changed",
                instance.group
            ),
        )
    };
    let spec = ask::spec(facts, head.job, head.spec_version).await?;
    let of = spec.as_ref().and_then(|s| s.group(&instance.group));
    let Some(asked) = of.and_then(|g| g.volume.as_ref()) else {
        return Err(refuse("its job asks for no volume"));
    };
    if of.is_none_or(|g| number.0 >= g.instances) || head.goal.desired != Desired::Running {
        return Err(refuse("there is no such instance that is to run"));
    }
    if asked.size > found.volume.volume.size {
        return Err(refuse(&format!(
            "it has {} MiB and the job asks for {} MiB",
            found.volume.volume.size, asked.size
        )));
    }
    let assignment = ask::assignment(facts, head.job).await?;
    let here = assignment
        .ranges(&instance.group)
        .iter()
        .any(|r| r.cluster == found.volume.cluster && r.range.contains(number));
    if !here {
        return Err(refuse(&format!(
            "it does not belong to cluster `{}`",
            found.volume.cluster_name
        )));
    }
    wish(facts, wanted, &found, VolumeWish::Adopt(instance)).await
}

/// A volume, and all others of its cluster.
struct Found {
    volume: VolumeView,
    all: BTreeSet<VolumeId>,
}

async fn find<F: Facts>(facts: &F, wanted: &str, id: &VolumeId) -> Result<Found, ApiError> {
    let cluster = hosts::cluster(facts, wanted).await?;
    let own = own(facts, &cluster.id).await?;
    let rows = hosts::all(facts, &cluster.id).await?;
    let place = rows
        .iter()
        .find_map(|h| Some((h, h.volumes.iter().find(|v| v.id == *id)?)));
    let Some((host, volume)) = place else {
        return Err(ApiError::new(
            ErrorReason::VolumeNotFound,
            format!(
                "cluster `{wanted}` has no volume `{id}`; `echelon volume list --cluster {wanted}` shows what there is"
            ),
        ));
    };
    Ok(Found {
        volume: view(facts, &cluster, &own, host, volume).await?,
        all: rows
            .iter()
            .flat_map(|h| &h.volumes)
            .map(|v| v.id.clone())
            .collect(),
    })
}

fn refuse_held(found: &VolumeView) -> Result<(), ApiError> {
    let Some(holder) = &found.holder else {
        return Ok(());
    };
    Err(ApiError::new(
        ErrorReason::VolumeHeld,
        format!(
            "volume `{}` is held by instance {} of group {} of job {}; stop the job or scale the instance away first; nothing was changed",
            found.volume.id, holder.number, holder.group, holder.job
        ),
    ))
}

/// Stores a wish; wishes about volumes that are gone are forgotten by the way.
async fn wish<F: Facts>(
    facts: &F,
    wanted: &str,
    found: &Found,
    wish: VolumeWish,
) -> Result<VolumeView, ApiError> {
    let id = &found.volume.volume.id;
    clusters::put(facts, wanted, |before, _| {
        let mut after = before.clone();
        // An instance has one volume: a newer wish takes the place of an older one.
        let replaced = |w: &VolumeWish| matches!(w, VolumeWish::Adopt(_)) && *w == wish;
        after.volumes.retain(|v, w| found.all.contains(v) && !replaced(w));
        after.volumes.insert(id.clone(), wish.clone());
        Ok(after)
    })
    .await?;
    Ok(VolumeView {
        wish: Some(wish),
        ..found.volume.clone()
    })
}

async fn view<F: Facts>(
    facts: &F,
    cluster: &Cluster,
    own: &ShardRow,
    host: &Host,
    volume: &HostVolume,
) -> Result<VolumeView, ApiError> {
    let wish = own
        .volumes
        .get(&volume.id)
        .or_else(|| cluster.volumes.get(&volume.id));
    Ok(VolumeView {
        holder: holder(facts, &cluster.id, own, &volume.id).await?,
        volume: volume.clone(),
        host: host.id.clone(),
        hostname: host.hostname.clone(),
        cluster: cluster.id.clone(),
        cluster_name: cluster.name.clone(),
        wish: wish.cloned(),
    })
}

/// The instance that counts on a volume: the one that adopted it, or the one for which it was made, as long as it is not over for
/// good and has no other.
async fn holder<F: Facts>(
    facts: &F,
    cluster: &ClusterId,
    own: &ShardRow,
    id: &VolumeId,
) -> Result<Option<InstanceId>, ApiError> {
    let adopted = match own.volumes.get(id) {
        Some(VolumeWish::Adopt(instance)) => Some(instance.clone()),
        Some(VolumeWish::Destroy) => return Ok(None),
        None => None,
    };
    for instance in adopted.into_iter().chain(id.maker()) {
        let Some(head) = ask::head(facts, instance.job).await? else {
            continue;
        };
        if head.void || head.goal.desired != Desired::Running {
            continue;
        }
        let spec = ask::spec(facts, head.job, head.spec_version).await?;
        let group = spec.as_ref().and_then(|s| s.group(&instance.group));
        if group.is_none_or(|g| instance.number.0 >= g.instances) {
            continue;
        }
        let record = record(facts, cluster, &instance).await?;
        if record.and_then(|r| r.volume).is_some_and(|v| v.id == *id) {
            return Ok(Some(instance));
        }
    }
    Ok(None)
}

async fn record<F: Facts>(
    facts: &F,
    cluster: &ClusterId,
    instance: &InstanceId,
) -> Result<Option<InstanceRecord>, ApiError> {
    let key = BlockKey::of(instance.job, &instance.group, instance.number);
    let query = Query::GroupBlocks {
        cluster: cluster.clone(),
        job: instance.job,
        group: instance.group.clone(),
        first: key.number,
        last: key.number,
    };
    match ask::read(facts, query, Consistency::Quorum, "the instance").await? {
        Answer::Blocks(blocks, _) => Ok(blocks
            .into_iter()
            .find_map(|mut b| b.instances.remove(&instance.number))),
        _ => Err(ask::broken_conflict("the instance")),
    }
}

async fn own<F: Facts>(facts: &F, cluster: &ClusterId) -> Result<ShardRow, ApiError> {
    let query = Query::Shard(cluster.clone());
    match ask::read(facts, query, Consistency::Quorum, "what the shard remembers").await? {
        Answer::Shard(row) => Ok(row),
        _ => Err(ask::broken_conflict("what the shard remembers")),
    }
}

#[cfg(test)]
#[path = "volumes_tests.rs"]
mod tests;
