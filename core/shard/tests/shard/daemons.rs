//! Daemons: one on each host that the constraints let, with room set aside for it on a host that joins; the number of a host that is
//! gone is given back, and on a host that is to be empty daemons are the last.

use crate::world::{World, job, marked, range, seconds};
use echelon_core_hosts::TaskState;
use echelon_core_model::bucket::block_bucket;
use echelon_core_model::directive::Order;
use echelon_core_model::drain::{Drains, HostDrain};
use echelon_core_model::instance::BlockKey;
use echelon_core_model::siting::{Constraint, Test};
use echelon_core_model::spec::JobSpec;
use echelon_core_model::{HostId, InstanceNumber, JobId, ReasonCode, RunState, Span};
use echelon_core_shard::Mode;
use echelon_core_testkit::build::{JobBuilder, main_group, shape};
use std::collections::BTreeMap;

/// Hosts of four cores, two in each rack; the master lists them.
fn racked(hosts: u32) -> World {
    let mut w = World::new();
    w.cluster = crate::cluster::Cluster::of(hosts, shape(4, 4096));
    w.cluster.lists = Some(true);
    let rack = |n: u32| [("rack".to_owned(), format!("r{}", n / 2))].into();
    w.cluster.attributes = (0..hosts)
        .map(|n| (HostId::new(format!("host-{n}")), rack(n)))
        .collect();
    w.elect();
    w.run(seconds(1));
    w.connect();
    w
}

fn in_racks(racks: &[&str]) -> JobSpec {
    let rule = Constraint {
        attribute: "rack".to_owned(),
        test: Test::In(racks.iter().map(|r| (*r).to_owned()).collect()),
        negate: false,
    };
    let mut spec = JobBuilder::daemon("agent").build();
    for group in &mut spec.groups {
        group.constraints.push(rule.clone());
    }
    spec
}

/// The daemon's live tasks by host.
pub fn on_hosts(w: &World, of: JobId) -> BTreeMap<String, u32> {
    let mut out = BTreeMap::new();
    let live = w.cluster.live();
    let tasks = live.iter().filter(|t| t.starts_with(&of.to_string()));
    for task in tasks.filter_map(|t| w.cluster.tasks.get(t)) {
        *out.entry(task.host.to_string()).or_default() += 1;
    }
    out
}

fn hosts(w: &World) -> Option<u32> {
    w.slice(1).and_then(|s| s.hosts)
}

/// The daemon is on two hosts of two.
fn on_both() -> World {
    let mut w = racked(2);
    w.store_job(&JobBuilder::daemon("agent").build());
    w.order(&[range(0, 1)], 2);
    w.run(seconds(3));
    assert_eq!(
        on_hosts(&w, job()),
        [("host-0".to_owned(), 1), ("host-1".to_owned(), 1)].into()
    );
    assert_eq!(hosts(&w), Some(2));
    w
}

pub fn start_batch(w: &mut World, of: JobId, instances: u32) {
    let spec = JobBuilder::batch("crunch", instances).priority(1_000).build();
    w.store_head_of(of, &spec, echelon_core_model::job::Goal::default());
    let range = range(0, instances - 1);
    w.assign_of(of, &[(main_group(), std::slice::from_ref(&range))]);
    let mut order = w.slice_order(std::slice::from_ref(&range), &[(1, instances.into())], 1);
    order.job = of;
    order.spec_version = 1;
    order.head_version = echelon_core_model::Version(1);
    w.direct(Order::Slices(vec![order]));
    w.run(seconds(3));
}

#[test]
fn the_hosts_that_its_constraints_let_are_counted_and_each_gets_one() {
    let mut w = racked(6);
    w.store_job(&in_racks(&["r0", "r2"]));
    w.order(&[range(0, 0)], 1);
    w.run(seconds(3));
    assert_eq!(hosts(&w), Some(4), "told before there are as many numbers");
    w.order(&[range(0, 3)], 4);
    w.run(seconds(3));
    let there: Vec<String> = on_hosts(&w, job()).into_keys().collect();
    assert_eq!(there, ["host-0", "host-1", "host-4", "host-5"]);
    assert_eq!(hosts(&w), Some(4));
}

#[test]
fn nothing_is_counted_before_all_hosts_are_known() {
    let mut w = World::new();
    w.cluster.lists = None;
    w.elect();
    w.connect();
    w.store_job(&JobBuilder::daemon("agent").build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(30));
    assert_eq!(hosts(&w), None);
    w.cluster.lists = Some(true);
    w.run(Span::minutes(5));
    assert!(hosts(&w) > Some(0));
}

#[test]
fn a_master_that_lists_nothing_is_no_reason_to_have_none() {
    let mut w = World::new();
    w.cluster.lists = Some(false);
    w.elect();
    w.connect();
    w.store_job(&JobBuilder::daemon("agent").build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(30));
    assert_eq!(hosts(&w).map(|n| n as usize), Some(w.cluster.hosts.len()));
}

#[test]
fn room_on_a_host_that_joins_is_set_aside_before_others_are_placed() {
    let mut w = on_both();
    let crunch = JobId(201);
    start_batch(&mut w, crunch, 20);
    assert_eq!(
        on_hosts(&w, crunch).values().sum::<u32>(),
        6,
        "three on each host"
    );
    w.cluster.hosts.insert(HostId::new("host-2"), shape(4, 4096));
    w.cluster.offer();
    w.drain();
    w.run(seconds(90));
    assert_eq!(on_hosts(&w, crunch)["host-2"], 3, "one core is the daemon's");
    assert_eq!(hosts(&w), Some(3));
    w.order(&[range(0, 2)], 3);
    w.run(seconds(5));
    assert_eq!(on_hosts(&w, job())["host-2"], 1);
}

#[test]
fn what_is_not_granted_sets_nothing_aside() {
    let mut w = racked(2);
    w.store_job(&JobBuilder::daemon("agent").build());
    w.order(&[range(0, 1)], 0);
    w.run(seconds(3));
    assert_eq!(hosts(&w), Some(2));
    let crunch = JobId(201);
    start_batch(&mut w, crunch, 20);
    assert_eq!(on_hosts(&w, crunch).values().sum::<u32>(), 8);
}

#[test]
fn the_number_of_a_host_that_is_gone_is_given_back_and_the_others_run_on() {
    let mut w = on_both();
    let lost = (0..2).find(|n| w.stored(*n).unwrap().run.unwrap().host == HostId::new("host-0"));
    let lost = lost.unwrap();
    let task = w.task(lost, 1);
    w.cluster.hosts.remove(&HostId::new("host-0"));
    w.cluster.set(&task, TaskState::Unreachable);
    w.drain();
    w.run(Span::minutes(59));
    assert_eq!(hosts(&w), Some(2), "it may come back");
    w.run(Span::minutes(2));
    let told = w.slice(1).unwrap();
    assert_eq!((told.hosts, told.active, told.unstarted), (Some(1), 1, 1));
    w.order(&[marked(range(0, 1), None, Some(1))], 1);
    w.run(seconds(5));
    let told = w.slice(1).unwrap();
    let lost: echelon_core_model::RangeSet = [echelon_core_model::InstanceNumber(lost)].into_iter().collect();
    assert_eq!(told.released, lost);
    assert_eq!(told.active, 1);
    assert_eq!(w.kills(), Vec::<String>::new());
}

#[test]
fn what_comes_back_after_its_host_counted_as_gone_is_stopped_and_begins_anew() {
    let mut w = on_both();
    let host = HostId::new("host-0");
    let task = w
        .cluster
        .live()
        .into_iter()
        .find(|t| w.cluster.tasks[t].host == host);
    let task = task.unwrap();
    w.cluster.silent.push(host.clone());
    w.hear(&task, TaskState::Unreachable, "host-0");
    w.run(Span::minutes(62));
    assert_eq!(hosts(&w), Some(1));
    w.cluster.silent.clear();
    w.hear(&task, TaskState::Running, "host-0");
    w.run(Span::minutes(3));
    assert!(w.kills().contains(&task));
    w.order(&[range(0, 1)], 2);
    w.run(seconds(20));
    assert_eq!(
        on_hosts(&w, job()),
        [("host-0".to_owned(), 1), ("host-1".to_owned(), 1)].into()
    );
}

#[test]
fn a_failed_run_is_tried_again_on_its_host_and_is_no_host_less() {
    let mut w = on_both();
    let task = w.task(0, 1);
    w.cluster.set(&task, TaskState::Failed);
    w.drain();
    w.run(seconds(30));
    assert_eq!(hosts(&w), Some(2));
    assert_eq!(on_hosts(&w, job()).len(), 2);
    assert_eq!(w.states(2), [RunState::Running; 2]);
}

#[test]
fn on_a_host_that_is_to_be_empty_daemons_are_the_last() {
    let mut w = on_both();
    let crunch = JobId(201);
    start_batch(&mut w, crunch, 4);
    w.cluster.lingers = true;
    let wish = HostDrain {
        batch_until: w.now,
        agent: false,
    };
    let hosts_wished = [("host-0.example".to_owned(), wish)].into();
    w.direct(Order::Drains(Drains {
        version: 1,
        hosts: hosts_wished,
    }));
    w.run(seconds(60));
    let of = |w: &World, of: JobId| on_hosts(w, of).get("host-0").copied().unwrap_or(0);
    assert!(of(&w, crunch) > 0, "their kills take long");
    assert!(w.kills().iter().all(|t| t.starts_with(&crunch.to_string())));
    let there: Vec<String> = w.cluster.live();
    for task in there.iter().filter(|t| t.starts_with(&crunch.to_string())) {
        if w.cluster.tasks[task].host == HostId::new("host-0") {
            w.cluster.set(task, TaskState::Killed);
        }
    }
    w.drain();
    w.run(seconds(10));
    let kills = w.kills();
    assert!(kills.iter().any(|t| t.starts_with(&job().to_string())));
    w.cluster.lingers = false;
    for task in w.cluster.live() {
        if kills.contains(&task) {
            w.cluster.set(&task, TaskState::Killed);
        }
    }
    w.drain();
    w.run(seconds(10));
    assert_eq!((of(&w, job()), hosts(&w)), (0, Some(1)));
    let told = w.slice(1).unwrap();
    assert_eq!((told.active, told.unstarted), (1, 1));
    // It is wanted again: the host gets its daemon back.
    w.direct(Order::Drains(Drains {
        version: 2,
        ..Drains::default()
    }));
    w.order(&[range(0, 1)], 2);
    w.run(seconds(20));
    assert_eq!((of(&w, job()), hosts(&w)), (1, Some(2)));
    let code = w.stored(0).unwrap().run.unwrap().reason.code;
    assert_ne!(code, ReasonCode::PoolEntitlement);
}

#[test]
fn no_daemon_leaves_a_host_before_all_that_may_run_there_is_read() {
    let mut w = on_both();
    let crunch = JobId(201);
    start_batch(&mut w, crunch, 4);
    w.cluster.lingers = true;
    let wish = HostDrain {
        batch_until: w.now,
        agent: false,
    };
    w.direct(Order::Drains(Drains {
        version: 1,
        hosts: [("host-0.example".to_owned(), wish)].into(),
    }));
    w.run(seconds(10));
    assert!(
        on_hosts(&w, crunch).contains_key("host-0"),
        "their kills take long"
    );
    // The next leader knows the daemon at once, and not what else is on the host.
    w.crash();
    let block = BlockKey::of(crunch, &main_group(), InstanceNumber(0));
    w.slow_bucket = Some(block_bucket(crunch, &main_group(), block.number));
    w.elect();
    w.run(seconds(5));
    w.connect();
    let ordered = |w: &mut World| {
        for _ in 0..3 {
            w.order(&[range(0, 1)], 2);
            w.run(seconds(5));
        }
        let kills = w.kills();
        kills.iter().filter(|t| t.starts_with(&job().to_string())).count()
    };
    assert_eq!((ordered(&mut w), w.shard.mode()), (0, Mode::Recovering));
    w.unstall();
    assert_eq!(ordered(&mut w), 0, "all is read, and more than daemons is there");
    for task in w.cluster.live() {
        let host = &w.cluster.tasks[&task].host;
        if task.starts_with(&crunch.to_string()) && *host == HostId::new("host-0") {
            w.cluster.set(&task, TaskState::Killed);
        }
    }
    w.drain();
    assert!(ordered(&mut w) > 0);
}

#[test]
fn a_daemon_is_on_a_host_that_has_moved_unless_it_names_another_host_pool() {
    use echelon_core_model::host_pool::{HostMove, HostMoves, HostPoolChoice};
    for (choice, at_last) in [("*", vec!["host-0", "host-1"]), ("default", vec!["host-1"])] {
        let mut w = racked(2);
        let mut spec = JobBuilder::daemon("agent").build();
        spec.groups[0].siting.host_pool = HostPoolChoice::parse(choice).unwrap();
        w.store_job(&spec);
        w.order(&[range(0, 1)], 2);
        w.run(seconds(3));
        assert_eq!(on_hosts(&w, job()).len(), 2);
        let wish = HostMove {
            to: echelon_core_model::HostPoolName::new("gpu"),
            batch_until: w.now,
        };
        w.direct(Order::HostMoves(HostMoves {
            version: 1,
            hosts: [("host-0.example".to_owned(), wish)].into(),
        }));
        for _ in 0..6 {
            w.order(&[range(0, 1)], 2);
            w.run(seconds(10));
        }
        let there: Vec<String> = on_hosts(&w, job()).into_keys().collect();
        assert_eq!(there, at_last, "{choice}");
        assert_eq!(hosts(&w), u32::try_from(at_last.len()).ok(), "{choice}");
    }
}
