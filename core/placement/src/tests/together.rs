//! Gangs that are to be together: on hosts that share a value of the nearest attribute by which there is room for all, which costs
//! nobody a place unless it has to be so.

use super::gangs::member;
use super::properties::a_problem;
use super::{host, judged, problem, rule, solve, with_attribute};
use crate::{Answer, Problem, Together, Wanted, place};
use echelon_core_model::cluster::HostView;
use echelon_core_model::{GroupName, HostId, JobId};
use echelon_core_testkit::build::shape;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn together(mut groups: Vec<Wanted>, levels: &[&str], required: bool) -> Vec<Wanted> {
    for g in &mut groups {
        g.together = Together {
            levels: levels.iter().map(|l| (*l).to_owned()).collect(),
            required,
            with: BTreeSet::new(),
        };
    }
    groups
}

/// Hosts with so many cores, in racks and zones.
fn hosts(of: &[(u64, &str, &str)]) -> Vec<HostView> {
    let host = |(i, (cores, rack, zone)): (usize, &(u64, &str, &str))| {
        let view = host(&format!("h{i}"), shape(*cores, 99));
        with_attribute(with_attribute(view, "rack", rack), "zone", zone)
    };
    of.iter().enumerate().map(host).collect()
}

const RACKS: &[(u64, &str, &str)] = &[
    (2, "r1", "a"),
    (2, "r2", "b"),
    (4, "r2", "b"),
    (2, "r3", "b"),
    (3, "r3", "b"),
];

fn gang(n: u32) -> Vec<Wanted> {
    vec![member(1, "ps", 1, 1), member(1, "worker", n, 1)]
}

#[test]
fn a_gang_is_on_one_host_else_in_one_rack_else_in_one_zone_else_anywhere() {
    let levels = ["hostname", "rack", "zone"];
    let at = |n, required| {
        let groups = together(gang(n), &levels, required);
        solve(&problem(1, groups, hosts(RACKS)))
    };
    assert_eq!(at(2, false), "1 0:h4 0:h4 1:h4", "the host that it fills");
    assert_eq!(
        at(4, false),
        "1 0:h3 0:h3 1:h4 2:h4 3:h4",
        "the rack with the least room"
    );
    assert_eq!(at(5, false), "1 0:h1 0:h1 1:h2 2:h2 3:h2 4:h2", "the only rack");
    let of_zone = at(7, true);
    assert!(!of_zone.contains("h0") && !of_zone.contains('['), "{of_zone}");
    assert!(at(11, false).contains("h0"), "anywhere");
    assert_eq!(
        at(11, true),
        "1 [0] no hosts that are together as its gang has to be have room for all of it (no zone has room for all of it)\n\
         1 [0-10] no hosts that are together as its gang has to be have room for all of it (no zone has room for all of it)"
    );
}

#[test]
fn what_fits_nowhere_says_so_and_not_that_it_is_apart() {
    let groups = together(gang(13), &["rack"], true);
    let told = solve(&problem(1, groups, hosts(RACKS)));
    assert!(told.contains("group worker has no room"), "{told}");
}

#[test]
fn who_follows_goes_where_the_others_are() {
    let follower = |required, at: &str| {
        let mut groups = together(vec![member(1, "worker", 1, 2)], &["rack"], required);
        groups[0].together.with = [HostId::new(at)].into();
        solve(&problem(1, groups, hosts(RACKS)))
    };
    assert_eq!(follower(false, "h2"), "1 0:h1");
    assert_eq!(follower(false, "h4"), "1 0:h3");
    let mut groups = together(vec![member(1, "worker", 1, 3)], &["rack"], true);
    groups[0].together.with = [HostId::new("h0")].into();
    let told = solve(&problem(1, groups.clone(), hosts(RACKS)));
    assert!(told.contains("no rack has room"), "{told}");
    groups[0].together.required = false;
    assert_eq!(solve(&problem(1, groups, hosts(RACKS))), "1 0:h4");
}

#[test]
fn hosts_without_the_attribute_are_together_with_nobody() {
    let bare = || vec![host("h0", shape(2, 99)), host("h1", shape(2, 99))];
    let at = |required| solve(&problem(1, together(gang(2), &["rack"], required), bare()));
    assert_eq!(at(false), "1 0:h0 0:h0 1:h1");
    assert!(at(true).contains("no rack has room"), "{}", at(true));
}

/// One gang alone, which is to be together by some attributes.
#[test]
fn what_was_tried_and_failed_is_not_taken() {
    let groups = gang(2);
    let views = hosts(RACKS);
    let kept = crate::Hosts::new(views.clone());
    let mut room = crate::room::Room::new(&kept, &views[1..2]);
    let of = |room: &crate::room::Room<'_>| {
        (0..5)
            .map(|h| (room.offered(h), room.size(h)))
            .collect::<Vec<_>>()
    };
    room.take(0, &groups[0]);
    let first = of(&room);
    let before = room.before(&[0, 1, 2]);
    for host in [0, 1, 1, 2] {
        room.take(host, &groups[0]);
    }
    assert_ne!(of(&room), first);
    room.put_back(before);
    assert_eq!(of(&room), first);
    assert!(room.is_as_kept(2) && !room.is_as_kept(1));
}

fn one_gang() -> impl Strategy<Value = Problem> {
    let levels = [
        &["hostname"][..],
        &["rack"],
        &["rack", "zone"],
        &["hostname", "zone"],
        &["nothing", "zone"],
    ];
    let levels = prop::sample::select(levels.to_vec());
    (a_problem(), 1usize..4, levels, any::<bool>()).prop_map(|(mut problem, n, levels, required)| {
        let names = ["main", "ps", "worker"];
        problem.groups.truncate(n);
        for (g, name) in problem.groups.iter_mut().zip(names) {
            g.job = JobId(100);
            g.group = GroupName::new(name);
            g.gang = true;
            g.bound.clear();
            g.present.clear();
        }
        problem.groups = together(problem.groups, levels, required);
        problem
    })
}

/// The same on these hosts only, and without the wish.
fn only(problem: &Problem, on: impl Fn(&HostView) -> bool) -> Problem {
    let mut out = problem.clone();
    let mark = |view: &HostView| {
        let there = if on(view) { "yes" } else { "no" };
        with_attribute(view.clone(), "there", there)
    };
    let views: Vec<HostView> = problem.hosts.views().iter().map(mark).collect();
    out.hosts = std::sync::Arc::new(views.into());
    for g in &mut out.groups {
        g.together = Together::default();
        g.constraints.push(rule("there", &["yes"], false));
    }
    out
}

fn is_placed(answer: &Answer) -> bool {
    answer.unplaced.is_empty()
}

fn value(view: &HostView, by: &str) -> Option<String> {
    match by {
        "hostname" => Some(view.hostname.to_string()),
        name => view.attributes.get(name).cloned(),
    }
}

/// The first attribute by which all of it fits on hosts with one value, found by trying each.
fn nearest(problem: &Problem) -> Option<String> {
    let levels = problem.groups.first()?.together.levels.clone();
    let views = problem.hosts.views();
    levels.into_iter().find(|by| {
        let values: BTreeSet<Option<String>> = views.iter().map(|v| value(v, by)).collect();
        values.into_iter().flatten().any(|of| {
            let there = |v: &HostView| value(v, by).as_ref() == Some(&of);
            is_placed(&place(&only(problem, there)).0)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, ..ProptestConfig::default() })]
    #[test]
    fn a_gang_is_as_near_together_as_trying_every_value_says_and_loses_nothing_by_wishing_it(problem in one_gang()) {
        let answer = judged(&problem);
        let wanted = problem.groups.iter().any(Wanted::wants_any);
        let nearest = nearest(&problem).filter(|_| wanted);
        let required = problem.groups.first().is_some_and(|g| g.together.required);
        if let Some(by) = &nearest {
            prop_assert!(is_placed(&answer));
            let on: BTreeSet<Option<String>> = answer.choices.iter().map(|c| {
                let view = problem.hosts.views().iter().find(|v| v.id == c.host).unwrap();
                value(view, by)
            }).collect();
            prop_assert_eq!(on.len(), 1, "by {}", by);
        } else if wanted && required {
            prop_assert!(!is_placed(&answer));
        } else {
            let without = only(&problem, |_| true);
            prop_assert_eq!(&answer.choices, &place(&without).0.choices);
        }
    }
}
