//! Hosts that are to be left, by planned maintenance or at an operator's wish (`drains.rs`): which they are, since when, and what is
//! answered to Mesos about maintenance (rules R53, R54, R129). What of our work leaves, and in what order, is its caller's to decide.

use crate::call::Call;
use crate::event::{InverseOffer, OfferId};
use crate::hosts::Hosts;
use crate::ledger::{Most, TaskPage};
use echelon_core_model::cluster::Maintenance;
use echelon_core_model::{HostId, TaskId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// What is to leave a host by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Drain {
    /// Services; batch instances may still end by themselves.
    Services,
    /// Everything but daemons, which serve the others.
    Others,
    /// Everything.
    All,
}

impl Hosts {
    /// The hosts that are to be left. Nothing is placed there.
    #[must_use]
    pub fn draining(&self, now: Timestamp) -> BTreeMap<HostId, Drain> {
        let moving = self.pools.moving().map(|(host, _)| host);
        let named = self.planned.keys().chain(self.drains.hosts()).chain(moving);
        named
            .filter_map(|host| Some((host.clone(), self.drain_of(host, now)?)))
            .collect()
    }

    /// What is to leave a host, by its planned maintenance or at an operator's wish.
    pub(crate) fn drain_of(&self, host: &HostId, now: Timestamp) -> Option<Drain> {
        let planned = self.planned.get(host).and_then(|m| self.drain(*m, now));
        planned
            .max(self.drains.of(host, now))
            .max(self.pools.drain(host, now))
    }

    /// Our tasks on some hosts. `O(tasks)`.
    #[must_use]
    pub fn tasks_on(&self, hosts: &BTreeSet<HostId>) -> Vec<TaskId> {
        self.ledger.tasks_on(hosts)
    }

    /// A part of the list of our tasks on some hosts.
    #[must_use]
    pub fn tasks_from(&self, hosts: &BTreeSet<HostId>, from: Option<&TaskId>, most: Most) -> TaskPage {
        self.ledger.tasks_from(hosts, from, most)
    }

    pub(crate) fn drain(&self, m: Maintenance, now: Timestamp) -> Option<Drain> {
        if m.until.is_some_and(|until| until <= now) {
            None
        } else if now.plus(self.config.last_call) >= m.from {
            Some(Drain::All)
        } else if now.plus(self.config.lead) >= m.from {
            Some(Drain::Services)
        } else {
            None
        }
    }

    /// Notes what is planned for a host; an offer that says nothing of it says that nothing is.
    pub(crate) fn plan(&mut self, host: &HostId, maintenance: Option<Maintenance>) {
        let before = match maintenance {
            Some(m) => self.planned.insert(host.clone(), m),
            None => self.planned.remove(host),
        };
        if before != maintenance {
            self.note(host.clone());
        }
    }

    /// The same by what comes beside lists of all agents.
    pub(crate) fn plan_now(&mut self, host: &HostId, maintenance: Option<Maintenance>) {
        self.listing.planned(host);
        self.plan(host, maintenance);
    }

    pub(crate) fn on_inverse_offer(&mut self, asked: &InverseOffer, now: Timestamp) {
        if self.appetite.is_none() || !self.takes(&asked.host) {
            return;
        }
        self.record(&asked.host, now);
        self.plan_now(&asked.host, Some(asked.maintenance));
        self.asked.insert(asked.id.clone(), asked.host.clone());
    }

    /// The plan has changed: what is planned now comes with the next offers.
    pub(crate) fn on_rescind_inverse(&mut self, offer: &OfferId) {
        if let Some(host) = self.asked.remove(offer) {
            self.plan_now(&host, None);
        }
    }

    /// Yes when nothing of ours is left on a host, no when its maintenance begins all the same; until then the question stays open.
    pub(crate) fn answer_inverse(&mut self, now: Timestamp) -> Vec<Call> {
        let answers: Vec<(OfferId, HostId, bool)> = self
            .asked
            .iter()
            .filter_map(|(id, host)| Some((id.clone(), host.clone(), self.answer(host, now)?)))
            .collect();
        let answer = |(id, host, accept)| {
            self.asked.remove(&id);
            Call::AnswerInverse {
                offers: vec![id],
                host,
                accept,
                refuse: self.config.ask_again,
            }
        };
        answers.into_iter().map(answer).collect()
    }

    fn answer(&self, host: &HostId, now: Timestamp) -> Option<bool> {
        let m = self.planned.get(host)?;
        if self.is_empty(host) && self.drain(*m, now).is_some() {
            Some(true)
        } else {
            (m.from <= now).then_some(false)
        }
    }

    /// When a host begins or ceases to be left, or an answer is due.
    pub(crate) fn maintenance_wake(&self, now: Timestamp) -> Option<Timestamp> {
        if self.asked.values().any(|host| self.answer(host, now).is_some()) {
            return Some(now);
        }
        let before =
            |m: &Maintenance, span: echelon_core_model::Span| Timestamp(m.from.0.saturating_sub(span.0));
        let moments = self.planned.values().flat_map(|m| {
            let begins = [
                before(m, self.config.lead),
                before(m, self.config.last_call),
                m.from,
            ];
            begins.into_iter().chain(m.until)
        });
        let planned = moments.filter(|at| *at > now).min();
        planned
            .into_iter()
            .chain(self.drains.wake(now))
            .chain(self.pools.wake(now))
            .min()
    }
}
