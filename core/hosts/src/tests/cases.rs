use super::{
    a, at, demand, disconnected, free, launch, need, offer, say, subscribed, task, update, with_offers,
};
use crate::{Config, Event, Hosts, Launch, Need, OfferId, TaskState};
use echelon_core_model::cluster::GpuHosts;
use echelon_core_model::pod::Sidecar;
use echelon_core_model::runtime::Runtime;
use echelon_core_model::{HostId, Resources, SidecarName};
use echelon_core_testkit::build::{main_group, shape};
use std::sync::Arc;

#[test]
fn offers_of_a_host_add_up_and_are_used_together() {
    let mut hosts = with_offers(vec![
        offer("o1", "a", shape(2, 100)),
        offer("o2", "a", shape(1, 50)),
        offer("o3", "b", shape(1, 50)),
    ]);
    assert_eq!(free(&hosts), "a 3/0/3, b 1/0/1");
    let call = hosts.accept(
        &a(),
        vec![launch(1, shape(1, 60)), launch(2, shape(1, 60))],
        at(1),
    );
    assert_eq!(say(call.as_slice()), "accept o1,o2 for 2");
    assert_eq!(free(&hosts), "a 0/2/3, b 1/0/1");
    assert_eq!(hosts.open_offers(), 1);
    assert_eq!(
        hosts.tasks_of(task(1).instance.job, &main_group()),
        [(a(), 2)].into()
    );
}

#[test]
fn what_cannot_be_launched_changes_nothing() {
    let one = || launch(1, shape(1, 10));
    for (why, launches) in [
        ("too much", vec![one(), launch(2, shape(2, 10))]),
        ("a kind is short", vec![launch(1, shape(1, 101))]),
        ("one task id twice", vec![one(), one()]),
        ("a task that runs", vec![launch(9, shape(1, 10))]),
        ("executors need disk", vec![pod(1, &["log"])]),
        ("nothing", vec![]),
    ] {
        let mut hosts = with_offers(vec![offer("o1", "a", shape(2, 100))]);
        hosts.adopt(&task(9), &a(), &need(1, 1), at(0));
        assert_eq!(hosts.accept(&a(), launches, at(1)), None, "{why}");
        assert_eq!(
            (hosts.open_offers(), free(&hosts).as_str()),
            (1, "a 2/1/3"),
            "{why}"
        );
    }
    let mut hosts = with_offers(vec![]);
    assert_eq!(hosts.accept(&a(), vec![one()], at(1)), None, "no offers");
    assert_eq!(
        hosts.accept(&a(), vec![launch(1, Resources::ZERO)], at(1)),
        None,
        "no offers, no room needed"
    );
}

#[test]
fn rescinded_and_void_offers_are_not_used() {
    let offers = || vec![offer("o1", "a", shape(2, 100))];
    for event in [
        Event::Rescind(OfferId(Arc::from("o1"))),
        disconnected(),
        subscribed(),
        Event::Refused {
            message: String::new(),
            cause: crate::Refusal::Superseded,
        },
        Event::Failure {
            host: Some(a()),
            executor: None,
        },
        update(1, "a", TaskState::Unreachable),
    ] {
        let mut hosts = with_offers(offers());
        hosts.on_event(&event, at(1));
        assert_eq!(hosts.open_offers(), 0, "{event:?}");
        assert_eq!(
            hosts.accept(&a(), vec![launch(1, shape(1, 10))], at(1)),
            None,
            "{event:?}"
        );
    }
    let mut hosts = with_offers(offers());
    hosts.on_event(&disconnected(), at(1));
    hosts.on_event(&Event::Offers(offers()), at(1));
    assert_eq!(
        hosts.open_offers(),
        0,
        "told late, after the end of its subscription"
    );
}

#[test]
fn an_offer_told_twice_is_one_offer() {
    let mut hosts = with_offers(vec![offer("o1", "a", shape(2, 100))]);
    hosts.on_event(&Event::Offers(vec![offer("o1", "a", shape(2, 100))]), at(1));
    assert_eq!(free(&hosts), "a 2/0/2");
    hosts.accept(&a(), vec![launch(1, shape(1, 10))], at(1)).unwrap();
    hosts.on_event(&Event::Offers(vec![offer("o1", "a", shape(2, 100))]), at(1));
    assert_eq!(free(&hosts), "a 0/1/2");
}

#[test]
fn proof_of_death_frees_room_and_silence_does_not() {
    for (state, cores_used) in [
        (TaskState::Finished, 0),
        (TaskState::Failed, 0),
        (TaskState::Killed, 0),
        (TaskState::Error, 0),
        (TaskState::Dropped, 0),
        (TaskState::Gone, 0),
        (TaskState::Running, 1),
        (TaskState::Lost, 1),
        (TaskState::Unreachable, 1),
        (TaskState::Unknown, 1),
        (TaskState::GoneByOperator, 1),
    ] {
        let mut hosts = with_offers(vec![offer("o1", "a", shape(2, 100))]);
        hosts.accept(&a(), vec![launch(1, shape(1, 10))], at(1)).unwrap();
        hosts.on_event(&update(1, "a", state), at(2));
        assert_eq!(
            hosts.host(&a()).unwrap().used,
            shape(cores_used, cores_used * 10),
            "{state:?}"
        );
        hosts.release(&task(1), at(3));
        hosts.release(&task(1), at(3));
        assert_eq!(hosts.host(&a()).unwrap().tasks, 0, "{state:?}");
    }
}

#[test]
fn room_offered_before_its_task_is_told_ended_does_not_make_a_host_larger() {
    let mut hosts = with_offers(vec![offer("o1", "a", shape(4, 100))]);
    hosts.accept(&a(), vec![launch(1, shape(3, 90))], at(1)).unwrap();
    hosts.on_event(&Event::Offers(vec![offer("o2", "a", shape(4, 100))]), at(200));
    hosts.on_event(&update(1, "a", TaskState::Finished), at(210));
    assert_eq!(free(&hosts), "a 4/0/4");
    assert_eq!(hosts.capacity(at(0)).largest_host, shape(4, 100));
    // Another framework's room is real growth.
    hosts
        .accept(&a(), vec![launch(2, shape(3, 90))], at(211))
        .unwrap();
    hosts.on_event(&Event::Offers(vec![offer("o3", "a", shape(9, 900))]), at(212));
    hosts.on_event(&update(2, "a", TaskState::Finished), at(600));
    assert_eq!(hosts.capacity(at(0)).largest_host, shape(12, 990));
}

#[test]
fn a_lost_host_is_left_out_until_it_is_seen_again() {
    let mut hosts = with_offers(vec![
        offer("o1", "a", shape(2, 100)),
        offer("o2", "b", shape(1, 50)),
    ]);
    hosts.accept(&a(), vec![launch(1, shape(1, 10))], at(1)).unwrap();
    hosts.on_event(&update(1, "a", TaskState::Unreachable), at(2));
    assert_eq!(free(&hosts), "b 1/0/1");
    assert_eq!(hosts.capacity(at(0)).hosts, 1);
    hosts.on_event(&update(1, "a", TaskState::Running), at(3));
    assert_eq!(free(&hosts), "a 0/1/2, b 1/0/1");
}

#[test]
fn rows_are_written_when_they_change_and_removed_when_hosts_stay_away() {
    let mut hosts = with_offers(vec![
        offer("o1", "a", shape(2, 100)),
        offer("o2", "b", shape(1, 50)),
    ]);
    let names = |hosts: &mut Hosts| {
        let changes = hosts.changes();
        let rows: Vec<String> = changes
            .rows
            .iter()
            .map(|h| format!("{} {}", h.id, h.tasks))
            .collect();
        let removed: Vec<String> = changes.removed.iter().map(|h| format!("-{h}")).collect();
        [rows, removed].concat().join(" ")
    };
    assert_eq!(names(&mut hosts), "a 0 b 0");
    hosts.accept(&a(), vec![launch(1, shape(1, 10))], at(1)).unwrap();
    assert_eq!(names(&mut hosts), "a 1");
    hosts.on_event(&Event::Offers(vec![offer("o3", "a", shape(1, 90))]), at(2));
    assert_eq!(names(&mut hosts), "", "the same host with another offer");
    hosts.on_event(&subscribed(), at(100));
    hosts.next_calls(demand(false), at(399));
    assert_eq!(names(&mut hosts), "");
    hosts.next_calls(demand(false), at(460));
    assert_eq!(names(&mut hosts), "-b", "a has a task of ours");
    hosts.on_event(&Event::Offers(vec![offer("o9", "b", shape(1, 50))]), at(461));
    assert_eq!(names(&mut hosts), "b 0");
}

#[test]
fn a_new_leader_begins_with_the_stored_hosts() {
    let mut old = with_offers(vec![offer("o1", "a", shape(2, 100))]);
    old.accept(&a(), vec![launch(1, shape(1, 10))], at(1)).unwrap();
    let rows = old.changes().rows;
    let mut new = with_offers(vec![]);
    new.restore(rows);
    new.adopt(&task(1), &a(), &need(1, 10), at(5));
    assert_eq!(new.capacity(at(0)).total, shape(2, 100));
    assert_eq!(new.capacity(at(0)).largest_free, shape(1, 90));
    assert_eq!(new.host(&a()).unwrap().hostname, "a.example");
}

#[test]
fn hosts_with_gpus_are_told_apart_unless_an_operator_opens_them() {
    let gpu = Resources {
        gpus: 2000,
        ..shape(4, 100)
    };
    let mut hosts = with_offers(vec![offer("o1", "a", gpu), offer("o2", "b", shape(2, 50))]);
    let kept = |hosts: &Hosts| hosts.views(at(0)).iter().map(|v| v.kept).collect::<Vec<_>>();
    assert_eq!(kept(&hosts), [true, false]);
    hosts
        .accept(&HostId::new("b"), vec![launch(1, shape(1, 10))], at(1))
        .unwrap();
    let told = hosts.capacity(at(1));
    assert_eq!((told.total.cpus, told.without_gpus.total), (6000, shape(2, 50)));
    assert_eq!(told.without_gpus.used, shape(1, 10));
    assert_eq!(told.without_gpus.largest_host, shape(2, 50));
    let mut open = Hosts::new(Config {
        gpu_hosts: GpuHosts::Open,
        ..Config::usual()
    });
    open.on_event(&subscribed(), at(0));
    open.on_event(&Event::Offers(vec![offer("o1", "a", gpu)]), at(0));
    assert_eq!(kept(&open), [false]);
    assert_eq!(open.capacity(at(0)).without_gpus.total, gpu);
}

#[test]
fn an_offer_with_gpus_of_which_nothing_that_waits_is_for_goes_back_for_long() {
    let gpu = Resources {
        gpus: 1000,
        ..shape(4, 100)
    };
    let mut hosts = with_offers(vec![offer("o1", "a", gpu)]);
    hosts.next_calls(demand(true), at(0));
    hosts.compared(hosts.mark(), at(0));
    assert_eq!(say(&hosts.next_calls(demand(true), at(0))), "decline o1 5m");
}

/// A launch of a core and 10 MiB with sidecars of the same size.
fn pod(n: u32, names: &[&str]) -> Launch {
    let sidecar = |name: &&str| Sidecar {
        name: SidecarName::new(name),
        runtime: Runtime::shell("true"),
        resources: shape(1, 10),
    };
    Launch {
        sidecars: names.iter().map(sidecar).collect(),
        ..launch(n, shape(1, 10))
    }
}

#[test]
fn a_pod_takes_the_room_of_all_its_tasks_until_the_last_is_dead() {
    let room = Resources {
        disk: 1000,
        ..shape(4, 100)
    };
    let mut hosts = with_offers(vec![offer("o1", "a", room)]);
    assert_eq!(
        hosts.accept(&a(), vec![pod(1, &["log", "log"])], at(1)),
        None,
        "one id twice within a group (H1)"
    );
    let whole = pod(1, &["log", "proxy"]);
    hosts.accept(&a(), vec![whole.clone()], at(1)).unwrap();
    assert_eq!(hosts.capacity(at(1)).used, whole.room());
    // The end of its main task says nothing of the others.
    hosts.on_event(&update(1, "a", TaskState::Finished), at(2));
    assert_eq!(hosts.capacity(at(2)).used, whole.room());
    let left = Need::new(shape(2, 20), Resources::ZERO, &[]).of_pod();
    hosts.adopt(&task(1), &a(), &left, at(3));
    assert_eq!(hosts.capacity(at(3)).used, shape(2, 20));
    assert_eq!(
        hosts.host(&a()).unwrap().tasks,
        1,
        "runs are counted, not their tasks"
    );
    hosts.release(&task(1), at(4));
    assert_eq!(hosts.capacity(at(4)).used, Resources::ZERO);
}

/// A new leader reads a million runs, each with texts of its own for one of a few hosts.
#[test]
fn runs_name_their_hosts_by_texts_that_are_there_once() {
    let hosts = with_offers(vec![offer("o1", "a", shape(1, 1))]);
    let known = hosts.host(&a()).unwrap().hostname;
    let (mut names, mut strange): (Vec<Arc<str>>, Arc<str>) = (Vec::new(), Arc::from("another"));
    for _ in 0..2 {
        let mut name = Arc::from(known.as_str());
        hosts.share_texts(&mut a(), &mut name);
        names.push(name);
    }
    assert!(names.windows(2).all(|pair| Arc::ptr_eq(&pair[0], &pair[1])));
    hosts.share_texts(&mut a(), &mut strange);
    assert_eq!(&*strange, "another", "what the run was told of its host stays");
    let mut gone = HostId::new("gone");
    hosts.share_texts(&mut gone, &mut strange);
    assert_eq!(gone, HostId::new("gone"));
}
