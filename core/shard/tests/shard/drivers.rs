//! What runs of a job's driver find in their environment, and what happens before that is known.

use crate::world::{World, range, seconds, task};
use echelon_core_model::GroupName;
use echelon_core_model::control::Control;
use echelon_core_model::store::{Decision, Op};
use echelon_core_model::token::TokenKey;
use echelon_core_model::{RunState, Version};
use echelon_core_shard::Event;
use echelon_core_testkit::build::{JobBuilder, job_id};

const KEY: [u128; 2] = [3, 4];

/// A gateway has made the key.
fn make_key(w: &mut World) {
    let control = Control {
        version: Version(1),
        token_key: Some(TokenKey::new(KEY)),
        ..Control::default()
    };
    w.store.perform(Op::Decide(Decision::PutControl {
        control,
        expected: Version(0),
    }));
}

fn submit(w: &mut World, driver: bool) {
    let mut spec = JobBuilder::batch("spark", 1).build();
    spec.rules.driver = driver.then(|| GroupName::new(GroupName::DEFAULT));
    w.store_job(&spec);
    w.order(&[range(0, 0)], 1);
}

fn variable<'a>(w: &'a World, task: &str, name: &str) -> Option<&'a str> {
    w.cluster.tasks[task].env.get(name).map(String::as_str)
}

#[test]
fn a_driver_finds_a_token_for_its_job_and_a_gateway() {
    let mut w = World::serving();
    make_key(&mut w);
    w.run(seconds(30));
    w.feed(Event::Gateway("http://10.0.0.1:7070".to_owned()));
    submit(&mut w, true);
    w.run(seconds(2));
    let first = task(0, 1, 1);
    let token = variable(&w, &first, "ECHELON_TOKEN").unwrap().to_owned();
    assert_eq!(TokenKey::new(KEY).verify(&token), Some(job_id(1)));
    assert_eq!(
        variable(&w, &first, "ECHELON_ADDRESS"),
        Some("http://10.0.0.1:7070")
    );
    // Whichever leader launches it.
    w.crash();
    w.restart();
    w.feed(Event::Gateway("http://10.0.0.1:7070".to_owned()));
    w.run(seconds(30));
    w.cluster.set(&first, echelon_core_hosts::TaskState::Failed);
    w.run(seconds(10));
    assert_eq!(
        variable(&w, &task(0, 1, 2), "ECHELON_TOKEN"),
        Some(token.as_str())
    );
}

#[test]
fn other_runs_find_no_token() {
    let mut w = World::serving();
    make_key(&mut w);
    w.run(seconds(30));
    submit(&mut w, false);
    w.run(seconds(2));
    assert_eq!(variable(&w, &task(0, 1, 1), "ECHELON_TOKEN"), None);
    assert_eq!(variable(&w, &task(0, 1, 1), "ECHELON_ADDRESS"), None);
}

#[test]
fn no_driver_begins_before_the_key_and_a_gateway_are_known() {
    let mut w = World::serving();
    submit(&mut w, true);
    w.run(seconds(20));
    make_key(&mut w);
    w.run(seconds(40));
    assert_eq!(w.accepted(), Vec::<String>::new());
    w.feed(Event::Gateway("http://10.0.0.1:7070".to_owned()));
    // A grant of long ago begins nothing any more.
    w.order(&[range(0, 0)], 1);
    w.run(seconds(10));
    assert_eq!(w.states(1), [RunState::Running]);
    assert_eq!(w.accepted().len(), 1);
}
