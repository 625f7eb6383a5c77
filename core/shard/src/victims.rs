//! The question whom to stop for a claim, as this cluster stands: what wants room, the hosts on which it may be with what is spare or
//! ends already, and whose runs may be stopped.

use crate::Shard;
use crate::group::Group;
use crate::kill::Target;
use crate::picture::RunAt;
use echelon_core_jobs::{Standing, standing};
use echelon_core_model::claim::{Claim, ClaimPart, Quota, Victim};
use echelon_core_model::cluster::HostView;
use echelon_core_model::instance::{InstanceRecord, Run};
use echelon_core_model::spec::{JobKind, JobSpec};
use echelon_core_model::{
    Generation, HostId, InstanceNumber, JobId, RangeSet, Resources, RunState, Timestamp,
};
use echelon_core_placement::victims::{Candidate, KeptSeat, Question, Seat, Shape, seat_to_keep};
use echelon_core_placement::{Wanted, holds};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most instances that are looked at for one claim.
const CANDIDATES: usize = 20_000;

/// A question with what its indexes stand for.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) question: Question,
    pub(crate) hosts: Vec<HostId>,
    /// Of each candidate, the runs that are stopped together.
    pub(crate) runs: Vec<Vec<RunAt>>,
}

/// Most instances of each slice, and who may be stopped: index of the slice, and the runs.
type Offered = (Vec<u64>, Vec<(usize, Vec<RunAt>)>);

/// What of one group wants room.
struct Claimant {
    wanted: Wanted,
    /// The hosts that rules about runs leave, as runs are; `None`: all.
    open: Option<BTreeSet<HostId>>,
    count: u64,
    /// It begins with all of its gang or not at all.
    gang: bool,
}

impl Claimant {
    fn may_use(&self, view: &HostView) -> bool {
        let open = self.open.as_ref().is_none_or(|hosts| hosts.contains(&view.id));
        let rules = || self.wanted.constraints.iter().all(|r| holds(r, view));
        let pool = self.wanted.may_use_pool_of(view);
        open && pool && !view.draining && !self.wanted.is_kept_out(view) && rules()
    }
}

impl Shard {
    /// What a claim asks, if its claimants are known here where they have to be.
    pub(crate) fn asked(&self, claim: &Claim) -> Option<Asked> {
        match &claim.quota {
            Some(quota) => Some(self.asked_of_pool(claim, quota)),
            None => self.asked_on_hosts(claim),
        }
    }

    /// Room in a pool, which is one seat for all hosts.
    fn asked_of_pool(&self, claim: &Claim, quota: &Quota) -> Asked {
        let mut out = Asked::default();
        out.question.most = claim.most;
        out.question.seats.push(Seat { spare: quota.left });
        out.question.shapes.push(Shape {
            room: quota.unit,
            count: quota.count,
            seats: vec![0],
        });
        self.add_candidates(&mut out, &claim.victims, |_| Some(0));
        out
    }

    fn asked_on_hosts(&self, claim: &Claim) -> Option<Asked> {
        let parts = claim.parts.iter();
        let claimants: Option<Vec<Claimant>> = parts.map(|p| self.claimant(claim.job, p)).collect();
        let claimants = claimants.filter(|c| !c.is_empty())?;
        let mut out = Asked::default();
        out.question.whole = claimants.iter().any(|c| c.gang);
        out.question.most = claim.most;
        let shapes = claimants.iter().map(|c| Shape {
            room: c.wanted.resources,
            count: c.count,
            seats: Vec::new(),
        });
        out.question.shapes = shapes.collect();
        self.add_seats(&mut out, &claimants);
        let seats: BTreeMap<HostId, usize> = out.hosts.iter().cloned().zip(0..).collect();
        self.add_candidates(&mut out, &claim.victims, |host| seats.get(host).copied());
        Some(out)
    }

    /// The host of which the capacity is kept for one instance as work on it ends. It is the one that lacks least
    /// of those where batch work leaves enough, which ends by itself; otherwise of all that are large enough.
    pub(crate) fn host_to_keep(&self, asked: &Asked) -> Option<HostId> {
        let shape = asked.question.shapes.first().filter(|_| !asked.question.whole)?;
        let held = self.claims.held();
        let ending = self.ending();
        let of =
            |map: &BTreeMap<&HostId, Resources>, host: &HostId| map.get(host).copied().unwrap_or_default();
        let seats = shape.seats.iter().filter_map(|seat| {
            let host = asked.hosts.get(*seat)?;
            let whole = self.hosts.views_of([host], self.now).first()?.capacity;
            Some(KeptSeat {
                seat: *seat,
                spare: asked.question.seats.get(*seat)?.spare,
                ending: of(&ending, host),
                whole: whole.minus(of(&held, host)),
            })
        });
        asked.hosts.get(seat_to_keep(shape.room, seats)?).cloned()
    }

    /// Capacity that batch work has, by host: it ends by itself.
    fn ending(&self) -> BTreeMap<&HostId, Resources> {
        let mut out: BTreeMap<&HostId, Resources> = BTreeMap::new();
        for (number, group) in &self.picture.groups {
            let is_batch = |spec: &Arc<JobSpec>| spec.kind == JobKind::Batch;
            if !group.spec.as_ref().is_some_and(is_batch) {
                continue;
            }
            for (n, record) in group.records() {
                let run = record.run.as_ref().filter(|run| run.may_have_task());
                let room = run.and_then(|run| self.room_of(((*number, n), run.generation, run.number)));
                if let Some((run, room)) = run.zip(room) {
                    let sum = out.entry(&run.host).or_default();
                    *sum = sum.plus(room);
                }
            }
        }
        out
    }

    fn claimant(&self, job: JobId, part: &ClaimPart) -> Option<Claimant> {
        let group = self.picture.group(job, &part.group).filter(|g| g.served)?;
        let wanted = self.shape_of(group)?;
        let startable = group.startable.get(&part.generation).map_or(0, RangeSet::count);
        let waiting = if wanted.gang {
            startable
        } else {
            startable.saturating_add(group.between_runs(part.generation).count())
        };
        // Of a gang all is wanted that was claimed, or nothing.
        let is_enough = waiting > 0 && (!wanted.gang || waiting >= part.count);
        is_enough.then(|| Claimant {
            gang: wanted.gang,
            count: part.count.min(waiting),
            open: self.let_by_runs(&wanted),
            wanted,
        })
    }

    /// The hosts that any of the claimants may use.
    fn add_seats(&self, out: &mut Asked, claimants: &[Claimant]) {
        let dying = self.dying();
        let held = self.claims.held();
        for view in self.hosts.views(self.now) {
            let usable: Vec<bool> = claimants.iter().map(|c| c.may_use(&view)).collect();
            if !usable.contains(&true) {
                continue;
            }
            let shapes = out.question.shapes.iter_mut().zip(usable);
            for (shape, _) in shapes.filter(|(_, usable)| *usable) {
                shape.seats.push(out.hosts.len());
            }
            let sum = |of: &BTreeMap<&HostId, Resources>| of.get(&view.id).copied().unwrap_or_default();
            let spare = self.hosts.spare(&view.id, self.now).plus(sum(&dying));
            out.question.seats.push(Seat {
                spare: spare.minus(sum(&held)),
            });
            out.hosts.push(view.id.clone());
        }
    }

    fn add_candidates(&self, out: &mut Asked, victims: &[Victim], seat: impl Fn(&HostId) -> Option<usize>) {
        let (slices, candidates) = self.candidates(victims);
        for (slice, runs) in candidates {
            let room = |run: &RunAt| {
                let seat = seat(&self.picture.run(*run)?.host)?;
                Some((seat, self.room_of(*run)?))
            };
            let rooms: Vec<(usize, Resources)> = runs.iter().filter_map(room).collect();
            if rooms.is_empty() {
                continue;
            }
            out.question.candidates.push(Candidate {
                rooms,
                count: u64::try_from(runs.len()).unwrap_or(u64::MAX),
                class: victims.get(slice).map_or(u32::MAX, |v| v.class),
                slice,
            });
            out.runs.push(runs);
        }
        out.question.slices = slices;
    }

    /// Those who began last come first: they lose least. A gang is one candidate.
    fn candidates(&self, of: &[Victim]) -> Offered {
        let mut out = Vec::new();
        let mut bounds: Vec<u64> = Vec::with_capacity(of.len());
        // Several slices of a group share what it may lose.
        let mut lost: BTreeMap<u32, u64> = BTreeMap::new();
        let mut gangs: BTreeMap<JobId, usize> = BTreeMap::new();
        for (slice, victim) in of.iter().enumerate() {
            let number = self.picture.number_of(victim.job, &victim.group);
            let group = number.and_then(|n| Some((n, self.picture.groups.get(&n)?)));
            let Some((number, group)) = group.filter(|(_, g)| g.served && out.len() < CANDIDATES) else {
                bounds.push(0);
                continue;
            };
            if group.spec.as_ref().is_none_or(|s| s.gang.is_some()) {
                gangs.entry(victim.job).or_insert(slice);
                bounds.push(0);
                continue;
            }
            let lost = lost.entry(number).or_default();
            let bound = group.may_lose().saturating_sub(*lost).min(victim.most);
            *lost += bound;
            bounds.push(bound);
            let mut runs: Vec<(Reverse<Option<Timestamp>>, RunAt)> = group
                .records()
                .filter_map(|(n, record)| {
                    let at = (number, n);
                    let run = stoppable(group, n, record, victim.generation)?;
                    let observed = self.is_observed(at);
                    observed.then_some((Reverse(run.started_at), (at, run.generation, run.number)))
                })
                .collect();
            runs.sort_unstable();
            out.extend(runs.into_iter().map(|(_, run)| (slice, vec![run])));
        }
        out.truncate(CANDIDATES);
        for (job, slice) in gangs {
            if let (Some(runs), Some(bound)) = (self.whole_gang(job, of), bounds.get_mut(slice)) {
                *bound = u64::try_from(runs.len()).unwrap_or(u64::MAX);
                out.push((slice, runs));
            }
        }
        (bounds, out)
    }

    /// All of a gang, if all of it may be stopped: all that is active of it runs here, and is offered.
    fn whole_gang(&self, job: JobId, offered: &[Victim]) -> Option<Vec<RunAt>> {
        let mut out = Vec::new();
        for number in self.picture.groups_of(job) {
            let group = self.picture.groups.get(&number).filter(|g| g.served)?;
            let mut lost: BTreeMap<Generation, u64> = BTreeMap::new();
            let held = group.records().filter(|(n, r)| group.holds(*n, r.generation));
            for (n, record) in held.filter(|(_, r)| standing(r) == Standing::Active) {
                let run = stoppable(group, n, record, record.generation)?;
                let observed = self.is_observed((number, n));
                out.push(observed.then_some(((number, n), run.generation, run.number))?);
                *lost.entry(record.generation).or_default() += 1;
            }
            let most = |generation: Generation| {
                let of_slice =
                    |v: &&Victim| (v.job, &v.group, v.generation) == (job, group.name(), generation);
                offered.iter().filter(of_slice).map(|v| v.most).sum::<u64>()
            };
            let may_go = lost.iter().all(|(generation, n)| *n <= most(*generation));
            if !may_go || lost.values().sum::<u64>() > group.may_lose() {
                return None;
            }
        }
        Some(out)
    }

    /// Ordinary room that a run leaves when it ends.
    fn room_of(&self, at: RunAt) -> Option<Resources> {
        let run = self.picture.run(at)?;
        let group = self.picture.groups.get(&at.0.0)?;
        let room = self
            .picture
            .group_spec_of(group, run.spec_version)?
            .room_left(run);
        Some(room.minus(run.revocable_room()))
    }

    /// Room that is about to be left, by host.
    fn dying(&self) -> BTreeMap<&HostId, Resources> {
        let killed = self.kills.targets().filter_map(|target| match target {
            Target::Run(run) => Some(*run),
            Target::Stranger(_) => None,
        });
        let runs: BTreeSet<RunAt> = killed.chain(self.claims.taken()).collect();
        let mut out: BTreeMap<&HostId, Resources> = BTreeMap::new();
        for at in runs {
            let run = self.picture.run(at);
            let ends = run.filter(|r| r.may_have_task() && r.state == RunState::Stopping);
            if let (Some(run), Some(room)) = (ends, self.room_of(at)) {
                let sum = out.entry(&run.host).or_default();
                *sum = sum.plus(room);
            }
        }
        out
    }
}

/// The run of an instance that may be stopped for others.
fn stoppable<'a>(
    group: &Group,
    n: InstanceNumber,
    record: &'a InstanceRecord,
    generation: Generation,
) -> Option<&'a Run> {
    let active = record.generation == generation && group.holds(n, generation);
    let run = record
        .run
        .as_ref()
        .filter(|_| active && standing(record) == Standing::Active)?;
    let runs = matches!(
        run.state,
        RunState::Launching | RunState::Starting | RunState::Running
    );
    (runs && run.stopping.is_none()).then_some(run)
}
