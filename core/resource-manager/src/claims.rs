//! Claims under way: room that shards were asked to make for starved groups, and what they said. Whatever a shard holds for a claim
//! counts as the claimant's: it is admitted into that room before anybody else, and nobody else is admitted into it. Known from
//! full reports to a new leader, so nothing of it is stored.

use crate::division::asked;
use crate::effect::Effect;
use crate::entry::lines;
use crate::holders::Holders;
use crate::manager::ResourceManager;
use crate::picture::{Picture, SliceKey};
use crate::preempt::Preemption;
use crate::{place, preempt};
use echelon_core_model::claim::{Claim, ClaimId, ClaimReport};
use echelon_core_model::directive::Order;
use echelon_core_model::{ClusterId, GroupName, JobId, Span, Timestamp};
use echelon_core_pools::{Admission, Request, Rooms, admit_held};
use std::collections::{BTreeMap, BTreeSet};

/// How long waiting instances stay where they were sent because room can be made there.
const MOVED: Span = Span::minutes(5);

/// A claim under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimView {
    /// Where room is to be made.
    pub cluster: ClusterId,
    /// What its shard is asked for. Of a claim that an earlier leader made: only whose it is.
    pub claim: Claim,
    /// When it was made, or first heard of.
    pub since: Timestamp,
    /// What its shard has said.
    pub report: Option<ClaimReport>,
    /// Whether its shard ever held room for it.
    pub had_room: bool,
}

/// All claims.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claims {
    /// By id.
    pub all: BTreeMap<ClaimId, ClaimView>,
    /// Groups for which none could be made: until when no other is made, and how often in a row.
    pub refused: BTreeMap<(JobId, GroupName), (Timestamp, u32)>,
    /// Who has the clusters where a group waits in vain, as it was when that was last looked at.
    pub(crate) holders: BTreeMap<(JobId, GroupName), Holders>,
    /// When waiting instances of a group were last sent where room can be made for them.
    pub moved: BTreeMap<(JobId, GroupName), Timestamp>,
    /// Clusters that are to be told of all their claims.
    pub untold: BTreeSet<ClusterId>,
    /// Instances taken lately: when, and how many.
    pub taken: Vec<(Timestamp, u64)>,
}

impl Claims {
    /// The claims at a cluster.
    pub fn at<'a>(&'a self, cluster: &'a ClusterId) -> impl Iterator<Item = &'a ClaimView> {
        self.all.values().filter(move |c| c.cluster == *cluster)
    }

    /// The groups for which one is under way.
    #[must_use]
    pub fn groups(&self) -> BTreeSet<(JobId, &GroupName)> {
        let groups = self.all.values().map(|c| &c.claim);
        let groups = groups.flat_map(|c| c.parts.iter().map(|p| (c.job, &p.group)));
        groups.collect()
    }

    /// For how many instances of a slice room is held, which nobody has begun in.
    #[must_use]
    pub fn open(&self, job: JobId, key: &SliceKey) -> u64 {
        let of_job = self.at(&key.cluster).filter(|c| c.claim.job == job);
        let reports = of_job.filter_map(|c| c.report.as_ref());
        reports.map(|r| r.open_of(&key.group, key.generation)).sum()
    }

    /// Who has a cluster where a group waits in vain.
    #[must_use]
    pub fn holders(&self, job: JobId, key: &SliceKey) -> Option<&str> {
        let of_group = self.holders.get(&(job, key.group.clone()))?;
        of_group.get(&key.cluster).map(AsRef::as_ref)
    }

    /// Whether waiting instances of a group are on their way, or have not waited long where they went.
    pub(crate) fn moved_lately(&self, request: &Request, now: Timestamp) -> bool {
        let at = self.moved.get(&(request.job, request.group.clone()));
        at.is_some_and(|at| now.since(*at) < MOVED)
    }

    /// A stream to a cluster's shard has opened: what it holds it will say.
    pub fn forget(&mut self, cluster: &ClusterId) {
        self.all.retain(|_, c| c.cluster != *cluster);
    }

    /// Takes in what a shard says of all its claims. One that nobody here knows is adopted when it comes with a full report.
    /// One that it spoke of before and does not now has lapsed there: its room is free.
    pub fn heard(&mut self, cluster: &ClusterId, told: Vec<ClaimReport>, full: bool, now: Timestamp) {
        let named: BTreeSet<ClaimId> = told.iter().map(|r| r.id).collect();
        self.all
            .retain(|id, c| c.cluster != *cluster || c.report.is_none() || named.contains(id));
        for report in told {
            if let Some(known) = self.all.get_mut(&report.id) {
                let before = known.report.as_ref().map_or(0, |r| r.taken);
                let more = report.taken.saturating_sub(before);
                if more > 0 {
                    self.taken.push((now, more));
                }
                known.had_room |= report.holds_room();
                known.report = Some(report);
            } else if full && report.holds_room() {
                let adopted = ClaimView {
                    cluster: cluster.clone(),
                    claim: adopted(&report),
                    since: now,
                    report: Some(report),
                    had_room: true,
                };
                self.all.insert(adopted.claim.id, adopted);
            } else {
                self.untold.insert(cluster.clone());
            }
        }
    }
}

fn adopted(report: &ClaimReport) -> Claim {
    Claim {
        id: report.id,
        job: report.job,
        parts: report.open.clone(),
        pool: String::new(),
        most: 0,
        victims: Vec::new(),
    }
}

/// What a claim is about: its slices, and what is asked for.
fn claimant(picture: &Picture, view: &ClaimView) -> Option<Claimant> {
    let Claim { job: id, parts, .. } = &view.claim;
    let job = picture.jobs.get(id)?;
    let spec = job.running_spec()?;
    let lines = lines(picture, *id, job);
    let slices = parts.iter().map(|part| {
        let key = SliceKey {
            group: part.group.clone(),
            cluster: view.cluster.clone(),
            generation: part.generation,
        };
        let line = lines.iter().find(|l| l.key == key)?;
        let begun = line.count.active;
        Some(Slice {
            wanting: line.count.startable().saturating_sub(begun),
            more: line.count.startable().saturating_sub(line.allocated),
            waiting: line.allocated.saturating_sub(begun),
            key,
        })
    });
    let slices = slices.collect::<Option<Vec<Slice>>>()?;
    let group = spec.group(&slices.first()?.key.group)?;
    Some(Claimant {
        gang: spec.gang.is_some(),
        request: asked(picture, (*id, job), (spec, group), &lines),
        slices,
    })
}

struct Claimant {
    /// All of it begins together.
    gang: bool,
    /// What its group, or gang, asks for, if anything.
    request: Option<Request>,
    slices: Vec<Slice>,
}

struct Slice {
    key: SliceKey,
    /// Instances that are not active and could be.
    wanting: u64,
    /// Of these, how many are not granted.
    more: u64,
    /// Of these, how many are granted.
    waiting: u64,
}

impl Claimant {
    /// For how many instances of each slice that are not granted room is held.
    fn ungranted(&self, told: &ClaimReport) -> Vec<(&SliceKey, u64)> {
        let of = |slice: &Slice| {
            let open = told.open_of(&slice.key.group, slice.key.generation);
            open.saturating_sub(slice.waiting).min(slice.more)
        };
        self.slices.iter().map(|s| (&s.key, of(s))).collect()
    }

    /// Whether there is room for all that a gang asks for.
    fn is_whole(&self, request: &Request, told: &ClaimReport) -> bool {
        let ungranted = self.ungranted(told);
        request.gang.iter().all(|member| {
            let of = |key: &SliceKey| key.group == member.group && key.generation == member.generation;
            ungranted.iter().any(|(key, n)| of(key) && *n >= member.more)
        })
    }

    /// Whether what is held is of no use, since it is not enough for the whole gang.
    fn is_short(&self, told: &ClaimReport) -> bool {
        let asks = self.request.as_ref().filter(|_| self.gang);
        asks.is_some_and(|request| !self.is_whole(request, told))
    }
}

/// Admits claimants into the room that is made for them, as far as it is there, and sets the rest of it aside.
pub(crate) fn admit_claims(picture: &Picture, rooms: &mut Rooms) -> Vec<Admission> {
    let mut out = Vec::new();
    for view in picture.claims.all.values() {
        let told = view.report.as_ref().filter(|r| r.holds_room());
        let claimant = told.and_then(|told| Some((told, claimant(picture, view)?)));
        let Some((told, claimant)) = claimant else {
            continue;
        };
        let Some(request) = &claimant.request else {
            continue;
        };
        let units = if claimant.gang {
            u64::from(claimant.is_whole(request, told))
        } else {
            claimant.ungranted(told).iter().map(|(_, n)| *n).sum()
        };
        let n = admit_held(request, &view.cluster, units, rooms);
        let generation = view.claim.parts.first().map(|p| p.generation);
        let admission = Admission {
            job: request.job,
            group: request.group.clone(),
            more: generation
                .filter(|_| n > 0)
                .map(|g| (view.cluster.clone(), g, n))
                .into_iter()
                .collect(),
        };
        let admitted = request.groups_of(admission).into_iter();
        out.extend(admitted.filter(|a| !a.more.is_empty()));
    }
    out
}

/// Lets go of claims that are met, not wanted any more, refused or too old.
pub(crate) fn tidy(picture: &mut Picture, now: Timestamp, rules: Preemption) {
    let mut claims = std::mem::take(&mut picture.claims);
    // Whether it has come to nothing, if it ends.
    let ends = |view: &ClaimView| {
        let said = view.report.as_ref();
        let met = said.is_some_and(|r| !r.holds_room());
        let claimant = claimant(picture, view);
        let unwanted = claimant
            .as_ref()
            .is_none_or(|c| c.slices.iter().all(|s| s.wanting == 0));
        let short = said.is_some_and(|told| claimant.is_some_and(|c| c.is_short(told)));
        let wanted_there = picture
            .clusters
            .get(&view.cluster)
            .is_some_and(|c| c.takes_grants());
        let over = met || unwanted || short || !wanted_there || now >= view.since.plus(rules.patience);
        over.then_some(short || !view.had_room)
    };
    let over: Vec<(ClaimId, bool)> = claims
        .all
        .iter()
        .filter_map(|(id, v)| Some((*id, ends(v)?)))
        .collect();
    for (id, in_vain) in over {
        let Some(view) = claims.all.remove(&id) else {
            continue;
        };
        let first = view.claim.parts.first();
        let key = first.map(|part| (view.claim.job, part.group.clone()));
        if let Some(key) = key {
            if in_vain {
                let tries = claims.refused.get(&key).map_or(0, |(_, tries)| *tries);
                let wait = rules.after.0.saturating_mul(1 << tries.min(5));
                claims
                    .refused
                    .insert(key, (now.plus(Span(wait)), tries.saturating_add(1)));
            } else {
                claims.refused.remove(&key);
            }
        }
        claims.untold.insert(view.cluster);
    }
    let lives = |id: &JobId| picture.jobs.get(id).is_some_and(|j| j.running_spec().is_some());
    claims
        .refused
        .retain(|(job, _), (until, _)| lives(job) && now < until.plus(rules.patience));
    claims
        .moved
        .retain(|(job, _), at| lives(job) && now.since(*at) < MOVED);
    let starved: BTreeSet<JobId> = claims.refused.keys().map(|(job, _)| *job).collect();
    claims.holders.retain(|(job, _), _| starved.contains(job));
    claims.taken.retain(|(at, _)| now.since(*at) < Span::minutes(1));
    picture.claims = claims;
}

impl ResourceManager {
    /// Has room made for those who are starved.
    pub(crate) fn claim(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        if let Some(first) = self.picture.division.first.take() {
            let rules = self.config.preemption;
            let Self {
                picture,
                numbers,
                epoch,
                ..
            } = self;
            let remedy = preempt::remedy(picture, &first, &rules, now, || numbers.claim(*epoch));
            for going in remedy.moves {
                self.send_where_room_can_be_made(going, now);
            }
            self.picture.claims.holders.extend(remedy.holders);
            for key in remedy.in_vain {
                self.dirty.insert(key.0);
                let tries = self
                    .picture
                    .claims
                    .refused
                    .get(&key)
                    .map_or(0, |(_, tries)| *tries);
                let until = now.plus(rules.after);
                self.picture.claims.refused.insert(key, (until, tries));
            }
            for (cluster, claim) in remedy.claims {
                for part in &claim.parts {
                    let of_group = (claim.job, part.group.clone());
                    self.picture.claims.holders.remove(&of_group);
                }
                self.picture.claims.untold.insert(cluster.clone());
                let view = ClaimView {
                    cluster,
                    claim,
                    since: now,
                    report: None,
                    had_room: false,
                };
                self.picture.claims.all.insert(view.claim.id, view);
            }
        }
        for cluster in std::mem::take(&mut self.picture.claims.untold) {
            self.tell_claims(&cluster, out);
        }
    }

    fn send_where_room_can_be_made(&mut self, going: preempt::Move, now: Timestamp) {
        let Some(mut job) = self.picture.jobs.lend(&going.job) else {
            return;
        };
        let when = (now, self.config.spill_after);
        let changed = place::send_waiting(&mut job, &going.key, (&going.to, going.count), when);
        self.picture.jobs.give_back(going.job, job, changed);
        if changed {
            self.dirty.insert(going.job);
            let key = (going.job, going.key.group);
            self.picture.claims.moved.insert(key, now);
        }
    }

    /// Tells a shard of all its claims, once it is known to obey this leader: before, it may hold room of which nothing is known here.
    pub(crate) fn tell_claims(&mut self, cluster: &ClusterId, out: &mut Vec<Effect>) {
        if self
            .picture
            .clusters
            .get(cluster)
            .is_some_and(|c| c.settled && c.link.is_some() && c.fulls > 0)
        {
            let claims = self.picture.claims.at(cluster).map(|c| c.claim.clone());
            let claims = claims.collect();
            let lease = Span(self.config.reread.0.saturating_mul(6));
            self.send(cluster, Order::Claims { claims, lease }, out);
        }
    }
}
