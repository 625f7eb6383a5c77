//! Capacity that may take nothing new is not divided, apart from what still runs there.

use crate::division::{Entitled, divide, entitled};
use crate::queries::figures::figures;
use crate::queries::plan::plan;
use crate::tests::case::{Case, batch, service};
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::job::Desired;
use echelon_core_model::{Resources, Span};
use echelon_core_pools::certificate;
use proptest::prelude::*;

/// Two clusters of 12 cores each; `/y` has a reservation of 6 cores.
fn two_clusters() -> Case {
    let mut case = Case::with(&[("east", 12), ("west", 12)]);
    case.set_pool("/y", 1_000_000);
    case.change_pool("/y", |p| p.reservation.cpus = 6_000);
    case.run_for(Span::seconds(6));
    case
}

/// The cores that are divided, and those that are not since they may take nothing new.
fn divided(case: &Case) -> (u64, u64) {
    let figures = figures(case.rm.picture(), None);
    let cores = |r: Resources| r.cpus / 1000;
    let proof = &figures.ordinary.certificate;
    let faults = certificate::check(&figures.tree, &figures.ordinary.demand, proof.capacity, proof);
    assert_eq!(faults, []);
    (cores(proof.capacity), cores(figures.closed))
}

#[test]
fn a_reservation_gets_its_capacity_although_another_cluster_is_drained() {
    let mut case = two_clusters();
    case.desire("west", DesiredState::Draining);
    let default = case.job(1, batch(20));
    case.run_for(Span::seconds(5));
    assert_eq!(case.total_active(default), 12);
    let y = case.job(2, batch(6).pool("/y"));
    case.run_for(Span::minutes(3));
    assert_eq!((case.total_active(default), case.total_active(y)), (6, 6));
    assert_eq!(divided(&case), (12, 12));
}

#[test]
fn a_cordoned_cluster_counts_with_what_runs_there() {
    let mut case = two_clusters();
    let default = case.job(1, service(5).only(&["west"]));
    case.run_for(Span::seconds(5));
    assert_eq!((case.total_active(default), divided(&case)), (5, (24, 0)));
    case.desire("west", DesiredState::Cordoned);
    case.run_for(Span::seconds(5));
    assert_eq!((case.total_active(default), divided(&case)), (5, (17, 7)));
    let more = case.job(2, batch(20));
    let y = case.job(3, batch(6).pool("/y"));
    case.run_for(Span::minutes(3));
    let active = [default, more, y].map(|job| case.total_active(job));
    assert_eq!(
        active,
        [5, 6, 6],
        "what runs in west is part of what /default has"
    );
}

#[test]
fn what_is_taken_back_is_divided_again() {
    let mut case = two_clusters();
    case.desire("west", DesiredState::Draining);
    case.run_for(Span::seconds(5));
    assert_eq!(divided(&case), (12, 12));
    case.desire("west", DesiredState::Active);
    case.run_for(Span::seconds(5));
    assert_eq!(divided(&case), (24, 0));
    let default = case.job(1, batch(20));
    let y = case.job(2, batch(6).pool("/y"));
    case.run_for(Span::minutes(1));
    assert_eq!((case.total_active(default), case.total_active(y)), (18, 6));
}

#[test]
fn a_cluster_that_has_left_counts_nothing_and_one_out_of_reach_as_before() {
    let mut case = two_clusters();
    case.cut("west");
    case.shard("west").cores = 0;
    case.run_for(Span::minutes(3));
    assert_eq!(divided(&case), (24, 0), "its hosts go on");
    case.desire("west", DesiredState::Removed);
    case.run_for(Span::seconds(5));
    assert_eq!(divided(&case), (12, 0), "nothing of it is left out: it is gone");
}

#[test]
fn what_is_drained_of_a_cluster_leaves_the_rest_to_be_used_whole() {
    let mut case = Case::with(&[("east", 12)]);
    let old = case.job(1, service(4));
    case.run_for(Span::seconds(5));
    // Hosts with six cores are drained, and four of these go on running.
    case.at("east", |s, now| s.close(6, now));
    assert_eq!((case.total_active(old), divided(&case)), (4, (10, 2)));
    let new = case.job(2, batch(9));
    case.run_for(Span::seconds(5));
    assert_eq!(case.total_active(new), 6, "all that the other hosts have");
    let told = plan(case.rm.picture(), &batch(1).build());
    assert_eq!(told.groups[0].could_start, 0);
    case.at("east", |s, now| s.close(0, now));
    case.run_for(Span::seconds(5));
    assert_eq!((case.total_active(new), divided(&case)), (8, (12, 0)));
}

#[test]
fn what_hosts_lend_in_a_closed_cluster_is_not_divided() {
    let mut case = Case::new().pool("/x", 100).pool("/y", 100);
    case = case.cluster("east", 4).cluster("west", 4);
    case.shard("east").lent_cores = 4;
    case.shard("west").lent_cores = 4;
    let x = case.store_job(1, batch(9).pool("/x").revocable());
    case.elect();
    case.run_for(Span::seconds(5));
    assert_eq!(case.total_active(x), 8);
    let lent = |case: &Case| figures(case.rm.picture(), None).lent.certificate.capacity.cpus;
    assert_eq!(lent(&case), 8_000);
    case.desire("west", DesiredState::Cordoned);
    case.run_for(Span::seconds(5));
    assert_eq!((case.total_active(x), lent(&case)), (8, 8_000));
    case.want(x, Desired::Stopped);
    case.run_for(Span::seconds(5));
    assert_eq!(lent(&case), 4_000);
}

/// A change of what may take new work, or of what runs.
#[derive(Debug, Clone)]
enum Change {
    DesiredState(bool, DesiredState),
    Hosts(bool, u64),
    Job {
        pool: bool,
        cores: u32,
        only: Option<bool>,
    },
    Stop(prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    let desired_state = prop_oneof![
        Just(DesiredState::Active),
        Just(DesiredState::Cordoned),
        Just(DesiredState::Draining)
    ];
    prop_oneof![
        (any::<bool>(), desired_state)
            .prop_map(|(of, desired_state)| Change::DesiredState(of, desired_state)),
        (any::<bool>(), 0u64..6).prop_map(|(of, cores)| Change::Hosts(of, cores)),
        (any::<bool>(), 1u32..40, any::<Option<bool>>()).prop_map(|(pool, cores, only)| Change::Job {
            pool,
            cores,
            only
        }),
        any::<prop::sample::Index>().prop_map(Change::Stop),
    ]
}

const fn name(west: bool) -> &'static str {
    if west { "west" } else { "east" }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    /// What stands from cycle to cycle is what is computed from nothing, and proves itself.
    #[test]
    fn what_stands_is_what_is_computed_from_nothing(changes in proptest::collection::vec(change(), 1..7)) {
        let mut case = two_clusters();
        let mut jobs = Vec::new();
        for (n, change) in (1u128..).zip(changes) {
            match change {
                Change::DesiredState(west, desired_state) => case.desire(name(west), desired_state),
                Change::Hosts(west, cores) => case.at(name(west), |s, now| s.close(cores, now)),
                Change::Job { pool, cores, only } => {
                    let only: Vec<&str> = only.into_iter().map(name).collect();
                    let pool = if pool { "/y" } else { "/default" };
                    jobs.push(case.job(n, batch(cores).pool(pool).only(&only)));
                }
                Change::Stop(at) if !jobs.is_empty() => case.want(*at.get(&jobs), Desired::Stopped),
                Change::Stop(_) => {}
            }
            case.run_for(Span::seconds(3));
            let mut picture = case.rm.picture().clone();
            let Entitled { ordinary, lent } = entitled(&picture.facts, &picture.demand.ledger);
            let changed = picture.demand.count_pools(&picture.facts);
            let stands = divide(&picture.facts, &picture.demand, &changed, &mut picture.division).entitled;
            prop_assert_eq!(&stands.ordinary, &ordinary);
            prop_assert_eq!(stands.lent.amount(0), lent.amount(0));
            divided(&case);
        }
    }
}
