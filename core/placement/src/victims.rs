//! Whom to stop so that a shape finds room: on each host the cheapest set that is enough together with what is spare there or
//! ends already, and of all hosts the one where that is cheapest, once for each instance that wants room. No instance is taken that
//! is not needed. Few candidates on a host are searched through exactly, many greedily; both answers are inclusion-minimal.

use echelon_core_model::Resources;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Index of a seat.
pub type SeatIdx = usize;
/// Index of a candidate.
pub type CandidateIdx = usize;

/// Steps of exact search for a whole question; after these hosts are searched greedily.
const STEPS: usize = 200_000;
/// Most candidates on a host that are searched through exactly.
const EXACT: usize = 14;

/// A host on which the shape may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// Room that is spare, or that what ends already leaves.
    pub spare: Resources,
}

/// Somebody who may be stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Where it runs.
    pub seat: SeatIdx,
    /// What it leaves.
    pub room: Resources,
    /// Any number of a smaller class is taken rather than one of a larger.
    pub class: u32,
    /// Index of the slice that it belongs to, which bounds how many of it are taken.
    pub slice: usize,
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Question {
    /// Room of one instance.
    pub shape: Resources,
    /// For how many room is wanted.
    pub count: u64,
    /// Most that may be stopped.
    pub most: u64,
    /// Hosts on which they may be.
    pub seats: Vec<Seat>,
    /// Who may be stopped; among those of one class the first are taken first.
    pub candidates: Vec<Candidate>,
    /// Most of each slice.
    pub slices: Vec<u64>,
}

/// What is to be done on one host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chosen {
    /// For how many instances there is room then.
    pub count: u64,
    /// Who is to be stopped, by index.
    pub victims: Vec<CandidateIdx>,
}

/// What a set costs: classes from the largest down, so that an order of lists is the order of costs; then indexes, for ties.
type Cost = (Vec<u32>, Vec<CandidateIdx>);

/// Chooses, by seat. Less than `count` where there is no more.
#[must_use]
pub fn choose(question: &Question) -> BTreeMap<SeatIdx, Chosen> {
    let mut search = Search::new(question);
    let mut options: BTreeSet<(Cost, SeatIdx)> = BTreeSet::new();
    for seat in 0..question.seats.len() {
        options.extend(search.option(seat).map(|cost| (cost, seat)));
    }
    let mut left = question.count;
    while left > 0
        && let Some((cost, seat)) = options.pop_first()
    {
        // What was taken elsewhere may have used up a slice's bound: then the host has another option, or none.
        if search.is_allowed(&cost.1) {
            search.take(seat, &cost.1);
            left -= 1;
        }
        options.extend(search.option(seat).map(|cost| (cost, seat)));
    }
    search.answer()
}

struct Search<'a> {
    question: &'a Question,
    /// Candidates by seat, the cheapest first.
    by_seat: Vec<Vec<CandidateIdx>>,
    chosen: BTreeMap<SeatIdx, Chosen>,
    /// How many more of each slice may be taken.
    slices: Vec<u64>,
    most: u64,
    steps: usize,
}

impl<'a> Search<'a> {
    fn new(question: &'a Question) -> Self {
        let mut by_seat = vec![Vec::new(); question.seats.len()];
        for (i, candidate) in question.candidates.iter().enumerate() {
            if let Some(of_seat) = by_seat.get_mut(candidate.seat) {
                of_seat.push(i);
            }
        }
        let class = |i: &CandidateIdx| question.candidates.get(*i).map_or(u32::MAX, |c| c.class);
        for of_seat in &mut by_seat {
            of_seat.sort_by_key(|i| (class(i), *i));
        }
        Self {
            question,
            by_seat,
            chosen: BTreeMap::new(),
            slices: question.slices.clone(),
            most: question.most,
            steps: STEPS,
        }
    }

    fn candidate(&self, i: CandidateIdx) -> Option<&'a Candidate> {
        self.question.candidates.get(i)
    }

    fn room_of(&self, victims: &[CandidateIdx]) -> Resources {
        let rooms = victims.iter().filter_map(|i| self.candidate(*i));
        rooms.fold(Resources::ZERO, |sum, c| sum.plus(c.room))
    }

    /// What a seat lacks for one more instance.
    fn lack(&self, seat: SeatIdx) -> Resources {
        let spare = self.question.seats.get(seat).map_or(Resources::ZERO, |s| s.spare);
        let (count, room) = match self.chosen.get(&seat) {
            Some(chosen) => (chosen.count, self.room_of(&chosen.victims)),
            None => (0, Resources::ZERO),
        };
        let need = self.question.shape.times(count.saturating_add(1));
        need.minus(spare.plus(room))
    }

    /// The cheapest way to have one more instance on a seat.
    fn option(&mut self, seat: SeatIdx) -> Option<Cost> {
        let lack = self.lack(seat);
        if lack.is_zero() {
            return Some((Vec::new(), Vec::new()));
        }
        let used: BTreeSet<CandidateIdx> = self
            .chosen
            .get(&seat)
            .into_iter()
            .flat_map(|c| c.victims.iter().copied())
            .collect();
        let helps = |i: &CandidateIdx| {
            let candidate = self.candidate(*i);
            let bound = candidate.and_then(|c| self.slices.get(c.slice)).copied();
            let gives = candidate.is_some_and(|c| !c.room.min_each(lack).is_zero());
            gives && bound.is_some_and(|n| n > 0) && !used.contains(i)
        };
        let open: Vec<CandidateIdx> = self.by_seat.get(seat)?.iter().copied().filter(helps).collect();
        let mut best = self.greedy(&open, lack).map(|victims| self.cost(victims));
        if open.len() <= EXACT && self.steps > 0 {
            self.exact(&open, lack, &mut Vec::new(), &mut best);
        }
        best
    }

    fn cost(&self, mut victims: Vec<CandidateIdx>) -> Cost {
        victims.sort_unstable();
        let mut classes: Vec<u32> = victims
            .iter()
            .filter_map(|i| self.candidate(*i))
            .map(|c| c.class)
            .collect();
        classes.sort_unstable_by_key(|c| Reverse(*c));
        (classes, victims)
    }

    /// Takes from the cheapest on until it is enough, then lets go who is not needed, the dearest first.
    fn greedy(&self, open: &[CandidateIdx], lack: Resources) -> Option<Vec<CandidateIdx>> {
        let mut victims: Vec<CandidateIdx> = Vec::new();
        for i in open {
            if lack.fits(self.room_of(&victims)) {
                break;
            }
            victims.push(*i);
            if !self.is_allowed(&victims) {
                victims.pop();
            }
        }
        if !lack.fits(self.room_of(&victims)) {
            return None;
        }
        self.let_go(&mut victims, lack);
        Some(victims)
    }

    /// Lets go who is not needed for so much room, the dearest first.
    fn let_go(&self, victims: &mut Vec<CandidateIdx>, lack: Resources) {
        let mut dearest = victims.clone();
        let class = |i: &CandidateIdx| self.candidate(*i).map_or(0, |c| c.class);
        dearest.sort_by_key(|i| Reverse((class(i), *i)));
        for i in dearest {
            let rest: Vec<CandidateIdx> = victims.iter().copied().filter(|v| *v != i).collect();
            if lack.fits(self.room_of(&rest)) {
                *victims = rest;
            }
        }
    }

    /// Every set that is no dearer than the best so far.
    fn exact(
        &mut self,
        open: &[CandidateIdx],
        lack: Resources,
        victims: &mut Vec<CandidateIdx>,
        best: &mut Option<Cost>,
    ) {
        self.steps = self.steps.saturating_sub(1);
        let cost = self.cost(victims.clone());
        let dearer = best.as_ref().is_some_and(|best| cost >= *best);
        if self.steps == 0 || dearer || !self.is_allowed(victims) {
            return;
        }
        if lack.fits(self.room_of(victims)) {
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
        let n = u64::try_from(victims.len()).unwrap_or(u64::MAX);
        let mut of_slice: BTreeMap<usize, u64> = BTreeMap::new();
        for candidate in victims.iter().filter_map(|i| self.candidate(*i)) {
            *of_slice.entry(candidate.slice).or_default() += 1;
        }
        let left = |slice: &usize| self.slices.get(*slice).copied().unwrap_or_default();
        n <= self.most && of_slice.iter().all(|(slice, n)| *n <= left(slice))
    }

    fn take(&mut self, seat: SeatIdx, victims: &[CandidateIdx]) {
        for candidate in victims.iter().filter_map(|i| self.question.candidates.get(*i)) {
            if let Some(left) = self.slices.get_mut(candidate.slice) {
                *left = left.saturating_sub(1);
            }
            self.most = self.most.saturating_sub(1);
        }
        let chosen = self.chosen.entry(seat).or_default();
        chosen.count += 1;
        chosen.victims.extend(victims);
    }

    /// What was chosen for a later instance may spare somebody who was chosen for an earlier one.
    fn answer(mut self) -> BTreeMap<SeatIdx, Chosen> {
        let mut out = std::mem::take(&mut self.chosen);
        for (seat, chosen) in &mut out {
            let spare = self
                .question
                .seats
                .get(*seat)
                .map_or(Resources::ZERO, |s| s.spare);
            let lack = self.question.shape.times(chosen.count).minus(spare);
            self.let_go(&mut chosen.victims, lack);
            chosen.victims.sort_unstable();
        }
        out
    }
}
