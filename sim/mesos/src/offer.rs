//! Offers: making them, taking them back, and where their resources go (rules R59 to R63).

use crate::bundle::Bundle;
use crate::cluster::Cluster;
use crate::config::AgentSpec;
use crate::event;
use crate::id::{AgentId, FrameworkId};
use crate::output::Output;
use crate::resource::unrefined;
use crate::timers::Timer;
use echelon_core_model::time::Timestamp;
use echelon_proto::mesos::v1;
use echelon_proto::mesos::v1::framework_info::capability;
use std::sync::Arc;

/// Resources of one agent, held for one framework and role.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    pub framework: FrameworkId,
    pub agent: AgentId,
    pub role: Arc<str>,
    pub resources: Bundle,
}

impl Cluster {
    pub(crate) fn offer_text(&self, number: u64) -> String {
        format!("{}-O{number}", self.master.id)
    }

    /// The number of an offer or inverse offer of this master.
    pub(crate) fn number_of(&self, text: &str) -> Option<u64> {
        text.strip_prefix(&self.master.id)?
            .strip_prefix("-O")?
            .parse()
            .ok()
    }

    /// The open offer that a text names.
    pub(crate) fn offer_number(&self, text: &str) -> Option<u64> {
        let number = self.number_of(text)?;
        self.master.offers.contains_key(&number).then_some(number)
    }

    /// Takes resources from an agent into a new offer.
    pub(crate) fn make_offer(&mut self, offer: Offer, now: Timestamp) -> Option<v1::Offer> {
        let number = self.master.n_offers;
        let member = self.master.members.get_mut(&offer.agent)?;
        let framework = self.master.frameworks.get_mut(&offer.framework)?;
        member.free.subtract(&offer.resources);
        member.offers.insert(number);
        framework.offers.insert(number);
        framework.charge(&offer.role, &offer.resources);
        let message = self.offer_message(number, &offer)?;
        self.master.n_offers += 1;
        self.master.offers.insert(number, offer);
        self.limit_offer(number, now);
        Some(message)
    }

    /// An offer that nobody answers ends by itself, where the master is told so (rule R62).
    pub(crate) fn limit_offer(&mut self, number: u64, now: Timestamp) {
        if let Some(timeout) = self.config.offer_timeout {
            self.timers.set(now.plus(timeout), Timer::OfferTimeout(number));
        }
    }

    pub(crate) fn offer_timed_out(&mut self, number: u64, now: Timestamp) {
        self.rescind(number);
        self.rescind_inverse(number);
        self.want_allocation(now);
    }

    fn offer_message(&self, number: u64, offer: &Offer) -> Option<v1::Offer> {
        let spec = &self.agents.get(&offer.agent)?.spec;
        let allocation = self
            .knows_roles(&offer.framework)
            .then(|| v1::resource::AllocationInfo {
                role: Some(offer.role.to_string()),
            });
        Some(v1::Offer {
            id: v1::OfferId {
                value: self.offer_text(number),
            },
            framework_id: offer.framework.proto(),
            agent_id: offer.agent.proto(),
            hostname: spec.hostname.clone(),
            url: Some(agent_url(spec)),
            resources: self.resources_for(offer),
            attributes: spec.attributes.clone(),
            executor_ids: self.executors_on(offer),
            allocation_info: allocation,
            unavailability: self.unavailability(spec),
            ..Default::default()
        })
    }

    /// A framework without MULTI_ROLE has one role, and is not told to which role something is allocated.
    fn knows_roles(&self, framework: &FrameworkId) -> bool {
        let framework = self.master.frameworks.get(framework);
        framework.is_none_or(|framework| framework.can(capability::Type::MultiRole))
    }

    /// The framework's own executors that its tasks can share (rule R60).
    fn executors_on(&self, offer: &Offer) -> Vec<v1::ExecutorId> {
        let member = self.master.members.get(&offer.agent);
        let known = member.into_iter().flat_map(|member| member.executors.keys());
        let own = known.filter(|(framework, _)| *framework == offer.framework);
        own.map(|(_, executor)| executor.proto()).collect()
    }

    /// Frameworks without RESERVATION_REFINEMENT see the older form, with a role of its own (rule R7).
    fn resources_for(&self, offer: &Offer) -> Vec<v1::Resource> {
        let role = self.knows_roles(&offer.framework).then_some(&*offer.role);
        let mut resources = offer.resources.write(role);
        let refined = capability::Type::ReservationRefinement;
        let framework = self.master.frameworks.get(&offer.framework);
        if framework.is_some_and(|framework| !framework.can(refined)) {
            resources.iter_mut().for_each(unrefined);
        }
        resources
    }

    /// Ends an offer; its resources are free again.
    pub(crate) fn end_offer(&mut self, number: u64) -> Option<Offer> {
        let offer = self.master.offers.remove(&number)?;
        if let Some(member) = self.master.members.get_mut(&offer.agent) {
            member.offers.remove(&number);
            member.free.add(&offer.resources);
        }
        if let Some(framework) = self.master.frameworks.get_mut(&offer.framework) {
            framework.offers.remove(&number);
            framework.discharge(&offer.role, &offer.resources);
        }
        Some(offer)
    }

    /// Ends all offers of a framework without a word (rule R28).
    pub(crate) fn take_back_offers(&mut self, framework: &FrameworkId) {
        let numbers = self
            .master
            .frameworks
            .get(framework)
            .map(|f| f.offers.clone())
            .unwrap_or_default();
        for number in numbers {
            self.end_offer(number);
        }
        self.take_back_inverse_offers(framework);
    }

    /// Ends all offers of an agent with RESCIND (rule R63).
    pub(crate) fn rescind_agent(&mut self, agent: &AgentId) {
        let numbers = self
            .master
            .members
            .get(agent)
            .map(|member| member.offers.clone())
            .unwrap_or_default();
        for number in numbers {
            self.rescind(number);
        }
    }

    /// Ends a framework's offers of some roles with RESCIND (rule R58).
    pub(crate) fn rescind_roles(&mut self, framework: &FrameworkId, roles: &[String]) {
        let offers = self
            .master
            .frameworks
            .get(framework)
            .map(|f| f.offers.clone())
            .unwrap_or_default();
        for number in offers {
            let role = self
                .master
                .offers
                .get(&number)
                .map(|offer| offer.role.to_string());
            if role.is_some_and(|role| roles.contains(&role)) {
                self.rescind(number);
            }
        }
    }

    pub(crate) fn rescind(&mut self, number: u64) {
        let text = self.offer_text(number);
        if let Some(offer) = self.end_offer(number) {
            self.send(&offer.framework, event::rescind(text));
        }
    }

    /// Sends one OFFERS with all offers that one allocation made for a framework.
    pub(crate) fn send_offers(&mut self, framework: &FrameworkId, offers: Vec<v1::Offer>) {
        if !offers.is_empty() {
            self.send(framework, event::offers(offers));
        }
    }

    /// Agents whose resources may be offered, with something left.
    pub(crate) fn offerable_agents(&self) -> Vec<AgentId> {
        self.master
            .members
            .iter()
            .filter(|(_, member)| member.is_offerable() && member.free.is_allocatable())
            .map(|(agent, _)| agent.clone())
            .collect()
    }

    pub(crate) fn is_offerable(&self, agent: &AgentId) -> bool {
        self.master
            .members
            .get(agent)
            .is_some_and(|member| member.is_offerable() && member.free.is_allocatable())
    }

    /// How many outputs wait to be drained; a reader that never drains lets them grow (rule H3).
    #[must_use]
    pub fn n_waiting(&self) -> usize {
        self.out
            .iter()
            .filter(|output| matches!(output, Output::Event { .. }))
            .count()
    }
}

/// Where an agent answers, as offers and inverse offers say it.
pub(crate) fn agent_url(spec: &AgentSpec) -> v1::Url {
    v1::Url {
        scheme: "http".to_owned(),
        address: v1::Address {
            hostname: Some(spec.hostname.clone()),
            ip: Some(spec.ip.clone()),
            port: i32::from(spec.port),
        },
        path: Some("/slave(1)".to_owned()),
        ..Default::default()
    }
}
