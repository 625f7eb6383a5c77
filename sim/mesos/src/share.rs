//! Fair shares: dominant resource fairness over the tree of roles, then over the frameworks of a role.

use crate::amount::Amount;
use crate::cluster::Cluster;
use crate::id::FrameworkId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A role that a framework wants offers for, with its parts of the cluster in billionths; the smallest comes first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Claim {
    /// The shares of the roles from the top of the tree down to this one.
    path: Vec<(u128, Arc<str>)>,
    framework_share: u128,
    pub framework: FrameworkId,
    pub role: Arc<str>,
}

impl Cluster {
    /// The roles that want offers, the poorest first. `total` is that of [`Cluster::total`].
    pub(crate) fn claims(&self, total: &Amount) -> Vec<Claim> {
        let held = self.held_by_roles();
        let mut claims = Vec::new();
        let frameworks = self.master.frameworks.values();
        for framework in frameworks.filter(|framework| framework.stream.is_some()) {
            let mut wanted = framework.roles();
            wanted.retain(|role| !framework.suppressed.contains(role));
            for role in wanted {
                let own = framework.allocated.get(&role);
                let path = nodes(&role).map(|node| {
                    let held = held.get(node.as_str());
                    (held.map_or(0, |held| share(held, total)), Arc::from(node))
                });
                claims.push(Claim {
                    path: path.collect(),
                    framework_share: own.map_or(0, |own| share(&own.sum(), total)),
                    framework: framework.id.clone(),
                    role: Arc::from(role),
                });
            }
        }
        claims.sort();
        claims
    }

    /// What each node of the tree of roles holds, with all below it.
    fn held_by_roles(&self) -> BTreeMap<String, Amount> {
        let mut held: BTreeMap<String, Amount> = BTreeMap::new();
        for framework in self.master.frameworks.values() {
            for (role, own) in &framework.allocated {
                let own = own.sum();
                for node in nodes(role) {
                    held.entry(node).or_default().add(&own);
                }
            }
        }
        held
    }

    /// The scalars of all registered agents. O(agents).
    pub(crate) fn total(&self) -> Amount {
        let registered = self
            .master
            .members
            .iter()
            .filter(|(_, member)| member.contact.is_registered());
        let agents = registered.filter_map(|(id, _)| self.agents.get(id));
        let mut total = Amount::default();
        for (mark, amount) in agents.flat_map(|agent| agent.spec.resources.parts()) {
            if !mark.shared {
                total.add_scalars(amount);
            }
        }
        total
    }
}

/// The nodes of the tree of roles from the top to a role: `a/b` is `a`, `a/b`, and the leaf `a/b/.` for what belongs to
/// that very role, as the role competes with those below it.
fn nodes(role: &str) -> impl Iterator<Item = String> {
    let ends = role.match_indices('/').map(|(i, _)| i).chain([role.len()]);
    let above = ends.filter_map(|end| role.get(..end)).map(str::to_owned);
    above.chain([format!("{role}/.")])
}

/// The largest part of any kind, in billionths.
fn share(amount: &Amount, total: &Amount) -> u128 {
    let parts = amount.scalars().into_iter().zip(total.scalars());
    parts
        .filter_map(|((_, part), (_, whole))| {
            (u128::from(part) * 1_000_000_000).checked_div(u128::from(whole))
        })
        .max()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_competes_with_the_roles_below_it() {
        let of = |role| nodes(role).collect::<Vec<_>>();
        assert_eq!(of("*"), ["*", "*/."]);
        assert_eq!(of("a/b"), ["a", "a/b", "a/b/."]);
    }

    #[test]
    fn the_share_is_that_of_the_scarcest_kind() {
        let amount = |cpus, mem| Amount {
            cpus,
            mem,
            ..Amount::default()
        };
        assert_eq!(share(&amount(1, 30), &amount(10, 100)), 300_000_000);
        assert_eq!(share(&amount(1, 0), &Amount::default()), 0);
    }
}
