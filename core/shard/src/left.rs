//! What is still on hosts that are to be empty, and why: looked at as often as rows of hosts are written.

use crate::Shard;
use crate::picture::RunAt;
use echelon_core_hosts::Drain;
use echelon_core_model::drain::{Left, MOST_LEFT, Stays};
use echelon_core_model::spec::JobKind;
use echelon_core_model::{HostId, TaskId};
use std::collections::{BTreeMap, BTreeSet};

impl Shard {
    /// Notes what is left on hosts that are to be empty. `O(tasks)`, while there are such hosts.
    pub(crate) fn note_left(&mut self) {
        if self.draining.is_empty() {
            self.hosts.note_left(BTreeMap::new());
            return;
        }
        let hosts: BTreeSet<HostId> = self.draining.keys().cloned().collect();
        let runs: Vec<RunAt> = self
            .hosts
            .tasks_on(&hosts)
            .iter()
            .filter_map(|t| self.recorded(t))
            .collect();
        let mut left: BTreeMap<HostId, BTreeMap<Left, u32>> = BTreeMap::new();
        for run in runs {
            let Some((host, entry)) = self.left_of(run) else {
                continue;
            };
            *left.entry(host).or_default().entry(entry).or_default() += 1;
        }
        let sorted = left.into_iter().map(|(host, groups)| {
            let groups = groups.into_iter().take(MOST_LEFT);
            let groups = groups.map(|(entry, runs)| Left { runs, ..entry });
            (host, groups.collect())
        });
        self.hosts.note_left(sorted.collect());
    }

    fn recorded(&self, task: &TaskId) -> Option<RunAt> {
        let run = self.picture.run_at(task)?;
        self.picture.run(run).map(|_| run)
    }

    /// Of which group a run on a host that is to be empty is, and why it is there.
    fn left_of(&self, run: RunAt) -> Option<(HostId, Left)> {
        let found = self.picture.run(run)?;
        let group = self.picture.groups.get(&run.0.0)?;
        let drain = self.draining.get(&found.host)?;
        let spent = group.max_unavailable == 0 || group.may_lose() == 0;
        let why = if found.stopping.is_some() {
            Stays::Leaves
        } else if !self.may_kill() {
            Stays::KillsOff
        } else if self.withholds() {
            Stays::MassLoss
        } else if *drain == Drain::Services && group.kind() == Some(JobKind::Batch) {
            Stays::MayEnd
        } else if *drain != Drain::All && group.kind() == Some(JobKind::Daemon) {
            Stays::GoesLast
        } else if spent && group.kind() != Some(JobKind::Batch) {
            Stays::MaxUnavailable
        } else {
            Stays::Leaves
        };
        let entry = Left {
            why,
            job: group.job(),
            group: group.name().clone(),
            runs: 0,
        };
        Some((found.host.clone(), entry))
    }
}
