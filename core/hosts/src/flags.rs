//! Flags of agents: how soon the executors of an agent end that was replaced. The old one cannot be asked, so
//! the agent is asked that is now at its address: both are started on one machine, with one configuration.

use crate::call::Call;
use crate::hosts::Hosts;
use echelon_core_model::gone::AgentTimes;
use echelon_core_model::{HostId, Span, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// A question without an answer for this long is lost.
const LOST: Span = Span::minutes(1);
/// After the first question that failed; doubled with each.
const FIRST_RETRY: Span = Span::seconds(15);
/// Questions for one agent. With the last of them its flags stay unknown.
const TRIES: u32 = 5;
/// Questions under way at a time.
const MOST_ASKED: usize = 8;

/// What was asked for the flags of agents that were replaced, and what came of it.
#[derive(Debug, Clone, Default)]
pub struct FlagQuestions {
    all: BTreeMap<HostId, FlagQuestion>,
    /// Questions that are to be asked, by when.
    due: BTreeSet<(Timestamp, HostId)>,
    /// Questions under way, by when they count as lost.
    asked: BTreeSet<(Timestamp, HostId)>,
    /// Agents for which the question is over since this was last taken.
    news: Vec<HostId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlagQuestion {
    /// To be asked at this moment, after so many failures.
    Due { at: Timestamp, failures: u32 },
    /// Asked, and lost at this moment.
    Asked { lost_at: Timestamp, failures: u32 },
    /// Answered, or given up.
    Over(AgentTimes),
}

impl FlagQuestions {
    fn set(&mut self, host: &HostId, question: FlagQuestion) {
        self.forget(host);
        match question {
            FlagQuestion::Due { at, .. } => {
                self.due.insert((at, host.clone()));
            }
            FlagQuestion::Asked { lost_at, .. } => {
                self.asked.insert((lost_at, host.clone()));
            }
            FlagQuestion::Over(_) => self.news.push(host.clone()),
        }
        self.all.insert(host.clone(), question);
    }

    pub(crate) fn forget(&mut self, host: &HostId) {
        match self.all.remove(host) {
            Some(FlagQuestion::Due { at, .. }) => {
                self.due.remove(&(at, host.clone()));
            }
            Some(FlagQuestion::Asked { lost_at, .. }) => {
                self.asked.remove(&(lost_at, host.clone()));
            }
            Some(FlagQuestion::Over(_)) | None => {}
        }
    }

    pub(crate) fn retain(&mut self, is_kept: impl Fn(&HostId) -> bool) {
        let others: Vec<HostId> = self.all.keys().filter(|host| !is_kept(host)).cloned().collect();
        others.iter().for_each(|host| self.forget(host));
    }

    /// An agent has told its flags.
    pub(crate) fn answered(&mut self, host: &HostId, times: AgentTimes) {
        if matches!(self.all.get(host), Some(FlagQuestion::Asked { .. })) {
            self.set(host, FlagQuestion::Over(times));
        }
    }

    /// A question was not answered, or not with flags.
    pub(crate) fn failed(&mut self, host: &HostId, now: Timestamp) {
        let Some(FlagQuestion::Asked { failures, .. }) = self.all.get(host).copied() else {
            return;
        };
        let next = if failures + 1 < TRIES {
            FlagQuestion::Due {
                at: now.plus(Span(FIRST_RETRY.0 << failures)),
                failures: failures + 1,
            }
        } else {
            FlagQuestion::Over(AgentTimes::UNKNOWN)
        };
        self.set(host, next);
    }

    pub(crate) fn take_news(&mut self) -> Vec<HostId> {
        std::mem::take(&mut self.news)
    }

    /// Questions without an answer for long count as failed.
    fn give_up_lost(&mut self, now: Timestamp) {
        while let Some((_, host)) = self.asked.first().filter(|(at, _)| *at <= now).cloned() {
            self.failed(&host, now);
        }
    }

    /// The next agent to ask, which counts as asked from now on.
    fn next(&mut self, now: Timestamp) -> Option<HostId> {
        if self.asked.len() >= MOST_ASKED {
            return None;
        }
        let (_, host) = self.due.first().filter(|(at, _)| *at <= now)?.clone();
        let Some(FlagQuestion::Due { failures, .. }) = self.all.get(&host).copied() else {
            return None;
        };
        let lost_at = now.plus(LOST);
        self.set(&host, FlagQuestion::Asked { lost_at, failures });
        Some(host)
    }
}

impl Hosts {
    /// What the flags say at the address of an agent that was replaced; they are asked for where they are
    /// not known. `None`: no answer has come yet.
    pub fn times_of_replaced(&mut self, host: &HostId) -> Option<AgentTimes> {
        match self.flags.all.get(host) {
            Some(FlagQuestion::Over(times)) => Some(*times),
            Some(_) => None,
            None => {
                if self.is_replaced(host) {
                    let (at, failures) = (Timestamp::default(), 0);
                    self.flags.set(host, FlagQuestion::Due { at, failures });
                }
                None
            }
        }
    }

    /// Whether flags are asked for, and an answer may still come.
    #[must_use]
    pub fn awaits_flags(&self, host: &HostId) -> bool {
        let question = self.flags.all.get(host);
        question.is_some_and(|question| !matches!(question, FlagQuestion::Over(_)))
    }

    /// The questions for flags that are due.
    pub fn read_flags(&mut self, now: Timestamp) -> Vec<Call> {
        let mut calls = Vec::new();
        if self.appetite.is_none() {
            return calls;
        }
        self.flags.give_up_lost(now);
        while let Some(host) = self.flags.next(now) {
            match self.records.get(&host).map(|record| record.place().1) {
                Some(address) if !address.is_empty() => calls.push(Call::ReadFlags {
                    address: address.to_owned(),
                    host,
                }),
                _ => self.flags.set(&host, FlagQuestion::Over(AgentTimes::UNKNOWN)),
            }
        }
        calls
    }

    /// When the next of them is due.
    #[must_use]
    pub fn next_flags(&self) -> Option<Timestamp> {
        self.appetite?;
        let has_room = self.flags.asked.len() < MOST_ASKED;
        let due = self.flags.due.first().filter(|_| has_room);
        due.into_iter()
            .chain(self.flags.asked.first())
            .map(|(at, _)| *at)
            .min()
    }
}
