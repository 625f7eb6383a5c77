//! Users of one pool, by tables and properties.

use super::*;
use crate::admit::tests::{Asked, There, admit_all, request, rooms_of};
use crate::entitle::tests::{cpus, pool};
use echelon_core_model::pool::Pool;
use proptest::prelude::*;

fn fair_rooms(most: u64) -> There {
    let fair = Pool {
        fair_users: true,
        ..pool("/p", 0, 1_000_000_000, 1)
    };
    rooms_of([fair], &[("c", most)])
}

fn of(user: &'static str, asked: Asked) -> Asked {
    Asked {
        user: Some(user),
        ..asked
    }
}

/// What each user gets, in cores.
fn by_user(asked: &[Asked], there: &mut There) -> BTreeMap<&'static str, u64> {
    let mut out = BTreeMap::new();
    for (a, got, _) in admit_all(asked, there) {
        let n: u64 = got.more.iter().map(|(_, _, n)| n).sum();
        *out.entry(a.user.unwrap_or_default()).or_default() += n * a.request.unit.shape.cpus;
    }
    out
}

#[test]
fn the_user_who_has_least_goes_first_whatever_the_age() {
    let asked = [
        of("ann", request(1, "/p", 1, &[("c", 100)])),
        of("bob", request(2, "/p", 1, &[("c", 100)])),
        of("cid", request(3, "/p", 1, &[("c", 4)])),
    ];
    let mut there = fair_rooms(40);
    let pool = there.hierarchy.find("/p").unwrap();
    there.rooms.user_takes(pool, &Arc::from("bob"), cpus(10));
    // Bob has ten already: with those all three are level, but for Cid who wants no more.
    let got = by_user(&asked, &mut there);
    assert_eq!(got, BTreeMap::from([("ann", 23), ("bob", 13), ("cid", 4)]));
}

#[test]
fn priority_goes_before_what_users_have() {
    let urgent = Asked {
        priority: 5,
        ..of("ann", request(9, "/p", 1, &[("c", 30)]))
    };
    let asked = [urgent, of("bob", request(1, "/p", 1, &[("c", 100)]))];
    let got = by_user(&asked, &mut fair_rooms(40));
    assert_eq!(got, BTreeMap::from([("ann", 30), ("bob", 10)]));
}

#[test]
fn a_million_instances_take_few_steps() {
    let asked = [
        of("ann", request(1, "/p", 1, &[("c", 1_000_000)])),
        of("bob", request(2, "/p", 3, &[("c", 1_000_000)])),
        of("cid", request(3, "/p", 2, &[("c", 1_000_000)])),
    ];
    let mut there = fair_rooms(1_000_000);
    let steps = crate::admit::tests::steps(&asked, &mut there);
    assert!(steps < 400, "{steps}");
}

/// Jobs of two users, each of whom wants more than there is.
fn greedy() -> impl Strategy<Value = (Vec<Asked>, u64)> {
    let job = (1u64..5, 0usize..2);
    (proptest::collection::vec(job, 2..8), 1u64..3_000).prop_map(|(jobs, most)| {
        let one = |(i, (shape, user)): (usize, (u64, usize))| {
            // Each has one at least.
            let user = if i < 2 { i } else { user };
            of(
                ["ann", "bob"][user],
                request(i as u128 + 1, "/p", shape, &[("c", 4_000)]),
            )
        };
        (jobs.into_iter().enumerate().map(one).collect(), most)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]
    #[test]
    fn users_who_want_everything_end_within_an_instance_of_each_other((asked, most) in greedy()) {
        let got = by_user(&asked, &mut fair_rooms(most));
        let largest = asked.iter().map(|a| a.request.unit.shape.cpus).max().unwrap();
        let poorer = if got["ann"] < got["bob"] { "ann" } else { "bob" };
        let of_poorer = asked.iter().filter(|a| a.user == Some(poorer));
        // What is too little for any instance of who has less goes to the other.
        let too_little = of_poorer.map(|a| a.request.unit.shape.cpus).min().unwrap() - 1;
        let same = asked.iter().all(|a| a.request.unit.shape.cpus == largest);
        let gap = got["ann"].abs_diff(got["bob"]);
        prop_assert!(gap <= largest + if same { 0 } else { too_little }, "{got:?}");
        // Nothing is left that anybody's oldest job could have.
        let smallest = asked.iter().map(|a| a.request.unit.shape.cpus).min().unwrap();
        prop_assert!(most - got["ann"] - got["bob"] < smallest, "{got:?}");
    }

    #[test]
    fn the_order_in_which_they_came_does_not_matter((asked, most) in greedy()) {
        let backwards: Vec<Asked> = asked.iter().rev().cloned().collect();
        let (mut one, mut other) = (fair_rooms(most), fair_rooms(most));
        prop_assert_eq!(by_user(&asked, &mut one), by_user(&backwards, &mut other));
        prop_assert_eq!(one.rooms, other.rooms);
    }

    #[test]
    fn one_user_alone_is_served_as_anywhere((asked, most) in greedy()) {
        let alone: Vec<Asked> = asked.iter().cloned().map(|a| of("ann", a)).collect();
        let plain: Vec<Asked> = asked.into_iter().map(|a| Asked { user: None, ..a }).collect();
        let told = |asked: &[Asked]| -> Vec<u64> {
            let all = admit_all(asked, &mut fair_rooms(most));
            all.iter().map(|(_, got, _)| got.more.iter().map(|(_, _, n)| n).sum()).collect()
        };
        prop_assert_eq!(told(&alone), told(&plain));
    }
}
