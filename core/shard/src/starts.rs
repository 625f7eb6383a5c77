//! How many launches were sent of late, and how many of their runs failed by the platform: what the
//! resource manager judges by whether starts fail at this cluster. An end counts only by `platform_cause`,
//! so what a run does itself, and what we or operators stop, never counts.
//!
//! Starts are counted by group (pool, image and files), so that a team's bad image shows as one group,
//! however many instances it has. Memory is bounded: so many groups, ten intervals of half a minute each,
//! and three hosts of each. A new leader begins to count anew.

use crate::Shard;
use crate::picture::RunAt;
use echelon_core_hosts::{TaskState, TaskStatus};
use echelon_core_model::directive::ReportPart;
use echelon_core_model::platform::{PlatformCause, drop_cause, platform_cause};
use echelon_core_model::starts::{
    GroupStarts, HostHash, MOST_FAILED_HOSTS, MOST_START_GROUPS, START_PROVEN, START_WINDOW, StartCounts,
    StartGroup,
};
use echelon_core_model::{RunState, Timestamp};
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

/// Intervals in which starts are counted within the window: what is oldest leaves in steps of half a minute.
const INTERVALS: u64 = 10;
/// Most groups that are counted, in less than 200 KiB. Further ones wait until one of these has had no
/// start within the window; their starts are counted as left out.
const MOST_COUNTED: usize = 256;

/// The starts of one interval.
#[derive(Debug, Clone, Copy, Default)]
struct StartInterval {
    number: u64,
    begun: u32,
    /// In the order of `PlatformCause::ALL`.
    failed: [u32; PlatformCause::ALL.len()],
}

/// The number of the interval of a moment.
const fn interval(at: Timestamp) -> u64 {
    at.0 / (START_WINDOW.0 / INTERVALS)
}

/// The starts of the latest intervals, the latest last.
#[derive(Debug, Clone, Default)]
struct StartIntervals(VecDeque<StartInterval>);

impl StartIntervals {
    /// Forgets what is older than the window.
    fn age(&mut self, now: Timestamp) {
        let is_old = |i: &StartInterval| i.number + INTERVALS <= interval(now);
        while self.0.front().is_some_and(is_old) {
            self.0.pop_front();
        }
    }

    /// The present interval.
    fn present(&mut self, now: Timestamp) -> Option<&mut StartInterval> {
        self.age(now);
        let number = interval(now);
        if self.0.back().is_none_or(|last| last.number != number) {
            self.0.push_back(StartInterval {
                number,
                ..StartInterval::default()
            });
        }
        self.0.back_mut()
    }

    fn begun(&self) -> u32 {
        self.0.iter().fold(0, |sum, i| sum.saturating_add(i.begun))
    }

    /// Failed starts by cause.
    fn failed(&self) -> impl Iterator<Item = (PlatformCause, u32)> {
        PlatformCause::ALL.into_iter().enumerate().map(|(place, cause)| {
            let counts = self.0.iter().filter_map(|i| i.failed.get(place));
            (cause, counts.fold(0, |sum: u32, n| sum.saturating_add(*n)))
        })
    }
}

/// The starts of one group.
#[derive(Debug, Clone, Default)]
struct CountedGroup {
    intervals: StartIntervals,
    /// Where something failed last, and when.
    hosts: BTreeMap<HostHash, Timestamp>,
}

impl CountedGroup {
    fn age(&mut self, now: Timestamp) {
        self.intervals.age(now);
        let oldest = interval(now).saturating_sub(INTERVALS - 1);
        self.hosts.retain(|_, at| interval(*at) >= oldest);
    }

    fn fail(&mut self, host: HostHash, cause: PlatformCause, now: Timestamp) {
        let place = PlatformCause::ALL.iter().position(|c| *c == cause);
        let present = self.intervals.present(now);
        let count = present
            .zip(place)
            .and_then(|(present, place)| present.failed.get_mut(place));
        if let Some(count) = count {
            *count = count.saturating_add(1);
        }
        self.hosts.insert(host, now);
        if self.hosts.len() > MOST_FAILED_HOSTS {
            let oldest = self
                .hosts
                .iter()
                .min_by_key(|(_, at)| **at)
                .map(|(host, _)| *host);
            oldest.and_then(|host| self.hosts.remove(&host));
        }
    }

    fn report(&self, group: StartGroup) -> GroupStarts {
        let failed = || self.intervals.failed();
        let most = failed().filter(|(_, n)| *n > 0);
        let most = most.max_by_key(|(cause, n)| (*n, Reverse(cause.number())));
        GroupStarts {
            group,
            begun: self.intervals.begun(),
            failed: failed().fold(0, |sum, (_, n)| sum.saturating_add(n)),
            cause: most.map(|(cause, _)| cause),
            hosts: self.hosts.keys().copied().collect(),
        }
    }
}

/// The starts of this leadership.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    groups: BTreeMap<StartGroup, CountedGroup>,
    /// Starts of groups that are not counted.
    others: StartIntervals,
    /// When groups without starts were last forgotten, as an interval.
    aged: u64,
    /// What was reported last, and when that was last looked at.
    reported: StartCounts,
    looked_at: Option<Timestamp>,
}

impl Starts {
    /// Forgets what is older than the window.
    fn age(&mut self, now: Timestamp) {
        self.aged = interval(now);
        self.others.age(now);
        self.groups.retain(|_, counted| {
            counted.age(now);
            !counted.intervals.0.is_empty()
        });
    }

    /// The counts of a group; `None`: as many groups as may be are counted.
    fn counted(&mut self, group: StartGroup, now: Timestamp) -> Option<&mut CountedGroup> {
        // Within one interval nothing more gets too old.
        if self.groups.len() >= MOST_COUNTED && self.aged != interval(now) {
            self.age(now);
        }
        if self.groups.len() >= MOST_COUNTED && !self.groups.contains_key(&group) {
            return None;
        }
        Some(self.groups.entry(group).or_default())
    }

    fn begin(&mut self, group: StartGroup, now: Timestamp) {
        let intervals = match self.counted(group, now) {
            Some(counted) => &mut counted.intervals,
            None => &mut self.others,
        };
        if let Some(present) = intervals.present(now) {
            present.begun = present.begun.saturating_add(1);
        }
    }

    fn fail(&mut self, failed: FailedStart, now: Timestamp) {
        if let Some(counted) = self.counted(failed.group, now) {
            counted.fail(failed.host, failed.cause, now);
        }
    }

    /// What there is to report now: the groups with most starts.
    fn counts(&mut self, now: Timestamp) -> StartCounts {
        self.age(now);
        let groups = self.groups.iter();
        let mut groups: Vec<GroupStarts> = groups.map(|(group, counted)| counted.report(*group)).collect();
        groups.sort_by_key(|g| (Reverse(g.begun), g.group));
        let others = groups.iter().skip(MOST_START_GROUPS).map(|g| u64::from(g.begun));
        let left_out = others.sum::<u64>() + u64::from(self.others.begun());
        groups.truncate(MOST_START_GROUPS);
        StartCounts { groups, left_out }
    }
}

/// The fault of the platform by which a status says that its task ended: what `platform_retry` counts.
pub(crate) fn fault_of(status: &TaskStatus) -> Option<PlatformCause> {
    let source = status.source.filter(|_| status.healthy != Some(false))?;
    match status.state {
        TaskState::Dropped => drop_cause(source, &status.reason, &status.message),
        TaskState::Failed | TaskState::Gone => platform_cause(source, &status.reason, &status.message),
        _ => None,
    }
}

/// A start that has failed by the platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FailedStart {
    group: StartGroup,
    host: HostHash,
    cause: PlatformCause,
}

impl Shard {
    /// The group of a run's start; `None` while its spec is not read.
    fn start_group(&self, run: RunAt) -> Option<StartGroup> {
        let (at, ..) = run;
        let version = self.picture.run(run)?.spec_version;
        let group = self.picture.groups.get(&at.0)?;
        let spec = self.picture.group_spec_of(group, version)?;
        let main = spec.runtime_of(at.1);
        let sidecars = spec.sidecars.iter().map(|sidecar| &sidecar.runtime);
        let tasks = std::iter::once(&*main).chain(sidecars);
        Some(StartGroup::of(&group.spec.as_ref()?.pool, tasks))
    }

    /// The launch of a run was sent.
    pub(crate) fn note_start(&mut self, run: RunAt) {
        if let Some(group) = self.start_group(run) {
            self.starts.begin(group, self.now);
        }
    }

    /// What a status says of a start that fails by the platform, before it is applied to the run. A run
    /// that is being stopped, was given up, or is proven to run does not fail to start.
    pub(crate) fn failed_start(&self, run: RunAt, status: &TaskStatus) -> Option<FailedStart> {
        let is_end = matches!(
            status.state,
            TaskState::Failed | TaskState::Dropped | TaskState::Gone
        );
        if !is_end || status.healthy == Some(false) {
            return None;
        }
        let cause = platform_cause(status.source?, &status.reason, &status.message)?;
        let found = self.picture.run(run)?;
        let is_live = matches!(
            found.state,
            RunState::Launching | RunState::Starting | RunState::Running | RunState::Unreachable
        );
        let is_proven = found
            .started_at
            .is_some_and(|at| self.now.since(at) >= START_PROVEN);
        (is_live && !is_proven).then_some(FailedStart {
            group: self.start_group(run)?,
            host: HostHash::of(&found.host),
            cause,
        })
    }

    /// Counts a failed start, if the status was taken for the end of the run: of a pod, the first end of a
    /// member.
    pub(crate) fn note_failed_start(&mut self, run: RunAt, failed: FailedStart) {
        let found = self.picture.run(run);
        if found.is_none_or(|r| r.state.is_ended() || r.state == RunState::Stopping) {
            self.starts.fail(failed, self.now);
        }
    }

    /// Reports the starts, when they have changed, but not too often.
    pub(crate) fn report_starts(&mut self) {
        let apart = self.config.timing.starts_apart;
        let is_early = self.starts.looked_at.is_some_and(|at| self.now < at.plus(apart));
        if is_early || !self.epoch_taken() {
            return;
        }
        self.starts.looked_at = Some(self.now);
        let counts = self.starts.counts(self.now);
        if counts == self.starts.reported {
            return;
        }
        self.starts.reported = counts.clone();
        for link in self.links.proven() {
            self.tell(link, ReportPart::Starts(counts.clone()));
        }
    }

    /// The starts for a full report; `None`: there are none.
    pub(crate) fn starts_part(&mut self) -> Option<ReportPart> {
        let counts = self.starts.counts(self.now);
        (counts != StartCounts::default()).then_some(ReportPart::Starts(counts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::Span;

    const FIRST: Timestamp = Timestamp(3_000_000);

    fn later(seconds: u64) -> Timestamp {
        FIRST.plus(Span::seconds(seconds))
    }

    fn failed(group: u64, host: u64, cause: PlatformCause) -> FailedStart {
        FailedStart {
            group: StartGroup(group),
            host: HostHash(host),
            cause,
        }
    }

    #[test]
    fn starts_count_for_five_minutes_and_are_forgotten() {
        let mut starts = Starts::default();
        starts.begin(StartGroup(1), later(0));
        starts.begin(StartGroup(1), later(60));
        starts.fail(failed(1, 7, PlatformCause::Agent), later(61));
        let counts = starts.counts(later(299));
        assert_eq!((counts.groups[0].begun, counts.groups[0].failed), (2, 1));
        let counts = starts.counts(later(300));
        assert_eq!((counts.groups[0].begun, counts.groups[0].failed), (1, 1));
        assert_eq!(counts.groups[0].hosts, [HostHash(7)]);
        assert_eq!(starts.counts(later(360)), StartCounts::default());
        assert!(starts.groups.is_empty());
    }

    #[test]
    fn a_group_names_its_most_frequent_cause_and_the_last_hosts() {
        let mut starts = Starts::default();
        for (host, cause) in [
            (1, PlatformCause::Agent),
            (2, PlatformCause::Fetcher),
            (3, PlatformCause::Fetcher),
            (4, PlatformCause::Agent),
            (4, PlatformCause::Fetcher),
        ] {
            starts.fail(failed(1, host, cause), later(host));
        }
        let counts = starts.counts(later(10));
        let group = &counts.groups[0];
        assert_eq!((group.failed, group.cause), (5, Some(PlatformCause::Fetcher)));
        assert_eq!(group.hosts, [HostHash(2), HostHash(3), HostHash(4)]);
    }

    #[test]
    fn of_equally_frequent_causes_the_first_is_named() {
        let mut starts = Starts::default();
        starts.fail(failed(1, 1, PlatformCause::Agent), later(0));
        starts.fail(failed(1, 1, PlatformCause::Fetcher), later(0));
        let cause = starts.counts(later(1)).groups[0].cause;
        assert_eq!(cause, Some(PlatformCause::Fetcher));
    }

    #[test]
    fn memory_and_reports_are_bounded_whatever_is_started() {
        let mut starts = Starts::default();
        for n in 0..10_000 {
            starts.begin(StartGroup(n), later(n / 100));
            starts.fail(failed(n, n, PlatformCause::Container), later(n / 100));
        }
        assert_eq!(starts.groups.len(), MOST_COUNTED);
        let counts = starts.counts(later(100));
        assert_eq!(counts.groups.len(), MOST_START_GROUPS);
        let named: u64 = counts.groups.iter().map(|g| u64::from(g.begun)).sum();
        assert_eq!(named + counts.left_out, 10_000);
        // As soon as the first ones are too old, others are counted.
        starts.begin(StartGroup(77_777), later(400));
        let groups = starts.counts(later(400)).groups;
        assert!(groups.iter().any(|g| g.group == StartGroup(77_777)));
    }

    #[test]
    fn the_groups_with_most_starts_are_named() {
        let mut starts = Starts::default();
        for group in 0..100 {
            for _ in 0..=group {
                starts.begin(StartGroup(group), later(0));
            }
        }
        let groups = starts.counts(later(1)).groups;
        let first: Vec<u64> = groups.iter().take(3).map(|g| g.group.0).collect();
        assert_eq!(first, [99, 98, 97]);
    }
}
