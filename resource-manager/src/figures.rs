//! The driver's figures of pools as the public API says them.

use echelon_core_model::Resources;
use echelon_core_model::pool::PoolTree;
use echelon_core_model::resources::Kind;
use echelon_core_resource_manager::certificate::{Line, SecondLine, Threshold};
use echelon_core_resource_manager::{Held, PoolFigures, SideFigures};
use echelon_proto::convert::pool::pool;
use echelon_proto::convert::quantity;
use echelon_proto::echelon::v1;
use std::collections::BTreeMap;

/// To the wire. The time is the gateway's to fill in.
pub(crate) fn to_wire(figures: &PoolFigures) -> v1::PoolFigures {
    let (ordinary, lent) = (&Side::new(&figures.ordinary), &Side::new(&figures.lent));
    let held = with_those_below(&figures.held, Held::plus);
    let held = |path: &str| held.get(path).copied().unwrap_or_default();
    let of_lent: BTreeMap<&str, &Line> = lent.lines().map(|l| (l.path.as_str(), l)).collect();
    let one = |line: &Line| {
        let path = line.path.as_str();
        v1::PoolFigure {
            pool: Some(figures.tree.pools.get(path).map_or_else(root, pool)),
            demand: sum(&ordinary.demand, path),
            allocated: sum(&ordinary.allocated, path),
            cap: Some(quantity::resources(&line.cap)),
            entitlement: Some(quantity::resources(&line.amount)),
            divisions: divisions(line),
            usable: ordinary.second(path, |l| &l.usable),
            final_entitlement: ordinary.second(path, |l| &l.amount),
            lent: of_lent.get(path).map(|line| v1::PoolLentFigure {
                demand: sum(&lent.demand, path),
                allocated: sum(&lent.allocated, path),
                cap: Some(quantity::resources(&line.cap)),
                entitlement: Some(quantity::resources(&line.amount)),
                divisions: divisions(line),
                usable: lent.second(path, |l| &l.usable),
                final_entitlement: lent.second(path, |l| &l.amount),
            }),
            controllers: Some(quantity::resources(&held(path).controllers)),
            jobs: held(path).jobs,
            instances: held(path).instances,
        }
    };
    v1::PoolFigures {
        tree_version: figures.tree.version.0,
        capacity: Some(quantity::resources(&figures.ordinary.certificate.capacity)),
        pools: ordinary.lines().map(one).collect(),
        as_of: None,
        closed_capacity: Some(quantity::resources(&figures.closed)),
        lent_capacity: Some(quantity::resources(&figures.lent.certificate.capacity)),
    }
}

/// One side's figures by path, sums with what is below.
struct Side<'a> {
    figures: &'a SideFigures,
    demand: BTreeMap<&'a str, Resources>,
    allocated: BTreeMap<&'a str, Resources>,
    second: BTreeMap<&'a str, &'a SecondLine>,
}

impl<'a> Side<'a> {
    fn new(figures: &'a SideFigures) -> Self {
        Self {
            figures,
            demand: with_those_below(&figures.demand, Resources::plus),
            allocated: with_those_below(&figures.allocated, Resources::plus),
            second: figures.second.iter().map(|l| (l.path.as_str(), l)).collect(),
        }
    }

    fn lines(&self) -> impl Iterator<Item = &'a Line> {
        self.figures.certificate.lines.iter()
    }

    fn second(&self, path: &str, which: fn(&SecondLine) -> &Resources) -> Option<v1::Resources> {
        Some(quantity::resources(which(self.second.get(path)?)))
    }
}

fn sum(sums: &BTreeMap<&str, Resources>, path: &str) -> Option<v1::Resources> {
    Some(quantity::resources(&sums.get(path).copied().unwrap_or_default()))
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
