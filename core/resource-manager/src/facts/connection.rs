//! The connection state of each cluster: by its stream, by its heartbeat rows, or none.
//! Times are those of this leader's own clock. What counts is when this leader saw a change.
//! So another machine's clock cannot make a cluster silent,
//! and an observer that was away starts to wait again (law 6).

use crate::config::Config;
use crate::facts::cluster::ClusterView;
use echelon_core_model::cluster::{ClusterState, Contact, Heartbeat};
use echelon_core_model::{ClusterId, Timestamp};

/// The connection state of a cluster now.
#[must_use]
pub fn contact(cluster: &ClusterView, config: &Config, leading_since: Timestamp, now: Timestamp) -> Contact {
    let known = cluster
        .state
        .as_ref()
        .is_some_and(|s| s.contact != Contact::Joining);
    let ever = known || cluster.capacity.is_some();
    if !ever {
        return Contact::Joining;
    }
    let heard = cluster.heard_at.filter(|_| cluster.link.is_some());
    let fresh = heard.is_some_and(|at| now.since(at) < config.silent_after);
    if fresh {
        return Contact::Fresh;
    }
    // Law 6: what was seen before this leader led does not show how long the cluster was away.
    let last = cluster.heard_at.unwrap_or(leading_since).max(leading_since);
    let beating = cluster
        .heartbeat
        .as_ref()
        .is_some_and(|(beat, seen)| now.since(*seen) < config.unreachable_after && has_mesos(beat, config));
    if beating {
        return Contact::Silent;
    }
    if now.since(last) < config.unreachable_after {
        // Not long enough to decide: what was known of it before stays.
        let before = cluster.contact();
        return if before == Contact::Fresh {
            Contact::Silent
        } else {
            before
        };
    }
    Contact::Unreachable
}

/// Whether the shard that wrote a heartbeat had contact with Mesos not long before.
fn has_mesos(beat: &Heartbeat, config: &Config) -> bool {
    beat.mesos_contact
        .is_some_and(|at| beat.at.since(at) < config.unreachable_after)
}

/// The row to store, when it differs from the stored one.
/// Capacity is stored with it, for a leader without a report of the shard.
#[must_use]
pub fn changed_state(
    id: &ClusterId,
    cluster: &ClusterView,
    contact: Contact,
    now: Timestamp,
) -> Option<ClusterState> {
    let before = cluster.state.as_ref();
    let reported = cluster.capacity.as_ref();
    let next = ClusterState {
        cluster: id.clone(),
        contact,
        since: before.filter(|s| s.contact == contact).map_or(now, |s| s.since),
        capacity: reported
            .map(|c| c.total)
            .or(before.map(|s| s.capacity))
            .unwrap_or_default(),
        used: reported
            .map(|c| c.used)
            .or(before.map(|s| s.used))
            .unwrap_or_default(),
        hosts: reported
            .map(|c| c.hosts)
            .or(before.map(|s| s.hosts))
            .unwrap_or_default(),
        largest_host: reported
            .map(|c| c.largest_host)
            .or(before.map(|s| s.largest_host))
            .unwrap_or_default(),
    };
    (before != Some(&next)).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::LinkId;
    use echelon_core_model::Epoch;
    use echelon_core_model::directive::Capacity;

    fn beat(at: u64, mesos: u64) -> Heartbeat {
        Heartbeat {
            cluster: ClusterId::new("a"),
            epoch: Epoch(1),
            at: Timestamp(at),
            mesos_contact: Some(Timestamp(mesos)),
            address: String::new(),
            trouble: None,
            loss: None,
            no_manager_since: None,
        }
    }

    fn heard(at: Option<u64>, link: bool, beat: Option<(Heartbeat, u64)>) -> ClusterView {
        ClusterView {
            capacity: Some(Capacity::default()),
            heard_at: at.map(Timestamp),
            link: link.then_some(LinkId(1)),
            heartbeat: beat.map(|(b, seen)| (b, Timestamp(seen))),
            ..ClusterView::default()
        }
    }

    #[test]
    fn each_contact_has_its_evidence() {
        let config = Config::new("t", 1);
        let cases = [
            ("heard lately", heard(Some(95_000), true, None), Contact::Fresh),
            (
                "no stream, heartbeat",
                heard(Some(10_000), false, Some((beat(7, 7), 90_000))),
                Contact::Silent,
            ),
            (
                "quiet stream, heartbeat",
                heard(Some(10_000), true, Some((beat(7, 7), 90_000))),
                Contact::Silent,
            ),
            (
                "neither",
                heard(Some(10_000), true, Some((beat(7, 7), 20_000))),
                Contact::Unreachable,
            ),
            (
                "heartbeat without Mesos",
                heard(Some(10_000), false, Some((beat(99_000, 9_000), 99_000))),
                Contact::Unreachable,
            ),
            ("never reported", ClusterView::default(), Contact::Joining),
        ];
        for (name, view, expected) in cases {
            assert_eq!(
                contact(&view, &config, Timestamp(0), Timestamp(100_000)),
                expected,
                "{name}"
            );
        }
    }

    #[test]
    fn a_new_leader_waits_again_before_it_believes_in_silence() {
        let config = Config::new("t", 1);
        let mut view = heard(None, false, None);
        view.state = changed_state(&ClusterId::new("a"), &view, Contact::Fresh, Timestamp(5));
        let at = |now| contact(&view, &config, Timestamp(100_000), Timestamp(now));
        assert_eq!(at(110_000), Contact::Silent);
        assert_eq!(at(131_000), Contact::Unreachable);
    }

    #[test]
    fn since_is_kept_while_the_contact_stays() {
        let mut view = heard(Some(1), true, None);
        let id = ClusterId::new("a");
        view.state = changed_state(&id, &view, Contact::Fresh, Timestamp(5));
        assert_eq!(changed_state(&id, &view, Contact::Fresh, Timestamp(9)), None);
        let next = changed_state(&id, &view, Contact::Silent, Timestamp(9)).unwrap();
        assert_eq!(next.since, Timestamp(9));
    }
}
