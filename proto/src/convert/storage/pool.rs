//! The pool tree.

use crate::convert::fields::{WireEnum as _, list, required, wire_enum, word};
use crate::convert::{FieldError, FieldProblem, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::pool::{Pool, PoolKind, PoolTree};
use echelon_core_model::{PoolId, Version};
use std::collections::BTreeMap;

wire_enum!(PoolKind, wire::PoolKind, Elastic, Static);

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
            version: Version(version),
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
        row.kind = 99;
        assert!(Pool::from_wire(row).is_err());
    }
}
