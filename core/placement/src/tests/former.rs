//! Who replaces a run goes back to its host: before others are served, where no host is better by the rules, and never at the cost of a
//! place that its group would have had.

use super::{group, host, judged, problem, solve, with_attribute};
use crate::{Item, Problem, Wanted, place};
use echelon_core_model::siting::Siting;
use echelon_core_model::spec::JobKind;
use echelon_core_model::{HostId, InstanceNumber, Resources};
use proptest::prelude::*;
use std::collections::BTreeMap;

const fn shape(cpus: u64) -> Resources {
    Resources {
        cpus: cpus * 1000,
        memory: 64,
        ..Resources::ZERO
    }
}

const fn room(cpus: u64) -> Resources {
    Resources {
        cpus: cpus * 1000,
        memory: 4096,
        ..Resources::ZERO
    }
}

fn from(mut wanted: Wanted, hosts: &[Option<&str>]) -> Wanted {
    let items = hosts.iter().zip(0..).map(|(former, n)| Item {
        number: InstanceNumber(n),
        avoid: Vec::new(),
        former: former.map(HostId::new),
    });
    wanted.items = items.collect();
    wanted
}

#[test]
fn it_goes_back_although_another_host_is_roomier() {
    let hosts = vec![host("a", room(2)), host("b", room(8))];
    let service = group(1, JobKind::Service, 1, shape(1));
    assert_eq!(solve(&problem(1, vec![service.clone()], hosts.clone())), "1 0:b");
    let back = from(service, &[Some("a")]);
    assert_eq!(solve(&problem(1, vec![back], hosts)), "1 0:a");
}

#[test]
fn its_room_is_for_it_before_older_and_higher_ones() {
    let hosts = vec![host("a", room(1)), host("b", room(4))];
    let mut batch = group(1, JobKind::Batch, 5, shape(1));
    batch.priority = 9;
    let back = from(group(2, JobKind::Service, 1, shape(1)), &[Some("a")]);
    let told = solve(&problem(1, vec![batch, back], hosts));
    assert!(told.starts_with("1 0:b 1:b 2:b 3:b\n2 0:a\n1 [4]"), "{told}");
}

#[test]
fn where_it_may_not_or_had_better_not_go_back_it_goes_elsewhere() {
    let service = || group(1, JobKind::Service, 1, shape(1));
    let full = vec![host("a", room(0)), host("b", room(4))];
    assert_eq!(
        solve(&problem(1, vec![from(service(), &[Some("a")])], full)),
        "1 0:b"
    );
    let two = || vec![host("a", room(4)), host("b", room(4))];
    assert_eq!(
        solve(&problem(1, vec![from(service(), &[Some("gone")])], two())),
        "1 0:b"
    );
    let mut crowded = from(service(), &[Some("a")]);
    crowded.present = BTreeMap::from([(HostId::new("a"), 1)]);
    assert_eq!(
        solve(&problem(1, vec![crowded], two())),
        "1 0:b",
        "it is more even"
    );
    let mut avoids = from(service(), &[Some("a")]);
    avoids.items[0].avoid = vec![HostId::new("a")];
    assert_eq!(solve(&problem(1, vec![avoids], two())), "1 0:b");
    let zones = || {
        let zone = |name, zone| with_attribute(host(name, room(4)), "zone", zone);
        vec![zone("a", "x"), zone("b", "x"), zone("c", "y")]
    };
    let mut spread = from(service(), &[Some("a")]);
    spread.siting = Siting {
        spread_over: vec!["zone".to_owned()],
        ..Siting::default()
    };
    let back = solve(&problem(1, vec![spread.clone()], zones()));
    assert_eq!(back, "1 0:a", "its zone is as good as the other");
    spread.present = BTreeMap::from([(HostId::new("b"), 1)]);
    assert_eq!(solve(&problem(1, vec![spread], zones())), "1 0:c");
}

#[test]
fn some_go_back_and_the_others_find_room_anew() {
    let hosts = vec![host("a", room(1)), host("b", room(1)), host("c", room(2))];
    let back = from(
        group(1, JobKind::Service, 4, shape(1)),
        &[None, Some("b"), Some("b"), Some("a")],
    );
    assert_eq!(solve(&problem(1, vec![back], hosts)), "1 1:b 3:a 0:c 2:c");
}

fn with_formers() -> impl Strategy<Value = Problem> {
    let hosts = proptest::collection::vec((0..5u64, 0..3u8), 1..7);
    let former = proptest::option::of(0..8u8);
    let one = (
        prop_oneof![Just(JobKind::Service), Just(JobKind::Batch)],
        proptest::collection::vec(former, 0..8),
        1..3u64,
        (any::<bool>(), proptest::option::of(1..3u32)),
        proptest::collection::btree_map(0..7u8, 1..3u32, 0..3),
    );
    (hosts, proptest::collection::vec(one, 1..3)).prop_map(|(hosts, groups)| {
        let hosts = hosts.into_iter().enumerate().map(|(n, (cpus, zone))| {
            let host = host(&format!("h{n}"), room(cpus));
            with_attribute(host, "zone", &format!("z{zone}"))
        });
        let groups =
            groups
                .into_iter()
                .zip(1..)
                .map(|((kind, formers, cpus, (spread, most), present), job)| {
                    let names: Vec<Option<String>> =
                        formers.into_iter().map(|f| f.map(|n| format!("h{n}"))).collect();
                    let names: Vec<Option<&str>> = names.iter().map(Option::as_deref).collect();
                    let mut wanted = from(group(job, kind, 0, shape(cpus)), &names);
                    wanted.siting = Siting {
                        spread_over: if spread {
                            vec!["zone".to_owned()]
                        } else {
                            Vec::new()
                        },
                        max_per: most.map(|n| ("hostname".to_owned(), n)).into_iter().collect(),
                        ..Siting::default()
                    };
                    wanted.present = present
                        .into_iter()
                        .map(|(n, count)| (HostId::new(format!("h{n}")), count))
                        .collect();
                    wanted
                });
        problem(1, groups.collect(), hosts.collect())
    })
}

fn without_formers(problem: &Problem) -> Problem {
    let mut out = problem.clone();
    out.groups
        .iter_mut()
        .flat_map(|g| &mut g.items)
        .for_each(|i| i.former = None);
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn going_back_breaks_no_rule(problem in with_formers()) {
        judged(&problem);
    }

    #[test]
    fn a_group_never_loses_a_place_by_going_back(problem in with_formers()) {
        let mut alone = problem;
        alone.groups.truncate(1);
        let placed = |p: &Problem| place(p).0.choices.len();
        prop_assert!(placed(&alone) >= placed(&without_formers(&alone)));
    }
}
