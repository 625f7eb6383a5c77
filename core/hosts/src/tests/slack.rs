use super::{a, at, launch, offer, task, update, with_offers};
use crate::{Event, Hosts, Launch, Need, Offer, OfferId, TaskState};
use echelon_core_model::Resources;
use echelon_core_testkit::build::shape;
use std::sync::Arc;

fn cores(n: u64) -> Resources {
    shape(n, 0)
}

/// An offer of a host that lends cores beside its ordinary room.
fn lending(id: &str, ordinary: Resources, lent: u64) -> Offer {
    Offer {
        revocable: cores(lent),
        ..offer(id, "a", ordinary)
    }
}

/// A task of so many lent cores, and ordinary memory.
fn revocable(n: u32, lent: u64) -> Launch {
    Launch {
        revocable: cores(lent),
        ..launch(n, shape(lent, 10))
    }
}

/// What the host lends: free, all, used.
fn slack(hosts: &Hosts) -> [u64; 3] {
    let views = hosts.views(at(0));
    let slack = views[0].slack;
    [slack.free, slack.capacity, slack.used].map(|r| r.cpus / 1000)
}

#[test]
fn ordinary_and_lent_room_are_counted_apart() {
    let mut hosts = with_offers(vec![
        offer("o1", "a", shape(2, 100)),
        lending("o2", Resources::ZERO, 3),
    ]);
    assert_eq!(slack(&hosts), [3, 3, 0]);
    assert_eq!(
        hosts.accept(&a(), vec![revocable(1, 4)], at(1)),
        None,
        "more than is lent"
    );
    assert_eq!(
        hosts.accept(&a(), vec![launch(1, shape(3, 10))], at(1)),
        None,
        "not ordinary"
    );
    let both = vec![launch(1, shape(2, 10)), revocable(2, 3)];
    let call = hosts.accept(&a(), both, at(1)).unwrap();
    let crate::Call::Accept { offers, .. } = call else {
        panic!()
    };
    assert_eq!(
        offers.len(),
        2,
        "what a task needs of both comes with one call (R91)"
    );
    assert_eq!(slack(&hosts), [0, 3, 3]);
    let capacity = hosts.capacity(at(1));
    assert_eq!((capacity.total, capacity.used), (shape(2, 100), shape(2, 20)));
    assert_eq!((capacity.slack.total, capacity.slack.used), (cores(3), cores(3)));
    hosts.on_event(&update(2, "a", TaskState::Finished), at(2));
    assert_eq!(slack(&hosts), [0, 3, 0]);
    assert_eq!(hosts.capacity(at(2)).used, shape(2, 10));
}

#[test]
fn what_is_lent_is_believed_by_the_newest_sign() {
    let mut hosts = with_offers(vec![lending("o1", shape(2, 100), 3)]);
    hosts.on_event(&Event::Rescind(OfferId(Arc::from("o1"))), at(1));
    assert_eq!(slack(&hosts), [0, 0, 0], "an estimate changed");
    hosts.on_event(&Event::Offers(vec![lending("o2", shape(2, 100), 2)]), at(2));
    assert_eq!(slack(&hosts), [2, 2, 0]);
    hosts.accept(&a(), vec![revocable(1, 1)], at(3)).unwrap();
    hosts.on_event(&Event::Offers(vec![offer("o3", "a", shape(2, 90))]), at(4));
    assert_eq!(slack(&hosts), [0, 1, 1], "the rest is not lent any more");
    let Event::Update(mut status) = update(1, "a", TaskState::Gone) else {
        panic!()
    };
    status.reason = "CONTAINER_PREEMPTED".to_owned();
    hosts.on_event(&Event::Update(status), at(5));
    assert_eq!(slack(&hosts), [0, 0, 0], "wanted back");
    assert_eq!(
        hosts.capacity(at(5)).total,
        shape(2, 100),
        "ordinary capacity is what it was"
    );
}

#[test]
fn a_new_leader_counts_stored_runs_on_their_side() {
    let mut hosts = with_offers(vec![]);
    let need = Need::new(shape(2, 10), cores(2), &[]);
    hosts.adopt(&task(1), &a(), &need, at(1));
    assert_eq!(slack(&hosts), [0, 2, 2]);
    assert_eq!(hosts.capacity(at(1)).used, shape(0, 10));
    hosts.release(&task(1), at(2));
    assert_eq!(slack(&hosts), [0, 2, 0]);
}
