//! Room for claims: whom to stop is chosen once, when a claim is first heard; then room is held on those hosts until instances of
//! the claimant are launched there, the resource manager names the claim no more, or its lease ends. Kept in memory only: whoever
//! hears of a claim anew finds the room that dies already, and stops nobody for it twice.

use crate::Shard;
use crate::picture::{At, RunAt};
use echelon_core_model::claim::{Claim, ClaimId, ClaimPart, ClaimReport};
use echelon_core_model::directive::ReportPart;
use echelon_core_model::ports::choose;
use echelon_core_model::{
    Generation, GroupName, HostId, JobId, Reason, ReasonCode, Resources, Span, Timestamp,
};
use echelon_core_placement::victims;
use echelon_core_placement::{Bound, Wanted};
use std::collections::{BTreeMap, BTreeSet};

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
    /// The claim as it was sent last, without victims.
    claim: Claim,
    parts: Vec<Part>,
    /// When the room is free again.
    until: Timestamp,
    /// Who was stopped for it.
    taken: BTreeSet<RunAt>,
}

/// What is held for one group.
#[derive(Debug)]
struct Part {
    group: GroupName,
    generation: Generation,
    /// Room of one instance.
    shape: Resources,
    /// For how many instances room is held, by host.
    open: BTreeMap<HostId, u64>,
}

impl Claims {
    /// Who was stopped for any.
    pub(crate) fn taken(&self) -> impl Iterator<Item = RunAt> + '_ {
        self.all.values().flat_map(|p| p.taken.iter().copied())
    }

    /// When the next lease ends.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.all.values().map(|p| p.until).min()
    }

    /// What is to be told of all claims.
    pub(crate) fn report(&self) -> ReportPart {
        let claims = self.all.values().map(|p| ClaimReport {
            claim: p.claim.clone(),
            open: p.parts.iter().map(Part::told).collect(),
            taken: u64::try_from(p.taken.len()).unwrap_or(u64::MAX),
        });
        ReportPart::Claims(claims.collect())
    }

    /// The same, if it has changed since it was last asked for.
    pub(crate) fn news(&mut self) -> Option<ReportPart> {
        std::mem::take(&mut self.untold).then(|| self.report())
    }

    /// Room held on each host.
    pub(crate) fn held(&self) -> BTreeMap<&HostId, Resources> {
        let mut out: BTreeMap<&HostId, Resources> = BTreeMap::new();
        for part in self.all.values().flat_map(|p| &p.parts) {
            for (host, n) in &part.open {
                let sum = out.entry(host).or_default();
                *sum = sum.plus(part.shape.times(*n));
            }
        }
        out
    }

    /// For how many instances of a group room is held, by host.
    fn held_for(&self, job: JobId, group: &GroupName) -> BTreeMap<&HostId, u64> {
        let mut out: BTreeMap<&HostId, u64> = BTreeMap::new();
        let of_job = self.all.values().filter(|p| p.claim.job == job);
        for part in of_job.flat_map(|p| &p.parts).filter(|p| p.group == *group) {
            for (host, n) in &part.open {
                *out.entry(host).or_default() += n;
            }
        }
        out
    }

    /// An instance of a group is about to be launched on a host: it has its room now.
    pub(crate) fn launched(&mut self, job: JobId, group: &GroupName, host: &HostId) {
        let of_job = self.all.values_mut().filter(|p| p.claim.job == job);
        let mut of_group = of_job.flat_map(|p| &mut p.parts).filter(|p| p.group == *group);
        if let Some(part) = of_group.find(|p| p.open.contains_key(host))
            && let Some(open) = part.open.get_mut(host)
        {
            *open = open.saturating_sub(1);
            part.open.retain(|_, n| *n > 0);
            self.untold = true;
        }
    }
}

fn without_victims(claim: Claim) -> Claim {
    Claim {
        victims: Vec::new(),
        ..claim
    }
}

impl Part {
    fn told(&self) -> ClaimPart {
        ClaimPart {
            group: self.group.clone(),
            generation: self.generation,
            count: self.open.values().sum(),
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
                Some(promise) => {
                    promise.until = until;
                    promise.claim = without_victims(claim);
                }
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
        let part = |part: &ClaimPart| Part {
            group: part.group.clone(),
            generation: part.generation,
            shape: Resources::ZERO,
            open: BTreeMap::new(),
        };
        let mut promise = Promise {
            claim: without_victims(claim.clone()),
            parts: claim.parts.iter().map(part).collect(),
            until,
            taken: BTreeSet::new(),
        };
        if !self.may_act() || !self.may_kill() || self.is_frozen() || self.withholds() {
            return promise;
        }
        self.renew_snapshot();
        let Some(asked) = self.asked(claim) else {
            return promise;
        };
        let chosen = victims::choose(&asked.question);
        for (part, shape) in promise.parts.iter_mut().zip(&asked.question.shapes) {
            part.shape = shape.room;
        }
        for (seat, load) in chosen.load {
            for (shape, n) in load {
                if let (Some(host), Some(part)) = (asked.hosts.get(seat), promise.parts.get_mut(shape)) {
                    part.open.insert(host.clone(), n);
                }
            }
        }
        if claim.keeps_host && promise.parts.iter().all(|part| part.open.is_empty()) {
            let host = self.host_to_keep(&asked);
            if let Some((host, part)) = host.zip(promise.parts.first_mut()) {
                part.open.insert(host, 1);
            }
        }
        let runs = chosen.victims.iter().filter_map(|i| asked.runs.get(*i));
        promise.taken.extend(runs.flatten().copied());
        for (at, ..) in &promise.taken {
            self.preempt(*at, &claim.pool);
        }
        promise
    }

    /// Stops an instance's run, and lowers its slice's grant by it.
    fn preempt(&mut self, at: At, pool: &str) {
        self.stop(at, Reason::new(ReasonCode::PoolPreempted).at(pool));
        if let Some(generation) = self.picture.record(at).map(|r| r.generation) {
            self.edit_row(at.0, |row| row.own.entry(generation).or_default().preempted += 1);
        }
    }

    /// Binds instances of a group to hosts where room is held for them and free by now.
    pub(crate) fn bind_claimed(&self, wanted: &mut Wanted) {
        self.bind_within(wanted, &mut BTreeMap::new());
    }

    /// Binds a gang in the same way, as soon as all of the room that is held for it is free. Before, it may begin elsewhere.
    pub(crate) fn bind_claimed_gang(&self, gang: &mut Vec<Wanted>) {
        let mut bound = gang.clone();
        let mut taken = BTreeMap::new();
        if bound.iter_mut().all(|w| self.bind_within(w, &mut taken)) {
            *gang = bound;
        }
    }

    /// Binds what finds room beside what is `taken` of each host, and adds that to it. Tells whether all are bound for whom room is held.
    fn bind_within(&self, wanted: &mut Wanted, taken: &mut BTreeMap<HostId, Resources>) -> bool {
        let held = self.claims.held_for(wanted.job, &wanted.group);
        // What holds or makes a volume, or minds where runs are, goes where placement finds room for it.
        if held.is_empty() || wanted.revocable || self.goes_its_own_way(wanted) {
            return true;
        }
        let due = usize::try_from(held.values().sum::<u64>()).unwrap_or(usize::MAX);
        let due = due.min(wanted.items.len());
        let before = wanted.bound.len();
        let views = self.hosts.views_of(held.keys().copied(), self.now);
        for view in views {
            let taken = taken.entry(view.id.clone()).or_default();
            let there = wanted.resources.count_in(view.free.minus(*taken));
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
                *taken = taken.plus(wanted.resources);
                wanted.bound.push(Bound {
                    number: item.number,
                    host: view.id.clone(),
                    hostname: view.hostname.clone(),
                    offered: true,
                });
            }
        }
        wanted.bound.len() - before == due
    }

    /// Whether capacity is held for a group that is not bound to it.
    pub(crate) fn finds_its_held_capacity(&self, wanted: &Wanted) -> bool {
        let is_held = !self.claims.held_for(wanted.job, &wanted.group).is_empty();
        is_held && self.goes_its_own_way(wanted)
    }

    fn goes_its_own_way(&self, wanted: &Wanted) -> bool {
        wanted.siting.depends_on_runs() || wanted.together.required || self.has_volume(wanted)
    }

    fn has_volume(&self, wanted: &Wanted) -> bool {
        let group = self.picture.group(wanted.job, &wanted.group);
        let spec = group.and_then(|g| g.group_spec());
        spec.is_none_or(|g| g.volume.is_some())
    }

    /// Takes room that is held out of what is given to others.
    pub(crate) fn set_claims_aside(&self, all: &mut BTreeMap<HostId, Resources>, groups: &[Wanted]) {
        if self.claims.all.is_empty() {
            return;
        }
        let mut aside = self.claims.held();
        for wanted in groups {
            let own_way = self.goes_its_own_way(wanted);
            for (host, n) in self.claims.held_for(wanted.job, &wanted.group) {
                let bound = wanted.bound.iter().filter(|b| b.host == *host).count();
                let bound = u64::try_from(bound).unwrap_or(u64::MAX);
                // What may be anywhere is alone in its problem: this capacity is open to nothing else.
                let used = if own_way { n } else { bound.min(n) };
                if let Some(sum) = aside.get_mut(host) {
                    *sum = sum.minus(wanted.resources.times(used));
                }
            }
        }
        for (host, room) in aside {
            let sum = all.entry(host.clone()).or_default();
            *sum = sum.plus(room);
        }
    }
}
