//! Wishes about volumes in a cluster's row: they leave it when the cluster's shard has them in its own, and what finds no room is refused, since
//! storage takes rows of 64 KiB.

use crate::error::{ApiError, ErrorReason};
use echelon_core_model::store::ShardRow;
use echelon_core_model::volume::VolumeWish;
use echelon_core_model::{Timestamp, VolumeId};
use std::collections::BTreeMap;

/// Most bytes of all wishes of a cluster, about; hosts that are to be empty take as much again.
const MOST: usize = 24 * 1024;

/// Whether a shard has taken a wish in: from then on it is in its own row as long as it matters.
pub fn is_heard(own: &ShardRow, id: &VolumeId, wish: &VolumeWish) -> bool {
    match wish {
        VolumeWish::GiveUp { asked_at, .. } => {
            let heard = own.wishes_heard;
            heard > Timestamp::default() && *asked_at <= heard
        }
        VolumeWish::Adopt(_) | VolumeWish::Destroy => own.volumes.get(id) == Some(wish),
    }
}

/// Whether a wish is certain to be heard sooner or later: who does not say when he asked is left out.
pub fn waits(own: &ShardRow, id: &VolumeId, wish: &VolumeWish) -> bool {
    asked_at(wish).is_none_or(|at| at > Timestamp::default()) && !is_heard(own, id, wish)
}

/// Takes out what was heard, but for the latest of what was asked with a time, so that all that is asked from now on is later.
pub fn drop_heard(wishes: &mut BTreeMap<VolumeId, VolumeWish>, own: &ShardRow) {
    let latest = latest(wishes);
    let stays = |wish: &VolumeWish| asked_at(wish).is_some_and(|at| at == latest);
    wishes.retain(|id, wish| !is_heard(own, id, wish) || stays(wish));
}

/// The time that a new wish gets: now, but later than all that was asked before, whichever clock that went by.
pub fn next_moment(wishes: &BTreeMap<VolumeId, VolumeWish>, own: &ShardRow, now: Timestamp) -> Timestamp {
    let before = latest(wishes).max(own.wishes_heard);
    now.max(Timestamp(before.0.saturating_add(1)))
}

/// Refuses what makes the row of a cluster too large.
///
/// # Errors
/// `TooManyWishes`.
pub fn check_room(cluster: &str, wishes: &BTreeMap<VolumeId, VolumeWish>) -> Result<(), ApiError> {
    let size: usize = wishes.iter().map(|(id, wish)| wish.stored_size(id)).sum();
    if size <= MOST {
        return Ok(());
    }
    Err(ApiError::new(
        ErrorReason::TooManyWishes,
        format!(
            "{} wishes about volumes of cluster `{cluster}` wait for its shard, which are as many as may; nothing was changed: try again in a minute, and if that does not help see whether the shard is heard (`echelon cluster get {cluster}`)",
            wishes.len().saturating_sub(1)
        ),
    ))
}

fn latest(wishes: &BTreeMap<VolumeId, VolumeWish>) -> Timestamp {
    wishes.values().filter_map(asked_at).max().unwrap_or_default()
}

const fn asked_at(wish: &VolumeWish) -> Option<Timestamp> {
    match wish {
        VolumeWish::GiveUp { asked_at, .. } => Some(*asked_at),
        VolumeWish::Adopt(_) | VolumeWish::Destroy => None,
    }
}
