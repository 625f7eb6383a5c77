//! Planned maintenance: when hosts are to be left, and what is answered.

use super::{at, demand, disconnected, launch, offer, say, subscribed, task, with_offers};
use crate::{Call, Drain, Event, Hosts, InverseOffer, ListedSharing, Offer, OfferId};
use echelon_core_model::cluster::Maintenance;
use echelon_core_model::{HostId, Timestamp};
use echelon_core_testkit::build::shape;
use std::sync::Arc;

/// Begins two hours after second 0 and lasts an hour.
fn window() -> Maintenance {
    Maintenance {
        from: at(7200),
        until: Some(at(10_800)),
    }
}

fn planned(id: &str, host: &str) -> Offer {
    Offer {
        maintenance: Some(window()),
        ..offer(id, host, shape(2, 100))
    }
}

fn asked(host: &str) -> Event {
    Event::InverseOffers(vec![InverseOffer {
        id: OfferId(Arc::from(format!("i-{host}"))),
        host: HostId::new(host),
        maintenance: window(),
    }])
}

/// One host with a task and one without, of both of which maintenance is planned.
fn two() -> Hosts {
    let mut hosts = with_offers(vec![planned("o1", "a"), planned("o2", "b")]);
    hosts
        .accept(&HostId::new("a"), vec![launch(1, shape(1, 10))], at(0))
        .unwrap();
    hosts.on_event(&asked("a"), at(1));
    hosts.on_event(&asked("b"), at(1));
    hosts
}

/// What is answered, without what is said about offers.
fn answers(hosts: &mut Hosts, now: Timestamp) -> String {
    let calls = hosts.next_calls(demand(true), now);
    let answers: Vec<Call> = calls
        .into_iter()
        .filter(|c| matches!(c, Call::AnswerInverse { .. }))
        .collect();
    say(&answers)
}

#[test]
fn hosts_are_left_in_time_and_used_before() {
    let hosts = two();
    let table = [
        (0, None),
        (5399, None),
        (5400, Some(Drain::Services)),
        (7079, Some(Drain::Services)),
        (7080, Some(Drain::All)),
        (7200, Some(Drain::All)),
        (10_799, Some(Drain::All)),
        (10_800, None),
    ];
    for (second, drain) in table {
        let now = at(second);
        assert_eq!(
            hosts.draining(now).get(&HostId::new("b")).copied(),
            drain,
            "{second}"
        );
        let b = hosts.views(now).remove(1);
        assert_eq!((b.draining, b.free.is_zero()), (drain.is_some(), drain.is_some()));
        let capacity = hosts.capacity(now);
        let (open, cores) = if drain.is_some() { (0, [1, 3]) } else { (2, [4, 0]) };
        assert_eq!((capacity.hosts, capacity.used), (open, shape(1, 10)), "{second}");
        let told = [capacity.total, capacity.without_gpus.total, capacity.closed];
        let told = told.map(|r| r.cpus / 1000);
        assert_eq!(
            told,
            [cores[0], cores[0], cores[1]],
            "{second}: what runs there counts"
        );
    }
}

#[test]
fn a_drained_host_counts_with_what_runs_there_until_it_is_taken_back() {
    let mut hosts = two();
    let cores = |hosts: &Hosts, second| {
        let told = hosts.capacity(at(second));
        [told.total, told.used, told.closed].map(|r| r.cpus / 1000)
    };
    assert_eq!(cores(&hosts, 5400), [1, 1, 3]);
    hosts.release(&task(1), at(5401));
    assert_eq!(
        cores(&hosts, 5401),
        [0, 0, 4],
        "an ended task leaves nothing to divide"
    );
    hosts.on_event(&Event::RescindInverse(OfferId(Arc::from("i-a"))), at(5402));
    hosts.on_event(&Event::RescindInverse(OfferId(Arc::from("i-b"))), at(5402));
    assert_eq!(cores(&hosts, 5403), [4, 0, 0]);
}

#[test]
fn a_host_may_go_when_it_is_empty_and_not_before() {
    let mut hosts = two();
    assert_eq!(answers(&mut hosts, at(2)), "", "both may still be used");
    assert_eq!(answers(&mut hosts, at(5400)), "b may go (1)");
    assert_eq!(answers(&mut hosts, at(5401)), "");
    hosts.release(&task(1), at(6000));
    assert_eq!(hosts.maintenance_wake(at(6000)), Some(at(6000)), "at once");
    assert_eq!(answers(&mut hosts, at(6000)), "a may go (1)");
    // Asked again when the answer's filter ends.
    hosts.on_event(&asked("a"), at(6060));
    assert_eq!(answers(&mut hosts, at(6060)), "a may go (1)");
}

#[test]
fn what_is_not_empty_in_time_is_said() {
    let mut hosts = two();
    assert_eq!(answers(&mut hosts, at(7199)), "b may go (1)");
    assert_eq!(answers(&mut hosts, at(7200)), "a not yet (1)");
}

#[test]
fn it_is_woken_when_a_host_begins_or_ceases_to_be_left() {
    let mut hosts = two();
    assert_eq!(answers(&mut hosts, at(7200)), "a not yet (1); b may go (1)");
    let moment = |now| hosts.maintenance_wake(at(now));
    assert_eq!(moment(0), Some(at(5400)));
    assert_eq!(moment(5400), Some(at(7080)));
    assert_eq!(moment(7080), Some(at(7200)));
    assert_eq!(moment(7200), Some(at(10_800)));
    assert_eq!(moment(10_800), None);
}

#[test]
fn a_changed_plan_is_the_one_that_counts() {
    let drained = |hosts: &Hosts| hosts.draining(at(6000)).len();
    let mut hosts = two();
    hosts.on_event(&Event::RescindInverse(OfferId(Arc::from("i-a"))), at(2));
    assert_eq!(drained(&hosts), 1);
    hosts.on_event(&Event::Offers(vec![offer("o3", "b", shape(2, 100))]), at(3));
    assert_eq!(drained(&hosts), 0, "an offer without a plan");
    hosts.on_event(&Event::Offers(vec![planned("o4", "b")]), at(4));
    assert_eq!(drained(&hosts), 1);
}

#[test]
fn a_plan_outlives_the_subscription_and_the_leader_but_a_question_does_not() {
    let mut hosts = two();
    hosts.on_event(&disconnected(), at(2));
    hosts.on_event(&asked("a"), at(2));
    hosts.on_event(&subscribed(), at(3));
    assert_eq!(hosts.draining(at(6000)).len(), 2);
    let mut next = Hosts::new(crate::Config::usual());
    next.restore(hosts.changes().rows);
    assert_eq!(answers(&mut hosts, at(7200)), "");
    assert_eq!(next.draining(at(6000)).len(), 2);
}

#[test]
fn an_answer_that_is_lost_is_given_again() {
    let mut hosts = two();
    let calls = hosts.next_calls(demand(true), at(5400));
    let call = calls
        .into_iter()
        .find(|c| matches!(c, Call::AnswerInverse { .. }))
        .unwrap();
    assert_eq!(answers(&mut hosts, at(5401)), "");
    let failed = Event::CallFailed {
        call,
        why: "503".to_owned(),
        refused: true,
    };
    hosts.on_event(&failed, at(5402));
    assert_eq!(answers(&mut hosts, at(5402)), "b may go (1)");
}

#[test]
fn tasks_are_found_by_their_hosts() {
    let hosts = two();
    let on = |host: &str| hosts.tasks_on(&[HostId::new(host)].into());
    assert_eq!((on("a"), on("b")), (vec![task(1)], vec![]));
}

/// The master lists its agents beside this schedule; the question left a second before.
fn told(hosts: &mut Hosts, second: u64, planned: &[(&str, Maintenance)]) {
    assert!(hosts.list_agents(true, at(second)).is_some());
    let list = schedule(planned);
    hosts.on_event(&list, at(second + 1));
}

fn schedule(planned: &[(&str, Maintenance)]) -> Event {
    let planned = planned.iter().map(|(host, m)| (HostId::new(*host), *m));
    Event::Agents {
        agents: vec![super::agents::agent("a", 0), super::agents::agent("b", 0)],
        awaited: Vec::new(),
        sharing: ListedSharing::default(),
        planned: Some(planned.collect()),
    }
}

fn windows(hosts: &Hosts) -> [Option<Maintenance>; 2] {
    ["a", "b"].map(|h| hosts.host(&HostId::new(h)).unwrap().maintenance)
}

#[test]
fn a_schedule_tells_what_is_planned_and_what_was_cancelled_without_any_offer() {
    let mut hosts = two();
    assert_eq!(windows(&hosts), [Some(window()); 2]);
    told(&mut hosts, 20, &[("b", window())]);
    assert_eq!(windows(&hosts), [None, Some(window())], "one was cancelled");
    let later = Maintenance {
        from: at(9000),
        until: None,
    };
    told(&mut hosts, 60, &[("a", later)]);
    assert_eq!(windows(&hosts), [Some(later), None]);
    // A list that comes without a schedule says nothing.
    assert!(hosts.list_agents(true, at(90)).is_some());
    let list = Event::Agents {
        agents: vec![super::agents::agent("a", 0)],
        awaited: Vec::new(),
        sharing: ListedSharing::default(),
        planned: None,
    };
    hosts.on_event(&list, at(91));
    assert_eq!(windows(&hosts), [Some(later), None]);
}

#[test]
fn what_offers_say_while_a_schedule_is_under_way_is_newer() {
    let mut hosts = two();
    assert!(hosts.list_agents(true, at(20)).is_some());
    hosts.on_event(&Event::Offers(vec![offer("o3", "a", shape(1, 10))]), at(21));
    hosts.on_event(&schedule(&[("a", window())]), at(22));
    assert_eq!(
        windows(&hosts),
        [None, None],
        "the offer says that nothing is planned"
    );
    // Nor does one count that was not asked for.
    hosts.on_event(&schedule(&[("a", window())]), at(23));
    assert_eq!(windows(&hosts), [None, None]);
}
