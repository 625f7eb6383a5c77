//! `echelon bench replay`: the same demands through the resource manager's own state machine, with storage
//! and shards that take their time, and what deciding cost. Figures do not depend on the machine, but for
//! the longest step. They are kept with `--save` and compared with `--against`, to judge a change of the
//! resource manager.

use super::machine;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use echelon_cli::{demand_trace, output};
use echelon_core_model::pool::PoolTree;
use echelon_sim_replay::compare::{Comparison, Criterion, compare};
use echelon_sim_replay::demand::Demand;
use echelon_sim_replay::{ALL, Delays, Figures, PoolFigures, Trace, replay_around};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Flags.
#[derive(Debug, Args)]
pub struct Flags {
    /// Demands; all of them when none is named
    #[arg(long, value_enum)]
    demand: Vec<Name>,
    /// Seed of the demands but `example`, which is a file
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the figures to a file, to compare with
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Compare with the figures of a file; fails where a criterion is missed
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
}

/// A demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// The trace of examples/traces
    Example,
    /// Nested and contested pools, above the capacity of three clusters for an hour
    Nested,
    /// 20,000 small and short jobs of 40 pools on three clusters
    Small,
    /// Twenty jobs of up to 100,000 instances on four clusters that join and leave
    Large,
    /// Batch work, services and stateful services, each bound to a cluster of its own
    Dedicated,
    /// The same work and the same clusters as one federation
    Shared,
}

impl Name {
    const ALL: [Self; 6] = [
        Self::Example,
        Self::Nested,
        Self::Small,
        Self::Large,
        Self::Dedicated,
        Self::Shared,
    ];

    /// How it is made; `None`: it is a file.
    const fn demand(self) -> Option<Demand> {
        match self {
            Self::Example => None,
            Self::Nested => Some(Demand::Nested),
            Self::Small => Some(Demand::Small),
            Self::Large => Some(Demand::Large),
            Self::Dedicated => Some(Demand::Dedicated),
            Self::Shared => Some(Demand::Shared),
        }
    }

    fn word(self) -> &'static str {
        self.demand().map_or("example", Demand::name)
    }

    /// The trace, its pools, and the seed of it.
    fn make(self, seed: u64) -> Result<(Trace, PoolTree, u64)> {
        let Some(demand) = self.demand() else {
            let text = include_str!("../../../examples/traces/events.jsonl");
            let read = demand_trace::read("examples/traces/events.jsonl", text.as_bytes());
            let read = read.map_err(|why| anyhow::anyhow!("{why}"))?;
            return Ok((read.trace, read.tree, 0));
        };
        let (trace, tree) = demand.make(seed);
        Ok((trace, tree, seed))
    }
}

/// What is kept of runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    runs: Vec<Figures>,
}

/// What ran, and what it took by the clock.
struct Run {
    figures: Figures,
    longest_step: Duration,
    whole: Duration,
}

pub(super) fn run(flags: &Flags) -> Result<()> {
    let before = flags.against.as_deref().map(read).transpose()?;
    let names = if flags.demand.is_empty() {
        &Name::ALL[..]
    } else {
        &flags.demand[..]
    };
    let mut runs = Vec::new();
    for name in names {
        let run = one(*name, flags.seed)?;
        output::line(format_args!(
            "{}: {:.1} s, longest step {:.1} ms",
            name.word(),
            run.whole.as_secs_f64(),
            ms(run.longest_step)
        ));
        runs.push(run);
    }
    output::line(table(&runs).trim_end());
    if let Some(file) = &flags.save {
        let saved = Saved {
            runs: runs.iter().map(|run| run.figures.clone()).collect(),
        };
        let text = serde_json::to_string(&saved).context("encode the figures")?;
        std::fs::write(file, text).with_context(|| format!("write {}", file.display()))?;
    }
    let mut missed = 0;
    for run in &runs {
        let Some(before) = &before else { break };
        let old = before.runs.iter().find(|old| old.demand == run.figures.demand);
        let Some(old) = old else {
            bail!("the saved figures have no demand {}", run.figures.demand);
        };
        let compared = compare(old, &run.figures)?;
        missed += compared.criteria.iter().filter(|c| !c.is_met()).count();
        output::line(format_args!("{}, against what was saved:", run.figures.demand));
        output::line(criteria(&compared).trim_end());
    }
    let figures: serde_json::Map<String, serde_json::Value> = runs
        .iter()
        .map(|run| (run.figures.demand.clone(), json(run)))
        .collect();
    output::line(json!({"bench": "replay", "figures": figures, "machine": machine()}));
    if missed > 0 {
        bail!("{missed} criteria are missed");
    }
    Ok(())
}

fn read(file: &Path) -> Result<Saved> {
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} holds no figures of a replay", file.display()))
}

fn one(name: Name, seed: u64) -> Result<Run> {
    let (trace, tree, seed) = name.make(seed)?;
    let began = Instant::now();
    let mut longest_step = Duration::ZERO;
    let outcome = replay_around(&trace, &tree, Delays::USUAL, &mut |step| {
        let began = Instant::now();
        step();
        longest_step = longest_step.max(began.elapsed());
    })?;
    Ok(Run {
        figures: Figures::new(name.word(), seed, &outcome),
        longest_step,
        whole: began.elapsed(),
    })
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1000.0
}

/// Work in cores, in thousandths of what demand and capacity allowed.
fn work_per_mille(figures: &Figures) -> Option<u64> {
    let cpus = |of: &BTreeMap<String, u64>| of.get("cpus").copied().map(u128::from);
    let (done, allowed) = cpus(&figures.work).zip(cpus(&figures.allowed))?;
    u64::try_from(done * 1000 / allowed.max(1)).ok()
}

/// A figure of a run, by name.
type Column = (&'static str, fn(&Figures) -> Option<u64>);

fn of_all(figures: &Figures, of: fn(&PoolFigures) -> Option<u64>) -> Option<u64> {
    figures.pools.get(ALL).and_then(of)
}

/// The columns of the table; all pools are counted together.
const COLUMNS: [Column; 20] = [
    ("jobs", |f| of_all(f, |p| Some(p.jobs))),
    ("starts", |f| Some(f.starts)),
    ("first_mean_ms", |f| of_all(f, |p| p.first_mean_ms)),
    ("first_p50_ms", |f| of_all(f, |p| p.first_median_ms)),
    ("first_p99_ms", |f| of_all(f, |p| p.first_p99_ms)),
    ("last_mean_ms", |f| of_all(f, |p| p.last_mean_ms)),
    ("last_p50_ms", |f| of_all(f, |p| p.last_median_ms)),
    ("last_p99_ms", |f| of_all(f, |p| p.last_p99_ms)),
    ("work_per_mille", work_per_mille),
    ("preemptions", |f| Some(f.preemptions)),
    ("conditional_writes", |f| Some(f.conditional_writes)),
    ("owned_commits", |f| Some(f.owned_commits)),
    ("orders", |f| Some(f.orders)),
    ("directives", |f| Some(f.directives)),
    ("reports", |f| Some(f.reports)),
    ("messages", |f| Some(f.messages)),
    ("moves", |f| Some(f.moves)),
    ("returns", |f| Some(f.returns)),
    ("peak_waiting", |f| Some(f.peak_waiting)),
    ("peak_held", |f| Some(f.peak_held)),
];

fn shown(figure: Option<u64>) -> String {
    figure.map_or_else(|| "never".to_owned(), |n| n.to_string())
}

/// A row for each figure, a column for each demand: so it fits a terminal.
fn table(runs: &[Run]) -> String {
    let rows: Vec<Vec<String>> = COLUMNS
        .iter()
        .map(|(name, of)| {
            let figures = runs.iter().map(|run| shown(of(&run.figures)));
            std::iter::once((*name).to_owned()).chain(figures).collect()
        })
        .collect();
    let heads = std::iter::once("FIGURE".to_owned());
    let heads = heads.chain(runs.iter().map(|run| run.figures.demand.clone()));
    output::lines(heads, rows.iter().map(|row| row.iter()))
}

fn json(run: &Run) -> serde_json::Value {
    let figures = COLUMNS
        .iter()
        .map(|(name, of)| ((*name).to_owned(), json!(of(&run.figures))));
    let mut all: serde_json::Map<String, serde_json::Value> = figures.collect();
    let longest = (ms(run.longest_step) * 100.0).round() / 100.0;
    all.insert("longest_step_ms".to_owned(), json!(longest));
    serde_json::Value::Object(all)
}

fn criteria(compared: &Comparison) -> String {
    let heads = [
        "CRITERION",
        "RESULT",
        "BEFORE",
        "AFTER",
        "BOUND",
        "MISSED",
        "WORST POOL",
    ];
    let row = |c: &Criterion| {
        let Criterion {
            measure,
            pool,
            before,
            after,
            bound,
            missed: (missed, of),
        } = c;
        vec![
            measure.to_string(),
            if c.is_met() { "met" } else { "missed" }.to_owned(),
            shown(*before),
            shown(*after),
            bound.map_or_else(|| "none".to_owned(), |n| n.to_string()),
            format!("{missed} of {of}"),
            pool.clone().unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = compared.criteria.iter().map(row).collect();
    let mut text = output::lines(
        heads.map(str::to_owned).into_iter(),
        rows.iter().map(|r| r.iter()),
    );
    if let Some(d) = &compared.difference {
        text += &format!(
            "largest difference of amounts: {} of {} in {} at second {}: {} before, {} after\n",
            d.size(),
            d.kind,
            d.pool,
            d.second,
            d.before,
            d.after
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_figures_are_read_again_and_meet_what_they_must_against_themselves() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("figures.json");
        let run = one(Name::Example, 1).unwrap();
        let saved = Saved {
            runs: vec![run.figures.clone()],
        };
        std::fs::write(&file, serde_json::to_string(&saved).unwrap()).unwrap();
        assert_eq!(read(&file).unwrap(), saved);
        let compared = compare(&saved.runs[0], &run.figures).unwrap();
        let missed: Vec<String> = compared
            .criteria
            .iter()
            .filter(|c| !c.is_met())
            .map(|c| c.measure.to_string())
            .collect();
        assert_eq!(
            missed,
            ["slices ordered and reported"],
            "as many as before are not a third"
        );
        assert!(criteria(&compared).contains("missed"));
        assert!(table(&[run]).contains("conditional_writes"));
    }

    #[test]
    fn a_file_without_figures_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("other.json");
        std::fs::write(&file, "{}").unwrap();
        let why = format!("{:#}", read(&file).unwrap_err());
        assert!(why.contains("other.json holds no figures of a replay"), "{why}");
    }
}
