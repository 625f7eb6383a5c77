//! The slices of a job with their counts.

use crate::facts::FederationFacts;
use crate::facts::job::JobView;
use crate::facts::slice::{SliceCount, SliceKey};
use echelon_core_model::directive::SliceReport;
use echelon_core_model::reason::Layer;
use echelon_core_model::spec::{JobKind, JobSpec};
use echelon_core_model::{JobId, ReasonCode};
use std::sync::Arc;

/// A slice with its counts, as admission needs it.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) key: SliceKey,
    pub(crate) count: SliceCount,
    pub(crate) allocated: u64,
    /// Of what is allocated, what is free when those that are being preempted are gone.
    pub(crate) leaving: u64,
    /// What its shard has reported of it.
    pub(crate) report: Option<Arc<SliceReport>>,
}

/// The slices of a job's assignment, as it is decided, by group.
pub(crate) fn lines(facts: &FederationFacts, id: JobId, job: &JobView) -> Vec<Line> {
    let slices = job.decided_slices();
    let lines = slices.iter().map(|(key, ranges)| {
        let report = facts.shared_report(id, key);
        let count = SliceCount::of(ranges, report.map(AsRef::as_ref));
        let allocated = facts.allocated(id, job, key, &count);
        let line = job.grants.get(key).filter(|line| !line.is_new());
        let taken_over = count.granted.min(count.unended());
        let granted = line.map_or(taken_over, |line| line.granted());
        let stays = granted.max(count.active.saturating_sub(count.preempting));
        Line {
            leaving: allocated.saturating_sub(stays).min(count.preempting),
            count,
            allocated,
            key: key.clone(),
            report: report.map(Arc::clone),
        }
    });
    lines.collect()
}

/// Whether something of a job has begun, or may.
pub(crate) fn has_begun(lines: &[Line]) -> bool {
    lines.iter().any(|l| l.allocated > 0 || l.count.begun)
}

/// Whether an instance of a slice that ends is followed by another one under the same grant.
pub(crate) fn is_replaced(spec: &JobSpec, line: &Line) -> bool {
    let is_batch = spec.kind == JobKind::Batch && spec.gang.is_none();
    is_batch && line.count.active > 0 && line.count.startable() > line.count.active
}

/// Whether something of a job was found unable to run where it is, or is to leave.
pub(crate) fn is_restless(facts: &FederationFacts, lines: &[Line]) -> bool {
    let marked = |l: &Line| l.count.leaving + l.count.leaving_waiting > 0;
    let draining = |l: &Line| {
        let cluster = facts.clusters.get(&l.key.cluster);
        cluster.is_some_and(|c| c.desired_state().moves_work_off())
    };
    let waits = |l: &Line| l.count.startable() > l.allocated;
    lines.iter().any(|l| marked(l) || draining(l) || waits(l))
}

pub(crate) fn is_somewhere_unplaced(lines: &[Line]) -> bool {
    let reports = lines.iter().filter_map(|l| l.report.as_deref());
    let mut reasons = reports.flat_map(|r| &r.waiting);
    reasons.any(|(reason, _, _)| is_unplaced(reason.code))
}

/// Whether a shard's reason means that it found no host.
pub(crate) fn is_unplaced(code: ReasonCode) -> bool {
    code.layer() == Layer::Placement && code != ReasonCode::AwaitingOffer
}

/// Whether a shard's reason keeps what is granted from beginning, whatever it is. The others are no fault of the cluster:
/// a grant or records are on their way, a gang is not complete, or what has run waits for its next run.
pub(crate) fn keeps_from_beginning(code: ReasonCode) -> bool {
    !matches!(
        code,
        ReasonCode::AwaitingGrant
            | ReasonCode::Moved
            | ReasonCode::GangWaits
            | ReasonCode::Backoff
            | ReasonCode::CrashLooping
            | ReasonCode::PlatformRetry
            | ReasonCode::MassLoss
            | ReasonCode::TooManyOlderRuns
            | ReasonCode::KillsOff
    )
}
