//! What was preempted and launched, and what is wrong with it: an instance is preempted twice only for a
//! cause, no more is preempted than is needed, and nothing that is not preemptible.

use crate::shares::CORES;
use echelon_core_model::{InstanceId, JobId, Span, Timestamp};
use std::collections::BTreeMap;

/// Between a decision to preempt and the moment at which its shard obeys: what was decided before a change
/// may be done after it.
const UNDER_WAY: Span = Span::seconds(5);

/// A run that was stopped to make capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PreemptedRun {
    pub(crate) instance: InstanceId,
    /// When its shard decided it.
    pub(crate) at: Timestamp,
    /// The pool that gets the capacity.
    pub(crate) claimant: String,
    pub(crate) cores: u64,
    pub(crate) is_preemptible: bool,
}

/// A run that was launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LaunchedRun {
    pub(crate) job: JobId,
    /// Its instance has had a run and was not preempted: it is restarted, or has moved.
    pub(crate) is_replacement: bool,
    pub(crate) pool: String,
    pub(crate) priority: u32,
    pub(crate) at: Timestamp,
    pub(crate) cores: u64,
}

/// Work that was preempted and is not preemptible.
pub(crate) fn firm_stopped(stops: &[PreemptedRun]) -> Option<String> {
    let stop = stops.iter().find(|stop| !stop.is_preemptible)?;
    Some(format!(
        "{} is not preemptible, and was stopped: {stop:?}",
        stop.instance
    ))
}

/// An instance that was preempted twice although nothing has changed between. `causes` is in order of time.
pub(crate) fn stopped_again(stops: &[PreemptedRun], causes: &[Timestamp]) -> Option<String> {
    let mut last: BTreeMap<&InstanceId, Timestamp> = BTreeMap::new();
    for stop in stops {
        let Some(first) = last.insert(&stop.instance, stop.at) else {
            continue;
        };
        let later = causes.partition_point(|cause| *cause < first);
        let has_cause = causes.get(later).is_some_and(|cause| *cause <= stop.at);
        if !has_cause {
            return Some(format!(
                "{} was preempted at {} and again at {} without a cause",
                stop.instance, first.0, stop.at.0
            ));
        }
    }
    None
}

/// More cores preempted for a pool since the last cause than what has begun there could need. An instance
/// needs its own cores, and the last of its victims may have more than was lacking.
pub(crate) fn stopped_in_vain(
    stops: &[PreemptedRun],
    launches: &[LaunchedRun],
    cause: Timestamp,
) -> Option<String> {
    let since = cause.plus(UNDER_WAY);
    let mut stopped: BTreeMap<&str, u64> = BTreeMap::new();
    for stop in stops.iter().filter(|stop| stop.at > since) {
        *stopped.entry(&stop.claimant).or_default() += stop.cores;
    }
    stopped.into_iter().find_map(|(pool, cores)| {
        let begun = launches.iter().filter(|l| l.pool == pool && l.at > cause);
        let needed: u64 = begun.map(|l| l.cores + CORES - 1).sum();
        (cores > needed)
            .then(|| format!("{cores} cores were preempted for {pool}, which could need {needed}"))
    })
}

/// A job that waits, and fits what its pool is entitled to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingJob {
    pub(crate) job: JobId,
    pub(crate) pool: String,
    pub(crate) priority: u32,
    /// What began before is not held against its pool.
    pub(crate) since: Timestamp,
    /// What begins from then on is not either: capacity was kept for the job for as long as that is done.
    pub(crate) until: Timestamp,
}

/// Work of a waiting job's pool that has begun although that job comes first.
pub(crate) fn overtaken(waiting: &WaitingJob, launches: &[LaunchedRun]) -> Option<String> {
    let WaitingJob {
        job,
        pool,
        priority,
        since,
        until,
    } = waiting;
    let is_later = |l: &&LaunchedRun| l.priority < *priority || (l.priority == *priority && l.job > *job);
    let of_pool = launches
        .iter()
        .filter(|l| l.pool == *pool && l.job != *job && !l.is_replacement)
        .filter(|l| l.at > *since && l.at < *until);
    let later = of_pool.filter(is_later).count();
    (later > 0).then(|| {
        format!(
            "{job} in {pool} waits since {}, and {later} of later jobs have begun since",
            since.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::InstanceNumber;
    use echelon_core_testkit::build::{job_id, main_group};

    fn stop(n: u32, at: u64, cores: u64) -> PreemptedRun {
        PreemptedRun {
            instance: InstanceId {
                job: job_id(1),
                group: main_group(),
                number: InstanceNumber(n),
            },
            at: Timestamp(at),
            claimant: "/p/a".to_owned(),
            cores,
            is_preemptible: true,
        }
    }

    fn launch(job: u128, priority: u32, at: u64, cores: u64) -> LaunchedRun {
        LaunchedRun {
            job: job_id(job),
            is_replacement: false,
            pool: "/p/a".to_owned(),
            priority,
            at: Timestamp(at),
            cores,
        }
    }

    #[test]
    fn work_that_is_not_preemptible_is_found() {
        assert_eq!(firm_stopped(&[stop(0, 1, 1)]), None);
        let firm = PreemptedRun {
            is_preemptible: false,
            ..stop(1, 2, 1)
        };
        assert!(firm_stopped(&[stop(0, 1, 1), firm]).is_some());
    }

    #[test]
    fn a_second_preemption_needs_a_cause_between() {
        let twice = [stop(0, 10, 1), stop(1, 15, 1), stop(0, 20, 1)];
        let at = |causes: &[u64]| {
            let causes: Vec<Timestamp> = causes.iter().map(|at| Timestamp(*at)).collect();
            stopped_again(&twice, &causes).is_some()
        };
        assert!(at(&[]) && at(&[5]) && at(&[5, 25]));
        assert!(!at(&[5, 12]) && !at(&[20]) && !at(&[10]));
        assert_eq!(stopped_again(&twice[..2], &[]), None);
    }

    #[test]
    fn what_is_preempted_and_not_used_is_found() {
        let cause = Timestamp(0);
        let stops = [stop(0, 9_000, 4), stop(1, 9_000, 4)];
        let found = |launches: &[LaunchedRun]| stopped_in_vain(&stops, launches, cause).is_some();
        assert!(found(&[]));
        assert!(
            found(&[launch(2, 0, 9_500, 4)]),
            "one victim would have been enough"
        );
        assert!(!found(&[launch(2, 0, 9_500, 4), launch(2, 0, 9_500, 4)]));
        // For one core a victim of four may go.
        assert!(!found(&[launch(2, 0, 9_500, 1), launch(2, 0, 9_500, 1)]));
        let of_other = LaunchedRun {
            pool: "/q".to_owned(),
            ..launch(2, 0, 9_500, 8)
        };
        assert!(found(&[of_other]));
        // What was under way when something changed may be of no use any more.
        assert_eq!(stopped_in_vain(&stops, &[], Timestamp(8_000)), None);
    }

    #[test]
    fn later_work_that_begins_first_is_found() {
        let waiting = WaitingJob {
            job: job_id(5),
            pool: "/p/a".to_owned(),
            priority: 3,
            since: Timestamp(100),
            until: Timestamp(900),
        };
        let waits = |launches: &[LaunchedRun]| overtaken(&waiting, launches).is_some();
        assert!(waits(&[launch(6, 3, 200, 1)]) && waits(&[launch(2, 1, 200, 1)]));
        assert!(!waits(&[launch(4, 3, 200, 1)]) && !waits(&[launch(6, 4, 200, 1)]));
        assert!(!waits(&[launch(6, 3, 50, 1)]) && !waits(&[launch(5, 3, 200, 1)]));
        assert!(
            !waits(&[launch(6, 3, 900, 1)]),
            "capacity was kept for it long enough"
        );
        let replacement = LaunchedRun {
            is_replacement: true,
            ..launch(6, 3, 200, 1)
        };
        assert!(!waits(&[replacement]));
    }
}
