//! How a job ends by its own rules: enough instances have succeeded, too many have failed, it came too late,
//! or a dependency can never be met. Pure: judged by counts and times, never by single instances, so that ten
//! million cost as much as one.

use crate::facts::FederationFacts;
use crate::facts::cluster::ClusterView;
use crate::facts::job::JobView;
use crate::lifecycle::dependencies::{Stands, stands, told};
use crate::lifecycle::head_change::Bid;
use echelon_core_model::job::{Desired, JobState, Verdict};
use echelon_core_model::rules::Completion;
use echelon_core_model::spec::{JobKind, JobSpec};
use echelon_core_model::{JobId, Reason, ReasonCode, Timestamp};
use std::collections::BTreeSet;

/// What follows from the rules for a job now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ruling {
    /// What the leader proposes, if anything.
    pub(crate) bid: Option<Bid>,
    /// All that it was submitted to wait for is met.
    pub released: bool,
    /// When only time changes what follows.
    pub look_at: Option<Timestamp>,
}

/// What follows from the rules for a job. A newer desired state or version is looked at when it is in force.
#[must_use]
pub fn ruling(
    facts: &FederationFacts,
    gone: &BTreeSet<JobId>,
    id: JobId,
    job: &JobView,
    now: Timestamp,
) -> Ruling {
    if !job.is_live() {
        return of_ended(job, now);
    }
    let judged = job.desired() == Desired::Running && job.next_head.is_none();
    let Some(spec) = job.spec.as_deref().filter(|s| judged && has_rules(s)) else {
        return Ruling::default();
    };
    if job.is_held() {
        return of_held(facts, gone, spec);
    }
    let of_counts = (spec.kind == JobKind::Batch).then(|| by_counts(spec, count(facts, id, job, spec)));
    if let Some(verdict) = of_counts.flatten() {
        return Ruling::stop(verdict);
    }
    by_time(facts, id, job, spec, now)
}

impl Ruling {
    pub(crate) fn stop(verdict: Verdict) -> Self {
        Self {
            bid: Some(Bid::Stop(verdict)),
            ..Self::default()
        }
    }
}

fn failed(reason: Reason) -> Verdict {
    Verdict {
        state: JobState::Failed,
        reason,
    }
}

fn has_rules(spec: &JobSpec) -> bool {
    let serves = spec.kind == JobKind::Batch && spec.groups.iter().any(|g| g.runs_for_ever(spec.kind));
    let times = spec.rules.max_wait.is_some() || spec.rules.max_total.is_some();
    let counts = spec.rules.completion != Completion::All || spec.rules.max_failed.is_some();
    let ends = spec.rules.driver.is_some() || ends_with_a_member(spec);
    serves || times || counts || ends || !spec.rules.after.is_empty()
}

/// Whether the job has failed with the first member of its gang that has failed for good.
fn ends_with_a_member(spec: &JobSpec) -> bool {
    spec.gang.as_ref().is_some_and(|g| g.on_failure.is_of_all())
}

fn of_ended(job: &JobView, now: Timestamp) -> Ruling {
    let ended = job.progress.as_ref().filter(|p| p.state().is_ended());
    // Of a job that had ended before this leader came, the head waits for a spec that is not needed any more.
    let newest = job.next_head.as_deref().or(job.head.as_ref());
    let wanted = newest.is_some_and(|h| !h.void && h.goal.desired != Desired::Deleted);
    match ended.and_then(|p| p.row.as_ref()?.keep_until).filter(|_| wanted) {
        Some(until) if until <= now => Ruling {
            bid: Some(Bid::Delete),
            ..Ruling::default()
        },
        until => Ruling {
            look_at: until,
            ..Ruling::default()
        },
    }
}

fn of_held(facts: &FederationFacts, gone: &BTreeSet<JobId>, spec: &JobSpec) -> Ruling {
    match stands(facts, gone, spec) {
        (Stands::Met, _) => Ruling {
            released: true,
            ..Ruling::default()
        },
        (Stands::Open, _) => Ruling::default(),
        (Stands::Failed, worst) => {
            let words = worst.map(|after| told(facts, after)).unwrap_or_default();
            Ruling::stop(failed(Reason::new(ReasonCode::DependencyFailed).at(words)))
        }
    }
}

/// How many of the instances that count have succeeded and failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Count {
    succeeded: u64,
    failed: u64,
    /// The same of all instances, those for which the job does not wait, too.
    failed_of_all: u64,
}

/// The counts that every present holder reports. What a shard has reported once is stored there, and never
/// less later, but where a gang begins again as a whole. Then fewer had succeeded than the job needs, and all
/// of it is at one shard, which reports it in order.
fn count(facts: &FederationFacts, id: JobId, job: &JobView, spec: &JobSpec) -> Count {
    let mut out = Count::default();
    for key in job.slices().keys() {
        let counts = spec.group(&key.group).is_some_and(|g| spec.waits_for(g));
        let report = facts.report(id, key);
        out.failed_of_all += report.map_or(0, |r| r.failed);
        if let Some(report) = report.filter(|_| counts) {
            out.succeeded = out.succeeded.saturating_add(report.succeeded);
            out.failed = out.failed.saturating_add(report.failed);
        }
    }
    out
}

/// The end that counts bring while something is left to be stopped.
/// A job of which all has ended ends by itself.
fn by_counts(spec: &JobSpec, count: Count) -> Option<Verdict> {
    let of = spec.counted();
    let open = of.saturating_sub(count.succeeded.saturating_add(count.failed));
    let serving = spec.instances() > of;
    if open == 0 && !serving {
        return None;
    }
    if let Some(driver) = spec.rules.driver.as_ref().filter(|_| open == 0) {
        let succeeded = count.succeeded >= spec.rules.completion.needed(of);
        return Some(Verdict {
            state: if succeeded {
                JobState::Succeeded
            } else {
                JobState::Failed
            },
            reason: Reason::new(ReasonCode::DriverEnded).at(driver.as_str()),
        });
    }
    if count.succeeded >= spec.rules.completion.needed(of) {
        let words = format!("{} of {of}", count.succeeded);
        return Some(Verdict {
            state: JobState::Succeeded,
            reason: Reason::new(ReasonCode::CompletionMet).at(words),
        });
    }
    if count.failed_of_all > 0 && ends_with_a_member(spec) {
        let words = format!("{} of {}", count.failed_of_all, spec.instances());
        return Some(failed(Reason::new(ReasonCode::GangFailed).at(words)));
    }
    let most = spec.rules.max_failed.map(|m| (m, m.of_many(of)));
    if let Some((said, _)) = most.filter(|(_, most)| count.failed > *most) {
        let words = format!("{} of {of}, max_failed is {said}", count.failed);
        return Some(failed(Reason::new(ReasonCode::TooManyFailed).at(words)));
    }
    let needed = spec.rules.completion.needed(of);
    let asked = matches!(spec.rules.completion, Completion::Successes(_));
    if asked && open > 0 && of.saturating_sub(count.failed) < needed {
        let words = format!("{} of {of}, completion needs {needed}", count.failed);
        return Some(failed(Reason::new(ReasonCode::TooManyFailed).at(words)));
    }
    (open == 0).then(|| failed(Reason::new(ReasonCode::RetriesExhausted)))
}

fn by_time(facts: &FederationFacts, id: JobId, job: &JobView, spec: &JobSpec, now: Timestamp) -> Ruling {
    // Without a dependency it has waited since it was made. That time is of another machine's clock: under
    // the leader that reads it first it counts from the read.
    let stored = || {
        facts
            .pause
            .counted_from(job.rare.release.at().unwrap_or(id.created_at()), now)
    };
    let seen = job.first_seen.filter(|_| job.rare.release.at().is_none());
    let from = seen.unwrap_or_else(stored);
    let deadline = |span| from.plus(span);
    let total = spec.rules.max_total.map(|span| (deadline(span), span));
    if let Some((_, span)) = total.filter(|(at, _)| *at <= now) {
        return Ruling::stop(failed(
            Reason::new(ReasonCode::TotalDeadline).at(span.to_string()),
        ));
    }
    let waits = spec.rules.max_wait.filter(|_| never_left_waiting(job));
    let wait = waits.map(|span| (deadline(span), span));
    if let Some((_, span)) = wait.filter(|(at, _)| *at <= now)
        && nothing_begun(facts, id, job)
    {
        return Ruling::stop(failed(Reason::new(ReasonCode::WaitDeadline).at(span.to_string())));
    }
    let next = [total, wait].into_iter().flatten().map(|(at, _)| at);
    Ruling {
        look_at: next.filter(|at| *at > now).min(),
        ..Ruling::default()
    }
}

/// Whether the job was never stored as anything but waiting:
/// one that was preempted whole has begun all the same.
fn never_left_waiting(job: &JobView) -> bool {
    let progress = job.progress.as_ref();
    progress.is_some_and(|p| p.state() == JobState::Waiting && p.since() == p.created_at)
}

/// Whether every cluster that has a part of it reports so; silence proves nothing.
fn nothing_begun(facts: &FederationFacts, id: JobId, job: &JobView) -> bool {
    job.slices().keys().all(|key| {
        let heard = facts
            .clusters
            .get(&key.cluster)
            .is_some_and(ClusterView::is_settled);
        let begun =
            |r: &echelon_core_model::directive::SliceReport| r.active + r.succeeded + r.failed + r.live > 0;
        heard && !facts.report(id, key).is_some_and(begun)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::gang::{Gang, OnMemberFailure};
    use echelon_core_model::rules::{Restart, Rules};
    use echelon_core_model::{Amount, Span};
    use echelon_core_model::{GroupName, Resources};
    use echelon_core_testkit::build::JobBuilder;

    fn judged(spec: &JobSpec, succeeded: u64, failed: u64) -> Option<(JobState, ReasonCode)> {
        let count = Count {
            succeeded,
            failed,
            failed_of_all: failed,
        };
        by_counts(spec, count).map(|v| (v.state, v.reason.code))
    }

    const MET: Option<(JobState, ReasonCode)> = Some((JobState::Succeeded, ReasonCode::CompletionMet));
    const TOO_MANY: Option<(JobState, ReasonCode)> = Some((JobState::Failed, ReasonCode::TooManyFailed));

    #[test]
    fn counts_bring_a_job_to_its_end_while_there_is_something_to_stop() {
        let plain = JobBuilder::batch("j", 10).build();
        let with = |completion, max_failed| JobSpec {
            rules: Box::new(Rules {
                completion,
                max_failed,
                ..Rules::default()
            }),
            ..plain.clone()
        };
        let (some, any) = (Completion::Successes(4), Completion::Successes(1));
        let budget = |n| Some(Amount::Count(n));
        let table = [
            ("all succeed", with(Completion::All, None), 9, 0, None),
            (
                "all have: it ends by itself",
                with(Completion::All, None),
                10,
                0,
                None,
            ),
            (
                "failures alone stop nothing",
                with(Completion::All, None),
                0,
                9,
                None,
            ),
            ("too few", with(some, None), 3, 5, None),
            ("enough", with(some, None), 4, 5, MET),
            ("enough, and none left", with(some, None), 5, 5, None),
            ("it can just be reached", with(some, None), 0, 6, None),
            ("it cannot be any more", with(some, None), 2, 7, TOO_MANY),
            ("nor could it, and all have ended", with(some, None), 3, 7, None),
            ("any", with(any, None), 1, 0, MET),
            ("any still may", with(any, None), 0, 9, None),
            ("within the budget", with(Completion::All, budget(2)), 0, 2, None),
            ("beyond it", with(Completion::All, budget(2)), 0, 3, TOO_MANY),
            ("none may", with(Completion::All, budget(0)), 0, 1, TOO_MANY),
            ("success comes first", with(some, budget(2)), 4, 3, MET),
            (
                "a fifth",
                with(Completion::All, Some(Amount::Percent(20))),
                0,
                2,
                None,
            ),
            (
                "more than that",
                with(Completion::All, Some(Amount::Percent(20))),
                0,
                3,
                TOO_MANY,
            ),
        ];
        for (name, spec, succeeded, failed, expected) in table {
            assert_eq!(judged(&spec, succeeded, failed), expected, "{name}");
        }
    }

    #[test]
    fn a_job_does_not_wait_for_a_group_that_serves_the_others() {
        let mut spec = JobBuilder::batch("j", 4)
            .with_group("server", 2, Resources::ZERO)
            .build();
        let server = spec
            .groups
            .iter_mut()
            .find(|g| g.name == GroupName::new("server"));
        server.unwrap().restart = Restart::Always;
        assert_eq!(judged(&spec, 3, 0), None);
        assert_eq!(judged(&spec, 4, 0), MET);
        let exhausted = Some((JobState::Failed, ReasonCode::RetriesExhausted));
        assert_eq!(judged(&spec, 3, 1), exhausted);
    }

    #[test]
    fn the_end_of_a_driver_is_the_jobs_whatever_became_of_those_it_drives() {
        let driver = GroupName::new("driver");
        let mut spec = JobBuilder::batch("j", 4)
            .with_group("driver", 1, Resources::ZERO)
            .build();
        spec.rules.driver = Some(driver.clone());
        assert_eq!(judged(&spec, 0, 0), None);
        let ended = |state| Some((state, ReasonCode::DriverEnded));
        assert_eq!(judged(&spec, 1, 0), ended(JobState::Succeeded));
        assert_eq!(judged(&spec, 0, 1), ended(JobState::Failed));
        // With nothing left to be stopped it ends by itself.
        spec.groups.retain(|g| g.name == driver);
        assert_eq!(judged(&spec, 1, 0), None);
    }

    #[test]
    fn a_gang_that_is_tried_as_a_whole_ends_with_its_first_member_that_has_failed_for_good() {
        let of = |on_failure| {
            let gang = Gang {
                on_failure,
                ..Gang::new(Span::minutes(5))
            };
            JobBuilder::batch("j", 4).gang_of(gang).build()
        };
        let ends = Some((JobState::Failed, ReasonCode::GangFailed));
        for (on_failure, end) in [
            (OnMemberFailure::Member, None),
            (OnMemberFailure::Gang, ends),
            (OnMemberFailure::Job, ends),
        ] {
            assert_eq!(judged(&of(on_failure), 2, 1), end, "{on_failure}");
            assert_eq!(judged(&of(on_failure), 2, 0), None, "{on_failure}");
            assert_eq!(
                judged(&of(on_failure), 3, 1),
                None,
                "all have ended: it ends by itself"
            );
        }
    }

    #[test]
    fn ten_million_instances_are_judged_by_their_counts() {
        let job = JobBuilder::batch("j", 10_000_000).max_running(5_000);
        let spec = job.max_failed(Amount::Percent(1)).build();
        assert_eq!(judged(&spec, 9_000_000, 100_000), None);
        assert_eq!(judged(&spec, 9_000_000, 100_001), TOO_MANY);
    }
}
