//! The switch that stops all kills, as shards hear of it and as jobs show it.

use crate::event::Event;
use crate::tests::case::{Case, service};
use echelon_core_model::control::Control;
use echelon_core_model::job::Desired;
use echelon_core_model::store::{Answer, Decision, Op, Query};
use echelon_core_model::{ReasonCode, Span};

pub(super) fn store(case: &mut Case, off: bool) {
    let Answer::Control(before) = case.store.read(&Query::Control) else {
        panic!("no switches")
    };
    let control = Control {
        version: before.version.next(),
        kills_off: off,
        ..Control::default()
    };
    let expected = before.version;
    case.store
        .perform(Op::Decide(Decision::PutControl { control, expected }));
}

fn told(case: &mut Case) -> Vec<String> {
    let all = std::mem::take(&mut case.trace);
    all.into_iter().filter(|t| t.contains("kills")).collect()
}

#[test]
fn a_flip_is_told_to_every_shard_at_once_and_again_and_again() {
    let mut case = Case::with(&[("a", 4), ("b", 4)]);
    case.run_for(Span::minutes(2));
    assert_eq!(told(&mut case), Vec::<String>::new(), "nobody ever set it");
    store(&mut case, true);
    case.events.push_back(Event::PoolsHint);
    case.settle();
    assert_eq!(told(&mut case), ["a: kills off", "b: kills off"]);
    // An order may be lost: it is repeated, and whoever connects hears it first.
    case.run_for(Span::minutes(1));
    assert!(told(&mut case).len() >= 4);
    case.cut("a");
    case.reopen("a");
    assert!(told(&mut case).contains(&"a: kills off".to_owned()));
}

#[test]
fn a_flip_that_nobody_hinted_at_is_found_and_a_new_leader_knows_it() {
    let mut case = Case::with(&[("a", 4)]);
    store(&mut case, true);
    case.run_for(Span::minutes(1));
    assert!(!told(&mut case).is_empty());
    case.fail_over();
    assert_eq!(told(&mut case).first().map(String::as_str), Some("a: kills off"));
    store(&mut case, false);
    case.run_for(Span::minutes(1));
    let all = told(&mut case);
    assert_eq!(all.last().map(String::as_str), Some("a: kills on"), "{all:?}");
}

#[test]
fn a_stopped_job_says_what_keeps_its_instances() {
    let mut case = Case::with(&[("a", 4)]);
    let job = case.job(1, service(3));
    case.run_for(Span::seconds(5));
    case.shard("a").kills_off = true;
    case.shard("a").stubborn = true;
    case.want(job, Desired::Stopped);
    case.run_for(Span::seconds(5));
    assert_eq!(case.waiting(job), [(ReasonCode::KillsOff, 3)]);
    case.shard("a").kills_off = false;
    case.shard("a").stubborn = false;
    case.at("a", |shard, now| shard.full(now));
    case.run_for(Span::seconds(5));
    assert_eq!(case.waiting(job), []);
}

#[test]
fn a_running_job_counts_what_is_kept_beside_what_waits() {
    let mut case = Case::with(&[("a", 4)]);
    let job = case.job(1, service(6));
    case.run_for(Span::seconds(5));
    let mut expected = case.waiting(job);
    case.shard("a").kills_off = true;
    case.at("a", |shard, now| shard.full(now));
    case.run_for(Span::seconds(5));
    expected.push((ReasonCode::KillsOff, 4));
    expected.sort();
    let mut now = case.waiting(job);
    now.sort();
    assert_eq!(now, expected);
}
