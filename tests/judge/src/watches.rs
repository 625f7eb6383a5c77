//! Events that a watcher should have seen and did not.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Event, History};
use crate::{Broken, Rule};

/// What a watcher of a job knew: what was there when it began, and what it saw.
type Known<'a> = BTreeMap<(u32, &'a str), BTreeSet<&'a str>>;

pub(crate) fn judge(history: &History) -> Vec<Broken> {
    let mut known = Known::new();
    // when a job's events were read in the end, and what they were
    let mut stored: BTreeMap<&str, (u64, &Vec<String>)> = BTreeMap::new();
    let mut ended: BTreeSet<(u32, &str)> = BTreeSet::new();
    for line in &history.lines {
        match &line.event {
            Event::WatchBegan {
                watcher,
                job,
                before: events,
            }
            | Event::Saw { watcher, job, events } => known
                .entry((*watcher, job))
                .or_default()
                .extend(events.iter().map(String::as_str)),
            Event::WatchEnded { watcher, job } => {
                ended.insert((*watcher, job));
            }
            // these jobs had ended and may run again, which is another history than the one that was watched
            Event::BackupBack => known.retain(|watch, _| !ended.contains(watch)),
            Event::Stored { job, events } => {
                stored.insert(job, (line.at, events));
            }
            _ => {}
        }
    }
    let mut broken = Vec::new();
    for ((watcher, job), known) in known {
        let Some((at, events)) = stored.get(job) else {
            continue;
        };
        let missed = events.iter().filter(|name| !known.contains(name.as_str()));
        broken.extend(missed.map(|name| {
            let text = format!("watcher {watcher} of {job} missed {name}");
            Broken::new(Rule::Missed, *at, text)
        }));
    }
    broken
}
