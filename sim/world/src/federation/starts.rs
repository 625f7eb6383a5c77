//! A partition between a resource manager and a cluster holds nothing back that could run elsewhere. Where a
//! shard hears no resource manager and reaches storage, it is asked through storage for what has not begun.
//!
//! It is judged while no cluster lacks anything but that stream: what is lost with a host or a cluster waits
//! by rules of its own.

use super::course::ClusterTruth;
use crate::client::{Asked, User};
use crate::world::World;
use echelon_core_model::spec::JobKind;
use echelon_core_model::{JobId, Span};

/// The invariant that is judged here.
const INVARIANT: u8 = 3;
/// A stream is broken after 10 s and silent for 8 s more. What has not begun waits for 10 s, its mark is read
/// within 10 s, and what is released within 5 s. Each of these may be repeated once.
const BEGINS_WITHIN: Span = Span::seconds(120);
/// What leaders have not seen for so long they do not know.
const LED_FOR: Span = Span::seconds(35);

/// Whether a cluster lacks nothing but a stream to the resource manager.
const fn is_well(truth: ClusterTruth) -> bool {
    truth.is_good() && truth.is_driven && truth.is_whole
}

impl World {
    /// Something of a job has begun: what it lacks beside that has its time from now on.
    pub(super) fn note_begun_for(&mut self, job: JobId) {
        let number = self.user_of(job).map(|(number, _)| number);
        if let Some(number) = number {
            self.federation.lacking.remove(&number);
        }
    }

    /// Judges whether something waits that could run.
    pub(super) fn judge_starts(&mut self) {
        let now = self.now;
        let is_led = self
            .federation
            .manager
            .led_for(now)
            .is_some_and(|span| span >= LED_FOR);
        let mut courses = self.federation.courses.iter();
        let is_calm = is_led && courses.all(|course| course.last().is_some_and(is_well));
        if !is_calm {
            return self.federation.lacking.clear();
        }
        for number in 0..self.users.0.len() {
            let lacks = self.users.0.get(number).is_some_and(|user| self.lacks_one(user));
            if !lacks {
                self.federation.lacking.remove(&number);
                continue;
            }
            let since = *self.federation.lacking.entry(number).or_insert(now);
            if now.since(since) >= BEGINS_WITHIN {
                let what = format!("user{number} has lacked an instance that could run since {since}");
                return self.break_rule(INVARIANT, what);
            }
        }
    }

    /// Whether a service has fewer runs than its user wants, and a cluster that the leader hears has room.
    fn lacks_one(&self, user: &User) -> bool {
        let is_service = user.spec.kind == JobKind::Service && user.acknowledged.contains(&Asked::Create);
        let Some(job) = user.job.filter(|_| is_service) else {
            return false;
        };
        let is_heard = |cluster: usize| {
            let course = self.federation.courses.get(cluster);
            course
                .and_then(|course| course.last())
                .is_some_and(|truth| truth.is_heard)
        };
        let live = self.live_instances(job);
        live < u64::from(Self::wanted_of(user)) && self.could_run(user, job, is_heard)
    }
}
