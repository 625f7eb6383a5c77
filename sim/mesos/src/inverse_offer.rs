//! Inverse offers: frameworks that use an agent with planned maintenance, or hold offers of it, are asked to leave; what
//! they answer is for the operator to read only (rules R53, R54, R129, S23).

use crate::cluster::Cluster;
use crate::event;
use crate::id::{AgentId, FrameworkId};
use crate::offer::agent_url;
use crate::refuse::refusal;
use echelon_core_model::time::Timestamp;
use echelon_proto::mesos::v1::master::inverse_offer_status;
use echelon_proto::mesos::v1::{self, Filters, OfferId};
use std::collections::{BTreeMap, BTreeSet};

/// An open inverse offer.
#[derive(Debug, Clone)]
pub(crate) struct InverseOffer {
    pub framework: FrameworkId,
    pub agent: AgentId,
}

/// A framework's last answer about an agent; it is asked again when its filter ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InverseAnswer {
    pub answer: inverse_offer_status::Status,
    pub at: Timestamp,
    pub until: Option<Timestamp>,
}

impl Cluster {
    /// Asks whoever is to be asked and is not yet.
    pub(crate) fn allocate_inverse(&mut self, now: Timestamp) {
        let mut made: BTreeMap<FrameworkId, Vec<v1::InverseOffer>> = BTreeMap::new();
        for agent in self.agents_in_maintenance() {
            for framework in self.users(&agent) {
                if self.may_ask(&agent, &framework, now) {
                    let asked = InverseOffer {
                        framework: framework.clone(),
                        agent: agent.clone(),
                    };
                    made.entry(framework).or_default().extend(self.ask(asked, now));
                }
            }
        }
        for (framework, asked) in made.into_iter().filter(|(_, asked)| !asked.is_empty()) {
            self.send(&framework, event::inverse_offers(asked));
        }
    }

    fn agents_in_maintenance(&self) -> Vec<AgentId> {
        if self.master.decrees.maintenance.is_empty() {
            return Vec::new();
        }
        let registered = self
            .master
            .members
            .iter()
            .filter(|(_, member)| member.contact.is_registered());
        let known = registered.filter_map(|(id, _)| Some((id, self.agents.get(id)?)));
        known
            .filter(|(_, agent)| self.unavailability(&agent.spec).is_some())
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// The frameworks that have tasks or offers on an agent.
    fn users(&self, agent: &AgentId) -> BTreeSet<FrameworkId> {
        let Some(member) = self.master.members.get(agent) else {
            return BTreeSet::new();
        };
        let with_tasks = member.tasks.iter().map(|(framework, _)| framework.clone());
        let offers = member
            .offers
            .iter()
            .filter_map(|number| self.master.offers.get(number));
        with_tasks
            .chain(offers.map(|offer| offer.framework.clone()))
            .collect()
    }

    fn may_ask(&self, agent: &AgentId, framework: &FrameworkId, now: Timestamp) -> bool {
        let Some(member) = self.master.members.get(agent) else {
            return false;
        };
        let known = self.master.frameworks.get(framework);
        let open = member
            .inverse_offers
            .iter()
            .filter_map(|number| self.master.inverse_offers.get(number));
        let filtered = member
            .answers
            .get(framework)
            .and_then(|answer| answer.until)
            .is_some_and(|until| until > now);
        known.is_some_and(|known| known.stream.is_some())
            && !filtered
            && !{ open }.any(|open| open.framework == *framework)
    }

    fn ask(&mut self, asked: InverseOffer, now: Timestamp) -> Option<v1::InverseOffer> {
        let number = self.master.n_offers;
        let spec = &self.agents.get(&asked.agent)?.spec;
        let message = v1::InverseOffer {
            id: OfferId {
                value: self.offer_text(number),
            },
            url: Some(agent_url(spec)),
            framework_id: asked.framework.proto(),
            agent_id: Some(asked.agent.proto()),
            unavailability: self.unavailability(spec)?,
            resources: Vec::new(),
        };
        self.master
            .members
            .get_mut(&asked.agent)?
            .inverse_offers
            .insert(number);
        self.master.n_offers += 1;
        self.master.inverse_offers.insert(number, asked);
        self.limit_offer(number, now);
        Some(message)
    }

    /// ACCEPT_INVERSE_OFFERS and DECLINE_INVERSE_OFFERS; ids that are not open are ignored.
    pub(crate) fn answer_inverse_offers(
        &mut self,
        framework: &FrameworkId,
        ids: &[OfferId],
        (answer, filters): (inverse_offer_status::Status, Option<&Filters>),
        now: Timestamp,
    ) {
        let until = refusal(filters).map(|refusal| now.plus(refusal));
        for id in ids {
            let number = self.number_of(&id.value);
            let open = number.filter(|number| {
                let open = self.master.inverse_offers.get(number);
                open.is_some_and(|open| open.framework == *framework)
            });
            let Some(asked) = open.and_then(|number| self.end_inverse(number)) else {
                continue;
            };
            if let Some(member) = self.master.members.get_mut(&asked.agent) {
                let answer = InverseAnswer {
                    answer,
                    at: now,
                    until,
                };
                member.answers.insert(framework.clone(), answer);
            }
            self.look_again(until.unwrap_or(now));
        }
    }

    fn end_inverse(&mut self, number: u64) -> Option<InverseOffer> {
        let asked = self.master.inverse_offers.remove(&number)?;
        if let Some(member) = self.master.members.get_mut(&asked.agent) {
            member.inverse_offers.remove(&number);
        }
        Some(asked)
    }

    pub(crate) fn rescind_inverse(&mut self, number: u64) {
        let text = self.offer_text(number);
        if let Some(asked) = self.end_inverse(number) {
            self.send(&asked.framework, event::rescind_inverse(text));
        }
    }

    /// Ends all inverse offers of an agent with RESCIND_INVERSE_OFFER.
    pub(crate) fn rescind_inverse_of(&mut self, agent: &AgentId) {
        let member = self.master.members.get(agent);
        for number in member
            .map(|member| member.inverse_offers.clone())
            .unwrap_or_default()
        {
            self.rescind_inverse(number);
        }
    }

    /// Ends all inverse offers of a framework without a word (rule R28).
    pub(crate) fn take_back_inverse_offers(&mut self, framework: &FrameworkId) {
        let open = self.master.inverse_offers.iter();
        let own: Vec<u64> = open
            .filter(|(_, asked)| asked.framework == *framework)
            .map(|(number, _)| *number)
            .collect();
        for number in own {
            self.end_inverse(number);
        }
    }
}
