//! `echelon pool certify`: the resource manager's leader hands over its tree, demand, capacity and proof, and the checker, which shares no
//! code with the algorithm, is run here.

use super::usage;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::{output, shape};
use echelon_clients_rust::{Client, v1};
use echelon_core_model::Version;
use echelon_core_model::pool::PoolTree;
use echelon_core_model::resources::{Kind, Resources};
use echelon_core_pools::certificate::{Certificate, Line, Threshold, Unfair, check};
use echelon_proto::convert::Problems;
use echelon_proto::convert::pool::read_pool;
use echelon_proto::convert::quantity::read_resources;
use std::collections::BTreeMap;

/// Checks it.
pub async fn certify(context: &Context, client: &Client) -> Result<(), Failure> {
    let told = usage::figures(client).await?;
    let wrong = faults(&told)?;
    let value = output::message("PoolFigures", &told);
    let people = if wrong.is_empty() {
        format!(
            "fair: every amount of {} pools follows from the division of {} by tree version {}\n",
            told.pools.len().saturating_sub(1),
            shape::resources(told.capacity.as_ref()),
            told.tree_version,
        )
    } else {
        String::new()
    };
    print!("{}", output::one(&value, "", &people, context.format()));
    if wrong.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = wrong
        .iter()
        .map(|w| output::escape(&format!("unfair: {w}")))
        .collect();
    Err(Failure::new(Exit::Failed, lines.join("\n")))
}

/// What the checker finds in the figures.
fn faults(told: &v1::PoolFigures) -> Result<Vec<Unfair>, Failure> {
    let mut problems = Problems::default();
    let mut tree = PoolTree {
        version: Version(told.tree_version),
        pools: BTreeMap::new(),
    };
    for figure in &told.pools {
        let pool = figure.pool.clone().unwrap_or_default();
        if pool.path != "/" {
            let pool = read_pool(&pool, &pool.path, &mut problems);
            tree.pools.insert(pool.path.clone(), pool);
        }
    }
    // Of pools with others below them the checker reads none.
    let demand = told.pools.iter();
    let demand: BTreeMap<String, Resources> = demand
        .map(|f| (usage::path_of(f).to_owned(), read_resources(f.demand)))
        .collect();
    let certificate = certificate(told, &mut problems);
    let read = problems.or((tree, demand, certificate));
    let (tree, demand, certificate) =
        read.map_err(|p| Failure::new(Exit::Failed, format!("the certificate cannot be read: {p}")))?;
    Ok(check(&tree, &demand, read_resources(told.capacity), &certificate))
}

/// The proof as the checker takes it.
pub fn certificate(told: &v1::PoolFigures, problems: &mut Problems) -> Certificate {
    let lines = told.pools.iter().map(|figure| Line {
        path: usage::path_of(figure).to_owned(),
        cap: read_resources(figure.cap),
        amount: read_resources(figure.entitlement),
        thresholds: thresholds(figure, problems),
    });
    Certificate {
        capacity: read_resources(told.capacity),
        lines: lines.collect(),
    }
}

fn thresholds(figure: &v1::PoolFigure, problems: &mut Problems) -> Option<[[Threshold; 3]; 4]> {
    if figure.divisions.is_empty() {
        return None;
    }
    Some(Kind::ALL.map(|kind| {
        let wanted = echelon_proto::convert::quantity::kind(kind);
        let division = figure.divisions.iter().find(|d| d.kind() == wanted);
        let phases = division.map_or([None, None, None], |d| {
            [d.floors.as_ref(), d.shares.as_ref(), d.rest.as_ref()]
        });
        phases.map(|phase| {
            threshold(phase).unwrap_or_else(|| {
                problems.add(usage::path_of(figure), format!("has no threshold for {kind}"));
                Threshold::Nothing
            })
        })
    }))
}

/// A threshold as the checker takes it.
fn threshold(told: Option<&v1::PoolThreshold>) -> Option<Threshold> {
    let told = told?;
    match told.phase() {
        v1::PoolPhase::Unspecified => None,
        v1::PoolPhase::Nothing => Some(Threshold::Nothing),
        v1::PoolPhase::Full => Some(Threshold::Full),
        v1::PoolPhase::Until => Some(Threshold::Until {
            unit: told.unit,
            weight: told.weight,
            pool: told.pool_id.clone(),
        }),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use echelon_core_model::PoolId;
    use echelon_core_model::pool::{Pool, PoolKind};
    use echelon_core_pools::certificate::certify;
    use echelon_core_pools::{Hierarchy, entitle};
    use echelon_proto::convert::{pool::pool, quantity};

    const fn cpus(cores: u64) -> Resources {
        Resources {
            cpus: cores * 1000,
            ..Resources::ZERO
        }
    }

    fn tree() -> PoolTree {
        let new = |path: &str, reserved| Pool {
            reservation: cpus(reserved),
            ..Pool::new(PoolId::new(path), path)
        };
        let web = Pool {
            kind: PoolKind::Static,
            limit: Resources::MAX.with(Kind::Cpus, 8000),
            ..new("/web", 4)
        };
        let pools = [new("/ml", 6), new("/ml/train", 2), new("/ml/serve", 4), web];
        PoolTree {
            version: Version(7),
            pools: pools.into_iter().map(|p| (p.path.clone(), p)).collect(),
        }
    }

    /// What a gateway would answer: 20 cores, of which `/ml/train` wants 30, `/ml/serve` 6 and `/web` 1.
    pub fn told() -> v1::PoolFigures {
        let tree = tree();
        let h = Hierarchy::new(&tree);
        let demand = [("/ml/train", 30), ("/ml/serve", 6), ("/web", 1)];
        let mut wanted = vec![Resources::ZERO; h.len()];
        let mut sums = BTreeMap::from([("/", 37), ("/ml", 36)]);
        for (path, cores) in demand {
            wanted[h.find(path).unwrap()] = cpus(cores);
            sums.insert(path, cores);
        }
        let proof = certify(&h, &entitle(&h, &wanted, cpus(20)));
        let root = v1::Pool {
            path: "/".to_owned(),
            ..v1::Pool::default()
        };
        let figure = |line: &Line| v1::PoolFigure {
            pool: Some(tree.pools.get(&line.path).map_or(root.clone(), pool)),
            demand: Some(quantity::resources(&cpus(sums[line.path.as_str()]))),
            allocated: Some(quantity::resources(&cpus(1))),
            cap: Some(quantity::resources(&line.cap)),
            entitlement: Some(quantity::resources(&line.amount)),
            divisions: divisions(line),
            ..v1::PoolFigure::default()
        };
        v1::PoolFigures {
            tree_version: 7,
            capacity: Some(quantity::resources(&proof.capacity)),
            pools: proof.lines.iter().map(figure).collect(),
            as_of: None,
        }
    }

    fn divisions(line: &Line) -> Vec<v1::PoolDivision> {
        let phase = |t: &Threshold| match t {
            Threshold::Nothing => (v1::PoolPhase::Nothing, 0, 0, String::new()),
            Threshold::Full => (v1::PoolPhase::Full, 0, 0, String::new()),
            Threshold::Until { unit, weight, pool } => (v1::PoolPhase::Until, *unit, *weight, pool.clone()),
        };
        let wire = |t: &Threshold| {
            let (phase, unit, weight, pool_id) = phase(t);
            Some(v1::PoolThreshold {
                phase: phase.into(),
                unit,
                weight,
                pool_id,
            })
        };
        let kinds = line
            .thresholds
            .iter()
            .flat_map(|all| Kind::ALL.into_iter().zip(all));
        let one = |(kind, [floors, shares, rest]): (Kind, &[Threshold; 3])| v1::PoolDivision {
            kind: quantity::kind(kind).into(),
            floors: wire(floors),
            shares: wire(shares),
            rest: wire(rest),
        };
        kinds.map(one).collect()
    }

    #[test]
    fn a_true_proof_holds_and_a_forged_one_is_told() {
        assert_eq!(faults(&told()).unwrap(), []);
        let mut forged = told();
        let web = forged
            .pools
            .iter_mut()
            .find(|f| usage::path_of(f) == "/web")
            .unwrap();
        web.entitlement.as_mut().unwrap().cpus_milli -= 1;
        let found: Vec<String> = faults(&forged).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            ["/web has another amount of cpus than the thresholds give it"]
        );
    }

    #[test]
    fn a_proof_that_lacks_something_is_no_proof() {
        let mut without = told();
        without.pools[0].divisions.pop();
        assert!(
            faults(&without)
                .unwrap_err()
                .message
                .contains("no threshold for gpus")
        );
        let mut fewer = told();
        fewer.pools.retain(|f| usage::path_of(f) != "/");
        assert!(faults(&fewer).unwrap().contains(&Unfair::Capacity));
        let mut smaller = told();
        smaller.capacity = Some(quantity::resources(&cpus(19)));
        assert!(faults(&smaller).unwrap().contains(&Unfair::Capacity));
    }
}
