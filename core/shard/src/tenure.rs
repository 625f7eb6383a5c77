//! What a leader does while membership cannot tell whether it still leads: it decides nothing, tells nothing and does nothing,
//! and it forgets nothing. In the same term it goes on, as soon as storage confirms its epoch.

use crate::event::Event;
use crate::purpose::Purpose;
use crate::{Phase, Shard};
use echelon_core_model::Timestamp;
use echelon_core_model::store::{Answer, OpId, OpResult};

/// How certain a leadership is.
#[derive(Debug, Default)]
pub(crate) enum Tenure {
    /// It may act.
    #[default]
    Able,
    /// Membership cannot tell whether this process still leads.
    Suspended,
    /// Membership says that the term goes on; this question to storage asks whether the epoch is still ours.
    Resumed(OpId),
}

impl Shard {
    /// Whether the leadership is in doubt: nothing is decided until it is certain again.
    #[must_use]
    pub const fn is_suspended(&self) -> bool {
        !matches!(self.tenure, Tenure::Able)
    }

    pub(crate) fn suspend(&mut self) {
        if self.phase != Phase::Follower {
            self.tenure = Tenure::Suspended;
        }
    }

    /// Takes an event in while the leadership is in doubt.
    pub(crate) fn wait(&mut self, event: Event) {
        match (event, &self.tenure) {
            (Event::Suspended, _) => self.tenure = Tenure::Suspended,
            (Event::Resumed, Tenure::Suspended) => self.resume(),
            (Event::Resumed | Event::Wake, _) => {}
            (event @ (Event::Deposed | Event::Elected { .. }), _) => {
                self.reset();
                self.replay();
                self.act_on(event);
            }
            (Event::Storage(id, result), Tenure::Resumed(asked)) if id == *asked => {
                self.on_resumption(id, result);
            }
            (event, _) => self.keep_for_later(event),
        }
        self.keep_resuming();
    }

    /// The term goes on. An epoch must be confirmed by an answer to a question that is asked now.
    fn resume(&mut self) {
        if !self.epoch_taken() {
            return self.go_on();
        }
        // Nothing was asked of storage meanwhile: its silence counts from here.
        self.confirmed_at = self.now;
        self.confirm_at = Timestamp(u64::MAX);
        let id = self.ask_epoch(Purpose::Confirm);
        self.tenure = Tenure::Resumed(id);
    }

    fn on_resumption(&mut self, id: OpId, result: OpResult) {
        let result = self.tell_unread(id, result);
        // A row that cannot be understood confirms nothing.
        let answered = matches!(result, OpResult::Answer(Answer::Leadership(_)));
        let outcome = self.ops.answered(id, result, self.now);
        self.on_storage(outcome);
        if answered {
            self.go_on();
        }
    }

    /// Does what came meanwhile, in its order.
    fn go_on(&mut self) {
        self.tenure = Tenure::Able;
        self.journal.restart_flights(self.now);
        self.replay();
        self.act_on(Event::Wake);
    }

    fn replay(&mut self) {
        for event in std::mem::take(&mut self.came_meanwhile) {
            self.act_on(event);
        }
    }

    fn keep_for_later(&mut self, event: Event) {
        self.came_meanwhile.push(event);
        if self.came_meanwhile.len() > self.config.timing.held_events {
            self.step_down("too much came while it was not known whether this process leads".to_owned());
            self.replay();
        }
    }

    /// Asks again for the confirmation; gives up when there is none for a whole lease.
    fn keep_resuming(&mut self) {
        let Tenure::Resumed(id) = self.tenure else {
            return;
        };
        let lease = self.config.timing.lease;
        if self.now >= self.confirmed_at.plus(lease) {
            self.step_down(format!(
                "could not confirm epoch {} for {lease} after a suspension",
                self.epoch
            ));
            self.replay();
            return;
        }
        self.ops.repeat_one(id, self.now, &mut self.out);
    }

    /// When a leadership in doubt wants to be woken; only a question to storage is waited for.
    pub(crate) fn next_resumption(&self) -> Option<Timestamp> {
        let Tenure::Resumed(id) = self.tenure else {
            return None;
        };
        let lease_ends = self.confirmed_at.plus(self.config.timing.lease);
        Some(self.ops.due_of(id).map_or(lease_ends, |due| due.min(lease_ends)))
    }
}
