//! What a shard remembers of itself, in rows: each change writes what changed, and the next leader reads
//! all of it.

use crate::world::{World, c1, seconds};
use echelon_core_model::directive::Order;
use echelon_core_model::drain::{Drains, HostDrain};
use echelon_core_model::part::PoolParts;
use echelon_core_model::store::{Answer, Query, ShardKey, ShardRow, Write};
use echelon_core_model::time::Span;
use echelon_core_model::{Resources, Timestamp};
use std::cell::RefCell;
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

fn parts(number: u64, pools: u32) -> Order {
    let room = |n| (format!("/{}/{n:p>60}", "p".repeat(63)), Resources::ZERO);
    Order::Parts(PoolParts {
        number,
        after: Span::minutes(10),
        room: (0..pools).map(room).collect(),
    })
}

/// 3,000 pools with reservations and 500 hosts that are to be empty.
fn large() -> World {
    let mut w = World::serving();
    w.direct(parts(1, 3_000));
    w.direct(drains(1, 500));
    w.run(seconds(5));
    w
}

#[test]
fn the_next_leader_reads_what_a_shard_remembers_of_many_pools_and_hosts() {
    let mut w = large();
    let before = stored(&w);
    assert_eq!((before.parts.room.len(), before.drains.hosts.len()), (3_000, 500));
    assert_eq!(w.stepped_down, Vec::<String>::new());
    w.restart();
    w.connect();
    w.run(seconds(5));
    let after = stored(&w);
    assert!(after.parts == before.parts && after.drains == before.drains);
    w.direct(drains(2, 499));
    w.run(seconds(5));
    assert_eq!(stored(&w).drains.hosts.len(), 499, "what is gone is removed");
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
    w.direct(drains(2, 501));
    w.run(seconds(5));
    let added = ShardKey::Host(format!("{:h>250}", 500));
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
