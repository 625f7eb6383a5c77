//! How the cluster is shared with other frameworks: what a master tells of it beside its list of agents.

use crate::agents::Agent;
use crate::hosts::Hosts;
use echelon_core_model::sharing::{Others, QuotaLimit, RoleShare, Sharing};
use echelon_core_model::sum::MOST_COUNTED;
use echelon_core_model::{HostId, Kind, Resources};
use std::collections::BTreeMap;

/// What a master tells of other frameworks beside its list of agents.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListedSharing {
    /// Our role.
    pub role: String,
    /// What frameworks of other roles hold of all agents.
    pub roles: BTreeMap<String, Others>,
    /// Limits of quota that count what our role uses. `None`: it did not tell.
    pub limits: Option<Vec<QuotaUse>>,
}

/// A limit of quota, and what counts against it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaUse {
    /// The role that it is set for.
    pub role: String,
    /// The kind.
    pub kind: Kind,
    /// The limit, in the kind's unit.
    pub limit: u64,
    /// What counts against it, in the kind's unit; what our tasks use is a part of it.
    pub counted: u64,
}

impl Hosts {
    /// How the cluster is shared with other frameworks, as its master told last.
    #[must_use]
    pub const fn sharing(&self) -> &Sharing {
        &self.sharing
    }

    /// Takes in what a list tells of others. `ended` is what our tasks held that ended since the question.
    /// The list may still count it.
    pub(crate) fn note_sharing(
        &mut self,
        listed: &ListedSharing,
        agents: &[Agent],
        ended: &BTreeMap<HostId, Resources>,
    ) {
        let nothing = Resources::ZERO;
        let (mut ours, mut of_role) = (nothing, Others::default());
        let reserved = agents.iter().map(|agent| agent.reserved);
        let most_reserved = reserved.clone().fold(nothing, Resources::max_each);
        let reserved = reserved.fold(nothing, Resources::plus);
        for agent in agents {
            let ended = ended.get(&agent.host).copied().unwrap_or(nothing);
            let here = self.ledger.used(&agent.host).resources.plus(ended);
            ours = ours.plus(here);
            of_role = of_role.plus(Others {
                used: agent.of_role.minus(here),
                offered: self.offered_of_role(agent),
            });
        }
        let mut roles = listed.roles.clone();
        roles.insert(listed.role.clone(), of_role);
        let shares = roles.into_iter().map(|(role, held)| RoleShare {
            role: cut(&role),
            held: Others {
                used: held.used.min_each(Resources::of_each(MOST_COUNTED)),
                offered: held.offered.min_each(Resources::of_each(MOST_COUNTED)),
            },
        });
        let limit = |quota: &QuotaUse| {
            let (kind, counted) = (quota.kind, quota.counted);
            let beside_others = quota.limit.saturating_sub(counted.saturating_sub(ours.get(kind)));
            // What is reserved for us is offered beyond any limit, which bounds the rest only.
            let beyond = beside_others.saturating_sub(reserved.get(kind));
            QuotaLimit {
                role: cut(&quota.role),
                kind,
                limit: quota.limit.min(MOST_COUNTED),
                ours: reserved.get(kind).saturating_add(beyond).min(MOST_COUNTED),
                one_host: most_reserved.get(kind).saturating_add(beyond).min(MOST_COUNTED),
            }
        };
        let told = listed.limits.as_ref();
        let limits = told.map(|limits| limits.iter().map(limit).collect());
        self.sharing = Sharing::new(shares, limits.or_else(|| self.sharing.limits.take()));
    }

    /// What of an agent is offered to other frameworks of our role.
    /// What we hold of it is ours, and so is what we gave back since the question.
    pub(crate) fn offered_of_role(&self, agent: &Agent) -> Resources {
        let ours = self
            .stock
            .free(&agent.host)
            .plus(self.stock.closed_of(&agent.host));
        agent.offered_of_role.minus(ours)
    }
}

fn cut(role: &str) -> String {
    let mut role = role.to_owned();
    role.truncate(role.floor_char_boundary(Sharing::ROLE_BYTES));
    role
}
