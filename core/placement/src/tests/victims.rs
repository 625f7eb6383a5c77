//! Victims: no one in vain, always; the cheapest set of all, held against every set there is, on small questions.

use crate::victims::{Candidate, CandidateIdx, Question, Seat, choose};
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

fn question() -> impl Strategy<Value = Question> {
    let seats = vec((0..4u64, 0..4u64), 1..4);
    let candidates = vec((0..3usize, 1..4u64, 0..4u64, 0..3u32, 0..3usize), 0..9);
    let bounds = (1..4u64, 0..6u64, vec(0..4u64, 3));
    ((1..6u64, 0..6u64), seats, candidates, bounds).prop_map(
        |(shape, seats, candidates, (count, most, slices))| Question {
            shape: room(shape.0, shape.1),
            count,
            most,
            seats: seats
                .into_iter()
                .map(|(c, m)| Seat { spare: room(c, m) })
                .collect(),
            candidates: candidates
                .into_iter()
                .map(|(seat, cpus, memory, class, slice)| Candidate {
                    seat,
                    room: room(cpus, memory),
                    class,
                    slice,
                })
                .collect(),
            slices,
        },
    )
}

/// Room of a seat when these are gone.
fn room_with(q: &Question, seat: usize, victims: &[CandidateIdx]) -> Resources {
    let of = victims.iter().filter_map(|i| q.candidates.get(*i));
    let spare = q.seats[seat].spare;
    of.filter(|c| c.seat == seat)
        .fold(spare, |sum, c| sum.plus(c.room))
}

fn within_bounds(q: &Question, victims: &[CandidateIdx]) -> bool {
    let of_slice = |s: usize| victims.iter().filter(|i| q.candidates[**i].slice == s).count() as u64;
    victims.len() as u64 <= q.most && (0..q.slices.len()).all(|s| of_slice(s) <= q.slices[s])
}

fn classes(q: &Question, victims: &[CandidateIdx]) -> Vec<u32> {
    let mut out: Vec<u32> = victims.iter().map(|i| q.candidates[*i].class).collect();
    out.sort_by_key(|c| Reverse(*c));
    out
}

/// The least that one instance costs, of every set on every seat.
fn least(q: &Question) -> Option<Vec<u32>> {
    let sets = (0..1usize << q.candidates.len()).map(|bits| {
        (0..q.candidates.len())
            .filter(|i| bits >> i & 1 == 1)
            .collect::<Vec<_>>()
    });
    let enough = |set: &Vec<CandidateIdx>| {
        within_bounds(q, set) && (0..q.seats.len()).any(|s| q.shape.fits(room_with(q, s, set)))
    };
    sets.filter(enough).map(|set| classes(q, &set)).min()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn nobody_is_stopped_in_vain(q in question()) {
        let answer = choose(&q);
        let all: Vec<CandidateIdx> = answer.values().flat_map(|c| c.victims.clone()).collect();
        prop_assert!(within_bounds(&q, &all));
        prop_assert!(answer.values().map(|c| c.count).sum::<u64>() <= q.count);
        for (seat, chosen) in &answer {
            prop_assert!(chosen.victims.iter().all(|i| q.candidates[*i].seat == *seat));
            let need = q.shape.times(chosen.count);
            prop_assert!(need.fits(room_with(&q, *seat, &chosen.victims)));
            for i in &chosen.victims {
                let rest: Vec<CandidateIdx> = chosen.victims.iter().copied().filter(|v| v != i).collect();
                prop_assert!(!need.fits(room_with(&q, *seat, &rest)), "{i} is stopped in vain");
            }
        }
    }

    #[test]
    fn one_instance_costs_the_least_of_all_sets(q in question()) {
        let q = Question { count: 1, ..q };
        let answer = choose(&q);
        let found = answer.values().next().map(|c| classes(&q, &c.victims));
        prop_assert_eq!(found, least(&q));
    }
}

#[test]
fn many_cheap_ones_go_before_one_dear_one() {
    let candidate = |cpus, class| Candidate {
        seat: 0,
        room: room(cpus, 0),
        class,
        slice: 0,
    };
    let q = Question {
        shape: room(3, 0),
        count: 1,
        most: 9,
        seats: vec![Seat { spare: room(0, 0) }],
        candidates: vec![candidate(3, 1), candidate(1, 0), candidate(1, 0), candidate(1, 0)],
        slices: vec![9],
    };
    assert_eq!(choose(&q)[&0].victims, vec![1, 2, 3]);
}

#[test]
fn what_ends_already_is_enough() {
    let q = Question {
        shape: room(2, 0),
        count: 2,
        most: 9,
        seats: vec![Seat { spare: room(4, 0) }],
        candidates: vec![Candidate {
            seat: 0,
            room: room(2, 0),
            class: 0,
            slice: 0,
        }],
        slices: vec![9],
    };
    let answer = choose(&q);
    assert_eq!((answer[&0].count, answer[&0].victims.len()), (2, 0));
}
