//! Taking numbers over from their former holder: what of its records counts here (design section 6).

use echelon_core_model::instance::{Ended, InstanceRecord};
use echelon_core_model::{Generation, Timestamp};

/// What is known about a number before it is held at a new generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Takeover<'a> {
    /// The new generation.
    pub generation: Generation,
    /// Our own record, from an earlier time here.
    pub own: Option<&'a InstanceRecord>,
    /// The former holder's record.
    pub former: Option<&'a InstanceRecord>,
    /// Until when the former holder's wait counts at most: its clock may be ahead of ours.
    pub wait_until: Timestamp,
}

/// The record to store, or `None` when there is nothing to remember. A live run of our own goes on as the run of the new
/// generation, and one that has ended and is not settled still counts; attempts, waits, hosts to avoid and how it ended come from the
/// former holder. What was merely stopped there starts again here.
#[must_use]
pub fn take_over(of: &Takeover<'_>) -> Option<InstanceRecord> {
    let mut record = of.own.cloned().unwrap_or_default();
    if record.generation >= of.generation && of.own.is_some() {
        return Some(record);
    }
    record.ended = record.ended.filter(|e| *e != Ended::Stopped);
    if let Some(former) = of.former {
        record.attempts = record.attempts.max(former.attempts);
        record.platform_failures = record.platform_failures.max(former.platform_failures);
        record.not_before = record.not_before.max(former.not_before.min(of.wait_until));
        if record.failure.is_none() {
            record.failure.clone_from(&former.failure);
        }
        record.failed_version = record.failed_version.max(former.failed_version);
        record.ended = former.ended.filter(|e| *e != Ended::Stopped).or(record.ended);
        for host in former
            .avoid
            .iter()
            .filter(|h| !record.avoid.contains(h))
            .cloned()
            .collect::<Vec<_>>()
        {
            record.avoid.push(host);
        }
    }
    let counts = record.unsettled || record.ended.is_some();
    record.run = record.run.filter(|r| counts || r.may_have_task());
    let blank = InstanceRecord {
        generation: record.generation,
        ..InstanceRecord::default()
    };
    if record == blank && of.own.is_none() {
        return None;
    }
    record.generation = of.generation;
    Some(record)
}
