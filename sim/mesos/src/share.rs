//! Fair shares: dominant resource fairness over the tree of roles, then over the frameworks of a role.

use crate::amount::Amount;
use crate::bundle::Bundle;
use crate::cluster::Cluster;
use crate::id::FrameworkId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Who wants offers, the poorest first, while they are made.
pub(crate) struct Shares {
    total: Amount,
    /// What each node of the tree of roles holds, with all below it.
    held: BTreeMap<Arc<str>, Amount>,
    pub claims: Vec<Claim>,
}

/// A role that a framework wants offers for, with its parts of the cluster in billionths.
pub(crate) struct Claim {
    /// The shares of the roles from the top of the tree down to this one.
    path: Vec<(u128, Arc<str>)>,
    framework_share: u128,
    /// What the framework holds for the role.
    own: Amount,
    pub framework: FrameworkId,
    pub role: Arc<str>,
}

impl Shares {
    /// Counts what claims were given, and orders them anew. O(claims * depth of the tree), nearly sorted.
    pub(crate) fn give(&mut self, given: &[(usize, Amount)]) {
        for (claim_idx, amount) in given {
            let Some(claim) = self.claims.get_mut(*claim_idx) else {
                continue;
            };
            claim.own.add_scalars(amount);
            for (_, node) in &claim.path {
                self.held.entry(node.clone()).or_default().add_scalars(amount);
            }
        }
        self.order();
    }

    fn order(&mut self) {
        for claim in &mut self.claims {
            for (part, node) in &mut claim.path {
                *part = self.held.get(node).map_or(0, |held| share(held, &self.total));
            }
            claim.framework_share = share(&claim.own, &self.total);
        }
        self.claims.sort_by(|a, b| a.rank().cmp(&b.rank()));
    }
}

impl Claim {
    /// What decides who comes first; ties go by name.
    #[expect(clippy::type_complexity, reason = "a tuple compares field by field")]
    fn rank(&self) -> (&[(u128, Arc<str>)], u128, &FrameworkId, &Arc<str>) {
        (&self.path, self.framework_share, &self.framework, &self.role)
    }
}

impl Cluster {
    /// The shares as they are now. O(agents + claims).
    pub(crate) fn shares(&self) -> Shares {
        let mut shares = Shares {
            total: self.total(),
            held: self.held_by_roles(),
            claims: Vec::new(),
        };
        let frameworks = self.master.frameworks.values();
        for framework in frameworks.filter(|framework| framework.stream.is_some()) {
            let mut wanted = framework.roles();
            wanted.retain(|role| !framework.suppressed.contains(role));
            shares.claims.extend(wanted.into_iter().map(|role| {
                Claim {
                    path: nodes(&role).map(|node| (0, Arc::from(node))).collect(),
                    framework_share: 0,
                    own: framework
                        .allocated
                        .get(&role)
                        .map(Bundle::sum)
                        .unwrap_or_default(),
                    framework: framework.id.clone(),
                    role: Arc::from(role),
                }
            }));
        }
        shares.order();
        shares
    }

    fn held_by_roles(&self) -> BTreeMap<Arc<str>, Amount> {
        let mut held: BTreeMap<Arc<str>, Amount> = BTreeMap::new();
        for framework in self.master.frameworks.values() {
            for (role, own) in &framework.allocated {
                let own = own.sum();
                for node in nodes(role) {
                    held.entry(Arc::from(node)).or_default().add_scalars(&own);
                }
            }
        }
        held
    }

    /// The scalars of all registered agents. O(agents).
    fn total(&self) -> Amount {
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
