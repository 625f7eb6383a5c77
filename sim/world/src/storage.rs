//! Storage as processes reach it: operations arrive late and out of order, some are lost on the way, of some only the
//! answer is lost, and some arrive long after their caller has given up.

use crate::dice::Die;
use crate::logs::is_about_logs;
use crate::process::Who;
use crate::world::{Item, World};
use echelon_core_model::Span;
use echelon_core_model::store::{Decision, Op, OpFailure, OpId, OpResult, Query, TroubleKind};

/// Who asked: a process, or a user's gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// A process in this life.
    Process(Who, u64),
    /// The gateway that serves this user.
    User(usize),
    /// The gateway that serves the operator's change of that number.
    Operator(u32),
}

/// What becomes of an operation on its way.
enum Luck {
    Good,
    /// It never arrives.
    Lost,
    /// It takes effect; the answer is lost.
    AnswerLost,
    /// The caller hears of a time-out; it takes effect later.
    Late(Span),
    /// It fails and is surely not done.
    NotDone,
}

const QUICK: (Span, Span) = (Span::millis(1), Span::millis(15));

impl World {
    /// Sends an operation on its way.
    pub(crate) fn ask_storage(&mut self, asker: Asker, id: OpId, op: Op) {
        if !matches!(op, Op::Read(..)) {
            self.detail(|| format!("{asker:?} stores {op:?}"));
        }
        if self.lose_in_cut(asker, id, &op) {
            return;
        }
        let of_logs = is_about_logs(&op);
        let delay = self.delays(of_logs).span(QUICK.0, QUICK.1);
        let at = self.now.plus(delay).plus(self.lateness(asker, &op));
        let luck = self.luck(of_logs);
        if let (Asker::Process(Who::Shard { cluster, .. }, _), false) = (asker, matches!(luck, Luck::Good)) {
            self.federation.note_unanswered(cluster);
        }
        match luck {
            Luck::Good => self.queue.plan(
                at,
                Item::Storage {
                    asker,
                    id,
                    op,
                    answered: true,
                },
            ),
            Luck::AnswerLost => {
                self.queue.plan(
                    at,
                    Item::Storage {
                        asker,
                        id,
                        op,
                        answered: false,
                    },
                );
                self.fail(asker, id, (true, of_logs));
            }
            Luck::Lost => self.fail(asker, id, (true, of_logs)),
            Luck::NotDone => self.fail(asker, id, (false, of_logs)),
            Luck::Late(by) => {
                self.queue.plan(
                    at.plus(by),
                    Item::Storage {
                        asker,
                        id,
                        op,
                        answered: false,
                    },
                );
                self.fail(asker, id, (true, of_logs));
            }
        }
    }

    /// How late a read of a spec comes, beside what all operations take.
    fn lateness(&mut self, asker: Asker, op: &Op) -> Span {
        let of_shard = matches!(asker, Asker::Process(Who::Shard { .. }, _));
        let is_spec = matches!(op, Op::Read(Query::Spec(..), _));
        let rate = self.options.faults.late_specs;
        if of_shard && is_spec && self.is_faulty() && self.dice.specs.chance(rate) {
            self.dice.specs.span(Span::seconds(1), Span::seconds(20))
        } else {
            Span::ZERO
        }
    }

    fn delays(&mut self, of_logs: bool) -> &mut Die {
        if of_logs {
            &mut self.dice.logs
        } else {
            &mut self.dice.delays
        }
    }

    fn losses(&mut self, of_logs: bool) -> &mut Die {
        if of_logs {
            &mut self.dice.logs
        } else {
            &mut self.dice.losses
        }
    }

    fn luck(&mut self, of_logs: bool) -> Luck {
        let rate = if self.is_faulty() {
            self.options.faults.storage
        } else {
            0
        };
        let losses = self.losses(of_logs);
        if !losses.chance(rate) {
            return Luck::Good;
        }
        match losses.below(4) {
            0 => Luck::Lost,
            1 => Luck::AnswerLost,
            2 => Luck::NotDone,
            _ => Luck::Late(losses.span(Span::seconds(1), Span::seconds(20))),
        }
    }

    fn fail(&mut self, asker: Asker, id: OpId, (may_be_done, of_logs): (bool, bool)) {
        let timeout = self.delays(of_logs).span(Span::millis(100), Span::seconds(2));
        let result = OpResult::Failed(if may_be_done {
            OpFailure::unknown("simulated")
        } else {
            OpFailure::not_done(TroubleKind::NoAnswer, "simulated")
        });
        self.queue
            .plan(self.now.plus(timeout), Item::Answer { asker, id, result });
    }

    /// An operation arrives.
    pub(crate) fn storage_arrives(&mut self, asker: Asker, id: OpId, op: Op, answered: bool) {
        let of_logs = is_about_logs(&op);
        let before = matches!(op, Op::Decide(Decision::PutPools { .. })).then(|| self.tree());
        let result = self.store.perform(op);
        if let Some(before) = before {
            self.judge_leaving(&before);
            self.note_bounds();
        }
        if answered {
            let delay = self.delays(of_logs).span(QUICK.0, QUICK.1);
            self.queue
                .plan(self.now.plus(delay), Item::Answer { asker, id, result });
        }
    }
}
