use super::*;
use crate::allowed::allowed;
use crate::{ALL, Delays, Outcome, Wait, replay};
use echelon_core_pools::tree::{jobs_inside, problems};

#[test]
fn a_seed_gives_one_demand_and_another_seed_another() {
    for demand in Demand::ALL {
        assert_eq!(demand.make(1), demand.make(1));
        assert_ne!(demand.make(1).0, demand.make(2).0, "{}", demand.name());
    }
}

#[test]
fn every_tree_is_a_good_one_and_jobs_name_its_leaves() {
    for demand in Demand::ALL {
        for seed in 1..20 {
            let (trace, tree) = demand.make(seed);
            let used = |path: &str| trace.jobs.iter().any(|j| j.pool == path);
            assert_eq!(problems(&tree), [], "{} {seed}", demand.name());
            assert_eq!(jobs_inside(&tree, used), [], "{} {seed}", demand.name());
            assert!(trace.jobs.iter().all(|j| tree.pools.contains_key(&j.pool)));
            assert!(trace.jobs.is_sorted_by_key(|j| j.submitted));
        }
    }
}

/// All work in cores times milliseconds, as if it had until the end of the trace.
fn asked(trace: &Trace) -> u128 {
    let endless = Trace {
        until: Timestamp(u64::MAX / 4),
        capacities: vec![cluster("all", Timestamp(0), u64::MAX / 1_000_000_000)],
        jobs: trace.jobs.clone(),
    };
    let [cpus, ..] = allowed(&endless);
    cpus
}

#[test]
fn demands_are_as_large_as_they_are_said_to_be() {
    let (small, tree) = Demand::Small.make(1);
    assert_eq!((small.jobs.len(), tree.pools.len()), (20_000, 40));
    let (large, _) = Demand::Large.make(1);
    let sizes: Vec<u32> = large
        .jobs
        .iter()
        .flat_map(|j| &j.groups)
        .map(|g| g.instances)
        .collect();
    assert_eq!(
        (sizes.len(), sizes.iter().max(), sizes.iter().min()),
        (20, Some(&100_000), Some(&5_000))
    );
    let (nested, tree) = Demand::Nested.make(1);
    assert_eq!(tree.pools.len(), 3 + 9 + 18);
    // Services are not counted: they run beside that.
    let hour = 400_000 * 3_600_000;
    let batch = Trace {
        jobs: nested
            .jobs
            .iter()
            .filter(|j| j.stopped.is_none())
            .cloned()
            .collect(),
        ..nested
    };
    let percent = asked(&batch) * 100 / hour;
    assert!((105..160).contains(&percent), "{percent} % of an hour's capacity");
}

#[test]
fn a_small_part_of_the_small_jobs_runs_to_its_end() {
    let (trace, tree) = small::make(1, 200);
    let got = replay(&trace, &tree, Delays::USUAL).unwrap();
    let all = &got.pools[ALL];
    assert_eq!((all.last.never(), all.last.jobs()), (0, 200));
    assert!(
        all.last.percentile(99) < Some(Wait::For(Span::seconds(1))),
        "{:?}",
        all.last
    );
    assert_eq!(got.work.done[0], asked(&trace), "all of it was done");
    assert_eq!(got.work.allowed, got.work.done);
}

/// Cores in use in percent of all, and the waits of a pool's jobs for their last instances in seconds, median
/// and 99th.
fn summary(outcome: &Outcome, path: &str) -> (u128, [u64; 2]) {
    let used = outcome.pools[ALL].used[0] * 100 / outcome.capacity[0];
    let last = &outcome.pools[path].last;
    let waits = [50, 99].map(|p| match last.percentile(p) {
        Some(Wait::For(span)) => span.0 / 1_000,
        _ => u64::MAX,
    });
    (used, waits)
}

#[test]
fn sharing_uses_more_of_the_same_hosts_and_lets_batch_work_wait_less() {
    let run = |demand: Demand| {
        let (trace, tree) = demand.make(1);
        replay(&trace, &tree, Delays::USUAL).unwrap()
    };
    let (dedicated, shared) = (run(Demand::Dedicated), run(Demand::Shared));
    let all =
        ["/batch", "/services", "/stateful"].map(|path| (summary(&dedicated, path), summary(&shared, path)));
    let [batch, services, stateful] = all;
    let ((used, [_, before]), (used_shared, [_, after])) = batch;
    assert!(used_shared >= used + 10, "{used}% and {used_shared}% of cores");
    assert!(after * 4 < before, "{before} s and {after} s");
    // Services get back what they have reserved as batch instances end, or by preemption after half a minute.
    for (_, (_, [median, most])) in [services, stateful] {
        assert!(median < 10 && most < 45, "{median} s, {most} s");
    }
    let lost = ["/services", "/stateful"].map(|path| shared.pools[path].preempted);
    assert_eq!((dedicated.pools[ALL].preempted, lost), (0, [0, 0]));
}
