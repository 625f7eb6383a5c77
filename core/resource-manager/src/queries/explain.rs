//! Why instances of a job wait for admission, and the smallest change that admits all of them.
//!
//! The question is a copy of the facts, the sums and the holds. It costs one copy of all of them, made when
//! it is asked. All else is computed on the copy by [`JobQuestion::answer`], in any thread. Changes are tried
//! there: each trial computes demand, division and admission by the functions of the cycle. What is stated as
//! a fix has admitted everything that waits. One unit less of each of its changes has not.
//!
//! An answer makes at most [`MOST_TRIALS`] trials, and fewer where there is much to look at ([`MOST_WORK`]).

pub(crate) mod answer;
mod blockers;
mod levers;
mod search;
mod trial;

use crate::facts::FederationFacts;
use crate::picture::Picture;
use crate::preemption::claimants::withheld;
use crate::queries::explain::answer::{FixOutcome, JobExplanation, MOST_BLOCKERS, QueuePlace};
use crate::queries::explain::blockers::{Found, holders, of_others, own_bounds};
use crate::queries::explain::levers::Levers;
use crate::queries::explain::search::Search;
use crate::queries::explain::trial::{Trial, TrialResult};
use echelon_core_model::job::Desired;
use echelon_core_model::{GroupName, JobId, Reason, ReasonCode};
use echelon_core_pools::Turn;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most admissions that one answer tries.
pub const MOST_TRIALS: u32 = 600;
/// Most pools, clusters and waiting requests that all trials of one answer look at together. Each takes some
/// microseconds.
pub const MOST_WORK: usize = 4_000_000;
/// Fewest admissions that one answer may try.
const FEWEST_TRIALS: u32 = 40;

/// A question why a job waits, with a copy of all that the answer depends on.
#[derive(Debug, Clone)]
pub struct JobQuestion {
    /// `None`: there is no such job that is live.
    trial: Option<Arc<Trial>>,
}

/// Two questions are equal when they are the same one.
impl PartialEq for JobQuestion {
    fn eq(&self, other: &Self) -> bool {
        match (&self.trial, &other.trial) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        }
    }
}

impl JobQuestion {
    /// A question about the state of a leader. It copies the facts and the sums: `O(jobs, reports)`.
    #[must_use]
    pub fn new(picture: &Picture, job: JobId) -> Self {
        if !picture.facts.jobs.contains_key(&job) {
            return Self { trial: None };
        }
        let holds = picture.admission.holds.clone();
        let mut trial = Trial {
            facts: picture.facts.clone(),
            ledger: picture.demand.ledger.clone(),
            withheld: withheld(&picture.facts, &picture.demand.ledger, &picture.preemption),
            holds,
            job,
        };
        trial.unbind();
        trial.settle();
        Self {
            trial: Some(Arc::new(trial)),
        }
    }

    /// The answer.
    #[must_use]
    pub fn answer(self) -> JobExplanation {
        let nothing_waits = JobExplanation::nothing_waits;
        self.trial
            .map_or_else(nothing_waits, |trial| answer(Arc::unwrap_or_clone(trial)))
    }
}

fn answer(mut trial: Trial) -> JobExplanation {
    let mut out = JobExplanation {
        place: place(&trial),
        ..JobExplanation::nothing_waits()
    };
    if let Some(outcome) = barred(&trial) {
        out.outcome = outcome;
        return out;
    }
    let waiting = trial.waiting();
    out.waiting = waiting.values().fold(0, |sum: u64, n| sum.saturating_add(*n));
    if out.waiting == 0 {
        return out;
    }
    let now = trial.admit(false);
    if missing(&waiting, &now).is_empty() {
        out.outcome = FixOutcome::Admitted;
        return out;
    }
    let after = trial.admit(true);
    if missing(&waiting, &after).is_empty() {
        out.outcome = FixOutcome::AfterPreemption;
    }
    let sum = |result: &TrialResult| {
        missing(&waiting, result)
            .values()
            .fold(0, |sum: u64, n| sum.saturating_add(*n))
    };
    let is_preempted = out.outcome == FixOutcome::NothingWaits && sum(&after) < sum(&now);
    let at_rest = if is_preempted { &after } else { &now };
    let missing_now = missing(&waiting, at_rest);
    let mut found = Found::default();
    own_bounds(&trial, at_rest, &missing_now, &mut found);
    let levers = Levers::of(&trial, at_rest, &missing_now);
    // What else is in the way shows once the bounds of the job and of its pools are out of it.
    let lifted = trial.apply(&levers.own).filter(|_| !levers.own.is_empty());
    if let Some(undo) = lifted {
        let beyond = trial.admit(is_preempted);
        of_others(&trial, &beyond, &missing(&waiting, &beyond), &mut found);
        trial.undo(undo);
    } else {
        of_others(&trial, at_rest, &missing_now, &mut found);
    }
    (out.holders, out.more_holders) = holders(&trial, &found);
    out.blockers = found.blockers;
    let more = out.blockers.len().saturating_sub(MOST_BLOCKERS);
    out.more_blockers = u64::try_from(more).unwrap_or(u64::MAX);
    out.blockers.truncate(MOST_BLOCKERS);
    if out.outcome == FixOutcome::AfterPreemption {
        return out;
    }
    let mut search = Search::new(&mut trial, &waiting, trials(&levers));
    let fixes = search.fixes(&levers);
    out.trials = search.made();
    out.outcome = if fixes.is_empty() {
        FixOutcome::NoneFound
    } else {
        FixOutcome::Fixes(fixes)
    };
    out
}

/// How many admissions may be tried.
fn trials(levers: &Levers) -> u32 {
    let each = MOST_WORK.checked_div(levers.size).unwrap_or(MOST_WORK);
    u32::try_from(each)
        .unwrap_or(u32::MAX)
        .clamp(FEWEST_TRIALS, MOST_TRIALS)
}

/// What waits and was not admitted.
fn missing(waiting: &BTreeMap<GroupName, u64>, result: &TrialResult) -> BTreeMap<GroupName, u64> {
    let less = |(group, n): (&GroupName, &u64)| {
        let admitted = result.admitted.get(group).copied().unwrap_or_default();
        (group.clone(), n.saturating_sub(admitted))
    };
    waiting.iter().map(less).filter(|(_, n)| *n > 0).collect()
}

/// Why nothing of the job is admitted whatever demand and capacity there are.
fn barred(trial: &Trial) -> Option<FixOutcome> {
    let facts: &FederationFacts = &trial.facts;
    let job = facts.jobs.get(&trial.job)?;
    let barred = |code| Some(FixOutcome::Barred(Reason::new(code)));
    let Some(spec) = job.spec.as_ref() else {
        return barred(ReasonCode::Accepted);
    };
    if job.desired() != Desired::Running || !job.is_live() {
        return Some(FixOutcome::NothingWaits);
    }
    if job.is_held() {
        let is_template = spec.is_template();
        return barred(if is_template {
            ReasonCode::OnSchedule
        } else {
            ReasonCode::AfterJob
        });
    }
    if let Some(refused) = job.rare.refused.as_ref().filter(|_| job.is_refused()) {
        let reason = Reason::new(ReasonCode::RowRefused).at(&refused.why);
        return Some(FixOutcome::Barred(reason));
    }
    facts.awaiting.clone().map(FixOutcome::Barred)
}

/// The job's place in the queue of its pool. `O(what waits there)`.
fn place(trial: &Trial) -> Option<QueuePlace> {
    let spec = trial.spec()?;
    let pool = trial.facts.hierarchy.find(&spec.pool)?;
    let lines = trial.ledger.queue().lines_of(pool)?;
    let all = || lines.iter().flat_map(|(_, line)| line.units());
    let first: &Turn = all().map(|(turn, _)| turn).filter(|t| t.job == trial.job).min()?;
    let ahead = || all().filter(|(turn, _)| *turn < first);
    let jobs: BTreeSet<JobId> = ahead().map(|(turn, _)| turn.job).collect();
    let sum = |sum: u64, (_, n): (&Turn, u64)| sum.saturating_add(n);
    Some(QueuePlace {
        jobs_ahead: u64::try_from(jobs.len()).unwrap_or(u64::MAX),
        units_ahead: ahead().fold(0, sum),
        units: all().fold(0, sum),
    })
}
