//! What becomes due as time passes, and when the next thing does.

use crate::config::FULL_CYCLE;
use crate::effect::Effect;
use crate::manager::{Phase, ResourceManager};
use crate::storage::operations::Purpose;
use echelon_core_model::bucket::JOB_BUCKETS;
use echelon_core_model::{Span, Timestamp};

impl ResourceManager {
    /// Does what is due, after every event.
    pub(crate) fn tick(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        if self.phase == Phase::Follower {
            return;
        }
        self.ops.repeat_due(now, out);
        if let Phase::Frozen(since) = self.phase
            && now.since(since) >= self.config.reread
            && !self.reads_evidence()
        {
            self.read_leadership(now, out);
        }
        self.confirm_epoch(now, out);
        if self.is_suspended() {
            return;
        }
        self.recover_on(now, out);
        if self.phase != Phase::Leading {
            return;
        }
        self.reread(now, out);
        if now.since(self.timers.full_cycle) >= FULL_CYCLE {
            self.timers.full_cycle = now;
            self.due = true;
            self.judge_clusters(now, out);
            self.remove_clusters(now, out);
            self.keep_start_bans(now, out);
            self.keep_reading_releases(now, out);
            self.ask_about_classes(out);
            self.settle_resume(now, out);
            self.remove_tombstones(now, out);
            self.read_aside_specs(now, out);
            self.allowed.tidy(&self.picture.demand.ledger, now);
        }
        if self.due && now >= self.next_cycle() {
            let paid = self.timers.cycle.max(now);
            self.timers.cycle = paid.plus(self.config.cycle);
            self.due = false;
            self.last_cycle = Some(Box::new(self.cycle(now, out)));
        }
    }

    /// Whether what may show an old storage is being read.
    fn reads_evidence(&self) -> bool {
        use Purpose::{ReadLeadership, ReadMark, ReadSwitches};
        [ReadLeadership, ReadMark, ReadSwitches]
            .iter()
            .any(|purpose| self.ops.has(purpose))
    }

    /// The time at which `Event::Wake` is needed next.
    #[must_use]
    pub fn next_wake(&self) -> Option<Timestamp> {
        if self.is_suspended() {
            return self.next_resumption();
        }
        let mut at: Vec<Timestamp> = self.ops.next_due().into_iter().collect();
        match self.phase {
            Phase::Follower => return None,
            // While the read is under way, what is due next is its repetition.
            Phase::Frozen(_) if self.reads_evidence() => {}
            Phase::Frozen(since) => at.push(since.plus(self.config.reread)),
            Phase::Taking => {}
            Phase::Recovering | Phase::Leading => {
                at.push(self.timers.confirmed.plus(self.config.lease));
                if !self.ops.has(&Purpose::ConfirmEpoch) {
                    let third = Span(self.config.lease.0 / 3);
                    at.push(self.timers.confirm_asked.plus(third));
                }
            }
        }
        if self.phase == Phase::Recovering && self.all_read && self.ops.len() == 0 {
            // What is left is done in steps, one right after the other.
            at.push(self.timers.leading);
        }
        if self.phase == Phase::Leading {
            let bucket = Span((self.config.heads_within.0 / u64::from(JOB_BUCKETS)).max(1));
            at.push(self.timers.bucket.plus(bucket));
            at.push(self.timers.reread.plus(self.config.reread));
            at.push(self.timers.full_cycle.plus(FULL_CYCLE));
            if self.due {
                at.push(self.next_cycle());
            }
        }
        at.into_iter().min()
    }

    /// When a cycle may run: one in each `cycle` on average, and two at once after a pause. So a job that is
    /// submitted to an idle federation is assigned, and it is granted as soon as the assignment is stored.
    fn next_cycle(&self) -> Timestamp {
        Timestamp(self.timers.cycle.0.saturating_sub(self.config.cycle.0))
    }
}
