//! What is going to happen, in order of time; of one time, in the order in which it was added.

use crate::shard::SliceId;
use echelon_core_model::Timestamp;
use echelon_core_model::directive::Directive;
use echelon_core_model::store::{OpId, OpResult};
use std::collections::BTreeMap;

/// Something that happens.
#[derive(Debug, Clone, PartialEq)]
pub enum Happening {
    /// A cluster has another capacity from now on: its number, and that of the change in the trace.
    Capacity(usize, usize),
    /// Instances of a slice of a cluster that began together, by the number of their batch, end.
    End(usize, SliceId, u64),
    /// A job, by number, is submitted.
    Submit(usize),
    /// A job, by number, is stopped.
    Stop(usize),
    /// Storage answers an operation.
    Answer(OpId, Box<OpResult>),
    /// A directive arrives at a shard, by number.
    Directive(usize, Box<Directive>),
    /// A shard, by number, reports what has changed.
    Report(usize),
}

/// All that is known to come.
#[derive(Debug, Default)]
pub struct Agenda {
    all: BTreeMap<(Timestamp, u64), Happening>,
    added: u64,
}

impl Agenda {
    /// Adds something.
    pub fn add(&mut self, at: Timestamp, what: Happening) {
        self.all.insert((at, self.added), what);
        self.added += 1;
    }

    /// When the next thing happens.
    pub fn next(&self) -> Option<Timestamp> {
        self.all.keys().next().map(|(at, _)| *at)
    }

    /// The next thing that has happened by then.
    pub fn pop(&mut self, now: Timestamp) -> Option<Happening> {
        let first = self.all.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}
