//! The grants of every slice, made of what was admitted (`more`) and what is active. A grant never goes below
//! what is known to be active, except to follow `max_running` and the marks of indexes that are not needed
//! any more.

use crate::admission::{AdmissionReport, GrantChange};
use crate::demand::slices::{Line, lines};
use crate::facts::FederationFacts;
use crate::facts::job::JobView;
use crate::facts::slice::SliceKey;
use echelon_core_model::JobId;
use echelon_core_model::spec::GroupSpec;
use echelon_core_pools::fill::{Taker, fill};
use std::collections::{BTreeMap, BTreeSet};

/// Decides the grants of some jobs, and notes those that change.
pub(crate) fn grant(
    facts: &mut FederationFacts,
    jobs: &BTreeSet<JobId>,
    mut number: impl FnMut() -> u64,
    report: &mut AdmissionReport,
) {
    for ((id, slice), active) in grants(facts, jobs, &report.bound) {
        // Only a shard that is known to obey this leader gets a new grant. Until then its grant stays as it
        // is.
        let settled = facts.clusters.get(&slice.cluster).is_some_and(|c| c.settled);
        // No grant shrinks before the marks are stored that name the instances to remove. Without them the
        // shard would stop whatever it has most of.
        let unstored = facts.jobs.get(&id).filter(|job| job.decided != job.durable);
        let granted = unstored
            .and_then(|job| job.grants.get(&slice))
            .map(|g| g.granted());
        if !settled || granted.is_some_and(|granted| active < granted) {
            report.deferred += 1;
            continue;
        }
        let number = number();
        facts.send_grant(id, &slice, number, active);
        report.changed.insert(id);
        report.granted.push(GrantChange {
            job: id,
            slice,
            number,
            active,
        });
    }
}

/// Raises and shrinks grants of some jobs. Returns the new value of every slice with a grant that changes.
/// Grants of all other jobs stay.
#[must_use]
pub fn grants(
    facts: &FederationFacts,
    ids: &BTreeSet<JobId>,
    more: &BTreeMap<(JobId, SliceKey), u64>,
) -> BTreeMap<(JobId, SliceKey), u64> {
    let mut out = BTreeMap::new();
    let jobs = ids.iter().filter_map(|id| Some((*id, facts.jobs.get(id)?)));
    for (id, job) in jobs.filter(|(_, job)| job.is_live()) {
        let all = lines(facts, id, job);
        for of_group in all.chunk_by(|a, b| a.key.group == b.key.group) {
            let group = of_group.first().map(|l| &l.key.group);
            let spec = group.and_then(|g| job.spec.as_ref()?.group(g));
            let targets = targets(job, spec, of_group, |key| {
                more.get(&(id, key.clone())).copied().unwrap_or_default()
            });
            out.extend(targets.into_iter().map(|(key, n)| ((id, key), n)));
        }
    }
    out
}

fn targets(
    job: &JobView,
    spec: Option<&GroupSpec>,
    lines: &[Line],
    more: impl Fn(&SliceKey) -> u64,
) -> Vec<(SliceKey, u64)> {
    let granted = |l: &Line| {
        job.grants
            .get(&l.key)
            .filter(|g| !g.is_new())
            .map(|g| g.granted())
    };
    // The first grant of this leader takes over what is active. It also takes over what an older leader's
    // grant still allows, because more may have begun under it meanwhile.
    let now: Vec<u64> = lines
        .iter()
        .map(|l| {
            let stays = l.count.active.saturating_sub(l.count.preempting);
            let taken_over = stays.max(l.count.granted.min(l.count.unended()));
            let base = granted(l).unwrap_or(taken_over).saturating_add(more(&l.key));
            base.min(l.count.unended().max(l.count.active))
        })
        .collect();
    let most = spec.map_or(u64::MAX, |g| u64::from(g.most_active()));
    let capped = capped(lines, &now, most);
    let pairs = lines.iter().zip(capped).filter(|(l, n)| granted(l) != Some(*n));
    pairs.map(|(l, n)| (l.key.clone(), n)).collect()
}

/// Grants `now` cut down to `most` in sum. A smaller `max_running` is requested by the user. Nothing else
/// takes active instances away. Where fewer instances are needed, marks name the instances to remove, and
/// those go first.
fn capped(lines: &[Line], now: &[u64], most: u64) -> Vec<u64> {
    let sum = now.iter().fold(0u64, |sum, n| sum.saturating_add(*n));
    if sum <= most {
        return now.to_vec();
    }
    let stays = lines
        .iter()
        .zip(now)
        .map(|(l, n)| n.saturating_sub(l.count.leaving));
    let takers: Vec<Taker> = stays.map(|n| Taker::new(1, n)).collect();
    fill(most, &takers)
}
