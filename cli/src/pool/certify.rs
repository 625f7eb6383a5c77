//! `echelon pool certify`: the resource manager's leader hands over its tree, demand, capacity and proof, and the checker, which shares no
//! code with the algorithm, is run here.

use super::lent::of_lent_room;
use super::usage;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::{output, shape};
use echelon_clients_rust::{Client, v1};
use echelon_core_model::Version;
use echelon_core_model::pool::PoolTree;
use echelon_core_model::resources::{Kind, Resources};
use echelon_core_pools::certificate::{Certificate, Line, SecondLine, Threshold, check, check_second};
use echelon_proto::convert::Problems;
use echelon_proto::convert::pool::read_pool;
use echelon_proto::convert::quantity::read_resources;
use std::collections::BTreeMap;

/// Checks it.
pub async fn certify(context: &Context, client: &Client) -> Result<(), Failure> {
    let told = usage::figures(client).await?;
    let lent = of_lent_room(&told);
    let mut wrong = faults(&told)?;
    for fault in lent.as_ref().map(faults).transpose()?.unwrap_or_default() {
        wrong.push(format!("of lent room: {fault}"));
    }
    let value = output::message("PoolFigures", &told);
    let people = if wrong.is_empty() {
        format!(
            "fair: every amount of {} pools follows from the division of {} by tree version {}\n{}{}{}",
            told.pools.len().saturating_sub(1),
            shape::resources(told.capacity.as_ref()),
            told.tree_version,
            not_divided(&told),
            second_kept(&told, "the second round"),
            lent.map_or(String::new(), |lent| {
                format!(
                    "fair: so does what they have of the {} that hosts lend\n{}",
                    shape::resources(lent.capacity.as_ref()),
                    second_kept(&lent, "the second round of lent room"),
                )
            }),
        )
    } else {
        String::new()
    };
    output::print(output::one(&value, "", &people, context.format()));
    if wrong.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = wrong
        .iter()
        .map(|w| output::escape(&format!("unfair: {w}")))
        .collect();
    Err(Failure::new(Exit::Failed, lines.join("\n")))
}

/// What the division leaves out, if anything.
fn not_divided(told: &v1::PoolFigures) -> String {
    let closed = told.closed_capacity.as_ref();
    let some = closed.filter(|r| !read_resources(Some(**r)).is_zero());
    some.map_or(String::new(), |closed| {
        format!(
            "not divided: {} unused of hosts and clusters that take no new work\n",
            shape::resources(Some(closed))
        )
    })
}

/// What is said of a second round whose proof holds.
fn second_kept(told: &v1::PoolFigures, what: &str) -> String {
    if second_lines(told).is_empty() {
        return String::new();
    }
    format!("fair: {what} keeps limits and what there is, and leaves every pool what it can use\n")
}

/// What each pool keeps and may use in the end; nothing when there was no second round.
fn second_lines(told: &v1::PoolFigures) -> Vec<SecondLine> {
    let line = |figure: &v1::PoolFigure| {
        let (usable, amount) = figure.usable.zip(figure.final_entitlement)?;
        Some(SecondLine {
            path: usage::path_of(figure).to_owned(),
            first: read_resources(figure.entitlement),
            usable: read_resources(Some(usable)),
            amount: read_resources(Some(amount)),
        })
    };
    told.pools.iter().filter_map(line).collect()
}

/// What the checkers of both rounds find in the figures.
fn faults(told: &v1::PoolFigures) -> Result<Vec<String>, Failure> {
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
    let there = read_resources(told.capacity);
    let mut found = check(&tree, &demand, there, &certificate);
    let second = second_lines(told);
    if !second.is_empty() {
        found.extend(check_second(&tree, there, &second));
    }
    Ok(found.iter().map(ToString::to_string).collect())
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
            lent_capacity: None,
            closed_capacity: None,
        }
    }

    /// The same with a second round, in which `/ml/serve` can use 4 of the 6 that it is entitled to, and with 6 cores that hosts lend, of
    /// which `/ml/train` may have 2.
    pub fn told_twice() -> v1::PoolFigures {
        let mut told = told();
        let second = [
            ("/", 18, 20),
            ("/ml", 14, 16),
            ("/ml/serve", 4, 4),
            ("/ml/train", 10, 12),
            ("/web", 4, 4),
        ];
        let wire = |cores| Some(quantity::resources(&cpus(cores)));
        for f in &mut told.pools {
            let (_, usable, last) = second.iter().find(|(p, ..)| *p == usage::path_of(f)).unwrap();
            (f.usable, f.final_entitlement) = (wire(*usable), wire(*last));
            if let Some(pool) = f.pool.as_mut().filter(|p| p.path == "/ml/train") {
                pool.revocable_limit = Some(quantity::limit(&Resources::MAX.with(Kind::Cpus, 2000)));
            }
        }
        told.lent_capacity = wire(6);
        let side = of_lent_room(&told).unwrap();
        let pools = side
            .pools
            .iter()
            .filter_map(|f| f.pool.as_ref())
            .filter(|p| p.path != "/");
        let pools = pools.map(|p| (p.path.clone(), read_pool(p, "", &mut Problems::default())));
        let h = Hierarchy::new(&PoolTree {
            version: Version(7),
            pools: pools.collect(),
        });
        let mut wanted = vec![Resources::ZERO; h.len()];
        for path in ["/ml/train", "/web"] {
            wanted[h.find(path).unwrap()] = cpus(5);
        }
        let proof = certify(&h, &entitle(&h, &wanted, cpus(6)));
        for f in &mut told.pools {
            let line = proof.lines.iter().find(|l| l.path == usage::path_of(f)).unwrap();
            let demand = match line.path.as_str() {
                "/" => 10,
                "/ml/serve" => 0,
                _ => 5,
            };
            f.lent = Some(v1::PoolLentFigure {
                demand: wire(demand),
                allocated: wire(0),
                cap: Some(quantity::resources(&line.cap)),
                entitlement: Some(quantity::resources(&line.amount)),
                divisions: divisions(line),
                usable: None,
                final_entitlement: None,
            });
        }
        told
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
        assert_eq!(faults(&told()).unwrap(), Vec::<String>::new());
        assert_eq!(second_kept(&told(), ""), "");
        assert_eq!(not_divided(&told()), "");
        let drained = v1::PoolFigures {
            closed_capacity: Some(quantity::resources(&cpus(12))),
            ..told()
        };
        assert_eq!(
            not_divided(&drained),
            "not divided: cpus 12 unused of hosts and clusters that take no new work\n"
        );
        let mut forged = told();
        let web = forged
            .pools
            .iter_mut()
            .find(|f| usage::path_of(f) == "/web")
            .unwrap();
        web.entitlement.as_mut().unwrap().cpus_milli -= 1;
        assert_eq!(
            faults(&forged).unwrap(),
            ["/web has another amount of cpus than the thresholds give it"]
        );
    }

    #[test]
    fn both_rounds_and_lent_room_are_checked() {
        assert_eq!(faults(&told_twice()).unwrap(), Vec::<String>::new());
        assert!(second_kept(&told_twice(), "the second round").starts_with("fair: the second round keeps"));
        let lent = of_lent_room(&told_twice()).unwrap();
        assert_eq!(faults(&lent).unwrap(), Vec::<String>::new());
        let of = |told: &mut v1::PoolFigures, path: &str| -> usize {
            told.pools.iter().position(|f| usage::path_of(f) == path).unwrap()
        };
        let mut forged = told_twice();
        let web = of(&mut forged, "/web");
        forged.pools[web].final_entitlement = Some(quantity::resources(&cpus(1)));
        assert_eq!(
            faults(&forged).unwrap(),
            ["/web does not keep what it can use of the cpus that it got at first"]
        );
        let train = of(&mut forged, "/ml/train");
        let lent = forged.pools[train].lent.as_mut().unwrap();
        lent.entitlement.as_mut().unwrap().cpus_milli += 1;
        assert_eq!(
            faults(&of_lent_room(&forged).unwrap()).unwrap(),
            ["/ml/train has another amount of cpus than the thresholds give it"]
        );
        // A pool that the second round leaves out is a lie, too.
        let mut fewer = told_twice();
        fewer.pools[web].usable = None;
        assert!(
            faults(&fewer)
                .unwrap()
                .contains(&"/web has no line, or is no pool".to_owned())
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
        assert!(
            faults(&fewer)
                .unwrap()
                .contains(&"the root does not have the capacity".to_owned())
        );
        let mut smaller = told();
        smaller.capacity = Some(quantity::resources(&cpus(19)));
        assert!(
            faults(&smaller)
                .unwrap()
                .contains(&"the root does not have the capacity".to_owned())
        );
    }
}
