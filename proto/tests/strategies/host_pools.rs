//! Host pools, and hosts that are to go to another.

use super::{at, left, text};
use echelon_core_model::HostPoolName;
use echelon_core_model::host_pool::{HostMove, HostMoves, HostMoving, HostPlace, HostPoolWishes};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;
use std::collections::BTreeMap;

pub fn pool() -> impl Strategy<Value = HostPoolName> {
    prop_oneof![
        Just(HostPoolName::default()),
        "[a-z0-9-]{1,9}".prop_map(HostPoolName::new),
    ]
}

fn host_move() -> impl Strategy<Value = HostMove> {
    (pool(), at()).prop_map(|(to, batch_until)| HostMove { to, batch_until })
}

pub fn host_moves() -> impl Strategy<Value = HostMoves> {
    let hosts = btree_map(text(), host_move(), 0..3);
    (super::whole(), hosts).prop_map(|(version, hosts)| HostMoves { version, hosts })
}

pub fn host_pool_wishes() -> impl Strategy<Value = HostPoolWishes> {
    let names = btree_set(pool(), 0..3);
    (names, host_moves()).prop_map(|(names, moves)| HostPoolWishes { names, moves })
}

pub fn place() -> impl Strategy<Value = HostPlace> {
    let moving = (host_move(), vec(left(), 0..3)).prop_map(|(wish, left)| HostMoving { wish, left });
    (pool(), of(moving)).prop_map(|(pool, moving)| HostPlace { pool, moving })
}

pub fn by_host() -> impl Strategy<Value = BTreeMap<String, HostPoolName>> {
    btree_map(text(), pool(), 0..3)
}

pub fn by_host_pool<T: std::fmt::Debug>(
    of: impl Strategy<Value = T>,
) -> impl Strategy<Value = BTreeMap<HostPoolName, T>> {
    btree_map(pool(), of, 0..3)
}
