//! From a choice of placement to an intent: what still holds is written into the instance's record, to be launched when that is
//! durable.

use crate::Shard;
use crate::group::Group;
use crate::journal::Point;
use crate::pace::Action;
use crate::picture::{At, RunAt};
use echelon_core_jobs::{Start, VolumeStart, begin};
use echelon_core_model::cluster::HostView;
use echelon_core_model::instance::Probes;
use echelon_core_model::runtime::{Port, PortSpec};
use echelon_core_model::{Generation, HostId, InstanceNumber, JobId, RangeSet, Resources};
use echelon_core_placement as placement;
use std::collections::{BTreeMap, BTreeSet};

impl Shard {
    /// Makes a choice an intent, if the instance still wants a host, and the host still has the room and the ports.
    pub(crate) fn intend(&mut self, choice: &placement::Choice, left: &mut HostView) -> Option<RunAt> {
        let id = &choice.instance;
        let (at, start) = self.start(choice, left)?;
        let (now, generation) = (self.now, start.generation);
        let has_begun = self.has_begun(at, generation);
        let raises = self
            .picture
            .groups
            .get(&at.0)
            .is_some_and(|g| !g.ready.contains(&at.1));
        self.edit(at, |r| begin(r, id, start, now));
        if raises {
            self.check_raise(at, generation);
        }
        if let Some(group) = self.picture.groups.get_mut(&at.0) {
            group.ready.remove(&at.1);
            group.waiting_times.has_begun();
        }
        let run = self.picture.record(at)?.run.as_ref()?;
        let run = (at, run.generation, run.number);
        self.credit.promise(run, self.launch_bytes_at(at));
        if has_begun {
            self.note_restart(run);
        } else {
            self.note_first_start(run);
        }
        self.paces.spend(Action::Launch, 1);
        Some(run)
    }

    /// What a choice would begin, if it still holds; its room and ports are taken out of the host's then.
    fn start(&self, choice: &placement::Choice, left: &mut HostView) -> Option<(At, Start)> {
        let id = &choice.instance;
        let number = self.picture.number_of(id.job, &id.group)?;
        let at: At = (number, id.number);
        let group = self.picture.groups.get(&number)?;
        if group.refused.is_some() {
            return None;
        }
        let generation = self.may_intend(group, id.number)?;
        let (wish, job) = (group.wish.as_ref()?, group.spec.as_ref()?);
        // Its turn may have come, or have gone to another, since placement was asked.
        let (_, next) = self.picture.versions(group, vec![id.number]).pop()?;
        let spec = self.picture.group_spec_of(group, next.version)?;
        let bound = self.bound(group, id.number);
        let room = if bound.is_some() {
            spec.room().minus(spec.volume_room())
        } else {
            spec.room()
        };
        let revocable = if job.revocable {
            room.lent_part(left.slack.capacity)
        } else {
            Resources::ZERO
        };
        let needed = room.minus(revocable);
        let mut ports_left = left.ports.clone();
        let moved = bound
            .as_ref()
            .is_some_and(|b| b.host != choice.host || !b.offered);
        let fits = needed.fits(left.free) && revocable.fits(left.slack.free);
        if moved || !fits || !choice.ports.iter().all(|p| ports_left.take(*p)) {
            return None;
        }
        let start = Start {
            generation,
            host: choice.host.clone(),
            hostname: std::sync::Arc::clone(&left.hostname),
            spec_version: next.version,
            updates: next.updates,
            min_healthy: job.update.min_healthy,
            probes: Probes {
                health: spec.runtime.health.is_some(),
                readiness: spec.runtime.readiness.is_some(),
            },
            restarts: wish.goal.restarts,
            head_version: wish.head_version,
            ports: named(&spec.runtime.ports, &choice.ports)?,
            revocable,
            volume: spec.volume.as_ref().map(|v| match bound {
                Some(_) => VolumeStart::Held,
                None => VolumeStart::New(v.size),
            }),
            sidecars: spec.sidecars.iter().map(|s| s.name.clone()).collect(),
            gang_try: self.gangs.try_of(id.job),
        };
        left.free = left.free.minus(needed);
        left.slack.free = left.slack.free.minus(revocable);
        left.ports = ports_left;
        Some((at, start))
    }

    /// Gangs in an answer that can no longer begin as they were placed: one of their choices does not hold, or more of them want hosts.
    pub(crate) fn overtaken_gangs(
        &self,
        answer: &placement::Answer,
        room: &BTreeMap<HostId, HostView>,
    ) -> BTreeSet<JobId> {
        let mut of_gangs: BTreeMap<JobId, Vec<&placement::Choice>> = BTreeMap::new();
        for choice in &answer.choices {
            let group = self.picture.group(choice.instance.job, &choice.instance.group);
            let spec = group.and_then(|g| g.spec.as_ref());
            if spec.is_some_and(|s| s.gang.is_some()) {
                of_gangs.entry(choice.instance.job).or_default().push(choice);
            }
        }
        let mut room = if of_gangs.is_empty() {
            BTreeMap::new()
        } else {
            room.clone()
        };
        let mut stands = |(job, choices): (&JobId, &Vec<&placement::Choice>)| {
            let wants = self.gang_hunger(*job).unwrap_or_default();
            let wants: usize = wants.iter().map(|h| h.numbers.len()).sum();
            wants == choices.len()
                && choices.iter().all(|c| {
                    let at = room.get_mut(&c.host);
                    at.and_then(|at| self.start(c, at)).is_some()
                })
        };
        let mut out = BTreeSet::new();
        for gang in &of_gangs {
            if !stands(gang) {
                out.insert(*gang.0);
            }
        }
        out
    }

    /// Where the lanes of all runs of gangs among these stand, by job.
    pub(crate) fn points_of_gangs<'a>(
        &mut self,
        runs: impl Iterator<Item = &'a RunAt>,
    ) -> BTreeMap<JobId, BTreeSet<Point>> {
        let mut by_job: BTreeMap<JobId, Vec<RunAt>> = BTreeMap::new();
        for run in runs {
            let group = self.picture.groups.get(&run.0.0);
            let spec = group.and_then(|g| g.spec.as_ref());
            if let Some(group) = group.filter(|_| spec.is_some_and(|s| s.gang.is_some())) {
                by_job.entry(group.job()).or_default().push(*run);
            }
        }
        let of_jobs = by_job.into_iter();
        of_jobs.map(|(job, runs)| (job, self.points_of(&runs))).collect()
    }

    /// A raise beyond what is allowed would be a fault of this program: it is noted for the checker.
    fn check_raise(&mut self, at: At, generation: Generation) {
        let Some(group) = self.picture.groups.get(&at.0) else {
            return;
        };
        let active = group.tallies.get(&generation).map_or(0, |t| t.active);
        let granted = group.allowed(generation, self.now);
        if active > granted {
            self.faults.push(crate::check::Broken::BeyondGrant {
                instance: group.instance(at.1),
                active,
                granted,
            });
        }
    }

    /// The generation at which an instance may begin a run now, if it may.
    fn may_intend(&self, group: &Group, n: InstanceNumber) -> Option<Generation> {
        let range = group.range_of(n)?;
        let follows = group.ready.contains(&n);
        let starts = || {
            let set: Option<&RangeSet> = group.startable.get(&range.generation);
            set.is_some_and(|s| s.contains(n)) && group.openings(range.generation, self.now) > 0
        };
        let number = self.picture.number_of(group.job(), group.name())?;
        let free = !self.strangers.block(&group.instance(n)) && self.may_start((number, n), range.generation);
        (self.is_fresh(group) && free && (follows || starts())).then_some(range.generation)
    }

    /// Where the lanes of some runs stand: blocks and slice rows.
    pub(crate) fn points_of(&mut self, runs: &[RunAt]) -> BTreeSet<Point> {
        let mut points = BTreeSet::new();
        for ((number, n), ..) in runs {
            if let Some(group) = self.picture.groups.get_mut(number) {
                let lanes = [group.cell(*n).lane, group.row_lane];
                points.extend(lanes.map(|l| self.journal.point(l)));
            }
        }
        points
    }
}

/// The ports of a choice by name; `None` where the spec wants others meanwhile.
fn named(wanted: &[PortSpec], chosen: &[u16]) -> Option<Vec<Port>> {
    let fits = |(spec, number): (&PortSpec, &u16)| {
        spec.fixed.is_none_or(|fixed| fixed == *number).then(|| Port {
            name: spec.name.clone(),
            number: *number,
        })
    };
    let pairs = wanted.iter().zip(chosen);
    let ports: Option<Vec<Port>> = pairs.map(fits).collect();
    ports.filter(|_| wanted.len() == chosen.len())
}
