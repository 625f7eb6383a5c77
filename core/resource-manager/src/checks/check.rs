//! The checker: what is broken in a state, found independently of how it came about. Runs after every step
//! of tests and simulation. In production a [`Sampler`] checks some jobs every few seconds and the division
//! every few minutes.

use crate::broken::Broken;
use crate::cycle::CycleReport;
use crate::demand::capacity::{capacity, lent};
use crate::demand::ledger::Ledger;
use crate::demand::pool_demand::{Wanted, demands};
use crate::division::{DivisionReport, entitled};
use crate::facts::FederationFacts;
use crate::facts::job::JobView;
use crate::facts::slice::{SliceKey, slices_of};
use crate::picture::Picture;
use echelon_core_model::pool::PoolTree;
use echelon_core_model::resources::{Kind, Resources};
use echelon_core_model::spec::JobSpec;
use echelon_core_model::time::Span;
use echelon_core_model::{JobId, Timestamp};
use echelon_core_pools::hierarchy::{PoolIdx, ROOT};
use echelon_core_pools::tree::of_lent_room;
use echelon_core_pools::{Held, Hierarchy, SecondRound, certificate};
use std::collections::{BTreeMap, BTreeSet};

/// Grants that the cycle of the last step raised, by job,
/// and whether the job counted among those of its pool before.
type RaisedJobs = BTreeMap<JobId, bool>;

fn raised_by(last: Option<&CycleReport>) -> RaisedJobs {
    last.map(|cycle| cycle.admission.raised.clone())
        .unwrap_or_default()
}

/// What is broken; empty when nothing is. `last` is the cycle of the step before, if it had one.
#[must_use]
pub fn check(picture: &Picture, last: Option<&CycleReport>) -> Vec<Broken> {
    let raised = raised_by(last);
    let mut out: Vec<Broken> = picture
        .facts
        .jobs
        .iter()
        .flat_map(|(id, job)| check_job(picture, &raised, *id, job))
        .collect();
    let sums = Ledger::new(&picture.facts);
    if picture.demand.ledger != sums {
        out.push(Broken::Sums);
    }
    out.extend(above_limit(&picture.facts, &sums, &raised));
    out.extend(unfair(picture, &sums).into_iter().map(Broken::Unfair));
    let decided = last.map(|cycle| disproved(picture, &cycle.division));
    out.extend(decided.into_iter().flatten().map(Broken::Unfair));
    out
}

fn check_job(picture: &Picture, raised: &RaisedJobs, id: JobId, job: &JobView) -> Vec<Broken> {
    let mut out = Vec::new();
    for assignment in [&job.durable, &job.decided] {
        let problems = assignment.problems().into_iter();
        out.extend(problems.map(|problem| Broken::Assignment { job: id, problem }));
    }
    out.extend(released_again(&picture.facts, id));
    let mut slices: BTreeSet<SliceKey> = job.slices().keys().cloned().collect();
    slices.extend(job.decided_slices().keys().cloned());
    let unknown = job.grants.keys().filter(|k| !slices.contains(k));
    out.extend(unknown.map(|slice| Broken::UnknownGrant {
        job: id,
        slice: slice.clone(),
    }));
    out.extend(above_most(&picture.facts, raised, id));
    out.extend(unexplained(picture, id));
    out
}

/// Checks a part of a leader's state at a time, for a metric.
#[derive(Debug, Default)]
pub struct Sampler {
    /// The job that was checked last.
    last: Option<JobId>,
    division_at: Timestamp,
}

impl Sampler {
    /// Jobs a look.
    const JOBS: usize = 256;
    /// How often the division of all pools is checked. One check costs as much as a full division.
    const DIVISION_EVERY: Span = Span::minutes(5);

    /// Broken rules of the next jobs. `O(jobs checked)`.
    pub fn look(&mut self, picture: &Picture, last: Option<&CycleReport>) -> Vec<Broken> {
        let raised = raised_by(last);
        let first = self.last.is_none().then(|| picture.facts.jobs.iter());
        let further = self.last.map(|last| picture.facts.jobs.after(last));
        let jobs = first.into_iter().flatten().chain(further.into_iter().flatten());
        let jobs: Vec<(&JobId, &JobView)> = jobs.take(Self::JOBS).collect();
        // A short batch was the last one: the next call starts over.
        let full = jobs.last().filter(|_| jobs.len() == Self::JOBS);
        self.last = full.map(|(id, _)| **id);
        let out: Vec<Broken> = jobs
            .into_iter()
            .flat_map(|(id, job)| check_job(picture, &raised, *id, job))
            .collect();
        out
    }

    /// The proof of the division that a cycle has decided by; `None`: it was proven not long ago.
    /// `O(pools log pools)`.
    pub fn prove(
        &mut self,
        picture: &Picture,
        division: &DivisionReport,
        now: Timestamp,
    ) -> Option<Vec<Broken>> {
        if now < self.division_at {
            return None;
        }
        self.division_at = now.plus(Self::DIVISION_EVERY);
        Some(
            disproved(picture, division)
                .into_iter()
                .map(Broken::Unfair)
                .collect(),
        )
    }
}

/// What a checker that shares nothing with the division finds wrong with one that is made from nothing.
pub(crate) fn unfair(picture: &Picture, sums: &Ledger) -> Vec<certificate::Unfair> {
    let facts = &picture.facts;
    let division = DivisionReport {
        tree: facts.pools.version,
        capacity: capacity(facts, sums),
        lent: lent(facts, sums),
        entitled: entitled(facts, sums),
    };
    disproved_of(picture, &demands(facts, sums), &division)
}

/// The same of the division that a cycle has decided by, as long as nothing has happened since.
fn disproved(picture: &Picture, division: &DivisionReport) -> Vec<certificate::Unfair> {
    disproved_of(picture, picture.demand.wanted(), division)
}

fn disproved_of(
    picture: &Picture,
    wanted: &BTreeMap<PoolIdx, Wanted>,
    division: &DivisionReport,
) -> Vec<certificate::Unfair> {
    let facts = &picture.facts;
    let DivisionReport {
        tree,
        capacity,
        lent,
        entitled,
    } = division;
    if *tree != facts.pools.version {
        return Vec::new();
    }
    let path = |i: PoolIdx| facts.hierarchy.pool(i).map(|p| p.path.clone());
    let by_path = |which: fn(&Wanted) -> Resources| -> BTreeMap<String, Resources> {
        let known = wanted.iter();
        known.filter_map(|(i, w)| Some((path(*i)?, which(w)))).collect()
    };
    let proof = certificate::certify(&facts.hierarchy, &entitled.ordinary);
    let mut out = certificate::check(&facts.pools, &by_path(|w| w.ordinary), *capacity, &proof);
    let pools = of_lent_room(&facts.pools);
    // Mostly there is no revocable capacity: then nothing of it is divided.
    if !lent.is_zero() || !entitled.lent.amount(ROOT).is_zero() {
        let proof = certificate::certify(&facts.by_shares, &entitled.lent);
        out.extend(certificate::check(&pools, &by_path(|w| w.lent), *lent, &proof));
    }
    // Of the last cycle, which may have gone by another tree.
    let again = picture.admission.second_round.as_ref();
    if let Some(again) = again.filter(|again| again.tree == facts.pools.version) {
        out.extend(unfair_in_the_end(&facts.pools, &facts.hierarchy, &again.ordinary));
        out.extend(unfair_in_the_end(&pools, &facts.by_shares, &again.lent));
    }
    out
}

fn unfair_in_the_end(
    pools: &PoolTree,
    hierarchy: &Hierarchy,
    second: &SecondRound,
) -> Vec<certificate::Unfair> {
    let there = second.first.first().copied().unwrap_or_default();
    certificate::check_second(pools, there, &second.lines(hierarchy))
}

/// Released is final for its generation: no cluster has an index at a generation at which another,
/// or it, released it.
fn released_again(facts: &FederationFacts, id: JobId) -> Vec<Broken> {
    let mut out = Vec::new();
    let Some(job) = facts.jobs.get(&id) else {
        return out;
    };
    for (key, ranges) in &job.slices() {
        let held = ranges.iter().map(|r| r.range).collect();
        for (cluster, view) in facts.clusters.iter().filter(|(c, _)| **c != key.cluster) {
            let Some(report) = view.reports.get(&(id, key.group.clone(), key.generation)) else {
                continue;
            };
            let both = report.released.intersect(&held);
            if !both.is_empty() {
                out.push(Broken::ReleasedAgain {
                    job: id,
                    group: key.group.clone(),
                    numbers: both.to_string(),
                    cluster: cluster.clone(),
                });
            }
        }
    }
    out
}

fn above_most(facts: &FederationFacts, raised: &RaisedJobs, id: JobId) -> Vec<Broken> {
    let Some(job) = facts.jobs.get(&id) else {
        return Vec::new();
    };
    let Some(spec) = job.running_spec() else {
        return Vec::new();
    };
    let slices = slices_of(&job.decided);
    let groups = spec.groups.iter().filter_map(|group| {
        let of_group = slices.iter().filter(|(k, _)| k.group == group.name);
        let counts: BTreeMap<_, _> = of_group
            .map(|(k, ranges)| (k, facts.count(id, k, ranges)))
            .collect();
        let lines = job.grants.iter().filter(|(k, _)| k.group == group.name);
        let granted: u64 = lines
            // Nothing begins under an expired grant.
            .map(|(k, line)| match counts.get(k) {
                _ if !line.is_expired() => line.granted(),
                Some(count) => line.granted().min(count.active),
                None => 0,
            })
            .sum();
        // What leaves keeps its grant until its mark is stored and it has left.
        let leaving: u64 = counts.values().map(|count| count.leaving).sum();
        let most = u64::from(group.most_active());
        (granted > most.saturating_add(leaving)).then(|| Broken::MaxRunning {
            job: id,
            group: group.name.clone(),
            granted,
            most,
        })
    });
    // Grants follow the head in a later cycle: only a raise of the same job on top of it would be wrong.
    if raised.contains_key(&id) {
        groups.collect()
    } else {
        Vec::new()
    }
}

fn unexplained(picture: &Picture, id: JobId) -> Option<Broken> {
    let job = picture.facts.jobs.get(&id)?;
    let spec = job.running_spec()?;
    let told: u64 = crate::progress::waiting::waiting(picture, id, job, Default::default())
        .iter()
        // These are active.
        .filter(|w| !w.reason.code.withholds())
        .map(|w| w.count)
        .sum();
    let waiting: u64 = spec
        .groups
        .iter()
        .map(|group| {
            let slices = job.decided_slices();
            let of_group = slices.iter().filter(|(k, _)| k.group == group.name);
            let begun = of_group.map(|(k, ranges)| {
                let count = picture.facts.count(id, k, ranges);
                count.active + count.ended
            });
            u64::from(group.instances).saturating_sub(begun.sum())
        })
        .sum();
    // Active ones that are to begin again and find no host are counted beside them.
    let slices = job.decided_slices();
    let reports = slices.keys().filter_map(|k| picture.facts.report(id, k));
    let again: u64 = reports.map(|r| r.active.saturating_sub(r.live)).sum();
    let explained = (waiting..=waiting.saturating_add(again)).contains(&told);
    (!explained).then_some(Broken::Unexplained {
        job: id,
        told,
        waiting,
    })
}

/// Whether instances of a job may take ordinary capacity of a kind.
/// Revocable work takes processor time from revocable capacity alone.
fn takes(spec: &JobSpec, kind: Kind) -> bool {
    let asks = spec.groups.iter().any(|g| g.room().get(kind) > 0);
    asks && !(spec.revocable && kind == Kind::Cpus)
}

fn above_limit(facts: &FederationFacts, sums: &Ledger, raised: &RaisedJobs) -> Vec<Broken> {
    let held = sums.held_by_path(facts);
    let raised: Vec<(&JobSpec, bool)> = raised
        .iter()
        .filter_map(|(id, counted)| Some((facts.jobs.get(id)?.spec.as_deref()?, *counted)))
        .collect();
    let mut out = Vec::new();
    for pool in facts.pools.pools.values() {
        let inside = |path: &str| {
            std::iter::successors(Some(path), |p| Some(PoolTree::parent(p)).filter(|p| *p != "/"))
                .any(|p| p == pool.path)
        };
        let below = held.iter().filter(|(path, _)| inside(path));
        let sum = below.fold(Held::default(), |sum, (_, held)| sum.plus(*held));
        let raised: Vec<&(&JobSpec, bool)> = raised.iter().filter(|(s, _)| inside(&s.pool)).collect();
        // A kind that was over before the raise and of which the raise took nothing is not broken by it.
        // One of which it took some is.
        let over = |kind: &Kind| sum.ordinary.get(*kind) > pool.limit.get(*kind);
        let mut over = Kind::ALL.into_iter().filter(over);
        if over.any(|kind| raised.iter().any(|(s, _)| takes(s, kind))) {
            out.push(Broken::PoolLimit {
                pool: pool.path.clone(),
                allocated: sum.ordinary,
                limit: pool.limit,
            });
        }
        if raised.iter().any(|(s, _)| s.revocable) && !sum.lent.fits(pool.revocable_limit) {
            out.push(Broken::PoolRevocableLimit {
                pool: pool.path.clone(),
                allocated: sum.lent,
                limit: pool.revocable_limit,
            });
        }
        if raised.iter().any(|(s, _)| !s.preemptible) && !sum.firm.fits(pool.reservation) {
            out.push(Broken::PoolReservation {
                pool: pool.path.clone(),
                allocated: sum.firm,
                reservation: pool.reservation,
            });
        }
        if raised.iter().any(|(s, _)| s.controller) && !sum.controllers.fits(pool.controller_limit) {
            out.push(Broken::PoolControllers {
                pool: pool.path.clone(),
                allocated: sum.controllers,
                limit: pool.controller_limit,
            });
        }
        let is_first = raised.iter().any(|(_, counted)| !counted);
        for (what, judged, have, most) in [
            (
                "active instances",
                !raised.is_empty(),
                sum.instances,
                pool.max_instances,
            ),
            ("jobs that have begun", is_first, sum.jobs, pool.max_jobs),
        ] {
            if judged && have > most {
                out.push(Broken::PoolNumbers {
                    pool: pool.path.clone(),
                    what,
                    have,
                    most,
                });
            }
        }
    }
    out
}
