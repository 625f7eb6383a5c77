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
use crate::wishes;
use echelon_core_model::cluster::{Cluster, Host};
use echelon_core_model::instance::{BlockKey, InstanceRecord};
use echelon_core_model::job::{Desired, Head};
use echelon_core_model::spec::JobSpec;
use echelon_core_model::store::{Answer, Consistency, Query, ShardRow};
use echelon_core_model::volume::{HostVolume, VolumeWish};
use echelon_core_model::{ClusterId, GroupName, HostId, InstanceId, InstanceNumber, JobId, VolumeId};
use std::collections::{BTreeMap, BTreeSet};

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
    pub holder: Option<Holder>,
    /// What is wanted of it.
    pub wish: Option<VolumeWish>,
    /// The cluster's shard has stored that wish.
    pub heard: bool,
}

/// Who holds a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The instance.
    pub instance: InstanceId,
    /// Its job's name.
    pub job_name: String,
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
    let mut reader = Reader::new(facts, cluster, own);
    let mut items = Vec::new();
    for host in &hosts.items {
        for volume in &host.host.volumes {
            items.push(reader.view(&host.host, volume).await?);
        }
    }
    Ok(Page {
        items,
        next: hosts.next,
        total: None,
        unread: Vec::new(),
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
    let head = lookup::settled(facts, &job).await?;
    let instance = InstanceId {
        job: head.job,
        group,
        number,
    };
    // Repeated after it was done.
    if found
        .volume
        .holder
        .as_ref()
        .is_some_and(|h| h.instance == instance)
    {
        return Ok(found.volume);
    }
    refuse_held(&found.volume)?;
    if found.volume.wish == Some(VolumeWish::Destroy) {
        return Err(ApiError::new(
            ErrorReason::VolumeDestroying,
            format!("volume `{id}` is to be destroyed; nothing was changed"),
        ));
    }
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
    let numbers = spec.as_ref().zip(of).map(|(s, g)| s.numbers(g));
    if numbers.is_none_or(|n| !n.contains(number)) || head.goal.desired != Desired::Running {
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
        volume: Reader::new(facts, cluster, own).view(host, volume).await?,
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
            "volume `{}` is held by instance {} of group {} of job `{}`; stop the job or scale the instance away first; nothing was changed",
            found.volume.id, holder.instance.number, holder.instance.group, holder.job_name
        ),
    ))
}

/// Stores a wish; those that the shard has heard, and those about volumes that are gone, are forgotten by the way.
async fn wish<F: Facts>(
    facts: &F,
    wanted: &str,
    found: &Found,
    wish: VolumeWish,
) -> Result<VolumeView, ApiError> {
    let id = &found.volume.volume.id;
    let own = own(facts, &found.volume.cluster).await?;
    clusters::put(facts, wanted, |before, _| {
        let mut after = before.clone();
        // An instance has one volume: a newer wish takes the place of an older one.
        let replaced = |w: &VolumeWish| matches!(w, VolumeWish::Adopt(_)) && *w == wish;
        let stays = |v: &VolumeId, w: &VolumeWish| {
            w.given_up_by().is_some() || (found.all.contains(v) && !replaced(w))
        };
        wishes::drop_heard(&mut after.volumes, &own);
        after.volumes.retain(|v, w| stays(v, w));
        after.volumes.insert(id.clone(), wish.clone());
        wishes::check_room(&before.name, &after.volumes)?;
        Ok(after)
    })
    .await?;
    let heard = found.volume.heard && found.volume.wish.as_ref() == Some(&wish);
    Ok(VolumeView {
        wish: Some(wish),
        heard,
        ..found.volume.clone()
    })
}

/// Reads whose volumes are, each job and each block of instances once.
struct Reader<'a, F> {
    facts: &'a F,
    cluster: Cluster,
    own: ShardRow,
    jobs: BTreeMap<JobId, Option<(Head, JobSpec)>>,
    blocks: BTreeMap<BlockKey, BTreeMap<InstanceNumber, InstanceRecord>>,
}

impl<'a, F: Facts> Reader<'a, F> {
    const fn new(facts: &'a F, cluster: Cluster, own: ShardRow) -> Self {
        Self {
            facts,
            cluster,
            own,
            jobs: BTreeMap::new(),
            blocks: BTreeMap::new(),
        }
    }

    async fn view(&mut self, host: &Host, volume: &HostVolume) -> Result<VolumeView, ApiError> {
        let stored = self.own.volumes.get(&volume.id).cloned();
        let told = self.cluster.volumes.get(&volume.id);
        // One that was heard is carried out, or void, unless the shard has it still.
        let told = told
            .filter(|w| w.given_up_by().is_none() || !wishes::is_heard(&self.own, &volume.id, w))
            .cloned();
        // Operators' newest word counts, but nothing brings back what is being destroyed.
        let wish = match &stored {
            Some(VolumeWish::Destroy) => stored.clone(),
            _ => told.or_else(|| stored.clone()),
        };
        Ok(VolumeView {
            holder: self.holder(&volume.id).await?,
            volume: volume.clone(),
            host: host.id.clone(),
            hostname: host.hostname.clone(),
            cluster: self.cluster.id.clone(),
            cluster_name: self.cluster.name.clone(),
            heard: wish.is_some() && wish == stored,
            wish,
        })
    }

    /// The instance that counts on a volume: the one that adopted it, or the one for which it was made, as long as it is not over for
    /// good and has no other.
    async fn holder(&mut self, id: &VolumeId) -> Result<Option<Holder>, ApiError> {
        let adopted = match self.own.volumes.get(id) {
            Some(VolumeWish::Adopt(instance) | VolumeWish::GiveUp { instance, .. }) => Some(instance.clone()),
            Some(VolumeWish::Destroy) => return Ok(None),
            None => None,
        };
        for instance in adopted.into_iter().chain(id.maker()) {
            let Some((head, spec)) = self.job(instance.job).await? else {
                continue;
            };
            let group = spec.group(&instance.group);
            let is_over = head.void || head.goal.desired != Desired::Running;
            if is_over || group.is_none_or(|g| !spec.numbers(g).contains(instance.number)) {
                continue;
            }
            let job_name = head.name.clone();
            let record = self.record(&instance).await?;
            if record
                .and_then(|r| r.volume.as_ref())
                .is_some_and(|v| v.id == *id)
            {
                return Ok(Some(Holder { instance, job_name }));
            }
        }
        Ok(None)
    }

    async fn job(&mut self, id: JobId) -> Result<Option<&(Head, JobSpec)>, ApiError> {
        if !self.jobs.contains_key(&id) {
            let head = ask::head(self.facts, id).await?;
            let found = match head {
                Some(head) => ask::spec(self.facts, id, head.spec_version)
                    .await?
                    .map(|spec| (head, spec)),
                None => None,
            };
            self.jobs.insert(id, found);
        }
        Ok(self.jobs.get(&id).and_then(Option::as_ref))
    }

    async fn record(&mut self, instance: &InstanceId) -> Result<Option<&InstanceRecord>, ApiError> {
        let key = BlockKey::of(instance.job, &instance.group, instance.number);
        if !self.blocks.contains_key(&key) {
            let query = Query::GroupBlocks {
                cluster: self.cluster.id.clone(),
                job: instance.job,
                group: instance.group.clone(),
                first: key.number,
                last: key.number,
            };
            let read = ask::read(self.facts, query, Consistency::Quorum, "the instances").await?;
            let Answer::Blocks(blocks, _) = read else {
                return Err(ask::broken_conflict("the instances"));
            };
            let instances = blocks.into_iter().flat_map(|b| b.instances).collect();
            self.blocks.insert(key.clone(), instances);
        }
        Ok(self.blocks.get(&key).and_then(|b| b.get(&instance.number)))
    }
}

/// What the cluster's shard remembers.
///
/// # Errors
/// Storage.
pub(crate) async fn own<F: Facts>(facts: &F, cluster: &ClusterId) -> Result<ShardRow, ApiError> {
    let query = Query::Shard(cluster.clone());
    match ask::read(facts, query, Consistency::Quorum, "what the shard remembers").await? {
        Answer::Shard(row) => Ok(row),
        _ => Err(ask::broken_conflict("what the shard remembers")),
    }
}

#[cfg(test)]
#[path = "volumes_tests.rs"]
mod tests;
