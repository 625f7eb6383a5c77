//! All agents as the master lists them: what that says of a cluster's room, and what it never does.

use super::{a, at, disconnected, free, launch, offer, subscribed, task, update, with_offers};
use crate::{
    Agent, Call, Config, Demand, Event, Hosts, ListedSharing, Offer, OfferedVolume, Reservations, Reserved,
    TaskState,
};
use echelon_core_model::sharing::{AgentState, Others};
use echelon_core_model::{HostId, PortSet, Resources, VolumeId};
use echelon_core_testkit::build::shape;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An agent of ten cores, of which others hold some.
pub fn agent(host: &str, others: u64) -> Agent {
    Agent {
        host: HostId::new(host),
        hostname: Arc::from(format!("{host}.example")),
        address: format!("{host}.example:5051"),
        attributes: BTreeMap::from([("rack".to_owned(), "r1".to_owned())]),
        total: shape(10, 1000),
        disk: None,
        reserved: Resources::ZERO,
        lent: Resources::ZERO,
        ports: PortSet::new(),
        others: Others {
            used: shape(others, others * 100),
            offered: Resources::ZERO,
        },
        of_role: Resources::ZERO,
        offered_of_role: Resources::ZERO,
        state: AgentState::Active,
    }
}

fn list(agents: Vec<Agent>) -> Event {
    shared(agents, ListedSharing::default())
}

/// The same with what the master tells of other frameworks.
pub fn shared(agents: Vec<Agent>, sharing: ListedSharing) -> Event {
    Event::Agents {
        agents,
        awaited: Vec::new(),
        sharing,
        planned: None,
    }
}

/// Asks for all agents at a moment and gets this a second later.
pub fn listed(hosts: &mut Hosts, second: u64, agents: Vec<Agent>) {
    assert_eq!(hosts.list_agents(true, at(second)), Some(Call::ListAgents));
    hosts.on_event(&list(agents), at(second + 1));
}

fn cores(of: Resources) -> u64 {
    of.cpus / 1000
}

#[test]
fn what_others_hold_is_no_room_of_ours_and_makes_nothing_too_large() {
    let mut hosts = with_offers(vec![offer("o1", "a", shape(2, 100))]);
    hosts.accept(&a(), vec![launch(1, shape(2, 100))], at(0)).unwrap();
    listed(&mut hosts, 1, vec![agent("a", 5), agent("b", 10), agent("c", 0)]);
    let told = hosts.capacity(at(2));
    assert_eq!([cores(told.total), cores(told.used)], [15, 2]);
    assert_eq!([cores(told.largest_free), cores(told.largest_host)], [10, 10]);
    assert_eq!(cores(told.without_gpus.total), 15);
    assert_eq!(told.hosts, 3);
    assert_eq!(
        free(&hosts),
        "a 0/2/10, b 0/0/10, c 0/0/10",
        "nothing is free but by offers"
    );
    let host = hosts.host(&HostId::new("c")).unwrap();
    assert_eq!(host.attributes["rack"], "r1");
    assert_eq!(host.address, "c.example:5051");
    // Others take the rest, and a list that is older than our launch never leaves less than we have.
    listed(
        &mut hosts,
        30,
        vec![agent("a", 10), agent("b", 10), agent("c", 10)],
    );
    assert_eq!(cores(hosts.capacity(at(31)).total), 2);
}

#[test]
fn a_launch_that_was_lost_makes_a_listed_host_no_larger() {
    let mut hosts = with_offers(vec![offer("o1", "a", shape(10, 1000))]);
    listed(&mut hosts, 1, vec![agent("a", 0)]);
    hosts.accept(&a(), vec![launch(1, shape(4, 100))], at(3)).unwrap();
    // The master never heard of it and offers everything again; until it is asked the task counts.
    hosts.on_event(&disconnected(), at(4));
    hosts.on_event(&subscribed(), at(5));
    hosts.on_event(&Event::Offers(vec![offer("o2", "a", shape(10, 1000))]), at(6));
    let told = hosts.capacity(at(6));
    assert_eq!([cores(told.total), cores(told.used)], [10, 4]);
}

#[test]
fn what_our_role_holds_beyond_our_tasks_is_others() {
    let mut hosts = with_offers(vec![offer("o1", "a", shape(4, 400))]);
    let two = vec![launch(1, shape(2, 100)), launch(2, shape(2, 100))];
    hosts.accept(&a(), two, at(0)).unwrap();
    assert_eq!(hosts.list_agents(true, at(1)), Some(Call::ListAgents));
    // It ends between the question and the answer: the list may still count it, or not any more.
    hosts.on_event(&update(1, "a", TaskState::Finished), at(1));
    let of_role = |n| Agent {
        of_role: shape(n, 200),
        ..agent("a", 0)
    };
    hosts.on_event(&list(vec![of_role(4)]), at(2));
    assert_eq!(cores(hosts.capacity(at(2)).total), 10);
    listed(&mut hosts, 30, vec![of_role(5)]);
    assert_eq!(
        cores(hosts.capacity(at(31)).total),
        7,
        "three cores are another framework's"
    );
}

#[test]
fn an_agent_that_the_list_leaves_out_is_lost_only_when_nothing_of_ours_is_there() {
    let offers = ["a", "b", "c", "d"].map(|h| offer(&format!("o-{h}"), h, shape(2, 100)));
    let mut hosts = with_offers(offers.into());
    hosts.accept(&a(), vec![launch(1, shape(1, 10))], at(0)).unwrap();
    assert!(hosts.list_agents(true, at(5)).is_some());
    hosts.on_event(&update(9, "c", TaskState::Running), at(6));
    let awaited = vec![HostId::new("d")];
    hosts.on_event(
        &Event::Agents {
            agents: vec![],
            awaited,
            sharing: ListedSharing::default(),
            planned: None,
        },
        at(7),
    );
    assert_eq!(
        free(&hosts),
        "a 0/1/2, c 2/0/2, d 2/0/2",
        "c was heard after the question left"
    );
    assert!(hosts.ledger.holds(&task(1)), "no word about tasks");
    // It is back as soon as it is listed, unless it was lost after the question left.
    listed(&mut hosts, 60, vec![agent("a", 0), agent("b", 0), agent("c", 0)]);
    assert_eq!(hosts.capacity(at(61)).hosts, 3);
    assert!(hosts.list_agents(true, at(90)).is_some());
    hosts.on_event(&update(1, "a", TaskState::Unreachable), at(91));
    hosts.on_event(&list(vec![agent("a", 0), agent("b", 0)]), at(92));
    assert_eq!(free(&hosts), "b 0/0/10");
}

#[test]
fn an_agent_that_is_not_offered_has_no_room() {
    let mut hosts = with_offers(vec![]);
    let barred = Agent {
        state: AgentState::Disconnected,
        ..agent("a", 0)
    };
    listed(&mut hosts, 1, vec![barred, agent("b", 4)]);
    let told = hosts.capacity(at(2));
    assert_eq!((cores(told.total), told.hosts), (6, 1));
    hosts.on_event(&Event::Offers(vec![offer("o1", "a", shape(10, 1000))]), at(3));
    assert_eq!(cores(hosts.capacity(at(3)).total), 16, "an offer is newer");
}

#[test]
fn the_newest_list_says_what_a_host_is_and_lends() {
    let mut hosts = with_offers(vec![offer("o1", "a", shape(20, 2000))]);
    let lending = Agent {
        lent: shape(3, 0),
        ..agent("a", 0)
    };
    listed(&mut hosts, 1, vec![lending]);
    let told = hosts.capacity(at(2));
    assert_eq!([cores(told.largest_host), cores(told.slack.total)], [10, 3]);
    assert_eq!(hosts.changes().rows.len(), 1);
    listed(&mut hosts, 30, vec![agent("a", 2)]);
    assert_eq!(cores(hosts.capacity(at(31)).slack.total), 0);
    let [row] = hosts.changes().rows.try_into().unwrap();
    assert_eq!(cores(row.others.used), 2);
    listed(&mut hosts, 60, vec![agent("a", 2)]);
    assert!(hosts.changes().rows.is_empty(), "nothing has changed");
}

#[test]
fn lists_have_a_rate_that_a_slow_master_lowers() {
    let mut hosts = with_offers(vec![]);
    assert_eq!(
        hosts.next_list(false),
        Some(at(0).min(hosts.next_list(true).unwrap()))
    );
    listed(&mut hosts, 0, vec![]);
    assert_eq!(hosts.next_list(true), Some(at(21)), "it took a second");
    assert_eq!(hosts.next_list(false), Some(at(61)));
    assert_eq!(hosts.list_agents(true, at(20)), None);
    assert!(hosts.list_agents(true, at(21)).is_some());
    hosts.on_event(&list(vec![]), at(31));
    assert_eq!(hosts.next_list(true), Some(at(231)), "it took ten");
    assert!(hosts.knows_all(at(330)) && !hosts.knows_all(at(331)));
    hosts.set_complete(false);
    assert_eq!(hosts.next_list(true), None, "our tasks are still being counted");
    hosts.set_complete(true);
    hosts.on_event(&disconnected(), at(240));
    assert_eq!(hosts.next_list(true), None);
    hosts.on_event(&subscribed(), at(250));
    assert!(hosts.list_agents(true, at(250)).is_some());
    assert_eq!(
        hosts.next_list(true),
        Some(at(370)),
        "without an answer it is lost"
    );
    hosts.on_event(&list(vec![agent("a", 0)]), at(251));
    hosts.on_event(&list(vec![]), at(252));
    assert_eq!(
        hosts.capacity(at(252)).hosts,
        1,
        "nobody asked for the second one"
    );
}

#[test]
fn a_refusal_is_kept_in_mind_and_a_failure_is_tried_again() {
    let mut hosts = with_offers(vec![]);
    assert!(hosts.list_agents(true, at(1)).is_some());
    let failed = Event::CallFailed {
        call: Call::ListAgents,
        why: "503".to_owned(),
        refused: true,
    };
    hosts.on_event(&failed, at(2));
    // While no list has come, nothing is known of the agents, and nothing shows that all of them are gone.
    let next = [true, false].map(|waits| hosts.next_list(waits));
    assert_eq!((next, hosts.is_unlisted()), ([Some(at(17)); 2], false));
    assert!(!hosts.knows_all(at(17)));
    listed(&mut hosts, 17, vec![agent("a", 0)]);
    assert!(hosts.list_agents(true, at(40)).is_some());
    hosts.on_event(&failed, at(41));
    assert_eq!(hosts.next_list(true), Some(at(101)));
    assert!(hosts.list_agents(true, at(101)).is_some());
    let refused = Event::Unlisted {
        why: "403".to_owned(),
    };
    hosts.on_event(&refused, at(102));
    assert_eq!(
        (hosts.next_list(true), hosts.is_unlisted()),
        (Some(at(702)), true)
    );
    listed(&mut hosts, 702, vec![agent("a", 0)]);
    assert!(!hosts.is_unlisted() && hosts.knows_all(at(703)));
}

#[test]
fn attributes_without_bound_take_a_bounded_place_and_the_rest_is_counted() {
    let mut hosts = with_offers(Vec::new());
    let mut big = agent("c", 0);
    big.attributes = (0..70).map(|n| (format!("k{n:02}"), "v".to_owned())).collect();
    big.attributes.insert("a".to_owned(), "x".repeat(100_000));
    listed(&mut hosts, 1, vec![big]);
    let host = hosts.host(&HostId::new("c")).unwrap();
    assert_eq!((host.attributes.len(), host.left_out.attributes), (64, 7));
    assert!(host.attributes.contains_key("k00") && !host.attributes.contains_key("a"));
}

#[test]
fn attributes_beyond_the_bound_are_no_news_each_time() {
    let mut hosts = with_offers(Vec::new());
    let mut big = agent("c", 0);
    big.attributes = (0..70).map(|n| (format!("k{n:02}"), "v".to_owned())).collect();
    listed(&mut hosts, 1, vec![big.clone()]);
    hosts.changes();
    let views = hosts.open_to_all(at(2));
    assert_eq!(views[0].attributes.len(), 64, "no more is kept than is stored");
    listed(&mut hosts, 100, vec![big.clone()]);
    assert_eq!(hosts.changes().rows, []);
    big.attributes.remove("k69");
    listed(&mut hosts, 200, vec![big]);
    let rows = hosts.changes().rows;
    assert_eq!(rows[0].left_out.attributes, 5, "{rows:?}");
}

#[test]
fn volumes_of_a_host_are_bounded_whatever_its_master_says() {
    let volume = |n: u32| Reserved {
        disk: 1,
        by: Reservations::default(),
        volume: Some(OfferedVolume {
            id: VolumeId::new(format!("v{n:05}")),
            principal: None,
            path: "data".to_owned(),
        }),
    };
    let of = |id: &str, n: u32| Offer {
        reserved: (0..n).map(volume).collect(),
        ..offer(id, "a", shape(2, 100))
    };
    let mut hosts = with_offers(vec![of("o1", 3_000)]);
    assert_eq!(hosts.volumes_on(&a()).count(), 1_024);
    let row = hosts.host(&a()).unwrap();
    assert_eq!((row.volumes.len(), row.left_out.volumes), (64, 2_936));
    assert!(hosts.offered_volume(&a(), &VolumeId::new("v00010")).is_some());
    assert!(hosts.offered_volume(&a(), &VolumeId::new("v02999")).is_none());
    // What is known is not forgotten for others.
    hosts.on_event(&Event::Offers(vec![of("o2", 2)]), at(3));
    assert_eq!(hosts.volumes_on(&a()).count(), 1_024);
    assert_eq!(hosts.host(&a()).unwrap().left_out.volumes, 960);
}

#[test]
fn hosts_that_a_master_makes_up_are_bounded() {
    let config = Config {
        most_hosts: 3,
        ..Config::usual()
    };
    let mut hosts = Hosts::new(config);
    hosts.on_event(&subscribed(), at(0));
    let offers = (0..5).map(|n| offer(&format!("o{n}"), &format!("h{n}"), shape(2, 100)));
    hosts.on_event(&Event::Offers(offers.collect()), at(0));
    (0..9).for_each(|n| hosts.on_event(&update(n, &format!("y{n}"), TaskState::Running), at(3)));
    assert_eq!(hosts.views(at(3)).len(), 3);
    assert_eq!(hosts.open_offers(), 3);
    let waits = Demand::Hosts {
        news: 1,
        placing: true,
    };
    let calls = hosts.next_calls(waits, at(3));
    let declined = calls
        .iter()
        .any(|c| matches!(c, Call::Decline { offers, .. } if offers.len() == 2));
    assert!(declined, "{calls:?}");
    listed(&mut hosts, 5, vec![agent("x", 0)]);
    assert!(!hosts.knows(&HostId::new("x")));
}

/// An agent under a new id, on the machine and port of another one.
fn successor(host: &str, address: &str) -> Agent {
    Agent {
        hostname: Arc::from("a.example"),
        address: address.to_owned(),
        ..agent(host, 0)
    }
}

/// A host that runs something of ours, and falls silent.
fn silent() -> Hosts {
    let mut hosts = with_offers(vec![offer("o1", "a", shape(2, 100))]);
    hosts.accept(&a(), vec![launch(1, shape(1, 10))], at(0)).unwrap();
    listed(&mut hosts, 1, vec![agent("a", 0)]);
    hosts.on_event(&update(1, "a", TaskState::Unreachable), at(10));
    hosts
}

#[test]
fn an_agent_is_replaced_when_another_one_is_listed_at_its_address() {
    let mut hosts = silent();
    listed(&mut hosts, 60, vec![successor("n", "a.example:5051")]);
    assert!(hosts.is_replaced(&a()));
    assert_eq!(hosts.take_replaced(), [a()]);
    listed(&mut hosts, 130, vec![successor("n", "a.example:5051")]);
    assert_eq!(hosts.take_replaced(), [], "it is told once");
    // It counts as lost, also where nothing else has told that.
    let mut unheard = with_offers(vec![offer("o1", "a", shape(2, 100))]);
    unheard
        .accept(&a(), vec![launch(1, shape(1, 10))], at(0))
        .unwrap();
    listed(&mut unheard, 1, vec![agent("a", 0)]);
    listed(&mut unheard, 60, vec![successor("n", "a.example:5051")]);
    assert!(unheard.is_replaced(&a()));
    assert_eq!(free(&unheard), "n 0/0/10");
    // The new one may go away, too.
    listed(&mut hosts, 200, vec![]);
    assert!(hosts.is_replaced(&a()));
    // It is back after all.
    hosts.on_event(&update(1, "a", TaskState::Running), at(210));
    assert!(!hosts.is_replaced(&a()));
    listed(&mut hosts, 270, vec![agent("a", 0)]);
    hosts.on_event(&update(1, "a", TaskState::Unreachable), at(280));
    assert!(!hosts.is_replaced(&a()), "its next silence is another one");
}

#[test]
fn an_agent_is_not_replaced_while_it_may_be_there() {
    // Another agent of the same machine, the same address under another name, and no address at all.
    let other_name = Agent {
        hostname: Arc::from("b.example"),
        ..successor("n", "a.example:5051")
    };
    for other in [successor("n", "a.example:5052"), other_name, successor("n", "")] {
        let mut hosts = silent();
        listed(&mut hosts, 60, vec![other]);
        assert!(!hosts.is_replaced(&a()));
        assert_eq!(hosts.take_replaced(), []);
    }
    // The master lists both, or waits for the old one since its election.
    let both = vec![agent("a", 0), successor("n", "a.example:5051")];
    let awaits = Event::Agents {
        agents: vec![successor("n", "a.example:5051")],
        awaited: vec![a()],
        sharing: ListedSharing::default(),
        planned: None,
    };
    for list in [list(both), awaits] {
        let mut hosts = silent();
        assert_eq!(hosts.list_agents(true, at(60)), Some(Call::ListAgents));
        hosts.on_event(&list, at(61));
        assert!(!hosts.is_replaced(&a()));
    }
    // It was heard after the question left.
    let mut hosts = silent();
    assert_eq!(hosts.list_agents(true, at(60)), Some(Call::ListAgents));
    hosts.on_event(&update(1, "a", TaskState::Running), at(61));
    hosts.on_event(&update(1, "a", TaskState::Unreachable), at(61));
    hosts.on_event(&list(vec![successor("n", "a.example:5051")]), at(62));
    assert!(!hosts.is_replaced(&a()));
}
