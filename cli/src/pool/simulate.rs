//! `echelon pool simulate`: a recorded trace under several trees, side by side. The resource manager's own state machine decides, here;
//! no server is asked.

use super::left_out::LeftOut;
use super::{file, trace};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output;
use clap::Args;
use echelon_clients_rust::v1;
use echelon_core_model::pool::{Pool, PoolTree};
use echelon_core_model::resources::{Kind, Resources};
use echelon_core_model::{PoolId, Timestamp, Version};
use echelon_core_pools::moves::{PoolOrigin, origins};
use echelon_core_pools::tree::{jobs_inside, problems};
use echelon_proto::convert::Problems;
use echelon_proto::convert::pool::read_pool;
use echelon_sim_replay::{
    CapacityChange, ClusterCapacity, Delays, Outcome, PoolOutcome, Trace, Wait, Waits, replay,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Flags.
#[derive(Debug, Args)]
pub struct Simulate {
    /// What `echelon pool record` wrote, `-` for standard input
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// A file of a whole tree, as for `echelon pool apply`; several are compared
    #[arg(long, value_name = "FILE")]
    tree: Vec<PathBuf>,
    /// Another capacity than was recorded, for all trees but the recorded one: `east=cpus=100,memory=400GiB`
    #[arg(long, value_name = "CLUSTER=KIND=AMOUNT,...", value_parser = capacity)]
    capacity: Vec<(String, v1::ResourceLimit)>,
}

fn capacity(text: &str) -> Result<(String, v1::ResourceLimit), String> {
    let (cluster, amounts) = text
        .split_once('=')
        .filter(|(_, amounts)| amounts.contains('='))
        .ok_or_else(|| format!("`{text}` is not CLUSTER=KIND=AMOUNT,..., such as east=cpus=100"))?;
    Ok((cluster.to_owned(), super::amounts(amounts)?))
}

/// One column.
struct Column {
    name: String,
    outcome: Outcome,
    /// Where a pool of the trace is there.
    moved: Moves,
}

/// Replays and compares.
pub fn simulate(context: &Context, flags: &Simulate) -> Result<(), Failure> {
    let shown = flags.trace.display().to_string();
    let recorded = if flags.trace == Path::new("-") {
        trace::read("standard input", std::io::stdin().lock())?
    } else {
        let file = File::open(&flags.trace);
        let file = file.map_err(|e| Failure::wrong(format!("{shown} cannot be read: {e}")))?;
        trace::read(&shown, BufReader::new(file))?
    };
    let columns = columns(&recorded, flags)?;
    let left_out = left_out(&recorded, flags);
    let value = json!({
        "columns": columns.iter().map(|c| c.value(&recorded.trace)).collect::<Vec<_>>(),
        "left_out": left_out.value(),
    });
    let mut people = people(&recorded.trace, &columns);
    let left_out = left_out.text();
    if !left_out.is_empty() {
        people = format!("{people}\n{left_out}");
    }
    output::print(output::one(&value, &shown, &people, context.format()));
    Ok(())
}

/// What the trace lacks, and what the flags leave open.
fn left_out(recorded: &trace::Recorded, flags: &Simulate) -> LeftOut {
    let mut out = recorded.left_out.clone();
    let hosts_known = |cluster: &String| {
        let mut of_cluster = recorded.trace.capacities.iter().filter(|c| c.cluster == *cluster);
        of_cluster.all(|c| matches!(c.capacity, ClusterCapacity::Hosts(_)))
    };
    let set: BTreeSet<&String> = flags.capacity.iter().map(|(cluster, _)| cluster).collect();
    out.note_set(set.into_iter().filter(|cluster| hosts_known(cluster)).count());
    out
}

fn columns(recorded: &trace::Recorded, flags: &Simulate) -> Result<Vec<Column>, Failure> {
    let mut out = Vec::new();
    let old = &recorded.trace;
    if let Some(outcome) = Outcome::recorded(old) {
        out.push(Column {
            name: "as recorded".to_owned(),
            outcome,
            moved: Moves::default(),
        });
    }
    let new = with_capacity(old.clone(), &flags.capacity);
    let has_tree = !recorded.tree.pools.is_empty();
    if has_tree {
        let none = Moves::default();
        out.push(column(
            "recorded tree".to_owned(),
            old,
            (&recorded.tree, none.clone()),
        )?);
        if flags.tree.is_empty() && !flags.capacity.is_empty() {
            out.push(column(
                "with that capacity".to_owned(),
                &new,
                (&recorded.tree, none),
            )?);
        }
    } else if flags.tree.is_empty() {
        return Err(Failure::wrong(
            "the trace tells of no pools: name a tree with --tree, as for `echelon pool apply`",
        ));
    }
    for file in &flags.tree {
        let (tree, moved) = read_tree(file, &recorded.tree, old)?;
        out.push(column(file.display().to_string(), &new, (&tree, moved))?);
    }
    Ok(out)
}

fn column(name: String, trace: &Trace, (tree, moved): (&PoolTree, Moves)) -> Result<Column, Failure> {
    let mut trace = trace.clone();
    for job in &mut trace.jobs {
        job.pool = moved.to(&job.pool);
    }
    let outcome =
        replay(&trace, tree, Delays::USUAL).map_err(|e| Failure::new(Exit::Failed, e.to_string()))?;
    Ok(Column { name, outcome, moved })
}

/// The trace with other amounts in the clusters that are named; one that it does not know is there from the beginning.
fn with_capacity(mut trace: Trace, wanted: &[(String, v1::ResourceLimit)]) -> Trace {
    for (cluster, amounts) in wanted {
        if !trace.capacities.iter().any(|c| c.cluster == *cluster) {
            trace.capacities.insert(
                0,
                CapacityChange {
                    at: trace
                        .capacities
                        .iter()
                        .map(|c| c.at)
                        .min()
                        .unwrap_or(Timestamp(0)),
                    cluster: cluster.clone(),
                    capacity: ClusterCapacity::Sum(Resources::ZERO),
                },
            );
        }
        for change in trace.capacities.iter_mut().filter(|c| c.cluster == *cluster) {
            let now = change.capacity.sum();
            change.capacity = ClusterCapacity::Sum(Resources {
                cpus: amounts.cpus_milli.unwrap_or(now.cpus),
                memory: amounts.memory_mib.unwrap_or(now.memory),
                disk: amounts.disk_mib.unwrap_or(now.disk),
                gpus: amounts.gpus_milli.unwrap_or(now.gpus),
            });
        }
    }
    trace
}

/// Where pools are that were somewhere else, by the path that they had.
#[derive(Debug, Clone, Default)]
struct Moves(BTreeMap<String, String>);

impl Moves {
    /// Where a pool is: it moves with the nearest one above it that does.
    fn to(&self, path: &str) -> String {
        let above = std::iter::successors(Some(path), |p| Some(PoolTree::parent(p)).filter(|p| *p != "/"));
        let mut found = above.filter_map(|p| Some((self.0.get(p)?, path.strip_prefix(p)?)));
        found
            .next()
            .map_or_else(|| path.to_owned(), |(to, rest)| format!("{to}{rest}"))
    }
}

/// The tree of a file, as if it were applied to the recorded one.
fn read_tree(file: &Path, before: &PoolTree, trace: &Trace) -> Result<(PoolTree, Moves), Failure> {
    let shown = file.display();
    let wrong = |why: String| Failure::wrong(format!("{shown}: {why}"));
    let wishes = file::read(file)?;
    let mut unread = Problems::default();
    let pools: Vec<Pool> = wishes
        .iter()
        .map(|wish| {
            let told = wish.pool.as_ref();
            told.map_or_else(
                || Pool::new(PoolId::new(""), ""),
                |told| read_pool(told, &told.path, &mut unread),
            )
        })
        .collect();
    let pools = unread.or(pools).map_err(|p| wrong(p.to_string()))?;
    let named = pools.iter().zip(&wishes).map(|(pool, wish)| PoolOrigin {
        path: &pool.path,
        moved_from: &wish.moved_from,
    });
    let (origins, mut found) = origins(&named.collect::<Vec<_>>(), before);
    let old = |path: &str| before.pools.get(origins.get(path)?);
    let tree = PoolTree {
        version: Version(1),
        pools: pools
            .iter()
            .map(|pool| {
                let id = old(&pool.path).map_or_else(|| PoolId::new(&pool.path), |p| p.id.clone());
                (pool.path.clone(), Pool { id, ..pool.clone() })
            })
            .collect(),
    };
    let moved = origins.into_iter().filter(|(path, from)| path != from);
    let moved = Moves(moved.map(|(path, from)| (from, path)).collect());
    let used: BTreeSet<String> = trace.jobs.iter().map(|j| moved.to(&j.pool)).collect();
    let missing = used.iter().filter(|path| !tree.pools.contains_key(*path));
    let mut missing: Vec<String> = missing
        .map(|path| format!("jobs of the trace are in `{path}`, which this tree does not have: add it, or say with moved_from what becomes of it"))
        .collect();
    found.extend(problems(&tree));
    found.extend(jobs_inside(&tree, |path| used.contains(path)));
    if found.is_empty() && missing.is_empty() {
        return Ok((tree, moved));
    }
    let mut all: Vec<String> = found.iter().map(ToString::to_string).collect();
    all.append(&mut missing);
    Err(wrong(all.join(&format!("\n{shown}: "))))
}

/// The pools that jobs of the trace name, all together first.
fn paths(trace: &Trace) -> BTreeSet<&str> {
    let named = trace.jobs.iter().map(|j| j.pool.as_str());
    std::iter::once(echelon_sim_replay::ALL).chain(named).collect()
}

/// What is told of waits.
const PERCENTILES: [(&str, usize); 3] = [("median", 50), ("95%", 95), ("longest", 100)];

impl Column {
    fn pool(&self, path: &str) -> Option<&PoolOutcome> {
        self.outcome.pools.get(&self.moved.to(path))
    }

    /// What ran of a kind, in tenths of a percent of what there was.
    fn use_of(&self, path: &str, at: usize) -> Option<u128> {
        let there = *self.outcome.capacity.get(at).filter(|n| **n > 0)?;
        let used = self.pool(path).and_then(|p| p.used.get(at)).copied();
        Some(used.unwrap_or_default() * 1000 / there)
    }

    /// Instances that were preempted, and the milliseconds that they had run, together; `None` where that was not looked at.
    fn preempted(&self, path: &str) -> Option<(u64, u128)> {
        let looked_at = self.outcome.capacity.iter().any(|n| *n > 0);
        looked_at.then(|| self.pool(path).map_or((0, 0), |p| (p.preempted, p.lost)))
    }

    fn value(&self, trace: &Trace) -> Value {
        let waits = |waits: &Waits| {
            let ms = |p| match waits.percentile(p) {
                Some(Wait::For(span)) => Some(span.0),
                _ => None,
            };
            json!({"median_ms": ms(50), "p95_ms": ms(95), "max_ms": ms(100), "never": waits.never()})
        };
        let pool = |path: &str| {
            let none = PoolOutcome::default();
            let told = self.pool(path).unwrap_or(&none);
            let used = Kind::ALL.into_iter().enumerate();
            let used: BTreeMap<&str, u128> = used
                .filter_map(|(at, kind)| Some((kind.word(), self.use_of(path, at)?)))
                .collect();
            json!({
                "pool": path,
                "jobs": told.first.jobs(),
                "first_instance": waits(&told.first),
                "last_instance": waits(&told.last),
                "used_per_mille": used,
                "preemptions": self.preempted(path).map(|(n, _)| n),
                "preempted_ms": self.preempted(path).map(|(_, lost)| lost),
            })
        };
        let pools: Vec<Value> = paths(trace).into_iter().map(pool).collect();
        json!({"name": self.name, "pools": pools})
    }
}

fn people(trace: &Trace, columns: &[Column]) -> String {
    let mut rows = Vec::new();
    for path in paths(trace) {
        let mut row = |what: String, cell: &dyn Fn(&Column) -> String| {
            let head = [path.to_owned(), what];
            rows.push(
                head.into_iter()
                    .chain(columns.iter().map(cell))
                    .collect::<Vec<_>>(),
            );
        };
        let of = |c: &Column, which: fn(&PoolOutcome) -> &Waits| c.pool(path).map(which).cloned();
        let jobs = |c: &Column| of(c, |p| &p.first).map_or(0, |w| w.jobs()).to_string();
        row("jobs".to_owned(), &jobs);
        for (name, which) in [
            ("first", (|p| &p.first) as fn(&PoolOutcome) -> &Waits),
            ("last", |p| &p.last),
        ] {
            for (percentile, p) in PERCENTILES {
                let wait = |c: &Column| {
                    of(c, which)
                        .and_then(|w| w.percentile(p))
                        .map_or("-".to_owned(), wait)
                };
                row(format!("{name} instance, {percentile}"), &wait);
            }
            let never = |c: &Column| of(c, which).map_or(0, |w| w.never());
            if columns.iter().any(|c| never(c) > 0) {
                row(format!("{name} instance, never"), &|c| never(c).to_string());
            }
        }
        let preempted = |c: &Column| c.preempted(path);
        if columns.iter().filter_map(preempted).any(|(n, _)| n > 0) {
            let count = |c: &Column| preempted(c).map_or("-".to_owned(), |(n, _)| n.to_string());
            row("preemptions".to_owned(), &count);
            let lost = |c: &Column| preempted(c).map_or("-".to_owned(), |(_, lost)| span(lost));
            row("time of instances lost".to_owned(), &lost);
        }
        for (at, kind) in Kind::ALL.into_iter().enumerate() {
            let used = |c: &Column| c.use_of(path, at);
            if columns.iter().any(|c| used(c).is_some()) {
                let percent = |n: u128| format!("{}.{}%", n / 10, n % 10);
                row(format!("use of {kind}"), &|c| {
                    used(c).map_or("-".to_owned(), percent)
                });
            }
        }
    }
    let heads = ["POOL".to_owned(), "WHAT".to_owned()].into_iter();
    let heads = heads.chain(columns.iter().map(|c| output::escape(&c.name)));
    output::lines(heads, rows.iter().map(|r| r.iter()))
}

/// A wait for people; what is left over of the smallest unit told is left out.
fn wait(wait: Wait) -> String {
    let Wait::For(span) = wait else {
        return "never".to_owned();
    };
    self::span(u128::from(span.0))
}

fn span(ms: u128) -> String {
    match ms {
        ms if ms < 1_000 => format!("{ms}ms"),
        ms if ms < 60_000 => format!("{}.{}s", ms / 1_000, ms / 100 % 10),
        ms if ms < 3_600_000 => format!("{}m{:02}s", ms / 60_000, ms / 1_000 % 60),
        ms => format!("{}h{:02}m", ms / 3_600_000, ms / 60_000 % 60),
    }
}

#[cfg(test)]
mod tests;
