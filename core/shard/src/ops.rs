//! Operations on storage that are under way: each is repeated unchanged until it has a result, with growing waits, also
//! when no answer comes at all. What is forgotten here (a deposed leader's) finds nobody when it completes.

use crate::event::Effect;
use echelon_core_model::Timestamp;
use echelon_core_model::store::{Op, OpFailure, OpId, OpResult, Refusal, Trouble};
use echelon_core_model::time::Span;
use std::collections::{BTreeMap, BTreeSet};

/// An operation under way, and what it is for.
#[derive(Debug)]
struct Pending<P> {
    op: Op,
    purpose: P,
    since: Timestamp,
    tries: u32,
    due: Timestamp,
}

/// What came of an operation.
#[derive(Debug)]
pub(crate) enum Outcome<P> {
    /// It has a result; it is not under way any more.
    Done {
        /// What it was for.
        purpose: P,
        /// When it was first asked.
        since: Timestamp,
        /// The result; never `Failed`.
        result: Box<OpResult>,
    },
    /// It failed and will be repeated.
    Again {
        /// What it is for.
        purpose: P,
        /// What storage said.
        trouble: Trouble,
    },
    /// Storage never takes it; it is not under way any more.
    Refused {
        /// What it was for.
        purpose: P,
        /// What was asked.
        op: Box<Op>,
        /// The rows, each with its reason.
        refusal: Refusal,
    },
    /// Nobody waits for it.
    Unknown,
}

/// All operations under way.
#[derive(Debug)]
pub(crate) struct Ops<P> {
    last: u64,
    pending: BTreeMap<OpId, Pending<P>>,
    due: BTreeSet<(Timestamp, OpId)>,
    retry: Span,
    timeout: Span,
}

impl<P: Clone> Ops<P> {
    /// None under way. `retry`: first wait after a failure; `timeout`: longest wait for an answer.
    pub(crate) const fn new(retry: Span, timeout: Span) -> Self {
        Self {
            last: 0,
            pending: BTreeMap::new(),
            due: BTreeSet::new(),
            retry,
            timeout,
        }
    }

    /// Asks for an operation.
    pub(crate) fn start(&mut self, op: Op, purpose: P, now: Timestamp, out: &mut Vec<Effect>) -> OpId {
        self.last += 1;
        let id = OpId(self.last);
        out.push(Effect::Storage(id, op.clone()));
        let due = now.plus(self.timeout);
        self.due.insert((due, id));
        let pending = Pending {
            op,
            purpose,
            since: now,
            tries: 0,
            due,
        };
        self.pending.insert(id, pending);
        id
    }

    /// What an operation under way is for.
    pub(crate) fn purpose(&self, id: OpId) -> Option<&P> {
        self.pending.get(&id).map(|p| &p.purpose)
    }

    /// Takes a result in.
    pub(crate) fn answered(&mut self, id: OpId, result: OpResult, now: Timestamp) -> Outcome<P> {
        let trouble = match result {
            OpResult::Failed(OpFailure::NotDone(trouble) | OpFailure::Unknown(trouble)) => trouble,
            OpResult::Failed(OpFailure::Refused(refusal)) => {
                let Some(pending) = self.end(id) else {
                    return Outcome::Unknown;
                };
                return Outcome::Refused {
                    purpose: pending.purpose,
                    op: Box::new(pending.op),
                    refusal,
                };
            }
            result => {
                let Some(pending) = self.end(id) else {
                    return Outcome::Unknown;
                };
                return Outcome::Done {
                    purpose: pending.purpose,
                    since: pending.since,
                    result: Box::new(result),
                };
            }
        };
        let Some(pending) = self.pending.get_mut(&id) else {
            return Outcome::Unknown;
        };
        let doubled = self.retry.0.saturating_mul(1 << pending.tries.min(16));
        let due = now.plus(Span(doubled.min(self.timeout.0)));
        self.due.remove(&(pending.due, id));
        pending.tries = pending.tries.saturating_add(1);
        pending.due = due;
        self.due.insert((due, id));
        Outcome::Again {
            purpose: pending.purpose.clone(),
            trouble,
        }
    }

    fn end(&mut self, id: OpId) -> Option<Pending<P>> {
        let pending = self.pending.remove(&id)?;
        self.due.remove(&(pending.due, id));
        Some(pending)
    }

    /// Repeats what is due.
    pub(crate) fn repeat_due(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        while let Some((due, id)) = self.due.first().copied().filter(|(due, _)| *due <= now) {
            self.due.remove(&(due, id));
            if let Some(pending) = self.pending.get_mut(&id) {
                pending.due = now.plus(self.timeout);
                self.due.insert((pending.due, id));
                out.push(Effect::Storage(id, pending.op.clone()));
            }
        }
    }

    /// Repeats one when it is due.
    pub(crate) fn repeat_one(&mut self, id: OpId, now: Timestamp, out: &mut Vec<Effect>) {
        if let Some(pending) = self.pending.get_mut(&id).filter(|pending| pending.due <= now) {
            self.due.remove(&(pending.due, id));
            pending.due = now.plus(self.timeout);
            self.due.insert((pending.due, id));
            out.push(Effect::Storage(id, pending.op.clone()));
        }
    }

    /// When this one is to be repeated.
    pub(crate) fn due_of(&self, id: OpId) -> Option<Timestamp> {
        self.pending.get(&id).map(|pending| pending.due)
    }

    /// When something is to be repeated.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(due, _)| *due)
    }

    /// How many are under way.
    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Forgets all of them. Their ids are never used again.
    pub(crate) fn forget_all(&mut self) {
        self.pending.clear();
        self.due.clear();
    }
}
