//! Lost runs that are to be replaced, let through at a bounded rate (law 8): a rack that falls silent must not become a wave of
//! launches at the moment when its patience ends.

use crate::Shard;
use crate::pace::Action;
use crate::picture::At;
use echelon_core_jobs::Next;
use echelon_core_model::{RunState, Timestamp};
use std::collections::BTreeSet;

/// Who waits for its turn, and whose turn it is.
#[derive(Debug, Default)]
pub(crate) struct Replacing {
    waiting: BTreeSet<At>,
    let_through: BTreeSet<At>,
}

impl Replacing {
    /// Whether an instance waits for its turn.
    pub(crate) fn awaits(&self, at: At) -> bool {
        self.waiting.contains(&at)
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl Shard {
    /// Whether an instance must wait for its turn before its lost run is replaced.
    pub(crate) fn awaits_turn(&mut self, at: At, what: &Next) -> bool {
        let turn = self.replacing.let_through.remove(&at);
        self.replacing.waiting.remove(&at);
        let group = self.picture.groups.get(&at.0);
        let begun = group.is_some_and(|g| g.ready.contains(&at.1));
        if turn || begun || *what != Next::Run || !self.is_lost(at) {
            return false;
        }
        if !self.replacing.is_waiting() && self.paces.take(Action::Replace, self.now) {
            return false;
        }
        self.replacing.waiting.insert(at);
        true
    }

    /// Lets through as many as may be replaced now.
    pub(crate) fn replace_on(&mut self) {
        while self.replacing.is_waiting() && self.paces.take(Action::Replace, self.now) {
            if let Some(at) = self.replacing.waiting.pop_first() {
                self.replacing.let_through.insert(at);
                self.picture.agenda.insert(at);
            }
        }
    }

    /// When the next are let through.
    pub(crate) fn next_replacement(&self) -> Option<Timestamp> {
        let waits = self.replacing.is_waiting();
        waits.then(|| self.paces.free_at(Action::Replace))
    }

    fn is_lost(&self, at: At) -> bool {
        let Some(record) = self.picture.record(at) else {
            return false;
        };
        let lost = |s: RunState| matches!(s, RunState::Lost | RunState::Unreachable);
        record.run.iter().chain(&record.older).any(|r| lost(r.state))
    }
}
