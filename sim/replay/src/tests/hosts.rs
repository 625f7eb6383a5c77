//! What hosts change: large instances beside small ones, gangs, volumes, host pools, GPUs, and what hosts
//! lend.

use super::*;
use echelon_core_model::host_pool::HostPoolChoice;
use echelon_core_model::{HostPoolName, Resources};

fn class(count: u32, capacity: Resources) -> HostClass {
    HostClass {
        count,
        capacity,
        lent: Resources::ZERO,
        pool: HostPoolName::default(),
    }
}

fn on_hosts(classes: Vec<HostClass>, jobs: Vec<Job>) -> Trace {
    Trace {
        capacities: vec![CapacityChange {
            at: Timestamp(0),
            cluster: "east".to_owned(),
            capacity: ClusterCapacity::Hosts(classes),
        }],
        ..trace(&[], jobs)
    }
}

/// When the first and the last instance of a pool's jobs began after their submit, in seconds; at most.
fn last(trace: &Trace, pools: &[(&str, u64)], path: &str) -> Option<u64> {
    let got = replay(trace, &tree(pools)).unwrap();
    match got.pools[path].last.percentile(100) {
        Some(Wait::For(span)) => Some(span.0 / 1000),
        _ => None,
    }
}

fn with_shape(mut job: Job, shape: Resources) -> Job {
    for group in &mut job.groups {
        group.shape = shape;
    }
    job
}

#[test]
fn an_instance_that_no_single_host_holds_never_begins() {
    let two = with_shape(job("/a", 0, 1, 10), cpus(6));
    let hosts = on_hosts(vec![class(2, cpus(4))], vec![two.clone()]);
    assert_eq!(last(&hosts, &[("/a", 100)], "/a"), None);
    let one = trace(&[("east", 8)], vec![two]);
    assert_eq!(last(&one, &[("/a", 100)], "/a"), Some(0));
}

#[test]
fn a_gang_begins_whole_when_hosts_hold_all_of_it() {
    // On each of two hosts three of four cores are taken for 40 s.
    let busy = with_shape(job("/a", 0, 2, 40), cpus(3));
    let gang = Job {
        gang: true,
        ..with_shape(job("/b", 5, 2, 10), cpus(2))
    };
    let alone = Job {
        gang: false,
        ..gang.clone()
    };
    let pools = [("/a", 100), ("/b", 100)];
    let hosts = |job: Job| {
        on_hosts(
            vec![class(2, cpus(4)), class(1, cpus(2))],
            vec![busy.clone(), job],
        )
    };
    let first = |trace: &Trace| {
        let got = replay(trace, &tree(&pools)).unwrap();
        got.pools["/b"].first.percentile(100)
    };
    let whole = first(&hosts(gang)).unwrap();
    assert!(whole > Wait::For(Span::seconds(20)), "{whole:?}");
    let single = first(&hosts(alone)).unwrap();
    assert!(single < Wait::For(Span::seconds(1)), "{single:?}");
}

#[test]
fn a_gang_is_preempted_whole() {
    let gang = Job {
        gang: true,
        ..job("/b", 0, 4, 60)
    };
    let hosts = on_hosts(vec![class(4, cpus(1))], vec![gang, job("/a", 10, 2, 60)]);
    let mut pools = tree(&[("/a", 100), ("/b", 100)]);
    pools.pools.get_mut("/a").unwrap().reservation = cpus(2);
    let got = replay(&hosts, &pools).unwrap();
    assert_eq!(got.pools["/b"].preempted, 4);
    assert_eq!(got.pools["/b"].last.never(), 0);
}

/// A stateful instance with a volume of 10 MiB.
fn stateful(pool: &str, at: u64, instances: u32) -> Job {
    let mut job = with_shape(job(pool, at, instances, 1), Resources { disk: 10, ..cpus(1) });
    for group in &mut job.groups {
        group.runs = Vec::new();
        group.volume = Some(Volume {
            mebibytes: 10,
            is_kept: false,
        });
    }
    job
}

#[test]
fn what_has_a_volume_begins_again_on_its_host_only() {
    let host = Resources { disk: 20, ..cpus(1) };
    let trace = on_hosts(
        vec![class(2, host)],
        vec![stateful("/b", 0, 1), job("/a", 20, 2, 40)],
    );
    let mut pools = tree(&[("/a", 100), ("/b", 100)]);
    pools.pools.get_mut("/a").unwrap().reservation = cpus(2);
    let got = replay(&trace, &pools).unwrap();
    assert_eq!(got.pools["/b"].preempted, 1);
    // From 60 s on one of both hosts is free, and its own one only from 90 s on.
    let ran = got.pools["/b"].used[0] / 1_000;
    assert!((55_000..65_000).contains(&ran), "{ran} ms");
}

#[test]
fn a_volume_takes_disk_while_its_instance_does_not_run_and_goes_with_its_job() {
    let disk = Resources { disk: 10, ..cpus(2) };
    let first = Job {
        stopped: Some(Timestamp(30_000)),
        ..stateful("/a", 0, 1)
    };
    let second = stateful("/a", 10, 1);
    let trace = on_hosts(vec![class(1, disk)], vec![first.clone(), second.clone()]);
    let waited = last(&trace, &[("/a", 100)], "/a");
    assert!(matches!(waited, Some(20 | 21)), "{waited:?}");
    let mut keeping = first;
    keeping.groups[0].volume = Some(Volume {
        mebibytes: 10,
        is_kept: true,
    });
    let trace = on_hosts(vec![class(1, disk)], vec![keeping, second]);
    assert_eq!(last(&trace, &[("/a", 100)], "/a"), None);
}

#[test]
fn hosts_of_another_host_pool_and_hosts_with_gpus_are_left_alone() {
    let gpu = Resources {
        gpus: 1_000,
        ..cpus(8)
    };
    let other = HostClass {
        pool: HostPoolName::parse("other").unwrap(),
        ..class(1, cpus(8))
    };
    let trace = on_hosts(
        vec![class(1, cpus(1)), other, class(1, gpu)],
        vec![job("/a", 0, 2, 20)],
    );
    assert_eq!(last(&trace, &[("/a", 100)], "/a"), Some(20));
    let mut any = job("/a", 0, 2, 20);
    any.groups[0].host_pool = HostPoolChoice::Any;
    let trace = Trace {
        jobs: vec![any],
        ..trace
    };
    assert_eq!(last(&trace, &[("/a", 100)], "/a"), Some(0));
}

#[test]
fn revocable_work_runs_on_what_hosts_lend() {
    let lending = HostClass {
        lent: cpus(2),
        ..class(1, cpus(1))
    };
    let revocable = Job {
        revocable: true,
        ..job("/a", 0, 2, 20)
    };
    let trace = on_hosts(vec![lending], vec![revocable, job("/a", 0, 1, 20)]);
    assert_eq!(last(&trace, &[("/a", 100)], "/a"), Some(0));
}

#[test]
fn what_is_not_preemptible_runs_within_reservations_only() {
    let firm = |preemptible| Job {
        preemptible,
        ..job("/b", 0, 1, 10)
    };
    let of = |preemptible| {
        let trace = on_hosts(vec![class(2, cpus(1))], vec![firm(preemptible)]);
        last(&trace, &[("/b", 100)], "/b")
    };
    assert_eq!((of(true), of(false)), (Some(0), None));
}
