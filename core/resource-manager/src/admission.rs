//! What may begin, and where: remaining capacity, ordered queues, routing, and binding. Nothing is admitted
//! if what is allocated and what is raised would together exceed pool, entitlement, group or cluster.

pub(crate) mod binding;
pub(crate) mod candidates;
pub(crate) mod capacity;
pub(crate) mod grants;
pub(crate) mod holds;
pub(crate) mod rounds;
pub(crate) mod router;
pub(crate) mod second_round;
pub(crate) mod starvation;

use crate::admission::candidates::Candidates;
use crate::admission::capacity::rooms;
pub use crate::admission::grants::GrantTarget;
use crate::admission::holds::{HoldInputs, UndatedHolds, holds};
use crate::admission::rounds::{AdmissionRounds, RoundsResult, admissions};
use crate::admission::router::Router;
use crate::admission::second_round::{Again, EnforcedAmounts, SustainedAmounts};
use crate::admission::starvation::{NOTED, note};
use crate::demand::DemandState;
use crate::demand::ask::ask;
use crate::division::Entitled;
use crate::facts::FederationFacts;
use crate::facts::slice::SliceKey;
use echelon_core_model::{ClusterId, Generation, GroupName, JobId, Resources, Span, Timestamp, Version};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{
    Admission, ClusterIdx, Entitlements, Hold, Holds, Kept, Likeness, Line, Request, Rooms, Side, Terms,
    Turn, Unit, keep_all,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// For so long at most, starvation and capacity holds wait for admissions that are cut.
const LONGEST_CUT: Span = Span(NOTED.0 * 2);

/// What the last admission left.
#[derive(Debug, Clone, Default)]
pub struct LastAdmission {
    /// The capacity that it left: why something waits follows from it.
    pub rooms: Arc<Rooms>,
    /// What pools were entitled to.
    entitled: Arc<Entitlements>,
    /// The clusters as it saw them.
    pub(crate) candidates: Arc<Candidates>,
    /// When starvation was last noted for some pools.
    noted: Timestamp,
    /// When what is done once a second last began.
    began: Timestamp,
    /// What of it is done next.
    pub(crate) next_part: SecondlyPart,
    /// What the second round used and gave; `None` when there was none.
    pub(crate) second_round: Option<Arc<Again>>,
    /// What of that has lasted for as long as preemption waits.
    pub(crate) sustained: SustainedAmounts,
    /// Clusters where pools have more than they are entitled to.
    surplus_at: BTreeSet<ClusterIdx>,
    /// Capacity holds for units that wait.
    pub(crate) holds: Holds,
    /// What of `rooms` they take.
    pub(crate) kept: Vec<(Hold, Kept)>,
    /// Since when units have had holds without a date.
    undated: UndatedHolds,
    /// Gangs for which no capacity is certain to become free, and none is kept.
    pub(crate) blocked: BTreeSet<JobId>,
    /// Slices of which nothing that ends is replaced.
    pub(crate) run_down: BTreeSet<(JobId, SliceKey)>,
    /// Pools in which something was starved when starvation was last noted.
    pub(crate) starved_pools: BTreeSet<PoolIdx>,
}

impl LastAdmission {
    /// What is to be done now of what is done once a second.
    fn part(&self, at: AdmissionMoment, queues: usize) -> SecondlyPart {
        match self.next_part {
            SecondlyPart::Nothing if at.now.since(self.began) < NOTED => SecondlyPart::Nothing,
            SecondlyPart::Nothing if queues > at.most_queues => SecondlyPart::SecondRound,
            SecondlyPart::Nothing => SecondlyPart::All,
            next => next,
        }
    }

    /// Notes that a part was done.
    const fn did(&mut self, part: SecondlyPart, now: Timestamp) {
        if part.has_second_round() {
            self.began = now;
        }
        self.next_part = part.next();
    }

    /// Takes over what a second round gave, or that there was none. Holds and preemption go by the last one
    /// where they come in cycles after it.
    fn note_second_round(
        &mut self,
        second: Option<Again>,
        part: SecondlyPart,
        tree: Version,
        rooms: &mut Rooms,
    ) {
        let is_later = matches!(part, SecondlyPart::Holds | SecondlyPart::Preemption);
        if second.is_some() || !is_later {
            self.second_round = second.map(Arc::new);
        } else if let Some(last) = self.second_round.as_ref().filter(|last| last.tree == tree) {
            rooms.entitle(&last.entitled.ordinary, &last.entitled.lent);
        }
    }

    /// Whether capacity is held for something that waits.
    #[must_use]
    pub const fn holds_capacity(&self) -> bool {
        !self.kept.is_empty()
    }

    /// What the second round has given a pool of ordinary capacity, the last time or for as
    /// long as preemption waits. It is zero where there was none.
    #[must_use]
    pub fn second_amount(&self, pool: PoolIdx) -> Resources {
        let given = self.second_round.as_ref().map(|second| &second.ordinary.given);
        let last = given.and_then(|given| given.get(pool)).copied();
        last.unwrap_or_default().max_each(self.sustained.amount(pool))
    }

    /// How many more units of a group its pool is entitled to, whatever other pools use of that: preemption
    /// makes capacity for these at any cluster. Those that capacity is held for count. Of revocable work none.
    pub(crate) fn entitled_units(
        &self,
        of_group: (JobId, &GroupName),
        pool: PoolIdx,
        terms: Terms,
        unit: Unit,
    ) -> u64 {
        if terms.side != Side::Ordinary {
            return 0;
        }
        let turns = self
            .kept
            .iter()
            .map(|(hold, _)| (hold.turn.job, &hold.turn.group));
        let held = u64::try_from(turns.filter(|turn| *turn == of_group).count()).unwrap_or(u64::MAX);
        let left = self.entitled.amount(pool).minus(self.rooms.taken(pool).0);
        let bounds = self.rooms.count_by_bounds(pool, terms, unit);
        unit.shape.count_in(left).min(bounds).saturating_add(held)
    }
}

/// A capacity hold for one request: nothing else is admitted into it.
#[derive(Debug, Clone)]
pub(crate) struct WithheldCapacity {
    pub(crate) request: Request,
    /// The cluster.
    pub(crate) cluster: ClusterId,
    /// For how many units of each generation.
    pub(crate) units: Vec<(Generation, u64)>,
}

/// All capacity holds of preemption.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestedCapacity {
    pub(crate) capacity: Vec<WithheldCapacity>,
    /// Jobs for which capacity is being made.
    pub(crate) requesting: BTreeSet<JobId>,
}

/// When an admission is made, and how long what waits for a cluster is believed to find one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AdmissionMoment {
    pub(crate) now: Timestamp,
    pub(crate) patience: Span,
    /// How long work starves before capacity is made for it.
    pub(crate) preempt_after: Span,
    /// How long a capacity hold without a date lasts.
    pub(crate) undated_for: Span,
    /// Most jobs that are admitted at once.
    pub(crate) most_jobs: usize,
    /// With more queues than this, what is done once a second is done in several cycles.
    pub(crate) most_queues: usize,
}

/// What a cycle does of what is done once a second. It walks over all queues, so where there are very many,
/// each part has a cycle of its own, one right after the other. Holds and preemption go by what the second
/// round has given then, and by the capacity that the admission of their own cycle has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SecondlyPart {
    /// Nothing.
    #[default]
    Nothing,
    /// The second round, although no cluster has capacity for it: preemption enforces that.
    SecondRound,
    /// Capacity holds.
    Holds,
    /// Preemption.
    Preemption,
    /// All of this.
    All,
}

impl SecondlyPart {
    const fn has_second_round(self) -> bool {
        matches!(self, Self::SecondRound | Self::All)
    }

    const fn has_holds(self) -> bool {
        matches!(self, Self::Holds | Self::All)
    }

    /// Whether capacity is made for work that lacks it.
    pub(crate) const fn has_preemption(self) -> bool {
        matches!(self, Self::Preemption | Self::All)
    }

    /// The part that follows.
    const fn next(self) -> Self {
        match self {
            Self::SecondRound => Self::Holds,
            Self::Holds => Self::Preemption,
            Self::Nothing | Self::Preemption | Self::All => Self::Nothing,
        }
    }
}

/// Indexes of a group that were bound without a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AheadBinding {
    /// The job.
    pub job: JobId,
    /// Its group.
    pub group: GroupName,
    /// Where.
    pub cluster: ClusterId,
    /// How many.
    pub count: u64,
}

/// A grant as it was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantChange {
    /// The job.
    pub job: JobId,
    /// Its slice.
    pub slice: SliceKey,
    /// The grant's number.
    pub number: u64,
    /// What it became.
    pub target: GrantTarget,
}

/// What this cycle's admission decided.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AdmissionReport {
    /// What may begin, in the order in which it was admitted.
    pub admitted: Vec<Admission>,
    /// How many more instances each slice may begin, including those that were bound for it.
    pub bound: BTreeMap<(JobId, SliceKey), u64>,
    /// Indexes that were bound ahead.
    pub bound_ahead: Vec<AheadBinding>,
    /// Grants that change.
    pub granted: Vec<GrantChange>,
    /// Grants that may not change yet: their shard does not obey this leader, or the marks of what is to
    /// leave are not stored.
    pub deferred: u64,
    /// Jobs that were admitted, and whether they counted among those of their pool before.
    pub raised: BTreeMap<JobId, bool>,
    /// Jobs with a changed assignment or changed grants.
    pub changed: BTreeSet<JobId>,
    /// As many jobs were admitted as may be at once: the others have their turn in the next cycle.
    pub is_cut: bool,
    /// Whether capacity was divided a second time.
    pub second_round: bool,
    /// What it did of what is done once a second.
    pub part: SecondlyPart,
    /// Jobs of which something began or ceased to run down.
    pub run_down_changed: BTreeSet<JobId>,
}

/// Decides what may begin.
pub(crate) fn admit(
    facts: &FederationFacts,
    demand: &mut DemandState,
    first: &Entitled,
    withheld: &RequestedCapacity,
    last: &mut LastAdmission,
    at: AdmissionMoment,
) -> AdmissionReport {
    let AdmissionMoment {
        now,
        patience,
        preempt_after,
        undated_for,
        most_jobs,
        most_queues: _,
    } = at;
    let due = last.part(at, demand.ledger.queue().count());
    debug_assert_eq!(*demand.sums(), demand.ledger.pool_sums(facts));
    let mut rooms = rooms(facts, &demand.ledger, demand.sums(), first);
    rooms.close(demand.closed_clusters(now));
    last.holds.now = now;
    let candidates = Arc::new(Candidates::new(facts, &demand.ledger));
    let router = Router::of(facts, &demand.ledger, &candidates);
    let rounds = AdmissionRounds {
        facts,
        ledger: &demand.ledger,
        holds: &last.holds,
        withheld: &withheld.capacity,
        enforced: EnforcedAmounts {
            first,
            sustained: &last.sustained,
        },
        is_full: due.has_second_round(),
        with_rest: true,
        most_jobs,
    };
    let asked = |turn: &Turn| ask(facts, candidates.limits(), turn);
    // Where pools have more than they are entitled to, preemption makes capacity.
    let surplus_at = &last.surplus_at;
    let hopeful = |like: &Likeness, line: &Line| {
        let is_new = line.since.is_none_or(|since| now.since(since) < patience);
        is_new || like.clusters.iter().any(|c| surplus_at.contains(c))
    };
    let RoundsResult {
        admitted,
        second_round,
        is_cut,
    } = admissions(rounds, &mut rooms, (asked, &router), hopeful);
    // What is about to be admitted needs no capacity hold, and nothing is stopped for it.
    let is_put_off = is_cut && now.since(last.began) < LONGEST_CUT;
    let part = if is_put_off {
        SecondlyPart::Nothing
    } else {
        last.did(due, now);
        due
    };
    let tree = facts.pools.version;
    if part.has_second_round() || second_round.is_some() {
        last.sustained
            .note(tree, second_round.as_ref(), now, preempt_after);
    }
    let has_second_round = second_round.is_some();
    last.note_second_round(second_round, due, tree, &mut rooms);
    let noted = (last.noted, now);
    let enforced = EnforcedAmounts {
        first,
        sustained: &last.sustained,
    };
    note(
        &mut demand.ledger,
        &rooms,
        enforced,
        noted,
        &mut last.starved_pools,
    );
    last.noted = now;
    let mut run_down_changed = BTreeSet::new();
    if part.has_holds() {
        let inputs = HoldInputs {
            router: &Router::of(facts, &demand.ledger, &candidates),
            enforced,
            rooms: &rooms,
            requesting: &withheld.requesting,
            starved: &last.starved_pools,
            now,
            undated_for,
        };
        let found = holds(inputs, &mut last.undated);
        last.holds.all = found.holds;
        last.blocked = found.blocked;
        last.surplus_at = found.surplus_at;
        let before = std::mem::replace(&mut last.run_down, found.run_down);
        let changed = before.symmetric_difference(&last.run_down);
        run_down_changed.extend(changed.map(|(job, _)| *job));
    }
    let begun: BTreeSet<JobId> = admitted.iter().map(|a| a.job).collect();
    let has_begun = |turn: &Turn| begun.contains(&turn.job);
    last.kept = keep_all(&last.holds, &mut rooms, has_begun);
    last.rooms = Arc::new(rooms);
    last.entitled = Arc::clone(&first.ordinary);
    last.candidates = candidates;
    let counted = |a: &Admission| (a.job, demand.ledger.counts(a.job));
    AdmissionReport {
        raised: admitted.iter().map(counted).collect(),
        is_cut,
        second_round: has_second_round,
        part,
        run_down_changed,
        admitted,
        ..AdmissionReport::default()
    }
}
