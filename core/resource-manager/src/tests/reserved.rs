//! Reservations in parts: they sum to the reservation, and in force never above it, whatever is lost or late and whoever dies.

use super::case::{Case, service};
use super::shard::ModelShard;
use crate::parts::Reach;
use crate::reserved::{Place, divide, wanted};
use echelon_core_model::cluster::Wish;
use echelon_core_model::part::PoolParts;
use echelon_core_model::pool::Pool;
use echelon_core_model::{Resources, Span};
use echelon_core_testkit::build::shape;
use proptest::prelude::*;

impl ModelShard {
    /// Takes parts in; they are stored, unless the test says otherwise, before they are confirmed.
    pub fn obey_parts(&mut self, parts: PoolParts) {
        if parts.number > self.reserved.number {
            self.reserved = parts;
        }
        if self.stores_parts {
            self.reserved_stored = self.reserved.clone();
        }
    }

    /// The most that this shard, or its next leader, may make of a pool.
    fn part_of(&self, pool: &str) -> u64 {
        let both = self.reserved.of(pool).max_each(self.reserved_stored.of(pool));
        both.cpus / 1000
    }
}

impl Case {
    /// Parts in force sum to no more than was ever reserved.
    pub fn hold_reservations(&self) {
        for (pool, most) in &self.reserved {
            let of: Vec<u64> = self.shards.values().map(|s| s.part_of(pool)).collect();
            let sum: u64 = of.iter().sum();
            assert!(
                sum <= *most,
                "{pool}: {of:?} of {most}\n{}",
                self.trace.join("\n")
            );
        }
    }

    fn reserve(&mut self, pool: &str, cores: u64) {
        self.change_pool(pool, |p| p.reservation = shape(cores, cores * 64));
        let most = self.reserved.entry(pool.to_owned()).or_default();
        *most = cores.max(*most);
        self.events.push_back(crate::Event::PoolsHint);
        self.run_for(Span::seconds(8));
    }

    fn pool_parts(&self, pool: &str) -> Vec<u64> {
        self.shards.values().map(|s| s.part_of(pool)).collect()
    }
}

/// Two clusters of four cores that a pool with a reservation of six wants more of than there is.
fn two() -> Case {
    let mut case = Case::with(&[("a", 4), ("b", 4)]);
    case.reserve("/default", 6);
    case.job(1, service(20).spread());
    case.run_for(Span::seconds(8));
    case
}

#[test]
fn clusters_get_parts_of_what_their_pools_have_reserved() {
    let case = two();
    assert_eq!(case.pool_parts("/default"), [3, 3]);
    let after = case.shards.values().map(|s| s.reserved.after);
    assert_eq!(after.collect::<Vec<_>>(), [Span::minutes(10); 2]);
}

#[test]
fn a_cluster_without_work_of_a_pool_is_told_of_no_part_of_it() {
    let mut case = Case::with(&[("a", 4), ("b", 4)]);
    case.reserve("/default", 6);
    let job = case.job(1, service(2).only(&["a"]));
    case.run_for(Span::seconds(8));
    // Two are wanted there; the rest goes by what clusters have.
    assert_eq!(case.pool_parts("/default"), [4, 0]);
    case.want(job, echelon_core_model::job::Desired::Stopped);
    case.run_for(Span::seconds(8));
    assert_eq!(case.pool_parts("/default"), [0, 0]);
}

#[test]
fn pools_above_are_divided_too() {
    let mut case = Case::with(&[("a", 4), ("b", 4)]);
    case.set_pool("/ml", 1000);
    case.set_pool("/ml/train", 1000);
    case.reserve("/ml", 6);
    case.reserve("/ml/train", 4);
    case.job(1, service(8).spread().pool("/ml/train"));
    case.run_for(Span::seconds(8));
    assert_eq!(case.pool_parts("/ml/train"), [2, 2]);
    assert_eq!(case.pool_parts("/ml"), [3, 3]);
}

#[test]
fn of_a_pool_that_bounds_numbers_nothing_is_given_out() {
    let mut case = two();
    case.change_pool("/default", |p| p.max_instances = 7);
    case.reserve("/default", 6);
    assert_eq!(case.pool_parts("/default"), [0, 0]);
}

#[test]
fn a_part_is_raised_when_the_smaller_one_is_confirmed_elsewhere() {
    let mut case = two();
    // What would take away never arrives, so nobody gets more.
    case.shard("a").stores_parts = false;
    case.wish("a", Wish::Cordoned);
    case.change_pool("/default", |p: &mut Pool| {
        p.limit = Resources {
            cpus: 6000,
            ..Resources::MAX
        };
    });
    case.job(2, service(9).only(&["b"]));
    case.run_for(Span::seconds(20));
    assert_eq!(case.pool_parts("/default")[1], 3);
    case.shard("a").stores_parts = true;
    case.run_for(Span::seconds(20));
    assert_eq!(case.pool_parts("/default").iter().sum::<u64>(), 6);
}

#[test]
fn a_shard_that_dies_before_it_stored_its_part_is_told_again() {
    let mut case = Case::with(&[("a", 4), ("b", 4)]);
    case.shard("a").stores_parts = false;
    case.reserve("/default", 6);
    case.job(1, service(20).spread());
    case.run_for(Span::seconds(8));
    let stored = case.shard("a").reserved_stored.clone();
    assert_eq!(stored.room, PoolParts::default().room);
    case.cut("a");
    let shard = case.shard("a");
    shard.fail_over();
    shard.stores_parts = true;
    case.reopen("a");
    case.run_for(Span::seconds(12));
    assert_eq!(case.pool_parts("/default"), [3, 3]);
}

#[test]
fn a_new_leader_keeps_parts_and_raises_none_before_every_cluster_was_heard() {
    let mut case = two();
    case.shard("a").cores = 0;
    case.cut("a");
    case.fail_over();
    case.run_for(Span::seconds(30));
    assert_eq!(
        case.pool_parts("/default"),
        [3, 3],
        "one that is away costs others nothing"
    );
    case.reserve("/default", 8);
    case.run_for(Span::seconds(30));
    assert_eq!(
        case.pool_parts("/default"),
        [3, 3],
        "it may have more than is known"
    );
    case.shard("a").cores = 4;
    case.reopen("a");
    case.run_for(Span::seconds(20));
    assert_eq!(case.pool_parts("/default"), [4, 4]);
}

#[test]
fn parts_of_an_earlier_leader_that_come_late_are_refused() {
    let mut case = two();
    case.held = Some((echelon_core_model::ClusterId::new("a"), Vec::new()));
    case.reserve("/default", 8);
    let (_, late) = case.held.take().unwrap();
    case.fail_over();
    case.reserve("/default", 2);
    case.run_for(Span::seconds(10));
    let before = case.pool_parts("/default");
    for (_, directive) in late {
        let now = case.now;
        case.shard("a").on_directive(directive, now);
    }
    assert_eq!(case.pool_parts("/default"), before);
    assert_eq!(before.iter().sum::<u64>(), 2);
}

#[test]
fn what_was_begun_inside_a_part_is_granted_and_not_stopped() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    case.set_pool("/default", 5);
    case.reserve("/default", 5);
    let job = case.job(1, service(8).only(&["a"]));
    case.run_for(Span::seconds(8));
    assert_eq!(case.active(job), [("a", 5)]);
    // Room that others had when the manager fell silent: the shard has begun two more meanwhile.
    case.limits.insert("/default".to_owned(), 7);
    case.cut("a");
    case.shard("a").add(job, 2);
    case.reopen("a");
    case.run_for(Span::seconds(30));
    assert_eq!(case.active(job), [("a", 7)]);
    // No more is granted while that is above the limit, and a smaller grant is obeyed as ever.
    case.respec(job, |s| s.groups[0].max_running = Some(3));
    case.run_for(Span::seconds(5));
    assert_eq!(case.active(job), [("a", 3)]);
}

#[test]
fn what_a_cut_shard_may_begin_counts_against_its_pools_limit() {
    let active = |cut: bool| {
        let mut case = Case::with(&[("a", 4), ("b", 8)]);
        case.set_pool("/default", 6);
        case.set_pool("/other", 4);
        case.reserve("/default", 6);
        case.job(1, service(4).pool("/other").only(&["a"]));
        // They wait at a full cluster, and may begin there when the others have ended.
        let there = case.job(2, service(4).only(&["a"]));
        case.run_for(Span::seconds(4));
        assert_eq!(
            (case.pool_parts("/default")[0] >= 4, case.total_active(there)),
            (true, 0)
        );
        if cut {
            case.shard("a").cores = 0;
            case.cut("a");
        }
        let other = case.job(3, service(6).only(&["b"]));
        case.run_for(Span::seconds(10));
        case.total_active(other)
    };
    assert_eq!((active(false), active(true)), (6, 2));
}

fn place() -> impl Strategy<Value = Place> {
    let numbers = (0u64..9, 0u64..9, 0u64..20, any::<bool>());
    numbers.prop_map(|(taken, more, capacity, takes_work)| Place {
        reach: Reach::Open,
        takes_work,
        taken,
        assigned: taken + more,
        capacity,
        given: 0,
        allocated: 0,
    })
}

/// What may happen to one of the places.
#[derive(Debug, Clone, Copy)]
enum Happens {
    /// It is told what is its part now; perhaps that is lost.
    Told,
    /// It confirms what it was told.
    Confirms,
    /// Its stream ends, or begins.
    CutOrOpen,
    /// Something else is wanted there.
    Wants(u64, u64),
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        3 => Just(Happens::Told),
        3 => Just(Happens::Confirms),
        1 => Just(Happens::CutOrOpen),
        2 => (0u64..9, 0u64..9).prop_map(|(taken, more)| Happens::Wants(taken, more)),
    ]
}

proptest! {
    #[test]
    fn parts_sum_to_the_reservation_and_one_more_unit_takes_none_away(
        reservation in 0u64..60, places in proptest::collection::vec(place(), 1..6),
    ) {
        let parts = wanted(reservation, &places);
        prop_assert_eq!(parts.iter().sum::<u64>(), reservation);
        let more = wanted(reservation + 1, &places);
        prop_assert!(parts.iter().zip(&more).all(|(a, b)| a <= b), "{:?} {:?}", parts, more);
        // What is active is covered before anything that waits.
        let taken: u64 = places.iter().map(|p| p.taken).sum();
        if taken <= reservation {
            prop_assert!(places.iter().zip(&parts).all(|(p, n)| *n >= p.taken));
        } else {
            prop_assert!(places.iter().zip(&parts).all(|(p, n)| *n <= p.taken));
        }
    }

    #[test]
    fn parts_in_force_never_sum_above_the_reservation(
        reservation in 0u64..40,
        mut places in proptest::collection::vec(place(), 1..5),
        steps in proptest::collection::vec((any::<usize>(), happens()), 0..60),
    ) {
        // What each shard obeys, and what it was told and has not confirmed.
        let mut obeyed = vec![0u64; places.len()];
        let mut sent: Vec<Option<u64>> = vec![None; places.len()];
        for (i, what) in steps {
            let i = i % places.len();
            match what {
                Happens::Told if sent[i].is_none() && places[i].reach == Reach::Open => {
                    sent[i] = Some(divide(reservation, &places)[i]);
                }
                Happens::Told => {}
                Happens::Confirms => obeyed[i] = sent[i].take().unwrap_or(obeyed[i]),
                Happens::CutOrOpen => {
                    let open = places[i].reach == Reach::Open;
                    places[i].reach = if open { Reach::Cut } else { Reach::Open };
                }
                Happens::Wants(taken, more) => {
                    (places[i].taken, places[i].assigned) = (taken, taken + more);
                }
            }
            places[i].given = sent[i].unwrap_or(obeyed[i]);
            places[i].allocated = places[i].given.max(obeyed[i]);
            let in_force: u64 = places.iter().map(|p| p.allocated).sum();
            prop_assert!(in_force <= reservation, "{:?}", places);
        }
        // All confirm and nothing else happens: it comes to what is wanted.
        places.iter_mut().for_each(|p| p.reach = Reach::Open);
        for _ in 0..3 {
            let parts = divide(reservation, &places);
            for (p, n) in places.iter_mut().zip(parts) {
                (p.given, p.allocated) = (n, n);
            }
        }
        let now: Vec<u64> = places.iter().map(|p| p.given).collect();
        prop_assert_eq!(now, wanted(reservation, &places));
    }
}
