//! Capacity holds: capacity that is kept for a waiting unit as other work ends, so that small work cannot
//! starve a large unit for ever. Work that is certain to end before the date of a hold may use it meanwhile
//! (backfill: Lifka, "The ANL/IBM SP scheduling system", 1995). A hold without a date lets nothing past.

use crate::hierarchy::PoolIdx;
use crate::queue::{Likeness, Turn};
use crate::rooms::{Kept, Rooms, Side};
use crate::terms::HostPoolIdx;
use echelon_core_model::resources::Resources;
use echelon_core_model::{ClusterId, Span, Timestamp};

/// Capacity that is kept for a unit: one instance, or all of a gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Its place in the order of admission. What comes before it may use the capacity.
    pub turn: Turn,
    /// The pool of the unit.
    pub pool: PoolIdx,
    /// Where the capacity is.
    pub cluster: ClusterId,
    /// Of what the cluster has now, the part that it will need.
    pub in_cluster: Resources,
    /// The host pool that it needs that of.
    pub host_pool: Option<HostPoolIdx>,
    /// The same of its pool and those above.
    pub in_pools: Vec<(PoolIdx, Resources)>,
    /// When all of the capacity is there, at the latest. `None`: that is not certain.
    pub until: Option<Timestamp>,
}

/// The holds of a moment, in order of turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Holds {
    /// The moment.
    pub now: Timestamp,
    /// All of them.
    pub all: Vec<Hold>,
}

impl Holds {
    /// Whether work of a class is certain to end before a hold needs its capacity.
    fn is_past(&self, lasts: Span, hold: &Hold) -> bool {
        hold.until.is_some_and(|until| self.now.plus(lasts) <= until)
    }
}

/// From what holds keep capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldScope {
    /// From what comes after them in the order of admission. A hold without a date keeps it only from work of
    /// its own pool: other pools get what they are entitled to.
    Later,
    /// From all other work: what is given out belongs to no pool.
    All,
}

/// Holds that are in force in an admission.
pub(crate) struct InForce<'a> {
    holds: &'a Holds,
    scope: HoldScope,
    next: usize,
    kept: Vec<KeptHold<'a>>,
}

/// A hold with what it keeps at the moment.
struct KeptHold<'a> {
    hold: &'a Hold,
    /// `None` while work is looked at from which it keeps nothing.
    kept: Option<Kept>,
}

impl<'a> KeptHold<'a> {
    fn new(hold: &'a Hold, rooms: &mut Rooms) -> Self {
        let kept = Some(rooms.keep(hold));
        Self { hold, kept }
    }

    fn give_back(&mut self, rooms: &mut Rooms) {
        if let Some(kept) = self.kept.take() {
            rooms.give_back(kept);
        }
    }
}

impl<'a> InForce<'a> {
    /// With the scope `All` every hold is in force from the beginning, but for units of which something
    /// `has_begun`.
    pub(crate) fn new(
        holds: &'a Holds,
        scope: HoldScope,
        rooms: &mut Rooms,
        has_begun: impl Fn(&Turn) -> bool,
    ) -> Self {
        let mut out = Self {
            holds,
            scope,
            next: 0,
            kept: Vec::new(),
        };
        if scope == HoldScope::All {
            let all = holds.all.iter().filter(|hold| !has_begun(&hold.turn));
            out.kept = all.map(|hold| KeptHold::new(hold, rooms)).collect();
        }
        out
    }

    /// A turn has come. Its own hold, if it has one, is given back. Holds of units before it that still wait
    /// are in force from now on.
    pub(crate) fn reach(&mut self, turn: &Turn, rooms: &mut Rooms, has_begun: impl Fn(&Turn) -> bool) {
        if self.scope == HoldScope::All {
            if let Some(at) = self.kept.iter().position(|of| of.hold.turn == *turn) {
                self.kept.remove(at).give_back(rooms);
            }
            return;
        }
        while let Some(hold) = self.holds.all.get(self.next).filter(|h| h.turn < *turn) {
            self.next += 1;
            if !has_begun(&hold.turn) {
                self.kept.push(KeptHold::new(hold, rooms));
            }
        }
    }

    /// Work of a pool is looked at next: holds keep capacity from it or not.
    pub(crate) fn face(&mut self, pool: PoolIdx, rooms: &mut Rooms) {
        if self.scope == HoldScope::All {
            return;
        }
        for of in &mut self.kept {
            let keeps = of.hold.until.is_some() || of.hold.pool == pool;
            if !keeps {
                of.give_back(rooms);
            } else if of.kept.is_none() {
                of.kept = Some(rooms.keep(of.hold));
            }
        }
    }

    /// A turn is over. Where it got nothing its hold is in force again.
    pub(crate) fn leave(&mut self, turn: &Turn, rooms: &mut Rooms, has_begun: bool) {
        if self.scope == HoldScope::Later || has_begun {
            return;
        }
        if let Some(hold) = self.holds.all.iter().find(|hold| hold.turn == *turn) {
            self.kept.push(KeptHold::new(hold, rooms));
        }
    }

    /// Lets work of a class use what is kept for later than its end, while `admit` runs.
    pub(crate) fn lend(&mut self, like: &Likeness, rooms: &mut Rooms, admit: impl FnOnce(&mut Rooms)) {
        let Some(lasts) = like.lasts else { return };
        let holds = self.holds;
        let past = |of: &&mut KeptHold<'_>| holds.is_past(lasts, of.hold);
        let mut is_lent = false;
        for of in self.kept.iter_mut().filter(past) {
            of.give_back(rooms);
            is_lent = true;
        }
        if !is_lent {
            return;
        }
        admit(rooms);
        for of in self.kept.iter_mut().filter(past) {
            of.kept = Some(rooms.keep(of.hold));
        }
    }

    /// No unit that takes more of a side fits into any cluster, even when nothing is kept any more.
    pub(crate) fn most_left(&self, rooms: &Rooms, side: Side) -> Resources {
        let kept = self.kept.iter().filter_map(|of| of.kept.as_ref());
        rooms.most_left_with(side, kept)
    }

    /// Whether anything is kept.
    pub(crate) const fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Gives everything back.
    pub(crate) fn end(self, rooms: &mut Rooms) {
        for mut of in self.kept {
            of.give_back(rooms);
        }
    }
}

/// Keeps the capacity of all units that still wait. Why other work gets nothing follows from what is left.
/// Returns what is kept for which hold.
pub fn keep_all(holds: &Holds, rooms: &mut Rooms, has_begun: impl Fn(&Turn) -> bool) -> Vec<(Hold, Kept)> {
    let waiting = holds.all.iter().filter(|h| !has_begun(&h.turn));
    waiting.map(|hold| (hold.clone(), rooms.keep(hold))).collect()
}
