//! What is published: a row for each fault of a run, and the table of many rows.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::history::{Event, History};
use crate::{Broken, Rule};

/// The row of what no single fault is to blame for: what is missing or undone when all is over.
const IN_THE_END: &str = "in the end";

/// How often each rule was broken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Acknowledged jobs missing.
    pub missing: usize,
    /// Finished work run again.
    pub again: usize,
    /// Two runs at once.
    pub twice: usize,
    /// Wanted work not done or not running, or stopped work running, in the end.
    pub not_running: usize,
    /// Wrong answers.
    pub wrong: usize,
    /// Tries without an answer.
    pub errors: usize,
    /// Requests without an answer after all tries.
    pub given_up: usize,
    /// Events missed by watchers.
    pub missed: usize,
    /// Differences between tasks, agents and masters.
    pub agents: usize,
    /// Recoveries later than promised.
    pub late: usize,
    /// Instances that failed more than once on a host that fails everything.
    pub failed_again: usize,
    /// Processes that took more memory than they may.
    pub memory: usize,
}

impl Counts {
    fn add(&mut self, rule: Rule) {
        let count = match rule {
            Rule::Missing => &mut self.missing,
            Rule::Again => &mut self.again,
            Rule::Twice => &mut self.twice,
            Rule::NotRunning | Rule::NotStopped | Rule::Touched => &mut self.not_running,
            Rule::Wrong => &mut self.wrong,
            Rule::Error => &mut self.errors,
            Rule::GivenUp => &mut self.given_up,
            Rule::Missed => &mut self.missed,
            Rule::Recovery => &mut self.late,
            Rule::Agents => &mut self.agents,
            Rule::FailedAgain => &mut self.failed_again,
            Rule::Memory => &mut self.memory,
        };
        *count += 1;
    }

    fn plus(self, other: Self) -> Self {
        Self {
            missing: self.missing + other.missing,
            again: self.again + other.again,
            twice: self.twice + other.twice,
            not_running: self.not_running + other.not_running,
            wrong: self.wrong + other.wrong,
            errors: self.errors + other.errors,
            given_up: self.given_up + other.given_up,
            missed: self.missed + other.missed,
            agents: self.agents + other.agents,
            late: self.late + other.late,
            failed_again: self.failed_again + other.failed_again,
            memory: self.memory + other.memory,
        }
    }
}

/// The memory of a process, in KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peak {
    /// What it had before.
    pub before: u64,
    /// The most that it had meanwhile.
    pub peak: u64,
    /// The most that it may have had.
    pub most: u64,
}

/// One fault of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The day of the run.
    pub date: String,
    /// What it ran on.
    pub machine: String,
    /// The commit that ran.
    pub commit: String,
    /// The processes: `federation` or `standalone`.
    pub shape: String,
    /// The fault's name.
    pub fault: String,
    /// Broken rules from this fault's beginning to the next one's.
    #[serde(flatten)]
    pub counts: Counts,
    /// From the fault's beginning to the acknowledgement of a fresh job, in milliseconds.
    pub acknowledged_ms: Option<u64>,
    /// From the fault's beginning to that job's running, in milliseconds.
    pub recovery_ms: Option<u64>,
    /// How long the fault lasted.
    pub lasted_ms: Option<u64>,
    /// The most memory that a process took which was asked for what should take little.
    pub peak: Option<Peak>,
    /// Why it was not played, if it was not.
    #[serde(default)]
    pub skipped: Option<String>,
}

/// A fault of a history.
struct Fault<'a> {
    name: &'a str,
    from: u64,
    to: Option<u64>,
    blocks: bool,
    acknowledged: Option<u64>,
    began: Option<u64>,
    peak: Option<Peak>,
}

fn faults(history: &History) -> Vec<Fault<'_>> {
    let mut faults: BTreeMap<u32, Fault<'_>> = BTreeMap::new();
    for line in &history.lines {
        match &line.event {
            Event::FaultBegan {
                fault, name, blocks, ..
            } => {
                faults.insert(
                    *fault,
                    Fault {
                        name,
                        from: line.at,
                        to: None,
                        blocks: *blocks,
                        acknowledged: None,
                        began: None,
                        peak: None,
                    },
                );
            }
            Event::FaultEnded { fault } => {
                if let Some(of) = faults.get_mut(fault) {
                    of.to = Some(line.at);
                }
            }
            Event::Memory {
                before, peak, most, ..
            } => {
                // it is told while its fault is the last one that has begun
                if let Some(mut of) = faults.last_entry() {
                    of.get_mut().peak = Some(Peak {
                        before: *before,
                        peak: *peak,
                        most: *most,
                    });
                }
            }
            Event::Probed {
                fault,
                acknowledged,
                began,
            } => {
                if let Some(of) = faults.get_mut(fault) {
                    (of.acknowledged, of.began) = (*acknowledged, *began);
                }
            }
            _ => {}
        }
    }
    faults.into_values().collect()
}

/// Recoveries that took longer than promised: counted from the fault's beginning, or from its end where it blocks all.
pub(crate) fn late(history: &History, within: u64) -> Vec<Broken> {
    let faults = faults(history);
    let mut broken = Vec::new();
    for fault in &faults {
        let from = if fault.blocks {
            fault.to.unwrap_or(fault.from)
        } else {
            fault.from
        };
        let text = match fault.began {
            None => format!("{}: a fresh job never ran", fault.name),
            Some(began) if began.saturating_sub(from) > within => {
                let took = began.saturating_sub(from);
                format!(
                    "{}: a fresh job ran after {took} ms, {within} were promised",
                    fault.name
                )
            }
            Some(_) => continue,
        };
        broken.push(Broken::new(Rule::Recovery, fault.from, text));
    }
    broken
}

/// What all rows of a run share; none of a history that does not say what it is about.
fn of_run(history: &History) -> Option<Row> {
    history.lines.iter().find_map(|line| match &line.event {
        Event::Started {
            date,
            machine,
            commit,
            shape,
        } => Some(Row {
            date: date.clone(),
            machine: machine.clone(),
            commit: commit.clone(),
            shape: shape.clone(),
            fault: String::new(),
            counts: Counts::default(),
            acknowledged_ms: None,
            recovery_ms: None,
            lasted_ms: None,
            peak: None,
            skipped: None,
        }),
        _ => None,
    })
}

/// A row for each fault with the rules broken from its beginning on, and one for what is wrong in the end; none of a
/// history that does not say what it is about.
#[must_use]
pub fn count_by_fault(history: &History, broken: &[Broken]) -> Vec<Row> {
    let Some(of_run) = of_run(history) else {
        return Vec::new();
    };
    let faults = faults(history);
    let mut rows: Vec<Row> = faults
        .iter()
        .map(|fault| {
            let since = |at: Option<u64>| at.map(|at| at.saturating_sub(fault.from));
            Row {
                fault: fault.name.to_owned(),
                acknowledged_ms: since(fault.acknowledged),
                recovery_ms: since(fault.began),
                lasted_ms: since(fault.to),
                peak: fault.peak,
                ..of_run.clone()
            }
        })
        .collect();
    let mut in_the_end = Row {
        fault: IN_THE_END.to_owned(),
        ..of_run.clone()
    };
    for found in broken {
        let is_of_whole = matches!(
            found.rule,
            Rule::Missing | Rule::NotRunning | Rule::NotStopped | Rule::Missed
        );
        let begun = faults.iter().filter(|fault| fault.from <= found.at).count();
        let place = begun.checked_sub(1).filter(|_| !is_of_whole);
        let row = place.and_then(|place| rows.get_mut(place));
        row.unwrap_or(&mut in_the_end).counts.add(found.rule);
    }
    rows.push(in_the_end);
    for line in &history.lines {
        if let Event::Skipped { name, why } = &line.event {
            rows.push(Row {
                fault: name.clone(),
                skipped: Some(why.clone()),
                ..of_run.clone()
            });
        }
    }
    rows
}

/// The rows as a table, one line for each fault, shape, commit and machine.
#[must_use]
pub fn markdown(rows: &[Row]) -> String {
    let mut groups: BTreeMap<(&str, &str, &str, &str), Vec<&Row>> = BTreeMap::new();
    for row in rows {
        groups
            .entry((&row.shape, &row.fault, &row.commit, &row.machine))
            .or_default()
            .push(row);
    }
    let mut table = String::from(
        "| shape | fault | runs | jobs lost | run again | two at once | not as wanted | wrong answers | agents differ \
         | failed again | failed tries | given up | events missed | memory: worst of most | recovery: median, worst \
         | commit | machine | last run |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for ((shape, fault, commit, machine), of_group) in groups {
        let sum = of_group
            .iter()
            .fold(Counts::default(), |sum, row| sum.plus(row.counts));
        let date = of_group.iter().map(|row| row.date.as_str()).max().unwrap_or("");
        let _ = writeln!(
            table,
            "| {shape} | {fault} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {commit} | {machine} | {date} |",
            runs(&of_group),
            sum.missing,
            sum.again,
            sum.twice,
            sum.not_running,
            sum.wrong,
            sum.agents,
            sum.failed_again,
            sum.errors,
            sum.given_up,
            sum.missed,
            memory(&of_group),
            recovery(&of_group),
        );
    }
    table
}

/// The most memory that a process took, and the most that it may have taken, in MiB.
/// Empty where none was looked at.
fn memory(rows: &[&Row]) -> String {
    let worst = rows
        .iter()
        .filter_map(|row| row.peak)
        .max_by_key(|peak| peak.peak);
    worst.map_or_else(String::new, |worst| {
        format!("{} of {} MiB", worst.peak.div_ceil(1024), worst.most / 1024)
    })
}

/// How often a fault was played, and how often it was not since the machine cannot.
fn runs(rows: &[&Row]) -> String {
    let skipped = rows.iter().filter(|row| row.skipped.is_some()).count();
    let played = rows.len() - skipped;
    if skipped == 0 {
        played.to_string()
    } else {
        format!("{played} ({skipped} skipped)")
    }
}

/// Median and worst recovery; a fault after which nothing ran counts as never.
fn recovery(rows: &[&Row]) -> String {
    let mut took: Vec<u64> = rows.iter().filter_map(|row| row.recovery_ms).collect();
    took.sort_unstable();
    let faults = rows.iter().filter(|row| row.lasted_ms.is_some());
    let never = faults.filter(|row| row.recovery_ms.is_none()).count();
    let shown = |millis: u64| format!("{}.{} s", millis / 1000, millis % 1000 / 100);
    match (took.get(took.len() / 2), took.last()) {
        (Some(median), Some(worst)) if never == 0 => format!("{}, {}", shown(*median), shown(*worst)),
        (Some(median), Some(_)) => format!("{}, never ({never})", shown(*median)),
        _ if never > 0 => format!("never ({never})"),
        _ => String::new(),
    }
}
