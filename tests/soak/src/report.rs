//! Judges a history, prints what is broken, and keeps the rows of the table.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use echelon_tests_judge::{Broken, Event, History, Row, Rule, count_by_fault, date_of, judge, markdown};

use crate::clock;
use crate::fault::Shape;

/// How many breaches of each rule are shown.
const SHOWN: usize = 10;

/// Breaches that fail a run. A failed try while something is away is no breach.
const HARD: [Rule; 13] = [
    Rule::Missing,
    Rule::Again,
    Rule::Twice,
    Rule::NotRunning,
    Rule::NotStopped,
    Rule::Wrong,
    Rule::GivenUp,
    Rule::Missed,
    Rule::Recovery,
    Rule::Agents,
    Rule::Touched,
    Rule::FailedAgain,
    Rule::Memory,
];

/// Judges, prints and keeps; whether the run passes.
///
/// # Errors
/// The table cannot be written.
pub fn report(history: &History, within: Duration, table: Option<&Path>) -> Result<bool> {
    let broken = judge(history, u64::try_from(within.as_millis())?);
    show(&broken);
    let rows = count_by_fault(history, &broken);
    let skipped = rows.iter().filter_map(|row| Some((row, row.skipped.as_ref()?)));
    for (row, why) in skipped {
        println!("\nSKIPPED: {}: {why}", row.fault);
    }
    println!("\n{}", markdown(&rows));
    if let Some(path) = table {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .with_context(|| format!("open the table {}", path.display()))?;
        for row in &rows {
            writeln!(file, "{}", serde_json::to_string(row)?)?;
        }
    }
    Ok(!broken.iter().any(|found| HARD.contains(&found.rule)))
}

/// The rows of a table as markdown.
///
/// # Errors
/// The file cannot be read.
pub fn table(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("read the table {}", path.display()))?;
    let rows: Vec<Row> = text
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()
        .with_context(|| format!("a row of {}", path.display()))?;
    Ok(markdown(&rows))
}

fn show(broken: &[Broken]) {
    let mut by_rule: BTreeMap<Rule, Vec<&Broken>> = BTreeMap::new();
    for found in broken {
        by_rule.entry(found.rule).or_default().push(found);
    }
    for (rule, found) in by_rule {
        let weight = if HARD.contains(&rule) { "BROKEN" } else { "counted" };
        println!("\n{weight}: {rule:?}, {} times", found.len());
        for one in found.iter().take(SHOWN) {
            let text: String = one.text.chars().take(300).collect();
            println!("  {:>8} ms  {text}", one.at);
        }
    }
}

/// What is judged.
///
/// # Errors
/// There is no clock.
pub fn started(shape: Shape) -> Result<Event> {
    Ok(Event::Started {
        date: date_of(clock::wall()?),
        machine: machine(),
        commit: commit(),
        shape: shape.name().to_owned(),
    })
}

/// Cores, kind of CPU and memory.
fn machine() -> String {
    let cores = thread_count();
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next());
    let gib = kib
        .and_then(|kib| kib.parse::<u64>().ok())
        .map(|kib| kib / 1024 / 1024);
    format!(
        "{cores} cores ({}), {} GiB",
        model.map_or("unknown CPU", |(_, model)| model),
        gib.map_or_else(|| "?".to_owned(), |gib| gib.to_string())
    )
}

fn thread_count() -> String {
    std::thread::available_parallelism().map_or_else(|_| "?".to_owned(), |n| n.to_string())
}

/// The commit that stands here, with a mark when files differ from it.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=7", "HEAD"]) else {
        return "unknown".to_owned();
    };
    match git(&["status", "--porcelain"]) {
        Some(changed) if changed.is_empty() => commit,
        _ => format!("{commit} and changes"),
    }
}
