//! Whether the agents' log and the masters say what the tasks themselves say.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Event, History, TaskEnd};
use crate::lives::{Life, Lives};
use crate::{Broken, Rule};

pub(crate) fn judge(history: &History, lives: &Lives) -> Vec<Broken> {
    let mut broken = logs(history, lives);
    broken.extend(masters(history, lives));
    broken
}

/// Each mark has its process in the agents' log; what an agent saw end well has left its mark.
fn logs(history: &History, lives: &Lives) -> Vec<Broken> {
    let (mut began, mut ended) = (BTreeSet::new(), BTreeMap::new());
    for line in &history.lines {
        match &line.event {
            Event::AgentBegan { run, pid } => {
                began.insert((run.as_str(), *pid));
            }
            Event::AgentEnded { run, how } => {
                ended.insert(run.as_str(), (line.at, how));
            }
            _ => {}
        }
    }
    if began.is_empty() {
        // these agents keep no log
        return Vec::new();
    }
    let all = || lives.values().flatten();
    let unlogged = all().filter(|life| !began.contains(&(life.run.as_str(), life.pid)));
    let mut broken: Vec<Broken> = unlogged
        .map(|life| {
            let text = format!("run {} (pid {}) is in no agent's log", life.run, life.pid);
            Broken::new(Rule::Agents, life.began, text)
        })
        .collect();
    let marked: BTreeSet<&str> = all()
        .filter(|life| life.alive_until.is_some())
        .map(|life| life.run.as_str())
        .collect();
    let unmarked = ended
        .into_iter()
        .filter(|(run, (_, how))| **how == TaskEnd::Exit(0) && !marked.contains(run));
    broken.extend(unmarked.map(|(run, (at, _))| {
        let text = format!("an agent says that run {run} ended well, and it left no mark");
        Broken::new(Rule::Agents, at, text)
    }));
    broken
}

/// Each master's running tasks are those that live, and no others; judged once, in the end.
fn masters(history: &History, lives: &Lives) -> Vec<Broken> {
    let mut running = BTreeSet::new();
    let mut looked_at = None;
    for line in &history.lines {
        if let Event::MasterTasks { runs, .. } = &line.event {
            running.extend(runs.iter().map(String::as_str));
            looked_at = Some(line.at);
        }
    }
    let Some(at) = looked_at else {
        return Vec::new();
    };
    let is_alive = |life: &&Life| life.alive_until.is_none_or(|until| until > at);
    let alive: BTreeSet<&str> = lives
        .values()
        .flatten()
        .filter(is_alive)
        .map(|life| life.run.as_str())
        .collect();
    let unknown = alive.difference(&running).map(|run| {
        let text = format!("run {run} lives and no master knows it");
        Broken::new(Rule::Agents, at, text)
    });
    let dead = running.difference(&alive).map(|run| {
        let text = format!("a master says that run {run} runs, and it does not live");
        Broken::new(Rule::Agents, at, text)
    });
    unknown.chain(dead).collect()
}
