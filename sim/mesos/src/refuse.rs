//! DECLINE, SUPPRESS and REVIVE: what a framework does not want, and for how long (rules R42 to R44, R64 to R66).

use crate::bundle::Bundle;
use crate::cluster::Cluster;
use crate::framework::Filter;
use crate::framework_info::check_role;
use crate::id::{AgentId, FrameworkId};
use crate::subscribe::timeout;
use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::Filters;
use echelon_proto::mesos::v1::scheduler::call;

/// The longest refusal, 365 days.
const MAX_REFUSAL: Span = Span::seconds(31_536_000);

impl Cluster {
    pub(crate) fn decline(&mut self, framework: &FrameworkId, decline: &call::Decline, now: Timestamp) {
        let refusal = refusal(decline.filters.as_ref());
        for id in &decline.offer_ids {
            let number = self
                .offer_number(&id.value)
                .filter(|number| self.is_offered_to(*number, framework));
            if let Some(offer) = number.and_then(|number| self.end_offer(number)) {
                self.refuse(
                    framework,
                    (&offer.role, &offer.agent),
                    offer.resources,
                    (refusal, now),
                );
            }
        }
        self.want_allocation(now);
    }

    pub(crate) fn is_offered_to(&self, number: u64, framework: &FrameworkId) -> bool {
        self.master
            .offers
            .get(&number)
            .is_some_and(|offer| offer.framework == *framework)
    }

    /// Notes that a framework does not want these resources of an agent for a time.
    pub(crate) fn refuse(
        &mut self,
        framework: &FrameworkId,
        (role, agent): (&str, &AgentId),
        refused: Bundle,
        (refusal, now): (Option<Span>, Timestamp),
    ) {
        let Some(refusal) = refusal else { return };
        let Some(framework) = self.master.frameworks.get_mut(framework) else {
            return;
        };
        // A filter outlives the next batch, else it would be of no effect.
        let until = now.plus(refusal.max(self.config.allocation_interval));
        if !refused.is_empty() {
            framework
                .filters
                .entry((role.to_owned(), agent.clone()))
                .or_default()
                .push(Filter { refused, until });
        }
    }

    pub(crate) fn suppress(&mut self, id: &FrameworkId, roles: &[String]) {
        let Some(roles) = self.own_roles(id, roles) else {
            return;
        };
        if let Some(framework) = self.master.frameworks.get_mut(id) {
            framework.suppressed.extend(roles);
        }
    }

    pub(crate) fn revive(&mut self, id: &FrameworkId, roles: &[String], now: Timestamp) {
        let Some(roles) = self.own_roles(id, roles) else {
            return;
        };
        if let Some(framework) = self.master.frameworks.get_mut(id) {
            framework.suppressed.retain(|role| !roles.contains(role));
            framework.clear_filters(&roles);
        }
        self.allocate(now);
    }

    /// The roles that a call means: those it names, or all. One bad or foreign role drops the call (rule R43).
    fn own_roles(&self, id: &FrameworkId, named: &[String]) -> Option<Vec<String>> {
        let own = self.master.frameworks.get(id)?.roles();
        if named.is_empty() {
            return Some(own);
        }
        let good = named
            .iter()
            .all(|role| check_role(role).is_ok() && own.contains(role));
        good.then(|| named.to_vec())
    }
}

/// How long refused resources stay away; `None` is not at all (rule R65).
pub(crate) fn refusal(filters: Option<&Filters>) -> Option<Span> {
    let default = Filters::default().refuse_seconds();
    let asked = filters.map_or(default, Filters::refuse_seconds);
    let seconds = if asked >= 0.0 { asked } else { default };
    let span = timeout(seconds).min(MAX_REFUSAL);
    (span > Span::ZERO).then_some(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_follow_the_rule() {
        let of = |seconds: f64| {
            refusal(Some(&Filters {
                refuse_seconds: Some(seconds),
            }))
        };
        assert_eq!(refusal(None), Some(Span::seconds(5)));
        assert_eq!(refusal(Some(&Filters::default())), Some(Span::seconds(5)));
        assert_eq!(of(0.0), None);
        assert_eq!(of(0.5), Some(Span::millis(500)));
        assert_eq!(of(-1.0), Some(Span::seconds(5)));
        assert_eq!(of(f64::NAN), Some(Span::seconds(5)));
        assert_eq!(of(1e300), Some(MAX_REFUSAL));
    }
}
