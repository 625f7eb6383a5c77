//! Host pools of a cluster, and hosts that are to go to another.

use crate::convert::fields::{by_name, list, messages, names, optional, required};
use crate::convert::{FieldError, FieldProblem, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::host_pool::{HostMove, HostMoves, HostMoving, HostPlace, HostPoolWishes};
use echelon_core_model::{HostPoolName, Timestamp};
use std::collections::BTreeMap;

/// A name; what is not set means `default`, as before there were others.
fn pool(field: &str, text: &str) -> Result<HostPoolName, FieldError> {
    if text.is_empty() {
        return Ok(HostPoolName::default());
    }
    HostPoolName::parse(text).map_err(|e| FieldError::new(field, FieldProblem::Id(e)))
}

/// To the wire; `default` is not said.
fn unless_default(pool: &HostPoolName) -> String {
    let name = Some(pool).filter(|p| !p.is_default());
    name.map(HostPoolName::to_string).unwrap_or_default()
}

/// The host pools of hosts, by their names.
pub(super) fn by_host(
    field: &str,
    map: BTreeMap<String, String>,
) -> Result<BTreeMap<String, HostPoolName>, FieldError> {
    let read = map.into_iter().map(|(host, name)| {
        let name = pool(&host, &name).map_err(|e| e.within(field))?;
        Ok((host, name))
    });
    read.collect()
}

/// To the wire.
pub(super) fn by_host_to_wire(map: &BTreeMap<String, HostPoolName>) -> BTreeMap<String, String> {
    let names = map.iter().map(|(host, pool)| (host.clone(), pool.to_string()));
    names.collect()
}

impl Wire for HostMove {
    type Message = wire::HostMove;

    fn to_wire(&self) -> Self::Message {
        let Self { to, batch_until } = self;
        wire::HostMove {
            to: to.to_string(),
            batch_until_ms: batch_until.0,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            to: pool("to", &message.to)?,
            batch_until: Timestamp(message.batch_until_ms),
        })
    }
}

impl Wire for HostMoves {
    type Message = wire::HostMoves;

    fn to_wire(&self) -> Self::Message {
        let Self { version, hosts } = self;
        wire::HostMoves {
            version: *version,
            hosts: names(hosts),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            version: message.version,
            hosts: by_name("hosts", message.hosts)?,
        })
    }
}

impl Wire for HostPoolWishes {
    type Message = wire::HostPoolWishes;

    fn to_wire(&self) -> Self::Message {
        let Self { names, moves } = self;
        wire::HostPoolWishes {
            names: names.iter().map(HostPoolName::to_string).collect(),
            moves: Some(moves.to_wire()),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let names = message.names.iter().map(|name| pool("names", name));
        Ok(Self {
            names: names.collect::<Result<_, _>>()?,
            moves: optional("moves", message.moves)?.unwrap_or_default(),
        })
    }
}

impl Wire for HostPlace {
    type Message = wire::HostPlace;

    fn to_wire(&self) -> Self::Message {
        let Self { pool, moving } = self;
        wire::HostPlace {
            pool: unless_default(pool),
            moving: moving.as_ref().map(HostMoving::to_wire),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            pool: pool("pool", &message.pool)?,
            moving: optional("moving", message.moving)?,
        })
    }
}

impl Wire for HostMoving {
    type Message = wire::HostMoving;

    fn to_wire(&self) -> Self::Message {
        let Self { wish, left } = self;
        wire::HostMoving {
            wish: Some(wish.to_wire()),
            left: messages(left),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            wish: required("wish", message.wish)?,
            left: list("left", message.left)?,
        })
    }
}
