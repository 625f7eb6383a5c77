//! What is said about offers, and when.

use super::{a, at, demand, disconnected, free, launch, offer, say, subscribed, with_offers};
use crate::{Call, Config, Demand, Event, Hosts, OfferId, Tally};
use echelon_core_model::{HostId, Span, Timestamp};
use echelon_core_testkit::build::shape;
use std::sync::Arc;

#[test]
fn unused_offers_go_back_and_an_idle_cluster_offers_nothing() {
    let mut hosts = with_offers(vec![offer("o1", "a", shape(2, 100))]);
    let mut heard = Vec::new();
    for (second, waits, offers) in [
        (0, false, None),
        (1, false, None),
        (2, false, None),
        (3, false, Some("o2")),
        (4, false, None),
        (15, false, Some("o3")),
        (60, false, None),
        (60, true, None),
        (61, true, Some("o4")),
        (62, true, None),
        (119, true, None),
        (120, true, None),
        (239, true, None),
        (240, true, None),
        (241, false, None),
        (244, false, None),
        (245, false, None),
        (544, false, None),
        (545, false, None),
        (549, false, None),
        (550, false, None),
    ] {
        if let Some(id) = offers {
            hosts.on_event(&Event::Offers(vec![offer(id, "a", shape(2, 100))]), at(second));
        }
        let calls = say(&hosts.next_calls(demand(waits), at(second)));
        if !calls.is_empty() {
            heard.push(format!("{second}: {calls}"));
        }
        assert!(
            hosts.next_wake(demand(waits), at(0)).unwrap() > at(second),
            "nothing is left to do at {second}"
        );
    }
    assert_eq!(
        heard,
        [
            "0: decline o1 1s",
            "2: suppress",
            "3: decline o2 1h",
            "15: suppress; decline o3 1h",
            "60: revive",
            "62: decline o4 1s",
            "120: revive",
            "240: revive",
            "245: suppress",
            "545: revive",
            "550: suppress",
        ]
    );
    assert_eq!(hosts.open_offers(), 0);
}

#[test]
fn a_demand_that_rises_again_waits_for_no_filter() {
    let mut hosts = with_offers(vec![offer("o1", "a", shape(2, 100))]);
    assert_eq!(say(&hosts.next_calls(demand(true), at(0))), "revive");
    assert_eq!(say(&hosts.next_calls(demand(false), at(0))), "decline o1 1s");
    assert_eq!(
        say(&hosts.next_calls(demand(false), at(4))),
        "",
        "a revival could not follow yet"
    );
    assert_eq!(
        hosts.next_wake(demand(true), at(0)),
        Some(at(5)),
        "as soon as revivals are apart enough"
    );
    assert_eq!(say(&hosts.next_calls(demand(true), at(6))), "revive");
    assert_eq!(say(&hosts.next_calls(demand(true), at(12))), "", "once is enough");
    let other = Demand::Hosts {
        news: 1,
        placing: false,
    };
    assert_eq!(
        hosts.next_wake(other, at(0)),
        Some(at(11)),
        "another wish asks anew"
    );
    assert_eq!(say(&hosts.next_calls(other, at(12))), "revive");
    assert_eq!(hosts.revivals(), 3);
}

#[test]
fn what_serves_nobody_goes_back_at_once_and_for_long() {
    let mut hosts = with_offers(vec![
        offer("o1", "a", shape(1, 50)),
        offer("o2", "b", shape(1, 50)),
        offer("o3", "c", shape(1, 50)),
    ]);
    hosts.next_calls(demand(true), at(0));
    let mark = hosts.mark();
    hosts.speak_for(&HostId::new("b"));
    hosts.on_event(&Event::Offers(vec![offer("o4", "c", shape(1, 50))]), at(0));
    hosts.compared(mark, at(0));
    assert!(hosts.next_wake(demand(true), at(0)).unwrap() < at(0), "now");
    let calls = hosts.next_calls(demand(true), at(0));
    assert_eq!(
        say(&calls),
        "decline o1 5m",
        "b is spoken for, c has more room than was compared"
    );
    hosts.compared(hosts.mark(), at(0));
    assert_eq!(say(&hosts.next_calls(demand(true), at(0))), "decline o3,o4 5m");
}

#[test]
fn who_is_spoken_for_is_shown_to_nobody_else() {
    let mut hosts = with_offers(vec![
        offer("o1", "a", shape(2, 100)),
        offer("o2", "b", shape(1, 50)),
    ]);
    let a = HostId::new("a");
    let cores = |hosts: &Hosts| {
        hosts
            .views(at(0))
            .iter()
            .map(|v| v.free.cpus / 1000)
            .collect::<Vec<_>>()
    };
    hosts.speak_for(&a);
    assert_eq!(cores(&hosts), [0, 1]);
    assert_eq!(say(&hosts.next_calls(demand(false), at(0))), "decline o2 1s");
    hosts.on_event(&Event::Offers(vec![offer("o3", "a", shape(1, 50))]), at(1));
    assert_eq!(cores(&hosts), [0, 0]);
    hosts.let_go(&a);
    assert_eq!(cores(&hosts), [3, 0]);
    let call = hosts.accept(&a, vec![launch(1, shape(3, 150))], at(1));
    assert_eq!(say(call.as_slice()), "accept o1,o3 for 1");
}

#[test]
fn no_offer_is_held_longer_than_configured() {
    let config = Config::usual();
    let started = || {
        let mut hosts = with_offers(vec![offer("o1", "a", shape(2, 100))]);
        hosts.next_calls(demand(true), at(0));
        hosts
    };
    let waiting = demand(true);
    let placing = Demand::Hosts {
        news: 0,
        placing: true,
    };
    for (what, wish, spoken_for, longest) in [
        ("nothing waits", demand(false), false, Span::ZERO),
        ("something waits", waiting, false, config.hold),
        ("placement is at work", placing, false, config.hold_most),
        ("spoken for", waiting, true, config.hold_most),
        (
            "spoken for while nothing else waits",
            demand(false),
            true,
            config.hold_most,
        ),
    ] {
        let mut hosts = started();
        if spoken_for {
            hosts.speak_for(&HostId::new("a"));
        }
        if longest > Span::ZERO {
            hosts.next_calls(wish, Timestamp(at(0).0 + longest.0 - 1));
            assert_eq!(hosts.open_offers(), 1, "{what}: given back too early");
            assert!(
                hosts.next_wake(wish, at(0)).unwrap() <= at(0).plus(longest),
                "{what}"
            );
        }
        hosts.next_calls(wish, at(0).plus(longest));
        assert_eq!(hosts.open_offers(), 0, "{what}: held for too long");
    }
}

#[test]
fn every_end_of_an_offer_is_counted_once() {
    let offers = ["o1", "o2", "o3", "o4", "o5"].map(|id| offer(id, &id.replace('o', "h"), shape(1, 50)));
    let mut hosts = with_offers(offers.to_vec());
    hosts.on_event(&Event::Offers(offers.to_vec()), at(0));
    let used = HostId::new("h1");
    hosts.accept(&used, vec![launch(1, shape(1, 10))], at(1)).unwrap();
    for _ in 0..2 {
        hosts.on_event(&Event::Rescind(OfferId(Arc::from("o1"))), at(2));
        hosts.on_event(&Event::Rescind(OfferId(Arc::from("o2"))), at(2));
    }
    hosts.speak_for(&HostId::new("h3"));
    hosts.speak_for(&HostId::new("h4"));
    hosts.next_calls(demand(false), at(3));
    let lost = Event::Failure {
        host: Some(HostId::new("h4")),
        executor: None,
    };
    hosts.on_event(&lost, at(4));
    assert_eq!(hosts.tally().open(), 1);
    hosts.on_event(&disconnected(), at(5));
    let expected = Tally {
        received: 5,
        accepted: 1,
        declined: 1,
        rescinded: 2,
        void: 1,
        held_unused: Span::seconds(2 + 3 + 4 + 5),
    };
    assert_eq!(hosts.tally(), expected);
}

#[test]
fn revivals_are_five_seconds_apart_even_over_subscriptions() {
    let mut hosts = with_offers(vec![]);
    let mut revived = Vec::new();
    for second in 0..20 {
        hosts.on_event(&disconnected(), at(second));
        assert_eq!(
            hosts.next_calls(demand(true), at(second)),
            [],
            "nothing is said without a subscription"
        );
        hosts.on_event(&subscribed(), at(second));
        if hosts.next_calls(demand(true), at(second)) == [Call::Revive] {
            revived.push(second);
        }
    }
    assert_eq!(revived, [0, 5, 10, 15]);
    assert_eq!(hosts.held_revivals(), 4, "each wait counts once");
}

#[test]
fn a_revival_that_nobody_waits_for_is_not_held_back() {
    let mut hosts = with_offers(vec![]);
    assert_eq!(hosts.next_calls(demand(true), at(0)), [Call::Revive]);
    for second in 0..300 {
        hosts.next_calls(demand(second % 100 < 50), at(second));
    }
    assert_eq!(
        hosts.held_revivals(),
        0,
        "it begins to wait long after the last one"
    );
    let news = Demand::Hosts {
        news: 1,
        placing: false,
    };
    assert_eq!(hosts.next_calls(news, at(300)), [Call::Revive]);
    let more = Demand::Hosts {
        news: 2,
        placing: false,
    };
    assert_eq!(hosts.next_calls(more, at(302)), []);
    assert_eq!(hosts.next_calls(more, at(304)), []);
    assert_eq!(hosts.held_revivals(), 1);
    assert_eq!(hosts.next_calls(more, at(305)), [Call::Revive]);
}

#[test]
fn offers_of_failed_calls_go_back_again() {
    let mut hosts = with_offers(vec![offer("o1", "a", shape(2, 100))]);
    let accept = hosts.accept(&a(), vec![launch(1, shape(1, 10))], at(1)).unwrap();
    let failed = |call: Call, refused| Event::CallFailed {
        call,
        why: "test".to_owned(),
        refused,
    };
    hosts.on_event(&failed(accept.clone(), false), at(1));
    assert_eq!(
        free(&hosts),
        "a 0/1/2",
        "of an unknown outcome the task still counts"
    );
    hosts.on_event(&failed(accept, true), at(1));
    assert_eq!(free(&hosts), "a 0/0/2");
    assert_eq!(say(&hosts.next_calls(demand(true), at(1))), "revive");
    let calls = hosts.next_calls(demand(true), at(6));
    assert_eq!(say(&calls), "decline o1 1s");
    hosts.on_event(&failed(calls[0].clone(), false), at(6));
    assert_eq!(say(&hosts.next_calls(demand(true), at(11))), "decline o1 1s");
    assert_eq!(say(&hosts.next_calls(demand(true), at(20))), "");
    hosts.on_event(&failed(Call::Revive, false), at(21));
    assert_eq!(say(&hosts.next_calls(demand(true), at(21))), "revive");
}

#[test]
fn declines_are_cut_into_calls_of_bounded_size() {
    let many = (0..12_000).map(|n| offer(&format!("o{n}"), &format!("h{n}"), shape(1, 32)));
    let mut hosts = with_offers(many.collect());
    let calls = hosts.next_calls(demand(true), at(1));
    let sizes: Vec<usize> = calls
        .iter()
        .map(|c| match c {
            Call::Decline { offers, .. } => offers.len(),
            _ => 0,
        })
        .collect();
    assert_eq!(sizes, [0, 5_000, 5_000, 2_000]);
    assert_eq!(
        hosts.next_wake(demand(true), at(0)).unwrap(),
        at(1).plus(Span::minutes(1))
    );
}

#[test]
fn who_waits_for_capacity_to_be_seen_looks_more_often_and_at_each_host_once() {
    let mut hosts = with_offers(vec![]);
    let (mut revived, mut offered) = (Vec::new(), true);
    for second in 0..120 {
        if offered {
            let new = offer(&format!("o{second}"), "a", shape(2, 100));
            hosts.on_event(&Event::Offers(vec![new]), at(second));
        }
        for call in hosts.next_calls(Demand::Capacity, at(second)) {
            match call {
                Call::Revive => {
                    revived.push(second);
                    offered = true;
                }
                Call::Suppress => offered = false,
                Call::Decline { refuse, .. } if second > 2 => assert_eq!(refuse, Span::minutes(60)),
                _ => {}
            }
        }
        assert_eq!(hosts.open_offers(), 0);
    }
    assert_eq!(
        revived,
        [17, 37, 72],
        "15 s after it was suppressed, again, then 30 s"
    );
}
