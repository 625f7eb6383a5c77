//! What a shard remembers of itself, in rows: each change writes what changed, and the next leader reads
//! all of it.

use crate::volumes::{database, one, volume};
use crate::world::{World, c1, range, seconds, task};
use echelon_core_hosts::TaskState;
use echelon_core_model::directive::Order;
use echelon_core_model::drain::{Drains, HostDrain};
use echelon_core_model::host_pool::{HostMove, HostMoves};
use echelon_core_model::job::Desired;
use echelon_core_model::store::{
    Answer, Batch, Consistency, Op, OpResult, Query, RawKey, Role, RowSubject, ShardKey, ShardRow, Stamp,
    Write,
};
use echelon_core_model::time::Span;
use echelon_core_model::volume::VolumeWish;
use echelon_core_model::{HostId, HostPoolName, Timestamp, VolumeId};
use echelon_core_shard::{Alarm, Mode};
use echelon_core_testkit::build::JobBuilder;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

fn stored(w: &World) -> ShardRow {
    let Answer::Shard(row) = w.store.read(&Query::Shard(c1())) else {
        panic!()
    };
    row
}

fn drains(version: u64, hosts: u32) -> Order {
    let wish = HostDrain {
        batch_until: Timestamp(1),
        agent: false,
    };
    let hosts = (0..hosts).map(|n| (format!("{n:h>250}"), wish.clone()));
    Order::Drains(Drains {
        version,
        hosts: hosts.collect(),
    })
}

/// 3,500 hosts that are to be empty.
fn large() -> World {
    let mut w = World::serving();
    w.direct(drains(1, 3_500));
    w.run(seconds(5));
    w
}

#[test]
fn the_next_leader_reads_what_a_shard_remembers_of_many_hosts() {
    let mut w = large();
    let before = stored(&w);
    assert_eq!(before.drains.hosts.len(), 3_500);
    assert_eq!(w.stepped_down, Vec::<String>::new());
    w.restart();
    w.connect();
    w.run(seconds(5));
    let after = stored(&w);
    assert!(after.drains == before.drains);
    w.direct(drains(2, 3_499));
    w.run(seconds(5));
    assert_eq!(stored(&w).drains.hosts.len(), 3_499, "what is gone is removed");
    assert_eq!(w.stepped_down, Vec::<String>::new());
}

#[test]
fn a_change_writes_the_rows_that_changed() {
    let mut w = large();
    let seen: Rc<RefCell<Vec<ShardKey>>> = Rc::default();
    let keys = Rc::clone(&seen);
    w.refuses = Some(Box::new(move |write| {
        if let Write::Shard(key, _) | Write::RemoveShard(key) = write {
            keys.borrow_mut().push(key.clone());
        }
        false
    }));
    w.direct(drains(2, 3_501));
    w.run(seconds(5));
    let added = ShardKey::Host(format!("{:h>250}", 3_500));
    assert_eq!(*seen.borrow(), [added, ShardKey::Own]);
}

#[test]
fn a_refused_row_of_a_shard_costs_no_leadership_and_is_not_tried_again() {
    let mut w = World::serving();
    let tries: Rc<RefCell<u32>> = Rc::default();
    let counted = Rc::clone(&tries);
    w.refuses = Some(Box::new(move |write| {
        let refused = matches!(write, Write::Shard(ShardKey::Host(name), _) if name.ends_with("h7"));
        *counted.borrow_mut() += u32::from(refused);
        refused
    }));
    w.direct(drains(1, 20));
    w.run(seconds(200));
    assert_eq!(w.stepped_down, Vec::<String>::new());
    assert_eq!(*tries.borrow(), 1);
    let row = stored(&w);
    assert_eq!((row.drains.hosts.len(), row.drains.version), (19, 1));
    assert_eq!(w.alarms.len(), 1, "{:?}", w.alarms);
}

const GARBAGE: &[u8] = &[0xff, 0xff, 0xff];

impl World {
    /// Nobody understands these rows of the shard's from here on.
    fn spoil_own(&mut self, keys: &[ShardKey]) {
        let raw = keys
            .iter()
            .map(|k| Write::Raw(RawKey::Shard(k.clone()), GARBAGE.to_vec()));
        let batch = Batch {
            owner: Role::Shard(c1()),
            stamp: Stamp {
                epoch: self.shard.epoch(),
                sequence: 1 << 30,
            },
            writes: raw.collect(),
        };
        assert_eq!(self.store.perform(Op::Commit(batch)), OpResult::Committed);
    }

    /// The shard's rows that nobody understands, as storage has them.
    fn raw_own(&mut self) -> Vec<ShardKey> {
        let read = self
            .store
            .perform(Op::Read(Query::Shard(c1()), Consistency::Quorum));
        let OpResult::Partial(_, rows) = read else {
            return Vec::new();
        };
        assert!(rows.iter().all(|r| r.bytes == GARBAGE));
        let keys = rows.into_iter().filter_map(|r| match r.subject {
            RowSubject::Shard(key) => Some(key),
            _ => None,
        });
        keys.collect()
    }

    fn hosts_of_tasks(&self) -> BTreeSet<HostId> {
        self.cluster.tasks.values().map(|t| t.host.clone()).collect()
    }
}

fn named(host: &HostId) -> String {
    format!("{host}.example")
}

/// A host that is to be empty, its agent drained, or on its way to a host pool.
fn drained(w: &World, version: u64, hosts: &[&HostId]) -> Order {
    let wish = HostDrain {
        batch_until: w.now,
        agent: true,
    };
    Order::Drains(Drains {
        version,
        hosts: hosts.iter().map(|h| (named(h), wish.clone())).collect(),
    })
}

#[test]
fn a_row_of_a_shard_that_cannot_be_read_is_set_aside_alone() {
    let mut w = World::serving();
    w.direct(drains(1, 3));
    w.run(seconds(5));
    let before = stored(&w);
    let host = before.drains.hosts.keys().next().unwrap().clone();
    let kept = [
        ShardKey::Host(host.clone()),
        ShardKey::Agent(HostId::new("gone")),
        ShardKey::Volume(VolumeId::new("gone")),
    ];
    w.spoil_own(&kept);
    for _ in 0..2 {
        w.alarms.clear();
        w.restart();
        w.run(seconds(5));
        assert_eq!(w.stepped_down, Vec::<String>::new());
        let mut raw = w.raw_own();
        raw.sort();
        assert_eq!(raw, kept, "written back before the seal");
        let told = |key: &ShardKey| {
            let is_it = |a: &&Alarm| matches!(a, Alarm::OwnRowUnread { key: of, .. } if of == key);
            w.alarms.iter().filter(is_it).count()
        };
        assert!(kept.iter().all(|key| told(key) == 1), "{:?}", w.alarms);
        assert_eq!(w.shard.alarms(w.now).len(), 3);
        let row = stored(&w);
        assert_eq!(row.drains.hosts.len(), 2, "the others are read");
        assert_eq!(row.framework, before.framework);
    }
}

#[test]
fn a_shard_whose_own_row_cannot_be_read_starts_and_kills_nothing_and_waits() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 2).build());
    w.order(&[range(0, 1)], 2);
    w.run(seconds(3));
    let (calls, live) = (w.calls.len(), w.cluster.live());
    w.spoil_own(&[ShardKey::Own]);
    w.crash();
    w.elect();
    w.run(seconds(60));
    assert_eq!((w.shard.mode(), w.calls.len()), (Mode::Recovering, calls));
    assert_eq!((w.cluster.live(), w.stepped_down.len()), (live, 0));
    let told = |a: &Alarm| {
        matches!(
            a,
            Alarm::OwnRowUnread {
                key: ShardKey::Own,
                ..
            }
        )
    };
    assert!(w.alarms.iter().any(told), "{:?}", w.alarms);
}

#[test]
fn nothing_is_placed_on_a_host_of_which_it_is_unknown_what_is_wanted() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 2).build());
    w.order(&[range(0, 1)], 2);
    w.run(seconds(3));
    let unknown = w.hosts_of_tasks().into_iter().next().unwrap();
    w.spoil_own(&[ShardKey::Host(named(&unknown))]);
    w.restart();
    w.connect();
    let live = w.cluster.live();
    w.run(seconds(10));
    assert_eq!(
        (w.cluster.live(), w.kills().len()),
        (live.clone(), 0),
        "what runs there stays"
    );
    w.store_job(&JobBuilder::service("web", 12).build());
    w.order(&[range(0, 11)], 12);
    w.run(seconds(20));
    let new: Vec<&HostId> = {
        let new = w.cluster.tasks.iter().filter(|(id, _)| !live.contains(id));
        new.map(|(_, t)| &t.host).collect()
    };
    assert!(!new.is_empty() && new.iter().all(|h| **h != unknown), "{new:?}");
    // An operator says where it is.
    let wish = HostMove {
        to: HostPoolName::default(),
        batch_until: w.now,
    };
    w.direct(Order::HostMoves(HostMoves {
        version: 1,
        hosts: [(named(&unknown), wish)].into(),
    }));
    w.order(&[range(0, 11)], 12);
    w.run(Span::minutes(5));
    assert_eq!(w.raw_own(), []);
    assert_eq!(w.shard.alarms(w.now), []);
    assert!(w.hosts_of_tasks().contains(&unknown), "it takes work again");
}

#[test]
fn wishes_about_hosts_are_heard_again_and_no_agent_is_offered_before() {
    let mut w = World::serving();
    let hosts: Vec<HostId> = w.cluster.hosts.keys().cloned().collect();
    let order = drained(&w, 3, &[&hosts[0], &hosts[1]]);
    w.direct(order.clone());
    w.run(seconds(10));
    assert_eq!(w.cluster.drained.len(), 2);
    w.spoil_own(&[ShardKey::Host(named(&hosts[0]))]);
    w.restart();
    w.run(Span::minutes(5));
    assert_eq!(
        w.cluster.drained.len(),
        2,
        "nobody has said that it is not wanted any more"
    );
    // The resource manager repeats what it has always said.
    w.connect();
    w.direct(order);
    w.run(Span::minutes(5));
    assert_eq!(w.cluster.drained.len(), 2);
    w.direct(drained(&w, 4, &[&hosts[1]]));
    w.run(Span::minutes(5));
    assert_eq!(w.cluster.drained, [hosts[1].clone()].into());
    // A leader that reads the row must not take its older wish for the newest.
    assert_eq!(stored(&w).drains.version, 0);
}

#[test]
fn a_volume_of_which_it_is_unknown_what_is_wanted_is_kept_until_an_operator_says() {
    let spec = database().reclaimed().build();
    let mut w = one(&spec);
    let (id, host) = volume(&w, 0);
    w.spoil_own(&[ShardKey::Volume(id.clone())]);
    w.restart();
    w.connect();
    w.run(seconds(3));
    // Nobody has it by an operator's wish while its instance counts on it.
    w.direct(Order::Volumes([(id.clone(), VolumeWish::Destroy)].into()));
    w.run(seconds(5));
    assert_eq!(w.raw_own(), [ShardKey::Volume(id.clone())]);
    // Its job says that it goes with it; what was wanted of it may be another thing.
    w.wish(&spec, Desired::Stopped, 0);
    w.send_order(&[range(0, 0)], &[(1, 0)], 1);
    w.run(seconds(5));
    w.cluster.set(&task(0, 1, 1), TaskState::Killed);
    w.drain();
    w.cluster.offer();
    w.run(seconds(60));
    assert_eq!(w.cluster.volumes(&host), std::slice::from_ref(&id));
    w.direct(Order::Volumes([(id.clone(), VolumeWish::Destroy)].into()));
    w.run(seconds(5));
    w.cluster.offer();
    w.run(seconds(60));
    assert_eq!((w.cluster.volumes(&host), w.raw_own()), (Vec::new(), Vec::new()));
    assert_eq!(w.shard.alarms(w.now), []);
}
