//! Hosts that operators want empty: our work leaves first, then Mesos is asked about the agent, and an agent that we had drained is
//! offered again when nobody wants it empty any more, whoever leads by then.

use crate::world::{Storage, World, range, seconds};
use echelon_core_hosts::Call;
use echelon_core_model::directive::Order;
use echelon_core_model::drain::{AgentDrain, Drains, HostDrain, Stays};
use echelon_core_model::store::{Answer, Query, ShardRow};
use echelon_core_model::time::Span;
use echelon_core_model::{HostId, ReasonCode, RunState, Timestamp};
use echelon_core_testkit::build::JobBuilder;
use std::collections::BTreeSet;

/// Four instances on two hosts, and the first one's host.
fn four(spec: &JobBuilder) -> (World, HostId) {
    let mut w = World::serving();
    w.store_job(&spec.clone().build());
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

fn wish(version: u64, host: &HostId, batch_until: Timestamp) -> Drains {
    let wish = HostDrain {
        batch_until,
        agent: true,
    };
    Drains {
        version,
        hosts: [(format!("{host}.example"), wish)].into(),
    }
}

fn nothing(version: u64) -> Drains {
    Drains {
        version,
        ..Drains::default()
    }
}

fn own(w: &World) -> ShardRow {
    match w.store.read(&Query::Shard(crate::world::c1())) {
        Answer::Shard(row) => row,
        other => panic!("{other:?}"),
    }
}

fn agent_of(w: &World, host: &HostId) -> Option<AgentDrain> {
    let Answer::Hosts(rows) = w.store.read(&Query::Hosts {
        cluster: crate::world::c1(),
        after: None,
        limit: 100,
    }) else {
        panic!("no hosts");
    };
    let row = rows.into_iter().find(|h| h.id == *host).unwrap();
    row.drain.map(|d| d.agent)
}

fn asked(w: &World) -> usize {
    let drains = |c: &&Call| matches!(c, Call::DrainAgent { .. });
    w.calls.iter().filter(drains).count()
}

#[test]
fn a_host_is_emptied_within_max_unavailable_and_then_its_agent_is_drained() {
    let (mut w, host) = four(&JobBuilder::service("web", 4));
    assert_eq!(there(&w, &host), 2);
    w.direct(Order::Drains(wish(1, &host, w.now)));
    let mut lowest = 4;
    for _ in 0..300 {
        w.run(Span::millis(100));
        let up = w.states(4).iter().filter(|s| **s == RunState::Running).count();
        lowest = lowest.min(up);
        // The test's cluster refuses to drain an agent on which something runs.
        if w.cluster.drained.contains(&host) {
            assert!(own(&w).drained_agents.contains(&host), "stored before the call");
        }
    }
    assert_eq!((lowest, there(&w, &host)), (3, 0));
    assert_eq!(w.states(4), [RunState::Running; 4]);
    assert!((0..4).all(|n| w.stored(n).unwrap().attempts == 0), "no failure");
    assert!(w.cluster.drained.contains(&host));
    assert_eq!((asked(&w), agent_of(&w, &host)), (1, Some(AgentDrain::Done)));

    w.direct(Order::Drains(nothing(2)));
    w.run(seconds(120));
    assert!(w.cluster.drained.is_empty());
    assert!(own(&w).drained_agents.is_empty());
    assert_eq!((asked(&w), agent_of(&w, &host)), (1, None));
}

#[test]
fn a_run_with_a_launch_that_has_not_left_is_looked_at_when_its_host_drains() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 4).build());
    w.order(&[range(0, 3)], 0);
    w.run(seconds(2));
    // Intents are under way until storage answers.
    w.storage = Storage::StallsCommits;
    w.send_order(&[range(0, 3)], &[(1, 4)], 4);
    w.run(seconds(1));
    let hosts: BTreeSet<HostId> = (0..4).map(|n| w.record(n).unwrap().run.unwrap().host).collect();
    assert_eq!(w.accepted(), Vec::<String>::new());
    let host = hosts.first().unwrap().clone();
    // The world judges after each step whether each instance is in the sets that it belongs to.
    w.direct(Order::Drains(wish(1, &host, w.now)));
    w.unstall();
    w.run(seconds(60));
    assert_eq!(w.states(4), [RunState::Running; 4]);
    assert_eq!(there(&w, &host), 0);
}

#[test]
fn batch_instances_have_their_time() {
    let (mut w, host) = four(&JobBuilder::batch("crunch", 4));
    let were_there = there(&w, &host);
    w.direct(Order::Drains(wish(1, &host, w.now.plus(Span::minutes(10)))));
    w.run(Span::minutes(9));
    assert_eq!(w.kills(), Vec::<String>::new());
    w.run(Span::minutes(2));
    assert_eq!(w.kills().len(), were_there);
    assert_eq!(there(&w, &host), 0);
    let reasons = (0..4).filter_map(|n| w.stored(n).unwrap().ended);
    assert_eq!(reasons.count(), 0, "they run again elsewhere");
}

#[test]
fn nothing_new_comes_and_the_wait_says_why() {
    let mut w = World::serving();
    let hosts: Vec<HostId> = w.cluster.hosts.keys().cloned().collect();
    let mut drains = nothing(1);
    for host in &hosts {
        drains.hosts.extend(wish(1, host, w.now).hosts);
    }
    w.direct(Order::Drains(drains));
    w.store_job(&JobBuilder::service("web", 2).build());
    w.order(&[range(0, 1)], 2);
    w.run(seconds(5));
    let waiting = w.slice(1).unwrap().waiting;
    assert_eq!(waiting[0].0.code, ReasonCode::HostMaintenance, "{waiting:?}");
    w.direct(Order::Drains(nothing(2)));
    w.order(&[range(0, 1)], 2);
    w.run(seconds(120));
    assert_eq!(w.states(2), [RunState::Running; 2]);
}

#[test]
fn an_older_wish_changes_nothing() {
    let (mut w, host) = four(&JobBuilder::service("web", 4));
    w.direct(Order::Drains(nothing(2)));
    w.direct(Order::Drains(wish(1, &host, w.now)));
    w.run(seconds(60));
    assert_eq!(w.kills(), Vec::<String>::new());
    assert_eq!(own(&w).drains, nothing(2));
}

#[test]
fn a_new_leader_goes_on_without_being_told_again() {
    let (mut w, host) = four(&JobBuilder::service("web", 4));
    w.direct(Order::Drains(wish(1, &host, w.now)));
    w.run(Span::millis(20));
    w.restart();
    w.connect();
    w.order(&[range(0, 3)], 4);
    w.run(Span::minutes(5));
    assert_eq!(there(&w, &host), 0);
    assert!(w.cluster.drained.contains(&host));
    // The wish is taken back while nobody leads, and told late.
    w.restart();
    w.connect();
    w.run(seconds(5));
    assert!(w.cluster.drained.contains(&host), "nobody took it back yet");
    w.direct(Order::Drains(nothing(2)));
    w.run(Span::minutes(2));
    assert!(w.cluster.drained.is_empty());
}

#[test]
fn a_master_that_refuses_is_asked_again_and_its_words_are_shown() {
    let (mut w, host) = four(&JobBuilder::service("web", 4));
    w.cluster.drains_refused = true;
    w.direct(Order::Drains(wish(1, &host, w.now)));
    w.run(Span::minutes(3));
    assert_eq!(there(&w, &host), 0);
    assert!(matches!(agent_of(&w, &host), Some(AgentDrain::Refused(why)) if why.contains("403")));
    assert!(
        (2..=4).contains(&asked(&w)),
        "once a minute, not {} times",
        asked(&w)
    );
    w.cluster.drains_refused = false;
    w.run(Span::minutes(2));
    assert_eq!(agent_of(&w, &host), Some(AgentDrain::Done));
    // The permission is gone when the agent is to be offered again: that is not forgotten, by no leader.
    w.cluster.drains_refused = true;
    w.direct(Order::Drains(nothing(2)));
    w.run(Span::minutes(3));
    w.restart();
    w.connect();
    w.run(Span::minutes(2));
    assert!(w.cluster.drained.contains(&host));
    w.cluster.drains_refused = false;
    w.run(Span::minutes(2));
    assert!(w.cluster.drained.is_empty() && own(&w).drained_agents.is_empty());
}

fn left(w: &World, host: &HostId) -> Vec<(Stays, u32)> {
    let Answer::Hosts(rows) = w.store.read(&Query::Hosts {
        cluster: crate::world::c1(),
        after: None,
        limit: 100,
    }) else {
        panic!("no hosts");
    };
    let row = rows.into_iter().find(|r| r.id == *host).unwrap();
    let left = row.drain.into_iter().flat_map(|d| d.left);
    left.map(|l| (l.why, l.runs)).collect()
}

#[test]
fn what_stays_on_a_host_and_why_is_told_until_it_is_empty() {
    let (mut w, host) = four(&JobBuilder::service("web", 4));
    let here = u32::try_from(there(&w, &host)).unwrap();
    // A start that takes long keeps the job's one place.
    w.cluster.starts = false;
    w.direct(Order::Drains(wish(1, &host, Timestamp(0))));
    w.run(seconds(12));
    let rest = u32::try_from(there(&w, &host)).unwrap();
    assert!(0 < rest && rest < here, "{rest} of {here}");
    assert_eq!(left(&w, &host), [(Stays::MaxUnavailable, rest)]);
    w.cluster.starts = true;
    for n in 0..4 {
        let run = w.record(n).and_then(|r| r.run).unwrap();
        if run.state != RunState::Running {
            w.cluster
                .set(&w.task(n, run.number.0), echelon_core_hosts::TaskState::Running);
        }
    }
    w.run(Span::minutes(2));
    assert_eq!((there(&w, &host), left(&w, &host)), (0, vec![]));
}

#[test]
fn batch_instances_that_may_end_are_told_as_such() {
    let (mut w, host) = four(&JobBuilder::batch("hello", 4));
    let here = u32::try_from(there(&w, &host)).unwrap();
    let until = w.now.plus(Span::minutes(30));
    w.direct(Order::Drains(wish(1, &host, until)));
    w.run(seconds(12));
    assert_eq!(left(&w, &host), [(Stays::MayEnd, here)]);
    w.direct(Order::Drains(nothing(2)));
    w.run(seconds(12));
    assert_eq!(left(&w, &host), []);
}

#[test]
fn a_daemon_is_told_as_what_goes_last() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::batch("hello", 3).build());
    w.order(&[range(0, 2)], 3);
    w.run(seconds(2));
    let host = w.stored(0).unwrap().run.unwrap().host;
    let agent = echelon_core_model::JobId(201);
    let spec = JobBuilder::daemon("agent").build();
    w.cluster.lists = Some(true);
    w.store_head_of(agent, &spec, echelon_core_model::job::Goal::default());
    let ranges = [range(0, 2)];
    w.assign_of(agent, &[(echelon_core_testkit::build::main_group(), &ranges)]);
    let mut order = w.slice_order(&ranges, &[(1, 3)], 1);
    (order.job, order.spec_version, order.head_version) = (agent, 1, echelon_core_model::Version(1));
    w.direct(Order::Slices(vec![order]));
    w.run(seconds(5));
    let until = w.now.plus(Span::minutes(30));
    w.direct(Order::Drains(wish(1, &host, until)));
    w.run(seconds(12));
    let mut told = left(&w, &host);
    told.sort();
    let mut expected = vec![(Stays::MayEnd, 3), (Stays::GoesLast, 1)];
    expected.sort();
    assert_eq!(told, expected);
}
