//! What agents ran: each run with its cluster, and when it began, ran, was told to end and ended.

use crate::world::World;
use echelon_core_model::{InstanceId, JobId, MemberId, TaskId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// A run that an agent had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunRecord {
    pub(crate) cluster: usize,
    /// Its agent.
    pub(crate) agent: String,
    /// When the agent got it.
    pub(crate) began: Timestamp,
    /// When its process was there.
    pub(crate) ran: Option<Timestamp>,
    /// When the first call that ends it reached the master.
    pub(crate) killed: Option<Timestamp>,
    /// When its process was gone.
    pub(crate) ended: Option<Timestamp>,
    /// Whether it did not end by itself: it was told to, or its host was taken.
    pub(crate) is_disrupted: bool,
}

/// All runs.
#[derive(Debug, Default)]
pub(crate) struct RunHistory {
    all: BTreeMap<TaskId, RunRecord>,
    live: BTreeSet<TaskId>,
}

impl RunHistory {
    pub(crate) fn get(&self, task: &TaskId) -> Option<&RunRecord> {
        self.all.get(task)
    }

    pub(crate) fn get_mut(&mut self, task: &TaskId) -> Option<&mut RunRecord> {
        self.all.get_mut(task)
    }

    /// All runs in order of instance, generation and number.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&TaskId, &RunRecord)> {
        self.all.iter()
    }

    /// The runs of a job.
    pub(crate) fn of_job(&self, job: JobId) -> impl Iterator<Item = (&TaskId, &RunRecord)> {
        self.all.iter().filter(move |(task, _)| task.instance.job == job)
    }

    /// The runs of an instance, in the order in which they began.
    pub(crate) fn of_instance(&self, instance: &InstanceId) -> Vec<(&TaskId, &RunRecord)> {
        let of = self.all.iter().filter(|(task, _)| task.instance == *instance);
        let mut of: Vec<(&TaskId, &RunRecord)> = of.collect();
        of.sort_by_key(|(_, run)| run.began);
        of
    }

    /// Those that have a process.
    pub(crate) fn live(&self) -> impl Iterator<Item = (&TaskId, &RunRecord)> {
        let live = self.live.iter();
        live.filter_map(|task| self.all.get_key_value(task))
    }

    /// Whether a run serves: it has a process that was not told to end.
    pub(crate) fn serves(&self, task: &TaskId) -> bool {
        let run = self.all.get(task).filter(|_| self.live.contains(task));
        run.is_some_and(|run| run.ran.is_some() && run.killed.is_none())
    }
}

impl World {
    /// Notes which runs agents have now, and judges those that are gone.
    pub(crate) fn note_runs(&mut self) {
        if !self.federation.is_federated {
            return;
        }
        let now = self.now;
        let mut seen: BTreeSet<TaskId> = BTreeSet::new();
        let mut begun: Vec<TaskId> = Vec::new();
        let runs = &mut self.federation.runs;
        for (cluster, c) in self.clusters.iter().enumerate() {
            let running: BTreeSet<&str> = c.mesos.running_tasks().map(|(_, task)| task.as_str()).collect();
            for (agent, name) in c.mesos.live_tasks() {
                let Ok(MemberId {
                    run: task,
                    sidecar: None,
                }) = name.as_str().parse()
                else {
                    continue;
                };
                let run = runs.all.entry(task.clone()).or_insert_with(|| {
                    begun.push(task.clone());
                    RunRecord {
                        cluster,
                        agent: agent.as_str().to_owned(),
                        began: now,
                        ran: None,
                        killed: None,
                        ended: None,
                        is_disrupted: false,
                    }
                });
                if run.ran.is_none() && running.contains(name.as_str()) {
                    run.ran = Some(now);
                }
                seen.insert(task);
            }
        }
        let gone: Vec<TaskId> = runs.live.difference(&seen).cloned().collect();
        for task in &gone {
            if let Some(run) = runs.all.get_mut(task) {
                run.ended = Some(now);
            }
        }
        runs.live = seen;
        for task in begun {
            self.judge_begin(&task);
        }
        for task in gone {
            self.judge_gone(&task);
        }
    }
}
