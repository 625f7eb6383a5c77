//! How a cluster is shared with other frameworks.

use crate::convert::fields::WireEnum as _;
use crate::convert::fields::{list, messages, optional, required, wire_enum, word};
use crate::convert::{FieldError, FieldProblem, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::sharing::{AgentState, Others, QuotaLimit, RoleShare, Sharing};

wire_enum!(
    AgentState,
    wire::AgentState,
    Active,
    Disconnected,
    Deactivated,
    Draining,
    Drained
);

impl Wire for Others {
    type Message = wire::Others;

    fn to_wire(&self) -> Self::Message {
        let Self { used, offered } = self;
        wire::Others {
            used: Some(used.to_wire()),
            offered: Some(offered.to_wire()),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            used: required("used", message.used)?,
            offered: required("offered", message.offered)?,
        })
    }
}

impl Wire for RoleShare {
    type Message = wire::RoleShare;

    fn to_wire(&self) -> Self::Message {
        let Self { role, held } = self;
        wire::RoleShare {
            role: role.clone(),
            held: Some(held.to_wire()),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            role: message.role,
            held: required("held", message.held)?,
        })
    }
}

impl Wire for QuotaLimit {
    type Message = wire::QuotaLimit;

    fn to_wire(&self) -> Self::Message {
        let Self {
            role,
            kind,
            limit,
            ours,
            one_host,
        } = self;
        wire::QuotaLimit {
            role: role.clone(),
            kind: kind.number(),
            limit: *limit,
            ours: *ours,
            one_host: *one_host,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            role: message.role,
            kind: word("kind", message.kind)?,
            limit: message.limit,
            ours: message.ours,
            one_host: message.one_host,
        })
    }
}

struct Limits(Vec<QuotaLimit>);

impl Wire for Limits {
    type Message = wire::QuotaLimits;

    fn to_wire(&self) -> Self::Message {
        wire::QuotaLimits {
            limits: messages(&self.0),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self(bounded("limits", message.limits, Sharing::MOST_LIMITS)?))
    }
}

impl Wire for Sharing {
    type Message = wire::Sharing;

    fn to_wire(&self) -> Self::Message {
        let Self {
            roles,
            roles_left_out,
            limits,
        } = self;
        wire::Sharing {
            roles: messages(roles),
            roles_left_out: *roles_left_out,
            limits: limits.clone().map(|limits| Limits(limits).to_wire()),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let limits: Option<Limits> = optional("limits", message.limits)?;
        Ok(Self {
            roles: bounded("roles", message.roles, Self::MOST_ROLES)?,
            roles_left_out: message.roles_left_out,
            limits: limits.map(|Limits(limits)| limits),
        })
    }
}

/// A list of at most so many entries.
fn bounded<T: Wire>(field: &str, messages: Vec<T::Message>, most: usize) -> Result<Vec<T>, FieldError> {
    if messages.len() > most {
        return Err(FieldError::new(field, FieldProblem::TooMany { most }));
    }
    list(field, messages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::{Kind, Resources};

    #[test]
    fn it_reads_back_and_no_list_of_it_is_longer_than_it_may_be() {
        let share = |n: usize| RoleShare {
            role: format!("r{n}"),
            held: Others {
                used: Resources::of_each(7),
                offered: Resources::ZERO,
            },
        };
        let limit = QuotaLimit {
            role: "eng".to_owned(),
            kind: Kind::Gpus,
            limit: 5,
            ours: 3,
            one_host: 2,
        };
        let mut sharing = Sharing {
            roles: (0..Sharing::MOST_ROLES).map(share).collect(),
            roles_left_out: 4,
            limits: Some(vec![limit; Sharing::MOST_LIMITS]),
        };
        assert_eq!(Sharing::from_wire(sharing.to_wire()), Ok(sharing.clone()));
        let untold = Sharing {
            limits: None,
            ..sharing.clone()
        };
        assert_eq!(Sharing::from_wire(untold.to_wire()), Ok(untold));
        sharing.roles.push(share(99));
        let error = Sharing::from_wire(sharing.to_wire()).unwrap_err();
        assert!(error.to_string().contains("more than 8 entries"), "{error}");
    }
}
