//! Preemption requests in a replay: victims are chosen by the function that chooses them in production, and
//! stop at once. The capacity is held on its hosts until the instances for which it was made have begun.

use crate::shard::{Change, Shard, SliceId};
use echelon_core_model::claim::{Claim, ClaimId, ClaimPart, ClaimReport, Victim};
use echelon_core_model::cluster::HostView;
use echelon_core_model::directive::ReportPart;
use echelon_core_model::{Generation, GroupName, HostId, JobId, Resources};
use echelon_core_placement::victims::{Candidate, KeptSeat, Question, Seat, Shape, choose, seat_to_keep};
use std::collections::BTreeMap;

/// Most instances that are looked at for one request, as in production.
const CANDIDATES: usize = 20_000;

/// All requests at a cluster.
#[derive(Debug, Default)]
pub struct Claims {
    all: BTreeMap<ClaimId, Promise>,
    untold: bool,
}

/// Capacity that is held for a request.
#[derive(Debug)]
struct Promise {
    /// The request as it was sent last, without victims.
    claim: Claim,
    parts: Vec<HeldPart>,
    taken: u64,
}

/// Capacity that is held for instances of a slice.
#[derive(Debug)]
struct HeldPart {
    slice: SliceId,
    shape: Resources,
    /// For how many instances, by host.
    open: BTreeMap<HostId, u64>,
}

impl Claims {
    fn parts(&self) -> impl Iterator<Item = &HeldPart> {
        self.all.values().flat_map(|p| &p.parts)
    }

    /// What is held on each host.
    pub fn held(&self) -> BTreeMap<HostId, Resources> {
        let mut out: BTreeMap<HostId, Resources> = BTreeMap::new();
        for part in self.parts() {
            for (host, n) in &part.open {
                let sum = out.entry(host.clone()).or_default();
                *sum = sum.plus(part.shape.times(*n));
            }
        }
        out
    }

    /// For how many instances of a slice capacity is held, by host.
    pub fn held_for(&self, slice: &SliceId) -> BTreeMap<&HostId, u64> {
        let mut out: BTreeMap<&HostId, u64> = BTreeMap::new();
        for part in self.parts().filter(|p| p.slice == *slice) {
            for (host, n) in &part.open {
                *out.entry(host).or_default() += n;
            }
        }
        out
    }

    /// Whether something is to be told.
    pub const fn has_news(&self) -> bool {
        self.untold
    }

    /// So many instances of a slice have begun on a host: what is held for them there is used.
    pub fn begun(&mut self, slice: &SliceId, host: &HostId, n: u64) {
        let mut left = n;
        let parts = self.all.values_mut().flat_map(|p| &mut p.parts);
        for part in parts.filter(|p| p.slice == *slice) {
            let Some(open) = part.open.get_mut(host) else {
                continue;
            };
            let used = left.min(*open);
            *open -= used;
            left -= used;
            part.open.retain(|_, n| *n > 0);
            self.untold |= used > 0;
        }
    }

    /// What is to be told, if anything has changed.
    pub fn news(&mut self) -> Option<ReportPart> {
        let part = |p: &HeldPart| ClaimPart {
            group: p.slice.1.clone(),
            generation: p.slice.2,
            count: p.open.values().sum(),
        };
        let told = self.all.values().map(|p| ClaimReport {
            claim: p.claim.clone(),
            open: p.parts.iter().map(part).collect(),
            taken: p.taken,
        });
        std::mem::take(&mut self.untold).then(|| ReportPart::Claims(told.collect()))
    }
}

/// A question with what its indexes stand for.
#[derive(Default)]
struct Asked {
    question: Question,
    hosts: Vec<HostId>,
    /// Of each candidate, the instances that are stopped together.
    runs: Vec<Vec<(SliceId, HostId, u64)>>,
}

impl Shard<'_> {
    /// All requests as the resource manager has them now.
    pub fn obey_claims(&mut self, claims: &[Claim], done: &mut Vec<Change>) {
        let named = |id: &ClaimId| claims.iter().any(|c| c.id == *id);
        self.claims.all.retain(|id, _| named(id));
        self.claims.untold = true;
        for claim in claims {
            if self.claims.all.contains_key(&claim.id) {
                continue;
            }
            let promise = self.promise(claim, done);
            self.claims.all.insert(claim.id, promise);
        }
    }

    /// Makes capacity for a request that is heard for the first time.
    fn promise(&mut self, claim: &Claim, done: &mut Vec<Change>) -> Promise {
        let mut parts: Vec<HeldPart> = claim
            .parts
            .iter()
            .map(|part| {
                let slice = id(claim.job, &part.group, part.generation);
                HeldPart {
                    shape: self.group(&slice).map(|g| g.shape).unwrap_or_default(),
                    slice,
                    open: BTreeMap::new(),
                }
            })
            .collect();
        let asked = self.asked(claim);
        let chosen = choose(&asked.question);
        for (seat, load) in &chosen.load {
            for (shape, n) in load {
                // Capacity in a pool is held on no host.
                if let (Some(host), Some(part)) = (asked.hosts.get(*seat), parts.get_mut(*shape)) {
                    part.open.insert(host.clone(), *n);
                }
            }
        }
        if claim.keeps_host && parts.iter().all(|part| part.open.is_empty()) {
            let host = self.host_to_keep(&asked);
            if let Some((host, part)) = host.zip(parts.first_mut()) {
                part.open.insert(host, 1);
            }
        }
        let mut victims: BTreeMap<(SliceId, HostId), u64> = BTreeMap::new();
        let runs = chosen.victims.iter().filter_map(|i| asked.runs.get(*i)).flatten();
        for (slice, host, n) in runs {
            *victims.entry((slice.clone(), host.clone())).or_default() += n;
        }
        let mut taken = 0u64;
        for ((slice, host), n) in victims {
            taken = taken.saturating_add(n);
            done.extend(self.preempt(&slice, &host, n));
        }
        Promise {
            claim: Claim {
                victims: Vec::new(),
                ..claim.clone()
            },
            parts,
            taken,
        }
    }

    /// The host of which the capacity is kept for one instance, as a real shard chooses it.
    fn host_to_keep(&self, asked: &Asked) -> Option<HostId> {
        let shape = asked.question.shapes.first().filter(|_| !asked.question.whole)?;
        let held = self.claims.held();
        let ending = self.ending();
        let seats = shape.seats.iter().filter_map(|seat| {
            let host = asked.hosts.get(*seat)?;
            let whole = self.hosts.view(host)?.capacity;
            Some(KeptSeat {
                seat: *seat,
                spare: asked.question.seats.get(*seat)?.spare,
                ending: ending.get(host).copied().unwrap_or_default(),
                whole: whole.minus(held.get(host).copied().unwrap_or_default()),
            })
        });
        asked.hosts.get(seat_to_keep(shape.room, seats)?).cloned()
    }

    fn asked(&self, claim: &Claim) -> Asked {
        let mut out = Asked::default();
        out.question.most = claim.most;
        match claim.quota {
            // One seat for all hosts.
            Some(quota) => {
                out.question.seats.push(Seat { spare: quota.left });
                out.question.shapes.push(Shape {
                    room: quota.unit,
                    count: quota.count,
                    seats: vec![0],
                });
                self.add_candidates(&mut out, &claim.victims, |_| Some(0));
            }
            None if self.add_shapes(&mut out, claim) => {
                let seats: BTreeMap<HostId, usize> = out.hosts.iter().cloned().zip(0..).collect();
                self.add_candidates(&mut out, &claim.victims, |host| seats.get(host).copied());
            }
            None => {}
        }
        out
    }

    /// Adds what wants capacity, and the hosts that it may use; `false` where it does not want it any more.
    fn add_shapes(&self, out: &mut Asked, claim: &Claim) -> bool {
        let is_gang = self.job(claim.job).is_some_and(|j| j.gang);
        out.question.whole = is_gang;
        for part in &claim.parts {
            let slice = id(claim.job, &part.group, part.generation);
            let (Some(group), waiting) = (self.group(&slice), self.waiting(&slice)) else {
                return false;
            };
            // Of a gang all is wanted that was requested, or nothing.
            if is_gang && waiting < part.count {
                return false;
            }
            out.question.shapes.push(Shape {
                room: group.shape,
                count: part.count.min(waiting),
                seats: Vec::new(),
            });
        }
        let held = self.claims.held();
        for view in self.hosts.views().iter().filter(|v| !v.draining) {
            let usable: Vec<bool> = claim
                .parts
                .iter()
                .map(|part| self.may_use(&id(claim.job, &part.group, part.generation), view))
                .collect();
            if !usable.contains(&true) {
                continue;
            }
            let shapes = out.question.shapes.iter_mut().zip(usable);
            for (shape, _) in shapes.filter(|(_, usable)| *usable) {
                shape.seats.push(out.hosts.len());
            }
            out.question.seats.push(Seat {
                spare: view.free.minus(held.get(&view.id).copied().unwrap_or_default()),
            });
            out.hosts.push(view.id.clone());
        }
        true
    }

    /// Whether instances of a slice may run on a host.
    fn may_use(&self, slice: &SliceId, view: &HostView) -> bool {
        let group = self.group(slice);
        group.is_some_and(|g| g.host_pool.lets(&view.host_pool) && (g.shape.gpus > 0 || !view.kept))
    }

    fn add_candidates(&self, out: &mut Asked, victims: &[Victim], seat: impl Fn(&HostId) -> Option<usize>) {
        let mut gangs: BTreeMap<JobId, usize> = BTreeMap::new();
        for (index, victim) in victims.iter().enumerate() {
            let slice = id(victim.job, &victim.group, victim.generation);
            if self.job(victim.job).is_some_and(|j| j.gang) {
                gangs.entry(victim.job).or_insert(index);
                out.question.slices.push(0);
                continue;
            }
            out.question.slices.push(self.may_lose(&slice).min(victim.most));
            // Those that began last come first: they lose least.
            let runs = self.on(&slice).iter().rev();
            let runs = runs.flat_map(|b| {
                let n = usize::try_from(b.count).unwrap_or(usize::MAX);
                std::iter::repeat_n(&b.host, n)
            });
            let left = CANDIDATES.saturating_sub(out.question.candidates.len());
            for host in runs.take(left) {
                let runs = vec![(slice.clone(), host.clone(), 1)];
                self.add_candidate(out, (index, victim.class), runs, &seat);
            }
        }
        for (job, index) in gangs {
            let Some(runs) = self.whole_gang(job, victims) else {
                continue;
            };
            if let Some(bound) = out.question.slices.get_mut(index) {
                *bound = runs.iter().map(|(.., n)| n).sum();
            }
            let class = victims.get(index).map_or(u32::MAX, |v| v.class);
            self.add_candidate(out, (index, class), runs, &seat);
        }
    }

    fn add_candidate(
        &self,
        out: &mut Asked,
        (slice, class): (usize, u32),
        runs: Vec<(SliceId, HostId, u64)>,
        seat: &impl Fn(&HostId) -> Option<usize>,
    ) {
        let mut rooms: BTreeMap<usize, Resources> = BTreeMap::new();
        for (of, host, n) in &runs {
            if let Some(seat) = seat(host) {
                let sum = rooms.entry(seat).or_default();
                *sum = sum.plus(self.left_by(of, host).times(*n));
            }
        }
        if rooms.is_empty() {
            return;
        }
        out.question.candidates.push(Candidate {
            rooms: rooms.into_iter().collect(),
            count: runs.iter().map(|(.., n)| n).sum(),
            class,
            slice,
        });
        out.runs.push(runs);
    }

    /// Ordinary capacity that an instance leaves on a host when it is stopped: its volume stays.
    fn left_by(&self, slice: &SliceId, host: &HostId) -> Resources {
        let held = self.group(slice).map(crate::trace::Group::held);
        self.taken(slice, host).own.minus(held.unwrap_or_default())
    }

    /// All of a gang, if all of it may be stopped: all that is active of it runs here, and is offered.
    fn whole_gang(&self, job: JobId, offered: &[Victim]) -> Option<Vec<(SliceId, HostId, u64)>> {
        let mut out = Vec::new();
        for (slice, of) in self.slices_of(job).filter(|(_, s)| s.active() > 0) {
            let same = |v: &&Victim| (v.job, &v.group, v.generation) == (slice.0, &slice.1, slice.2);
            let most: u64 = offered.iter().filter(same).map(|v| v.most).sum();
            if of.active() > most || of.active() > self.may_lose(slice) {
                return None;
            }
            out.extend(
                self.on(slice)
                    .iter()
                    .map(|b| (slice.clone(), b.host.clone(), b.count)),
            );
        }
        (!out.is_empty()).then_some(out)
    }
}

fn id(job: JobId, group: &GroupName, generation: Generation) -> SliceId {
    (job, group.clone(), generation)
}
