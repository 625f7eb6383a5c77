//! The search for the smallest changes. A set of changes is tried as large as it may be. If it admits
//! everything, the changes that are not needed are left out, and each amount becomes the least that admits
//! everything: a bound by arithmetic is tried first, then the interval is halved.

use crate::queries::explain::answer::{AddedHosts, FixChange, MOST_FIXES, VerifiedFix};
use crate::queries::explain::levers::Levers;
use crate::queries::explain::trial::{Trial, TrialResult};
use echelon_core_model::pool::PoolTree;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::{GroupName, Kind, Resources};
use echelon_core_pools::tree::PoolQuantity;
use std::collections::BTreeMap;

/// Tries changes on a copy.
pub(crate) struct Search<'a> {
    trial: &'a mut Trial,
    /// What has to be admitted of each group.
    waiting: &'a BTreeMap<GroupName, u64>,
    most: u32,
    made: u32,
}

/// Where the least value of an amount is looked for.
struct Interval {
    /// What it is without the change.
    present: u64,
    /// A value at which everything is admitted.
    enough: u64,
    /// Where the least one may be.
    hint: u64,
    /// How far the next one is at first.
    step: u64,
    /// The amount from which these are subtracted, where the change lowers it.
    from: Option<u64>,
}

impl<'a> Search<'a> {
    pub(crate) fn new(trial: &'a mut Trial, waiting: &'a BTreeMap<GroupName, u64>, most: u32) -> Self {
        Self {
            trial,
            waiting,
            most,
            made: 0,
        }
    }

    /// Admissions that were tried.
    pub(crate) const fn made(&self) -> u32 {
        self.made
    }

    /// The fixes that were found, the one with the fewest changes first.
    pub(crate) fn fixes(&mut self, levers: &Levers) -> Vec<VerifiedFix> {
        // What the job and its pools are bounded by concerns no other work.
        if let Some(own) = self.least(&levers.own, levers) {
            return vec![own];
        }
        let each = |changes: &[FixChange]| -> Vec<Vec<FixChange>> {
            changes.iter().map(|change| vec![change.clone()]).collect()
        };
        let whole = |changes: &[FixChange]| vec![changes.to_vec()];
        let ways: [Vec<Vec<FixChange>>; 7] = [
            each(&levers.active),
            whole(&levers.shares),
            whole(&levers.reservation),
            each(&levers.unreserved),
            each(&levers.allowed),
            each(&levers.hosts),
            whole(&levers.lower),
        ];
        let mut out: Vec<VerifiedFix> = Vec::new();
        for sets in &ways {
            out.extend(self.best(sets, levers));
        }
        if out.is_empty() {
            out.extend(self.combined(levers));
        }
        out.sort_by_key(|fix| (fix.needs_preemption, fix.changes.len()));
        out.sort_by_key(|fix| fix.changes.len());
        let mut fixes: Vec<VerifiedFix> = Vec::new();
        for fix in out {
            if !fixes.iter().any(|f| f.changes == fix.changes) {
                fixes.push(fix);
            }
        }
        fixes.truncate(MOST_FIXES);
        fixes
    }

    /// What helps where no single kind of change does.
    fn combined(&mut self, levers: &Levers) -> Option<VerifiedFix> {
        let first = |changes: &[FixChange]| changes.iter().take(1).cloned().collect::<Vec<_>>();
        let clusters = [Vec::new(), first(&levers.active), first(&levers.allowed)];
        for more in clusters {
            let with_hosts = [more.clone(), first(&levers.hosts)].concat();
            let pools = [levers.shares.clone(), levers.reservation.clone()];
            let hosts = [with_hosts.clone(), [more, levers.hosts.clone()].concat()];
            for hosts in hosts {
                for pool in [
                    Vec::new(),
                    pools.first().cloned().unwrap_or_default(),
                    pools.concat(),
                ] {
                    let set = [levers.own.clone(), hosts.clone(), pool].concat();
                    if let Some(fix) = self.least(&set, levers) {
                        return Some(fix);
                    }
                }
            }
        }
        None
    }

    /// Of several sets of changes, each with the job's own bounds, the one with the smallest result.
    fn best(&mut self, sets: &[Vec<FixChange>], levers: &Levers) -> Option<VerifiedFix> {
        let mut best: Option<VerifiedFix> = None;
        for set in sets.iter().filter(|set| !set.is_empty()) {
            let all = [levers.own.as_slice(), set.as_slice()].concat();
            let size = |fix: &VerifiedFix| (fix.changes.len(), amount(&fix.changes));
            if let Some(fix) = self.least(&all, levers)
                && best.as_ref().is_none_or(|b| size(&fix) < size(b))
            {
                best = Some(fix);
            }
        }
        best
    }

    /// The least of these changes that admit everything; `None`: all of them together do not.
    fn least(&mut self, set: &[FixChange], levers: &Levers) -> Option<VerifiedFix> {
        if set.is_empty() || !self.admits_all(set) {
            return None;
        }
        let spec = self.trial.spec()?;
        let mut set = set.to_vec();
        self.leave_out(&mut set);
        // A limit is no lower than the reservation, so reservations come first.
        let is_reservation = |change: &FixChange| matches!(change, FixChange::SetQuantity { quantity, .. } if *quantity == PoolQuantity::Reservation);
        let mut order: Vec<usize> = (0..set.len()).collect();
        order.sort_by_key(|at| !set.get(*at).is_some_and(is_reservation));
        for at in order {
            let dimensions = set.get(at).map_or(0, |change| change.dimensions());
            for dimension in 0..dimensions {
                self.lower(&mut set, (at, dimension), levers, &spec);
            }
        }
        let tree = &self.trial.facts.pools;
        let set = set.into_iter().filter_map(|change| change.effective(tree));
        let mut set: Vec<FixChange> = set.collect();
        self.leave_out(&mut set);
        // It is verified even if no more may be tried.
        let (at_once, later) = self.tried(&set)?;
        if !at_once && !later {
            return None;
        }
        Some(VerifiedFix {
            is_least: self.made < self.most,
            needs_preemption: !at_once,
            changes: self.with_those_above(set),
        })
    }

    /// Leaves out what is not needed, the last one first.
    fn leave_out(&mut self, set: &mut Vec<FixChange>) {
        for at in (0..set.len()).rev() {
            if set.len() < 2 {
                return;
            }
            let others = set.iter().enumerate().filter(|(i, _)| *i != at);
            let without: Vec<FixChange> = others.map(|(_, change)| change.clone()).collect();
            if self.admits_all(&without) {
                *set = without;
            }
        }
    }

    /// Makes one amount of a set the least with which everything is admitted.
    fn lower(&mut self, set: &mut [FixChange], at: (usize, usize), levers: &Levers, spec: &JobSpec) {
        let (index, dimension) = at;
        let Some(change) = set.get(index).cloned() else {
            return;
        };
        let Some(interval) = interval(&change, dimension, levers, (self.trial, spec)) else {
            return;
        };
        let mut holds = |value: u64| {
            let mut tried = set.to_vec();
            if let Some(slot) = tried.get_mut(index) {
                *slot = change.clone().with(dimension, interval.amount(value), spec);
            }
            self.admits_all(&tried)
        };
        let least = interval.amount(interval.least(&mut holds));
        if let Some(slot) = set.get_mut(index) {
            *slot = change.with(dimension, least, spec);
        }
    }

    /// Whether everything is admitted under some changes. False once no more may be tried.
    fn admits_all(&mut self, changes: &[FixChange]) -> bool {
        if self.made >= self.most {
            return false;
        }
        let tried = self.tried(changes);
        tried.is_some_and(|(at_once, later)| at_once || later)
    }

    fn is_all(&self, result: &TrialResult) -> bool {
        let admitted = |group: &GroupName| result.admitted.get(group).copied().unwrap_or_default();
        self.waiting.iter().all(|(group, n)| admitted(group) >= *n)
    }

    /// Whether everything is admitted under some changes: at once, and if not, once preemption has made
    /// capacity.
    fn tried(&mut self, changes: &[FixChange]) -> Option<(bool, bool)> {
        self.made = self.made.saturating_add(1);
        let undo = self.trial.apply(changes)?;
        let at_once = self.is_all(&self.trial.admit(false));
        let later = !at_once && self.is_all(&self.trial.admit(true));
        self.trial.undo(undo);
        Some((at_once, later))
    }

    /// With the reservations of pools above that a reservation needs.
    fn with_those_above(&mut self, changes: Vec<FixChange>) -> Vec<FixChange> {
        let before = self.trial.facts.pools.clone();
        let Some(undo) = self.trial.apply(&changes) else {
            return changes;
        };
        let after = self.trial.facts.pools.clone();
        self.trial.undo(undo);
        let mut out = Vec::new();
        for change in changes {
            let above = match &change {
                FixChange::SetQuantity {
                    pool,
                    quantity: PoolQuantity::Reservation,
                    ..
                } => raised_above(&before, &after, pool),
                _ => Vec::new(),
            };
            out.extend(above);
            out.push(change);
        }
        out
    }
}

/// The pools above one with other reservations, the highest first.
fn raised_above(before: &PoolTree, after: &PoolTree, pool: &str) -> Vec<FixChange> {
    let mut out = Vec::new();
    let mut at = PoolTree::parent(pool);
    while at != "/" {
        let pair = before.pools.get(at).zip(after.pools.get(at));
        if let Some((was, is)) = pair.filter(|(was, is)| was.reservation != is.reservation) {
            let kinds = Kind::ALL.into_iter();
            let kinds = kinds.filter(|k| was.reservation.get(*k) != is.reservation.get(*k));
            out.insert(
                0,
                FixChange::SetQuantity {
                    pool: at.to_owned(),
                    quantity: PoolQuantity::Reservation,
                    to: kinds.map(|k| (k, is.reservation.get(k))).collect(),
                },
            );
        }
        at = PoolTree::parent(at);
    }
    out
}

/// How much of hosts and shares some changes add, to compare changes of one kind.
fn amount(changes: &[FixChange]) -> Vec<u64> {
    let of = |change: &FixChange| match change {
        FixChange::AddHosts(hosts) => Kind::ALL.map(|k| hosts.amount.get(k)).to_vec(),
        FixChange::SetQuantity { to, .. } => to.iter().map(|(_, n)| *n).collect(),
        _ => Vec::new(),
    };
    changes.iter().flat_map(of).collect()
}

impl Interval {
    /// The amount of the change for a value.
    const fn amount(&self, value: u64) -> u64 {
        match self.from {
            Some(from) => from.saturating_sub(value),
            None => value,
        }
    }

    /// The least value that holds. It holds at `enough`.
    fn least(&self, holds: &mut impl FnMut(u64) -> bool) -> u64 {
        let Self {
            present,
            enough,
            hint,
            step,
            from: _,
        } = *self;
        if enough <= present || holds(present) {
            return present;
        }
        let (mut low, mut high) = (present, enough);
        let hint = hint.clamp(low.saturating_add(1), high);
        if hint < high {
            if holds(hint) {
                high = hint;
                let before = hint.saturating_sub(1);
                if before > low {
                    if holds(before) {
                        high = before;
                    } else {
                        low = before;
                    }
                }
            } else {
                low = hint;
                let mut far = step.max(1);
                loop {
                    let next = low.saturating_add(far);
                    if next >= high {
                        break;
                    }
                    if holds(next) {
                        high = next;
                        break;
                    }
                    low = next;
                    far = far.saturating_mul(2);
                }
            }
        }
        while high.saturating_sub(low) > 1 {
            let middle = low.saturating_add(high.saturating_sub(low) / 2);
            if holds(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    }
}

/// Where the least value of an amount of a change is looked for.
fn interval(
    change: &FixChange,
    dimension: usize,
    levers: &Levers,
    at: (&Trial, &JobSpec),
) -> Option<Interval> {
    let (trial, spec) = at;
    let hints = &levers.hints;
    let tree = &trial.facts.pools;
    let enough = change.value(dimension, spec)?;
    let (present, hint, step) = match change {
        FixChange::RaiseMaxRunning { group, .. } => {
            let present = spec.group(group)?.max_running.map_or(enough, u64::from);
            let lacking = hints.lacking.get(group).copied().unwrap_or_default();
            let runs = hints.running.get(group).copied().unwrap_or_default();
            (present, runs.saturating_add(lacking), 1)
        }
        FixChange::SetQuantity { pool, quantity, to } => {
            let (kind, _) = to.get(dimension)?;
            let present = quantity.of(tree.pools.get(pool)?).get(*kind);
            let need = hints.need.get(*kind);
            if enough < present {
                return Some(Interval {
                    present: 0,
                    enough: present.saturating_sub(enough),
                    hint: need,
                    step: hints.step.get(*kind),
                    from: Some(present),
                });
            }
            let (taken, left) = hints.pools.get(pool).copied().unwrap_or_default();
            let by_left = |left: Resources| present.saturating_sub(left.get(*kind)).saturating_add(need);
            let hint = match quantity {
                PoolQuantity::ControllerLimit => left.map(|l| by_left(l.by_controllers)),
                PoolQuantity::RevocableLimit => left.map(|l| by_left(l.by_revocable_limit)),
                PoolQuantity::Reservation if !spec.preemptible => left.map(|l| by_left(l.by_reservation)),
                PoolQuantity::Share => Some(present.saturating_mul(2)),
                _ => Some(taken.get(*kind).saturating_add(need)),
            };
            let step = match quantity {
                PoolQuantity::Share => present,
                _ => hints.step.get(*kind),
            };
            (present, hint?, step)
        }
        FixChange::RaiseCount { pool, count, .. } => {
            let of = tree.pools.get(pool)?;
            let (_, left) = hints.pools.get(pool).copied().unwrap_or_default();
            let lacking = hints
                .lacking
                .values()
                .fold(0, |sum: u64, n| sum.saturating_add(*n));
            match count {
                crate::queries::explain::answer::PoolCount::Jobs => {
                    (of.max_jobs, of.max_jobs.saturating_add(1), 1)
                }
                crate::queries::explain::answer::PoolCount::Instances => {
                    let left = left.map_or(0, |l| l.instances);
                    let used = of.max_instances.saturating_sub(left);
                    (of.max_instances, used.saturating_add(lacking), 1)
                }
            }
        }
        FixChange::AddHosts(hosts) => {
            let (group, _) = hosts.groups.get(dimension)?;
            (0, hints.lacking.get(group).copied().unwrap_or_default(), 1)
        }
        FixChange::LowerRequest { .. } => (0, enough, 1),
        FixChange::CreatePool { .. } | FixChange::ActivateCluster { .. } | FixChange::AllowCluster { .. } => {
            return None;
        }
    };
    Some(Interval {
        present,
        enough,
        hint,
        step,
        from: None,
    })
}

impl FixChange {
    /// How many amounts it has.
    fn dimensions(&self) -> usize {
        match self {
            Self::RaiseMaxRunning { .. } | Self::RaiseCount { .. } | Self::LowerRequest { .. } => 1,
            Self::SetQuantity { to, .. } => to.len(),
            Self::AddHosts(hosts) => hosts.groups.len(),
            Self::CreatePool { .. } | Self::ActivateCluster { .. } | Self::AllowCluster { .. } => 0,
        }
    }

    /// One of its amounts. The larger it is, the larger is the change.
    fn value(&self, dimension: usize, spec: &JobSpec) -> Option<u64> {
        match self {
            Self::RaiseMaxRunning { to, .. } => Some(u64::from(*to)),
            Self::SetQuantity { to, .. } => to.get(dimension).map(|(_, n)| *n),
            Self::RaiseCount { to, .. } => Some(*to),
            Self::AddHosts(AddedHosts { groups, .. }) => groups.get(dimension).map(|(_, n)| *n),
            Self::LowerRequest { group, kind, to } => {
                Some(spec.group(group)?.resources.get(*kind).saturating_sub(*to))
            }
            Self::CreatePool { .. } | Self::ActivateCluster { .. } | Self::AllowCluster { .. } => None,
        }
    }

    /// The same with another amount.
    fn with(self, dimension: usize, value: u64, spec: &JobSpec) -> Self {
        match self {
            Self::RaiseMaxRunning { group, .. } => Self::RaiseMaxRunning {
                group,
                to: u32::try_from(value).unwrap_or(u32::MAX),
            },
            Self::SetQuantity {
                pool,
                quantity,
                mut to,
            } => {
                if let Some((_, n)) = to.get_mut(dimension) {
                    *n = value;
                }
                Self::SetQuantity { pool, quantity, to }
            }
            Self::RaiseCount { pool, count, .. } => Self::RaiseCount {
                pool,
                count,
                to: value,
            },
            Self::AddHosts(mut hosts) => {
                if let Some((_, n)) = hosts.groups.get_mut(dimension) {
                    *n = value;
                }
                Self::AddHosts(hosts.counted(spec))
            }
            Self::LowerRequest { group, kind, .. } => {
                let of = spec.group(&group).map_or(0, |g| g.resources.get(kind));
                Self::LowerRequest {
                    to: of.saturating_sub(value),
                    group,
                    kind,
                }
            }
            Self::CreatePool { .. } | Self::ActivateCluster { .. } | Self::AllowCluster { .. } => self,
        }
    }

    /// The same without amounts that stay as they are; `None`: all of them do.
    fn effective(self, tree: &PoolTree) -> Option<Self> {
        match self {
            Self::AddHosts(mut hosts) => {
                hosts.groups.retain(|(_, n)| *n > 0);
                (!hosts.groups.is_empty()).then_some(Self::AddHosts(hosts))
            }
            Self::SetQuantity {
                pool,
                quantity,
                mut to,
            } => {
                let before = tree.pools.get(&pool).map(|p| quantity.of(p));
                to.retain(|(kind, n)| before.is_none_or(|before| before.get(*kind) != *n));
                (!to.is_empty()).then_some(Self::SetQuantity { pool, quantity, to })
            }
            other => Some(other),
        }
    }
}
