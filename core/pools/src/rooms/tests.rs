use super::*;
use crate::hold::Hold;
use crate::queue::Turn;
use echelon_core_model::{GroupName, Timestamp};
use echelon_core_testkit::build::shape;
use std::cmp::Reverse;

const DEFAULT: Option<HostPoolIdx> = Some(0);
const GPU: Option<HostPoolIdx> = Some(1);
const NONE: Option<HostPoolIdx> = Some(9);

fn one(on: Option<HostPoolIdx>) -> Unit {
    Unit::one(shape(1, 0)).on(on)
}

/// A cluster of ten cores: seven on hosts of the first host pool, three on those of the second.
fn rooms() -> (Rooms, ClusterId) {
    let room = ClusterRoom {
        all: shape(10, 0),
        without_gpus: shape(10, 0),
        host_pools: [(0, shape(7, 0)), (1, shape(3, 0))].into(),
        ..ClusterRoom::default()
    };
    let id = ClusterId::new("c");
    let clusters = vec![(id.clone(), Some(room))];
    let hierarchy = Arc::new(Hierarchy::default());
    (Rooms::new(hierarchy, Resources::ZERO, clusters), id)
}

fn cores(rooms: &Rooms, id: &ClusterId) -> [u64; 4] {
    let of = |on| rooms.cluster(id, Side::Ordinary, one(on)).cpus / 1000;
    [of(None), of(DEFAULT), of(GPU), of(NONE)]
}

#[test]
fn who_needs_hosts_of_a_host_pool_finds_what_these_have_and_all_hosts_leave() {
    let (mut rooms, id) = rooms();
    assert_eq!(cores(&rooms, &id), [10, 7, 3, 0]);
    rooms.take_cluster(&id, Side::Ordinary, one(DEFAULT), 7);
    assert_eq!(cores(&rooms, &id), [3, 0, 3, 0]);
    // Where they are nobody knows yet.
    rooms.take_cluster(&id, Side::Ordinary, one(None), 2);
    assert_eq!(cores(&rooms, &id), [1, 0, 1, 0]);
    rooms.take_cluster(&id, Side::Ordinary, one(GPU), 1);
    assert_eq!(cores(&rooms, &id), [0, 0, 0, 0]);
}

#[test]
fn what_is_kept_for_a_gang_is_kept_on_hosts_of_its_host_pool_and_given_back_there() {
    let (mut rooms, id) = rooms();
    let hold = Hold {
        turn: Turn {
            priority: Reverse(0),
            job: JobId(1),
            group: GroupName::new("main"),
        },
        pool: 1,
        cluster: id.clone(),
        in_cluster: shape(5, 0),
        host_pool: GPU,
        in_pools: Vec::new(),
        until: Some(Timestamp(0)),
    };
    let kept = rooms.keep(&hold);
    assert_eq!(cores(&rooms, &id), [5, 5, 0, 0]);
    rooms.give_back(kept);
    assert_eq!(cores(&rooms, &id), [10, 7, 3, 0]);
    let elsewhere = Hold {
        host_pool: NONE,
        ..hold
    };
    let kept = rooms.keep(&elsewhere);
    rooms.give_back(kept);
    assert_eq!(cores(&rooms, &id), [10, 7, 3, 0]);
}

#[test]
fn work_without_gpus_takes_from_what_hosts_without_gpus_have() {
    let id = ClusterId::new("c");
    let room = ClusterRoom {
        all: shape(10, 0),
        without_gpus: shape(4, 0),
        ..ClusterRoom::default()
    };
    let clusters = vec![(id.clone(), Some(room))];
    let mut rooms = Rooms::new(Arc::new(Hierarchy::default()), Resources::ZERO, clusters);
    let unit = one(None);
    assert_eq!(rooms.cluster(&id, Side::Ordinary, unit).cpus, 4_000);
    rooms.take_cluster(&id, Side::Ordinary, unit, 3);
    assert_eq!(rooms.cluster(&id, Side::Ordinary, unit).cpus, 1_000);
    let with_gpus = Unit::one(Resources {
        gpus: 1,
        ..shape(1, 0)
    });
    assert_eq!(rooms.cluster(&id, Side::Ordinary, with_gpus).cpus, 7_000);
}

#[test]
fn what_was_taken_between_two_states_is_taken_with_its_users_and_jobs() {
    let (before, _) = rooms();
    let (mut after, mut here) = (before.clone(), before.clone());
    let user: Arc<str> = Arc::from("ada");
    after.user_takes(1, &user, shape(2, 0));
    let first = Terms {
        counted: false,
        ..Terms::of(Side::Ordinary)
    };
    after.begin(1, JobId(7), first);
    here.take_between(&before, after);
    assert_eq!(here.user_has(1, &user), shape(2, 0));
    assert!(here.terms_now(JobId(7), first).counted);
    assert!(!here.terms_now(JobId(8), first).counted);
}
