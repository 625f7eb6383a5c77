//! The grants of every slice, made of what was admitted (`more`) and what is active. A grant never goes below
//! what is known to be active, except to follow `max_running` and the marks of indexes that are not needed
//! any more.

use crate::admission::{AdmissionReport, GrantChange};
use crate::demand::slices::{Line, lines};
use crate::facts::FederationFacts;
use crate::facts::slice::SliceKey;
use echelon_core_model::JobId;
use echelon_core_model::spec::GroupSpec;
use echelon_core_pools::GrantLine;
use echelon_core_pools::fill::{Taker, fill};
use std::collections::{BTreeMap, BTreeSet};

/// What a slice's grant becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantTarget {
    /// So many instances may be active.
    Amount(u64),
    /// Nothing begins, and nothing stops.
    Expired,
}

/// What grants go by, beside the facts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GrantInputs<'a> {
    /// The jobs whose grants may change.
    pub(crate) jobs: &'a BTreeSet<JobId>,
    /// Slices of which nothing that ends is replaced.
    pub(crate) run_down: &'a BTreeSet<(JobId, SliceKey)>,
}

/// Decides the grants of some jobs, and notes those that change.
pub(crate) fn grant(
    facts: &mut FederationFacts,
    inputs: GrantInputs<'_>,
    mut number: impl FnMut() -> u64,
    report: &mut AdmissionReport,
) {
    for ((id, slice), target) in grants(facts, inputs, &report.bound) {
        // Only a shard that is known to obey this leader gets a new grant. Until then its grant stays as it
        // is.
        let view = facts.clusters.get(&slice.cluster);
        let settled = view.is_some_and(|view| view.is_settled_for(id));
        // No grant shrinks before the marks are stored that name the instances to remove. Without them the
        // shard would stop whatever it has most of.
        let unstored = facts.jobs.get(&id).filter(|job| job.decided != job.durable);
        let granted = unstored
            .and_then(|job| job.grants.get(&slice))
            .map(|g| g.granted());
        let shrinks = granted.is_some_and(|granted| target.amount().is_some_and(|active| active < granted));
        if !settled || shrinks {
            report.deferred += 1;
            continue;
        }
        let number = number();
        match target {
            GrantTarget::Amount(active) => facts.send_grant(id, &slice, number, active),
            GrantTarget::Expired => facts.expire_grant(id, &slice, number),
        }
        report.changed.insert(id);
        report.granted.push(GrantChange {
            job: id,
            slice,
            number,
            target,
        });
    }
}

impl GrantTarget {
    /// How many instances may be active, unless it only expires.
    #[must_use]
    pub const fn amount(self) -> Option<u64> {
        match self {
            Self::Amount(active) => Some(active),
            Self::Expired => None,
        }
    }
}

/// Raises, shrinks and expires grants of some jobs. Returns the new value of every slice with a grant that
/// changes. Grants of all other jobs stay.
#[must_use]
pub(crate) fn grants(
    facts: &FederationFacts,
    inputs: GrantInputs<'_>,
    more: &BTreeMap<(JobId, SliceKey), u64>,
) -> BTreeMap<(JobId, SliceKey), GrantTarget> {
    let mut out = BTreeMap::new();
    let jobs = inputs
        .jobs
        .iter()
        .filter_map(|id| Some((*id, facts.jobs.get(id)?)));
    for (id, job) in jobs.filter(|(_, job)| job.is_live()) {
        let all = lines(facts, id, job);
        for of_group in all.chunk_by(|a, b| a.key.group == b.key.group) {
            let group = of_group.first().map(|l| &l.key.group);
            let spec = group.and_then(|g| job.spec.as_ref()?.group(g));
            let slices = of_group.iter().map(|line| {
                let slice = (id, line.key.clone());
                SliceInput {
                    grant: job.grants.get(&line.key).filter(|g| !g.is_new()),
                    more: more.get(&slice).copied().unwrap_or_default(),
                    runs_down: inputs.run_down.contains(&slice),
                    line,
                }
            });
            let slices: Vec<SliceInput<'_>> = slices.collect();
            let targets = targets(spec, &slices);
            out.extend(targets.into_iter().map(|(key, target)| ((id, key), target)));
        }
    }
    out
}

/// A slice of a group, and what is decided of it.
struct SliceInput<'a> {
    line: &'a Line,
    /// The grant that was sent last, if any was.
    grant: Option<&'a GrantLine>,
    /// How many more are admitted.
    more: u64,
    /// Nothing of it that ends is replaced.
    runs_down: bool,
}

fn targets(spec: Option<&GroupSpec>, slices: &[SliceInput<'_>]) -> Vec<(SliceKey, GrantTarget)> {
    // The first grant of this leader takes over what is active. It also takes over what an older leader's
    // grant still allows, because more may have begun under it meanwhile. What comes after an expired grant
    // begins with what the shard may still have under it.
    let now = |slice: &SliceInput<'_>| {
        let SliceInput { line, grant, .. } = slice;
        let stays = line.count.active.saturating_sub(line.count.preempting);
        let taken_over = stays.max(line.count.granted.min(line.count.unended()));
        let base = grant
            .map(|g| in_force(g, line))
            .unwrap_or(taken_over)
            .saturating_add(slice.more);
        base.min(line.count.unended().max(line.count.active))
    };
    let now: Vec<u64> = slices.iter().map(now).collect();
    let most = spec.map_or(u64::MAX, |g| u64::from(g.most_active()));
    let capped = capped(slices, &now, most);
    let pairs = slices.iter().zip(capped);
    let changes = pairs.filter_map(|(slice, amount)| Some((slice.line.key.clone(), slice.target(amount)?)));
    changes.collect()
}

/// How many instances the grant that was sent last lets be active: of an expired one those that are.
fn in_force(grant: &GrantLine, line: &Line) -> u64 {
    if grant.is_expired() {
        grant.granted().min(line.allocated)
    } else {
        grant.granted()
    }
}

impl SliceInput<'_> {
    /// What its grant becomes, if that is something else than it is.
    fn target(&self, amount: u64) -> Option<GrantTarget> {
        let Some(grant) = self.grant else {
            return Some(GrantTarget::Amount(amount));
        };
        let runs_down = self.runs_down && self.more == 0;
        let is_same = if grant.is_expired() {
            runs_down && amount >= in_force(grant, self.line)
        } else {
            amount == grant.granted()
        };
        match (is_same, runs_down && !grant.is_expired()) {
            (true, true) => Some(GrantTarget::Expired),
            (true, false) => None,
            (false, _) => Some(GrantTarget::Amount(amount)),
        }
    }
}

/// Grants `now` cut down to `most` in sum. A smaller `max_running` is requested by the user. Nothing else
/// takes active instances away. Where fewer instances are needed, marks name the instances to remove, and
/// those go first.
fn capped(slices: &[SliceInput<'_>], now: &[u64], most: u64) -> Vec<u64> {
    let sum = now.iter().fold(0u64, |sum, n| sum.saturating_add(*n));
    if sum <= most {
        return now.to_vec();
    }
    // Which of them are active only their shard knows. It stops those that are to leave, whatever is granted.
    let pairs = slices.iter().zip(now);
    let stays = pairs.map(|(slice, n)| {
        let count = &slice.line.count;
        (*n).min(count.unended().saturating_sub(count.leaving))
    });
    let takers: Vec<Taker> = stays.map(|n| Taker::new(1, n)).collect();
    fill(most, &takers)
}
