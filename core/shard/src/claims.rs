//! Room for claims: whom to stop is chosen once, when a claim is first heard; then room is held on those hosts until instances of
//! the claimant are launched there, the resource manager names the claim no more, or its lease ends. Kept in memory only: whoever
//! hears of a claim anew finds the room that dies already, and stops nobody for it twice.

use crate::Shard;
use crate::group::Group;
use crate::kill::Target;
use crate::picture::{At, RunAt};
use echelon_core_jobs::{Standing, standing};
use echelon_core_model::claim::{Claim, ClaimId, ClaimReport, Victim};
use echelon_core_model::cluster::HostView;
use echelon_core_model::directive::ReportPart;
use echelon_core_model::instance::{InstanceRecord, Run};
use echelon_core_model::ports::choose;
use echelon_core_model::{
    Generation, GroupName, HostId, InstanceNumber, JobId, Reason, ReasonCode, Resources, RunState, Span,
    Timestamp,
};
use echelon_core_placement::victims::{self, Candidate, Question, Seat};
use echelon_core_placement::{Bound, Wanted, holds};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Most instances that are looked at for one claim.
const CANDIDATES: usize = 20_000;

/// All claims.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    all: BTreeMap<ClaimId, Promise>,
    /// Something of it is to be told.
    untold: bool,
}

/// A claim as it is kept.
#[derive(Debug)]
struct Promise {
    job: JobId,
    group: GroupName,
    generation: Generation,
    /// Room of one instance.
    shape: Resources,
    /// When the room is free again.
    until: Timestamp,
    /// For how many instances room is held, by host.
    open: BTreeMap<HostId, u64>,
    /// Who was stopped for it.
    taken: BTreeSet<RunAt>,
}

impl Promise {
    fn is_of(&self, group: &Group) -> bool {
        self.job == group.job() && self.group == *group.name()
    }
}

impl Claims {
    /// When the next lease ends.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.all.values().map(|p| p.until).min()
    }

    /// What is to be told of all claims.
    pub(crate) fn report(&self) -> ReportPart {
        let claims = self.all.iter().map(|(id, p)| ClaimReport {
            id: *id,
            job: p.job,
            group: p.group.clone(),
            generation: p.generation,
            open: p.open.values().sum(),
            taken: u64::try_from(p.taken.len()).unwrap_or(u64::MAX),
        });
        ReportPart::Claims(claims.collect())
    }

    /// The same, if it has changed since it was last asked for.
    pub(crate) fn news(&mut self) -> Option<ReportPart> {
        std::mem::take(&mut self.untold).then(|| self.report())
    }

    /// Room held on each host.
    fn held(&self) -> BTreeMap<&HostId, Resources> {
        let mut out: BTreeMap<&HostId, Resources> = BTreeMap::new();
        for promise in self.all.values() {
            for (host, n) in &promise.open {
                let sum = out.entry(host).or_default();
                *sum = sum.plus(promise.shape.times(*n));
            }
        }
        out
    }

    /// For how many instances of a group room is held, by host.
    fn held_for(&self, group: &Group) -> BTreeMap<&HostId, u64> {
        let mut out: BTreeMap<&HostId, u64> = BTreeMap::new();
        for promise in self.all.values().filter(|p| p.is_of(group)) {
            for (host, n) in &promise.open {
                *out.entry(host).or_default() += n;
            }
        }
        out
    }

    /// An instance of a group is about to be launched on a host: it has its room now.
    pub(crate) fn launched(&mut self, job: JobId, group: &GroupName, host: &HostId) {
        let mut of_group = self
            .all
            .values_mut()
            .filter(|p| p.job == job && p.group == *group);
        if let Some(promise) = of_group.find(|p| p.open.contains_key(host))
            && let Some(open) = promise.open.get_mut(host)
        {
            *open = open.saturating_sub(1);
            promise.open.retain(|_, n| *n > 0);
            self.untold = true;
        }
    }
}

impl Shard {
    /// All claims as the resource manager has them now.
    pub(crate) fn obey_claims(&mut self, claims: Vec<Claim>, lease: Span) {
        let until = self.now.plus(lease);
        let named: BTreeSet<ClaimId> = claims.iter().map(|c| c.id).collect();
        self.claims.all.retain(|id, _| named.contains(id));
        for claim in claims {
            match self.claims.all.get_mut(&claim.id) {
                Some(promise) => promise.until = until,
                None => {
                    let promise = self.promise(&claim, until);
                    self.claims.all.insert(claim.id, promise);
                }
            }
        }
        self.claims.untold = true;
    }

    /// Room whose lease has ended is free again.
    pub(crate) fn let_claims_lapse(&mut self) {
        let before = self.claims.all.len();
        self.claims.all.retain(|_, p| self.now < p.until);
        self.claims.untold |= before != self.claims.all.len();
    }

    /// Makes room for a claim that is heard for the first time.
    fn promise(&mut self, claim: &Claim, until: Timestamp) -> Promise {
        let mut promise = Promise {
            job: claim.job,
            group: claim.group.clone(),
            generation: claim.generation,
            shape: Resources::ZERO,
            until,
            open: BTreeMap::new(),
            taken: BTreeSet::new(),
        };
        if !self.may_act() || !self.may_kill() || self.frozen || self.withholds() {
            return promise;
        }
        let Some(asked) = self.asked(claim) else {
            return promise;
        };
        promise.shape = asked.question.shape;
        for (seat, chosen) in victims::choose(&asked.question) {
            let Some(host) = asked.hosts.get(seat) else {
                continue;
            };
            promise.open.insert(host.clone(), chosen.count);
            let runs = chosen.victims.iter().filter_map(|i| asked.runs.get(*i)).copied();
            promise.taken.extend(runs);
        }
        for (at, ..) in &promise.taken {
            self.preempt(*at, &claim.pool);
        }
        promise
    }

    /// Stops an instance's run, and lowers its slice's grant by it.
    fn preempt(&mut self, at: At, pool: &str) {
        self.stop(at, Reason::new(ReasonCode::PoolPreempted).at(pool));
        if let Some(generation) = self.picture.record(at).map(|r| r.generation) {
            self.edit_row(at.0, |row| *row.preempted.entry(generation).or_default() += 1);
        }
    }

    fn asked(&self, claim: &Claim) -> Option<Asked> {
        let group = self.picture.group(claim.job, &claim.group)?;
        let spec = group.group_spec().filter(|_| group.served)?;
        let wanted = self.wanted(group, Vec::new())?;
        let startable = group.startable.get(&claim.generation)?.count();
        let (slices, candidates) = self.candidates(&claim.victims);
        let dying = self.dying();
        let held = self.claims.held();
        let views = self.hosts.views(self.now);
        let usable = views.iter().filter(|view| {
            let rules = || wanted.constraints.iter().all(|r| holds(r, view));
            !view.draining && !wanted.is_kept_out(view) && rules()
        });
        let mut out = Asked::default();
        out.question.shape = spec.room();
        out.question.count = claim.count.min(startable);
        out.question.most = claim.most;
        let mut seats: BTreeMap<&HostId, usize> = BTreeMap::new();
        for view in usable {
            let sum = |of: &BTreeMap<&HostId, Resources>| of.get(&view.id).copied().unwrap_or_default();
            let spare = self.hosts.spare(&view.id, self.now).plus(sum(&dying));
            seats.insert(&view.id, out.hosts.len());
            out.hosts.push(view.id.clone());
            out.question.seats.push(Seat {
                spare: spare.minus(sum(&held)),
            });
        }
        for (slice, run) in candidates {
            let class = claim.victims.get(slice).map_or(u32::MAX, |v| v.class);
            let host = self.picture.run(run).map(|r| &r.host);
            if let (Some(seat), Some(room)) = (host.and_then(|h| seats.get(h)), self.room_of(run)) {
                out.runs.push(run);
                out.question.candidates.push(Candidate {
                    seat: *seat,
                    room,
                    class,
                    slice,
                });
            }
        }
        out.question.slices = slices;
        Some(out)
    }

    /// Most of each slice, and the runs that may be stopped, those that began last first: they lose least.
    fn candidates(&self, of: &[Victim]) -> (Vec<u64>, Vec<(usize, RunAt)>) {
        let mut out = Vec::new();
        let mut bounds: Vec<u64> = Vec::with_capacity(of.len());
        // Several slices of a group share what it may lose.
        let mut lost: BTreeMap<u32, u64> = BTreeMap::new();
        for (slice, victim) in of.iter().enumerate() {
            let number = self.picture.number_of(victim.job, &victim.group);
            let group = number.and_then(|n| Some((n, self.picture.groups.get(&n)?)));
            let Some((number, group)) = group.filter(|(_, g)| g.served && out.len() < CANDIDATES) else {
                bounds.push(0);
                continue;
            };
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
            out.extend(runs.into_iter().map(|(_, run)| (slice, run)));
        }
        out.truncate(CANDIDATES);
        (bounds, out)
    }

    /// Ordinary room that a run leaves when it ends.
    fn room_of(&self, at: RunAt) -> Option<Resources> {
        let run = self.picture.run(at)?;
        let group = self.picture.groups.get(&at.0.0)?;
        let spec = self.picture.specs.get(&(group.job(), run.spec_version))?;
        let room = spec.group(group.name())?.room_left(run);
        Some(room.minus(run.revocable))
    }

    /// Room that is about to be left, by host.
    fn dying(&self) -> BTreeMap<&HostId, Resources> {
        let killed = self.kills.targets().filter_map(|target| match target {
            Target::Run(run) => Some(*run),
            Target::Stranger(_) => None,
        });
        let taken = self.claims.all.values().flat_map(|p| p.taken.iter().copied());
        let runs: BTreeSet<RunAt> = killed.chain(taken).collect();
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

    /// Binds instances of a group to hosts where room is held for them and free by now.
    pub(crate) fn bind_claimed(&self, group: &Group, wanted: &mut Wanted) {
        // What holds or makes a volume goes where placement finds room for it.
        let has_volume = group.group_spec().is_none_or(|g| g.volume.is_some());
        let held = self.claims.held_for(group);
        if has_volume || held.is_empty() || wanted.revocable {
            return;
        }
        let views = self.hosts.views_of(held.keys().copied(), self.now);
        for view in views {
            let there = wanted.resources.count_in(view.free);
            let open = held.get(&view.id).copied().unwrap_or_default().min(there);
            for _ in 0..open {
                let ports = self.hosts.ports(&view.id);
                let has_ports = wanted.ports.is_empty()
                    || wanted.bound.iter().all(|b| b.host != view.id)
                        && choose(&wanted.ports, &ports).is_some();
                if wanted.items.is_empty() || !has_ports {
                    break;
                }
                let item = wanted.items.remove(0);
                wanted.bound.push(Bound {
                    number: item.number,
                    host: view.id.clone(),
                    hostname: view.hostname.clone(),
                    offered: true,
                });
            }
        }
    }

    /// Takes room that is held out of what is given to others.
    pub(crate) fn set_claims_aside(&self, hosts: &mut [HostView], groups: &[Wanted]) {
        if self.claims.all.is_empty() {
            return;
        }
        let mut aside = self.claims.held();
        for wanted in groups {
            let Some(group) = self.picture.group(wanted.job, &wanted.group) else {
                continue;
            };
            let with_volume = group.group_spec().is_none_or(|g| g.volume.is_some());
            for (host, n) in self.claims.held_for(group) {
                let bound = wanted.bound.iter().filter(|b| b.host == *host).count();
                let bound = u64::try_from(bound).unwrap_or(u64::MAX);
                // Of what may be anywhere the room is left open for all: it is among those who ask.
                let used = if with_volume { n } else { bound.min(n) };
                if let Some(sum) = aside.get_mut(host) {
                    *sum = sum.minus(wanted.resources.times(used));
                }
            }
        }
        for view in hosts {
            if let Some(aside) = aside.get(&view.id) {
                view.free = view.free.minus(*aside);
            }
        }
    }
}

/// A question with what its indexes stand for.
#[derive(Debug, Default)]
struct Asked {
    question: Question,
    hosts: Vec<HostId>,
    runs: Vec<RunAt>,
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
