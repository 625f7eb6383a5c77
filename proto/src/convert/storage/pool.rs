//! The pool tree.

use crate::convert::fields::{WireEnum as _, list, optional, required, wire_enum, word};
use crate::convert::{FieldError, FieldProblem, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::pool::{Pool, PoolKind, PoolTree, PreemptWithin, PriorityBounds};
use echelon_core_model::spec::OnSilence;
use echelon_core_model::{PoolId, Resources, Span, Version};
use std::collections::BTreeMap;

wire_enum!(PoolKind, wire::PoolKind, Elastic, Static);
wire_enum!(PreemptWithin, wire::PreemptWithin, Auto, Never, LowerPriority);

impl Wire for Pool {
    type Message = wire::Pool;

    fn to_wire(&self) -> Self::Message {
        let Self {
            id,
            path,
            reservation,
            limit,
            share,
            kind,
            max_instance,
            priority,
            controller_limit,
            revocable_limit,
            max_jobs,
            max_instances,
            fair_users,
            preempt_within,
            on_cluster_loss,
            deleting,
            version,
        } = self;
        wire::Pool {
            id: id.to_string(),
            path: path.clone(),
            reservation: Some(reservation.to_wire()),
            limit: Some(limit.to_wire()),
            share: Some(share.to_wire()),
            version: version.0,
            kind: kind.number(),
            max_instance: (*max_instance != Resources::MAX).then(|| max_instance.to_wire()),
            priority: (*priority != PriorityBounds::ANY).then(|| priority.to_wire()),
            controller_limit: (*controller_limit != Resources::MAX).then(|| controller_limit.to_wire()),
            revocable_limit: (*revocable_limit != Resources::MAX).then(|| revocable_limit.to_wire()),
            max_jobs: (*max_jobs < u64::MAX).then_some(*max_jobs),
            max_instances: (*max_instances < u64::MAX).then_some(*max_instances),
            fair_users: *fair_users,
            preempt_within: preempt_within.number(),
            on_cluster_loss: on_cluster_loss.map(|on| on.to_wire()),
            deleting: *deleting,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let wire::Pool {
            id,
            path,
            reservation,
            limit,
            share,
            version,
            kind,
            max_instance,
            priority,
            controller_limit,
            revocable_limit,
            max_jobs,
            max_instances,
            fair_users,
            preempt_within,
            on_cluster_loss,
            deleting,
        } = message;
        Ok(Self {
            id: PoolId::new(id),
            path,
            reservation: required("reservation", reservation)?,
            limit: required("limit", limit)?,
            share: required("share", share)?,
            // Rows of before there were kinds have none.
            kind: if kind == 0 {
                PoolKind::Elastic
            } else {
                word("kind", kind)?
            },
            // Nor have rows of before there were bounds.
            max_instance: optional("max_instance", max_instance)?.unwrap_or(Resources::MAX),
            priority: optional("priority", priority)?.unwrap_or(PriorityBounds::ANY),
            controller_limit: optional("controller_limit", controller_limit)?.unwrap_or(Resources::MAX),
            revocable_limit: optional("revocable_limit", revocable_limit)?.unwrap_or(Resources::MAX),
            max_jobs: max_jobs.unwrap_or(u64::MAX),
            max_instances: max_instances.unwrap_or(u64::MAX),
            fair_users,
            preempt_within: word("preempt_within", preempt_within)?,
            on_cluster_loss: optional("on_cluster_loss", on_cluster_loss)?,
            deleting,
            version: Version(version),
        })
    }
}

impl Wire for OnSilence {
    type Message = wire::ClusterLossPolicy;

    fn to_wire(&self) -> Self::Message {
        let replace_after_ms = match self {
            Self::Replace(after) => Some(after.0),
            Self::Wait => None,
        };
        wire::ClusterLossPolicy { replace_after_ms }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let after = message.replace_after_ms.map(Span);
        Ok(after.map_or(Self::Wait, Self::Replace))
    }
}

impl Wire for PriorityBounds {
    type Message = wire::PriorityBounds;

    fn to_wire(&self) -> Self::Message {
        let Self { min, max, default } = *self;
        wire::PriorityBounds {
            min: (min > 0).then_some(min),
            max: (max < u32::MAX).then_some(max),
            default,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            min: message.min.unwrap_or_default(),
            max: message.max.unwrap_or(u32::MAX),
            default: message.default,
        })
    }
}

impl Wire for PoolTree {
    type Message = wire::PoolTree;

    fn to_wire(&self) -> Self::Message {
        wire::PoolTree {
            version: self.version.0,
            pools: self.pools.values().map(Wire::to_wire).collect(),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let mut pools = BTreeMap::new();
        for pool in list::<Pool>("pools", message.pools)? {
            if let Some(before) = pools.insert(pool.path.clone(), pool) {
                return Err(FieldError::new("pools", FieldProblem::Repeated(before.path)));
            }
        }
        Ok(Self {
            version: Version(message.version),
            pools,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_before_there_were_kinds_are_elastic() {
        let mut row = Pool::new(PoolId::new("a"), "/a").to_wire();
        row.kind = 0;
        assert_eq!(Pool::from_wire(row.clone()).unwrap().kind, PoolKind::Elastic);
        let before = Pool::from_wire(row.clone()).unwrap();
        assert_eq!(
            (before.max_instance, before.priority, before.controller_limit),
            (Resources::MAX, PriorityBounds::ANY, Resources::MAX)
        );
        assert_eq!(before.revocable_limit, Resources::MAX);
        assert_eq!((before.max_jobs, before.max_instances), (u64::MAX, u64::MAX));
        row.kind = 99;
        assert!(Pool::from_wire(row).is_err());
    }
}
