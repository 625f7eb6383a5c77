//! Persistent volumes: which instance runs where its volume is, what is wanted of volumes that nobody holds, and how they are
//! destroyed. A volume goes only by a wish that is stored: an operator's, or its job's `reclaim: delete` when the instance is
//! stopped, deleted or scaled away. Everything else looks at what hosts offer, so that nothing has to be remembered of a try that failed.

use crate::Shard;
use crate::effects::Then;
use crate::event::Effect;
use crate::group::Group;
use crate::journal::Lane;
use crate::picture::{At, RunAt};
use echelon_core_hosts::{Call, OperationStatus, Reserved, TaskVolume};
use echelon_core_jobs::{News, Told, Whom};
use echelon_core_model::Releasing;
use echelon_core_model::instance::{InstanceRecord, Run};
use echelon_core_model::job::Desired;
use echelon_core_model::spec::GroupSpec;
use echelon_core_model::volume::{HeldVolume, HostVolume, Reclaim, VolumeWish};
use echelon_core_model::{
    Generation, GroupName, HostId, InstanceId, InstanceNumber, InstanceRange, JobId, RangeSet, Reason,
    ReasonCode, Resources, RunState, VolumeId,
};
use echelon_core_placement::{Bound, Wanted};
use std::collections::{BTreeMap, BTreeSet};

impl Group {
    /// Whether its instances have volumes.
    pub(crate) fn asks_for_volumes(&self) -> bool {
        self.group_spec().is_some_and(|g| g.volume.is_some())
    }

    /// Numbers of a range that hold a volume with something in it.
    pub(crate) fn with_volume(&self, range: InstanceRange) -> RangeSet {
        let used = |r: &InstanceRecord| r.volume.as_ref().is_some_and(|v| v.used);
        self.records_in(range)
            .filter(|(_, r)| used(r))
            .map(|(n, _)| n)
            .collect()
    }

    /// Whether an instance will never run here again: its job is to end, which is for good, or it is scaled away.
    pub(crate) fn is_over_for(&self, n: InstanceNumber) -> bool {
        let ends = self
            .wish
            .as_ref()
            .is_some_and(|w| w.goal.desired != Desired::Running);
        ends || self.mark_of(n).is_some_and(Releasing::ends_range)
    }
}

impl Shard {
    /// Where an instance can run only, since its volume is there. `None`: it has none, or one that nothing can be in and that no
    /// host offers.
    pub(crate) fn bound(&self, group: &Group, n: InstanceNumber) -> Option<Bound> {
        group.group_spec()?.volume.as_ref()?;
        let volume = group.record(n)?.volume.as_ref()?;
        if self.is_to_be_destroyed(&volume.id) || self.is_given_up(&volume.id) {
            return None;
        }
        let seen = self.hosts.volume(&volume.id).map(|(host, _)| host);
        let host = seen.unwrap_or(&volume.host);
        let offered = self.hosts.offered_volume(host, &volume.id);
        let offered = offered.is_some_and(|r| r.volume.is_some() || !volume.used);
        (volume.used || offered).then(|| Bound {
            number: n,
            host: host.clone(),
            hostname: volume.hostname.clone(),
            offered,
        })
    }

    /// Keeps the list of instances that are to run where their volumes are, and do not.
    pub(crate) fn note_bound(&mut self, at: At) {
        if self.is_bound(at) {
            self.bound.insert(at);
        } else {
            self.bound.remove(&at);
        }
    }

    /// Whether room is held for an instance where its volume is.
    pub(crate) fn is_bound(&self, at: At) -> bool {
        self.is_awaited(at) || self.is_thinned(at)
    }

    fn is_awaited(&self, at: At) -> bool {
        let Some(group) = self.picture.groups.get(&at.0) else {
            return false;
        };
        let wanted = group
            .wish
            .as_ref()
            .is_some_and(|w| w.goal.desired == Desired::Running);
        wanted
            && group.record(at.1).is_some_and(|r| {
                let idle = r.ended.is_none() && !r.may_have_task() && group.holds(at.1, r.generation);
                idle && r.volume.as_ref().is_some_and(|v| v.used)
            })
    }

    /// Whether an instance that can run nowhere else runs as a pod of which some members have ended: its next run needs their room.
    fn is_thinned(&self, at: At) -> bool {
        let record = self.picture.record(at);
        let live = record.filter(|r| r.volume.is_some()).and_then(|r| r.run.as_ref());
        live.is_some_and(|r| r.may_have_task() && r.members.iter().any(|m| m.state.is_ended()))
    }

    /// Whether a host has a volume of a group that is not served yet: what that needs there nobody can tell.
    fn may_be_awaited(&self, host: &HostId) -> bool {
        let unserved = |id: &VolumeId| {
            let is_served = |i: InstanceId| self.picture.group(i.job, &i.group).is_some_and(|g| g.served);
            id.maker().is_some_and(|i| !is_served(i))
        };
        self.hosts.volumes_on(host).any(unserved)
    }

    /// Takes the capacity of instances that can run nowhere else out of what others are given, except for those that
    /// are placed now. What waits to be granted keeps none: if it was preempted, the capacity is for others.
    pub(crate) fn set_aside(&self, aside: &mut BTreeMap<HostId, Resources>, groups: &[Wanted]) {
        if self.is_recovering() {
            let ids = self.snapshot.views().iter().map(|view| &view.id);
            let awaited = ids.filter(|id| self.may_be_awaited(id));
            aside.extend(awaited.map(|id| (id.clone(), Resources::MAX)));
        }
        if self.bound.is_empty() {
            return;
        }
        let placed: BTreeSet<(JobId, &GroupName, InstanceNumber)> = groups
            .iter()
            .flat_map(|g| g.bound.iter().map(move |b| (g.job, &g.group, b.number)))
            .collect();
        for (number, n) in &self.bound {
            let Some(group) = self.picture.groups.get(number) else {
                continue;
            };
            if group.spec.is_none() {
                // What it needs is not known yet: the whole host waits for it.
                let volume = group.record(*n).and_then(|r| r.volume.as_ref());
                let host = volume.map(|v| self.hosts.volume(&v.id).map_or(&v.host, |(host, _)| host));
                aside.extend(host.map(|host| (host.clone(), Resources::MAX)));
                continue;
            }
            if group.waits_for_grant(*n) {
                continue;
            }
            let Some(bound) = self
                .bound(group, *n)
                .filter(|_| !placed.contains(&(group.job(), group.name(), *n)))
            else {
                continue;
            };
            let run = group.record(*n).and_then(|r| r.run.as_ref());
            let live = run.filter(|r| r.may_have_task());
            let need = group.group_spec().map_or(Resources::ZERO, |g| {
                g.room()
                    .minus(live.map_or(g.volume_room(), |run| g.room_left(run)))
            });
            let sum = aside.entry(bound.host).or_default();
            *sum = sum.plus(need);
        }
    }

    /// The volume of a task that is to be launched.
    pub(crate) fn task_volume(&self, at: At, of: &GroupSpec) -> Option<TaskVolume> {
        let wanted = of.volume.as_ref()?;
        let held = self.picture.record(at)?.volume.as_ref()?;
        Some(TaskVolume {
            id: held.id.clone(),
            path: wanted.path.clone(),
            size: held.size,
            used: held.used,
            offered: None,
        })
    }

    /// A run that has reached its host has its volume in use there, where no offer shows it.
    pub(crate) fn note_volume_in_use(&mut self, run: RunAt) {
        let live = |r: &Run| {
            matches!(
                r.state,
                RunState::Starting | RunState::Running | RunState::Stopping
            )
        };
        let Some(found) = self.picture.run(run).filter(|r| live(r)) else {
            return;
        };
        let Some(held) = self
            .picture
            .record(run.0)
            .and_then(|r| r.volume.clone())
            .filter(|v| v.used)
        else {
            return;
        };
        let host = found.host.clone();
        let group = self.picture.groups.get(&run.0.0);
        let path = group.and_then(|g| Some(g.group_spec()?.volume.as_ref()?.path.clone()));
        if let Some(path) = path {
            let volume = HostVolume {
                id: held.id,
                size: held.size,
                path,
                seen_at: self.now,
            };
            self.hosts.volume_in_use(&host, volume);
        }
    }

    pub(crate) fn is_to_be_destroyed(&self, id: &VolumeId) -> bool {
        self.own.volumes.get(id) == Some(&VolumeWish::Destroy)
    }

    /// Whether offers are wanted for that alone.
    pub(crate) fn has_volumes_to_destroy(&self) -> bool {
        let is_there = |(id, wish): (&VolumeId, &VolumeWish)| {
            *wish == VolumeWish::Destroy && self.hosts.volume(id).is_some()
        };
        self.own.volumes.iter().any(is_there)
    }

    /// An instance that is over for good, and whose job says so, leaves no volume behind.
    pub(crate) fn reclaim_volume(&mut self, at: At) {
        if let Some(id) = self.volume_to_reclaim(at) {
            self.want_destroyed(id, at.0);
        }
    }

    fn volume_to_reclaim(&self, at: At) -> Option<VolumeId> {
        let volume = self.reclaimable(at)?;
        self.hosts.volume(&volume.id).is_some().then(|| volume.id.clone())
    }

    /// The volume of an instance that is over for good, if its job says that it goes and nobody has wished for that.
    fn reclaimable(&self, at: At) -> Option<&HeldVolume> {
        let group = self.picture.groups.get(&at.0)?;
        let record = group.record(at.1)?;
        let volume = record
            .volume
            .as_ref()
            .filter(|v| !self.is_to_be_destroyed(&v.id) && !self.own_unread.has_volume(&v.id))?;
        let delete = group.group_spec()?.volume.as_ref()?.reclaim == Reclaim::Delete;
        let over = record.ended.is_some() && !record.may_have_task() && group.is_over_for(at.1);
        (delete && over).then_some(volume)
    }

    /// A group goes to the archive: what its hosts have not offered since they came back, or since a launch whose outcome was lost, may
    /// be there all the same, and nobody will be asked about it later. `false`: not all of that could be noted yet.
    pub(crate) fn reclaim_unseen(&mut self, number: u32) -> bool {
        let Some(group) = self.picture.groups.get(&number) else {
            return true;
        };
        // Without its spec it is not known whether they go.
        let has_volumes = group.records().any(|(_, record)| record.volume.is_some());
        if has_volumes && group.spec.is_none() {
            return false;
        }
        let volumes = group.records().filter_map(|(n, _)| self.reclaimable((number, n)));
        let unseen = volumes.filter(|v| self.hosts.host(&v.host).is_some());
        let unseen: Vec<VolumeId> = unseen.map(|v| v.id.clone()).collect();
        unseen.into_iter().all(|id| self.want_destroyed(id, number))
    }

    /// A volume is gone: its instance has it no more. Of a group that is not served yet nothing may change.
    fn forget_volume(&mut self, id: &VolumeId) {
        for at in self.counting_on(id) {
            if self.picture.groups.get(&at.0).is_none_or(|g| !g.served) {
                continue;
            }
            let record = self.picture.record(at);
            let has = record
                .and_then(|r| r.volume.as_ref())
                .is_some_and(|v| v.id == *id);
            if has {
                self.edit(at, |r| r.volume = None);
            }
        }
    }

    /// A host offers volumes: whoever they were made for may have them reclaimed. One that is offered by another agent than that of
    /// its run proves that the run is over: the agent came back under a new id, and of a volume in use there is no offer. Of a group
    /// that is not served yet nothing may change; the volume is offered again.
    pub(crate) fn note_volumes_seen(&mut self, host: &HostId, reserved: &[Reserved]) {
        for id in reserved.iter().filter_map(|r| Some(&r.volume.as_ref()?.id)) {
            for at in self.counting_on(id) {
                if self.picture.groups.get(&at.0).is_none_or(|g| !g.served) {
                    continue;
                }
                self.picture.agenda.insert(at);
                self.reclaim_left_behind(at, id);
                for run in self.runs_elsewhere(at, id, host) {
                    let news = News {
                        of: Whom::All,
                        told: Told::Gone,
                        reason: Reason::new(ReasonCode::HostGone)
                            .at("it came back as another agent, which offers the volume"),
                        exit_code: None,
                        healthy: None,
                        ready: None,
                        fault: None,
                        at: None,
                    };
                    self.take_in_news(run, &news);
                }
            }
        }
    }

    /// The instances that may count on a volume: the one it was made for, and the one that adopted it, also while that is to give it up.
    fn counting_on(&self, id: &VolumeId) -> Vec<At> {
        let adopter = match self.own.volumes.get(id) {
            Some(VolumeWish::Adopt(instance) | VolumeWish::GiveUp { instance, .. }) => Some(instance.clone()),
            _ => None,
        };
        let at = |i: InstanceId| Some((self.picture.number_of(i.job, &i.group)?, i.number));
        let named = adopter.into_iter().chain(id.maker()).filter_map(at);
        named.chain(self.recorded_holders(id)).collect()
    }

    /// Runs of an instance that had this volume on another agent, and may live for all we know.
    fn runs_elsewhere(&self, at: At, id: &VolumeId, host: &HostId) -> Vec<RunAt> {
        let record = self.picture.record(at);
        let record = record.filter(|r| r.volume.as_ref().is_some_and(|v| v.id == *id));
        let live = record.into_iter().flat_map(InstanceRecord::live_runs);
        live.filter(|run| run.host != *host)
            .map(|run| (at, run.generation, run.number))
            .collect()
    }

    /// Whether an instance that is not over counts on this volume.
    pub(crate) fn is_held(&self, id: &VolumeId) -> bool {
        if self.may_be_held_unseen(id) {
            return true;
        }
        self.counting_on(id).into_iter().any(|(number, n)| {
            self.picture.groups.get(&number).is_some_and(|g| {
                g.record(n).is_some_and(|r| {
                    let it = r.volume.as_ref().is_some_and(|v| v.id == *id);
                    it && (r.may_have_task() || !g.is_over_for(n))
                })
            })
        })
    }

    /// Points an instance that does not run to the volume that it is to adopt.
    pub(crate) fn adopt_volume(&mut self, at: At) {
        let Some((id, generation)) = self.volume_to_adopt(at) else {
            return;
        };
        let Some((host, size)) = self.hosts.volume(&id).map(|(h, v)| (h.clone(), v.size)) else {
            return;
        };
        let hostname = self.hosts.host(&host).map_or_else(String::new, |h| h.hostname);
        let taken = HeldVolume {
            id,
            host,
            hostname: hostname.into(),
            size,
            used: true,
        };
        self.edit(at, |r| {
            r.generation = r.generation.max(generation);
            r.volume = Some(Box::new(taken));
        });
    }

    fn volume_to_adopt(&self, at: At) -> Option<(VolumeId, Generation)> {
        if self.own.volumes.is_empty() {
            return None;
        }
        let group = self.picture.groups.get(&at.0).filter(|g| g.served)?;
        let wanted = group.group_spec()?.volume.as_ref()?;
        let wish = VolumeWish::Adopt(group.instance(at.1));
        let id = self.own.volumes.iter().find(|(_, w)| **w == wish)?.0;
        let (_, volume) = self.hosts.volume(id)?;
        let range = group.range_of(at.1)?;
        let record = group.record(at.1);
        let has = record
            .and_then(|r| r.volume.as_ref())
            .is_some_and(|v| v.id == *id);
        let idle = !record.is_some_and(InstanceRecord::may_have_task);
        let fits = wanted.size <= volume.size && group.holds(at.1, range.generation);
        (!has && idle && fits && !group.is_over_for(at.1)).then(|| (id.clone(), range.generation))
    }

    /// Has what may go discarded where it is offered: volumes that are to be destroyed once that is stored, and disk that was
    /// reserved for a volume that its instance does not count on.
    pub(crate) fn discard_volumes(&mut self) {
        let stored = self.journal.is_durable(self.journal.point(Lane::OWN));
        if !self.may_act() || self.is_recovering() || !stored {
            return;
        }
        let (own, picture) = (&self.own, &self.picture);
        let may_go = |r: &Reserved| {
            let Some(id) = r.volume_id() else { return false };
            let destroy = own.volumes.get(&id) == Some(&VolumeWish::Destroy);
            destroy || (r.volume.is_none() && picture.counts_on(&id) == Some(false))
        };
        let calls = self.hosts.discard(may_go, self.now);
        self.out.extend(calls.into_iter().map(Effect::Cluster));
    }

    /// Takes in what became of an operation. That a volume is destroyed is stored before it is acknowledged; all else shows in
    /// offers and tasks.
    pub(crate) fn on_operation(&mut self, status: &OperationStatus) {
        let destroyed = status
            .id
            .rsplit_once(".destroy.")
            .map(|(id, _)| VolumeId::new(id));
        if let Some(id) = destroyed.filter(|_| status.done) {
            self.hosts.volume_gone(&id);
            self.forget_volume(&id);
            self.drop_wish(&id);
        }
        let (Some(uuid), Some(host)) = (status.uuid, status.host.clone()) else {
            return;
        };
        let call = Call::AcknowledgeOperation {
            id: status.id.clone(),
            host,
            uuid,
        };
        let point = self.journal.point(Lane::OWN);
        self.journal.when_durable([point], Then::Call(call));
    }
}

impl crate::picture::Picture {
    /// Whether the instance for which a volume is to be made counts on it; `None` when the instance is not known here.
    fn counts_on(&self, id: &VolumeId) -> Option<bool> {
        let maker = id.maker()?;
        let group = self
            .groups
            .get(&self.number_of(maker.job, &maker.group)?)
            .filter(|g| g.served)?;
        let record = group.record(maker.number)?;
        let it = record.volume.as_ref().is_some_and(|v| v.id == *id);
        Some(it && record.ended.is_none())
    }
}
