//! Host pools: only hosts of a group's own are used, and the reason says so.

use super::{group, host, in_pool, problem, rule, solve};
use crate::{Bound, Wanted, check, place};
use echelon_core_model::cluster::HostView;
use echelon_core_model::host_pool::HostPoolChoice;
use echelon_core_model::spec::JobKind::{Batch, Service};
use echelon_core_model::{HostId, HostPoolName, InstanceNumber};
use echelon_core_testkit::build::shape;
use std::sync::Arc;

fn hosts() -> Vec<HostView> {
    vec![
        host("a", shape(9, 900)),
        in_pool(host("b", shape(9, 900)), "batch"),
        in_pool(host("c", shape(2, 900)), "web"),
    ]
}

fn of(pool: &str, instances: u32, cpus: u64) -> Wanted {
    let mut wanted = group(1, Service, instances, shape(cpus, 10));
    wanted.siting.host_pool = HostPoolChoice::parse(pool).unwrap();
    wanted
}

#[test]
fn only_hosts_of_the_host_pool_that_is_named_are_used() {
    for (pool, places) in [
        ("default", "1 0:a 1:a"),
        ("batch", "1 0:b 1:b"),
        ("web", "1 0:c 1:c"),
        ("*", "1 0:b 1:a"),
    ] {
        assert_eq!(solve(&problem(1, vec![of(pool, 2, 1)], hosts())), places);
    }
}

#[test]
fn who_finds_no_host_is_told_how_many_are_in_other_host_pools_and_which_one_would_do() {
    let nowhere = solve(&problem(1, vec![of("gpu", 1, 1)], hosts()));
    assert_eq!(
        nowhere,
        "1 [0] hosts are in other host pools than the one that it may use (host_pool) \
         (none of 3 hosts is in host pool gpu; one would fit in host pool batch)"
    );
    // Less than half of what is asked for would be left, so another host pool is the smaller change.
    let full = solve(&problem(1, vec![of("web", 1, 5)], hosts()));
    assert!(
        full.contains("3 hosts: 2 in another host pool, 1 too small"),
        "{full}"
    );
    assert!(full.ends_with("one would fit in host pool batch)"), "{full}");
    let mut barred = of("web", 1, 1);
    barred.constraints = vec![rule("hostname", &["c.example"], true)];
    let told = solve(&problem(1, vec![barred], hosts()));
    assert!(
        told.starts_with("1 [0] hosts do not meet a constraint (3 hosts: 2 in another host pool, 1 break"),
        "{told}"
    );
}

#[test]
fn a_volume_on_a_host_of_another_host_pool_is_waited_for_and_that_is_said() {
    let mut wanted = group(1, Batch, 0, shape(1, 10));
    wanted.bound = vec![Bound {
        number: InstanceNumber(0),
        host: HostId::new("b"),
        hostname: Arc::from("b.example"),
        offered: true,
    }];
    let told = solve(&problem(1, vec![wanted], hosts()));
    assert!(
        told.contains("b.example, which is in another host pool"),
        "{told}"
    );
}

#[test]
fn a_host_that_changes_its_host_pool_is_found_there_and_not_where_it_was() {
    let mut kept = crate::Hosts::new(hosts());
    let mut moved = hosts();
    moved[1].host_pool = HostPoolName::default();
    kept.renew(vec![moved[1].clone()], &[]);
    for pool in ["default", "batch"] {
        let anew = problem(1, vec![of(pool, 4, 3)], moved.clone());
        let other = crate::Problem {
            hosts: Arc::new(kept.clone()),
            ..anew.clone()
        };
        assert_eq!(place(&anew), place(&other), "{pool}");
    }
}

#[test]
fn the_checker_tells_a_host_of_another_host_pool() {
    let asked = problem(1, vec![of("batch", 1, 1)], hosts());
    let (mut answer, _) = place(&asked);
    answer.choices[0].host = HostId::new("a");
    assert!(!check(&asked, &answer).is_empty());
}
