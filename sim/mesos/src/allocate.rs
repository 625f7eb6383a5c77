//! Who is offered what: in batches and at once after some events, agent by agent, to the role and framework with the
//! smallest dominant share; what a filter hides is offered to the next (rules R65, R66, R69; S9, S10).

use crate::bundle::Bundle;
use crate::cluster::Cluster;
use crate::id::{AgentId, FrameworkId};
use crate::offer::Offer;
use crate::timers::Timer;
use echelon_core_model::time::Timestamp;
use echelon_proto::mesos::v1;
use echelon_proto::mesos::v1::framework_info::capability;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A role that a framework wants offers for, with its part of the cluster in billionths.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    role_share: u128,
    role: Arc<str>,
    framework_share: u128,
    framework: FrameworkId,
}

impl Cluster {
    /// Has offers made at the next batch.
    pub(crate) fn want_allocation(&mut self, now: Timestamp) {
        self.allocate_at(self.batch_after(Timestamp(now.0.saturating_add(1))));
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

    /// Offers everything that is free and wanted. O(agents * claims).
    pub(crate) fn allocate(&mut self, now: Timestamp) {
        let mut made: BTreeMap<FrameworkId, Vec<v1::Offer>> = BTreeMap::new();
        let mut look_again: Option<Timestamp> = None;
        let total = self.total();
        for agent in self.offerable_agents() {
            let Some(free) = self.master.members.get(&agent).map(|member| member.free.clone()) else {
                continue;
            };
            for claim in self.claims(&total) {
                match self.may_offer(&claim, &agent, &free, now) {
                    Ok(false) => {}
                    Err(until) => look_again = Some(look_again.map_or(until, |at| at.min(until))),
                    Ok(true) => {
                        let Claim { framework, role, .. } = claim;
                        let offer = Offer {
                            framework: framework.clone(),
                            agent,
                            role,
                            resources: free,
                        };
                        made.entry(framework).or_default().extend(self.make_offer(offer));
                        break;
                    }
                }
            }
        }
        for (framework, offers) in made {
            self.send_offers(&framework, offers);
        }
        if let Some(until) = look_again {
            self.allocate_at(self.batch_after(until));
        }
    }

    /// Whether this role of this framework may have the agent; `Err` says until when a filter hides it.
    fn may_offer(
        &mut self,
        claim: &Claim,
        agent: &AgentId,
        free: &Bundle,
        now: Timestamp,
    ) -> Result<bool, Timestamp> {
        let has_gpus = self
            .agents
            .get(agent)
            .is_some_and(|agent| agent.spec.resources.gpus > 0);
        let Some(framework) = self.master.frameworks.get_mut(&claim.framework) else {
            return Ok(false);
        };
        if has_gpus && !framework.can(capability::Type::GpuResources) {
            return Ok(false);
        }
        match framework.filtered_until(&claim.role, agent, free, now) {
            Some(until) => Err(until),
            None => Ok(true),
        }
    }

    /// The roles that want offers, the poorest first.
    fn claims(&self, total: &Bundle) -> Vec<Claim> {
        let mut by_role: BTreeMap<&str, Bundle> = BTreeMap::new();
        for framework in self.master.frameworks.values() {
            for (role, amount) in &framework.allocated {
                by_role.entry(role).or_default().add(amount);
            }
        }
        let mut claims = Vec::new();
        for framework in self
            .master
            .frameworks
            .values()
            .filter(|framework| framework.stream.is_some())
        {
            for role in framework
                .roles()
                .into_iter()
                .filter(|role| !framework.suppressed.contains(role))
            {
                let own = framework.allocated.get(&role);
                claims.push(Claim {
                    role_share: by_role
                        .get(role.as_str())
                        .map_or(0, |amount| share(amount, total)),
                    framework_share: own.map_or(0, |amount| share(amount, total)),
                    role: Arc::from(role),
                    framework: framework.id.clone(),
                });
            }
        }
        claims.sort();
        claims
    }

    fn total(&self) -> Bundle {
        let registered = self
            .master
            .members
            .iter()
            .filter(|(_, member)| member.contact.is_registered());
        let mut total = Bundle::default();
        for spec in registered
            .filter_map(|(agent, _)| self.agents.get(agent))
            .map(|agent| &agent.spec)
        {
            let scalars = Bundle {
                ports: Vec::new(),
                ..spec.resources
            };
            total.add(&scalars);
        }
        total
    }
}

/// The largest part of any kind, in billionths.
fn share(amount: &Bundle, total: &Bundle) -> u128 {
    let parts = amount.scalars().into_iter().zip(total.scalars());
    parts
        .filter_map(|((_, part), (_, whole))| {
            (u128::from(part) * 1_000_000_000).checked_div(u128::from(whole))
        })
        .max()
        .unwrap_or_default()
}
