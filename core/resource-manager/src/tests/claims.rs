//! What a model shard does about claims: it takes the victims that it is offered, in their order, as many as are needed, and holds
//! the room until the claimant has begun.

use super::shard::{Key, ModelShard};
use echelon_core_model::claim::{Claim, ClaimId, ClaimReport};
use echelon_core_model::directive::{Report, ReportPart};
use echelon_core_model::{RangeSet, Timestamp};
use std::collections::BTreeSet;

#[derive(Debug, Clone)]
pub struct Promise {
    pub claim: Claim,
    pub open: u64,
    pub taken: u64,
}

impl Promise {
    fn key(&self) -> Key {
        (self.claim.job, self.claim.group.clone(), self.claim.generation)
    }
}

impl ModelShard {
    pub fn obey_claims(&mut self, claims: Vec<Claim>, now: Timestamp) -> Vec<Report> {
        let named: BTreeSet<ClaimId> = claims.iter().map(|c| c.id).collect();
        self.claims.retain(|id, _| named.contains(id));
        for claim in claims {
            if !self.claims.contains_key(&claim.id) {
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

    fn promise(&mut self, claim: Claim) -> Promise {
        let dying: u64 = self
            .slices
            .values()
            .map(|s| s.dying.intersect(&s.active).count())
            .sum();
        let held: u64 = self.claims.values().map(|p| p.open).sum();
        let spare = (self.cores + dying).saturating_sub(self.active() + held);
        let mut open = spare.min(claim.count);
        let mut taken = 0;
        for victim in &claim.victims {
            let key = (victim.job, victim.group.clone(), victim.generation);
            let Some(slice) = self.slices.get_mut(&key) else {
                continue;
            };
            let free = slice.active.minus(&slice.dying);
            let n = (claim.count - open).min(victim.most).min(claim.most - taken);
            let gone = free.highest(n);
            slice.preempted += gone.count();
            slice.dying = slice.dying.union(&gone);
            open += gone.count();
            taken += gone.count();
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

    pub fn held_for_others(&self, key: &Key) -> u64 {
        let others = self.claims.values().filter(|p| p.key() != *key);
        others.map(|p| p.open).sum()
    }

    /// So many instances of a slice have begun.
    pub fn settle_claims(&mut self, key: &Key, mut begun: u64) {
        for promise in self.claims.values_mut().filter(|p| p.key() == *key) {
            let used = promise.open.min(begun);
            promise.open -= used;
            begun -= used;
        }
    }

    pub fn claims_told(&self) -> ReportPart {
        let claims = self.claims.iter().map(|(id, p)| ClaimReport {
            id: *id,
            job: p.claim.job,
            group: p.claim.group.clone(),
            generation: p.claim.generation,
            open: p.open,
            taken: p.taken,
        });
        ReportPart::Claims(claims.collect())
    }
}
