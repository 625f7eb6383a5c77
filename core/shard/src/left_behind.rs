//! Volumes that an instance has left for a later one: of a launch whose outcome was lost, which made a volume after all, or of a host that
//! was away for longer than `replace_after`. Its job's policy says what becomes of them when a host offers them; nobody else will ask.

use crate::Shard;
use crate::picture::At;
use echelon_core_model::volume::Reclaim;
use echelon_core_model::{TaskId, VolumeId};

impl Shard {
    /// A volume that its maker counts on, or did, is offered: nothing is in use of it.
    pub(crate) fn reclaim_left_behind(&mut self, at: At, id: &VolumeId) {
        let is_wished = self.own.volumes.contains_key(id) || self.own_unread.has_volume(id);
        if self.is_left_behind(at, id) && !is_wished {
            self.want_destroyed(id.clone(), at.0);
        }
    }

    /// Whether the instance that a volume was made for has made itself a later one, and its job says that volumes go. Who has adopted
    /// another's has left none behind: what he had is the operator's to destroy.
    fn is_left_behind(&self, at: At, id: &VolumeId) -> bool {
        let made = |id: &VolumeId| id.as_str().parse::<TaskId>().ok();
        let of_record = self.picture.record(at).and_then(|r| r.volume.as_ref());
        let (Some(present), Some(made)) = (of_record.and_then(|v| made(&v.id)), made(id)) else {
            return false;
        };
        let spec = self.picture.groups.get(&at.0).and_then(|g| g.group_spec());
        let goes = spec
            .and_then(|s| s.volume.as_ref())
            .is_some_and(|v| v.reclaim == Reclaim::Delete);
        goes && present.instance == made.instance && made < present
    }
}
