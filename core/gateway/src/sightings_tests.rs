use super::*;
use crate::view::{ClusterMoments, Federation};
use echelon_core_model::health::{ClusterHealth, Health, ShardSigns};
use echelon_core_model::{Epoch, Span};

/// This gateway's own time when a test begins.
const START: u64 = 1_000_000_000;
/// Clocks of two machines that are an hour apart.
const APART: i64 = 3_600_000;

fn cluster() -> ClusterId {
    ClusterId::new("west")
}

/// A gateway that reads the rows of one cluster, whose writers' clocks are ahead of its own by so much, in
/// ms.
struct Watch {
    seen: Sightings,
    ahead: i64,
}

impl Watch {
    fn new(ahead: i64) -> Self {
        Self {
            seen: Sightings::default(),
            ahead,
        }
    }

    fn writer(&self, second: u64) -> Timestamp {
        Timestamp((START + second * 1000).saturating_add_signed(self.ahead))
    }

    /// A read at a second of rows that were written at others, seconds of one true time.
    fn read(&mut self, second: u64, judged: u64, beat: u64) -> ClusterMoments {
        let state = ClusterState {
            cluster: cluster(),
            health: ClusterHealth {
                health: Health::Healthy,
                as_of: self.writer(judged),
                ..ClusterHealth::default()
            },
            reported: None,
        };
        let heartbeat = Heartbeat {
            cluster: cluster(),
            epoch: Epoch(1),
            at: self.writer(beat),
            signs: ShardSigns {
                subscribed: true,
                event_age: Some(Span::seconds(2)),
                ..ShardSigns::default()
            },
            address: String::new(),
            trouble: None,
            loss: None,
            no_manager_since: None,
        };
        self.seen.note(
            std::slice::from_ref(&state),
            std::slice::from_ref(&heartbeat),
            own(second),
        );
        Federation {
            states: [(cluster(), state)].into(),
            heartbeats: [(cluster(), heartbeat)].into(),
            sightings: self.seen.clone(),
            ..Federation::default()
        }
        .moments(&cluster())
    }

    /// For how many seconds the health is unconfirmed, and how old what the shard shows is.
    fn shown(&mut self, second: u64, judged: u64, beat: u64) -> (Option<u64>, Option<u64>) {
        let moments = self.read(second, judged, beat);
        let now = own(second);
        let unconfirmed = moments.unconfirmed_since(now).map(|at| now.since(at).0 / 1000);
        (unconfirmed, moments.age(now).map(|age| age.0 / 1000))
    }
}

fn own(second: u64) -> Timestamp {
    Timestamp(START + second * 1000)
}

#[test]
fn clocks_that_are_apart_show_no_health_as_unconfirmed_and_hide_none() {
    for ahead in [0, APART, -APART, 20_000, -20_000] {
        let mut watch = Watch::new(ahead);
        watch.read(0, 0, 0);
        for second in (5..60).step_by(5) {
            let shown = watch.shown(second, second, second);
            assert_eq!(shown, (None, Some(2)), "{ahead} ms, after {second} s");
        }
        assert_eq!(watch.shown(70, 55, 55), (None, Some(17)), "{ahead}");
        assert_eq!(watch.shown(71, 55, 55), (Some(16), Some(18)), "{ahead}");
        assert_eq!(
            watch.shown(130, 55, 130).0,
            Some(75),
            "the shard's heartbeat confirms no health"
        );
        assert_eq!(watch.shown(131, 131, 130), (None, Some(3)), "{ahead}");
    }
}

#[test]
fn a_gateway_that_has_just_started_knows_no_more_than_the_row_says_until_that_changes() {
    let first = |ahead: i64, judged: u64| Watch::new(ahead).shown(600, judged, judged).0;
    assert_eq!(first(0, 597), None, "as the clocks say, it is fresh");
    assert_eq!(
        first(0, 300),
        Some(300),
        "a health that nothing confirms is not hidden"
    );
    assert_eq!(first(APART, 599), None);
    assert_eq!(first(-APART, 599), Some(3601), "that is doubted until it changes");
    let mut watch = Watch::new(-APART);
    watch.read(600, 599, 599);
    assert_eq!(watch.shown(604, 604, 604).0, None, "one change is enough");
}

#[test]
fn a_row_from_the_future_is_unconfirmed_once_it_was_watched_for_long_enough() {
    let mut watch = Watch::new(APART);
    watch.read(0, 0, 0);
    assert_eq!(watch.shown(15, 0, 0).0, None);
    assert_eq!(watch.shown(16, 0, 0).0, Some(16));
}

#[test]
fn a_new_leader_whose_clock_is_behind_confirms_all_the_same() {
    let mut watch = Watch::new(0);
    watch.read(0, 0, 0);
    watch.read(5, 5, 5);
    watch.ahead = -APART;
    assert_eq!(watch.shown(40, 38, 38), (None, Some(2)));
    assert_eq!(watch.shown(56, 38, 38).0, Some(16));
}

#[test]
fn a_read_that_was_overtaken_confirms_nothing() {
    let mut watch = Watch::new(0);
    watch.read(0, 0, 0);
    watch.read(5, 5, 5);
    // It was sent before the one at 5 s and answered long after it.
    watch.read(18, 0, 0);
    assert_eq!(watch.shown(21, 5, 5).0, Some(16));
}

#[test]
fn a_cluster_that_went_is_forgotten() {
    let mut watch = Watch::new(0);
    watch.read(0, 0, 0);
    watch.read(5, 5, 5);
    watch.seen.note(&[], &[], own(6));
    assert_eq!(watch.seen, Sightings::default());
}
