//! `echelon pool explain`: from the root down to a pool, what each node had to divide, what the pool below it could use, and how far
//! the three phases went, with the pool that got the last unit.

use super::certify::certificate;
use super::lent::of_lent_room;
use super::usage::{self, path_of};
use crate::context::Context;
use crate::exit::Failure;
use crate::output;
use echelon_clients_rust::{Client, v1};
use echelon_core_model::pool::{Pool, PoolKind, PoolTree};
use echelon_core_model::resources::{Kind, Resources};
use echelon_core_pools::certificate::{Threshold, given};
use echelon_proto::convert::Problems;
use echelon_proto::convert::pool::read_pool;
use echelon_proto::convert::quantity::read_resources;
use std::collections::BTreeMap;

/// Explains a pool's entitlement.
pub async fn explain(context: &Context, client: &Client, path: &str) -> Result<(), Failure> {
    let told = usage::figures(client).await?;
    let figure = told.pools.iter().find(|f| path_of(f) == path && path != "/");
    let figure = figure.ok_or_else(|| usage::not_found(path))?;
    let value = output::message("PoolFigure", figure);
    output::print(output::one(&value, path, &people(&told, path), context.format()));
    Ok(())
}

/// A node on the way to the pool, with the figure of the next one.
struct Step<'a> {
    parent: &'a str,
    has: Resources,
    thresholds: [[Threshold; 3]; 4],
    child: Pool,
    cap: Resources,
    demand: Resources,
    amount: Resources,
    siblings: usize,
    /// Path by id of the pools of that side.
    names: BTreeMap<String, &'a str>,
}

/// Of ordinary room, and of what hosts lend where the pool has to do with any.
fn people(told: &v1::PoolFigures, path: &str) -> String {
    let lent = of_lent_room(told).map(|lent| side(&lent, path, "lent "));
    side(told, path, "") + &lent.unwrap_or_default()
}

fn side(told: &v1::PoolFigures, path: &str, which: &str) -> String {
    let steps = steps(told, path);
    let Some(last) = steps.last() else {
        return String::new();
    };
    let matters = |kind: &Kind| {
        let any = [last.amount, last.demand, last.child.reservation];
        (*kind == Kind::Cpus && which.is_empty()) || any.iter().any(|r| r.get(*kind) > 0)
    };
    let mut lines = Vec::new();
    for kind in Kind::ALL.into_iter().filter(matters) {
        lines.push(format!(
            "{which}{kind}: {} is entitled to {}",
            output::escape(path),
            kind.show(last.amount.get(kind))
        ));
        for step in &steps {
            lines.extend(step.lines(kind));
        }
        lines.extend(second_round(told, path, kind));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// What became of it in the second round, from the root down.
fn second_round(told: &v1::PoolFigures, path: &str, kind: Kind) -> Vec<String> {
    let amount = |r: v1::Resources| kind.show(read_resources(Some(r)).get(kind));
    let of = |node: &str| {
        let figure = told.pools.iter().find(|f| path_of(f) == node)?;
        let (keeps, may) = figure.usable.zip(figure.final_entitlement)?;
        Some((
            amount(figure.entitlement.unwrap_or_default()),
            amount(keeps),
            amount(may),
        ))
    };
    let Some((_, keeps, there)) = of("/") else {
        return Vec::new();
    };
    let mut out = vec![
        "  in the second round what pools cannot use of that is given out again".to_owned(),
        format!("    / has {there}, of which pools keep {keeps} that they can use"),
    ];
    let nodes = way(path);
    for node in nodes.iter().filter(|n| *n != "/") {
        if let Some((had, keeps, may)) = of(node) {
            let node = output::escape(node);
            out.push(format!(
                "    {node} keeps {keeps} of {had}, and may use {may} in the end"
            ));
        }
    }
    out
}

/// The paths from the root down to a pool.
fn way(path: &str) -> Vec<String> {
    let above = |at: &String| (at != "/").then(|| PoolTree::parent(at).to_owned());
    let mut out: Vec<String> = std::iter::successors(Some(path.to_owned()), above).collect();
    out.reverse();
    out
}

/// From the root down.
fn steps<'a>(told: &'a v1::PoolFigures, path: &str) -> Vec<Step<'a>> {
    let mut problems = Problems::default();
    let proof = certificate(told, &mut problems);
    let find = |path: &str| told.pools.iter().position(|f| path_of(f) == path);
    let step = |pair: &[String]| {
        let [parent, child] = pair else { return None };
        let (parent, at) = (find(parent)?, find(child)?);
        let (figure, below) = (told.pools.get(parent)?, told.pools.get(at)?);
        let siblings = told
            .pools
            .iter()
            .filter(|f| path_of(f) != "/" && PoolTree::parent(path_of(f)) == path_of(figure));
        let id = |f: &v1::PoolFigure| f.pool.as_ref().map(|p| p.pool_id.clone()).unwrap_or_default();
        let names: BTreeMap<String, &str> = siblings.map(|f| (id(f), path_of(f))).collect();
        Some(Step {
            parent: path_of(figure),
            has: read_resources(figure.entitlement),
            thresholds: proof.lines.get(parent)?.thresholds.clone()?,
            child: read_pool(below.pool.as_ref()?, child, &mut Problems::default()),
            cap: read_resources(below.cap),
            demand: read_resources(below.demand),
            amount: read_resources(below.entitlement),
            siblings: names.len(),
            names,
        })
    };
    way(path).windows(2).filter_map(step).collect()
}

/// What a pool may take in a phase.
struct Part {
    /// What the phase is.
    name: String,
    /// Its floor, its share, or 1.
    weight: u64,
    /// The most that it can take.
    most: u64,
}

impl Step<'_> {
    fn lines(&self, kind: Kind) -> Vec<String> {
        let path = output::escape(&self.child.path);
        let cap = self.cap.get(kind);
        let pools = match self.siblings {
            1 => "the one pool".to_owned(),
            n => format!("{n} pools"),
        };
        let has = kind.show(self.has.get(kind));
        let mut out = vec![
            format!("  {} has {has} for {pools} below it", output::escape(self.parent)),
            format!("    {path} can use {}: {}", kind.show(cap), self.bounds(kind)),
        ];
        let thresholds = self.thresholds.get(kind as usize).into_iter().flatten();
        let phases = self.parts(kind).into_iter().zip(thresholds);
        out.extend(phases.map(|(part, threshold)| format!("    {}", self.phase(kind, &part, threshold))));
        out.push(format!(
            "    so {path} is entitled to {}",
            kind.show(self.amount.get(kind))
        ));
        out
    }

    /// Why it can use so much and no more.
    fn bounds(&self, kind: Kind) -> String {
        let mut out = format!("it wants {}", kind.show(self.demand.get(kind)));
        let limit = self.child.limit.get(kind);
        if limit != u64::MAX {
            out += &format!(", its limit is {}", kind.show(limit));
        }
        if self.child.kind == PoolKind::Static {
            let kept = self.child.reservation.get(kind);
            out += &format!(", and it is static and keeps {} in any case", kind.show(kept));
        }
        out
    }

    fn parts(&self, kind: Kind) -> [Part; 3] {
        let cap = self.cap.get(kind);
        let reservation = self.child.reservation.get(kind);
        let floor = reservation.min(cap);
        let share = self.child.share.get(kind);
        let (shared, unshared) = if share > 0 {
            (cap - floor, 0)
        } else {
            (0, cap - floor)
        };
        let part = |name, weight, most| Part { name, weight, most };
        [
            part(
                format!("floors, from its reservation of {}", kind.show(reservation)),
                floor,
                floor,
            ),
            part(format!("above floors, by its share of {share}"), share, shared),
            part("what is left then, without a share".to_owned(), 1, unshared),
        ]
    }

    fn phase(&self, kind: Kind, part: &Part, threshold: &Threshold) -> String {
        let id = self.child.id.as_str();
        let got = given(threshold, part.weight, part.most, id);
        let (name, got, most) = (&part.name, kind.show(got), kind.show(part.most));
        match threshold {
            _ if part.most == 0 => format!("{name}: nothing for it here"),
            Threshold::Nothing => format!("{name}: 0 of {most}, all was gone before"),
            Threshold::Full => format!("{name}: {got} of {most}, as everybody got all here"),
            Threshold::Until { unit, weight, pool } => {
                let last = match self.names.get(pool) {
                    _ if pool == id => "itself".to_owned(),
                    Some(path) => output::escape(path),
                    None => output::escape(pool),
                };
                let weight = if name.starts_with("floors") {
                    kind.show(*weight)
                } else {
                    weight.to_string()
                };
                let unit = kind.show(*unit);
                format!(
                    "{name}: {got} of {most}; the last unit went to {last}, its {unit} at weight {weight}, then all was gone"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::certify::tests::{told, told_twice};
    use super::*;

    #[test]
    fn every_step_has_its_figures() {
        insta::assert_snapshot!(people(&told(), "/ml/train"), @r"
    cpus: /ml/train is entitled to 10
      / has 20 for 2 pools below it
        /ml can use 36: it wants 36
        floors, from its reservation of 6: 6 of 6, as everybody got all here
        above floors, by its share of 1: 10 of 30; the last unit went to itself, its 10 at weight 1, then all was gone
        what is left then, without a share: nothing for it here
        so /ml is entitled to 16
      /ml has 16 for 2 pools below it
        /ml/train can use 30: it wants 30
        floors, from its reservation of 2: 2 of 2, as everybody got all here
        above floors, by its share of 1: 8 of 28; the last unit went to itself, its 8 at weight 1, then all was gone
        what is left then, without a share: nothing for it here
        so /ml/train is entitled to 10
    ");
    }

    #[test]
    fn both_rounds_and_what_hosts_lend_are_explained() {
        insta::assert_snapshot!(people(&told_twice(), "/ml/train"), @r"
        cpus: /ml/train is entitled to 10
          / has 20 for 2 pools below it
            /ml can use 36: it wants 36
            floors, from its reservation of 6: 6 of 6, as everybody got all here
            above floors, by its share of 1: 10 of 30; the last unit went to itself, its 10 at weight 1, then all was gone
            what is left then, without a share: nothing for it here
            so /ml is entitled to 16
          /ml has 16 for 2 pools below it
            /ml/train can use 30: it wants 30
            floors, from its reservation of 2: 2 of 2, as everybody got all here
            above floors, by its share of 1: 8 of 28; the last unit went to itself, its 8 at weight 1, then all was gone
            what is left then, without a share: nothing for it here
            so /ml/train is entitled to 10
          in the second round what pools cannot use of that is given out again
            / has 20, of which pools keep 18 that they can use
            /ml keeps 14 of 16, and may use 16 in the end
            /ml/train keeps 10 of 10, and may use 12 in the end
        lent cpus: /ml/train is entitled to 2
          / has 6 for 2 pools below it
            /ml can use 2: it wants 5
            floors, from its reservation of 0: nothing for it here
            above floors, by its share of 1: 2 of 2; the last unit went to /web, its 4 at weight 1, then all was gone
            what is left then, without a share: nothing for it here
            so /ml is entitled to 2
          /ml has 2 for 2 pools below it
            /ml/train can use 2: it wants 5, its limit is 2
            floors, from its reservation of 0: nothing for it here
            above floors, by its share of 1: 2 of 2, as everybody got all here
            what is left then, without a share: nothing for it here
            so /ml/train is entitled to 2
        ");
    }

    #[test]
    fn a_static_pool_says_what_it_keeps() {
        insta::assert_snapshot!(people(&told(), "/web"), @r"
    cpus: /web is entitled to 4
      / has 20 for 2 pools below it
        /web can use 4: it wants 1, its limit is 8, and it is static and keeps 4 in any case
        floors, from its reservation of 4: 4 of 4, as everybody got all here
        above floors, by its share of 1: nothing for it here
        what is left then, without a share: nothing for it here
        so /web is entitled to 4
    ");
    }
}
