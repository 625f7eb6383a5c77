mod hosts;

use super::*;
use crate::replay::replay as replay_with;
use echelon_core_model::pool::{Pool, PoolTree};
use echelon_core_model::resources::Kind;
use echelon_core_model::{PoolId, Resources, Span, Timestamp, Version};

const fn cpus(cores: u64) -> Resources {
    Resources {
        cpus: cores * 1000,
        ..Resources::ZERO
    }
}

/// A tree of pools with their limits in cores.
fn tree(pools: &[(&str, u64)]) -> PoolTree {
    let pool = |(path, limit): &(&str, u64)| {
        let pool = Pool {
            limit: Resources::MAX.with(Kind::Cpus, limit * 1000),
            ..Pool::new(PoolId::new(*path), *path)
        };
        ((*path).to_owned(), pool)
    };
    PoolTree {
        version: Version(1),
        pools: pools.iter().map(pool).collect(),
    }
}

fn replay(trace: &Trace, tree: &PoolTree) -> Result<Outcome, NotReplayed> {
    replay_with(trace, tree, Delays::USUAL)
}

/// So many instances of one core for so many seconds, submitted at a second.
fn job(pool: &str, at: u64, instances: u32, seconds: u64) -> Job {
    let runs = vec![Runs {
        count: instances,
        span: Span::seconds(seconds),
    }];
    Job {
        groups: vec![Group::new("main", instances, cpus(1), runs)],
        ..Job::new(Timestamp(at * 1000), pool)
    }
}

fn trace(clusters: &[(&str, u64)], mut jobs: Vec<Job>) -> Trace {
    jobs.sort_by_key(|j| j.submitted);
    let capacity = |(name, cores): &(&str, u64)| CapacityChange {
        at: Timestamp(0),
        cluster: (*name).to_owned(),
        capacity: ClusterCapacity::Sum(cpus(*cores)),
    };
    Trace {
        until: Timestamp(100_000),
        capacities: clusters.iter().map(capacity).collect(),
        jobs,
    }
}

/// Median, 95th percentile and most of the waits for the first instance and for the last, in seconds.
fn told(outcome: &Outcome, path: &str) -> [(Option<u64>, Option<u64>); 3] {
    let pool = &outcome.pools[path];
    let of = |waits: &Waits, p| waits.percentile(p).and_then(seconds);
    [50, 95, 100].map(|p| (of(&pool.first, p), of(&pool.last, p)))
}

/// Waits in whole seconds: that they are some cycles longer is another matter.
fn seconds(wait: Wait) -> Option<u64> {
    match wait {
        Wait::For(span) => {
            assert!(span.0 % 1000 <= 300, "{span}");
            Some(span.0 / 1000)
        }
        Wait::Never => None,
    }
}

#[test]
fn what_fits_begins_at_once_and_ends_after_its_time() {
    let trace = trace(&[("east", 4)], vec![job("/a", 10, 4, 50)]);
    let got = replay(&trace, &tree(&[("/a", 4)])).unwrap();
    assert_eq!(told(&got, "/a"), [(Some(0), Some(0)); 3]);
    assert_eq!(got.pools["/a"].used[0], 4_000 * 50_000, "for 50 s");
    assert_eq!(got.capacity[0], 4_000 * 100_000);
    assert_eq!(got.pools[ALL], got.pools["/a"]);
}

#[test]
fn a_limit_makes_wait_and_a_larger_one_does_not() {
    let trace = trace(&[("east", 8)], vec![job("/a", 0, 4, 20)]);
    let narrow = replay(&trace, &tree(&[("/a", 2)])).unwrap();
    let wide = replay(&trace, &tree(&[("/a", 8)])).unwrap();
    assert_eq!(told(&narrow, "/a"), [(Some(0), Some(20)); 3]);
    assert_eq!(told(&wide, "/a"), [(Some(0), Some(0)); 3]);
    assert_eq!(narrow.pools["/a"].used, wide.pools["/a"].used);
}

#[test]
fn who_waits_moves_to_the_cluster_that_becomes_free() {
    let long = Job {
        clusters: vec!["east".to_owned()],
        ..job("/a", 0, 4, 90)
    };
    let only = trace(&[("east", 4), ("west", 4)], vec![long, job("/a", 1, 8, 30)]);
    let got = replay(&only, &tree(&[("/a", 100)])).unwrap();
    // Its second four wait for nobody but the first four, wherever they were assigned.
    assert_eq!(told(&got, "/a")[2], (Some(0), Some(30)));
}

#[test]
fn more_room_is_used_from_when_it_is_there() {
    let mut trace = trace(&[("east", 2)], vec![job("/a", 0, 4, 60)]);
    trace.capacities.push(CapacityChange {
        at: Timestamp(7_000),
        cluster: "east".to_owned(),
        capacity: ClusterCapacity::Sum(cpus(4)),
    });
    let got = replay(&trace, &tree(&[("/a", 100)])).unwrap();
    assert_eq!(told(&got, "/a")[0], (Some(0), Some(7)));
    assert_eq!(got.capacity[0], 2_000 * 7_000 + 4_000 * 93_000);
}

#[test]
fn what_is_stopped_or_has_no_pool_never_begins() {
    let stopped = Job {
        stopped: Some(Timestamp(5_000)),
        ..job("/a", 1, 1, 10)
    };
    let trace = trace(
        &[("east", 1)],
        vec![job("/a", 0, 1, 30), stopped, job("/b", 2, 1, 10)],
    );
    let got = replay(&trace, &tree(&[("/a", 100)])).unwrap();
    assert_eq!(
        (got.pools["/a"].first.never(), got.pools["/a"].first.jobs()),
        (1, 2)
    );
    assert_eq!(got.pools["/b"].last.percentile(50), Some(Wait::Never));
}

#[test]
fn what_runs_until_it_is_stopped_makes_room_then() {
    let service = Job {
        stopped: Some(Timestamp(40_000)),
        groups: vec![Group {
            runs: Vec::new(),
            ..job("/a", 0, 1, 1).groups.remove(0)
        }],
        ..job("/a", 0, 1, 1)
    };
    let trace = trace(&[("east", 1)], vec![service, job("/a", 10, 1, 5)]);
    let got = replay(&trace, &tree(&[("/a", 100)])).unwrap();
    // The end of a job is stored at once, and what it had is granted in the cycle after that.
    assert_eq!(told(&got, "/a")[2], (Some(30), Some(30)));
    let used = got.pools["/a"].used[0];
    assert!((44_800_000..45_200_000).contains(&used), "{used}");
}

#[test]
fn two_pools_that_want_everything_get_half_each() {
    let jobs = (0..40)
        .map(|i| job(if i % 2 == 0 { "/a" } else { "/b" }, i / 20, 1, 100))
        .collect();
    let trace = trace(&[("east", 10)], jobs);
    let got = replay(&trace, &tree(&[("/a", 100), ("/b", 100)])).unwrap();
    let begun_by_now = |path: &str| {
        let first = &got.pools[path].first;
        (1..=20)
            .filter(|i| first.percentile(i * 5) < Some(Wait::For(Span::seconds(50))))
            .count()
    };
    assert_eq!((begun_by_now("/a"), begun_by_now("/b")), (5, 5));
}

#[test]
fn the_same_trace_gives_the_same_outcome() {
    let jobs = (0..60u32)
        .map(|i| {
            let at = u64::from(i);
            let pool = ["/a", "/b", "/c"].into_iter().cycle().nth(i as usize).unwrap();
            job(pool, at % 7, 1 + i % 9, 3 + at % 11)
        })
        .collect();
    let trace = trace(&[("east", 7), ("west", 5)], jobs);
    let tree = tree(&[("/a", 5), ("/b", 12), ("/c", 9)]);
    assert_eq!(replay(&trace, &tree), replay(&trace, &tree));
}

#[test]
fn who_comes_late_gets_his_part_by_preemption_and_what_is_stopped_runs_anew() {
    let trace = trace(
        &[("east", 10)],
        vec![job("/a", 0, 10, 100), job("/b", 10, 10, 20)],
    );
    let got = replay(&trace, &tree(&[("/a", 100), ("/b", 100)])).unwrap();
    // After half a minute its five are there; the other five follow them.
    assert_eq!(told(&got, "/b")[2], (Some(31), Some(51)));
    let (a, b, all) = (&got.pools["/a"], &got.pools["/b"], &got.pools[ALL]);
    assert_eq!((a.preempted, b.preempted, all.preempted), (5, 0, 5));
    // They had run for forty seconds and begin again when the ten of the other pool have ended, for a hundred.
    assert!((204_000..206_000).contains(&a.lost), "{}", a.lost);
    assert_eq!(all.lost, a.lost);
    let used = a.used[0] - 1_000 * 100_000 * 5 - 1_000 * a.lost;
    // From 81.4 to the end at 100: each of three grants in a row waits for a report, a cycle, storage and
    // an order.
    assert!((92_000_000..94_000_000).contains(&used), "{used}");
}

#[test]
fn no_more_is_preempted_than_makes_the_room() {
    let large = Job {
        groups: vec![Group {
            shape: cpus(4),
            ..job("/b", 10, 1, 20).groups.remove(0)
        }],
        ..job("/b", 10, 1, 20)
    };
    let trace = trace(&[("east", 9)], vec![job("/a", 0, 8, 90), large]);
    let got = replay(&trace, &tree(&[("/a", 100), ("/b", 100)])).unwrap();
    assert_eq!((got.pools["/a"].preempted, got.pools["/b"].preempted), (3, 0));
}

#[test]
fn a_service_loses_no_more_at_once_than_it_may_and_runs_on_after() {
    let service = Job {
        stopped: Some(Timestamp(90_000)),
        groups: vec![Group {
            runs: Vec::new(),
            ..job("/a", 0, 4, 1).groups.remove(0)
        }],
        ..job("/a", 0, 4, 1)
    };
    let trace = trace(&[("east", 4)], vec![service, job("/b", 10, 1, 20)]);
    let got = replay(&trace, &tree(&[("/a", 100), ("/b", 100)])).unwrap();
    assert_eq!(got.pools["/a"].preempted, 1);
    assert_eq!(told(&got, "/b")[2], (Some(31), Some(31)));
    // Four but for the twenty seconds that the other took.
    let used = got.pools["/a"].used[0];
    assert!((339_000_000..341_000_000).contains(&used), "{used}");
}

#[test]
fn a_first_start_waits_for_storage_and_an_order_and_a_next_one_for_a_report_too() {
    let trace = trace(&[("east", 1)], vec![job("/a", 10, 1, 20), job("/a", 11, 1, 20)]);
    let waits = |delays: Delays| {
        let got = replay_with(&trace, &tree(&[("/a", 100)]), delays).unwrap();
        let first = &got.pools["/a"].first;
        [50, 100].map(|p| match first.percentile(p) {
            Some(Wait::For(span)) => span.0,
            _ => u64::MAX,
        })
    };
    let none = waits(Delays::NONE);
    let usual = waits(Delays::USUAL);
    // The first: reads and the assignment's write take 20 ms each, partly within the wait for a cycle; the
    // order takes 5 ms.
    // The second: the report of the end of the first, and the order.
    let more = [0, 1].map(|i| usual[i] - none[i]);
    assert!((5..=100).contains(&more[0]), "{none:?} {usual:?}");
    assert!(
        (more[0] + 105..=more[0] + 250).contains(&more[1]),
        "{none:?} {usual:?}"
    );
    let slow = Delays {
        order: Span::seconds(1),
        ..Delays::USUAL
    };
    assert_eq!(waits(slow)[0], usual[0] + 995);
}

#[test]
fn all_changes_within_the_time_of_a_report_are_in_one() {
    // Ends of ten slices, some milliseconds apart from each other.
    let jobs = (0..10u64).map(|n| {
        let mut job = job("/a", 0, 1, 20);
        job.groups[0].runs[0].span = Span::millis(20_000 + 7 * n);
        job
    });
    let trace = trace(&[("east", 10)], jobs.collect());
    let count = |report: Span| {
        let delays = Delays {
            report,
            ..Delays::USUAL
        };
        let got = replay_with(&trace, &tree(&[("/a", 100)]), delays).unwrap();
        got.counts.messages
    };
    let (each, together) = (count(Span::ZERO), count(Span::millis(100)));
    assert!(together + 9 <= each, "{together} of {each}");
}

#[test]
fn nothing_begins_where_capacity_went_and_it_goes_on_elsewhere() {
    let mut trace = trace(&[("east", 4), ("west", 4)], vec![job("/a", 0, 40, 10)]);
    trace.capacities.push(CapacityChange {
        at: Timestamp(15_000),
        cluster: "east".to_owned(),
        capacity: ClusterCapacity::Sum(Resources::ZERO),
    });
    let got = replay(&trace, &tree(&[("/a", 100)])).unwrap();
    let pool = &got.pools["/a"];
    assert_eq!((pool.last.never(), pool.preempted), (0, 0));
    // What ran in the east at 15 s ended at 20 s; from then on four cores are left.
    let cpus = &pool.amounts[0];
    let after: Vec<u64> = cpus.iter().filter(|l| l.second >= 21).map(|l| l.most).collect();
    assert!(after.iter().all(|most| *most <= 4_000), "{cpus:?}");
    assert_eq!(got.work.done[0], 40 * 1_000 * 10_000);
}

#[test]
fn the_row_of_figures_counts_starts_work_and_preemptions() {
    let trace = trace(&[("east", 10)], vec![job("/a", 0, 10, 60), job("/b", 10, 10, 20)]);
    let got = replay(&trace, &tree(&[("/a", 100), ("/b", 100)])).unwrap();
    let figures = Figures::new("two", 1, &got);
    assert_eq!((figures.preemptions, figures.starts), (5, 25));
    let (done, allowed) = (figures.work["cpus"], figures.allowed["cpus"]);
    assert!(done <= allowed, "{done} of {allowed}");
    // Ten times 60 and 20 s are asked for, and 100 s of ten cores are there: all could be done.
    assert_eq!(allowed, 1_000 * (10 * 60_000 + 10 * 20_000));
    assert!(figures.conditional_writes >= 2 && figures.orders >= 3 && figures.reports >= 4);
    assert_eq!(figures.pools["/b"].jobs, 1);
}
