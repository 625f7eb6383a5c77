//! Events that a watcher should have seen and did not.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Event, History};
use crate::{Broken, Rule};

pub(crate) fn judge(history: &History) -> Vec<Broken> {
    let mut began: BTreeMap<(u32, &str), u64> = BTreeMap::new();
    let mut seen: BTreeMap<(u32, &str), BTreeSet<&str>> = BTreeMap::new();
    let mut stored: BTreeMap<&str, (u64, &Vec<(u64, String)>)> = BTreeMap::new();
    for line in &history.lines {
        match &line.event {
            Event::WatchBegan { watcher, job, wall } => {
                began.entry((*watcher, job)).or_insert(*wall);
            }
            Event::Saw { watcher, job, events } => seen
                .entry((*watcher, job))
                .or_default()
                .extend(events.iter().map(String::as_str)),
            Event::Stored { job, events } => {
                stored.insert(job, (line.at, events));
            }
            _ => {}
        }
    }
    let none = BTreeSet::new();
    let mut broken = Vec::new();
    for ((watcher, job), since) in began {
        let Some((at, events)) = stored.get(job) else {
            continue;
        };
        let seen = seen.get(&(watcher, job)).unwrap_or(&none);
        let missed = events
            .iter()
            .filter(|(wall, name)| *wall > since && !seen.contains(name.as_str()));
        broken.extend(missed.map(|(_, name)| {
            let text = format!("watcher {watcher} of {job} missed {name}");
            Broken::new(Rule::Missed, *at, text)
        }));
    }
    broken
}
