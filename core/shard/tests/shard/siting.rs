//! Rules about runs: what a shard tells placement of its own runs and of other jobs', so that they are kept.

use crate::world::{World, job, range, seconds};
use echelon_core_model::directive::Order;
use echelon_core_model::siting::Affinity;
use echelon_core_model::spec::{JobSpec, OnSilence};
use echelon_core_model::{HostId, JobId, ReasonCode, RunState};
use echelon_core_testkit::build::{JobBuilder, main_group, shape};
use std::collections::{BTreeMap, BTreeSet};

/// Hosts of a rack each two, three racks.
fn racked() -> World {
    let mut w = World::new();
    w.cluster = crate::cluster::Cluster::of(6, shape(8, 4096));
    w.cluster.attributes = (0..6)
        .map(|n| {
            let rack = ("rack".to_owned(), format!("r{}", n / 2));
            (HostId::new(format!("host-{n}")), [rack].into())
        })
        .collect();
    w.elect();
    w.run(seconds(1));
    w.connect();
    w
}

fn start(w: &mut World, of: JobId, spec: &JobSpec, instances: u32) {
    w.store_head_of(of, spec, echelon_core_model::job::Goal::default());
    let range = range(0, instances - 1);
    w.assign_of(of, &[(main_group(), std::slice::from_ref(&range))]);
    let mut order = w.slice_order(std::slice::from_ref(&range), &[(1, instances.into())], 1);
    order.job = of;
    order.spec_version = 1;
    order.head_version = echelon_core_model::Version(1);
    w.direct(Order::Slices(vec![order]));
    w.run(seconds(3));
}

/// The racks of a job's live tasks, with how many are in each.
fn racks(w: &World, of: JobId) -> BTreeMap<u64, u32> {
    let mut out = BTreeMap::new();
    for task in w.cluster.live().iter().filter(|t| t.starts_with(&of.to_string())) {
        let host = w.cluster.tasks[task].host.as_str();
        let n: u64 = host.strip_prefix("host-").unwrap().parse().unwrap();
        *out.entry(n / 2).or_default() += 1;
    }
    out
}

#[test]
fn no_more_of_a_group_than_may_be_are_in_a_rack_whatever_is_on_its_way() {
    let mut w = racked();
    let spec = JobBuilder::service("web", 8).siting(|s| {
        s.max_per.insert("rack".to_owned(), 2);
    });
    start(&mut w, job(), &spec.build(), 8);
    assert_eq!(racks(&w, job()), [(0, 2), (1, 2), (2, 2)].into());
    let waiting = w.slice(1).unwrap().waiting;
    let told: Vec<(ReasonCode, u64)> = waiting.iter().map(|(r, n, _)| (r.code, *n)).collect();
    assert_eq!(told, [(ReasonCode::HostMaxPer, 2)]);
}

#[test]
fn runs_that_are_not_sent_yet_count_where_they_will_be() {
    let mut w = World::new();
    let mut config = crate::world::config("one");
    config.timing.place_batch = 1;
    w.shard = echelon_core_shard::Shard::new(config);
    w.cluster = crate::cluster::Cluster::of(4, shape(8, 4096));
    w.cluster.attributes = (0..4)
        .map(|n| {
            (
                HostId::new(format!("host-{n}")),
                [("rack".to_owned(), "r0".to_owned())].into(),
            )
        })
        .collect();
    w.elect();
    w.run(seconds(1));
    w.connect();
    let spec = JobBuilder::service("web", 4).siting(|s| {
        s.max_per.insert("rack".to_owned(), 2);
    });
    start(&mut w, job(), &spec.build(), 4);
    assert_eq!(
        racks(&w, job()).values().sum::<u32>(),
        2,
        "the second question came before the first launch"
    );
}

#[test]
fn two_agents_of_a_machine_have_one_of_a_group_that_may_have_one_a_machine() {
    let mut w = World::new();
    for agent in ["host-0", "host-1"] {
        w.cluster.machines.insert(HostId::new(agent), "both".to_owned());
    }
    w.elect();
    w.run(seconds(1));
    w.connect();
    let spec = JobBuilder::service("web", 3).siting(|s| {
        s.max_per.insert("hostname".to_owned(), 1);
    });
    start(&mut w, job(), &spec.build(), 3);
    w.run(seconds(10));
    assert_eq!(w.cluster.live().len(), 2);
    let waiting = w.slice(1).unwrap().waiting;
    let told: Vec<(ReasonCode, u64)> = waiting.iter().map(|(r, n, _)| (r.code, *n)).collect();
    assert_eq!(told, [(ReasonCode::HostMaxPer, 1)]);
}

#[test]
fn a_run_on_an_agent_that_was_replaced_keeps_no_other_from_its_machine() {
    let mut w = World::new();
    w.cluster = crate::cluster::Cluster::of(1, shape(8, 4096));
    w.cluster.lists = Some(true);
    w.elect();
    w.run(seconds(1));
    w.connect();
    let mut spec = JobBuilder::service("web", 1)
        .siting(|s| {
            s.max_per.insert("hostname".to_owned(), 1);
            s.exclusive = true;
        })
        .build();
    spec.on_gone = Some(OnSilence::Replace(seconds(60)));
    start(&mut w, job(), &spec, 1);
    let old = w.stored(0).and_then(|record| record.run).unwrap().host;
    let new = w.cluster.replace_agent(&old);
    w.run(seconds(300));
    let run = w.stored(0).and_then(|record| record.run).unwrap();
    assert_eq!((run.host, run.state), (new, RunState::Running));
}

#[test]
fn jobs_keep_away_from_each_other_and_near_by_their_labels() {
    let mut w = racked();
    let labelled = |name: &str, n: u32| {
        let mut spec = JobBuilder::service(name, n).build();
        spec.labels = [("app".to_owned(), name.to_owned())].into();
        spec
    };
    let of = |app: &str, topology: &str| {
        vec![Affinity {
            labels: [("app".to_owned(), app.to_owned())].into(),
            topology: topology.to_owned(),
            weight: None,
        }]
    };
    let (db, cache, noisy, lone) = (job(), JobId(201), JobId(202), JobId(203));
    let mut spec = labelled("db", 1);
    spec.groups[0].siting.anti_affinity = of("noisy", "rack");
    start(&mut w, db, &spec, 1);
    let mut spec = labelled("cache", 2);
    spec.groups[0].siting.affinity = of("db", "rack");
    start(&mut w, cache, &spec, 2);
    let at = |w: &World, of: JobId| racks(w, of).into_keys().collect::<BTreeSet<u64>>();
    assert_eq!(at(&w, db).len(), 1);
    assert_eq!(at(&w, cache), at(&w, db));
    start(&mut w, noisy, &labelled("noisy", 4), 4);
    assert_eq!(racks(&w, noisy).values().sum::<u32>(), 4);
    assert!(
        at(&w, noisy).is_disjoint(&at(&w, db)),
        "who was there first is kept to"
    );
    let mut spec = labelled("lone", 1);
    spec.groups[0].siting.exclusive = true;
    start(&mut w, lone, &spec, 1);
    assert_eq!(racks(&w, lone), BTreeMap::new(), "something is on each host");
}
