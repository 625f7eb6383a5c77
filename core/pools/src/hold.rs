//! Dated claims of gangs: room that is kept together as what is there ends, so that small work cannot starve a gang for ever. Work
//! that is certain to end before the date may use it meanwhile (backfill: Lifka, "The ANL/IBM SP scheduling system", 1995).

use crate::hierarchy::PoolIdx;
use crate::queue::{Likeness, Turn};
use crate::rooms::{Kept, Rooms};
use crate::terms::HostPoolIdx;
use echelon_core_model::resources::Resources;
use echelon_core_model::{ClusterId, Span, Timestamp};

/// Room that is kept for a gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Its place: who comes before it is not kept from anything.
    pub turn: Turn,
    /// Where it waits.
    pub cluster: ClusterId,
    /// Of what the cluster has now, the part that it will need.
    pub in_cluster: Resources,
    /// The host pool that it needs that of.
    pub host_pool: Option<HostPoolIdx>,
    /// The same of its pool and those above.
    pub in_pools: Vec<(PoolIdx, Resources)>,
    /// When all of its room is there, at the latest.
    pub until: Timestamp,
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
    /// Whether those who are alike are certain to end before a hold needs its room.
    fn is_past(&self, lasts: Span, hold: &Hold) -> bool {
        self.now.plus(lasts) <= hold.until
    }
}

/// Holds that are in force in an admission.
pub(crate) struct InForce<'a> {
    holds: &'a Holds,
    next: usize,
    kept: Vec<(&'a Hold, Kept)>,
}

impl<'a> InForce<'a> {
    pub(crate) const fn new(holds: &'a Holds) -> Self {
        Self {
            holds,
            next: 0,
            kept: Vec::new(),
        }
    }

    /// Somebody's turn has come: whose turns were before it, and who still wait, have their room kept.
    pub(crate) fn reach(&mut self, turn: &Turn, rooms: &mut Rooms, has_begun: impl Fn(&Turn) -> bool) {
        while let Some(hold) = self.holds.all.get(self.next).filter(|h| h.turn < *turn) {
            self.next += 1;
            if !has_begun(&hold.turn) {
                self.kept.push((hold, rooms.keep(hold)));
            }
        }
    }

    /// Lets those who are alike use what is kept beyond their end, for as long as `admit` takes.
    pub(crate) fn lend(&mut self, like: &Likeness, rooms: &mut Rooms, admit: impl FnOnce(&mut Rooms)) {
        let Some(lasts) = like.lasts else { return };
        let past = |(hold, _): &(&Hold, Kept)| self.holds.is_past(lasts, hold);
        let lent: Vec<usize> = (0..self.kept.len())
            .filter(|i| self.kept.get(*i).is_some_and(past))
            .collect();
        if lent.is_empty() {
            return;
        }
        for i in &lent {
            if let Some((_, kept)) = self.kept.get_mut(*i) {
                rooms.give_back(std::mem::take(kept));
            }
        }
        admit(rooms);
        for i in &lent {
            if let Some((hold, kept)) = self.kept.get_mut(*i) {
                *kept = rooms.keep(hold);
            }
        }
    }

    /// Whether anything is kept.
    pub(crate) const fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Nothing is kept any more.
    pub(crate) fn end(self, rooms: &mut Rooms) {
        for (_, kept) in self.kept {
            rooms.give_back(kept);
        }
    }
}

/// Keeps the room of all gangs that still wait, for whoever asks why he gets nothing; tells what is kept for whom.
pub fn keep_all(holds: &Holds, rooms: &mut Rooms, has_begun: impl Fn(&Turn) -> bool) -> Vec<(Hold, Kept)> {
    let waiting = holds.all.iter().filter(|h| !has_begun(&h.turn));
    waiting.map(|hold| (hold.clone(), rooms.keep(hold))).collect()
}
