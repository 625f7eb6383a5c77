//! Victims: no one in vain, always; the cheapest set of all, held against every set there is, on small questions.

use crate::victims::{Candidate, CandidateIdx, Chosen, Question, Seat, Shape, choose};
use echelon_core_model::Resources;
use proptest::collection::vec;
use proptest::prelude::*;
use std::cmp::Reverse;

fn room(cpus: u64, memory: u64) -> Resources {
    Resources {
        cpus,
        memory,
        ..Resources::ZERO
    }
}

/// Somebody alone on a host.
fn alone() -> impl Strategy<Value = Candidate> {
    let one = (0..3usize, 1..4u64, 0..4u64, 0..3u32, 0..3usize);
    one.prop_map(|(seat, cpus, memory, class, slice)| Candidate {
        rooms: vec![(seat, room(cpus, memory))],
        count: 1,
        class,
        slice,
    })
}

/// Some who are stopped together, one of them on none of the hosts.
fn together() -> impl Strategy<Value = Candidate> {
    let rooms = vec((0..3usize, (1..4u64, 0..4u64)), 1..3);
    (rooms, 2..5u32, 0..3usize).prop_map(|(rooms, class, slice)| Candidate {
        count: rooms.len() as u64 + 1,
        rooms: rooms.into_iter().map(|(s, (c, m))| (s, room(c, m))).collect(),
        class,
        slice,
    })
}

fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let shape = (
        1..6u64,
        0..6u64,
        1..3u64,
        proptest::sample::subsequence(vec![0, 1, 2], 1..=3),
    );
    let shape = shape.prop_map(|(cpus, memory, count, seats)| Shape {
        room: room(cpus, memory),
        count,
        seats,
    });
    vec(shape, 1..4)
}

fn question() -> impl Strategy<Value = Question> {
    let seats = vec((0..4u64, 0..4u64), 3);
    let candidates = (vec(alone(), 0..7), vec(together(), 0..3));
    let bounds = (0..9u64, vec(0..7u64, 3));
    (shapes(), any::<bool>(), seats, candidates, bounds).prop_map(
        |(shapes, whole, seats, (mut candidates, more), (most, slices))| {
            candidates.extend(more);
            Question {
                shapes,
                whole,
                most,
                seats: seats
                    .into_iter()
                    .map(|(c, m)| Seat { spare: room(c, m) })
                    .collect(),
                candidates,
                slices,
            }
        },
    )
}

/// One group's instances, which may be on every host.
fn of_one_shape() -> impl Strategy<Value = Question> {
    question().prop_map(|mut q| {
        q.shapes.truncate(1);
        q.shapes[0].seats = vec![0, 1, 2];
        q
    })
}

/// Room of every seat when these are gone.
fn rooms_with(q: &Question, victims: &[CandidateIdx]) -> Vec<Resources> {
    let mut out: Vec<Resources> = q.seats.iter().map(|s| s.spare).collect();
    for (seat, room) in victims.iter().flat_map(|i| &q.candidates[*i].rooms) {
        out[*seat] = out[*seat].plus(*room);
    }
    out
}

fn within_bounds(q: &Question, victims: &[CandidateIdx]) -> bool {
    let count = |of: &dyn Fn(&Candidate) -> bool| -> u64 {
        let all = victims.iter().map(|i| &q.candidates[*i]);
        all.filter(|c| of(c)).map(|c| c.count).sum()
    };
    count(&|_| true) <= q.most && (0..q.slices.len()).all(|s| count(&|c| c.slice == s) <= q.slices[s])
}

fn times<T: Clone>(one: T, n: u64) -> Vec<T> {
    vec![one; usize::try_from(n).unwrap()]
}

fn classes(q: &Question, victims: &[CandidateIdx]) -> Vec<u32> {
    let all = victims.iter().map(|i| &q.candidates[*i]);
    let mut out: Vec<u32> = all.flat_map(|c| times(c.class, c.count)).collect();
    out.sort_by_key(|c| Reverse(*c));
    out
}

/// Whether all of these find room, tried in every way.
fn seats_all(q: &Question, instances: &[usize], rooms: &mut [Resources]) -> bool {
    let Some((first, rest)) = instances.split_first() else {
        return true;
    };
    let shape = &q.shapes[*first];
    shape.seats.iter().any(|seat| {
        let before = rooms[*seat];
        let fits = shape.room.fits(before) && {
            rooms[*seat] = before.minus(shape.room);
            seats_all(q, rest, rooms)
        };
        rooms[*seat] = before;
        fits
    })
}

/// The least that it costs to seat so many of each shape, of every set that there is.
fn least(q: &Question, counts: &[u64]) -> Option<Vec<u32>> {
    let instances: Vec<usize> = (0..counts.len())
        .flat_map(|shape| times(shape, counts[shape]))
        .collect();
    let sets = (0..1usize << q.candidates.len()).map(|bits| {
        (0..q.candidates.len())
            .filter(|i| bits >> i & 1 == 1)
            .collect::<Vec<_>>()
    });
    let allowed = sets.filter(|set| within_bounds(q, set));
    let enough = allowed.filter(|set| seats_all(q, &instances, &mut rooms_with(q, set)));
    enough.map(|set| classes(q, &set)).min()
}

fn counts(q: &Question) -> Vec<u64> {
    q.shapes.iter().map(|s| s.count).collect()
}

/// Whether everybody fits where the answer has him when only these are gone.
fn fits(q: &Question, answer: &Chosen, victims: &[CandidateIdx]) -> bool {
    let rooms = rooms_with(q, victims);
    answer.load.iter().all(|(seat, load)| {
        let needs = load.iter().map(|(shape, n)| q.shapes[*shape].room.times(*n));
        needs.fold(Resources::ZERO, Resources::plus).fits(rooms[*seat])
    })
}

fn seated(q: &Question, answer: &Chosen) -> Vec<u64> {
    let of = |shape: usize| answer.load.values().filter_map(move |load| load.get(&shape));
    (0..q.shapes.len()).map(|shape| of(shape).sum()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn nobody_is_stopped_in_vain(q in question()) {
        let answer = choose(&q);
        prop_assert!(within_bounds(&q, &answer.victims));
        prop_assert!(fits(&q, &answer, &answer.victims));
        for (seat, load) in &answer.load {
            prop_assert!(load.keys().all(|shape| q.shapes[*shape].seats.contains(seat)));
        }
        let seated = seated(&q, &answer);
        prop_assert!(seated.iter().zip(counts(&q)).all(|(n, most)| *n <= most));
        prop_assert!(!q.whole || seated == counts(&q) || answer == Chosen::default());
        for i in &answer.victims {
            let rest: Vec<CandidateIdx> = answer.victims.iter().copied().filter(|v| v != i).collect();
            prop_assert!(!fits(&q, &answer, &rest), "{i} is stopped in vain");
        }
    }

    #[test]
    fn of_one_shape_nobody_is_stopped_in_vain_wherever_they_go(q in of_one_shape()) {
        let answer = choose(&q);
        let instances = times(0, seated(&q, &answer)[0]);
        for i in &answer.victims {
            let rest: Vec<CandidateIdx> = answer.victims.iter().copied().filter(|v| v != i).collect();
            prop_assert!(!seats_all(&q, &instances, &mut rooms_with(&q, &rest)), "{i} is stopped in vain");
        }
    }

    #[test]
    fn one_instance_costs_the_least_of_all_sets(q in of_one_shape()) {
        let mut q = Question { whole: false, ..q };
        q.shapes[0].count = 1;
        let answer = choose(&q);
        let found = (!answer.load.is_empty()).then(|| classes(&q, &answer.victims));
        prop_assert_eq!(found, least(&q, &[1]));
    }

    #[test]
    fn a_whole_costs_the_least_of_all_sets_or_there_is_none(q in question()) {
        let q = Question { whole: true, ..q };
        let answer = choose(&q);
        let found = (!answer.load.is_empty()).then(|| classes(&q, &answer.victims));
        prop_assert_eq!(found, least(&q, &counts(&q)));
    }
}

fn candidate(seat: usize, cpus: u64, class: u32) -> Candidate {
    Candidate {
        rooms: vec![(seat, room(cpus, 0))],
        count: 1,
        class,
        slice: 0,
    }
}

/// So many of so many cores each, anywhere on these hosts.
fn wanted(cores: u64, count: u64, spare: &[u64], candidates: Vec<Candidate>) -> Question {
    Question {
        shapes: vec![Shape {
            room: room(cores, 0),
            count,
            seats: (0..spare.len()).collect(),
        }],
        whole: false,
        most: 99,
        seats: spare.iter().map(|c| Seat { spare: room(*c, 0) }).collect(),
        candidates,
        slices: vec![99],
    }
}

#[test]
fn many_cheap_ones_go_before_one_dear_one() {
    let candidates = vec![
        candidate(0, 3, 1),
        candidate(0, 1, 0),
        candidate(0, 1, 0),
        candidate(0, 1, 0),
    ];
    assert_eq!(choose(&wanted(3, 1, &[0], candidates)).victims, [1, 2, 3]);
}

#[test]
fn what_ends_already_is_enough() {
    let answer = choose(&wanted(2, 2, &[4], vec![candidate(0, 2, 0)]));
    assert_eq!((answer.load[&0][&0], answer.victims.len()), (2, 0));
}

#[test]
fn who_makes_room_for_all_spares_those_who_were_chosen_for_some() {
    // The first is cheap and enough for one; the other, who is needed for the second, is enough for both.
    let answer = choose(&wanted(
        2,
        3,
        &[0, 2],
        vec![candidate(1, 2, 0), candidate(0, 4, 1)],
    ));
    assert_eq!(
        (answer.victims.as_slice(), answer.load[&0][&0]),
        ([1].as_slice(), 2)
    );
}

#[test]
fn who_is_stopped_for_one_host_leaves_room_on_the_others() {
    let both = Candidate {
        rooms: vec![(0, room(2, 0)), (1, room(2, 0))],
        count: 2,
        class: 0,
        slice: 0,
    };
    let answer = choose(&wanted(2, 2, &[0, 0], vec![both, candidate(1, 2, 1)]));
    assert_eq!(answer.victims, [0]);
    assert_eq!((answer.load[&0][&0], answer.load[&1][&0]), (1, 1));
}

/// A gang that is too large to try every way of seating it: 20 of two cores each, one host of two cores for each of them.
#[test]
fn a_large_whole_finds_room_for_all_or_stops_nobody() {
    let candidates = |n: usize| (0..n).map(|i| candidate(i, 2, 0)).collect::<Vec<_>>();
    let mut q = wanted(2, 20, &[0; 30], candidates(30));
    q.whole = true;
    assert_eq!(choose(&q).victims.len(), 20);
    q.candidates = candidates(19);
    assert_eq!(choose(&q), Chosen::default());
    q.whole = false;
    assert_eq!(choose(&q).victims.len(), 19);
}
