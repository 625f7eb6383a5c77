//! How much may be active: entitlement of what jobs want, admission within it, and a second round that gives out again what pools
//! cannot use. Nothing is admitted while what is allocated and what is raised together exceed pool, entitlement, group or cluster.

use crate::admission::candidates::Candidates;
use crate::admission::capacity::rooms;
use crate::admission::gang_holds::holds;
use crate::admission::rounds::admissions;
use crate::admission::router::Router;
use crate::admission::second_round::Again;
use crate::admission::starvation::{NOTED, note};
use crate::demand::ask::ask;
use crate::demand::capacity::{capacity, lent};
use crate::demand::host_limits::HostLimits;
use crate::demand::ledger::Ledger;
use crate::demand::pool_demand::{Wanted, demands, demands_within, wanted};
use crate::picture::Picture;
use echelon_core_model::class::ClassDigest;
use echelon_core_model::{JobId, Resources, Span, Timestamp, Version};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{
    Admission, ClusterIdx, Entitlements, FirstRound, Hold, Holds, Kept, Line, Rooms, Turn, entitle, keep_all,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How room was divided last, and what the next division goes on from.
#[derive(Debug, Clone, Default)]
pub struct Division {
    /// What the last admission left: why somebody waits follows from it.
    pub rooms: Rooms,
    /// The clusters as the last admission saw them.
    pub(crate) candidates: Arc<Candidates>,
    /// When it was noted last of some pools who waits for a cluster.
    noted: Timestamp,
    /// When room was kept last for gangs.
    held: Timestamp,
    /// Round 0, kept while demands change, with the version of the tree that it is about.
    kept_round: Option<(Version, FirstRound)>,
    /// What pools wanted then.
    wanted: BTreeMap<PoolIdx, Wanted>,
    /// What hosts could hold then.
    limits: HostLimits,
    /// The clusters of which no host can take a class that waits, and when that was looked at last.
    closed: (Timestamp, Arc<BTreeSet<(ClassDigest, ClusterIdx)>>),
    /// What round 0 gave every pool, when room was just kept for gangs.
    pub(crate) first: Option<Entitled>,
    /// What the second round went by and gave; `None` when there was none.
    pub(crate) again: Option<Again>,
    /// Room that is kept together for gangs.
    pub(crate) holds: Holds,
    /// What of `rooms` they keep.
    pub(crate) kept: Vec<(Hold, Kept)>,
    /// Gangs for which nothing is certain to become free.
    pub(crate) blocked: BTreeSet<JobId>,
    /// Pools with somebody who was starved when it was noted last.
    pub(crate) starved: BTreeSet<PoolIdx>,
    /// Pools whose jobs have changed since.
    pub(crate) touched: BTreeSet<PoolIdx>,
}

/// What every pool may use of ordinary room, and of what hosts lend.
#[derive(Debug, Clone)]
pub struct Entitled {
    /// Of ordinary capacity.
    pub ordinary: Arc<Entitlements>,
    /// Of what hosts lend: the same division by shares alone. Nobody has reserved any of it.
    pub lent: Entitlements,
}

/// Round 0, computed from nothing.
#[must_use]
pub fn entitled(picture: &Picture, ledger: &Ledger) -> Entitled {
    let wanted = demands(picture, ledger);
    let there = capacity(picture, ledger);
    let ordinary = by_index(picture, &wanted, |w| w.ordinary);
    Entitled {
        ordinary: Arc::new(entitle(&picture.hierarchy, &ordinary, there)),
        lent: lent_entitled(picture, ledger, &wanted),
    }
}

/// What is lent is divided by shares alone. Mostly nothing is.
fn lent_entitled(picture: &Picture, ledger: &Ledger, wanted: &BTreeMap<PoolIdx, Wanted>) -> Entitlements {
    let there = lent(picture, ledger);
    let wanted = by_index(picture, wanted, |w| w.lent);
    entitle(&picture.by_shares, &wanted, there)
}

fn by_index(
    picture: &Picture,
    wanted: &BTreeMap<PoolIdx, Wanted>,
    which: impl Fn(&Wanted) -> Resources,
) -> Vec<Resources> {
    let mut out = vec![Resources::ZERO; picture.hierarchy.len()];
    for (pool, wanted) in wanted {
        if let Some(slot) = out.get_mut(*pool) {
            *slot = which(wanted);
        }
    }
    out
}

impl Division {
    /// Round 0, from the one before by what has changed since.
    pub(crate) fn stand(&mut self, picture: &Picture) -> Entitled {
        let ledger = &picture.ledger;
        let there = capacity(picture, ledger);
        let tree = picture.pools.version;
        let mut touched = std::mem::take(&mut self.touched);
        let limits = HostLimits::of(picture);
        let are_others = limits != self.limits;
        if are_others {
            // Looked at again at once.
            self.closed.0 = Timestamp(0);
        }
        self.limits = limits;
        if self.kept_round.as_ref().is_none_or(|(of, _)| *of != tree) {
            self.wanted = demands_within(&self.limits, picture, ledger);
            let all = by_index(picture, &self.wanted, |w| w.ordinary);
            let first = FirstRound::new(Arc::clone(&picture.hierarchy), all, there);
            self.kept_round = Some((tree, first));
        } else if let Some((_, first)) = &mut self.kept_round {
            touched.extend(ledger.choosy());
            if are_others {
                touched.extend(ledger.known().map(|(pool, _)| pool));
            }
            for pool in touched {
                let now = ledger.of_known(pool);
                let now = now.map(|of| wanted(&self.limits, picture, ledger, pool, of));
                first.set_demand(pool, now.unwrap_or_default().ordinary);
                match now {
                    Some(now) => self.wanted.insert(pool, now),
                    None => self.wanted.remove(&pool),
                };
            }
            first.set_capacity(there);
        }
        let ordinary = self.kept_round.as_mut().map(|(_, first)| first.entitlements());
        let lent = if lent(picture, ledger).is_zero() {
            Entitlements::default()
        } else {
            lent_entitled(picture, ledger, &self.wanted)
        };
        let out = Entitled {
            ordinary: ordinary.unwrap_or_default(),
            lent,
        };
        debug_assert_eq!(out.ordinary, entitled(picture, ledger).ordinary);
        out
    }
}

impl Division {
    /// The clusters of which no host can take a class that waits, as of the last admission.
    pub(crate) const fn closed(&self) -> &Arc<BTreeSet<(ClassDigest, ClusterIdx)>> {
        &self.closed.1
    }

    /// Looked at when hosts change, and once a second for the classes that have come to wait.
    fn closed_clusters(
        &mut self,
        picture: &Picture,
        now: Timestamp,
    ) -> &Arc<BTreeSet<(ClassDigest, ClusterIdx)>> {
        let (at, closed) = &mut self.closed;
        if now.since(*at) >= NOTED {
            let basis = picture.ledger.basis();
            *closed = Arc::new(self.limits.closed(&picture.ledger, |id| basis.index(id)));
            *at = now;
        }
        closed
    }
}

/// Divides what there is, keeping in mind what the next division needs, and tells who gets more.
pub fn divide(picture: &mut Picture, now: Timestamp, patience: Span) -> Vec<Admission> {
    let mut division = std::mem::take(&mut picture.division);
    let first = division.stand(picture);
    let mut rooms = rooms(picture, &picture.ledger, &first);
    rooms.close(division.closed_clusters(picture, now));
    let hopeful = |line: &Line| line.since.is_none_or(|since| now.since(since) < patience);
    division.holds.now = now;
    let known = (picture as &Picture, &picture.ledger, &division.holds);
    let candidates = Arc::new(Candidates::new(picture));
    let asked = |turn: &Turn| ask(picture, candidates.limits(), turn);
    let router = Router::of(picture, &candidates);
    let (admitted, again) = admissions(known, &first, &mut rooms, (asked, &router), hopeful);
    division.again = again;
    division.first = None;
    let noted = (division.noted, now);
    note(
        picture.ledger.queue_mut(),
        &rooms,
        &first,
        noted,
        &mut division.starved,
    );
    division.noted = now;
    if now.since(division.held) >= NOTED {
        division.held = now;
        let told = holds(picture, &Router::of(picture, &candidates), &first, &rooms);
        division.holds.all = told.holds;
        division.blocked = told.blocked;
        division.first = Some(first);
    }
    let has_begun = |turn: &Turn| admitted.iter().any(|a| a.job == turn.job);
    division.kept = keep_all(&division.holds, &mut rooms, has_begun);
    division.rooms = rooms;
    division.candidates = candidates;
    picture.division = division;
    admitted
}
