//! Hosts that go to another host pool: left empty under the rules of their jobs, changed when that is stored, and whoever leads by then
//! goes on with it.

use crate::world::{Storage, World, c1, range, seconds};
use echelon_core_hosts::TaskState;
use echelon_core_model::cluster::Host;
use echelon_core_model::directive::Order;
use echelon_core_model::drain::{Drains, HostDrain, Stays};
use echelon_core_model::host_pool::{HostMove, HostMoves, HostPoolChoice};
use echelon_core_model::spec::JobSpec;
use echelon_core_model::store::{Answer, Query, ShardRow};
use echelon_core_model::time::Span;
use echelon_core_model::{HostId, HostPoolName, ReasonCode, RunState, Timestamp};
use echelon_core_testkit::build::JobBuilder;

fn pool(name: &str) -> HostPoolName {
    HostPoolName::new(name)
}

/// So many instances, on hosts of a host pool.
fn web(of: &str, instances: u32) -> JobSpec {
    let mut spec = JobBuilder::service("web", instances).build();
    spec.groups[0].siting.host_pool = HostPoolChoice::parse(of).unwrap();
    spec
}

/// Four instances in `default`, and the first one's host, which has two.
fn four() -> (World, HostId) {
    let mut w = World::serving();
    w.store_job(&web("default", 4));
    w.order(&[range(0, 3)], 4);
    w.run(seconds(2));
    assert_eq!(w.states(4), [RunState::Running; 4]);
    let host = w.stored(0).unwrap().run.unwrap().host;
    (w, host)
}

fn there(w: &World, host: &HostId) -> usize {
    let on = |n: &u32| w.stored(*n).unwrap().run.unwrap().host == *host;
    (0..4).filter(on).count()
}

fn named(host: &HostId) -> String {
    format!("{host}.example")
}

fn to(version: u64, hosts: &[&HostId], name: &str, batch_until: Timestamp) -> HostMoves {
    let wish = HostMove {
        to: pool(name),
        batch_until,
    };
    HostMoves {
        version,
        hosts: hosts.iter().map(|host| (named(host), wish.clone())).collect(),
    }
}

fn nowhere(version: u64) -> HostMoves {
    to(version, &[], "default", Timestamp(0))
}

fn own(w: &World) -> ShardRow {
    match w.store.read(&Query::Shard(c1())) {
        Answer::Shard(row) => row,
        other => panic!("{other:?}"),
    }
}

fn row(w: &World, host: &HostId) -> Host {
    let Answer::Hosts(rows) = w.store.read(&Query::Hosts {
        cluster: c1(),
        after: None,
        limit: 100,
    }) else {
        panic!("no hosts");
    };
    rows.into_iter().find(|h| h.id == *host).unwrap()
}

#[test]
fn a_host_is_emptied_within_max_unavailable_and_is_in_its_new_host_pool_then() {
    let (mut w, host) = four();
    assert_eq!(there(&w, &host), 2);
    w.direct(Order::HostMoves(to(1, &[&host], "gpu", w.now)));
    let mut lowest = 4;
    for _ in 0..300 {
        w.run(Span::millis(100));
        let up = w.states(4).iter().filter(|s| **s == RunState::Running).count();
        lowest = lowest.min(up);
        if there(&w, &host) > 0 {
            assert!(own(&w).host_pools.is_empty(), "it changes when it is empty");
        }
    }
    assert_eq!((lowest, there(&w, &host)), (3, 0));
    assert_eq!(w.states(4), [RunState::Running; 4]);
    assert!((0..4).all(|n| w.stored(n).unwrap().attempts == 0), "no failure");
    assert_eq!(own(&w).host_pools, [(named(&host), pool("gpu"))].into());
    let place = row(&w, &host).place;
    assert_eq!((place.pool, place.moving), (pool("gpu"), None));
}

#[test]
fn work_begins_on_hosts_of_its_host_pool_as_soon_as_there_are_some_and_says_why_it_waits() {
    let mut w = World::serving();
    let hosts: Vec<HostId> = w.cluster.hosts.keys().cloned().collect();
    w.store_job(&web("gpu", 2));
    w.order(&[range(0, 1)], 2);
    w.run(seconds(5));
    let waiting = w.slice(1).unwrap().waiting;
    assert_eq!(waiting[0].0.code, ReasonCode::HostPool, "{waiting:?}");
    w.direct(Order::HostMoves(to(1, &[&hosts[1]], "gpu", w.now)));
    w.order(&[range(0, 1)], 2);
    w.run(seconds(30));
    assert_eq!(w.states(2), [RunState::Running; 2]);
    for n in 0..2 {
        assert_eq!(w.stored(n).unwrap().run.unwrap().host, hosts[1]);
    }
    // And back: they have nowhere to go, so one leaves at a time and waits.
    w.direct(Order::HostMoves(to(2, &[&hosts[1]], "default", w.now)));
    w.run(seconds(60));
    w.order(&[range(0, 1)], 2);
    w.run(seconds(60));
    let left = row(&w, &hosts[1]).place.moving.unwrap().left;
    assert_eq!(
        left.iter().map(|l| (l.why, l.runs)).collect::<Vec<_>>(),
        [(Stays::MaxUnavailable, 1)]
    );
}

#[test]
fn nothing_of_the_new_host_pool_begins_before_the_change_is_stored() {
    let mut w = World::serving();
    let hosts: Vec<HostId> = w.cluster.hosts.keys().cloned().collect();
    w.store_job(&web("gpu", 1));
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    w.direct(Order::HostMoves(to(1, &[&hosts[0]], "gpu", w.now)));
    w.storage = Storage::StallsCommits;
    w.run(seconds(2));
    assert_eq!(w.record(0).and_then(|r| r.run).map(|r| r.state), None);
    w.unstall();
    w.order(&[range(0, 0)], 1);
    w.run(seconds(30));
    assert_eq!(w.states(1), [RunState::Running]);
}

#[test]
fn a_new_leader_goes_on_with_moves_and_knows_where_hosts_are() {
    let (mut w, host) = four();
    w.direct(Order::HostMoves(to(1, &[&host], "gpu", w.now)));
    w.run(Span::millis(20));
    w.restart();
    w.connect();
    w.order(&[range(0, 3)], 4);
    w.run(Span::minutes(2));
    assert_eq!((there(&w, &host), row(&w, &host).place.pool), (0, pool("gpu")));
    w.restart();
    w.connect();
    w.order(&[range(0, 3)], 4);
    w.run(Span::minutes(1));
    assert_eq!((there(&w, &host), row(&w, &host).place.pool), (0, pool("gpu")));
    assert_eq!(w.states(4), [RunState::Running; 4]);
}

#[test]
fn who_comes_after_a_leader_that_died_at_any_moment_brings_the_move_to_its_end() {
    for millis in (0..3_000).step_by(100) {
        let (mut w, host) = four();
        w.direct(Order::HostMoves(to(1, &[&host], "gpu", w.now)));
        w.run(Span::millis(millis));
        w.restart();
        w.connect();
        w.order(&[range(0, 3)], 4);
        // The wish may have died with the leader: it is repeated as long as it stands.
        w.direct(Order::HostMoves(to(1, &[&host], "gpu", w.now)));
        w.run(Span::minutes(1));
        assert_eq!(there(&w, &host), 0, "after {millis} ms");
        assert_eq!(row(&w, &host).place.pool, pool("gpu"), "after {millis} ms");
        assert_eq!(w.states(4), [RunState::Running; 4], "after {millis} ms");
    }
}

#[test]
fn a_move_that_is_taken_back_leaves_hosts_that_have_changed_and_frees_the_others() {
    let (mut w, host) = four();
    let hosts: Vec<HostId> = w.cluster.hosts.keys().cloned().collect();
    let empty = hosts.iter().find(|h| there(&w, h) == 0);
    let other = hosts.iter().find(|h| **h != host && there(&w, h) == 1).unwrap();
    let other = empty.unwrap_or(other).clone();
    // A start that takes long keeps the job's one place, so the first host stays half full.
    w.cluster.starts = false;
    w.direct(Order::HostMoves(to(1, &[&host], "gpu", w.now)));
    w.run(seconds(5));
    assert!(there(&w, &host) > 0);
    w.direct(Order::HostMoves(nowhere(2)));
    w.cluster.starts = true;
    for n in 0..4 {
        let run = w.record(n).and_then(|r| r.run).unwrap();
        if run.state != RunState::Running {
            w.cluster.set(&w.task(n, run.number.0), TaskState::Running);
        }
    }
    w.run(seconds(30));
    let place = row(&w, &host).place;
    assert_eq!((place.pool, place.moving), (pool("default"), None));
    assert!(there(&w, &host) > 0, "what was there stays");
    w.direct(Order::HostMoves(to(3, &[&other], "gpu", w.now)));
    w.run(Span::minutes(1));
    w.direct(Order::HostMoves(nowhere(4)));
    w.run(seconds(30));
    assert_eq!(row(&w, &other).place.pool, pool("gpu"), "it had changed");
}

#[test]
fn an_older_wish_changes_nothing() {
    let (mut w, host) = four();
    w.direct(Order::HostMoves(nowhere(2)));
    w.direct(Order::HostMoves(to(1, &[&host], "gpu", w.now)));
    w.run(seconds(60));
    assert_eq!(w.kills(), Vec::<String>::new());
    assert_eq!(own(&w).moves, nowhere(2));
}

#[test]
fn a_host_that_is_drained_while_it_moves_changes_and_takes_work_when_it_is_not_drained_any_more() {
    let mut w = World::serving();
    let host = w.cluster.hosts.keys().next().unwrap().clone();
    w.store_job(&web("gpu", 2));
    w.order(&[range(0, 1)], 2);
    w.run(seconds(2));
    let wish = HostDrain {
        batch_until: w.now,
        agent: false,
    };
    w.direct(Order::HostMoves(to(1, &[&host], "gpu", w.now)));
    w.direct(Order::Drains(Drains {
        version: 1,
        hosts: [(named(&host), wish)].into(),
    }));
    w.run(Span::minutes(1));
    w.order(&[range(0, 1)], 2);
    w.run(Span::minutes(1));
    assert_eq!(row(&w, &host).place.pool, pool("gpu"));
    assert!(row(&w, &host).drain.is_some());
    let waiting = w.slice(1).unwrap().waiting;
    assert_eq!(waiting[0].0.code, ReasonCode::HostMaintenance, "{waiting:?}");
    w.direct(Order::Drains(Drains {
        version: 2,
        ..Drains::default()
    }));
    w.order(&[range(0, 1)], 2);
    w.run(seconds(30));
    assert_eq!(w.states(2), [RunState::Running; 2]);
}

#[test]
fn a_host_that_is_lost_while_it_moves_changes_when_what_it_had_is_given_up() {
    let (mut w, host) = four();
    w.cluster.silent.push(host.clone());
    w.direct(Order::HostMoves(to(1, &[&host], "gpu", w.now)));
    for n in 0..4 {
        if w.stored(n).unwrap().run.unwrap().host == host {
            w.hear(&w.task(n, 1), TaskState::Unreachable, host.as_str());
        }
    }
    w.run(seconds(30));
    assert!(own(&w).host_pools.is_empty(), "it may still have something");
    for _ in 0..20 {
        w.order(&[range(0, 3)], 4);
        w.run(seconds(30));
    }
    assert_eq!(there(&w, &host), 0);
    w.cluster.silent.clear();
    for _ in 0..20 {
        w.order(&[range(0, 3)], 4);
        w.run(seconds(30));
    }
    assert_eq!(own(&w).host_pools, [(named(&host), pool("gpu"))].into());
    assert_eq!(there(&w, &host), 0, "it is not for this job any more");
}

#[test]
fn batch_instances_have_their_time() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::batch("crunch", 4).build());
    w.order(&[range(0, 3)], 4);
    w.run(seconds(2));
    let host = w.stored(0).unwrap().run.unwrap().host;
    let until = w.now.plus(Span::minutes(10));
    w.direct(Order::HostMoves(to(1, &[&host], "gpu", until)));
    w.run(Span::minutes(9));
    assert_eq!(w.kills(), Vec::<String>::new());
    let left = row(&w, &host).place.moving.unwrap().left;
    assert_eq!(left[0].why, Stays::MayEnd);
    w.run(Span::minutes(2));
    assert_eq!(there(&w, &host), 0);
    assert_eq!(row(&w, &host).place.pool, pool("gpu"));
}

#[test]
fn an_agent_that_comes_back_under_another_id_is_in_the_host_pool_of_its_name() {
    let (mut w, host) = four();
    w.direct(Order::HostMoves(to(1, &[&host], "gpu", w.now)));
    w.run(Span::minutes(1));
    let agents = |w: &World| own(w).host_pools.into_keys().collect::<Vec<_>>();
    assert_eq!(agents(&w), [named(&host)]);
    // Another leader knows it from the shard's row alone, even if the host's row is gone.
    w.restart();
    w.connect();
    w.order(&[range(0, 3)], 4);
    w.run(seconds(20));
    assert_eq!(row(&w, &host).place.pool, pool("gpu"));
    assert_eq!(there(&w, &host), 0);
}
