//! Which clusters a job gets: by its own fields, and as its plan says.

use crate::queries::plan::plan;
use crate::tests::case::{Case, batch, service};
use echelon_core_model::cluster_choice::{ClusterChoice, CostRule, Preference, Spread};
use echelon_core_model::{JobId, ReasonCode, Span};
use echelon_core_testkit::build::{JobBuilder, shape};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn by_cluster(case: &Case, job: JobId) -> BTreeMap<String, u64> {
    let assignment = case.assignment(job);
    let mut out = BTreeMap::new();
    for (_, ranges) in assignment.iter().flat_map(|a| a.groups.iter()) {
        for r in ranges {
            *out.entry(r.cluster.to_string()).or_default() += r.range.count();
        }
    }
    out
}

fn counts(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
    pairs.iter().map(|(c, n)| ((*c).to_owned(), *n)).collect()
}

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|s| (*s).to_owned()).collect()
}

fn weights(pairs: &[(&str, u32)]) -> BTreeMap<String, u32> {
    pairs.iter().map(|(s, n)| ((*s).to_owned(), *n)).collect()
}

fn label(case: &mut Case, cluster: &str, key: &str, value: &str) {
    case.change_cluster(cluster, |c| {
        c.labels.insert(key.to_owned(), value.to_owned());
    });
}

#[test]
fn a_preferred_cluster_is_filled_first() {
    for (prefer, expected) in [
        (
            Preference::Ordered(names(&["b", "a"])),
            counts(&[("b", 8), ("a", 2)]),
        ),
        (
            Preference::Weighted(weights(&[("c", 2), ("a", 1)])),
            counts(&[("c", 8), ("a", 2)]),
        ),
    ] {
        let mut case = Case::with(&[("a", 8), ("b", 8), ("c", 8)]);
        let choice = ClusterChoice {
            prefer,
            ..ClusterChoice::default()
        };
        let job = case.job(1, service(10).clusters(choice));
        case.run_for(Span::seconds(3));
        assert_eq!(by_cluster(&case, job), expected);
    }
}

#[test]
fn only_by_label_follows_the_labels() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    let job = case.job(1, service(4).only(&["region=eu"]));
    case.run_for(Span::seconds(3));
    assert_eq!(case.waiting(job), [(ReasonCode::NoCluster, 4)]);
    label(&mut case, "b", "region", "eu");
    case.run_for(Span::seconds(3));
    assert_eq!(by_cluster(&case, job), counts(&[("b", 4)]));
    assert_eq!(case.total_active(job), 4);
}

#[test]
fn weights_divide_and_a_smaller_group_keeps_them() {
    let mut case = Case::with(&[("a", 20), ("b", 20), ("c", 20)]);
    let choice = ClusterChoice {
        spread: Spread::Weights(weights(&[("a", 3), ("b", 1)])),
        ..ClusterChoice::default()
    };
    let job = case.job(1, service(12).clusters(choice));
    case.run_for(Span::seconds(3));
    assert_eq!(by_cluster(&case, job), counts(&[("a", 9), ("b", 3)]));
    case.scale(job, 4);
    case.run_for(Span::seconds(10));
    assert_eq!(by_cluster(&case, job), counts(&[("a", 3), ("b", 1)]));
}

#[test]
fn no_cluster_gets_more_than_its_share_and_the_wait_says_so() {
    let mut case = Case::with(&[("a", 20), ("b", 20)]);
    let choice = ClusterChoice {
        max_share: 40,
        ..ClusterChoice::default()
    };
    let job = case.job(1, batch(10).clusters(choice));
    case.run_for(Span::seconds(3));
    assert_eq!(by_cluster(&case, job), counts(&[("a", 4), ("b", 4)]));
    assert_eq!(case.waiting(job), [(ReasonCode::ClusterShare, 2)]);
    case = case.cluster("c", 20);
    case.run_for(Span::seconds(30));
    assert_eq!(by_cluster(&case, job), counts(&[("a", 4), ("b", 4), ("c", 2)]));
}

#[test]
fn one_instance_is_held_back_for_each_cluster_that_is_to_be_used() {
    let mut case = Case::with(&[("a", 20)]);
    let choice = ClusterChoice {
        min_clusters: 3,
        ..ClusterChoice::default()
    };
    let job = case.job(1, service(6).clusters(choice));
    case.run_for(Span::seconds(3));
    assert_eq!(by_cluster(&case, job), counts(&[("a", 4)]));
    assert_eq!(case.waiting(job), [(ReasonCode::ClusterShare, 2)]);
}

#[test]
fn a_fail_over_cluster_takes_nothing_while_another_can_take_work() {
    let mut case = Case::with(&[("a", 4), ("b", 20)]);
    let choice = ClusterChoice {
        fail_over_only: names(&["b"]),
        ..ClusterChoice::default()
    };
    let first = case.job(1, service(6).clusters(choice.clone()));
    case.run_for(Span::seconds(3));
    assert_eq!(by_cluster(&case, first), counts(&[("a", 4)]));
    case.desire("a", echelon_core_model::cluster::DesiredState::Cordoned);
    let second = case.job(2, service(3).clusters(choice));
    case.run_for(Span::seconds(3));
    assert_eq!(by_cluster(&case, second), counts(&[("b", 3)]));
}

#[test]
fn preemption_makes_no_more_capacity_at_a_cluster_than_the_share_of_the_group() {
    let mut case = Case::with(&[("a", 10), ("b", 10)]);
    for pool in ["/x", "/y"] {
        case.set_pool(pool, 1_000_000);
    }
    case.run_for(Span::seconds(6));
    let filler = case.job(1, batch(40).pool("/x"));
    case.run_for(Span::seconds(3));
    assert_eq!(case.total_active(filler), 20);
    let choice = ClusterChoice {
        max_share: 30,
        ..ClusterChoice::default()
    };
    let job = case.job(2, service(10).pool("/y").clusters(choice));
    case.run_for(Span::minutes(5));
    assert_eq!(by_cluster(&case, job), counts(&[("a", 3), ("b", 3)]));
    assert_eq!((case.total_active(job), case.total_active(filler)), (6, 14));
}

#[test]
fn jobs_of_one_name_have_one_home() {
    let homes = (1..4).map(|n| {
        let mut case = Case::with(&[("a", 20), ("b", 20), ("c", 20)]);
        let job = case.job(n, JobBuilder::service("web", 2));
        case.run_for(Span::seconds(3));
        by_cluster(&case, job)
    });
    let homes: Vec<_> = homes.collect();
    assert!(homes.iter().all(|h| *h == homes[0] && h.len() == 1), "{homes:?}");
}

#[derive(Debug, Clone)]
struct Scene {
    cores: Vec<u64>,
    labels: Vec<(u8, u8)>,
    before: Vec<(u32, u64)>,
    choice: ClusterChoice,
    instances: u32,
    size: u64,
    name: String,
}

fn choices() -> impl Strategy<Value = ClusterChoice> {
    let some = || {
        prop::collection::btree_map(
            prop::sample::select(names(&["a", "b", "c", "zone=0"])),
            0..4u32,
            1..3,
        )
    };
    let list = || prop::collection::btree_set(prop::sample::select(names(&["a", "b", "c", "zone=0"])), 0..3);
    let prefer = prop_oneof![
        list().prop_map(|s| Preference::Ordered(s.into_iter().collect())),
        some().prop_map(Preference::Weighted),
    ];
    let spread = prop_oneof![
        3 => Just(Spread::None),
        1 => Just(Spread::Even),
        1 => some().prop_map(Spread::Weights),
    ];
    let rest = (
        1..4u32,
        prop_oneof![Just(100u32), 20..100u32],
        list(),
        any::<[bool; 2]>(),
    );
    (prefer, spread, rest).prop_map(|(prefer, spread, (min_clusters, max_share, fail_over, flags))| {
        ClusterChoice {
            only: Vec::new(),
            prefer,
            spread,
            min_clusters,
            max_share,
            fail_over_only: fail_over.into_iter().filter(|_| flags[0]).collect(),
            near: BTreeMap::from([("zone".to_owned(), "1".to_owned())]),
            cost: if flags[1] {
                CostRule::PreferCheap
            } else {
                CostRule::Ignore
            },
        }
    })
}

fn scenes() -> impl Strategy<Value = Scene> {
    let clusters = prop::collection::vec((2..24u64, (0..3u8, 0..3u8)), 1..4);
    let before = prop::collection::vec((1..12u32, 1..3u64), 0..4);
    (clusters, before, choices(), 1..30u32, 1..4u64, "[a-z]{1,6}").prop_map(
        |(clusters, before, choice, instances, size, name)| Scene {
            cores: clusters.iter().map(|c| c.0).collect(),
            labels: clusters.iter().map(|c| c.1).collect(),
            before,
            choice,
            instances,
            size,
            name,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// On unchanged facts a job gets what its plan said. `PROPTEST_CASES` plays more.
    #[test]
    fn a_plan_is_what_then_runs(scene in scenes()) {
        let cluster_names = ["a", "b", "c"];
        let clusters: Vec<(&str, u64)> = cluster_names.into_iter().zip(scene.cores.iter().copied()).collect();
        let mut case = Case::with(&clusters);
        for (name, (zone, price)) in cluster_names.into_iter().zip(&scene.labels) {
            label(&mut case, name, "zone", &zone.to_string());
            if *price > 0 {
                label(&mut case, name, "cost_core_hour", &price.to_string());
            }
        }
        for (n, (instances, size)) in scene.before.iter().enumerate() {
            let name = format!("before-{n}");
            let job = JobBuilder::service(&name, *instances).shape(shape(*size, 64));
            case.sized(u128::try_from(n).unwrap() + 1, job);
        }
        case.run_for(Span::seconds(20));
        let job = JobBuilder::service(&scene.name, scene.instances)
            .shape(shape(scene.size, 64))
            .clusters(scene.choice.clone());
        let planned = plan(case.rm.picture(), &job.clone().build());
        let planned = planned.groups[0].clusters.iter();
        let planned: BTreeMap<String, u64> = planned.map(|c| (c.name.clone(), c.instances)).collect();
        let job = case.sized(90, job);
        case.run_for(Span::seconds(3));
        prop_assert_eq!(by_cluster(&case, job), planned);
    }
}
