//! How well `pack` packs the shape of a published trace: the bounds that docs/performance.md gives, on a tenth of its hosts.

use crate::packing::{Compared, World, commonest_host, hosts_used, overloaded, until_refused};

/// Hundredths of a percent that the engine may be worse than the best of those who know all tasks beforehand.
const WITHIN: i64 = 200;

fn hold(measure: impl Fn(u64) -> Compared, within: i64) {
    for seed in 1..=3 {
        let compared = measure(seed);
        assert!(compared.worse_by() <= within, "seed {seed}: {compared:?}");
    }
}

#[test]
fn until_a_task_is_refused_as_many_gpus_are_given_out_as_by_who_knows_all_tasks() {
    hold(|seed| until_refused(&World::of_trace(10, seed)), WITHIN);
}

#[test]
fn a_cluster_that_is_asked_for_too_much_gives_out_its_gpus() {
    hold(|seed| overloaded(&World::of_trace(10, seed)), WITHIN);
}

#[test]
fn tasks_with_gpus_use_as_few_hosts_as_they_can() {
    let world = |seed| World::of_trace(10, seed).on_hosts_alike(commonest_host(true), |t| t.gpus > 0);
    hold(|seed| hosts_used(&world(seed)), WITHIN);
}

/// Tasks of a third of a host that come late find no host with a third left: who knows of them places them first.
#[test]
fn tasks_without_gpus_use_at_most_a_twentieth_more_hosts() {
    let world = |seed| World::of_trace(2, seed).on_hosts_alike(commonest_host(false), |t| t.gpus == 0);
    hold(|seed| hosts_used(&world(seed)), 500);
}

#[test]
fn a_world_of_the_whole_trace_is_as_large_as_the_trace() {
    let world = World::of_trace(1, 1);
    assert_eq!(world.hosts.len(), 1_523);
    assert_eq!(crate::packing::total(&world.hosts).gpus, 6_212_000);
}
