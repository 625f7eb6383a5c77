//! Users who restart all instances of their job, or some, and who end single ones by their numbers; and what must be so in the end.

use crate::client::Asked;
use crate::dice::Die;
use crate::invariants::Broken;
use crate::world::World;
use echelon_core_gateway::restart::Restart;
use echelon_core_model::job::{Desired, Head};
use echelon_core_model::{InstanceNumber, InstanceRange, JobId, MemberId, RangeSet};

/// Which instances are restarted, and how many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restarted {
    numbers: Option<InstanceRange>,
    batch: Option<u32>,
}

impl Restarted {
    /// All, as fast as may be.
    pub(crate) const ALL: Self = Self {
        numbers: None,
        batch: None,
    };

    /// As a gateway is asked.
    pub(crate) fn wish(self) -> Restart {
        Restart {
            group: None,
            numbers: self.numbers.map(|range| RangeSet::from_iter([range])),
            batch: self.batch,
        }
    }
}

/// A set of one number.
pub(crate) fn only(number: u32) -> RangeSet {
    RangeSet::from_iter([InstanceRange {
        first: number,
        last: number,
    }])
}

/// What a user with so many instances asks for.
pub(crate) fn restarts(instances: u32, may_end: bool, die: &mut Die) -> Vec<Asked> {
    let mut out = Vec::new();
    if die.chance(200) {
        out.push(Asked::Restart(Restarted::ALL));
    }
    let mut number = || u32::try_from(die.below(u64::from(instances))).unwrap_or(0);
    let (a, b, one) = (number(), number(), number());
    let some = InstanceRange {
        first: a.min(b),
        last: a.max(b),
    };
    let batch = die.chance(500).then_some(1);
    if die.chance(200) {
        out.push(Asked::Restart(Restarted {
            numbers: Some(some),
            batch,
        }));
    }
    if may_end && instances > 1 && die.chance(200) {
        out.push(Asked::End(one));
    }
    out
}

impl World {
    /// In the end nothing runs of what was ended by its number, and no run of a job that runs is older than its restart.
    pub(crate) fn judge_restarts(&self, job: JobId, head: &Head) -> Option<Broken> {
        let (_, spec) = self.head_and_spec(job)?;
        let lost = |what: String| Broken { invariant: 23, what };
        let tasks = self.clusters.iter().flat_map(|c| c.mesos.live_tasks());
        let runs = tasks.filter_map(|(_, t)| t.as_str().parse::<MemberId>().ok().map(|m| m.run));
        for run in runs.filter(|run| run.instance.job == job) {
            let InstanceNumber(number) = run.instance.number;
            if spec
                .rules
                .withdrawn(&run.instance.group)
                .contains(InstanceNumber(number))
            {
                return Some(lost(format!("{run} runs, and its number was ended")));
            }
        }
        let wish = head
            .restarts
            .as_deref()
            .filter(|_| head.goal.desired == Desired::Running)?;
        let progress = self.progress(job)?;
        let whole = self.live_instances(job) == spec.instances();
        let over = progress
            .restart
            .is_some_and(|p| p.version == wish.version && p.done_at.is_some());
        (whole && !progress.state.is_ended() && !over).then(|| {
            lost(format!(
                "the restart of {job} is not over: {:?}",
                progress.restart
            ))
        })
    }
}
