//! Which jobs are starved, and since when: they wait in vain for what would fit inside their pool's
//! entitlement. Starvation time is tracked per job, so that it goes on where the job waits next.
//! It is stored with the job's progress, so that it goes on under the next leader.

use crate::config::Preemption;
use crate::preemption::PreemptionInputs;
use echelon_core_model::{JobId, Span, Timestamp};
use echelon_core_pools::{Line, Turn};
use std::collections::{BTreeMap, BTreeSet};

/// Most groups that are looked at at once.
pub(crate) const LOOKS: usize = 64;
/// Most groups for which starvation time is tracked; for all behind them their queue's time counts.
const NOTED: usize = 4 * LOOKS;
/// How long a job is remembered that is not starved at the moment.
/// Where a leader or shard is new, nothing is known of the job for a while.
const REMEMBERED: Span = Span::seconds(10);

/// Since when jobs are starved.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StarvationTimes(BTreeMap<JobId, Since>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Since {
    at: Timestamp,
    /// When it was last seen to be so; never by this leader.
    seen: Option<Timestamp>,
}

impl StarvationTimes {
    pub(crate) fn len(&self) -> usize {
        let Self(since) = self;
        since.len()
    }

    /// Since when a job is.
    #[must_use]
    pub fn since(&self, job: JobId) -> Option<Timestamp> {
        self.0.get(&job).map(|since| since.at)
    }

    /// Since when work of a job is starved that has been seen to be so since `seen`: its class, or its grant.
    pub(crate) fn since_either(&self, job: JobId, seen: Timestamp) -> Timestamp {
        self.since(job).map_or(seen, |at| at.min(seen))
    }

    /// A job counts as starved since `at`, or since before.
    pub(crate) fn count_from(&mut self, job: JobId, at: Timestamp) {
        let since = self.0.entry(job).or_insert(Since { at, seen: None });
        since.at = since.at.min(at);
    }

    /// What an earlier leader has stored.
    pub(crate) fn recall(&mut self, job: JobId, at: Timestamp) {
        self.0.entry(job).or_insert(Since { at, seen: None });
    }
}

/// Since when jobs are starved, and of which that has changed.
pub(crate) fn note(
    known: PreemptionInputs<'_>,
    mut starved: StarvationTimes,
    now: Timestamp,
) -> (StarvationTimes, BTreeSet<JobId>) {
    let mut changed = BTreeSet::new();
    let waiting = first(known, NOTED, |line, _| line.starved.is_some());
    // Work that is granted and finds no host is starved as well.
    let unplaced = known.requests.unplaced.hopeful.iter().map(|(job, _)| *job);
    for job in waiting.into_iter().map(|turn| turn.job).chain(unplaced) {
        let new = || {
            changed.insert(job);
            Since { at: now, seen: None }
        };
        starved.0.entry(job).or_insert_with(new).seen = Some(now);
    }
    starved.0.retain(|job, since| {
        let seen = *since.seen.get_or_insert(now);
        let stays = now.since(seen) < REMEMBERED;
        if !stays {
            changed.insert(*job);
        }
        stays
    });
    (starved, changed)
}

/// Those that are starved for long enough and for which nothing is under way, in order of admission.
pub(crate) fn starved<'a>(known: PreemptionInputs<'a>, rules: &Preemption, now: Timestamp) -> Vec<&'a Turn> {
    let requests = known.requests;
    let refused = requests.refused.iter().filter(|(_, (until, _))| *until > now);
    let mut busy = requests.busy(known.facts);
    busy.extend(refused.map(|((job, group), _)| (*job, group)));
    first(known, LOOKS, |line, turn| {
        let since = line
            .starved
            .map(|seen| requests.starved.since_either(turn.job, seen));
        since.is_some_and(|since| now.since(since) >= rules.after) && !busy.contains(&(turn.job, &turn.group))
    })
}

/// The first turns for which `is` is true, in order of admission: `most` in all, `LOOKS` of each class.
/// There may be very many that wait.
fn first<'a>(known: PreemptionInputs<'a>, most: usize, is: impl Fn(&Line, &Turn) -> bool) -> Vec<&'a Turn> {
    let pools = known.admission.starved_pools.iter();
    let lines = pools.filter_map(|pool| known.ledger.queue().lines_of(*pool));
    let lines = lines.flat_map(|of_pool| of_pool.iter().map(|(_, line)| line));
    let mut first: BTreeSet<&Turn> = BTreeSet::new();
    for line in lines.filter(|line| line.starved.is_some()) {
        // All in it come after these.
        if first.len() >= most && first.last().copied() < line.turns().next() {
            continue;
        }
        for turn in line.turns().filter(|turn| is(line, turn)).take(LOOKS) {
            first.insert(turn);
            // All behind it in its queue come after it.
            if first.len() > most && first.pop_last() == Some(turn) {
                break;
            }
        }
    }
    first.into_iter().collect()
}
