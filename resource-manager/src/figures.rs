//! The driver's figures of pools as the public API says them.

use echelon_core_model::Resources;
use echelon_core_model::pool::PoolTree;
use echelon_core_model::resources::Kind;
use echelon_core_resource_manager::certificate::{Line, Threshold};
use echelon_core_resource_manager::{Held, PoolFigures};
use echelon_proto::convert::pool::pool;
use echelon_proto::convert::quantity;
use echelon_proto::echelon::v1;
use std::collections::BTreeMap;

/// To the wire. The time is the gateway's to fill in.
pub(crate) fn to_wire(figures: &PoolFigures) -> v1::PoolFigures {
    let demand = with_those_below(&figures.demand, Resources::plus);
    let allocated = with_those_below(&figures.allocated, Resources::plus);
    let held = with_those_below(&figures.held, Held::plus);
    let of = |sums: &BTreeMap<&str, Resources>, path: &str| {
        Some(quantity::resources(&sums.get(path).copied().unwrap_or_default()))
    };
    let held = |path: &str| held.get(path).copied().unwrap_or_default();
    let one = |line: &Line| v1::PoolFigure {
        pool: Some(figures.tree.pools.get(&line.path).map_or_else(root, pool)),
        demand: of(&demand, &line.path),
        allocated: of(&allocated, &line.path),
        cap: Some(quantity::resources(&line.cap)),
        entitlement: Some(quantity::resources(&line.amount)),
        divisions: divisions(line),
        controllers: Some(quantity::resources(&held(&line.path).controllers)),
        jobs: held(&line.path).jobs,
        instances: held(&line.path).instances,
    };
    v1::PoolFigures {
        tree_version: figures.tree.version.0,
        capacity: Some(quantity::resources(&figures.certificate.capacity)),
        pools: figures.certificate.lines.iter().map(one).collect(),
        as_of: None,
    }
}

fn root() -> v1::Pool {
    v1::Pool {
        path: "/".to_owned(),
        ..v1::Pool::default()
    }
}

/// Sums of leaves, and of everything above them.
fn with_those_below<T: Copy + Default>(
    leaves: &BTreeMap<String, T>,
    plus: impl Fn(T, T) -> T,
) -> BTreeMap<&str, T> {
    let mut out: BTreeMap<&str, T> = BTreeMap::new();
    for (path, amount) in leaves {
        let mut at = Some(path.as_str());
        while let Some(node) = at {
            let sum = out.entry(node).or_default();
            *sum = plus(*sum, *amount);
            at = (node != "/").then(|| PoolTree::parent(node));
        }
    }
    out
}

fn divisions(line: &Line) -> Vec<v1::PoolDivision> {
    let kinds = line
        .thresholds
        .iter()
        .flat_map(|of_kinds| Kind::ALL.into_iter().zip(of_kinds));
    let one = |(kind, [floors, shares, rest]): (Kind, &[Threshold; 3])| v1::PoolDivision {
        kind: quantity::kind(kind).into(),
        floors: Some(threshold(floors)),
        shares: Some(threshold(shares)),
        rest: Some(threshold(rest)),
    };
    kinds.map(one).collect()
}

fn threshold(threshold: &Threshold) -> v1::PoolThreshold {
    let phase = |phase: v1::PoolPhase| v1::PoolThreshold {
        phase: phase.into(),
        ..v1::PoolThreshold::default()
    };
    match threshold {
        Threshold::Nothing => phase(v1::PoolPhase::Nothing),
        Threshold::Full => phase(v1::PoolPhase::Full),
        Threshold::Until { unit, weight, pool } => v1::PoolThreshold {
            unit: *unit,
            weight: *weight,
            pool_id: pool.clone(),
            ..phase(v1::PoolPhase::Until)
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_hold_what_is_below() {
        let cpus = |n| Resources::ZERO.with(Kind::Cpus, n);
        let leaves = BTreeMap::from([
            ("/a/x".to_owned(), cpus(1)),
            ("/a/y".to_owned(), cpus(2)),
            ("/b".to_owned(), cpus(4)),
        ]);
        let all = with_those_below(&leaves, Resources::plus);
        let told: Vec<(&str, u64)> = all.iter().map(|(path, r)| (*path, r.cpus)).collect();
        assert_eq!(told, [("/", 7), ("/a", 3), ("/a/x", 1), ("/a/y", 2), ("/b", 4)]);
    }
}
