//! Claims in a replay: a shard whose cluster is one host takes victims in the order in which they are offered, as few as make the
//! room, and holds it until the claimant has begun.

use crate::shard::{Change, Shard, SliceId};
use echelon_core_model::claim::{Claim, ClaimId, ClaimPart, ClaimReport, Quota, Victim};
use echelon_core_model::directive::ReportPart;
use echelon_core_model::{Generation, GroupName, JobId, Resources};
use std::collections::BTreeMap;

/// All claims at a cluster.
#[derive(Debug, Default)]
pub struct Claims {
    all: BTreeMap<ClaimId, Promise>,
    untold: bool,
}

/// Room that is held.
#[derive(Debug)]
struct Promise {
    slice: SliceId,
    /// For how many instances.
    open: u64,
    taken: u64,
}

impl Claims {
    /// Room is held for so many instances of each of these slices.
    pub fn held(&self) -> impl Iterator<Item = (&SliceId, u64)> {
        self.all.values().map(|p| (&p.slice, p.open))
    }

    /// For how many instances of a slice there is room held.
    pub fn held_for(&self, slice: &SliceId) -> u64 {
        let of_slice = self.all.values().filter(|p| p.slice == *slice);
        of_slice.map(|p| p.open).sum()
    }

    /// Whether something is to be told.
    pub const fn has_news(&self) -> bool {
        self.untold
    }

    /// So many instances of a slice have begun: those for whom room is held come first.
    pub fn begun(&mut self, slice: &SliceId, n: u64) {
        let mut left = n;
        for promise in self.all.values_mut().filter(|p| p.slice == *slice) {
            let used = left.min(promise.open);
            promise.open -= used;
            left -= used;
            self.untold |= used > 0;
        }
    }

    /// What is to be told, if anything has changed.
    pub fn news(&mut self) -> Option<ReportPart> {
        let told = self.all.iter().map(|(id, p)| ClaimReport {
            id: *id,
            job: p.slice.0,
            open: vec![ClaimPart {
                group: p.slice.1.clone(),
                generation: p.slice.2,
                count: p.open,
            }],
            taken: p.taken,
        });
        std::mem::take(&mut self.untold).then(|| ReportPart::Claims(told.collect()))
    }
}

impl Shard<'_> {
    /// All claims as the resource manager has them now.
    pub fn obey_claims(&mut self, claims: &[Claim], done: &mut Vec<Change>) {
        let named = |id: &ClaimId| claims.iter().any(|c| c.id == *id);
        self.claims.all.retain(|id, _| named(id));
        self.claims.untold = true;
        for claim in claims {
            if self.claims.all.contains_key(&claim.id) {
                continue;
            }
            // There are no gangs in a trace: a claim is about one group.
            let Some(part) = claim.parts.first() else { continue };
            let slice = id(claim.job, &part.group, part.generation);
            let (open, victims) = match claim.quota {
                // Room in a pool is held on no host.
                Some(quota) => (0, self.choose(claim, quota).1),
                None => {
                    let on_hosts = Quota {
                        left: self.spare(),
                        unit: self.shape(claim.job, &part.group),
                        count: part.count.min(self.waiting(&slice)),
                    };
                    self.choose(claim, on_hosts)
                }
            };
            let promise = Promise {
                slice,
                open,
                taken: victims.values().sum(),
            };
            self.claims.all.insert(claim.id, promise);
            for (victim, n) in victims {
                done.extend(self.preempt(&victim, n));
            }
        }
    }

    /// For how many instances of a claim there can be room, and how many of each slice go for that: none that is not needed.
    fn choose(&self, claim: &Claim, wanted: Quota) -> (u64, BTreeMap<SliceId, u64>) {
        let shape = wanted.unit;
        let mut offered: Vec<(SliceId, Resources)> = Vec::new();
        for victim in &claim.victims {
            let slice = id(victim.job, &victim.group, victim.generation);
            let room = self.shape(victim.job, &victim.group);
            let n = usize::try_from(self.may_go(victim)).unwrap_or(usize::MAX);
            offered.extend(std::iter::repeat_n((slice, room), n));
        }
        offered.truncate(usize::try_from(claim.most).unwrap_or(usize::MAX));
        let (mut spare, mut open) = (wanted.left, 0);
        let (mut taken, mut next) = (Vec::new(), offered.into_iter());
        while open < wanted.count {
            let before = taken.len();
            while !shape.fits(spare)
                && let Some(victim) = next.next()
            {
                spare = spare.plus(victim.1);
                taken.push(victim);
            }
            if !shape.fits(spare) {
                taken.truncate(before);
                break;
            }
            spare = spare.minus(shape);
            open += 1;
        }
        // From the end: those that are worth more stay first. What was taken in vain for one instance more is not in `taken`.
        let there = taken.iter().fold(wanted.left, |sum, (_, room)| sum.plus(*room));
        let mut spare = there.minus(shape.times(open));
        let mut out: BTreeMap<SliceId, u64> = BTreeMap::new();
        for (slice, room) in taken.into_iter().rev() {
            if room.fits(spare) {
                spare = spare.minus(room);
            } else {
                *out.entry(slice).or_default() += 1;
            }
        }
        (open, out)
    }

    fn may_go(&self, victim: &Victim) -> u64 {
        let slice = id(victim.job, &victim.group, victim.generation);
        self.may_lose(&slice).min(victim.most)
    }
}

fn id(job: JobId, group: &GroupName, generation: Generation) -> SliceId {
    (job, group.clone(), generation)
}
