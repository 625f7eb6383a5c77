//! The life of each process of each instance, from its own marks and its lock.

use std::collections::BTreeMap;

use crate::history::{Event, History, TaskEnd};

/// One process of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Life {
    pub run: String,
    pub pid: u32,
    pub host: String,
    pub began: u64,
    /// It surely lived until then; none: it lives still.
    pub alive_until: Option<u64>,
    /// When it finished its work, and its agent does not say otherwise.
    pub done: Option<u64>,
}

/// Lives by job and instance, in the order of their beginnings.
pub(crate) type Lives = BTreeMap<(String, u32), Vec<Life>>;

/// All of a history.
pub(crate) fn of(history: &History) -> Lives {
    let mut lives = Lives::new();
    let mut owners: BTreeMap<(&str, u32), (String, u32)> = BTreeMap::new();
    for line in &history.lines {
        if let Event::Began {
            job,
            index,
            run,
            pid,
            host,
            ..
        } = &line.event
        {
            let owner = (job.clone(), *index);
            owners.insert((run, *pid), owner.clone());
            lives.entry(owner).or_default().push(Life {
                run: run.clone(),
                pid: *pid,
                host: host.clone(),
                began: line.at,
                alive_until: None,
                done: None,
            });
        }
    }
    let killed = killed(history);
    for line in &history.lines {
        let (run, pid) = match &line.event {
            Event::Ending { run, pid, .. } | Event::Gone { run, pid, .. } => (run.as_str(), *pid),
            _ => continue,
        };
        let Some(of_instance) = owners.get(&(run, pid)).and_then(|owner| lives.get_mut(owner)) else {
            continue;
        };
        let own = of_instance
            .iter_mut()
            .filter(|life| life.run == run && life.pid == pid);
        for life in own {
            match &line.event {
                Event::Ending { code, .. } => {
                    life.alive_until = Some(line.at);
                    life.done = (*code == Some(0) && !killed.contains(&run)).then_some(line.at);
                }
                // a mark of its own is more exact
                Event::Gone { alive_at, .. } if life.alive_until.is_none() => {
                    life.alive_until = Some(*alive_at);
                }
                _ => {}
            }
        }
    }
    for of_instance in lives.values_mut() {
        of_instance.sort_by_key(|life| life.began);
    }
    lives
}

/// Runs of which their agents say that they did not end well: a mark of the end and a kill may cross.
fn killed(history: &History) -> Vec<&str> {
    let ends = history.lines.iter().filter_map(|line| match &line.event {
        Event::AgentEnded { run, how } if *how != TaskEnd::Exit(0) => Some(run.as_str()),
        _ => None,
    });
    ends.collect()
}
