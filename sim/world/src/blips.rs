//! Processes that lose their connection to the membership servers for a while. What is judged: a leader that was told so tells
//! nothing and acts on nothing (invariant 25) until it was told that its term goes on and storage has confirmed its epoch.

use crate::invariants::Broken;
use crate::members::{LEASE, Told};
use crate::process::Who;
use crate::world::{Item, World};
use echelon_core_model::store::{Op, OpId, OpResult, Query};
use echelon_core_model::{Span, Timestamp};
use echelon_core_resource_manager as rm;
use echelon_core_shard as shard;

/// What a process may do by what it was told of its leadership.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Doubt {
    /// It does not lead, or may act.
    #[default]
    None,
    /// It was told that nobody can tell whether it leads.
    Suspended,
    /// It was told that its term goes on, and asks storage for its epoch, by this question.
    Resumed(Option<OpId>),
}

/// What an event tells a process of its leadership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    Suspended,
    Resumed,
    /// It leads no more, or in a new term.
    Ended,
    /// Storage has answered this question.
    Answered(OpId),
    Other,
}

/// What a process does, as far as it is judged here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    /// It asks for the stored epoch.
    AskEpoch(OpId),
    /// It publishes its epoch.
    Publish,
    /// It gives the leadership up.
    StepDown,
    /// What only a leader does.
    Leader(String),
}

fn answered(id: OpId, result: &OpResult) -> News {
    match result {
        OpResult::Failed(_) => News::Other,
        _ => News::Answered(id),
    }
}

fn stored(id: OpId, op: &Op) -> Act {
    match op {
        Op::Read(Query::Leadership(_), _) => Act::AskEpoch(id),
        other => Act::Leader(format!("{other:?}")),
    }
}

impl News {
    pub(crate) fn of_manager(event: &rm::Event) -> Self {
        match event {
            rm::Event::Suspended => Self::Suspended,
            rm::Event::Resumed => Self::Resumed,
            rm::Event::Deposed | rm::Event::Elected { .. } => Self::Ended,
            rm::Event::Storage(id, result) => answered(*id, result),
            _ => Self::Other,
        }
    }

    pub(crate) fn of_shard(event: &shard::Event) -> Self {
        match event {
            shard::Event::Suspended => Self::Suspended,
            shard::Event::Resumed => Self::Resumed,
            shard::Event::Deposed | shard::Event::Elected { .. } => Self::Ended,
            shard::Event::Storage(id, result) => answered(*id, result),
            _ => Self::Other,
        }
    }
}

impl Act {
    pub(crate) fn of_manager(effect: &rm::Effect) -> Option<Self> {
        match effect {
            rm::Effect::Storage(id, op) => Some(stored(*id, op)),
            rm::Effect::Publish(_) => Some(Self::Publish),
            rm::Effect::StepDown { .. } => Some(Self::StepDown),
            rm::Effect::Send(..)
            | rm::Effect::Watch(_)
            | rm::Effect::Unwatch(_)
            | rm::Effect::Mark(_)
            | rm::Effect::Changed(_) => Some(Self::Leader(format!("{effect:?}"))),
            rm::Effect::Alarm(_) => None,
        }
    }

    pub(crate) fn of_shard(effect: &shard::Effect) -> Option<Self> {
        match effect {
            shard::Effect::Storage(id, op) => Some(stored(*id, op)),
            shard::Effect::Publish(_) => Some(Self::Publish),
            shard::Effect::StepDown { .. } => Some(Self::StepDown),
            shard::Effect::Cluster(_)
            | shard::Effect::Mark(_)
            | shard::Effect::Report(..)
            | shard::Effect::Admit(_)
            | shard::Effect::Refuse { .. } => Some(Self::Leader(format!("{effect:?}"))),
            shard::Effect::Place(_) | shard::Effect::FetchTails(_) | shard::Effect::Alarm(_) => None,
        }
    }
}

/// What is known of one process' leadership.
#[derive(Debug, Clone, Copy, Default)]
pub struct Leading {
    doubt: Doubt,
    /// Whether it has published the epoch of its term.
    published: bool,
}

impl Leading {
    /// Takes one step of the process in; what it did against the rule, if anything.
    pub(crate) fn judge(&mut self, news: News, acts: &[Act]) -> Option<String> {
        match (news, self.doubt) {
            (News::Suspended, _) => self.doubt = Doubt::Suspended,
            (News::Resumed, Doubt::Suspended) => {
                self.doubt = if self.published {
                    Doubt::Resumed(None)
                } else {
                    Doubt::None
                };
            }
            (News::Ended, _) => *self = Self::default(),
            (News::Answered(id), Doubt::Resumed(Some(asked))) if id == asked => self.doubt = Doubt::None,
            _ => {}
        }
        for act in acts {
            match (act, self.doubt) {
                (Act::StepDown, _) => *self = Self::default(),
                (Act::AskEpoch(id), Doubt::Resumed(None)) => self.doubt = Doubt::Resumed(Some(*id)),
                (Act::AskEpoch(id), Doubt::Resumed(Some(asked))) if *id == asked => {}
                (Act::Publish, Doubt::None) => self.published = true,
                (_, Doubt::None) => {}
                (act, doubt) => return Some(format!("{doubt:?}, and {act:?}")),
            }
        }
        None
    }
}

impl World {
    pub(crate) fn judge_doubt(&mut self, who: Who, news: News, acts: &[Act]) {
        let leading = match who {
            Who::Manager(index) => self.managers.get_mut(index).map(|p| &mut p.leading),
            Who::Shard { cluster, index } => self.shard_process_mut(cluster, index).map(|p| &mut p.leading),
        };
        if let Some(what) = leading.and_then(|leading| leading.judge(news, acts)) {
            self.broken.push(Broken {
                invariant: 25,
                what: format!("{who} acts although it cannot tell whether it leads: {what}"),
            });
        }
    }

    /// A process loses its connection.
    pub(crate) fn blip(&mut self, who: Who, span: Span) {
        if !self.is_awake(who) {
            return;
        }
        let (role, life, now) = (self.role_of(who), self.life_of(who), self.now);
        let Some(election) = self.elections.get_mut(&role) else {
            return;
        };
        election.silent(who, now);
        if election.is_led_by(who, life) {
            self.spread_word(&role, Told::Suspended(who, life));
        }
        if span >= LEASE {
            self.queue.plan(now.plus(LEASE), Item::LeaseOver(who, life));
        }
        self.queue.plan(now.plus(span), Item::Reconnect(who, life, span));
    }

    /// The process takes its leadership as lost; the servers do not know yet that it is gone.
    pub(crate) fn lease_over(&mut self, who: Who, life: u64) {
        let role = self.role_of(who);
        if self.election(&role).is_some_and(|e| e.is_led_by(who, life)) {
            self.spread_word(&role, Told::Deposed(who, life));
        }
    }

    /// The process reaches the servers again: in its session, or in a new one.
    pub(crate) fn reconnect(&mut self, who: Who, life: u64, away: Span) {
        if self.life_of(who) != life {
            return;
        }
        if let Some(until) = self.paused_until(who).max(self.expired_until(who)) {
            // It reaches the servers when it goes on, or its site does; its lease may be over by then.
            let longer = Span(away.0 + until.since(self.now).0);
            if away < LEASE && longer >= LEASE {
                self.queue.plan(until, Item::LeaseOver(who, life));
            }
            self.queue.plan(until, Item::Reconnect(who, life, longer));
            return;
        }
        if !self.is_awake(who) {
            return;
        }
        let (role, now) = (self.role_of(who), self.now);
        let Some(election) = self.elections.get_mut(&role) else {
            return;
        };
        if away >= LEASE {
            election.rejoin(who, life, now);
            return;
        }
        election.heard(who);
        if election.is_led_by(who, life) {
            self.spread_word(&role, Told::Resumed(who, life));
        }
    }

    fn paused_until(&self, who: Who) -> Option<Timestamp> {
        match who {
            Who::Manager(i) => self.managers.get(i)?.pause_at(self.now),
            Who::Shard { cluster, index } => self.shard_process(cluster, index)?.pause_at(self.now),
        }
    }

    /// Whether a process lives and is not paused.
    fn is_awake(&self, who: Who) -> bool {
        match who {
            Who::Manager(i) => {
                let process = self.managers.get(i);
                process.is_some_and(|p| p.driver.is_some() && p.pause_at(self.now).is_none())
            }
            Who::Shard { cluster, index } => {
                let process = self.shard_process(cluster, index);
                process.is_some_and(|p| p.driver.is_some() && p.pause_at(self.now).is_none())
            }
        }
    }

    /// How many leaderships there have been: a new one has a larger epoch.
    pub(crate) fn leaderships(&self) -> u64 {
        self.elections.values().map(|e| e.published().epoch.0).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_leader_in_doubt_may_do() {
        let act = || Act::Leader("it".to_owned());
        let ask = |n| Act::AskEpoch(OpId(n));
        // What it heard and did, step by step, and whether all of it was allowed.
        type Steps<'a> = &'a [(News, &'a [Act])];
        let table: [(Steps<'_>, bool); 7] = [
            (
                &[(News::Other, &[Act::Publish, act()]), (News::Suspended, &[])],
                true,
            ),
            (
                &[(News::Other, &[Act::Publish]), (News::Suspended, &[act()])],
                false,
            ),
            (&[(News::Suspended, &[]), (News::Other, &[ask(1)])], false),
            (
                &[
                    (News::Other, &[Act::Publish]),
                    (News::Suspended, &[]),
                    (News::Resumed, &[ask(1)]),
                    (News::Answered(OpId(1)), &[act()]),
                ],
                true,
            ),
            (
                &[
                    (News::Other, &[Act::Publish]),
                    (News::Suspended, &[]),
                    (News::Resumed, &[ask(1)]),
                    (News::Answered(OpId(2)), &[act()]),
                ],
                false,
            ),
            (&[(News::Suspended, &[]), (News::Resumed, &[act()])], true),
            (&[(News::Suspended, &[]), (News::Ended, &[act()])], true),
        ];
        for (steps, allowed) in table {
            let mut leading = Leading::default();
            let found = steps.iter().find_map(|(news, acts)| leading.judge(*news, acts));
            assert_eq!(found.is_none(), allowed, "{steps:?}: {found:?}");
        }
    }
}
