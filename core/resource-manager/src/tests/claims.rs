//! What a model shard does about claims: it takes the victims that it is offered, in their order, as many as are needed, and holds
//! the room until the claimant has begun. For a gang it takes nobody unless there is room for all of it.

use crate::tests::shard::{Key, ModelShard};
use echelon_core_model::claim::{Claim, ClaimId, ClaimPart, ClaimReport, Quota, Victim};
use echelon_core_model::directive::{Report, ReportPart};
use echelon_core_model::{RangeSet, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone)]
pub struct Promise {
    pub claim: Claim,
    /// For how many instances room is held.
    pub open: BTreeMap<Key, u64>,
    pub taken: u64,
}

impl ModelShard {
    pub fn obey_claims(&mut self, claims: Vec<Claim>, now: Timestamp) -> Vec<Report> {
        let named: BTreeSet<ClaimId> = claims.iter().map(|c| c.id).collect();
        self.claims.retain(|id, _| named.contains(id));
        for claim in claims {
            if let Some(known) = self.claims.get_mut(&claim.id) {
                known.claim = claim;
            } else {
                let promise = self.promise(claim);
                self.claims.insert(promise.claim.id, promise);
            }
        }
        if self.dies_at_once {
            self.bury();
        }
        let told = self.claims_told();
        let mut out = vec![self.report(told)];
        out.extend(self.work(now));
        out
    }

    /// Room in a pool: of whole units as many as can be had, and nothing is held.
    fn promise_quota(&mut self, claim: Claim, quota: Quota) -> Promise {
        let free = |victim: &Victim| {
            let key = (victim.job, victim.group.clone(), victim.generation);
            let slice = self.slices.get(&key)?;
            let active = slice.active.minus(&slice.dying);
            Some((key, active.highest(victim.most)))
        };
        let offered: Vec<(Key, RangeSet)> = claim.victims.iter().filter_map(free).collect();
        let all: u64 = offered.iter().map(|(_, set)| set.count()).sum();
        let cores = |n: u64| {
            (quota.unit.cpus * n)
                .saturating_sub(quota.left.cpus)
                .div_ceil(1000)
        };
        let units = (0..=quota.count).rev().find(|n| cores(*n) <= all.min(claim.most));
        let mut left = cores(units.unwrap_or(0)).saturating_sub(self.holds_back);
        let taken = left;
        for (key, set) in offered {
            let gone = if self.gangs.contains(&key.0) && left > 0 {
                set
            } else {
                set.highest(left)
            };
            left = left.saturating_sub(gone.count());
            let slice = self.slices.get_mut(&key).unwrap();
            slice.own.preempted += gone.count();
            slice.dying = slice.dying.union(&gone);
        }
        let open = claim
            .parts
            .iter()
            .map(|p| ((claim.job, p.group.clone(), p.generation), 0))
            .collect();
        Promise { claim, open, taken }
    }

    fn promise(&mut self, claim: Claim) -> Promise {
        if let Some(quota) = claim.quota {
            return self.promise_quota(claim, quota);
        }
        let dying = self.slices.iter();
        let dying = dying.map(|(key, s)| s.dying.intersect(&s.active).count() * self.size(key.0));
        let dying: u64 = dying.sum();
        let held = self.claims.values().flat_map(|p| &p.open);
        let held: u64 = held.map(|(key, n)| n * self.size(key.0)).sum();
        let spare = (self.cores + dying).saturating_sub(self.used() + held);
        // What is free is of no use to anybody.
        let size = self.size(claim.job);
        let is_in_pieces = self.largest_piece.is_some_and(|most| size > most);
        let spare = if self.unplaceable.is_some() || is_in_pieces {
            dying
        } else {
            spare
        };
        // What it does not know, or what has begun, cannot begin.
        let startable = |part: &ClaimPart| {
            let key = (claim.job, part.group.clone(), part.generation);
            let resting = self.slices.get(&key).map_or(0, |s| s.between_runs.count());
            part.count.min(self.startable(&key) + resting)
        };
        let counts: Vec<u64> = claim.parts.iter().map(startable).collect();
        let asked: u64 = counts.iter().sum();
        let wanted = asked.saturating_sub(self.holds_back) * size;
        let mut room = spare.min(wanted);
        if claim.keeps_host && self.keeps_hosts {
            // The capacity of one host is kept, whatever uses it now.
            room = wanted;
        }
        let mut chosen: Vec<(Key, RangeSet)> = Vec::new();
        let mut taken = 0;
        for victim in &claim.victims {
            let key = (victim.job, victim.group.clone(), victim.generation);
            let Some(slice) = self.slices.get(&key) else {
                continue;
            };
            let free = slice.active.minus(&slice.dying);
            if free.is_empty() {
                // All of it is being stopped for an earlier claim, which the manager has not heard of yet.
                continue;
            }
            let is_gang = self.gangs.contains(&victim.job);
            let begun = chosen.iter().any(|((job, ..), _)| *job == victim.job);
            let n = if is_gang && (begun || room < wanted) {
                // All of it goes.
                assert_eq!(victim.most, free.count(), "a gang is offered whole");
                free.count()
            } else {
                wanted
                    .saturating_sub(room)
                    .div_ceil(self.size(victim.job))
                    .min(victim.most)
                    .min(claim.most - taken)
            };
            let gone = free.highest(n);
            if gone.is_empty() {
                continue;
            }
            room += gone.count() * self.size(victim.job);
            taken += gone.count();
            chosen.push((key, gone));
        }
        // Nothing is stopped for less than one instance.
        if self.gangs.contains(&claim.job) && room < wanted || room < size {
            (room, taken) = (0, 0);
            chosen.clear();
        }
        for (key, gone) in chosen {
            let slice = self.slices.get_mut(&key).unwrap();
            slice.own.preempted += gone.count();
            slice.dying = slice.dying.union(&gone);
        }
        let mut open = BTreeMap::new();
        for (part, count) in claim.parts.iter().zip(counts) {
            let n = count.min(room / size);
            room -= n * size;
            open.insert((claim.job, part.group.clone(), part.generation), n);
        }
        Promise { claim, open, taken }
    }

    /// Those who are being stopped are dead.
    pub fn die(&mut self, now: Timestamp) -> Vec<Report> {
        self.bury();
        self.work(now)
    }

    fn bury(&mut self) {
        for slice in self.slices.values_mut() {
            slice.active = slice.active.minus(&slice.dying);
            slice.dying = RangeSet::new();
        }
    }

    pub fn held_for(&self, key: &Key) -> u64 {
        self.claims.values().filter_map(|p| p.open.get(key)).sum()
    }

    pub fn held_for_others(&self, key: &Key) -> u64 {
        let held = self.claims.values().flat_map(|p| &p.open);
        let others = held.filter(|(of, _)| *of != key);
        others.map(|(of, n)| n * self.size(of.0)).sum()
    }

    /// So many instances of a slice have begun.
    pub fn settle_claims(&mut self, key: &Key, mut begun: u64) {
        let held = self.claims.values_mut().filter_map(|p| p.open.get_mut(key));
        for open in held {
            let used = (*open).min(begun);
            *open -= used;
            begun -= used;
        }
    }

    pub fn claims_told(&self) -> ReportPart {
        let part = |((_, group, generation), count): (&Key, &u64)| ClaimPart {
            group: group.clone(),
            generation: *generation,
            count: *count,
        };
        let claims = self.claims.values().map(|p| ClaimReport {
            claim: Claim {
                victims: Vec::new(),
                ..p.claim.clone()
            },
            open: p.open.iter().map(part).collect(),
            taken: p.taken,
        });
        ReportPart::Claims(claims.collect())
    }
}
