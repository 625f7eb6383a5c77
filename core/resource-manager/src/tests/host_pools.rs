//! Host pools bound room: work that needs hosts of one gets no more than these have, wherever it is sent.

use crate::tests::case::{Case, batch};
use echelon_core_model::directive::Part;
use echelon_core_model::host_pool::HostPoolChoice;
use echelon_core_model::{HostPoolName, JobId, ReasonCode, Resources, RunState, Span};
use echelon_core_testkit::build::{JobBuilder, shape};

/// Hosts of a cluster by host pools, in cores; of four cores each.
fn hosts(case: &mut Case, cluster: &str, pools: &[(&str, u64)]) {
    let of = |cores: u64| Resources {
        cpus: cores * 1000,
        memory: cores * 10_000,
        ..Resources::ZERO
    };
    let part = |cores: u64| Part {
        total: of(cores),
        used: Resources::ZERO,
        largest_host: of(cores.min(4)),
    };
    let pools = pools.iter();
    let parts = pools.map(|(name, cores)| (HostPoolName::new(name), part(*cores)));
    case.shard(cluster).host_pools = parts.collect();
}

fn on(case: &mut Case, n: u128, pool: &str, job: JobBuilder) -> JobId {
    let mut spec = job.build();
    for group in &mut spec.groups {
        group.siting.host_pool = HostPoolChoice::parse(pool).unwrap();
    }
    case.job_of(n, spec)
}

/// One cluster of ten cores, three of them on hosts of `gpu`.
fn one() -> Case {
    let mut case = Case::new().pool("/default", 100).cluster("a", 10);
    hosts(&mut case, "a", &[("default", 7), ("gpu", 3)]);
    case.elect();
    case.run_for(Span::seconds(2));
    case
}

fn told(case: &Case, job: JobId) -> String {
    case.progress(job).unwrap().waiting[0].reason.to_string()
}

#[test]
fn work_gets_no_more_than_the_hosts_of_its_host_pool_have() {
    let mut case = one();
    let usual = on(&mut case, 1, "default", batch(20));
    case.run_for(Span::seconds(2));
    assert_eq!(case.total_active(usual), 7);
    assert!(
        told(&case, usual).ends_with("(a: on hosts of its host pool; others have room)"),
        "{}",
        told(&case, usual)
    );
    let other = on(&mut case, 2, "gpu", batch(20));
    case.run_for(Span::seconds(2));
    assert_eq!((case.total_active(usual), case.total_active(other)), (7, 3));
    assert_eq!(case.waiting(usual), [(ReasonCode::NoClusterCapacity, 13)]);
    assert_eq!(case.waiting(other), [(ReasonCode::NoClusterCapacity, 17)]);
    case.fail_over();
    case.run_for(Span::seconds(5));
    assert_eq!((case.total_active(usual), case.total_active(other)), (7, 3));
}

#[test]
fn who_may_use_every_host_uses_what_others_leave() {
    let mut case = one();
    let any = on(&mut case, 1, "*", batch(8));
    case.run_for(Span::seconds(2));
    let other = on(&mut case, 2, "gpu", batch(20));
    case.run_for(Span::seconds(2));
    assert_eq!((case.total_active(any), case.total_active(other)), (8, 2));
}

#[test]
fn a_cluster_without_hosts_of_the_host_pool_is_passed_over() {
    let mut case = Case::new().pool("/default", 100).cluster("a", 8).cluster("b", 8);
    // The shard of the first one is older, or all of its hosts are in `default`.
    hosts(&mut case, "b", &[("default", 4), ("gpu", 4)]);
    case.elect();
    case.run_for(Span::seconds(2));
    let gpu: Vec<JobId> = (1..=4).map(|n| on(&mut case, n, "gpu", batch(1))).collect();
    case.run_for(Span::seconds(2));
    for job in gpu {
        assert_eq!(case.active(job), [("b", 1)]);
    }
    let usual = on(&mut case, 9, "default", batch(12));
    case.run_for(Span::minutes(2));
    assert_eq!(case.active(usual), [("a", 8), ("b", 4)]);
    let none = on(&mut case, 10, "none", batch(1));
    case.run_for(Span::seconds(2));
    assert_eq!(case.waiting(none), [(ReasonCode::HostPool, 1)]);
    assert!(
        told(&case, none).ends_with("(a: no host is in its host pool; b: no host is in its host pool)"),
        "{}",
        told(&case, none)
    );
    // As soon as a host is there it begins.
    case.at("a", |s, now| s.finish_of(usual, 4, RunState::Succeeded, now));
    hosts(&mut case, "a", &[("default", 4), ("none", 4)]);
    case.run_for(Span::seconds(10));
    assert_eq!(case.active(none), [("a", 1)]);
}

#[test]
fn work_is_divided_by_what_clusters_have_of_the_host_pool() {
    let mut case = Case::new().pool("/default", 100).cluster("a", 8).cluster("b", 8);
    for cluster in ["a", "b"] {
        hosts(&mut case, cluster, &[("default", 6), ("gpu", 2)]);
    }
    case.elect();
    case.run_for(Span::seconds(2));
    let gpu = on(&mut case, 1, "gpu", batch(4));
    case.run_for(Span::seconds(1));
    assert_eq!(case.active(gpu), [("a", 2), ("b", 2)]);
}

#[test]
fn a_gang_of_one_host_pool_begins_there_whole_or_not_at_all() {
    let mut case = one();
    let gang = |n: u32| batch(n).with_group("ps", 1, shape(1, 64)).gang();
    let first = on(&mut case, 1, "gpu", gang(1));
    let second = on(&mut case, 2, "gpu", gang(1));
    case.run_for(Span::seconds(3));
    assert_eq!((case.total_active(first), case.total_active(second)), (2, 0));
    let usual = on(&mut case, 3, "default", gang(6));
    case.run_for(Span::seconds(3));
    assert_eq!((case.total_active(second), case.total_active(usual)), (0, 7));
}

#[test]
fn what_is_granted_beyond_the_hosts_of_a_host_pool_takes_nothing_of_the_others() {
    let parts = [(0, 7), (1, 3)].map(|(i, cores)| {
        let total = shape(cores, 0);
        let used = shape(2, 0);
        let largest_host = total;
        (
            i,
            Part {
                total,
                used,
                largest_host,
            },
        )
    });
    // Ten were granted when all hosts were in the first one.
    let taken = |i| if i == 0 { shape(10, 0) } else { shape(1, 0) };
    let (left, excess) = crate::facts::host_pools::left_on(parts.into_iter(), taken);
    assert_eq!(excess, shape(3, 0));
    assert_eq!(left, [(0, shape(0, 0)), (1, shape(1, 0))].into());
}
