//! The grants of every slice, made of what was admitted and what is active. A grant never goes below what is known to be active,
//! except to follow `max_running` and the marks of numbers that are wanted no more.

use crate::entry::{Line, is_unplaced, lines};
use crate::fits;
use crate::picture::{JobView, Picture, SliceKey, slices_of};
use echelon_core_model::reason::Layer;
use echelon_core_model::spec::GroupSpec;
use echelon_core_model::{JobId, Reason, Span, Timestamp};
use echelon_core_pools::fill::{Taker, fill};
use echelon_core_pools::{Admission, Side};
use std::collections::{BTreeMap, BTreeSet};

/// Raises and shrinks grants of some jobs: the new value of every slice whose grant changes. Those of all other jobs stay.
#[must_use]
pub fn grants(
    picture: &Picture,
    ids: &BTreeSet<JobId>,
    admissions: &[Admission],
) -> BTreeMap<(JobId, SliceKey), u64> {
    let mut more: BTreeMap<(JobId, SliceKey), u64> = BTreeMap::new();
    for a in admissions {
        for (cluster, generation, n) in &a.more {
            let key = SliceKey {
                group: a.group.clone(),
                cluster: cluster.clone(),
                generation: *generation,
            };
            *more.entry((a.job, key)).or_default() += n;
        }
    }
    let mut out = BTreeMap::new();
    let jobs = ids.iter().filter_map(|id| Some((*id, picture.jobs.get(id)?)));
    for (id, job) in jobs.filter(|(_, job)| job.is_live()) {
        let all = lines(picture, id, job);
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
    // The first grant of this leader takes over what is active.
    let now: Vec<u64> = lines
        .iter()
        .map(|l| {
            let stays = l.count.active.saturating_sub(l.count.preempting);
            let base = granted(l).unwrap_or(stays).saturating_add(more(&l.key));
            base.min(l.count.unended().max(l.count.active))
        })
        .collect();
    let most = spec.map_or(u64::MAX, |g| u64::from(g.most_active()));
    let capped = capped(job, lines, &now, most);
    let pairs = lines.iter().zip(capped).filter(|(l, n)| granted(l) != Some(*n));
    pairs.map(|(l, n)| (l.key.clone(), n)).collect()
}

/// Grants `now` cut down to `most` in sum. A smaller max_running is the user's wish; nothing else takes active instances away.
/// Where fewer instances are wanted, the marks say which go: they go first, and not before the marks are stored, or the shard
/// would stop whatever it has most of.
fn capped(job: &JobView, lines: &[Line], now: &[u64], most: u64) -> Vec<u64> {
    let decided = slices_of(&job.decided);
    let unstored = |l: &Line| {
        let marked = decided.get(&l.key).into_iter().flatten();
        let marked = marked.filter(|r| r.releasing.as_ref().is_some_and(|m| m.count.is_none()));
        let marked: u64 = marked.map(|r| r.range.count()).sum();
        marked.saturating_sub(l.count.leaving)
    };
    let sum = now.iter().fold(0u64, |sum, n| sum.saturating_add(*n));
    if sum <= most {
        return now.to_vec();
    }
    let kept: Vec<u64> = lines.iter().zip(now).map(|(l, n)| unstored(l).min(*n)).collect();
    let takers: Vec<Taker> = lines
        .iter()
        .zip(now)
        .zip(&kept)
        .map(|((l, n), kept)| Taker::new(1, n.saturating_sub(l.count.leaving).saturating_sub(*kept)))
        .collect();
    let stay = fill(most, &takers);
    stay.into_iter().zip(kept).map(|(n, kept)| n + kept).collect()
}

/// Slices whose unused grants nothing can be placed by, while their pool refuses others: the grant goes back to what is active.
#[must_use]
pub fn taken_back(picture: &Picture, now: Timestamp, after: Span) -> Vec<(JobId, SliceKey, u64, Reason)> {
    let mut starved = None;
    let mut out = Vec::new();
    for id in picture.ledger.unplaced() {
        let Some((job, spec)) = picture.jobs.get(id).and_then(|j| Some((j, j.running_spec()?))) else {
            continue;
        };
        for (key, line) in &job.grants {
            let Some(report) = picture.report(*id, key) else {
                continue;
            };
            let settled = report.grant_number >= line.number() && line.granted() > report.active;
            let unplaced = report
                .waiting
                .iter()
                .find(|(r, _, since)| is_unplaced(r.code) && now.since(*since) >= after);
            let mut starved = || {
                starved
                    .get_or_insert_with(|| starved_pools(picture))
                    .contains(top(&spec.pool))
            };
            // What of a gang could go on waits with the rest of it.
            let whole = spec.gang.is_none() || !is_begun(picture, *id, job);
            // Where its pool is entitled to it, room is made for it on hosts, if that goes.
            let hopeful = || {
                let hopeful = &picture.claims.homeless.hopeful;
                hopeful
                    .iter()
                    .any(|(job, group)| job == id && (*group == key.group || spec.gang.is_some()))
            };
            // More than its hosts hold when they are empty: nothing that ends makes room for it. A gang goes back as a
            // whole. What is active may run on hosts that take no new work, beside those.
            let beyond = || {
                let mut slices = job
                    .grants
                    .iter()
                    .filter(|(of, _)| *of == key || spec.gang.is_some() && of.cluster == key.cluster);
                slices.any(|(of, line)| {
                    let active = picture.report(*id, of).map_or(0, |r| r.active);
                    let group = spec.group(&of.group);
                    let ever = group.and_then(|g| fits::ever_at(picture, &of.cluster, spec, g));
                    ever.is_some_and(|ever| line.granted().saturating_sub(active) > ever)
                })
            };
            if let (true, Some((reason, _, _))) = (settled && whole, unplaced)
                && (beyond() || !hopeful() && starved())
            {
                let stays = report.active.saturating_sub(report.preempting);
                out.push((*id, key.clone(), stays, reason.clone()));
            }
        }
    }
    out
}

/// Whether anything of a job is active.
fn is_begun(picture: &Picture, id: JobId, job: &JobView) -> bool {
    let reports = job.grants.keys().filter_map(|key| picture.report(id, key));
    reports.into_iter().any(|r| r.active > 0)
}

/// The outermost pools in which somebody is refused by a pool's limit or entitlement.
fn starved_pools(picture: &Picture) -> BTreeSet<&str> {
    let rooms = &picture.division.rooms;
    let refused = picture.ledger.queue().pools().filter(|(pool, lines)| {
        let left = [Side::Ordinary, Side::Revocable].map(|side| (side, rooms.left(*pool, side)));
        lines.likenesses().any(|like| {
            let left = left.iter().find(|(side, _)| *side == like.terms.side);
            let why = left.and_then(|(_, left)| rooms.lacking(left, like));
            why.is_some_and(|code| code.layer() == Layer::Pool)
        })
    });
    let pools = refused.filter_map(|(pool, _)| picture.hierarchy.pool(pool));
    pools.map(|p| top(&p.path)).collect()
}

fn top(path: &str) -> &str {
    path.trim_start_matches('/').split('/').next().unwrap_or_default()
}
