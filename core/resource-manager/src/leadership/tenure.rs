//! What a leader does while membership is not certain whether it still leads: it decides nothing, sends
//! nothing and does nothing, and it forgets nothing. In the same term it goes on, as soon as storage confirms
//! its epoch. The same while storage is full or has too much to do to confirm it:
//! no other leader would do better.

use crate::effect::Effect;
use crate::event::Event;
use crate::manager::{Phase, ResourceManager};
use crate::storage::operations::Purpose;
use echelon_core_model::Timestamp;
use echelon_core_model::store::{
    Answer, Consistency, Op, OpFailure, OpId, OpResult, Query, Role, TroubleKind,
};

/// Events that may wait; reports are the bulk, and these are many seconds of them.
const MOST_HELD: usize = 65_536;

/// How certain a leadership is.
#[derive(Debug, Default)]
pub(crate) enum Tenure {
    /// It may act.
    #[default]
    Able,
    /// Membership is not certain whether this process still leads.
    Suspended,
    /// Membership reports that the term goes on.
    /// This question to storage asks whether the epoch is still ours.
    Resumed(OpId),
}

impl ResourceManager {
    /// Whether the leadership is in doubt: nothing is decided until it is certain again.
    #[must_use]
    pub const fn is_suspended(&self) -> bool {
        !matches!(self.tenure, Tenure::Able)
    }

    /// Whether membership made this process the leader, however far it is.
    #[must_use]
    pub fn is_elected(&self) -> bool {
        self.phase != Phase::Follower
    }

    pub(crate) fn suspend(&mut self) {
        if self.is_elected() {
            self.tenure = Tenure::Suspended;
        }
    }

    /// Takes an event in while the leadership is in doubt.
    pub(crate) fn wait(&mut self, event: Event, now: Timestamp, out: &mut Vec<Effect>) {
        match (event, &self.tenure) {
            (Event::Suspended, _) => self.tenure = Tenure::Suspended,
            (Event::Resumed, Tenure::Suspended) => self.resume(now, out),
            (Event::Resumed | Event::Wake, _) => {}
            (event @ (Event::Deposed | Event::Elected { .. }), _) => {
                self.forget();
                self.act_on(event, now, out);
            }
            (Event::Storage(id, result), Tenure::Resumed(asked)) if id == *asked => {
                let result = self.tell_unread(id, result, out);
                self.note_trouble(&result, now);
                // A row that cannot be understood confirms nothing.
                let answered = matches!(result, OpResult::Answer(Answer::Leadership(_)));
                if let Some(asked) = self.ops.finish(id, &result, now) {
                    self.stored(asked, result, now, out);
                }
                if answered && self.is_elected() {
                    // An answer to a question of long ago proves only that it is to be asked again.
                    if now.since(self.timers.confirm_asked) >= self.config.lease {
                        self.resume(now, out);
                    } else {
                        self.go_on(now, out);
                    }
                }
            }
            (event, _) => self.keep_for_later(event, out),
        }
        self.keep_resuming(now, out);
    }

    /// The term goes on. An epoch must be confirmed by an answer to a question that is asked now.
    fn resume(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        if !matches!(self.phase, Phase::Recovering | Phase::Leading) {
            return self.go_on(now, out);
        }
        // Nothing was asked of storage meanwhile: its silence counts from here.
        self.timers.confirmed = now;
        self.timers.confirm_asked = now;
        let op = Op::Read(Query::Leadership(Role::ResourceManager), Consistency::Serial);
        self.tenure = Tenure::Resumed(self.ops.start(Purpose::ConfirmEpoch, op, now, out));
    }

    /// The epoch could not be confirmed for a lease, since storage is full or has too much to do.
    /// Another leader would get the same answer. So nothing is decided and nothing forgotten until storage
    /// answers. A question under way goes on.
    pub(crate) fn doubt(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let op = || Op::Read(Query::Leadership(Role::ResourceManager), Consistency::Serial);
        self.timers.confirmed = now;
        let asked = self.ops.id_of(&Purpose::ConfirmEpoch);
        let id = asked.unwrap_or_else(|| {
            self.timers.confirm_asked = now;
            self.ops.start(Purpose::ConfirmEpoch, op(), now, out)
        });
        self.tenure = Tenure::Resumed(id);
    }

    /// Remembers what storage reports as wrong with it, for as long as it does.
    pub(crate) fn note_trouble(&mut self, result: &OpResult, now: Timestamp) {
        self.trouble = match result {
            OpResult::Failed(OpFailure::NotDone(trouble) | OpFailure::Unknown(trouble)) => {
                Some((now, trouble.kind))
            }
            OpResult::Failed(OpFailure::Refused(_)) => self.trouble,
            OpResult::Decided(_) | OpResult::Committed => None,
            // A full storage answers reads, and one row that cannot be read proves nothing about the others.
            _ => self
                .trouble
                .filter(|(_, kind)| matches!(kind, TroubleKind::Full | TroubleKind::Schema)),
        };
    }

    /// Whether storage has answered within a lease with a trouble that every leader would meet.
    pub(crate) fn meets_all(&self, now: Timestamp) -> bool {
        self.trouble
            .is_some_and(|(at, kind)| !kind.may_spare_others() && now.since(at) < self.config.lease)
    }

    /// What is wrong with storage, as it reported within a lease.
    #[must_use]
    pub fn storage_trouble(&self, now: Timestamp) -> Option<TroubleKind> {
        let recent = self.trouble.filter(|(at, _)| now.since(*at) < self.config.lease);
        recent.map(|(_, kind)| kind)
    }

    /// Does what came meanwhile, in its order.
    fn go_on(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        self.tenure = Tenure::Able;
        for event in std::mem::take(&mut self.came_meanwhile) {
            self.act_on(event, now, out);
        }
        self.act_on(Event::Wake, now, out);
    }

    fn keep_for_later(&mut self, event: Event, out: &mut Vec<Effect>) {
        self.came_meanwhile.push(event);
        if self.came_meanwhile.len() > MOST_HELD {
            let why = "too much came while it was not known whether this process leads";
            self.step_down(why.to_owned(), out);
        }
    }

    /// Asks again for the confirmation; gives up when there is none for a whole lease.
    fn keep_resuming(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let Tenure::Resumed(id) = self.tenure else {
            return;
        };
        let lease = self.config.lease;
        if now.since(self.timers.confirmed) >= lease && self.meets_all(now) {
            self.timers.confirmed = now;
        } else if now.since(self.timers.confirmed) >= lease {
            let why = format!("could not confirm its epoch for {lease} after a suspension");
            return self.step_down(why, out);
        }
        self.ops.repeat_one(id, now, out);
    }

    /// When a leadership in doubt wants to be woken; only a question to storage is waited for.
    pub(crate) fn next_resumption(&self) -> Option<Timestamp> {
        let Tenure::Resumed(id) = self.tenure else {
            return None;
        };
        let lease_ends = self.timers.confirmed.plus(self.config.lease);
        Some(self.ops.due_of(id).map_or(lease_ends, |due| due.min(lease_ends)))
    }
}
