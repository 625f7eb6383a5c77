//! Volumes that are given up, since their host is gone for good: by an operator's word (`echelon job replace`), or by the job's own policy.
//! Their instance begins anew with an empty one. That an instance holds another volume now is one write with the intent of the run that
//! makes it: until then a host that comes back has its run and its volume back, and afterwards its run is stopped. The volume itself
//! is never given to the instance again; it goes as the job's `reclaim` says, or stays for `echelon volume`.

use crate::Shard;
use crate::group::Group;
use crate::picture::At;
use echelon_core_model::instance::InstanceRecord;
use echelon_core_model::volume::{HeldVolume, Reclaim, VolumeWish};
use echelon_core_model::{InstanceNumber, Timestamp, VolumeId};

impl Shard {
    /// Whether a volume was given up, and its instance has no other yet.
    pub(crate) fn is_given_up(&self, id: &VolumeId) -> bool {
        self.own
            .volumes
            .get(id)
            .is_some_and(|w| w.given_up_by().is_some())
    }

    /// Whether the volume that an instance holds was given up.
    pub(crate) fn has_given_up(&self, group: &Group, n: InstanceNumber) -> bool {
        let held = group.record(n).and_then(|r| r.volume.as_ref());
        held.is_some_and(|v| self.is_given_up(&v.id))
    }

    /// Takes in that an instance is to have another volume in place of this one. While its host is heard that is left out: nothing has to
    /// be given up. Where it has another one already, what becomes of this one is left to say; of a group that is not served yet nothing
    /// can be said.
    pub(crate) fn give_up_volume(&mut self, id: &VolumeId, wish: VolumeWish) {
        let Some(instance) = wish.given_up_by() else {
            return;
        };
        let number = self.picture.number_of(instance.job, &instance.group);
        let Some(at) = number.map(|number| (number, instance.number)) else {
            return;
        };
        let group = self.picture.groups.get(&at.0).filter(|g| g.served);
        let held = group.and_then(|g| g.record(at.1)?.volume.as_ref());
        let is_heard = held.is_some_and(|held| held.id == *id && !self.may_be_gone(at, held));
        let stands = match self.own.volumes.get(id) {
            Some(VolumeWish::Adopt(adopter)) => adopter != instance,
            Some(VolumeWish::Destroy | VolumeWish::GiveUp { .. }) => true,
            None => false,
        };
        if !is_heard && !stands {
            self.want_of_volume(id.clone(), wish);
            self.picture.agenda.insert(at);
        }
    }

    /// Whether the host of an instance's volume may be gone: nothing of the instance is heard there, and the volume is not offered.
    fn may_be_gone(&self, at: At, held: &HeldVolume) -> bool {
        let record = self.picture.record(at);
        let heard = |r: &InstanceRecord| r.live_runs().any(|run| !run.is_silent());
        let host = self.hosts.volume(&held.id).map_or(&held.host, |(host, _)| host);
        let offered = self.hosts.offered_volume(host, &held.id);
        record.is_some_and(|r| !heard(r)) && offered.is_none_or(|r| r.volume.is_none())
    }

    /// Carries a volume that was given up to its end: void when its host is back in time, settled when its instance has another one. Gives
    /// one up where the job's policy says so.
    pub(crate) fn tend_given_up(&mut self, at: At) {
        if let Some(due) = self.gives_up_at(at) {
            let group = self.picture.groups.get(&at.0);
            let held = group.and_then(|g| Some((g.instance(at.1), g.record(at.1)?.volume.clone()?)));
            match held {
                Some((instance, held)) if due <= self.now && !self.withholds() => {
                    let wish = VolumeWish::GiveUp {
                        instance,
                        asked_at: self.now,
                    };
                    let gone = !self.is_given_up(&held.id) && self.may_be_gone(at, &held);
                    if gone && self.makes_room(&held.id, &wish) {
                        self.want_of_volume(held.id, wish);
                    } else if gone {
                        self.crowded.insert(at.0);
                    }
                }
                _ => {
                    self.picture
                        .timers
                        .insert((due.max(self.now.plus(self.config.timing.lease)), at));
                }
            }
        }
        for (id, held) in self.given_up_by(at) {
            match held {
                Some(held) if self.may_be_gone(at, &held) => {}
                // Its host is back before it had another one.
                Some(_) => self.leave_with(id, at),
                None => self.settle_given_up(id, at),
            }
        }
    }

    /// The volumes that an instance has given up, with what it holds of them still.
    fn given_up_by(&self, at: At) -> Vec<(VolumeId, Option<HeldVolume>)> {
        let wishes = || self.own.volumes.iter();
        let any = wishes().any(|(_, wish)| wish.given_up_by().is_some());
        let Some(group) = self.picture.groups.get(&at.0).filter(|g| any && g.served) else {
            return Vec::new();
        };
        let instance = group.instance(at.1);
        let held = group.record(at.1).and_then(|r| r.volume.as_ref());
        wishes()
            .filter(|(_, wish)| wish.given_up_by() == Some(&instance))
            .map(|(id, _)| (id.clone(), held.filter(|v| v.id == *id).map(|v| (**v).clone())))
            .collect()
    }

    /// Its instance has another volume: it goes as the job says.
    fn settle_given_up(&mut self, id: VolumeId, at: At) {
        let group = self.picture.groups.get(&at.0).and_then(|g| g.group_spec());
        let Some(reclaim) = group.and_then(|g| Some(g.volume.as_ref()?.reclaim)) else {
            return;
        };
        // Another instance may have adopted it meanwhile.
        if reclaim == Reclaim::Delete && !self.is_held(&id) {
            self.want_of_volume(id, VolumeWish::Destroy);
        } else {
            self.drop_wish(&id);
        }
    }

    /// A volume is not given up after all; that its instance has adopted it is to be remembered.
    fn leave_with(&mut self, id: VolumeId, at: At) {
        let instance = self.picture.groups.get(&at.0).map(|g| g.instance(at.1));
        match instance.filter(|i| id.maker().as_ref() != Some(i)) {
            Some(adopter) => self.want_of_volume(id, VolumeWish::Adopt(adopter)),
            None => self.drop_wish(&id),
        }
    }

    /// When the job's policy gives up what an instance holds, if nothing is heard of its host until then.
    /// Observed time counts.
    fn gives_up_at(&self, at: At) -> Option<Timestamp> {
        let group = self.picture.groups.get(&at.0).filter(|g| g.served)?;
        let after = group.group_spec()?.volume.as_ref()?.replace_after?;
        let record = group.record(at.1).filter(|r| r.ended.is_none())?;
        let held = record
            .volume
            .as_ref()
            .filter(|v| v.used && !self.is_given_up(&v.id))?;
        let run = record.run.as_ref()?;
        let gone = run.state.is_ended() && self.is_gone(held);
        let wanted = !group.is_over_for(at.1) && group.holds(at.1, record.generation);
        let counts = wanted && (run.is_silent() || gone);
        // While the cluster is not heard nothing is counted; it is looked at again.
        let left = self
            .observed()
            .map_or(after, |observed| run.left_of(after, observed));
        counts.then(|| self.now.plus(left))
    }

    /// Whether the host of a volume cannot be reached. One that is not known may be there until all hosts were listed.
    fn is_gone(&self, held: &HeldVolume) -> bool {
        let host = self.hosts.volume(&held.id).map_or(&held.host, |(host, _)| host);
        match self.hosts.host(host) {
            Some(host) => !host.reachable,
            None => self.hosts.has_listed(),
        }
    }
}
