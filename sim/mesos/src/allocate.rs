//! Who is offered what: in batches and at once after some events, agent by agent, to the role and framework with the
//! smallest dominant share. Of an agent a role gets what is free, not reserved for others, and left by its quotas; what a
//! filter hides is offered to the next (rules R65, R66, R69, R132, R133; S9, S10).

use crate::bundle::{Bundle, Mark};
use crate::cluster::Cluster;
use crate::framework::Framework;
use crate::id::{AgentId, FrameworkId};
use crate::offer::Offer;
use crate::quota::is_within;
use crate::share::Claim;
use crate::timers::Timer;
use echelon_core_model::time::Timestamp;
use echelon_proto::mesos::v1;
use echelon_proto::mesos::v1::framework_info::capability;
use std::collections::BTreeMap;

/// Whether a role of a framework is offered an agent.
enum Verdict {
    Offered(Bundle),
    /// A filter hides it until then.
    Hidden(Timestamp),
    Nothing,
}

impl Cluster {
    /// Has offers made at the next batch.
    pub(crate) fn want_allocation(&mut self, now: Timestamp) {
        self.look_again(Timestamp(now.0.saturating_add(1)));
    }

    /// Has offers made at the first batch at or after a moment.
    pub(crate) fn look_again(&mut self, at: Timestamp) {
        self.allocate_at(self.batch_after(at));
    }

    fn allocate_at(&mut self, at: Timestamp) {
        match self.master.allocation_at {
            Some(earlier) if earlier <= at => {}
            later => {
                if let Some(later) = later {
                    self.timers.cancel(later, Timer::Allocation);
                }
                self.master.allocation_at = Some(at);
                self.timers.set(at, Timer::Allocation);
            }
        }
    }

    /// The first batch at or after a moment; batches are counted from the master's start.
    fn batch_after(&self, at: Timestamp) -> Timestamp {
        let interval = self.config.allocation_interval.0.max(1);
        let passed = at.since(self.master.started).0;
        let batches = passed.div_ceil(interval);
        Timestamp(
            self.master
                .started
                .0
                .saturating_add(batches.saturating_mul(interval)),
        )
    }

    pub(crate) fn allocation_due(&mut self, now: Timestamp) {
        if self.master.allocation_at.is_some_and(|at| at <= now) {
            self.master.allocation_at = None;
            self.allocate(now);
        }
    }

    /// Offers everything that is free and wanted, then asks back what is planned to go. O(agents * claims).
    pub(crate) fn allocate(&mut self, now: Timestamp) {
        self.allocate_on(&self.offerable_agents(), now);
    }

    /// Offers what one agent has: it has just registered, the others wait for the next batch.
    pub(crate) fn allocate_agent(&mut self, agent: &AgentId, now: Timestamp) {
        if self.is_offerable(agent) {
            self.allocate_on(std::slice::from_ref(agent), now);
        }
    }

    /// Offers what is free and wanted of some agents.
    pub(crate) fn allocate_on(&mut self, agents: &[AgentId], now: Timestamp) {
        let mut made: BTreeMap<FrameworkId, Vec<v1::Offer>> = BTreeMap::new();
        let mut hidden_until: Option<Timestamp> = None;
        if self.master.streams.is_empty() || agents.is_empty() {
            return self.allocate_inverse(now);
        }
        let mut shares = self.shares();
        for agent in agents {
            self.settle_revocable(agent);
            let mut given = Vec::new();
            for (claim_idx, claim) in shares.claims.iter().enumerate() {
                match self.judge_claim(claim, agent, now) {
                    Verdict::Nothing => {}
                    Verdict::Hidden(until) => {
                        hidden_until = Some(hidden_until.map_or(until, |at| at.min(until)));
                    }
                    Verdict::Offered(resources) => {
                        given.push((claim_idx, resources.exclusive_scalars().sum()));
                        let framework = claim.framework.clone();
                        let offer = Offer {
                            framework: framework.clone(),
                            agent: agent.clone(),
                            role: claim.role.clone(),
                            resources,
                        };
                        made.entry(framework)
                            .or_default()
                            .extend(self.make_offer(offer, now));
                    }
                }
            }
            if !given.is_empty() {
                shares.give(&given);
            }
        }
        for (framework, offers) in made {
            self.send_offers(&framework, offers);
        }
        if let Some(until) = hidden_until {
            self.look_again(until);
        }
        self.allocate_inverse(now);
    }

    fn judge_claim(&mut self, claim: &Claim, agent: &AgentId, now: Timestamp) -> Verdict {
        let Some(member) = self
            .master
            .members
            .get(agent)
            .filter(|member| member.is_offerable() && member.free.is_allocatable())
        else {
            return Verdict::Nothing;
        };
        let Some(framework) = self.master.frameworks.get(&claim.framework) else {
            return Verdict::Nothing;
        };
        let has_gpus = self
            .agents
            .get(agent)
            .is_some_and(|agent| agent.spec.resources.plain.gpus > 0);
        if has_gpus && !framework.can(capability::Type::GpuResources) {
            return Verdict::Nothing;
        }
        let mut part = member.free.only(|mark| may_have(framework, &claim.role, mark));
        self.chop(&claim.role, &mut part);
        if !part.is_allocatable() {
            return Verdict::Nothing;
        }
        let framework = self.master.frameworks.get_mut(&claim.framework);
        match framework.and_then(|framework| framework.filtered_until(&claim.role, agent, &part, now)) {
            Some(until) => Verdict::Hidden(until),
            None => Verdict::Offered(part),
        }
    }
}

/// Whether resources with a mark may be offered to a role of a framework: nobody else's reservation, and nothing that the
/// framework would not understand (rule R35).
fn may_have(framework: &Framework, role: &str, mark: &Mark) -> bool {
    mark.reserved_for()
        .is_none_or(|reserved| is_within(role, reserved))
        && (!mark.revocable || framework.can(capability::Type::RevocableResources))
        && (!mark.shared || framework.can(capability::Type::SharedResources))
        && (mark.reservations.len() <= 1 || framework.can(capability::Type::ReservationRefinement))
}
