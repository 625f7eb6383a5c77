//! An operator who switches kills off for a while, and what must hold meanwhile. What a shard was told is taken from the answers
//! that reached its process, not from what it makes of them.

use crate::invariants::Broken;
use crate::process::Who;
use crate::world::{BEGIN, Item, World};
use echelon_core_hosts::Call;
use echelon_core_model::control::Control;
use echelon_core_model::directive::{Directive, Order};
use echelon_core_model::store::{Answer, Decision, Op, OpResult, Query};
use echelon_core_model::{ReasonCode, Span, Timestamp, Version};
use echelon_core_shard::Event;
use std::collections::BTreeMap;

/// So long after a flip nothing may be killed any more, whoever was told of it.
const OBEYED_WITHIN: Span = Span::seconds(30);

/// What was flipped, and who has read it.
#[derive(Debug, Default)]
pub struct Switch {
    /// Since when kills are off, while they are.
    off_since: Option<Timestamp>,
    /// The newest row that reached each process, or a newer order to go on.
    read: BTreeMap<(Who, u64), (Version, bool)>,
    /// How often an operator saw a job of which something lived on because kills were off.
    pub(crate) withheld: u64,
}

impl World {
    /// Somebody switches kills off, and on again after a while.
    pub(crate) fn switch_kills_off(&mut self, span: Span) {
        self.flip(true);
        self.queue.plan(self.now.plus(span), Item::KillsOn);
    }

    /// Kills are on again, and surely when faults have stopped.
    pub(crate) fn plan_kills_on(&mut self) {
        self.queue.plan(BEGIN.plus(self.options.faulty), Item::KillsOn);
    }

    /// Kills go on.
    pub(crate) fn switch_kills_on(&mut self) {
        self.flip(false);
    }

    fn flip(&mut self, off: bool) {
        let Answer::Control(before) = self.store.read(&Query::Control) else {
            return;
        };
        if before.kills_off == off {
            return;
        }
        self.trace.line(self.now, &format!("operator: kills off: {off}"));
        let control = Control {
            version: before.version.next(),
            kills_off: off,
            at: self.now,
            ..Control::default()
        };
        let expected = before.version;
        self.store
            .perform(Op::Decide(Decision::PutControl { control, expected }));
        self.switch.off_since = off.then_some(self.now);
    }

    /// An operator looks at what is shown of jobs.
    pub(crate) fn look_at_withheld(&mut self) {
        let jobs = self.users.0.iter().filter_map(|u| u.job);
        let shown = jobs.filter(|job| match self.store.read(&Query::Progress(*job)) {
            Answer::Progress(rows) => rows
                .iter()
                .flat_map(|p| &p.waiting)
                .any(|w| w.reason.code == ReasonCode::KillsOff),
            _ => false,
        });
        let shown = shown.count();
        self.switch.withheld += u64::try_from(shown).unwrap_or(u64::MAX);
    }

    /// A process is told something.
    pub(crate) fn note_switch(&mut self, who: Who, life: u64, event: &Event) {
        let read = &mut self.switch.read;
        match event {
            Event::Storage(_, OpResult::Answer(Answer::Control(control))) => {
                let known = read.entry((who, life)).or_default();
                *known = (*known).max((control.version, control.kills_off));
            }
            // An order to stop may not be obeyed: it is late, or of a former resource manager.
            Event::Directive(
                _,
                Directive {
                    order: Order::Kills { version, off: false },
                    ..
                },
            ) => {
                if let Some(known) = read.get_mut(&(who, life)) {
                    *known = (*known).max((*version, false));
                }
            }
            _ => {}
        }
    }

    /// A call leaves a shard.
    pub(crate) fn judge_switch(&mut self, who: Who, life: u64, call: &Call) {
        if !matches!(call, Call::Kill { .. } | Call::DrainAgent { .. }) {
            return;
        }
        let late = |since: Timestamp| self.now.since(since) > OBEYED_WITHIN;
        let why = match self.switch.read.get(&(who, life)) {
            None => "before it has read the switch",
            Some((_, true)) => "although it has read that kills are off",
            _ if self.switch.off_since.is_some_and(late) => "although kills are off for so long",
            _ => return,
        };
        self.broken.push(Broken {
            invariant: 13,
            what: format!("{who} calls {call:?} {why}"),
        });
    }
}
