//! All agents as the master lists them: the cluster's room is known beside other frameworks, and nothing that runs hangs on a list.

use crate::world::{World, range, seconds, task};
use echelon_core_hosts::{Call, TaskState};
use echelon_core_model::directive::ReportPart;
use echelon_core_model::health::{AgentCounts, ShardSigns};
use echelon_core_model::sharing::Others;
use echelon_core_model::{HostId, ReasonCode, Resources, RunState, Span};
use echelon_core_shard::{Alarm, Event};
use echelon_core_testkit::build::{JobBuilder, shape};
use std::collections::BTreeMap;

fn asked(w: &World, call: &Call) -> usize {
    w.calls.iter().filter(|c| *c == call).count()
}

/// A cluster whose master lists its agents; others hold all of every second one, so that it is never offered.
fn beside_others() -> World {
    let mut w = World::new();
    w.cluster.lists = Some(true);
    let half: Vec<HostId> = w.cluster.hosts.keys().skip(1).step_by(2).cloned().collect();
    for host in half {
        let room = w.cluster.hosts[&host];
        w.cluster.others.insert(host, room);
    }
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.run(seconds(5));
    w
}

#[test]
fn the_room_of_a_cluster_is_known_without_any_offer() {
    let mut w = World::new();
    w.cluster.lists = Some(true);
    w.elect();
    w.run(seconds(5));
    let hosts = w.cluster.hosts.len();
    let all = w.cluster.hosts.values().fold(shape(0, 0), |sum, r| sum.plus(*r));
    let told = w.shard.capacity();
    assert_eq!((told.hosts as usize, told.total), (hosts, all));
}

#[test]
fn room_that_others_hold_is_not_offered_for_grants() {
    let w = beside_others();
    let mine = w
        .cluster
        .hosts
        .iter()
        .filter(|(h, _)| !w.cluster.others.contains_key(*h));
    let left = mine.fold(shape(0, 0), |sum, (_, r)| sum.plus(*r));
    let told = w.shard.capacity();
    assert_eq!(told.total, left);
    assert_eq!(told.hosts as usize, w.cluster.hosts.len());
}

#[test]
fn what_waits_for_hosts_that_others_hold_says_so() {
    for (used, offered, code) in [
        (true, false, ReasonCode::UsedByOthers),
        (false, true, ReasonCode::OfferedToOthers),
    ] {
        let mut w = World::new();
        w.cluster.lists = Some(true);
        let hosts = w.cluster.hosts.clone();
        if used {
            w.cluster.others = hosts.clone();
        }
        if offered {
            w.cluster.offered_to_others = hosts.clone();
        }
        w.cluster.sharing.roles = BTreeMap::from([(
            "spark".to_owned(),
            Others {
                used: shape(7, 0),
                offered: Resources::ZERO,
            },
        )]);
        w.elect();
        w.run(seconds(1));
        w.connect();
        w.store_job(&JobBuilder::service("web", 2).build());
        w.order(&[range(0, 1)], 2);
        w.run(seconds(90));
        let waiting = w.slice(1).unwrap().waiting;
        let told: Vec<(ReasonCode, u64)> = waiting.iter().map(|(r, n, _)| (r.code, *n)).collect();
        assert_eq!(told, [(code, 2)]);
        let text = waiting[0].0.to_string();
        assert!(text.contains("role spark uses 7 cpus"), "{text}");
        // They leave, and it begins.
        w.cluster.others.clear();
        w.cluster.offered_to_others.clear();
        for _ in 0..10 {
            w.order(&[range(0, 1)], 2);
            w.run(seconds(40));
        }
        assert_eq!(w.states(2), [RunState::Running; 2]);
    }
}

#[test]
fn who_waits_for_a_grant_revives_no_offers_while_agents_are_listed() {
    for (lists, revived) in [(Some(true), false), (Some(false), true)] {
        let mut w = World::serving();
        w.cluster.lists = lists;
        w.store_job(&JobBuilder::service("web", 6).build());
        w.order(&[range(0, 5)], 2);
        w.run(seconds(180));
        w.calls.clear();
        w.run(seconds(120));
        assert_eq!(asked(&w, &Call::Revive) > 0, revived, "{lists:?}");
    }
}

#[test]
fn a_master_that_lists_nothing_is_told_of_once_and_asked_seldom() {
    let mut w = World::new();
    w.cluster.lists = Some(false);
    w.elect();
    w.run(seconds(1500));
    assert!(matches!(&w.alarms[..], [Alarm::AgentsUnlisted { why }] if why == "403 Forbidden"));
    assert_eq!(asked(&w, &Call::ListAgents), 3);
    w.cluster.lists = Some(true);
    w.run(seconds(600));
    w.cluster.lists = Some(false);
    w.run(seconds(120));
    assert_eq!(w.alarms.len(), 2, "it did, and does not any more");
}

#[test]
fn what_a_list_leaves_out_is_neither_killed_nor_replaced() {
    let mut w = World::serving();
    w.cluster.lists = Some(true);
    w.store_job(&JobBuilder::service("web", 3).build());
    w.order(&[range(0, 2)], 3);
    w.run(seconds(30));
    let before = w.shard.capacity();
    let hosts = std::mem::take(&mut w.cluster.hosts);
    w.run(seconds(900));
    assert_eq!(w.states(3), [RunState::Running; 3]);
    assert_eq!((w.kills(), w.accepted().len()), (vec![], 3));
    assert_eq!(w.shard.capacity().used, before.used);
    w.cluster.hosts = hosts;
    w.run(seconds(120));
    assert_eq!(w.shard.capacity().total, before.total);
}

#[test]
fn an_agent_that_is_listed_again_is_asked_about_its_silent_runs() {
    let mut w = World::serving();
    w.cluster.lists = Some(true);
    w.store_job(&JobBuilder::service("web", 1).build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(10));
    let host = w.cluster.tasks[&task(0, 1, 1)].host.clone();
    w.cluster.silent.push(host.clone());
    w.hear(&task(0, 1, 1), TaskState::Unreachable, host.as_str());
    w.run(seconds(200));
    assert_eq!(w.state(0), RunState::Unreachable);
    // It is back without a word, nothing of it is offered, and the next question about it would be due in minutes.
    w.cluster.silent.clear();
    w.cluster.others.insert(host.clone(), w.cluster.hosts[&host]);
    w.run(seconds(70));
    assert_eq!(w.state(0), RunState::Running);
}

/// What the shard has reported of its observations.
fn signs(w: &World) -> Vec<ShardSigns> {
    let of = |part: &ReportPart| match part {
        ReportPart::Signs(signs) => Some(*signs),
        _ => None,
    };
    w.reports.iter().filter_map(|r| of(&r.part)).collect()
}

#[test]
fn a_mass_loss_of_agents_is_reported_in_few_parts_and_to_the_last_one() {
    let mut w = World::new();
    w.cluster = crate::cluster::Cluster::of(1_001, shape(4, 4096));
    w.cluster.lists = Some(true);
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.run(seconds(5));
    let before = signs(&w).len();
    let lost: Vec<HostId> = w.cluster.hosts.keys().take(1_000).cloned().collect();
    for host in &lost {
        w.now = w.now.plus(Span::millis(1));
        w.step(Event::Cluster(echelon_core_hosts::Event::Failure {
            host: Some(host.clone()),
            executor: None,
        }));
    }
    w.cluster.silent = lost;
    let until = w.now.plus(Span::millis(250));
    while let Some(wake) = w.shard.next_wake().filter(|at| *at <= until) {
        w.now = wake.max(w.now.plus(Span::millis(1)));
        w.step(Event::Wake);
    }
    let told = &signs(&w)[before..];
    assert!(told.len() <= 6, "{} reports in 1.25 s", told.len());
    let counts = AgentCounts {
        active: 1,
        unreachable: 1_000,
    };
    assert_eq!(told.last().unwrap().agents, Some(counts));
}

#[test]
fn a_change_after_a_pause_is_reported_at_once() {
    let mut w = World::new();
    w.cluster.lists = Some(true);
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.run(seconds(5));
    let regular = signs(&w).len();
    while signs(&w).len() == regular {
        w.run(Span::millis(10));
    }
    w.run(Span::millis(300));
    assert!(signs(&w).last().unwrap().subscribed);
    w.cluster.disconnect();
    w.drain();
    assert!(!signs(&w).last().unwrap().subscribed);
}
