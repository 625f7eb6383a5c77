//! Quota limits: how much of each kind the frameworks of a role, and of the roles below it, may be offered (rules R132,
//! R133). Reserved resources count whether or not anybody uses them; revocable ones never do.

use crate::amount::{Amount, to_thousandths};
use crate::bundle::{Bundle, Mark};
use crate::cluster::Cluster;
use crate::framework_info::check_role;
use echelon_core_model::time::Timestamp;
use std::collections::BTreeMap;

/// The limits of roles that have any, in thousandths by the name of a scalar kind.
pub(crate) type Quotas = BTreeMap<String, BTreeMap<String, u64>>;

impl Cluster {
    /// An operator sets the limits of a role, in CPUs, MiB and GPUs; none lifts them. False when the role may have no
    /// quota, or a kind no limit.
    pub fn set_quota(&mut self, role: &str, limits: &BTreeMap<String, f64>, now: Timestamp) -> bool {
        let known = |name: &String| Amount::default().scalar_mut(name).is_some();
        if role == "*" || check_role(role).is_err() || !limits.keys().all(known) {
            return false;
        }
        let limits: BTreeMap<String, u64> = limits
            .iter()
            .map(|(name, limit)| (name.clone(), to_thousandths(*limit)))
            .collect();
        if limits.is_empty() {
            self.master.decrees.quotas.remove(role);
        } else {
            self.master.decrees.quotas.insert(role.to_owned(), limits);
        }
        self.allocate(now);
        true
    }

    /// Cuts what is offered to a role down to what its quotas leave: its own and those of the roles above it.
    pub(crate) fn chop(&self, role: &str, offered: &mut Bundle) {
        for (limited, limits) in &self.master.decrees.quotas {
            if !is_within(role, limited) {
                continue;
            }
            let used = self.consumed(limited);
            for (name, limit) in limits {
                let used = used.scalars().into_iter().find(|(kind, _)| kind == name);
                let left = limit.saturating_sub(used.map_or(0, |(_, amount)| amount));
                if let Some(scalar) = offered.plain.scalar_mut(name) {
                    *scalar = left.min(*scalar);
                }
            }
        }
    }

    /// What counts against the quota of a role.
    fn consumed(&self, limited: &str) -> Amount {
        let mut consumed = Amount::default();
        for framework in self.master.frameworks.values() {
            let held = framework
                .allocated
                .iter()
                .filter(|(role, _)| is_within(role, limited));
            held.for_each(|(_, held)| consumed.add(&held.plain));
        }
        let registered = self
            .master
            .members
            .iter()
            .filter(|(_, member)| member.contact.is_registered());
        let counts =
            |mark: &Mark| !mark.revocable && mark.reserved_for().is_some_and(|role| is_within(role, limited));
        for agent in registered.filter_map(|(id, _)| self.agents.get(id)) {
            consumed.add(&agent.spec.resources.only(counts).sum());
        }
        consumed
    }
}

/// Whether a role is another one or lies below it.
pub(crate) fn is_within(role: &str, above: &str) -> bool {
    role.strip_prefix(above)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
