//! Launches are begun only while there is room on the way to the cluster: a master that reads slowly, or not
//! at all, costs a bounded amount of memory, and all launches leave in the end, once each.

use crate::cluster::Cluster;
use crate::world::{World, config, range, seconds};
use echelon_core_hosts::Call;
use echelon_core_model::gang::Gang;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::time::Span;
use echelon_core_shard::{CallCredit, Event, Shard};
use echelon_core_testkit::build::{JobBuilder, shape};
use std::collections::BTreeSet;

const INSTANCES: u32 = 150;
/// Of each launch.
const ENVIRONMENT: usize = 200_000;
const BOUND: usize = 2 << 20;

fn heavy() -> JobSpec {
    let mut spec = JobBuilder::service("web", INSTANCES).build();
    for group in &mut spec.groups {
        for name in ["A", "B"] {
            group
                .runtime
                .env
                .insert(name.to_owned(), "x".repeat(ENVIRONMENT / 2));
        }
    }
    spec
}

/// The job as ordered, on a cluster that has told how much is under way.
fn ordered(spec: &JobSpec) -> World {
    let mut w = World::new();
    w.cluster = Cluster::of(10, shape(100, 1_000_000));
    w.shard = Shard::new(config("one"));
    w.elect();
    w.run(seconds(1));
    w.connect();
    tell(&mut w, 0);
    w.store_job(spec);
    w.order(&[range(0, INSTANCES - 1)], u64::from(INSTANCES));
    w
}

fn tell(w: &mut World, under_way: usize) {
    let bound = BOUND;
    w.step(Event::CallCredit(CallCredit { under_way, bound }));
}

/// Bytes of all launches that were handed over.
fn handed_over(w: &World) -> usize {
    let launches = w.calls.iter().filter(|c| matches!(c, Call::Accept { .. }));
    launches.map(Call::weight).sum()
}

fn assert_all_launched_once(w: &World) {
    let launched = w.accepted();
    let once: BTreeSet<&String> = launched.iter().collect();
    assert_eq!(
        (launched.len(), once.len()),
        (INSTANCES as usize, INSTANCES as usize)
    );
}

#[test]
fn a_master_that_reads_nothing_has_a_bounded_number_of_bytes_waiting() {
    let mut w = ordered(&heavy());
    w.run(seconds(30));
    let begun = w.accepted().len();
    assert!((5..=10).contains(&begun), "{begun} launches of 200 kB into 2 MiB");
    assert!(handed_over(&w) <= BOUND, "{}", handed_over(&w));
    // What has no room has no intent either.
    let stored = (0..INSTANCES).filter(|n| w.stored(*n).is_some_and(|r| r.run.is_some()));
    assert_eq!(stored.count(), begun);
    assert!(w.shard.awaits_credit());
}

#[test]
fn a_master_that_reads_slowly_gets_all_launches_once_each() {
    let mut w = ordered(&heavy());
    let mut left = 0;
    while w.accepted().len() < INSTANCES as usize {
        assert!(left < 1_000 * BOUND, "{} of {INSTANCES}", w.accepted().len());
        w.run(Span::millis(50));
        let under_way = handed_over(&w).saturating_sub(left);
        assert!(under_way <= BOUND, "{under_way}");
        left = (left + 300_000).min(handed_over(&w));
        let under_way = handed_over(&w) - left;
        tell(&mut w, under_way);
    }
    assert_all_launched_once(&w);
    tell(&mut w, 0);
    w.run(seconds(5));
    assert!(!w.shard.awaits_credit());
    assert_eq!(w.accepted().len(), INSTANCES as usize);
}

/// One launch that is larger than all that may be under way leaves when nothing else is.
#[test]
fn a_launch_that_is_larger_than_the_bound_leaves_alone() {
    let mut w = ordered(&heavy());
    w.step(Event::CallCredit(CallCredit {
        under_way: 0,
        bound: 1_000,
    }));
    let mut begun = w.accepted().len();
    for _ in 0..5 {
        w.run(seconds(1));
        assert!(w.accepted().len() <= begun + 1, "one at a time");
        begun = w.accepted().len();
        w.step(Event::CallCredit(CallCredit {
            under_way: 0,
            bound: 1_000,
        }));
    }
    assert!(begun >= 4, "{begun}");
}

/// A gang begins as a whole. One that is larger than the bound waits until nothing else is under way.
#[test]
fn a_gang_that_is_larger_than_the_bound_begins_whole_when_the_way_is_empty() {
    let mut spec = heavy();
    spec.gang = Some(Gang::new(seconds(20)));
    let mut w = World::new();
    w.cluster = Cluster::of(10, shape(100, 1_000_000));
    w.shard = Shard::new(config("one"));
    w.elect();
    w.run(seconds(1));
    w.connect();
    tell(&mut w, 1_000);
    w.store_job(&spec);
    w.order(&[range(0, INSTANCES - 1)], u64::from(INSTANCES));
    w.run(seconds(10));
    assert_eq!(w.accepted().len(), 0);
    assert!(w.shard.awaits_credit());
    tell(&mut w, 0);
    w.run(seconds(5));
    assert_all_launched_once(&w);
}
