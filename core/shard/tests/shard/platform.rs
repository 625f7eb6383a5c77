//! Agents that cannot start anything: what they drop is counted apart, tried again on other hosts after growing waits, and
//! given up or shown, over leaders.

use crate::world::{World, range, seconds};
use echelon_core_model::instance::Ended;
use echelon_core_model::resources::Resources;
use echelon_core_model::time::Span;
use echelon_core_model::{HostId, Reason, ReasonCode, RunState};
use echelon_core_testkit::build::{JobBuilder, shape};

/// What a real agent says of a task whose user it does not have.
const NO_USER: &str = "Failed to create executor directory '/var/lib/mesos/slaves/7a1d3c62-5b0e-4b6f-9a54-1f0c53c2d9aa-S4/\
     frameworks/7a1d3c62-0001/executors/sums/runs/6f1f2c1e-64d8-4a3b-8b3e-0a8a3b5f0b11': Failed to chown '/var/lib/mesos/\
     slaves/7a1d3c62-5b0e-4b6f-9a54-1f0c53c2d9aa-S4/frameworks/7a1d3c62-0001/executors/sums': No such user 'nosuchuser'";

fn host(n: u32) -> HostId {
    HostId::new(format!("host-{n}"))
}

/// A leader with a job of so many instances, at a cluster where these of three hosts start nothing.
fn failing_at(hosts: &[u32], job: JobBuilder, instances: u32) -> World {
    let mut w = World::serving();
    for n in hosts {
        w.cluster.drops_at.insert(host(*n), NO_USER.to_owned());
    }
    w.store_job(&job.build());
    w.order(&[range(0, instances - 1)], instances.into());
    w
}

fn waiting(w: &World) -> Vec<(Reason, u64)> {
    let waiting = w.slice(1).unwrap().waiting;
    waiting.into_iter().map(|(reason, n, _)| (reason, n)).collect()
}

fn launched(w: &World, n: u32) -> usize {
    w.cluster.launched.get(&host(n)).copied().unwrap_or_default()
}

/// Lets it run until a record of instance 0 says this.
fn until(w: &mut World, what: impl Fn(&World) -> bool) {
    for _ in 0..12_000 {
        if what(w) {
            return;
        }
        w.run(Span::millis(100));
    }
    panic!("it does not come to that: {:?}", w.record(0));
}

#[test]
fn what_no_agent_starts_fails_a_batch_instance_after_ten_tries_with_the_agents_last_words() {
    let job = JobBuilder::batch("sums", 1).group(|g| g.retry.limit = 1);
    let mut w = failing_at(&[0, 1, 2], job, 1);
    let begun = w.now;
    until(&mut w, |w| w.record(0).is_some_and(|r| r.ended.is_some()));
    let record = w.stored(0).unwrap();
    assert_eq!(record.ended, Some(Ended::Failed));
    assert_eq!((record.platform_failures, record.attempts), (10, 0));
    let run = record.run.unwrap();
    let words = run.reason.to_string();
    assert!(words.contains("No such user 'nosuchuser'"), "{words}");
    assert_eq!((0..3).map(|n| launched(&w, n)).sum::<usize>(), 10);
    assert!((0..3).all(|n| launched(&w, n) >= 1), "{:?}", w.cluster.launched);
    let took = w.now.since(begun);
    assert!(took >= Span::minutes(7) && took <= Span::minutes(10), "{took}");
    w.run(Span::minutes(10));
    assert_eq!(
        (0..3).map(|n| launched(&w, n)).sum::<usize>(),
        10,
        "it has failed"
    );
}

#[test]
fn while_it_waits_the_shard_says_on_which_host_it_failed_and_why() {
    let mut w = failing_at(&[0, 1, 2], JobBuilder::batch("sums", 1), 1);
    until(&mut w, |w| w.record(0).is_some_and(|r| r.platform_failures == 4));
    w.run(seconds(2));
    let [(reason, 1)] = &waiting(&w)[..] else {
        panic!("{:?}", waiting(&w));
    };
    assert_eq!(reason.code, ReasonCode::PlatformRetry);
    let words = reason.to_string();
    assert!(
        words.contains("on host host-") && words.contains("nosuchuser"),
        "{words}"
    );
}

#[test]
fn a_service_goes_on_is_shown_as_crash_looping_and_waits_five_minutes_at_most_over_leaders() {
    let mut w = failing_at(&[0, 1, 2], JobBuilder::service("web", 1), 1);
    until(&mut w, |w| w.record(0).is_some_and(|r| r.platform_failures == 3));
    w.run(seconds(1));
    assert_eq!(waiting(&w)[0].0.code, ReasonCode::CrashLooping);
    assert_eq!(w.shard.crash_looping(), 1);
    w.run(Span::minutes(15));
    let before = w.stored(0).unwrap();
    w.restart();
    w.connect();
    w.order(&[range(0, 0)], 1);
    w.run(seconds(1));
    assert_eq!(w.shard.crash_looping(), 1, "it is in the record");
    assert!(w.record(0).unwrap().platform_failures >= before.platform_failures);
    for _ in 0..4 {
        let before = w.record(0).unwrap();
        assert_eq!(before.ended, None);
        let wait = before.not_before.since(before.run.unwrap().ended_at.unwrap());
        assert!(wait <= Span::minutes(5), "{wait}");
        w.run(Span::minutes(6));
        assert!(w.record(0).unwrap().platform_failures > before.platform_failures);
    }
}

#[test]
fn a_late_start_ends_the_row_and_after_five_minutes_all_is_forgiven() {
    let mut w = failing_at(&[0, 1, 2], JobBuilder::service("web", 1), 1);
    until(&mut w, |w| w.record(0).is_some_and(|r| r.platform_failures == 5));
    w.cluster.drops_at.clear();
    until(&mut w, |w| w.state(0) == RunState::Running);
    w.run(seconds(2));
    assert_eq!(w.shard.crash_looping(), 0, "it runs");
    assert_eq!(waiting(&w), []);
    w.run(seconds(305));
    let record = w.stored(0).unwrap();
    assert_eq!(
        (record.platform_failures, record.failure, record.avoid.len()),
        (0, None, 0)
    );
}

#[test]
fn a_stale_offer_is_not_counted() {
    let mut w = World::serving();
    w.cluster.starts = false;
    w.store_job(&JobBuilder::batch("sums", 1).build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    for run in 1..=20 {
        let task = w.task(0, run);
        until(&mut w, |w| w.cluster.tasks.contains_key(&task));
        w.cluster.end(
            &task,
            echelon_core_hosts::TaskState::Dropped,
            echelon_core_model::platform::EndSource::Master,
            "INVALID_OFFERS",
        );
        w.run(seconds(3));
    }
    let record = w.record(0).unwrap();
    assert_eq!(
        (record.platform_failures, record.attempts, record.ended),
        (0, 0, None)
    );
}

#[test]
fn where_one_host_of_three_starts_nothing_all_run_on_the_others_after_a_failure_or_two() {
    let mut w = failing_at(&[0], JobBuilder::batch("sums", 6), 6);
    w.run(Span::minutes(2));
    assert_eq!(w.states(6), [RunState::Running; 6]);
    assert!(launched(&w, 0) <= 6, "{:?}", w.cluster.launched);
    assert!((0..6).all(|n| w.record(n).unwrap().attempts == 0));
}

/// One instance that has failed on host 0, whose offer is the only one that is at hand.
fn failed_where_the_others_were_declined() -> World {
    let mut w = World::serving();
    w.cluster.drops_at.insert(host(0), NO_USER.to_owned());
    w.run(seconds(2));
    let others = [host(1), host(2)];
    w.cluster.hoarded.extend(others);
    let offers: Vec<String> = w.cluster.offers.keys().cloned().collect();
    for id in offers {
        if w.cluster.offers[&id].0 != host(0) {
            w.cluster.offers.remove(&id);
            let rescinded = echelon_core_hosts::Event::Rescind(echelon_core_hosts::OfferId(id.into()));
            w.step(echelon_core_shard::Event::Cluster(rescinded));
        }
    }
    w.store_job(&JobBuilder::batch("sums", 1).build());
    w.order(&[range(0, 0)], 1);
    until(&mut w, |w| launched(w, 0) == 1);
    w
}

#[test]
fn an_avoided_host_is_not_taken_while_offers_of_another_one_with_room_can_be_asked_for() {
    let mut w = failed_where_the_others_were_declined();
    w.cluster.declined = std::mem::take(&mut w.cluster.hoarded);
    w.run(seconds(20));
    assert_eq!(launched(&w, 0), 1);
    assert_eq!(w.state(0), RunState::Running);
}

#[test]
fn an_avoided_host_is_taken_when_the_offers_of_others_do_not_come_in_time() {
    let mut w = failed_where_the_others_were_declined();
    w.run(seconds(25));
    assert_eq!(launched(&w, 0), 1, "it waits for another one");
    w.run(seconds(20));
    assert_eq!(launched(&w, 0), 2);
}

#[test]
fn an_avoided_host_is_taken_at_once_where_no_other_has_room() {
    let mut w = World::new();
    w.cluster.hosts.insert(
        host(1),
        Resources {
            cpus: 100,
            ..shape(4, 4096)
        },
    );
    w.cluster.hosts.insert(
        host(2),
        Resources {
            cpus: 100,
            ..shape(4, 4096)
        },
    );
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.cluster.drops_at.insert(host(0), NO_USER.to_owned());
    w.store_job(&JobBuilder::batch("sums", 1).build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(6));
    assert!(launched(&w, 0) >= 2, "{:?}", w.cluster.launched);
}
