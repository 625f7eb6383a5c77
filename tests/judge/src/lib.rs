//! The outside judge: reads what happened, and says what was lost, run twice or answered wrongly.
//!
//! It shares no code with the product and knows nothing of it but its names. What it reads was written by the tasks
//! themselves, by clients and watchers of the API, by the simulated agents and by the masters, or read from storage by plain CQL.

mod absences;
mod agents;
mod answers;
mod backups;
mod history;
mod lives;
mod memory;
mod row;
mod starts;
mod stored;
mod time;
mod watches;
mod work;

pub use history::{Event, GroupCounts, History, JobView, Kind, Line, Outcome, StoredJob, TaskEnd, Wish};
pub use row::{Counts, Row, count_by_fault, markdown};
pub use time::{date_of, millis_of};

/// A rule that the product promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// An acknowledged job is there.
    Missing,
    /// Finished work does not run again.
    Again,
    /// At most one run of an instance lives.
    Twice,
    /// Wanted work is done, or runs, in the end.
    NotRunning,
    /// What was stopped runs no more in the end.
    NotStopped,
    /// An answer is true.
    Wrong,
    /// A try of a request gets an answer. Those that do not during a fault are counted, and are no failure.
    Error,
    /// A request that is repeated as the API asks gets an answer in the end.
    GivenUp,
    /// A watcher sees each event.
    Missed,
    /// A fresh job runs within the promised time after a fault.
    Recovery,
    /// What agents and masters say is what the tasks say.
    Agents,
    /// Work of which a row cannot be read is left as it is.
    Touched,
    /// An instance fails at most once on a host that fails everything, while others have room.
    FailedAgain,
    /// A request takes little memory.
    Memory,
}

/// A rule that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Which.
    pub rule: Rule,
    /// When, by the history's clock.
    pub at: u64,
    /// What happened.
    pub text: String,
}

impl Broken {
    fn new(rule: Rule, at: u64, text: String) -> Self {
        Self { rule, at, text }
    }
}

/// How much later than its true moment a mark may be noticed, in milliseconds.
pub const TOLERANCE_MS: u64 = 200;

/// Applies every rule. `recover_within` is the longest recovery in milliseconds.
#[must_use]
pub fn judge(history: &History, recover_within: u64) -> Vec<Broken> {
    let lives = lives::of(history);
    let mut broken = work::judge(history, &lives);
    broken.extend(answers::judge(history, &lives));
    broken.extend(stored::judge(history, &lives));
    broken.extend(watches::judge(history));
    broken.extend(agents::judge(history, &lives));
    broken.extend(starts::judge(history));
    broken.extend(memory::judge(history));
    broken.extend(row::late(history, recover_within));
    broken.sort_by_key(|found| (found.at, found.rule));
    broken
}

#[cfg(test)]
mod tests;
