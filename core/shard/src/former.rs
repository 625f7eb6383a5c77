//! Replacements go back to where their former run was, if they fit there: what it had cached is warm, and in a crowded cluster its room is
//! the only one. For a moment that room is held for them, and they wait for their host to offer it; after that they are as anybody else.

use crate::Shard;
use crate::group::Group;
use crate::picture::At;
use echelon_core_model::instance::Run;
use echelon_core_model::{GroupName, HostId, InstanceNumber, JobId, ReasonCode, Resources, Timestamp};
use echelon_core_placement::Wanted;
use std::collections::{BTreeMap, BTreeSet};

impl Shard {
    /// The run that an instance replaces, where its room is held: it was ended to be replaced, a moment ago, on a host that stays.
    pub(crate) fn former<'a>(&self, group: &'a Group, n: InstanceNumber) -> Option<&'a Run> {
        let run = replaced_run(group, n)?;
        let held = self.now < run.ended_at?.plus(self.config.timing.former_held);
        (held && !self.draining.contains_key(&run.host)).then_some(run)
    }

    /// Keeps the list of instances whose room may be held. Whether it is held now depends on the time and on
    /// drains of hosts: that is looked at where the list is used.
    pub(crate) fn note_former(&mut self, at: At) {
        let group = self.picture.groups.get(&at.0);
        if group.is_some_and(|g| g.ready.contains(&at.1) && replaced_run(g, at.1).is_some()) {
            self.formers.insert(at);
        } else {
            self.formers.remove(&at);
        }
    }

    /// Leaves out who had better wait for its former host to offer the room that its run has left, and sees to it that it is asked for
    /// when that takes too long.
    pub(crate) fn without_waiting(
        &mut self,
        number: u32,
        numbers: Vec<InstanceNumber>,
    ) -> Vec<InstanceNumber> {
        let Some(group) = self.picture.groups.get(&number) else {
            return numbers;
        };
        let waits = |n: &InstanceNumber| self.waits_for_former(group, *n);
        let due: Vec<(InstanceNumber, Option<Timestamp>)> =
            numbers.into_iter().map(|n| (n, waits(&n))).collect();
        if let Some(first) = due.iter().filter_map(|(_, due)| *due).min() {
            self.placing.hungrier(self.now, first.since(self.now));
        }
        let stays = due.into_iter().filter(|(_, due)| due.is_none());
        stays.map(|(n, _)| n).collect()
    }

    /// Until when an instance had better wait; `None`: it has nothing to wait for.
    fn waits_for_former(&self, group: &Group, n: InstanceNumber) -> Option<Timestamp> {
        let run = self.former(group, n)?;
        let due = run.ended_at?.plus(self.config.timing.former_wait);
        let need = group.group_spec()?.room();
        // Of a host that is out of reach nothing can be expected.
        let view = self.hosts.views_of([&run.host], self.now).pop()?;
        let fits = need.minus(run.revocable_room()).fits(view.free);
        (due > self.now && !fits).then_some(due)
    }

    /// Takes the room that is held out of what others are given, but for those who are placed now.
    pub(crate) fn set_former_aside(&self, aside: &mut BTreeMap<HostId, Resources>, groups: &[Wanted]) {
        if self.formers.is_empty() {
            return;
        }
        let placed: BTreeSet<(JobId, &GroupName, InstanceNumber)> = groups
            .iter()
            .flat_map(|g| g.items.iter().map(move |i| (g.job, &g.group, i.number)))
            .collect();
        for (number, n) in &self.formers {
            let group = self.picture.groups.get(number);
            let group = group.filter(|g| !placed.contains(&(g.job(), g.name(), *n)));
            let Some((group, run)) = group.and_then(|g| Some((g, self.former(g, *n)?))) else {
                continue;
            };
            let need = group.need();
            let sum = aside.entry(run.host.clone()).or_default();
            *sum = sum.plus(need.minus(run.revocable_room()));
        }
    }
}

/// The run that an instance replaces: it was ended to be replaced, and nothing keeps the instance away from its host.
pub(crate) fn replaced_run(group: &Group, n: InstanceNumber) -> Option<&Run> {
    let record = group.record(n).filter(|r| r.volume.is_none())?;
    let run = record.run.as_ref().filter(|r| r.state.is_ended())?;
    let why = run.stopping.as_ref()?.reason.code;
    let is_replaced = matches!(why, ReasonCode::RestartRequested | ReasonCode::RolloutUpdate);
    (is_replaced && !record.avoid.contains(&run.host)).then_some(run)
}
