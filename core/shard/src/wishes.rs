//! What is wanted of volumes, one row each: taken in from operators, once each, bounded in size, and
//! forgotten when it is done. A wish that finds no room in the row is not lost: operators' are said again,
//! and instances that leave a volume behind come back when there is room.

use crate::Shard;
use crate::event::{Alarm, Effect};
use echelon_core_model::store::ShardKey;
use echelon_core_model::volume::VolumeWish;
use echelon_core_model::{InstanceId, Timestamp, VolumeId};
use std::collections::BTreeMap;

/// Most bytes of all wishes, about: a new leader reads all of them.
const MOST: usize = 128 * 1024;

impl Shard {
    /// Takes in what operators want of volumes. What contradicts how things are by now is left out: a volume that an instance holds
    /// is neither destroyed nor given to another.
    pub(crate) fn wish_volumes(&mut self, wishes: BTreeMap<VolumeId, VolumeWish>) {
        self.drop_baseless();
        self.hear_given_up(&wishes);
        for (id, wish) in wishes {
            if matches!(wish, VolumeWish::GiveUp { .. }) {
                continue;
            }
            let same = self.own.volumes.get(&id) == Some(&wish);
            if same || self.hosts.volume(&id).is_none() || self.is_held(&id) || self.is_to_be_destroyed(&id) {
                continue;
            }
            if !self.makes_room(&id, &wish) {
                continue;
            }
            if let VolumeWish::Adopt(instance) = &wish {
                // An instance has one volume: a newer wish takes the place of an older one.
                self.own
                    .volumes
                    .retain(|_, w| *w != VolumeWish::Adopt(instance.clone()));
                let number = self.picture.number_of(instance.job, &instance.group);
                let at = number.map(|number| (number, instance.number));
                self.picture.agenda.extend(at);
            }
            self.want_of_volume(id, wish);
        }
    }

    /// Volumes to give up, in the order in which that was asked. The same wishes are said again and again, by late messages of former resource
    /// managers, too: each is heard once, or it would hold again when its host is away the next time. Who does not say when he asked
    /// cannot be told from one who was heard, and is left out.
    fn hear_given_up(&mut self, wishes: &BTreeMap<VolumeId, VolumeWish>) {
        let heard = self.own.wishes_heard;
        let new = wishes.iter().filter_map(|(id, wish)| match wish {
            VolumeWish::GiveUp { instance, asked_at } if *asked_at > heard => Some((*asked_at, id, instance)),
            _ => None,
        });
        let mut new: Vec<(Timestamp, &VolumeId, &InstanceId)> = new.collect();
        new.sort();
        for (asked_at, id, instance) in new {
            let wish = VolumeWish::GiveUp {
                instance: instance.clone(),
                asked_at,
            };
            if !self.makes_room(id, &wish) {
                return;
            }
            self.own.wishes_heard = asked_at;
            self.write_own();
            self.give_up_volume(id, wish);
        }
    }

    /// Wishes of instances that are in the archive by now.
    fn drop_baseless(&mut self) {
        let picture = &self.picture;
        let is_gone = |i: &InstanceId| picture.number_of(i.job, &i.group).is_none();
        let wishes = self.own.volumes.iter();
        let baseless = wishes.filter(|(_, wish)| wish.given_up_by().is_some_and(is_gone));
        let baseless: Vec<VolumeId> = baseless.map(|(id, _)| id.clone()).collect();
        for id in baseless {
            self.drop_wish(&id);
        }
    }

    /// Has a volume destroyed that a group leaves behind. `false`: there is no room for that yet, and the group is looked at again.
    pub(crate) fn want_destroyed(&mut self, id: VolumeId, group: u32) -> bool {
        let has_room = self.makes_room(&id, &VolumeWish::Destroy);
        if has_room {
            self.want_of_volume(id, VolumeWish::Destroy);
        } else {
            self.crowded.insert(group);
        }
        has_room
    }

    pub(crate) fn want_of_volume(&mut self, id: VolumeId, wish: VolumeWish) {
        self.own_unread.settle(&ShardKey::Volume(id.clone()));
        self.own.volumes.insert(id, wish);
        self.write_own();
    }

    /// Nothing is wanted of a volume any more.
    pub(crate) fn drop_wish(&mut self, id: &VolumeId) {
        let unknown = self.own_unread.has_volume(id);
        self.own_unread.settle(&ShardKey::Volume(id.clone()));
        if self.own.volumes.remove(id).is_none() && !unknown {
            return;
        }
        self.write_own();
        if !self.crowded.is_empty() && self.size_of_wishes() < MOST / 2 {
            for group in std::mem::take(&mut self.crowded) {
                self.picture.look_at_all(group);
            }
        }
    }

    /// Whether the row takes a wish. Volumes that are to be destroyed on hosts that do not come back make room for it, those of the oldest jobs
    /// first: should such a host come back after all, they stay there, which is said.
    pub(crate) fn makes_room(&mut self, id: &VolumeId, wish: &VolumeWish) -> bool {
        let mut size = self.size_of_wishes().saturating_add(wish.stored_size(id));
        while size > MOST {
            let Some(away) = self.awaited_in_vain() else {
                return self.own.volumes.contains_key(id);
            };
            size = size.saturating_sub(VolumeWish::Destroy.stored_size(&away));
            self.own.volumes.remove(&away);
            self.write_own();
            self.out.push(Effect::Alarm(Alarm::VolumeLeft(away)));
        }
        true
    }

    fn size_of_wishes(&self) -> usize {
        self.own
            .volumes
            .iter()
            .map(|(id, wish)| wish.stored_size(id))
            .sum()
    }

    /// A volume that is to be destroyed on a host of which nothing is heard. Volumes are named after the jobs that they were made for, and these
    /// in order of time.
    fn awaited_in_vain(&self) -> Option<VolumeId> {
        let is_there = |id: &VolumeId| {
            let host = self.hosts.volume(id).and_then(|(host, _)| self.hosts.host(host));
            // What is not known may be there until all hosts were listed.
            host.map_or(!self.hosts.has_listed(), |host| host.reachable)
        };
        let mut wishes = self.own.volumes.iter();
        let found = wishes.find(|(id, wish)| **wish == VolumeWish::Destroy && !is_there(id));
        found.map(|(id, _)| id.clone())
    }
}
