//! What is remembered of failed runs while an instance is tried again, and when that is a crash loop.

use crate::instance::{InstanceRecord, Run};
use crate::reason::{Reason, ReasonCode};
use crate::time::{Span, Timestamp};

/// So many failures in a row are a crash loop: two may be a bad host and the one after it.
pub const CRASH_LOOP: u32 = 3;

/// How the latest failed run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// When.
    pub at: Timestamp,
    /// Why.
    pub reason: Reason,
    /// Exit status of the command, when it is known.
    pub exit_code: Option<i32>,
}

impl InstanceRecord {
    /// Whether it fails again and again. Of an instance that runs for ever: one that does not has tries, which are counted and end.
    #[must_use]
    pub fn is_crash_looping(&self) -> bool {
        self.failures_in_a_row() >= CRASH_LOOP && self.ended.is_none()
    }

    /// Failures in a row, its own or the platform's, whichever are more. While it runs, the platform's
    /// are over.
    #[must_use]
    pub fn failures_in_a_row(&self) -> u32 {
        self.attempts.max(self.open_platform_failures())
    }

    /// Runs in a row that ended by the platform, with none running now.
    fn open_platform_failures(&self) -> u32 {
        let runs = self
            .run
            .as_ref()
            .is_some_and(|r| r.started_at.is_some() && !r.state.is_ended());
        if runs { 0 } else { self.platform_failures.into() }
    }

    /// That it fails again and again: how often, how it ended last, and when it is tried again where it waits for that.
    #[must_use]
    pub fn crash_loop(&self, now: Timestamp) -> Reason {
        let by_platform = self.open_platform_failures() > self.attempts;
        let last = self.failure.as_deref().map(|f| f.reason.to_string());
        let last = last.or_else(|| self.run.as_ref().map(|r| r.reason.to_string()));
        let mut words = format!("{} failures in a row", self.failures_in_a_row());
        if by_platform {
            words.push_str(" by the platform");
        }
        if let Some(reason) = last {
            words.push_str(&format!(", the last{}: {reason}", self.failed_host()));
        }
        words.push_str(&self.next_try(now));
        Reason::new(ReasonCode::CrashLooping).at(words)
    }

    /// Whether its latest run ended by the platform, and is to be followed by another.
    #[must_use]
    pub fn awaits_platform_retry(&self) -> bool {
        let is_over = |r: &Run| r.fault.is_some() && r.state.is_ended();
        self.platform_failures > 0 && self.ended.is_none() && self.run.as_ref().is_some_and(is_over)
    }

    /// On which host the platform ended its latest run, and why, as what it waits for.
    #[must_use]
    pub fn last_platform_failure(&self) -> Reason {
        let why = self.run.as_ref().map(|r| r.reason.to_string());
        let words = format!("failed{}: {}", self.failed_host(), why.unwrap_or_default());
        Reason::new(ReasonCode::PlatformRetry).at(words)
    }

    /// The same with how often that was in a row, and when the next try is. `None`: it does not wait for one.
    #[must_use]
    pub fn platform_retry(&self, now: Timestamp) -> Option<Reason> {
        if !self.awaits_platform_retry() {
            return None;
        }
        let reason = self.last_platform_failure();
        let last = reason.detail.as_deref().unwrap_or_default();
        let (times, next) = (self.platform_failures, self.next_try(now));
        let words = format!("{times} in a row, the last {last}{next}");
        Some(reason.at(words))
    }

    /// The host of a run that the platform ended, in words: ` on host h1`.
    fn failed_host(&self) -> String {
        let run = self.run.as_ref().filter(|r| r.fault.is_some());
        run.map_or_else(String::new, |r| format!(" on host {}", r.hostname))
    }

    /// When it is tried again, in words, while it waits for that.
    fn next_try(&self, now: Timestamp) -> String {
        let waits = self.run.as_ref().is_some_and(|r| r.state.is_ended());
        if !waits || self.not_before <= now {
            return String::new();
        }
        let seconds = self.not_before.since(now).0.div_ceil(1000);
        format!("; next try in {}", Span::seconds(seconds))
    }
}
