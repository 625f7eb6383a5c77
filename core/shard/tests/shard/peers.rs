//! Members of a gang are told where all of them are before the first of them begins, and by whoever leads then.

use crate::cluster::Cluster;
use crate::world::{Storage, World, job, range, seconds};
use echelon_core_hosts::TaskState;
use echelon_core_model::directive::Order;
use echelon_core_model::runtime::{PortSpec, Protocol, Runtime, Visibility};
use echelon_core_model::{GroupName, HostId, PortSet, Resources};
use echelon_core_testkit::build::{JobBuilder, main_group, shape};
use std::collections::BTreeMap;

fn port(name: &str) -> PortSpec {
    PortSpec {
        name: name.to_owned(),
        fixed: None,
        container_port: None,
        protocol: Protocol::Tcp,
        visibility: Visibility::Cluster,
    }
}

/// A gang of two of `main` and one of `ps` on two hosts of three cores, which have ports from 31000 on; it is not granted yet.
fn world(ports: &[PortSpec]) -> World {
    let mut w = World::new();
    let room = Resources {
        disk: 100,
        ..shape(3, 4096)
    };
    w.cluster = Cluster::of(2, room);
    let mut free = PortSet::new();
    free.insert(31_000, 31_009);
    let hosts: Vec<HostId> = w.cluster.hosts.keys().cloned().collect();
    w.cluster.ports = hosts.into_iter().map(|h| (h, free.clone())).collect();
    w.elect();
    w.run(seconds(1));
    w.connect();
    let builder = JobBuilder::batch("train", 2).shape(shape(1, 64));
    let builder = builder.runtime(|r| r.ports = ports.to_vec());
    let builder = builder.sidecar("log", Runtime::shell("log"));
    w.store_job(&builder.with_group("ps", 1, shape(1, 64)).gang().build());
    w
}

fn grant(w: &mut World) {
    w.order(&[range(0, 1)], 2);
    let mut order = w.slice_order(&[range(0, 0)], &[(1, 1)], 1);
    order.group = GroupName::new("ps");
    w.direct(Order::Slices(vec![order]));
}

/// What a task was told of its gang.
fn told(w: &World, task: &str) -> BTreeMap<String, String> {
    let env = w.cluster.tasks[task].env.clone().into_iter();
    env.filter(|(name, _)| name.starts_with("ECHELON_GANG_"))
        .collect()
}

fn tasks() -> [String; 3] {
    ["main.0", "main.1", "ps.0"].map(|member| format!("{}.{member}.1.1", job()))
}

/// Where the first runs of all members are, as they really are.
fn places(w: &World) -> Vec<String> {
    let place = |task: &String| {
        let task = &w.cluster.tasks[task];
        format!("{}.example:{}", task.host, task.ports[0])
    };
    tasks().iter().map(place).collect()
}

#[test]
fn members_are_told_where_all_of_them_are() {
    let mut w = world(&[port("rpc"), port("http")]);
    grant(&mut w);
    w.run(seconds(5));
    assert_eq!(w.cluster.live().len(), 6, "{:#?}", w.reports.last());
    let places = places(&w);
    for (rank, task) in tasks().iter().enumerate() {
        let told = told(&w, task);
        let of = |name: &str| {
            told.get(&format!("ECHELON_GANG_{name}"))
                .cloned()
                .unwrap_or_default()
        };
        assert_eq!((of("SIZE"), of("RANK")), ("3".to_owned(), rank.to_string()));
        assert_eq!((of("FIRST"), of("HOSTS")), (places[0].clone(), places.join(",")));
        assert_eq!(of("HOSTS_MAIN"), places[..2].join(","));
        assert_eq!(of("HOSTS_PS"), places[2]);
        assert_ne!(of("HOSTS_PS__HTTP"), places[2], "{told:?}");
        assert_eq!(told.len(), 10, "{told:?}");
    }
    let sidecar = told(&w, &format!("{}.log", tasks()[1]));
    assert_eq!(sidecar, told(&w, &tasks()[1]), "a sidecar is told the same");
}

#[test]
fn what_a_leader_launches_for_the_one_before_it_is_told_the_same() {
    let mut w = world(&[port("rpc")]);
    w.cluster.drops_accepts = true;
    grant(&mut w);
    w.run(seconds(2));
    assert!(w.cluster.tasks.is_empty(), "intents only");
    let ranges = [
        (main_group(), &[range(0, 1)][..]),
        (GroupName::new("ps"), &[range(0, 0)][..]),
    ];
    w.assign_groups(&ranges);
    w.crash();
    w.cluster.drops_accepts = false;
    w.storage = Storage::Works;
    w.restart();
    w.connect();
    grant(&mut w);
    w.run(seconds(120));
    let live = w.cluster.live();
    assert!(live.len() >= 3, "{live:?}");
    let told_of = |task: &String| told(&w, task)["ECHELON_GANG_HOSTS"].clone();
    let place = |task: &String| {
        let task = &w.cluster.tasks[task];
        format!("{}.example:{}", task.host, task.ports[0])
    };
    let mains: Vec<&String> = live.iter().filter(|t| !t.ends_with(".log")).collect();
    let last = mains.iter().map(|t| told_of(t)).next_back().unwrap();
    let places: Vec<String> = mains.iter().map(|t| place(t)).collect();
    assert_eq!(last, places.join(","));
}

#[test]
fn who_follows_by_itself_is_told_of_the_others_as_they_are_and_they_keep_what_they_were_told() {
    let mut w = world(&[port("rpc")]);
    grant(&mut w);
    w.run(seconds(5));
    let before = told(&w, &tasks()[0]);
    w.cluster.set(&tasks()[1], TaskState::Failed);
    w.run(seconds(10));
    let second = format!("{}.main.1.1.2", job());
    let own = {
        let task = &w.cluster.tasks[&second];
        format!("{}.example:{}", task.host, task.ports[0])
    };
    let now = told(&w, &second);
    assert_eq!(
        now["ECHELON_GANG_HOSTS_MAIN"],
        format!("{},{own}", places(&w)[0]),
        "{now:?}"
    );
    assert_eq!(told(&w, &tasks()[0]), before);
}

#[test]
fn who_is_no_gang_is_told_nothing() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::batch("plain", 1).build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(3));
    assert_eq!(told(&w, &w.task(0, 1)), BTreeMap::new());
}
