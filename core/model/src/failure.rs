//! What is remembered of failed runs while an instance is tried again, and when that is a crash loop.

use crate::instance::InstanceRecord;
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
    pub const fn is_crash_looping(&self) -> bool {
        self.attempts >= CRASH_LOOP && self.ended.is_none()
    }

    /// That it fails again and again: how often, how it ended last, and when it is tried again where it waits for that.
    #[must_use]
    pub fn crash_loop(&self, now: Timestamp) -> Reason {
        let last = self.failure.as_deref().map(|f| &f.reason);
        let last = last.or_else(|| self.run.as_ref().map(|r| &r.reason));
        let mut words = format!("{} failures in a row", self.attempts);
        if let Some(reason) = last {
            words.push_str(&format!(", the last: {reason}"));
        }
        let waits = self.run.as_ref().is_some_and(|r| r.state.is_ended());
        if waits && self.not_before > now {
            let seconds = self.not_before.since(now).0.div_ceil(1000);
            words.push_str(&format!("; next try in {}", Span::seconds(seconds)));
        }
        Reason::new(ReasonCode::CrashLooping).at(words)
    }
}
