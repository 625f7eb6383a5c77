//! Wishes about volumes take a bounded part of the shard's row, whatever is lost, and nothing of them is lost silently.

use crate::given_up::{order, silent};
use crate::volumes::{database, one, volume, wishes};
use crate::world::{World, c1, range, seconds, task};
use echelon_core_hosts::{Event as Heard, OperationStatus, TaskState};
use echelon_core_model::directive::Order;
use echelon_core_model::job::Desired;
use echelon_core_model::store::{Answer, Batch, Op, Query, Stamp};
use echelon_core_model::volume::VolumeWish;
use echelon_core_model::{GroupName, InstanceId, InstanceNumber, JobId, RunState, VolumeId};
use echelon_core_shard::{Alarm, Event};

/// Volumes of which wishes fill the row but for a few bytes.
fn many(wish: &VolumeWish) -> Vec<VolumeId> {
    let name = |n: usize| VolumeId::new(format!("a{n:0200}"));
    let most = 128 * 1024 / wish.stored_size(&name(0));
    (0..most).map(name).collect()
}

/// A leader that finds these wishes stored.
fn with(w: &mut World, ids: &[VolumeId], wish: &VolumeWish) {
    let Answer::Shard(mut row) = w.store.read(&Query::Shard(c1())) else {
        panic!()
    };
    row.volumes = ids.iter().map(|id| (id.clone(), wish.clone())).collect();
    let full = Batch {
        owner: w.role(),
        stamp: Stamp {
            epoch: w.shard.epoch(),
            sequence: 1 << 39,
        },
        writes: row.writes(),
    };
    w.crash();
    w.store.perform(Op::Commit(full));
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.order(&[range(0, 0)], 1);
    w.run(seconds(5));
}

#[test]
fn volumes_on_hosts_that_do_not_come_back_make_room_and_that_is_said() {
    let (mut w, id, _) = silent(&database().reclaimed().build());
    // Until all hosts were listed, those that are not known may be there.
    w.cluster.lists = Some(true);
    w.run(seconds(70));
    let ids = many(&VolumeWish::Destroy);
    with(&mut w, &ids, &VolumeWish::Destroy);
    assert_eq!((wishes(&w).len(), w.alarms.len()), (ids.len(), 0));
    order(&mut w, &id);
    w.run(seconds(10));
    assert_ne!(volume(&w, 0).0, id);
    assert_eq!(w.states(1), [RunState::Running]);
    assert_eq!(
        w.alarms,
        [Alarm::VolumeLeft(ids[0].clone())],
        "that of the oldest job"
    );
    let left = wishes(&w);
    assert_eq!(left.len(), ids.len());
    assert_eq!([&left[0].0, &left[1].0], [&id, &ids[1]]);
}

#[test]
fn what_finds_no_room_waits_for_it() {
    let mut w = one(&database().reclaimed().build());
    let (id, host) = volume(&w, 0);
    let adopter = InstanceId {
        job: JobId(99),
        group: GroupName::new("main"),
        number: InstanceNumber(0),
    };
    let adopted = VolumeWish::Adopt(adopter);
    let ids = many(&adopted);
    with(&mut w, &ids, &adopted);
    w.direct(Order::Volumes([(id.clone(), VolumeWish::Destroy)].into()));
    w.wish(&database().reclaimed().build(), Desired::Stopped, 0);
    w.send_order(&[range(0, 0)], &[(1, 0)], 1);
    w.run(seconds(5));
    w.cluster.set(&task(0, 1, 1), TaskState::Killed);
    w.drain();
    w.cluster.offer();
    w.run(seconds(60));
    assert_eq!(w.cluster.volumes(&host), std::slice::from_ref(&id));
    assert_eq!(
        (wishes(&w).len(), w.alarms.len()),
        (ids.len(), 0),
        "nothing is lost"
    );
    for gone in ids.iter().take(ids.len() / 2 + 1) {
        w.feed(Event::Cluster(Heard::Operation(OperationStatus {
            id: format!("{gone}.destroy.1"),
            done: true,
            refused: false,
            host: None,
            uuid: None,
            message: String::new(),
        })));
    }
    w.run(seconds(5));
    w.cluster.offer();
    w.run(seconds(60));
    assert_eq!(w.cluster.volumes(&host), Vec::<VolumeId>::new());
    assert_eq!(wishes(&w).len(), ids.len() - ids.len() / 2 - 1);
}
