//! The rounds of an admission: first what pools are entitled to, then what no pool can use of that.

use crate::admission::WithheldCapacity;
use crate::admission::second_round::{Again, EnforcedAmounts, PoolWalk, usable};
use crate::demand::ledger::Ledger;
use crate::division::Entitled;
use crate::facts::FederationFacts;
use echelon_core_model::resources::Kind;
use echelon_core_model::{GroupName, JobId, ReasonCode, Resources};
use echelon_core_pools::hierarchy::{PoolIdx, ROOT};
use echelon_core_pools::{
    Admission, HoldScope, Holds, Likeness, Line, Lines, Queue, Request, Rooms, Route, ScopedHolds, Side,
    Turn, Usable, admit, admit_held, give_out_again,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The input of the rounds of one admission.
#[derive(Clone, Copy)]
pub(crate) struct AdmissionRounds<'a> {
    pub(crate) facts: &'a FederationFacts,
    pub(crate) ledger: &'a Ledger,
    pub(crate) holds: &'a Holds,
    pub(crate) withheld: &'a [WithheldCapacity],
    /// What pools are entitled to, and what preemption enforces.
    pub(crate) enforced: EnforcedAmounts<'a>,
    /// What is divided a second time although no cluster has capacity for it: preemption enforces that.
    pub(crate) is_full: bool,
    /// What is too little for any pool's share is admitted in whole instances. Which pool gets it depends on
    /// what ran before.
    pub(crate) with_rest: bool,
    /// Most jobs that are admitted at once.
    pub(crate) most_jobs: usize,
}

/// What all rounds of one admission have given.
pub(crate) struct RoundsResult {
    pub(crate) admitted: Vec<Admission>,
    /// What the second round used and gave; `None` when there was none.
    pub(crate) second_round: Option<Again>,
    /// As many jobs were admitted as may be at once. What the others get is decided by the next admission.
    pub(crate) is_cut: bool,
}

/// Admits into the capacity holds of preemption requests, then within round 0, then within the second round.
/// What remains then is too little for any pool's share, and is admitted in whole instances.
pub(crate) fn admissions(
    rounds: AdmissionRounds<'_>,
    rooms: &mut Rooms,
    (ask, route): (impl Fn(&Turn) -> Option<Request>, &impl Route),
    hopeful: impl Fn(&Likeness, &Line) -> bool,
) -> RoundsResult {
    let AdmissionRounds {
        facts,
        ledger,
        holds,
        withheld,
        enforced,
        is_full,
        with_rest,
        most_jobs,
    } = rounds;
    let first = enforced.first;
    let queue = ledger.queue();
    let mut admitted = Admitted::default();
    // What preemption has made capacity for may be more than its pool is entitled to by the first round.
    // A pool above it that has anything left may have one whole unit.
    // Its own part was given to others of the pool in whole units, too.
    for WithheldCapacity { request, .. } in withheld {
        rooms.entitle_at_least(request.pool, enforced.amount(request.pool));
        let above: Vec<PoolIdx> = facts.hierarchy.above(request.pool).collect();
        for i in above {
            let (entitled, taken) = (enforced.amount(i), rooms.taken(i).0);
            let whole = one_more(entitled, taken, request.unit.shape);
            rooms.entitle_at_least(i, if i == ROOT { entitled } else { whole });
        }
    }
    admitted.add(admit_withheld(withheld, rooms));
    if !withheld.is_empty() {
        rooms.entitle(&first.ordinary, &first.lent);
    }
    admitted.most_jobs = most_jobs;
    round(
        queue,
        (holds, HoldScope::Later),
        rooms,
        (&ask, route),
        &mut admitted,
    );
    if admitted.is_cut {
        return admitted.result(None);
    }
    let most = most_left(rooms);
    let fits = |lines: &Lines| is_full || lines.least().fits(most);
    let may_be_needed = is_full || queue.any_fits(most);
    let mut walk = PoolWalk::new(rooms);
    let mut open = queue.pools().filter(|(_, lines)| fits(lines));
    let mut lacks = |pool: PoolIdx, lines: &Lines| {
        let left = walk.left(pool);
        lines.iter().any(|(like, line)| match left.lacking(like) {
            Some(ReasonCode::PoolEntitlement) => true,
            Some(ReasonCode::NoClusterCapacity) => is_full && left.is_beyond(like) && hopeful(like, line),
            _ => false,
        })
    };
    let is_needed = may_be_needed && open.any(|(pool, lines)| lacks(pool, lines));
    let mut given = None;
    if is_needed {
        let usable = usable((facts, ledger, holds), rooms, &hopeful);
        let again = |hierarchy, first, usable: &[Usable]| give_out_again(hierarchy, first, usable);
        let second = Entitled {
            ordinary: Arc::new(again(&facts.hierarchy, &first.ordinary, &usable.ordinary)),
            lent: if first.lends_nothing() {
                Arc::default()
            } else {
                Arc::new(again(&facts.by_shares, &first.lent, &usable.lent))
            },
        };
        rooms.entitle(&second.ordinary, &second.lent);
        // What is given out from here on belongs to no pool: holds keep capacity from all other work.
        let holds = (holds, HoldScope::All);
        round(queue, holds, rooms, (&ask, route), &mut admitted);
        // Nothing is admitted where no cluster has what anything asks for.
        if with_rest && !admitted.is_cut && queue.any_fits(most_left(rooms)) {
            let before = rooms.opened(usable.not_taken(rooms));
            let mut after = before.clone();
            round(queue, holds, &mut after, (&ask, route), &mut admitted);
            rooms.take_between(&before, after);
        }
        given = Some(usable.gave(facts, first, &second));
    }
    admitted.result(given)
}

/// What a pool is entitled to, or of kinds of which anything is left one unit more than it has.
fn one_more(entitled: Resources, taken: Resources, unit: Resources) -> Resources {
    let open = Kind::ALL.into_iter().filter(|k| taken.get(*k) < entitled.get(*k));
    open.fold(entitled, |sum, kind| {
        let most = taken.get(kind).saturating_add(unit.get(kind));
        sum.with(kind, most.max(sum.get(kind)))
    })
}

/// No unit that takes more fits into any cluster.
fn most_left(rooms: &Rooms) -> Resources {
    let ordinary = rooms.most_left(Side::Ordinary);
    ordinary.max_each(rooms.most_left(Side::Revocable))
}

/// Admits requests into their capacity holds, as far as that capacity is free.
fn admit_withheld(withheld: &[WithheldCapacity], rooms: &mut Rooms) -> Vec<Admission> {
    let mut out = Vec::new();
    for WithheldCapacity {
        request,
        cluster,
        units,
    } in withheld
    {
        let wanted = units.iter().map(|(_, n)| *n).fold(0, u64::saturating_add);
        let mut left = admit_held(request, cluster, wanted, rooms);
        let mut more = Vec::new();
        for (generation, n) in units {
            let n = (*n).min(left);
            left -= n;
            more.extend((n > 0).then(|| (cluster.clone(), *generation, n)));
        }
        let admission = Admission {
            job: request.job,
            group: request.group.clone(),
            more,
            bind: Vec::new(),
        };
        let admitted = request.groups_of(admission).into_iter();
        out.extend(admitted.filter(|a| a.total() > 0));
    }
    out
}

/// What was admitted so far, by group.
#[derive(Debug)]
pub(crate) struct Admitted {
    groups: BTreeMap<(JobId, GroupName), Admission>,
    most_jobs: usize,
    is_cut: bool,
}

impl Default for Admitted {
    /// Nothing, and no bound.
    fn default() -> Self {
        Self {
            groups: BTreeMap::new(),
            most_jobs: usize::MAX,
            is_cut: false,
        }
    }
}

impl Admitted {
    fn add(&mut self, more: Vec<Admission>) {
        for more in more {
            let key = (more.job, more.group.clone());
            match self.groups.get_mut(&key) {
                Some(before) => before.add(more),
                None => {
                    self.groups.insert(key, more);
                }
            }
        }
    }

    /// All of it.
    pub(crate) fn into_admissions(self) -> Vec<Admission> {
        self.groups.into_values().collect()
    }

    fn result(self, second_round: Option<Again>) -> RoundsResult {
        RoundsResult {
            second_round,
            is_cut: self.is_cut,
            admitted: self.into_admissions(),
        }
    }
}

pub(crate) fn round(
    queue: &Queue,
    (holds, scope): (&Holds, HoldScope),
    rooms: &mut Rooms,
    (ask, route): (&impl Fn(&Turn) -> Option<Request>, &impl Route),
    admitted: &mut Admitted,
) {
    for side in [Side::Ordinary, Side::Revocable] {
        if admitted.is_cut {
            return;
        }
        let groups = &admitted.groups;
        let again = |turn: &Turn| {
            let request = ask(turn)?;
            // Whichever group of a gang it was: all of it was admitted.
            let group = request.gang.first().map_or(&turn.group, |m| &m.group);
            Some(match groups.get(&(turn.job, group.clone())) {
                Some(before) => request.less(before),
                None => request,
            })
        };
        let begun = groups.keys().map(|(job, _)| *job).collect();
        let holds = ScopedHolds {
            holds,
            scope,
            begun: &begun,
        };
        let more = admit(queue, side, rooms, holds, admitted.most_jobs, again, route);
        admitted.is_cut = more.is_cut;
        admitted.add(more.admitted);
    }
}
