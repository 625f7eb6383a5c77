//! How a Mesos cluster is shared with other frameworks: what they hold of its hosts, what Mesos' quota leaves
//! to our role, and what Mesos' operators have done with an agent.

use crate::resources::{Kind, Resources};

/// What other frameworks hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Others {
    /// Their tasks and executors use it.
    pub used: Resources,
    /// It is offered to them, and neither accepted nor declined.
    pub offered: Resources,
}

impl Others {
    /// Both together.
    #[must_use]
    pub fn sum(self) -> Resources {
        self.used.plus(self.offered)
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            used: self.used.plus(other.used),
            offered: self.offered.plus(other.offered),
        }
    }
}

/// What other frameworks of one role hold of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleShare {
    /// The role; of our own, frameworks other than ours.
    pub role: String,
    /// What they hold.
    pub held: Others,
}

/// A limit of Mesos' quota that counts what our role uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaLimit {
    /// The role that it is set for: ours, or one above it.
    pub role: String,
    /// The kind.
    pub kind: Kind,
    /// The limit, in the kind's unit.
    pub limit: u64,
    /// What it lets our tasks have, beside what it counts of others, in the kind's unit.
    pub ours: u64,
    /// The most of that which one host may have: what an agent reserves for our role, and what is left of
    /// the limit beyond all that agents reserve for it.
    pub one_host: u64,
}

impl QuotaLimit {
    /// What it lets one more instance have, where our tasks have so much of its kind.
    #[must_use]
    pub fn left(&self, used: u64) -> u64 {
        self.ours.saturating_sub(used).min(self.one_host)
    }
}

/// A cluster as it is shared, as its master told last.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sharing {
    /// What others hold of hosts that can be reached, by role. Those that use most come first.
    pub roles: Vec<RoleShare>,
    /// How many further roles hold something.
    pub roles_left_out: u32,
    /// Of each kind that quota limits for us, the limit that leaves us least.
    /// `None`: its master has told no quotas yet, or does not tell us.
    pub limits: Option<Vec<QuotaLimit>>,
}

impl Sharing {
    /// Most roles that are named.
    pub const MOST_ROLES: usize = 8;
    /// Most limits: one of each kind.
    pub const MOST_LIMITS: usize = Kind::ALL.len();
    /// Longest name of a role, in bytes. Mesos does not bound it.
    pub const ROLE_BYTES: usize = 255;

    /// What these roles hold, with those first that use most, and the limits that leave us least.
    /// Roles that hold nothing are left out.
    #[must_use]
    pub fn new(roles: impl IntoIterator<Item = RoleShare>, limits: Option<Vec<QuotaLimit>>) -> Self {
        let holds = |share: &RoleShare| !share.held.sum().is_zero();
        let mut roles: Vec<RoleShare> = roles.into_iter().filter(holds).collect();
        let size = |of: Resources| (of.gpus, of.cpus, of.memory, of.disk);
        let order = |share: &RoleShare| (size(share.held.used), size(share.held.offered));
        roles.sort_by(|a, b| order(b).cmp(&order(a)).then_with(|| a.role.cmp(&b.role)));
        let left_out = roles.len().saturating_sub(Self::MOST_ROLES);
        roles.truncate(Self::MOST_ROLES);
        let least = |limits: Vec<QuotaLimit>| {
            let of_kind = |kind| limits.iter().filter(move |limit| limit.kind == kind);
            let least = |kind| of_kind(kind).min_by_key(|limit| limit.ours);
            Kind::ALL.into_iter().filter_map(least).cloned().collect()
        };
        Self {
            roles,
            roles_left_out: u32::try_from(left_out).unwrap_or(u32::MAX),
            limits: limits.map(least),
        }
    }

    /// What roles use and are offered of a kind, in words; empty where none of them holds any.
    #[must_use]
    pub fn roles_in_words(&self, kind: Kind) -> String {
        let mut out = Vec::new();
        for RoleShare { role, held } in &self.roles {
            let (used, offered) = (held.used.get(kind), held.offered.get(kind));
            let used = (used > 0).then(|| format!("uses {} {kind}", kind.show(used)));
            let offered = (offered > 0).then(|| format!("is offered {} {kind}", kind.show(offered)));
            let parts: Vec<String> = used.into_iter().chain(offered).collect();
            if !parts.is_empty() {
                out.push(format!("role {role} {}", parts.join(" and ")));
            }
        }
        match self.roles_left_out {
            0 => {}
            1 => out.push("1 more role holds some".to_owned()),
            n => out.push(format!("{n} more roles hold some")),
        }
        out.join(", ")
    }

    /// What quota lets our tasks have of each kind; the largest number of a kind that no limit counts.
    #[must_use]
    pub fn ceiling(&self) -> Resources {
        let limits = self.limits.iter().flatten();
        limits.fold(Resources::MAX, |most, limit| {
            most.with(limit.kind, limit.ours.min(most.get(limit.kind)))
        })
    }

    /// The limit that keeps one more of this shape from being offered to our role, if one does; `used` is
    /// what our tasks have.
    #[must_use]
    pub fn limit_for(&self, shape: Resources, used: Resources) -> Option<&QuotaLimit> {
        let mut limits = self.limits.iter().flatten();
        limits.find(|limit| {
            let needed = shape.get(limit.kind);
            needed > 0 && needed > limit.left(used.get(limit.kind))
        })
    }
}

/// Whether Mesos offers what an agent has, and why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum AgentState {
    /// It may be offered.
    #[default]
    Active,
    /// Its connection is lost, and it may come back.
    Disconnected,
    /// An operator has deactivated it: nothing is offered, and what runs goes on.
    Deactivated,
    /// It is being drained: its tasks are stopped.
    Draining,
    /// It was drained, and nothing runs there.
    Drained,
}

impl AgentState {
    /// The word of API and command line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Disconnected => "disconnected",
            Self::Deactivated => "deactivated",
            Self::Draining => "draining",
            Self::Drained => "drained",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(role: &str, cpus: u64, offered: u64) -> RoleShare {
        let of = |cpus| Resources {
            cpus,
            ..Resources::ZERO
        };
        RoleShare {
            role: role.to_owned(),
            held: Others {
                used: of(cpus),
                offered: of(offered),
            },
        }
    }

    fn limit(role: &str, limit: u64, ours: u64) -> QuotaLimit {
        QuotaLimit {
            role: role.to_owned(),
            kind: Kind::Cpus,
            limit,
            ours,
            one_host: ours,
        }
    }

    #[test]
    fn the_roles_that_hold_most_are_named_and_the_rest_is_counted() {
        let many = (0..20).map(|n| share(&format!("r{n:02}"), n, 0));
        let sharing = Sharing::new(many, None);
        assert_eq!(sharing.roles.len(), Sharing::MOST_ROLES);
        assert_eq!(sharing.roles[0].role, "r19");
        assert_eq!(
            sharing.roles_left_out, 11,
            "the one that holds nothing is none of them"
        );
    }

    #[test]
    fn words_name_roles_that_hold_something_of_the_kind() {
        let sharing = Sharing::new([share("spark", 20_000, 4000), share("*", 0, 500)], None);
        assert_eq!(
            sharing.roles_in_words(Kind::Cpus),
            "role spark uses 20 cpus and is offered 4 cpus, role * is offered 0.5 cpus"
        );
        assert_eq!(sharing.roles_in_words(Kind::Disk), "");
    }

    #[test]
    fn a_limit_counts_what_we_have_and_what_one_more_needs() {
        let limits = vec![limit("eng/web", 4000, 3000), limit("eng", 9000, 2500)];
        let sharing = Sharing::new([], Some(limits));
        let told = sharing.limits.iter().flatten().map(|l| &*l.role);
        assert_eq!(told.collect::<Vec<_>>(), ["eng"], "the other one leaves more");
        assert_eq!(sharing.ceiling().cpus, 2500);
        assert_eq!(sharing.ceiling().memory, u64::MAX);
        let of = |cpus| Resources {
            cpus,
            ..Resources::ZERO
        };
        let kept = |shape, used| sharing.limit_for(of(shape), of(used)).map(|l| &*l.role);
        assert_eq!(kept(500, 2000), None);
        assert_eq!(kept(501, 2000), Some("eng"));
        assert_eq!(kept(0, 9000), None, "what asks for none of it is not kept away");
        let halves = QuotaLimit {
            one_host: 1250,
            ..limit("eng", 0, 2500)
        };
        let sharing = Sharing::new([], Some(vec![halves]));
        let kept = |shape| sharing.limit_for(of(shape), of(0)).map(|limit| limit.left(0));
        assert_eq!((kept(1250), kept(1251)), (None, Some(1250)));
        assert_eq!(
            Sharing::default().limit_for(of(1), of(1)),
            None,
            "not told is no limit"
        );
    }
}
