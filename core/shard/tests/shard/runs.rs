//! Which runs are on a host or are unreachable, as people ask for it.

use crate::world::{World, range, seconds, task};
use echelon_core_hosts::TaskState;
use echelon_core_model::RunState;
use echelon_core_shard::{RunPage, Whereabouts};
use echelon_core_testkit::build::JobBuilder;

fn three() -> World {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 3).build());
    w.order(&[range(0, 2)], 3);
    w.run(seconds(2));
    w
}

/// All pages of a list, one run at a time.
fn listed(w: &World, asked: &Whereabouts) -> Vec<(u32, RunState)> {
    let (mut found, mut from) = (Vec::new(), None);
    loop {
        let RunPage { runs, next } = w.shard.runs(asked, from.as_ref(), 1).unwrap();
        found.extend(runs.into_iter().map(|(of, run)| (of.number.0, run.state)));
        match next {
            Some(next) => from = Some(next),
            None => return found,
        }
    }
}

#[test]
fn each_run_is_listed_on_its_host_once_and_what_has_ended_is_not() {
    let mut w = three();
    let host = |w: &World, number| w.record(number).unwrap().run.unwrap().host;
    let on = |w: &World| {
        let hosts: std::collections::BTreeSet<_> = (0..3).map(|number| host(w, number)).collect();
        let lists = hosts.into_iter().map(|host| listed(w, &Whereabouts::Host(host)));
        let mut all: Vec<u32> = lists.flatten().map(|(number, _)| number).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(on(&w), [0, 1, 2]);
    let was_at = host(&w, 0);
    w.cluster.say(&task(0, 1, 1), TaskState::Failed);
    w.run(seconds(0));
    let there = w.shard.runs(&Whereabouts::Host(was_at), None, 100).unwrap();
    assert!(there.runs.iter().all(|(_, run)| run.state != RunState::Failed));
}

#[test]
fn what_is_unreachable_is_listed_with_its_state_until_it_is_back() {
    let mut w = three();
    assert_eq!(listed(&w, &Whereabouts::Unreachable), []);
    w.cluster.silent.push(w.record(1).unwrap().run.unwrap().host);
    w.cluster.say(&task(1, 1, 1), TaskState::Unreachable);
    w.run(seconds(1));
    assert_eq!(
        listed(&w, &Whereabouts::Unreachable),
        [(1, RunState::Unreachable)]
    );
    w.cluster.silent.clear();
    w.cluster.say(&task(1, 1, 1), TaskState::Running);
    w.run(seconds(1));
    assert_eq!(listed(&w, &Whereabouts::Unreachable), []);
}

#[test]
fn who_does_not_lead_does_not_know() {
    let w = World::new();
    assert_eq!(w.shard.runs(&Whereabouts::Unreachable, None, 10), None);
}
