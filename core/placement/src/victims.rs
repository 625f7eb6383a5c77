//! Whom to stop so that some shapes find room: for one instance after the other the cheapest set on the cheapest host that is enough
//! together with what is spare there or ends already. No one is taken who is not needed. Few candidates on a host are searched
//! through exactly, many greedily. Where all that is wanted has to find room or nothing of it, few candidates in all are
//! searched through exactly, too.

mod search;
mod whole;

use echelon_core_model::{Kind, Resources};
use search::Search;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Index of a seat.
pub type SeatIdx = usize;
/// Index of a candidate.
pub type CandidateIdx = usize;
/// Index of a shape.
pub type ShapeIdx = usize;

/// A host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// Room that is spare, or that what ends already leaves.
    pub spare: Resources,
}

/// What wants room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Room of one instance.
    pub room: Resources,
    /// For how many room is wanted.
    pub count: u64,
    /// The hosts on which they may be, in order.
    pub seats: Vec<SeatIdx>,
}

/// Somebody who may be stopped: an instance, or several that are stopped together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Where it runs, and what it leaves there; several that are stopped together may be on several hosts, or on none of these.
    pub rooms: Vec<(SeatIdx, Resources)>,
    /// How many instances it is.
    pub count: u64,
    /// Any number of a smaller class is taken rather than one of a larger.
    pub class: u32,
    /// Index of the slice that it belongs to, which bounds how many instances of it are taken.
    pub slice: usize,
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Question {
    /// What wants room.
    pub shapes: Vec<Shape>,
    /// All of it has to find room, or nobody is stopped.
    pub whole: bool,
    /// Most instances that may be stopped.
    pub most: u64,
    /// The hosts.
    pub seats: Vec<Seat>,
    /// Who may be stopped; among those of one class the first are taken first.
    pub candidates: Vec<Candidate>,
    /// Most instances of each slice.
    pub slices: Vec<u64>,
}

/// For how many instances of each shape there is room then, by seat.
pub type Load = BTreeMap<SeatIdx, BTreeMap<ShapeIdx, u64>>;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chosen {
    /// For whom there is room then.
    pub load: Load,
    /// Who is to be stopped, by index.
    pub victims: Vec<CandidateIdx>,
}

impl Chosen {
    fn seated(&self) -> u64 {
        self.load.values().flat_map(BTreeMap::values).sum()
    }
}

/// A host of which the capacity may be kept for one instance as work on it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptSeat {
    /// The host.
    pub seat: SeatIdx,
    /// What is spare there.
    pub spare: Resources,
    /// What work has there that ends by itself.
    pub ending: Resources,
    /// All that may be kept.
    pub whole: Resources,
}

/// The host to keep for an instance of this size: of the hosts where enough ends by itself, the one that lacks
/// least. If there is none, it is chosen from all that are large enough. `None`: none is.
pub fn seat_to_keep(room: Resources, seats: impl Iterator<Item = KeptSeat>) -> Option<SeatIdx> {
    let large = seats.filter(|seat| room.fits(seat.whole));
    let ranked = large.map(|seat| {
        let ends = room.fits(seat.spare.plus(seat.ending));
        (!ends, lacking_part(room, seat.spare), seat.seat)
    });
    ranked.min().map(|(.., seat)| seat)
}

/// The largest part of any kind of a shape that is lacking, in millionths.
fn lacking_part(shape: Resources, spare: Resources) -> u128 {
    let lacking = shape.minus(spare);
    let part = |kind: Kind| match shape.get(kind) {
        0 => 0,
        all => u128::from(lacking.get(kind)) * 1_000_000 / u128::from(all),
    };
    Kind::ALL.into_iter().map(part).max().unwrap_or(0)
}

/// Chooses. Where not all has to find room, it is as much as there is.
#[must_use]
pub fn choose(question: &Question) -> Chosen {
    let greedy = Search::new(question).choose();
    if !question.whole {
        return greedy;
    }
    let greedy = (greedy.seated() == question.wanted()).then_some(greedy);
    whole::search(question, greedy).unwrap_or_default()
}

/// What a set costs: the class of each of its instances from the largest down, so that an order of lists is the order of costs; then
/// indexes, for ties.
type Cost = (Vec<u32>, Vec<CandidateIdx>);

impl Question {
    fn wanted(&self) -> u64 {
        self.shapes.iter().map(|s| s.count).fold(0, u64::saturating_add)
    }

    fn cost(&self, mut victims: Vec<CandidateIdx>) -> Cost {
        victims.sort_unstable();
        let of = victims.iter().filter_map(|i| self.candidates.get(*i));
        let mut classes: Vec<u32> = of
            .flat_map(|c| std::iter::repeat_n(c.class, usize::try_from(c.count).unwrap_or(usize::MAX)))
            .collect();
        classes.sort_unstable_by_key(|class| Reverse(*class));
        (classes, victims)
    }

    /// Shapes in the order in which they are seated: what has the fewest hosts first, then the largest.
    fn in_order(&self) -> Vec<(ShapeIdx, &Shape)> {
        let mut out: Vec<(ShapeIdx, &Shape)> = self.shapes.iter().enumerate().collect();
        out.sort_by_key(|(i, s)| (s.seats.len(), Reverse(s.room), *i));
        out
    }

    /// Whether these are at most so many of each slice, and in all.
    fn is_within(&self, victims: &[CandidateIdx], slices: &[u64], most: u64) -> bool {
        let mut of_slice: BTreeMap<usize, u64> = BTreeMap::new();
        let mut all = 0u64;
        for candidate in victims.iter().filter_map(|i| self.candidates.get(*i)) {
            *of_slice.entry(candidate.slice).or_default() += candidate.count;
            all = all.saturating_add(candidate.count);
        }
        let left = |slice: &usize| slices.get(*slice).copied().unwrap_or_default();
        all <= most && of_slice.iter().all(|(slice, n)| *n <= left(slice))
    }
}

#[cfg(test)]
mod keep_tests {
    use super::*;

    fn cores(n: u64) -> Resources {
        Resources {
            cpus: n * 1000,
            ..Resources::ZERO
        }
    }

    #[test]
    fn the_host_that_lacks_least_is_kept_where_enough_ends_by_itself() {
        let seat = |seat, spare, ending, whole| KeptSeat {
            seat,
            spare: cores(spare),
            ending: cores(ending),
            whole: cores(whole),
        };
        let kept = |seats: &[KeptSeat]| seat_to_keep(cores(4), seats.iter().copied());
        assert_eq!(kept(&[]), None);
        assert_eq!(kept(&[seat(0, 3, 0, 3)]), None, "too small");
        let all = [seat(0, 1, 7, 8), seat(1, 2, 6, 8), seat(2, 3, 0, 8)];
        assert_eq!(kept(&all), Some(1), "nothing ends on the last one");
        assert_eq!(kept(&all[2..]), Some(2));
        assert_eq!(kept(&[all[1], seat(3, 2, 6, 8)]), Some(1), "the first of equals");
    }
}
