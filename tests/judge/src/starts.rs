//! Instances that failed more than once on a host that fails everything, while others had room.

use std::collections::BTreeMap;

use crate::history::{Event, History, TaskEnd};
use crate::{Broken, Rule};

/// A host that fails now.
struct Failing<'a> {
    host: &'a str,
    /// What its agent says of each task; none where the tasks begin and fail by themselves.
    words: Option<&'a str>,
    /// Runs that failed there, by their instances.
    failed: BTreeMap<&'a str, Vec<&'a str>>,
}

pub(crate) fn judge(history: &History) -> Vec<Broken> {
    let mut hosts: BTreeMap<&str, &str> = BTreeMap::new();
    let mut failing: Option<Failing<'_>> = None;
    let mut broken = Vec::new();
    for line in &history.lines {
        let run = match (&line.event, &failing) {
            (Event::Began { run, host, .. }, _) => {
                hosts.insert(run, host);
                continue;
            }
            (Event::HostFails { host }, _) => {
                failing = Some(Failing::new(host, None));
                continue;
            }
            (Event::AgentFails { host, words }, _) => {
                failing = Some(Failing::new(host, Some(words)));
                continue;
            }
            // what failed before is read a little later than the host is well again
            (Event::Ending { run, code, .. }, Some(now)) if now.words.is_none() => {
                let is_failure = code.is_some_and(|code| code != 0);
                if !is_failure || hosts.get(run.as_str()) != Some(&now.host) {
                    continue;
                }
                run
            }
            (
                Event::AgentEnded {
                    run,
                    how: TaskEnd::NotStarted(why),
                },
                Some(now),
            ) if now.words.is_some_and(|words| why.contains(words)) => run,
            _ => continue,
        };
        let Some(now) = &mut failing else { continue };
        let Some(instance) = instance_of(run) else {
            let text = format!("run {run} has no name of a run");
            broken.push(Broken::new(Rule::FailedAgain, line.at, text));
            continue;
        };
        let runs = now.failed.entry(instance).or_default();
        if runs.contains(&run.as_str()) {
            continue;
        }
        if let Some(first) = runs.first() {
            let text = format!("run {run} failed on {} as run {first} had", now.host);
            broken.push(Broken::new(Rule::FailedAgain, line.at, text));
        }
        runs.push(run);
    }
    broken
}

impl<'a> Failing<'a> {
    fn new(host: &'a str, words: Option<&'a str>) -> Self {
        Self {
            host,
            words,
            failed: BTreeMap::new(),
        }
    }
}

/// The instance of a run: `JOB.GROUP.INDEX` of `JOB.GROUP.INDEX.GENERATION.RUN`.
fn instance_of(run: &str) -> Option<&str> {
    let (generation, _) = run.rsplit_once('.')?;
    let (instance, _) = generation.rsplit_once('.')?;
    Some(instance)
}
