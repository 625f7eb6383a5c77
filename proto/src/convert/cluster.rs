//! Clusters between the public wire and the model.

use super::instance::contact;
use super::quantity::{resources, timestamp};
use crate::echelon::v1;
use echelon_core_model::cluster::{Cluster, ClusterState, Contact, Heartbeat, MassLoss, Wish};

/// To the wire.
#[must_use]
pub const fn wish(wish: Wish) -> v1::ClusterWish {
    match wish {
        Wish::Active => v1::ClusterWish::Active,
        Wish::Cordoned => v1::ClusterWish::Cordoned,
        Wish::Draining => v1::ClusterWish::Draining,
        Wish::Left => v1::ClusterWish::Left,
    }
}

/// From the wire, `None` when it names no wish.
#[must_use]
pub fn read_wish(number: i32) -> Option<Wish> {
    [Wish::Active, Wish::Cordoned, Wish::Draining, Wish::Left]
        .into_iter()
        .find(|w| i32::from(wish(*w)) == number)
}

/// To the wire: the wish, what the resource manager says, and what the shard says.
#[must_use]
pub fn cluster(c: &Cluster, state: Option<&ClusterState>, heartbeat: Option<&Heartbeat>) -> v1::Cluster {
    v1::Cluster {
        name: format!("clusters/{}", c.id),
        cluster_id: c.id.to_string(),
        display_name: c.name.clone(),
        etag: c.version.to_string(),
        wish: wish(c.wish).into(),
        mesos_address: c.mesos.clone(),
        labels: c.labels.clone(),
        contact: contact(state.map_or(Contact::Joining, |s| s.contact)).into(),
        contact_since: state.map(|s| timestamp(s.since)),
        capacity: state.map(|s| resources(&s.capacity)),
        used: state.map(|s| resources(&s.used)),
        hosts: state.map_or(0, |s| s.hosts),
        heartbeat_time: heartbeat.map(|h| timestamp(h.at)),
        mesos_contact_time: heartbeat.and_then(|h| h.mesos_contact).map(timestamp),
        shard_address: heartbeat.map(|h| h.address.clone()).unwrap_or_default(),
        shard_epoch: heartbeat.map_or(0, |h| h.epoch.0),
        trouble: heartbeat.and_then(|h| h.trouble.clone()).unwrap_or_default(),
        loss: heartbeat.and_then(|h| h.loss).map(|l| loss(&l, c.accepted_loss)),
    }
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
        for w in [Wish::Active, Wish::Cordoned, Wish::Draining, Wish::Left] {
            assert_eq!(read_wish(wish(w).into()), Some(w));
        }
        assert_eq!((read_wish(0), read_wish(99)), (None, None));
    }
}
