//! What runs, in the order in which it began, and what is to run again: instances that were preempted begin
//! anew and run for as long as they were to run at first.

use crate::shard::SliceId;
use echelon_core_model::{GroupName, HostId, JobId, Span, Timestamp};
use std::collections::{BTreeMap, VecDeque};

/// So many instances run so long; `None`: until their job is stopped.
pub type Spans = (Option<Span>, u64);

/// Instances of a slice that began together on one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Its number; never used again.
    pub number: u64,
    /// Where.
    pub host: HostId,
    /// When they began.
    pub began: Timestamp,
    /// How long they run; `None`: until their job is stopped.
    pub span: Option<Span>,
    /// How many.
    pub count: u64,
}

/// All that run, and all that are to run again.
#[derive(Debug, Default)]
pub struct Running {
    /// By shard and slice.
    batches: BTreeMap<(usize, SliceId), Vec<Batch>>,
    again: BTreeMap<(JobId, GroupName), VecDeque<Spans>>,
    last: u64,
}

impl Running {
    /// So many of a slice began on a host; their batch's number.
    pub fn begin(
        &mut self,
        shard: usize,
        id: &SliceId,
        at: (&HostId, Timestamp),
        (span, count): Spans,
    ) -> u64 {
        self.last += 1;
        let batch = Batch {
            number: self.last,
            host: at.0.clone(),
            began: at.1,
            span,
            count,
        };
        let of_slice = self.batches.entry((shard, id.clone())).or_default();
        of_slice.push(batch);
        self.last
    }

    /// A batch has run its time: what is left of it.
    pub fn end(&mut self, shard: usize, id: &SliceId, number: u64) -> Option<Batch> {
        let of_slice = self.batches.get_mut(&(shard, id.clone()))?;
        let at = of_slice.iter().position(|b| b.number == number)?;
        Some(of_slice.remove(at))
    }

    /// A slice was stopped.
    pub fn stop(&mut self, shard: usize, id: &SliceId) {
        self.batches.remove(&(shard, id.clone()));
    }

    /// So many of a slice on a host were preempted, those that began last there: when each part of them
    /// began. They are to run again.
    pub fn preempt(&mut self, shard: usize, id: &SliceId, host: &HostId, n: u64) -> Vec<(Timestamp, u64)> {
        let of_slice = self.batches.entry((shard, id.clone())).or_default();
        let again = self.again.entry((id.0, id.1.clone())).or_default();
        let (mut left, mut lost) = (n, Vec::new());
        for batch in of_slice.iter_mut().rev().filter(|b| b.host == *host) {
            let gone = batch.count.min(left);
            batch.count -= gone;
            left -= gone;
            lost.extend((gone > 0).then_some((batch.began, gone)));
            again.extend((gone > 0).then_some((batch.span, gone)));
        }
        of_slice.retain(|b| b.count > 0);
        lost
    }

    /// Up to `n` of a group that are to run again, those that were preempted first.
    pub fn take_again(&mut self, id: &SliceId, n: u64) -> Vec<Spans> {
        let mut out = Vec::new();
        let Some(again) = self.again.get_mut(&(id.0, id.1.clone())) else {
            return out;
        };
        let mut left = n;
        while left > 0
            && let Some((span, count)) = again.pop_front()
        {
            let here = count.min(left);
            left -= here;
            out.push((span, here));
            if here < count {
                again.push_front((span, count - here));
            }
        }
        out
    }

    /// A job is stopped: how many of it are not to run again.
    pub fn forget(&mut self, job: JobId) -> u64 {
        let of_job = self.again.iter().filter(|((of, _), _)| *of == job);
        let n = of_job.flat_map(|(_, again)| again).map(|(_, count)| count).sum();
        self.again.retain(|(of, _), _| *of != job);
        n
    }
}
