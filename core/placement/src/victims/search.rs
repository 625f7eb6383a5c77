//! One instance after the other, each where it is cheapest.

use super::{CandidateIdx, Chosen, Cost, Load, Question, SeatIdx, ShapeIdx};
use echelon_core_model::Resources;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Steps of exact search for a whole question; after these hosts are searched greedily.
const STEPS: usize = 200_000;
/// Most candidates on a host that are searched through exactly.
const EXACT: usize = 14;
/// Most looks at a seat for one shape while everything is seated anew without one of the victims.
const LOOKS: usize = 1_000_000;

/// What a shape's next instance lacks on a seat.
#[derive(Clone, Copy)]
struct Lack {
    seat: SeatIdx,
    room: Resources,
}

pub(super) struct Search<'a> {
    question: &'a Question,
    /// Candidates by seat, the cheapest first.
    by_seat: Vec<Vec<CandidateIdx>>,
    /// What is left on each seat when all that is chosen is gone, beside those for whom it is.
    left: Vec<Resources>,
    load: Load,
    victims: BTreeSet<CandidateIdx>,
    /// How many more of each slice may be taken.
    slices: Vec<u64>,
    most: u64,
    steps: usize,
}

impl<'a> Search<'a> {
    pub(super) fn new(question: &'a Question) -> Self {
        let mut by_seat = vec![Vec::new(); question.seats.len()];
        for (i, candidate) in question.candidates.iter().enumerate() {
            for (seat, _) in &candidate.rooms {
                if let Some(of_seat) = by_seat.get_mut(*seat) {
                    of_seat.push(i);
                }
            }
        }
        let class = |i: &CandidateIdx| question.candidates.get(*i).map_or(u32::MAX, |c| c.class);
        for of_seat in &mut by_seat {
            of_seat.sort_by_key(|i| (class(i), *i));
            of_seat.dedup();
        }
        Self {
            question,
            by_seat,
            left: question.seats.iter().map(|s| s.spare).collect(),
            load: Load::new(),
            victims: BTreeSet::new(),
            slices: question.slices.clone(),
            most: question.most,
            steps: STEPS,
        }
    }

    pub(super) fn choose(mut self) -> Chosen {
        for (shape, _) in self.question.in_order() {
            self.seat_all(shape);
        }
        self.settle()
    }

    /// Seats as many of a shape as there is room for.
    fn seat_all(&mut self, shape: ShapeIdx) {
        let Some(of) = self.question.shapes.get(shape) else {
            return;
        };
        let mut costs: BTreeMap<SeatIdx, Cost> = BTreeMap::new();
        let mut options: BTreeSet<(Cost, SeatIdx)> = BTreeSet::new();
        let mut changed: BTreeSet<SeatIdx> = of.seats.iter().copied().collect();
        let mut wanted = of.count;
        while wanted > 0 {
            for seat in std::mem::take(&mut changed) {
                if let Some(cost) = costs.remove(&seat) {
                    options.remove(&(cost, seat));
                }
                if let Some(cost) = self.option(of.room, seat) {
                    costs.insert(seat, cost.clone());
                    options.insert((cost, seat));
                }
            }
            let Some((cost, seat)) = options.pop_first() else {
                return;
            };
            costs.remove(&seat);
            changed.insert(seat);
            // What was taken elsewhere may have used up a slice's bound: then the host has another option, or none.
            if self.is_allowed(&cost.1) {
                changed.extend(self.take(&cost.1).filter(|s| of.seats.binary_search(s).is_ok()));
                self.place(shape, of.room, seat);
                wanted -= 1;
            }
        }
    }

    fn rooms_at(&self, seat: SeatIdx, victims: &[CandidateIdx]) -> Resources {
        let candidates = victims.iter().filter_map(|i| self.question.candidates.get(*i));
        let rooms = candidates.flat_map(|c| &c.rooms).filter(|(at, _)| *at == seat);
        rooms.fold(Resources::ZERO, |sum, (_, room)| sum.plus(*room))
    }

    fn is_enough(&self, lack: Lack, victims: &[CandidateIdx]) -> bool {
        lack.room.fits(self.rooms_at(lack.seat, victims))
    }

    /// The cheapest way to have one more instance on a seat.
    fn option(&mut self, room: Resources, seat: SeatIdx) -> Option<Cost> {
        let lack = Lack {
            seat,
            room: room.minus(*self.left.get(seat)?),
        };
        if lack.room.is_zero() {
            return Some((Vec::new(), Vec::new()));
        }
        let helps = |i: &CandidateIdx| {
            let gives = !self.rooms_at(seat, &[*i]).min_each(lack.room).is_zero();
            gives && !self.victims.contains(i) && self.is_allowed(&[*i])
        };
        let open: Vec<CandidateIdx> = self.by_seat.get(seat)?.iter().copied().filter(helps).collect();
        let mut best = self
            .greedy(&open, lack)
            .map(|victims| self.question.cost(victims));
        if open.len() <= EXACT && self.steps > 0 {
            self.exact(&open, lack, &mut Vec::new(), &mut best);
        }
        best
    }

    /// Takes from the cheapest on until it is enough, then lets go who is not needed, the dearest first.
    fn greedy(&self, open: &[CandidateIdx], lack: Lack) -> Option<Vec<CandidateIdx>> {
        let mut victims: Vec<CandidateIdx> = Vec::new();
        for i in open {
            if self.is_enough(lack, &victims) {
                break;
            }
            victims.push(*i);
            if !self.is_allowed(&victims) {
                victims.pop();
            }
        }
        if !self.is_enough(lack, &victims) {
            return None;
        }
        for i in self.dearest_first(&victims) {
            let rest: Vec<CandidateIdx> = victims.iter().copied().filter(|v| *v != i).collect();
            if self.is_enough(lack, &rest) {
                victims = rest;
            }
        }
        Some(victims)
    }

    fn dearest_first(&self, victims: &[CandidateIdx]) -> Vec<CandidateIdx> {
        let mut out = victims.to_vec();
        let dear = |i: &CandidateIdx| {
            let of = self.question.candidates.get(*i);
            of.map_or((0, 0), |c| (c.class, c.count))
        };
        out.sort_by_key(|i| Reverse((dear(i), *i)));
        out
    }

    /// Every set that is no dearer than the best so far.
    fn exact(
        &mut self,
        open: &[CandidateIdx],
        lack: Lack,
        victims: &mut Vec<CandidateIdx>,
        best: &mut Option<Cost>,
    ) {
        self.steps = self.steps.saturating_sub(1);
        let cost = self.question.cost(victims.clone());
        let dearer = best.as_ref().is_some_and(|best| cost >= *best);
        if self.steps == 0 || dearer || !self.is_allowed(victims) {
            return;
        }
        if self.is_enough(lack, victims) {
            *best = Some(cost);
            return;
        }
        for (at, i) in open.iter().enumerate() {
            victims.push(*i);
            self.exact(open.get(at + 1..).unwrap_or_default(), lack, victims, best);
            victims.pop();
        }
    }

    /// Whether so many may be taken beside those that are taken already.
    fn is_allowed(&self, victims: &[CandidateIdx]) -> bool {
        self.question.is_within(victims, &self.slices, self.most)
    }

    /// Takes some, and tells on which seats there is more room by that.
    fn take(&mut self, victims: &[CandidateIdx]) -> impl Iterator<Item = SeatIdx> + use<> {
        let mut seats = Vec::new();
        for i in victims {
            let Some(candidate) = self.question.candidates.get(*i) else {
                continue;
            };
            if let Some(left) = self.slices.get_mut(candidate.slice) {
                *left = left.saturating_sub(candidate.count);
            }
            self.most = self.most.saturating_sub(candidate.count);
            for (seat, room) in &candidate.rooms {
                if let Some(left) = self.left.get_mut(*seat) {
                    *left = left.plus(*room);
                    seats.push(*seat);
                }
            }
            self.victims.insert(*i);
        }
        seats.into_iter()
    }

    fn place(&mut self, shape: ShapeIdx, room: Resources, seat: SeatIdx) {
        if let Some(left) = self.left.get_mut(seat) {
            *left = left.minus(room);
        }
        *self.load.entry(seat).or_default().entry(shape).or_default() += 1;
    }

    /// What was chosen for a later instance may spare somebody who was chosen for an earlier one: where everybody is, or when all are
    /// seated anew.
    fn settle(mut self) -> Chosen {
        let all: Vec<CandidateIdx> = self.victims.iter().copied().collect();
        let mut looks = LOOKS;
        for i in self.dearest_first(&all) {
            if !self.spare(i) {
                self.seat_anew_without(i, &mut looks);
            }
        }
        let kept: Vec<CandidateIdx> = self.victims.iter().copied().collect();
        for i in self.dearest_first(&kept) {
            self.spare(i);
        }
        Chosen {
            victims: self.victims.iter().copied().collect(),
            load: self.load,
        }
    }

    /// Lets go who is not needed where everybody is. Tells whether it was so.
    fn spare(&mut self, i: CandidateIdx) -> bool {
        let Some(candidate) = self.question.candidates.get(i) else {
            return true;
        };
        let seats: BTreeSet<SeatIdx> = candidate.rooms.iter().map(|(seat, _)| *seat).collect();
        let of: Vec<(SeatIdx, Resources)> = seats
            .into_iter()
            .map(|seat| (seat, self.rooms_at(seat, &[i])))
            .collect();
        let has =
            |(seat, room): &(SeatIdx, Resources)| self.left.get(*seat).is_none_or(|left| room.fits(*left));
        if !of.iter().all(has) {
            return false;
        }
        for (seat, room) in of {
            if let Some(left) = self.left.get_mut(seat) {
                *left = left.minus(room);
            }
        }
        self.victims.remove(&i);
        true
    }

    /// Seats everybody anew without one of the victims, each shape on the first seats that have room for it, if that goes.
    fn seat_anew_without(&mut self, i: CandidateIdx, looks: &mut usize) {
        if *looks == 0 {
            return;
        }
        let mut left: Vec<Resources> = self.question.seats.iter().map(|s| s.spare).collect();
        let rest = self.victims.iter().filter(|v| **v != i);
        let rooms = rest
            .filter_map(|v| self.question.candidates.get(*v))
            .flat_map(|c| &c.rooms);
        for (seat, room) in rooms {
            if let Some(left) = left.get_mut(*seat) {
                *left = left.plus(*room);
            }
        }
        let mut load = Load::new();
        for (shape, of) in self.question.in_order() {
            let seated = self.load.values().filter_map(|s| s.get(&shape));
            let mut wanted: u64 = seated.sum();
            for seat in &of.seats {
                *looks = looks.saturating_sub(1);
                let Some(left) = left.get_mut(*seat).filter(|_| wanted > 0) else {
                    break;
                };
                let n = of.room.count_in(*left).min(wanted);
                if n > 0 {
                    *left = left.minus(of.room.times(n));
                    load.entry(*seat).or_default().insert(shape, n);
                    wanted -= n;
                }
            }
            if wanted > 0 || *looks == 0 {
                return;
            }
        }
        (self.left, self.load) = (left, load);
        self.victims.remove(&i);
    }
}
