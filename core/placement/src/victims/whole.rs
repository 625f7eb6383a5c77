//! All or nothing, exactly: every set of few candidates that is no dearer than the best so far, and every way to seat few instances.

use super::{CandidateIdx, Chosen, Cost, Load, Question, SeatIdx, ShapeIdx};
use echelon_core_model::Resources;

/// Most candidates in all that are searched through.
const EXACT: usize = 14;
/// Most instances of which every way to seat them is tried.
const SEATED: u64 = 12;
/// Steps of the whole search; after these the best so far is the answer.
const STEPS: usize = 200_000;

/// The cheapest set that makes room for all, or what is known already where there are too many to search through.
pub(super) fn search(question: &Question, known: Option<Chosen>) -> Option<Chosen> {
    if question.candidates.len() > EXACT || question.wanted() > SEATED {
        return known;
    }
    let mut open: Vec<CandidateIdx> = (0..question.candidates.len()).collect();
    open.sort_by_key(|i| (question.candidates.get(*i).map_or(u32::MAX, |c| c.class), *i));
    let shapes = question.in_order().into_iter();
    let instances = shapes.flat_map(|(i, s)| (0..s.count).map(move |_| i)).collect();
    let mut search = Whole {
        question,
        instances,
        best: known.map(|chosen| (question.cost(chosen.victims.clone()), chosen)),
        steps: STEPS,
    };
    search.sets(&open, &mut Vec::new());
    search.best.map(|(_, chosen)| chosen)
}

struct Whole<'a> {
    question: &'a Question,
    /// The shape of each instance, in order.
    instances: Vec<ShapeIdx>,
    best: Option<(Cost, Chosen)>,
    steps: usize,
}

impl Whole<'_> {
    fn sets(&mut self, open: &[CandidateIdx], victims: &mut Vec<CandidateIdx>) {
        self.steps = self.steps.saturating_sub(1);
        let question = self.question;
        let cost = question.cost(victims.clone());
        let dearer = self.best.as_ref().is_some_and(|(best, _)| cost >= *best);
        let allowed = question.is_within(victims, &question.slices, question.most);
        if self.steps == 0 || dearer || !allowed {
            return;
        }
        let mut left: Vec<Resources> = question.seats.iter().map(|s| s.spare).collect();
        let taken = victims.iter().filter_map(|i| question.candidates.get(*i));
        for (seat, room) in taken.flat_map(|c| &c.rooms) {
            if let Some(left) = left.get_mut(*seat) {
                *left = left.plus(*room);
            }
        }
        let mut seats = Vec::with_capacity(self.instances.len());
        if self.seat(&mut left, &mut seats) {
            let mut load = Load::new();
            for (shape, seat) in self.instances.iter().zip(&seats) {
                *load.entry(*seat).or_default().entry(*shape).or_default() += 1;
            }
            let victims = cost.1.clone();
            self.best = Some((cost, Chosen { load, victims }));
            return;
        }
        for (at, i) in open.iter().enumerate() {
            victims.push(*i);
            self.sets(open.get(at + 1..).unwrap_or_default(), victims);
            victims.pop();
        }
    }

    /// Seats those that have no seat yet; instances of one shape in order of their seats, since they are all alike.
    fn seat(&mut self, left: &mut [Resources], seats: &mut Vec<SeatIdx>) -> bool {
        let Some(shape) = self.instances.get(seats.len()).copied() else {
            return true;
        };
        let Some(of) = self.question.shapes.get(shape) else {
            return false;
        };
        let before = seats.len().checked_sub(1);
        let alike = before.filter(|i| self.instances.get(*i) == Some(&shape));
        let from = alike.and_then(|i| seats.get(i)).copied().unwrap_or_default();
        for seat in of.seats.iter().copied().filter(|s| *s >= from) {
            self.steps = self.steps.saturating_sub(1);
            let Some(there) = left.get(seat).copied().filter(|l| of.room.fits(*l)) else {
                continue;
            };
            if self.steps == 0 {
                return false;
            }
            if let Some(left) = left.get_mut(seat) {
                *left = there.minus(of.room);
            }
            seats.push(seat);
            if self.seat(left, seats) {
                return true;
            }
            seats.pop();
            if let Some(left) = left.get_mut(seat) {
                *left = there;
            }
        }
        false
    }
}
