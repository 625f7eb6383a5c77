//! How a cluster is shared with other frameworks, by what its master lists and by its quotas.

use super::agents::{agent, listed, shared};
use super::{a, at, launch, offer, with_offers};
use crate::{Agent, Event, Hosts, ListedSharing, QuotaUse};
use echelon_core_model::sharing::{AgentState, Others, RoleShare};
use echelon_core_model::{HostId, Kind, Resources};
use echelon_core_testkit::build::shape;
use std::collections::BTreeMap;

fn cpus(cores: u64) -> Resources {
    shape(cores, 0)
}

/// An agent of ten cores, of which so many are offered to other frameworks, and of these so many to some of
/// our role.
fn offered(host: &str, others: u64, of_role: u64) -> Agent {
    let none = agent(host, 0);
    Agent {
        others: Others {
            offered: cpus(others),
            ..none.others
        },
        offered_of_role: cpus(of_role),
        ..none
    }
}

fn told(hosts: &mut Hosts, second: u64, agents: Vec<Agent>, sharing: ListedSharing) {
    assert!(hosts.list_agents(true, at(second)).is_some());
    hosts.on_event(&shared(agents, sharing), at(second + 1));
}

fn held(hosts: &Hosts, host: &str) -> Others {
    hosts.host(&HostId::new(host)).unwrap().others
}

fn limit(role: &str, limit: u64, counted: u64) -> QuotaUse {
    QuotaUse {
        role: role.to_owned(),
        kind: Kind::Cpus,
        limit: limit * 1000,
        counted: counted * 1000,
    }
}

fn limited(limits: Vec<QuotaUse>) -> ListedSharing {
    ListedSharing {
        role: "eng/web".to_owned(),
        roles: BTreeMap::new(),
        limits: Some(limits),
    }
}

#[test]
fn what_others_are_offered_is_theirs_once_two_lists_tell_it() {
    let mut hosts = with_offers(vec![]);
    listed(&mut hosts, 1, vec![offered("a", 6, 0)]);
    assert_eq!(
        held(&hosts, "a").offered,
        Resources::ZERO,
        "it may be on its way back"
    );
    listed(&mut hosts, 30, vec![offered("a", 8, 0)]);
    assert_eq!(held(&hosts, "a").offered, cpus(6));
    assert_eq!(
        hosts.capacity(at(31)).total.cpus,
        10_000,
        "what is offered may come back at any time"
    );
    listed(&mut hosts, 60, vec![offered("a", 0, 0)]);
    assert_eq!(held(&hosts, "a"), Others::default());
}

#[test]
fn our_own_offers_are_not_those_of_others_of_our_role() {
    let mut hosts = with_offers(vec![offer("o1", "a", cpus(3)), offer("o2", "b", cpus(4))]);
    let agents = || vec![offered("a", 0, 3), offered("b", 0, 6)];
    listed(&mut hosts, 1, agents());
    // What we hold while the question is under way, and what we give back meanwhile, is ours.
    assert!(hosts.list_agents(true, at(30)).is_some());
    let rescinded = Event::Rescind(crate::OfferId("o1".into()));
    hosts.on_event(&rescinded, at(30));
    hosts.on_event(&shared(agents(), ListedSharing::default()), at(31));
    assert_eq!(held(&hosts, "a").offered, Resources::ZERO);
    assert_eq!(held(&hosts, "b").offered, cpus(2));
    // It was given back before the question.
    listed(&mut hosts, 60, agents());
    listed(&mut hosts, 90, agents());
    assert_eq!(held(&hosts, "a").offered, cpus(3));
    assert_eq!(
        hosts.sharing().roles,
        [RoleShare {
            role: String::new(),
            held: Others {
                used: Resources::ZERO,
                offered: cpus(5),
            },
        }]
    );
}

#[test]
fn quota_is_a_bound_of_the_capacity_and_never_below_what_our_tasks_have() {
    let mut hosts = with_offers(vec![offer("o1", "a", shape(2, 100))]);
    hosts.accept(&a(), vec![launch(1, shape(2, 100))], at(0)).unwrap();
    let agents = || {
        let ours = Agent {
            of_role: shape(2, 100),
            ..agent("a", 0)
        };
        vec![ours, agent("b", 0)]
    };
    // Of the five that count three are of others: ours may be five.
    told(&mut hosts, 1, agents(), limited(vec![limit("eng", 8, 5)]));
    let capacity = hosts.capacity(at(2));
    assert_eq!(capacity.total.cpus, 5000);
    assert_eq!(capacity.without_gpus.total.cpus, 5000);
    assert_eq!(capacity.largest_free.cpus, 3000);
    assert_eq!(capacity.largest_host.cpus, 10_000, "a host is no smaller");
    assert_eq!(capacity.total.memory, 2000, "no limit counts it");
    assert_eq!(capacity.sharing.limits.as_ref().unwrap()[0].role, "eng");
    // A quota that is not told stays as it was.
    told(&mut hosts, 30, agents(), ListedSharing::default());
    assert_eq!(hosts.capacity(at(31)).total.cpus, 5000);
    // The smallest one holds, and what runs goes on.
    let two = limited(vec![limit("eng", 8, 2), limit("eng/web", 1, 2)]);
    told(&mut hosts, 60, agents(), two);
    let capacity = hosts.capacity(at(61));
    assert_eq!([capacity.total.cpus, capacity.used.cpus], [2000, 2000]);
    assert_eq!(capacity.largest_free.cpus, 0);
    told(&mut hosts, 90, agents(), limited(vec![]));
    assert_eq!(hosts.capacity(at(91)).total.cpus, 20_000, "it was lifted");
}

/// A master offers reserved resources whatever the limits of their role are, and counts them.
#[test]
fn what_is_reserved_for_our_role_is_ours_beyond_any_limit() {
    let mut hosts = with_offers(vec![]);
    for (second, most, expected) in [(1, 0, 6000), (30, 4, 6000), (60, 8, 8000)] {
        let reserving = Agent {
            reserved: shape(6, 0),
            ..agent("a", 0)
        };
        told(
            &mut hosts,
            second,
            vec![reserving],
            limited(vec![limit("eng", most, 0)]),
        );
        assert_eq!(
            hosts.capacity(at(second + 1)).total.cpus,
            expected,
            "a limit of {most}"
        );
    }
}

#[test]
fn one_host_may_have_what_it_reserves_and_what_the_limit_leaves_beyond_all_that_is_reserved() {
    let mut hosts = with_offers(vec![]);
    let reserving = |name: &str, cpus| Agent {
        reserved: shape(cpus, 0),
        ..agent(name, 0)
    };
    for (second, most, expected) in [(1, 1, (6000, 4000)), (30, 9, (9000, 7000))] {
        let both = vec![reserving("a", 4), reserving("b", 2)];
        told(&mut hosts, second, both, limited(vec![limit("eng", most, 0)]));
        let limits = hosts.sharing().limits.clone();
        let told = limits.iter().flatten().map(|limit| (limit.ours, limit.one_host));
        assert_eq!(told.collect::<Vec<_>>(), [expected], "a limit of {most}");
    }
}

#[test]
fn a_list_that_is_refused_tells_nothing_of_others_any_more() {
    let mut hosts = with_offers(vec![]);
    told(
        &mut hosts,
        1,
        vec![agent("a", 0)],
        limited(vec![limit("eng", 3, 0)]),
    );
    assert_eq!(hosts.capacity(at(2)).total.cpus, 3000);
    assert!(hosts.list_agents(true, at(30)).is_some());
    let why = "403".to_owned();
    hosts.on_event(&Event::Unlisted { why }, at(31));
    assert_eq!(hosts.capacity(at(31)).total.cpus, 10_000);
    assert_eq!(hosts.sharing().limits, None, "unknown, and not unlimited");
}

#[test]
fn what_operators_of_mesos_do_with_an_agent_is_in_its_row() {
    let mut hosts = with_offers(vec![]);
    listed(&mut hosts, 1, vec![agent("a", 0)]);
    hosts.changes();
    for (second, state) in [(30, AgentState::Draining), (60, AgentState::Drained)] {
        let drained = Agent {
            state,
            ..agent("a", 0)
        };
        listed(&mut hosts, second, vec![drained]);
        let rows = hosts.changes().rows;
        assert_eq!(rows.iter().map(|h| h.agent).collect::<Vec<_>>(), [state]);
        assert_eq!(hosts.capacity(at(second + 1)).total, Resources::ZERO);
    }
    // It is activated again: an offer says so before the next list.
    hosts.on_event(&Event::Offers(vec![offer("o1", "a", cpus(10))]), at(62));
    let rows = hosts.changes().rows;
    assert_eq!(
        rows.iter().map(|h| h.agent).collect::<Vec<_>>(),
        [AgentState::Active]
    );
}
