//! Instances as they are stored: one record each, in blocks of consecutive numbers, and one slice row for each group at
//! a cluster. Written only by the cluster's shard leader.

use crate::assignment::AssignedRange;
use crate::bucket::BLOCK_SIZE;
use crate::directive::{Grant, OwnChanges};
use crate::failure::Failure;
use crate::gone::Gone;
use crate::id::{
    Generation, GroupName, HostId, InstanceId, InstanceNumber, JobId, RunNumber, TaskId, Version,
};
use crate::platform::PlatformCause;
use crate::pod::{Member, MemberId};
use crate::range::RangeSet;
use crate::reason::{Reason, ReasonCode};
use crate::resources::Resources;
use crate::run::RunState;
use crate::runtime::Port;
use crate::time::{Span, Timestamp};
use crate::volume::HeldVolume;
use std::collections::BTreeMap;
use std::sync::Arc;
use thin_vec::ThinVec;

/// How an instance's goal was met, or given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ended {
    /// A batch instance succeeded.
    Succeeded,
    /// Its retries are used up.
    Failed,
    /// It was stopped, deleted or scaled away.
    Stopped,
}

/// The wish to end a run, stored before its first KILL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopping {
    /// Why.
    pub reason: Reason,
    /// From SIGTERM to SIGKILL.
    pub grace: Span,
    /// When it was decided.
    pub since: Timestamp,
}

/// A run: one attempt of an instance on one host. A shard holds a million of them: what only few have is behind a pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The generation of the instance's range when it began.
    pub generation: Generation,
    /// Its number within the generation, from 1.
    pub number: RunNumber,
    /// Its state.
    pub state: RunState,
    /// Since when.
    pub since: Timestamp,
    /// For how long its cluster had been observed in sum when it came into that state: what its patience is
    /// counted from.
    pub observed_at: Span,
    /// Why it is in that state.
    pub reason: Reason,
    /// The host's Mesos agent; empty while it is not known, after Mesos refused the launch since it knows the task.
    pub host: HostId,
    /// The host's name, for people.
    pub hostname: Arc<str>,
    /// The spec version that first had what it runs.
    pub spec_version: u32,
    /// Restarts asked for when it began; a larger goal ends it.
    pub restarts: u32,
    /// The head by which it began: a restart that a later one brought ends it.
    pub head_version: Version,
    /// It follows a run that was stopped to be replaced (a rollout, a restart, maintenance), and none in between was good.
    pub replaces: bool,
    /// When the command began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Exit status of the command, when it is known.
    pub exit_code: Option<i32>,
    /// The wish to end it.
    pub stopping: Option<Box<Stopping>>,
    /// Its ports on the host, chosen with the host.
    pub ports: ThinVec<Port>,
    /// The part of its room that its host only lends; `None`: nothing.
    pub revocable: Option<Box<Resources>>,
    /// What its health check said last; `None`: nothing yet, or it has none.
    pub healthy: Option<bool>,
    /// What its readiness probe said last; `None`: nothing yet, or it has none.
    pub ready: Option<bool>,
    /// What must be told of it before it is available.
    pub probes: Probes,
    /// Since when it is available: running, and as healthy and ready as it is asked for. `None`: not now, or not yet; of an ended run
    /// as it was last.
    pub available_at: Option<Timestamp>,
    /// The tasks of a pod, the main one first; empty: the run is one task, whose state is the run's.
    pub members: ThinVec<Member>,
    /// How a pod's run ends once nothing of it is left: as the member that ended it.
    pub ending: Option<Box<Ending>>,
    /// Of a gang that is tried again as a whole: to which of its tries it belongs, from 1; 0: to none.
    pub gang_try: u32,
    /// The fault of the platform by which it ended; `None`: it has not, or by none. Of a pod that is coming to
    /// its end, that of the member that brings it.
    pub fault: Option<PlatformCause>,
    /// That its agent is known to be gone, until it is heard that the run lives after all.
    pub gone: Option<Box<Gone>>,
}

/// Which probes a run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Probes {
    /// A health check.
    pub health: bool,
    /// A readiness probe.
    pub readiness: bool,
}

impl Run {
    /// The first run of the first generation, in a state since a moment, with nothing told of it yet.
    #[must_use]
    pub fn first(state: RunState, host: HostId, hostname: &str, since: Timestamp) -> Self {
        Self {
            generation: Generation(1),
            number: RunNumber(1),
            state,
            since,
            observed_at: Span::ZERO,
            reason: Reason::new(ReasonCode::Running),
            host,
            hostname: hostname.into(),
            spec_version: 1,
            restarts: 0,
            head_version: Version(0),
            replaces: false,
            started_at: None,
            ended_at: None,
            exit_code: None,
            stopping: None,
            ports: ThinVec::new(),
            revocable: None,
            healthy: None,
            ready: None,
            probes: Probes::default(),
            available_at: None,
            members: ThinVec::new(),
            ending: None,
            gang_try: 0,
            fault: None,
            gone: None,
        }
    }

    /// The part of its room that its host only lends.
    #[must_use]
    pub fn revocable_room(&self) -> Resources {
        self.revocable.as_deref().copied().unwrap_or(Resources::ZERO)
    }

    /// Whether others can rely on it at this moment.
    #[must_use]
    pub fn is_available(&self) -> bool {
        let healthy = self.healthy.unwrap_or(!self.probes.health);
        let ready = self.ready.unwrap_or(!self.probes.readiness);
        self.state == RunState::Running && healthy && ready
    }

    /// Since when others can rely on it, if they can. Rows that are older than this know only when it began.
    #[must_use]
    pub fn available_since(&self) -> Option<Timestamp> {
        let since = || self.available_at.or(self.started_at).unwrap_or(self.since);
        self.is_available().then(since)
    }

    /// It was ended or given up, and runs after all: what its probes said before counts no more, and it is
    /// not available until that is observed anew.
    pub const fn forget_availability(&mut self) {
        self.healthy = None;
        self.ready = None;
        self.available_at = None;
    }

    /// Notes since when it is available, or that it is not. Of an ended run the last word stands.
    pub fn note_availability(&mut self, now: Timestamp) {
        if self.is_available() {
            self.available_at.get_or_insert(now);
        } else if !self.state.is_ended() && self.state != RunState::Stopping {
            self.available_at = None;
        }
    }
}

/// The end that a member brings on its pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The state that the run comes to.
    pub state: RunState,
    /// Why, with the member's name.
    pub reason: Reason,
    /// The member's exit status, when it is known.
    pub exit_code: Option<i32>,
}

impl Run {
    /// Its task id.
    #[must_use]
    pub fn task_id(&self, instance: InstanceId) -> TaskId {
        TaskId {
            instance,
            generation: self.generation,
            run: self.number,
        }
    }

    /// Whether nothing is heard of it, so that its host may be gone.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        let stopping = self.state == RunState::Stopping && self.reason.code == ReasonCode::HostUnreachable;
        self.state == RunState::Unreachable || stopping
    }

    /// What is left of a time that began when it came into its state, by what its cluster has been observed
    /// for in sum.
    #[must_use]
    pub const fn left_of(&self, time: Span, observed: Span) -> Span {
        let passed = observed.0.saturating_sub(self.observed_at.0);
        Span(time.0.saturating_sub(passed))
    }

    /// Whether Mesos may have a task of it.
    #[must_use]
    pub const fn may_have_task(&self) -> bool {
        self.state.may_have_task()
    }

    /// The ids of its tasks that are not known dead; of one that is no pod, its own.
    pub fn tasks(&self, instance: InstanceId) -> Vec<MemberId> {
        let run = self.task_id(instance);
        if self.members.is_empty() {
            return vec![MemberId { run, sidecar: None }];
        }
        let live = self.members.iter().filter(|m| !m.state.is_ended());
        live.map(|m| MemberId {
            run: run.clone(),
            sidecar: m.sidecar.clone(),
        })
        .collect()
    }

    /// Whether nobody can tell of one of its members what became of it.
    #[must_use]
    pub fn has_silent_member(&self) -> bool {
        self.members.iter().any(|m| m.state == RunState::Unreachable)
    }
}

/// Most older runs of an instance that are kept. With as many nothing of it is given up or begun until one
/// of them is known to have ended: each is asked about, and takes room in its row.
pub const MOST_OLDER: usize = 8;

/// What is stored of an instance. Instances that were never touched have no record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InstanceRecord {
    /// The generation at which this cluster last held it.
    pub generation: Generation,
    /// Its latest run; `None` before the first.
    pub run: Option<Run>,
    /// Older runs that are not known dead: given up as lost while their host is silent.
    pub older: ThinVec<Run>,
    /// Failed runs that count against `retry.limit`.
    pub attempts: u32,
    /// Runs in a row that ended by the platform. One that ran well ends the row, and so does any other end.
    pub platform_failures: u16,
    /// The next run may not begin before (a stored backoff).
    pub not_before: Timestamp,
    /// How its goal was met.
    pub ended: Option<Ended>,
    /// Its latest run has ended, and what follows from that is not decided: the job's spec was not read then.
    pub unsettled: bool,
    /// Hosts to avoid after failures there, latest last.
    pub avoid: ThinVec<HostId>,
    /// Its volume, where its group asks for one, from the first run on.
    pub volume: Option<Box<HeldVolume>>,
    /// The latest version, in the words of a run's, of which a run has failed; 0: none has.
    pub failed_version: u32,
    /// How the latest of the runs ended that `attempts` or `platform_failures` counts.
    pub failure: Option<Box<Failure>>,
}

impl InstanceRecord {
    /// Its state, as people see it.
    #[must_use]
    pub fn state(&self) -> RunState {
        let run = self.run.as_ref().filter(|run| !self.has_ended_elsewhere(run));
        let Some(run) = run else {
            return self.state_without_run();
        };
        // Between two tries the instance waits; the last run's end is in its reason.
        if run.state.is_ended() && self.ended.is_none() {
            RunState::Pending
        } else {
            run.state
        }
    }

    /// Whether its goal was met or given up by a run at another cluster, after this one of an earlier
    /// stay here had ended.
    fn has_ended_elsewhere(&self, run: &Run) -> bool {
        let has_result = matches!(self.ended, Some(Ended::Succeeded | Ended::Failed));
        has_result && run.state.is_ended() && run.generation != self.generation
    }

    /// How it ended may be known from another cluster, where its run was.
    const fn state_without_run(&self) -> RunState {
        match self.ended {
            Some(Ended::Succeeded) => RunState::Succeeded,
            Some(Ended::Failed) => RunState::Failed,
            Some(Ended::Stopped) | None => RunState::Pending,
        }
    }

    /// Whether Mesos may have a task of any of its runs.
    #[must_use]
    pub fn may_have_task(&self) -> bool {
        self.run.iter().chain(&self.older).any(Run::may_have_task)
    }

    /// Every run that may have a task.
    pub fn live_runs(&self) -> impl Iterator<Item = &Run> {
        self.run.iter().chain(&self.older).filter(|r| r.may_have_task())
    }
}

/// The key of a block within a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockKey {
    /// The job.
    pub job: JobId,
    /// The group.
    pub group: GroupName,
    /// The block's number: instance number / `BLOCK_SIZE`.
    pub number: u32,
}

impl BlockKey {
    /// The block that holds an instance.
    #[must_use]
    pub fn of(job: JobId, group: &GroupName, n: InstanceNumber) -> Self {
        Self {
            job,
            group: group.clone(),
            number: n.0 / BLOCK_SIZE,
        }
    }

    /// Its bucket.
    #[must_use]
    pub fn bucket(&self) -> u16 {
        crate::bucket::block_bucket(self.job, &self.group, self.number)
    }
}

/// Consecutive instances, always written whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Which.
    pub key: BlockKey,
    /// Records of the instances that were touched, by number.
    pub instances: BTreeMap<InstanceNumber, InstanceRecord>,
}

/// What a cluster's shard must remember about a group beside its instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceRow {
    /// The job.
    pub job: JobId,
    /// The group.
    pub group: GroupName,
    /// Ranges last heard of, as the assignment gave them: what a shard without a resource manager starts from.
    pub ranges: Vec<AssignedRange>,
    /// Numbers given back for good at a generation. Final: never started again at that generation.
    pub released: BTreeMap<Generation, RangeSet>,
    /// Numbers whose former holder's blocks were read and taken over at a generation.
    pub taken_over: BTreeMap<Generation, RangeSet>,
    /// The grants last obeyed, by generation.
    pub grants: BTreeMap<Generation, Grant>,
    /// What this shard has changed beside the grants, by generation.
    pub own: BTreeMap<Generation, OwnChanges>,
}

impl SliceRow {
    /// The block number that stands for the slice row in `block_bucket`.
    pub const BLOCK: u32 = u32::MAX;

    /// An empty row.
    #[must_use]
    pub const fn new(job: JobId, group: GroupName) -> Self {
        Self {
            job,
            group,
            ranges: Vec::new(),
            released: BTreeMap::new(),
            taken_over: BTreeMap::new(),
            grants: BTreeMap::new(),
            own: BTreeMap::new(),
        }
    }

    /// Its bucket.
    #[must_use]
    pub fn bucket(&self) -> u16 {
        crate::bucket::block_bucket(self.job, &self.group, Self::BLOCK)
    }
}

/// Instances by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Counts {
    /// By `RunState` number.
    pub by_state: [u64; 12],
}

impl Counts {
    /// Instances in a state.
    #[must_use]
    pub fn get(&self, state: RunState) -> u64 {
        self.by_state
            .get(usize::from(state.number()))
            .copied()
            .unwrap_or_default()
    }

    /// Adds `n` instances in a state.
    pub fn add(&mut self, state: RunState, n: u64) {
        if let Some(slot) = self.by_state.get_mut(usize::from(state.number())) {
            *slot = slot.saturating_add(n);
        }
    }

    /// Adds another's numbers.
    pub fn merge(&mut self, other: &Self) {
        RunState::ALL.into_iter().for_each(|s| self.add(s, other.get(s)));
    }

    /// All instances.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_state.iter().sum()
    }

    /// Instances of which Mesos may have a task.
    #[must_use]
    pub fn live(&self) -> u64 {
        RunState::ALL
            .into_iter()
            .filter(|s| s.may_have_task())
            .map(|s| self.get(s))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of the third generation, with a run of that generation or of the first one.
    fn record(generation: u32, state: RunState, ended: Option<Ended>) -> InstanceRecord {
        let run = Run::first(state, HostId::new("agent"), "host", Timestamp(1));
        InstanceRecord {
            generation: Generation(3),
            run: Some(Run {
                generation: Generation(generation),
                ..run
            }),
            ended,
            ..InstanceRecord::default()
        }
    }

    #[test]
    fn what_ended_at_another_cluster_is_not_shown_by_an_older_run_here() {
        for (ended, shown) in [
            (Ended::Succeeded, RunState::Succeeded),
            (Ended::Failed, RunState::Failed),
            (Ended::Stopped, RunState::Killed),
        ] {
            assert_eq!(record(1, RunState::Killed, Some(ended)).state(), shown);
        }
        // A run that Mesos may still have is shown as it is, and what ended the instance here, too.
        assert_eq!(
            record(1, RunState::Running, Some(Ended::Succeeded)).state(),
            RunState::Running
        );
        assert_eq!(
            record(3, RunState::Rejected, Some(Ended::Failed)).state(),
            RunState::Rejected
        );
        assert_eq!(record(1, RunState::Killed, None).state(), RunState::Pending);
    }

    /// A shard holds a million of them, each with its key in a map (docs/performance.md).
    #[test]
    fn what_is_held_of_an_instance_stays_small() {
        assert!(size_of::<Run>() <= 224, "{}", size_of::<Run>());
        assert!(
            size_of::<InstanceRecord>() <= 280,
            "{}",
            size_of::<InstanceRecord>()
        );
    }
}
