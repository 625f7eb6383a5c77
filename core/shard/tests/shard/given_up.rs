//! Volumes whose host is gone for good: given up by command or by the job's policy, and never while their instance is heard of.

use crate::volumes::{database, one, volume, wishes};
use crate::world::{World, job, range, seconds, task};
use echelon_core_hosts::{TaskState, TaskVolume};
use echelon_core_model::directive::Order;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::time::Span;
use echelon_core_model::volume::VolumeWish;
use echelon_core_model::{HostId, InstanceId, InstanceNumber, Resources, RunState, Timestamp, VolumeId};
use echelon_core_testkit::build::main_group;

fn instance() -> InstanceId {
    InstanceId {
        job: job(),
        group: main_group(),
        number: InstanceNumber(0),
    }
}

fn give_up(asked_at: u64) -> VolumeWish {
    VolumeWish::GiveUp {
        instance: instance(),
        asked_at: Timestamp(asked_at),
    }
}

pub fn order(w: &mut World, id: &VolumeId) {
    order_asked(w, id, 100);
}

fn order_asked(w: &mut World, id: &VolumeId, asked_at: u64) {
    w.direct(Order::Volumes([(id.clone(), give_up(asked_at))].into()));
}

/// The host of the instance's run falls silent.
fn away(w: &mut World, host: &HostId, run: u32) {
    w.cluster.silent.push(host.clone());
    w.cluster.say(&task(0, 1, run), TaskState::Unreachable);
    w.drain();
    w.run(seconds(5));
    assert_eq!(w.states(1), [RunState::Unreachable]);
}

/// One instance whose host has fallen silent, with its volume and host.
pub fn silent(spec: &JobSpec) -> (World, VolumeId, HostId) {
    let mut w = one(spec);
    let (id, host) = volume(&w, 0);
    away(&mut w, &host, 1);
    (w, id, host)
}

/// The host is back, with all that was on it.
fn back(w: &mut World, host: &HostId) {
    w.cluster.silent.retain(|h| h != host);
    w.cluster.set(&task(0, 1, 1), TaskState::Running);
    w.drain();
    w.cluster.offer();
    w.run(seconds(30));
}

#[test]
fn an_instance_whose_volume_was_given_up_begins_anew_elsewhere() {
    let (mut w, id, host) = silent(&database().build());
    w.run(seconds(600));
    assert_eq!(w.cluster.live().len(), 1, "never by itself");
    order(&mut w, &id);
    w.run(seconds(10));
    let (new, at) = volume(&w, 0);
    assert_eq!(w.states(1), [RunState::Running]);
    assert!(new != id && at != host, "{new} on {at}");
    assert_eq!(w.cluster.volumes(&at), std::slice::from_ref(&new));
    assert_eq!(wishes(&w), [], "what is done is forgotten");
    order(&mut w, &id);
    back(&mut w, &host);
    assert_eq!(w.kills(), [task(0, 1, 1)], "the older run is stopped");
    assert_eq!(w.cluster.live(), [task(0, 1, 2)]);
    assert_eq!(
        w.cluster.volumes(&host),
        std::slice::from_ref(&id),
        "reclaim is keep"
    );
    order(&mut w, &id);
    w.cluster.set(&task(0, 1, 2), TaskState::Failed);
    w.run(seconds(60));
    assert_eq!(volume(&w, 0), (new, at), "the old one is never given back");
    assert_eq!(w.cluster.volumes(&host), [id]);
}

#[test]
fn what_is_to_be_deleted_goes_when_its_host_is_back() {
    let (mut w, id, host) = silent(&database().reclaimed().build());
    order(&mut w, &id);
    w.run(seconds(10));
    assert_eq!(wishes(&w), [(id.clone(), VolumeWish::Destroy)], "stored before");
    back(&mut w, &host);
    w.cluster.offer();
    w.run(seconds(600));
    assert_eq!(w.cluster.live(), [task(0, 1, 2)]);
    assert_eq!(w.cluster.volumes(&host), Vec::<VolumeId>::new());
}

#[test]
fn a_host_that_is_heard_loses_nothing() {
    let mut w = one(&database().build());
    let held = volume(&w, 0);
    order(&mut w, &held.0);
    w.run(seconds(30));
    assert_eq!((wishes(&w), volume(&w, 0)), (vec![], held.clone()));
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.drain();
    w.cluster.offer();
    w.drain();
    order(&mut w, &held.0);
    w.run(seconds(60));
    assert_eq!(volume(&w, 0), held, "its host offers it");
    assert_eq!(w.states(1), [RunState::Running]);
}

/// No other host has room for the instance.
fn elsewhere_is_full(w: &mut World, host: &HostId) {
    let others: Vec<HostId> = w.cluster.hosts.keys().filter(|h| *h != host).cloned().collect();
    for other in &others {
        let full = Resources {
            cpus: 100,
            ..w.cluster.hosts[other]
        };
        w.cluster.hosts.insert(other.clone(), full);
    }
    // What was offered before is taken back.
    new_leader(w);
}

pub fn new_leader(w: &mut World) {
    w.crash();
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.order(&[range(0, 0)], 1);
    w.run(seconds(5));
}

#[test]
fn a_host_that_is_back_before_there_is_another_volume_keeps_its_own() {
    let (mut w, id, host) = silent(&database().build());
    elsewhere_is_full(&mut w, &host);
    order(&mut w, &id);
    w.run(seconds(60));
    assert_eq!(wishes(&w), [(id.clone(), give_up(100))], "it finds no room");
    assert_eq!(volume(&w, 0), (id.clone(), host.clone()));
    back(&mut w, &host);
    assert_eq!(w.states(1), [RunState::Running]);
    assert_eq!((wishes(&w), volume(&w, 0)), (vec![], (id, host)));
    assert_eq!(w.kills(), Vec::<String>::new());
}

#[test]
fn a_wish_that_became_void_does_not_hold_when_the_host_is_away_another_time() {
    for leaders in [1, 2] {
        let (mut w, id, host) = silent(&database().reclaimed().build());
        let room = w.cluster.hosts.clone();
        elsewhere_is_full(&mut w, &host);
        order(&mut w, &id);
        w.run(seconds(60));
        back(&mut w, &host);
        assert_eq!((wishes(&w), volume(&w, 0)), (vec![], (id.clone(), host.clone())));
        w.cluster.hosts = room;
        if leaders == 2 {
            new_leader(&mut w);
        }
        away(&mut w, &host, 1);
        // As resource managers do as long as the wish is in the cluster's row, and late messages at any time.
        for _ in 0..100 {
            order(&mut w, &id);
            w.run(seconds(5));
        }
        assert_eq!((wishes(&w), volume(&w, 0)), (vec![], (id.clone(), host.clone())));
        assert_eq!(
            w.cluster.live().len(),
            1,
            "nobody has asked for another one this time"
        );
        order_asked(&mut w, &id, 101);
        w.run(seconds(10));
        assert_ne!(volume(&w, 0).0, id);
        assert_eq!(w.states(1), [RunState::Running]);
    }
}

#[test]
fn a_wish_without_a_time_gives_nothing_up() {
    let (mut w, id, host) = silent(&database().build());
    order_asked(&mut w, &id, 0);
    w.run(seconds(60));
    assert_eq!((wishes(&w), volume(&w, 0)), (vec![], (id, host)));
}

#[test]
fn a_volume_that_was_adopted_and_is_not_given_up_after_all_is_still_held_by_who_adopted_it() {
    let mut w = one(&database().build());
    let (own, host) = volume(&w, 0);
    let adopted = TaskVolume {
        id: VolumeId::new("left-behind"),
        path: "data".to_owned(),
        size: 1024,
        used: false,
        offered: None,
    };
    w.cluster.make(&host, &adopted);
    w.cluster.offer();
    w.run(seconds(5));
    w.direct(Order::Volumes(
        [(adopted.id.clone(), VolumeWish::Adopt(instance()))].into(),
    ));
    w.run(seconds(5));
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.drain();
    w.cluster.offer();
    w.run(seconds(60));
    assert_eq!(volume(&w, 0), (adopted.id.clone(), host.clone()));
    away(&mut w, &host, 2);
    elsewhere_is_full(&mut w, &host);
    order(&mut w, &adopted.id);
    w.run(seconds(10));
    assert_eq!(wishes(&w), [(adopted.id.clone(), give_up(100))]);
    w.cluster.silent.clear();
    w.cluster.set(&task(0, 1, 2), TaskState::Running);
    w.drain();
    w.run(seconds(30));
    assert_eq!(wishes(&w), [(adopted.id.clone(), VolumeWish::Adopt(instance()))]);
    w.direct(Order::Volumes([(adopted.id.clone(), VolumeWish::Destroy)].into()));
    w.run(seconds(10));
    assert_eq!(wishes(&w), [(adopted.id.clone(), VolumeWish::Adopt(instance()))]);
    assert_ne!(own, adopted.id);
}

#[test]
fn a_new_leader_goes_on_with_what_was_given_up_at_any_moment() {
    for moment in 0..40 {
        let (mut w, id, host) = silent(&database().reclaimed().build());
        order(&mut w, &id);
        w.run(Span::millis(moment));
        w.crash();
        w.elect();
        w.run(seconds(1));
        w.connect();
        w.order(&[range(0, 0)], 1);
        order(&mut w, &id);
        w.run(seconds(120));
        let (new, at) = volume(&w, 0);
        assert_eq!(w.states(1), [RunState::Running], "{moment}");
        assert!(new != id && at != host, "{moment}");
        back(&mut w, &host);
        w.cluster.offer();
        w.run(seconds(600));
        assert_eq!(w.cluster.live().len(), 1, "{moment}");
        assert_eq!(w.cluster.volumes(&host), Vec::<VolumeId>::new(), "{moment}");
        assert_eq!(volume(&w, 0), (new, at), "{moment}");
    }
}

#[test]
fn a_job_may_say_when_its_volumes_are_given_up() {
    let mut spec = database().build();
    for group in &mut spec.groups {
        if let Some(volume) = &mut group.volume {
            volume.replace_after = Some(Span::minutes(10));
        }
    }
    let (mut w, id, host) = silent(&spec);
    let since = w.record(0).unwrap().run.unwrap().since;
    w.run(seconds(300));
    // A new leader goes on with what was observed; nothing is counted while there is none.
    w.crash();
    w.now = w.now.plus(Span::minutes(20));
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.order(&[range(0, 0)], 1);
    let counted = w.now;
    while w.now < counted.plus(seconds(280)) {
        w.run(seconds(10));
        assert_eq!(volume(&w, 0), (id.clone(), host.clone()));
    }
    assert!(w.now > since.plus(Span::minutes(10)));
    w.run(seconds(120));
    assert_ne!(volume(&w, 0).0, id);
    assert_eq!(w.states(1), [RunState::Running]);
}
