//! Room that is kept for a gang: who comes after it uses it only when he is certain to be gone in time.

use super::{Asked, admit_all, request, rooms, rooms_of, some_requests};
use crate::entitle::tests::{cpus, pool};
use crate::hold::{Hold, HoldScope, Holds};
use crate::queue::Turn;
use echelon_core_model::pool::Pool;
use echelon_core_model::{ClusterId, GroupName, JobId, Span, Timestamp};
use proptest::prelude::*;
use std::cmp::Reverse;

/// A gang of the first pool waits for so much of a cluster, as a job of this number, until 100.
fn hold(job: u128, cluster: &str, amount: u64) -> Holds {
    let hold = Hold {
        turn: Turn {
            priority: Reverse(0),
            job: JobId(job),
            group: GroupName::new("gang"),
        },
        pool: 1,
        cluster: ClusterId::new(cluster),
        in_cluster: cpus(amount),
        host_pool: None,
        in_pools: Vec::new(),
        until: Some(Timestamp(100)),
    };
    Holds {
        now: Timestamp(0),
        all: vec![hold],
    }
}

#[test]
fn who_comes_before_uses_it_and_who_comes_after_only_when_he_ends_in_time() {
    let mut there = rooms(&[("/p", 99)], &[("c", 10)]);
    there.holds = hold(5, "c", 6);
    let ending = |job, lasts| {
        let mut asked = request(job, "/p", 1, &[("c", 3)]);
        asked.lasts = Some(Span(lasts));
        asked
    };
    let asked = [
        request(1, "/p", 1, &[("c", 2)]),
        request(6, "/p", 1, &[("c", 9)]),
        ending(7, 101),
        ending(8, 100),
    ];
    let got: Vec<(u128, u64)> = admit_all(&asked, &mut there)
        .iter()
        .map(|(a, got, _)| (a.request.job.0, got.more.iter().map(|(_, _, n)| n).sum()))
        .collect();
    let of = |job| got.iter().find(|(j, _)| *j == job).map_or(0, |(_, n)| *n);
    assert_eq!([1, 6, 7, 8].map(of), [2, 2, 0, 3], "{got:?}");
    let left = there.rooms.cluster(
        &ClusterId::new("c"),
        crate::Side::Ordinary,
        crate::Unit::one(cpus(1)),
    );
    assert_eq!(left, cpus(3), "what is kept is no use of it");
}

#[test]
fn nothing_is_kept_for_a_gang_that_begins() {
    let mut there = rooms(&[("/p", 99)], &[("c", 10)]);
    there.holds = hold(5, "c", 6);
    let mut gang = request(5, "/p", 1, &[("c", 6)]);
    gang.request.group = GroupName::new("gang");
    let asked = [gang, request(6, "/p", 1, &[("c", 9)])];
    let got = admit_all(&asked, &mut there);
    let totals: Vec<u64> = got.iter().map(|(_, a, _)| a.total()).collect();
    assert_eq!(totals, [6, 4]);
}

#[test]
fn what_is_kept_of_a_pool_is_kept_at_every_cluster() {
    let mut there = rooms(&[("/p", 8)], &[("c", 10), ("d", 10)]);
    there.holds = hold(1, "c", 0);
    let p = there.hierarchy.find("/p").unwrap();
    there.holds.all[0].in_pools = vec![(p, cpus(5))];
    let got = admit_all(&[request(2, "/p", 1, &[("d", 9)])], &mut there);
    assert_eq!(got[0].1.more.iter().map(|(_, _, n)| n).sum::<u64>(), 3);
}

#[test]
fn a_hold_without_a_date_lets_nothing_past() {
    let mut there = rooms(&[("/p", 99)], &[("c", 10)]);
    there.holds = hold(5, "c", 6);
    there.holds.all[0].until = None;
    let mut asked = request(7, "/p", 1, &[("c", 9)]);
    asked.lasts = Some(Span(1));
    let got = admit_all(&[asked], &mut there);
    assert_eq!(got[0].1.total(), 4);
}

#[test]
fn a_hold_without_a_date_keeps_nothing_from_what_other_pools_are_entitled_to() {
    let mut there = rooms(&[("/p", 99), ("/q", 99)], &[("c", 10)]);
    there.holds = hold(5, "c", 6);
    there.holds.all[0].until = None;
    let asked = [
        request(6, "/p", 1, &[("c", 1)]),
        request(7, "/q", 1, &[("c", 7)]),
        request(8, "/p", 1, &[("c", 9)]),
    ];
    let got = admit_all(&asked, &mut there);
    let totals: Vec<u64> = got.iter().map(|(_, a, _)| a.total()).collect();
    // Each is entitled to five.
    assert_eq!(totals, [1, 5, 0]);
}

#[test]
fn what_is_no_entitlement_is_kept_from_what_comes_before_as_well() {
    let mut there = rooms(&[("/p", 99)], &[("c", 10)]);
    there.holds = hold(5, "c", 6);
    there.scope = HoldScope::All;
    let asked = [request(1, "/p", 1, &[("c", 9)]), request(6, "/p", 1, &[("c", 9)])];
    let totals = |there: &mut super::There| -> Vec<u64> {
        let got = admit_all(&asked, there);
        got.iter().map(|(_, a, _)| a.total()).collect()
    };
    assert_eq!(totals(&mut there), [4, 0]);
    // The unit itself may use all of it.
    let mut there = rooms(&[("/p", 99)], &[("c", 10)]);
    there.holds = hold(5, "c", 6);
    there.scope = HoldScope::All;
    let mut unit = request(5, "/p", 6, &[("c", 1)]);
    unit.request.group = GroupName::new("gang");
    let asked = [asked[0].clone(), unit, asked[1].clone()];
    let got = admit_all(&asked, &mut there);
    let totals: Vec<u64> = got.iter().map(|(_, a, _)| a.total()).collect();
    assert_eq!(totals, [4, 1, 0]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]
    #[test]
    fn nobody_behind_a_gang_takes_what_it_will_need(
        requests in some_requests(),
        lasts in prop::collection::vec(prop::option::of(0u64..200), 8),
        (at, kept) in (0u128..10, 0u64..20),
        (p, x, y) in (0u64..20, 0u64..20, 0u64..20),
    ) {
        let pools = [("/p", p), ("/p/a", p), ("/p/b", 9), ("/q", 99)];
        let mut there = rooms_of(pools.map(|(path, most)| pool(path, 0, most, 1)), &[("x", x), ("y", y)]);
        let mut requests = requests;
        requests.retain(|r| r.request.job.0 != at);
        for (r, lasts) in requests.iter_mut().zip(&lasts) {
            r.lasts = lasts.map(Span);
            r.request.terms.preemptible = true;
        }
        there.holds = hold(at, "x", kept);
        let before = there.rooms.clone();
        let admitted = admit_all(&requests, &mut there);
        let gang = &there.holds.all[0].turn;
        let (mut first, mut behind) = (0, 0);
        for (asked, got, _) in &admitted {
            let here = got.more.iter().filter(|(c, _, _)| c.as_str() == "x");
            let room = here.map(|(_, _, n)| n * asked.request.unit.shape.cpus).sum::<u64>();
            let turn = Turn {
                priority: Reverse(asked.priority),
                job: asked.request.job,
                group: asked.request.group.clone(),
            };
            let ends = asked.lasts.is_some_and(|l| l.0 <= 100);
            if turn < *gang {
                first += room;
            } else if !ends {
                behind += room;
            }
        }
        let whole = |rooms: &crate::Rooms| rooms.cluster(&ClusterId::new("x"), crate::Side::Ordinary, crate::Unit::one(cpus(1))).cpus;
        // Those behind have what is left beside it.
        prop_assert!(behind <= (x - first).saturating_sub(kept), "{admitted:?}");
        prop_assert!(whole(&there.rooms) <= whole(&before));
    }

    /// A queue that asks for nothing of a cluster, in a pool that may have no instance, keeps an admission
    /// going until every queue was looked at.
    #[test]
    fn an_admission_ends_early_only_when_nothing_more_can_be_admitted(
        requests in some_requests(),
        lasts in prop::collection::vec(prop::option::of(0u64..200), 8),
        (at, kept) in (0u128..10, 0u64..20),
        (is_dated, is_of_all) in (any::<bool>(), any::<bool>()),
        (p, x, y) in (0u64..20, 0u64..20, 0u64..20),
    ) {
        let pools = [("/p", p), ("/p/a", p), ("/p/b", 9), ("/q", 99)];
        let pools = pools.map(|(path, most)| pool(path, 0, most, 1));
        let mut closed = pool("/closed", 0, 99, 1);
        closed.max_instances = 0;
        let pools: Vec<Pool> = pools.into_iter().chain([closed]).collect();
        let mut requests = requests;
        for (r, lasts) in requests.iter_mut().zip(&lasts) {
            r.lasts = lasts.map(Span);
        }
        let admitted = |requests: &[Asked]| {
            let mut there = rooms_of(pools.clone(), &[("x", x), ("y", y)]);
            there.holds = hold(at, "x", kept);
            there.holds.all[0].until = is_dated.then_some(Timestamp(100));
            if is_of_all {
                there.scope = HoldScope::All;
            }
            let mut got = admit_all(requests, &mut there);
            got.retain(|(asked, ..)| asked.pool != "/closed");
            let got: Vec<_> = got.into_iter().map(|(asked, got, _)| (asked.request.job, got)).collect();
            (got, there.rooms)
        };
        let early = admitted(&requests);
        requests.push(request(99, "/closed", 0, &[("x", 1)]));
        prop_assert_eq!(early, admitted(&requests));
    }
}
