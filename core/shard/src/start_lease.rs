//! The start lease: a leader begins nothing new unless a heartbeat that it sent in the last 20 s is
//! durable, and unless nothing forbids it. So the resource manager may give what has not begun at a silent
//! shard to another cluster. The protocol is in `docs/decisions/start-lease.md`, and
//! `tests/tests/start_lease.rs` checks a model of it. Its rules here:
//!
//! | rule of the model | where |
//! | --- | --- |
//! | `HeartbeatThenRead` | the row is asked for when a heartbeat is durable, and the assignments when the row allows starts |
//! | `ObeyRow` | while the row forbids starts nothing is asked of placement that has not begun |
//! | `LeaseAtLaunch` | `launch.rs` drops an intent that is durable after the lease has lapsed |
//! | `NewLeaderLapsed` | a leader begins without a durable heartbeat of its own |
//! | `RestartAfterLaunch` | only an instance of which Mesos has had a run at its generation begins without the lease |
//!
//! The age of a heartbeat counts from when it was sent first, by this process' own clock. The row comes
//! before the assignments: if it were read after them, a move and the end of its ban could lie between
//! both.

use crate::Phase;
use crate::Shard;
use crate::event::LinkId;
use crate::group::Group;
use crate::picture::{At, RunAt};
use crate::purpose::Purpose;
use echelon_core_model::bucket::ASSIGNMENT_PARTITIONS;
use echelon_core_model::instance::{InstanceRecord, Run};
use echelon_core_model::start_ban::StartBans;
use echelon_core_model::store::{Consistency, Op, Query};
use echelon_core_model::{
    Assignment, Epoch, Generation, InstanceNumber, Reason, ReasonCode, RunState, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};

/// What a leader has read since its lease lapsed, or since it leads.
#[derive(Debug, Default)]
enum StartCheck {
    /// Nothing: no heartbeat is durable that is young enough.
    #[default]
    Lapsed,
    /// Starts are forbidden, for the silence of this number.
    Forbidden(u64),
    /// The row allows starts. The assignments are read when that may begin.
    Allowed,
    /// The row allows starts, and the recovery has read no assignment before.
    InRecovery,
    /// These partitions of assignments are not read yet.
    Assignments(BTreeSet<u16>),
    /// All of it is read.
    Passed,
}

/// The lease and what is known of starts that need it.
#[derive(Debug, Default)]
pub(crate) struct StartLease {
    /// When the newest heartbeat was sent that is durable.
    sent_at: Option<Timestamp>,
    check: StartCheck,
    /// Counts the checks: an answer to a question of an earlier one is too old.
    round: u64,
    /// The row is being read for this check.
    is_asking: bool,
    /// How often starts were forbidden here when the row last allowed them.
    bans: Option<u64>,
    /// Instances of which Mesos has had a run at this generation, where their present run does not show it.
    begun: BTreeMap<At, Generation>,
    /// Intents that were not launched yet and need the lease.
    first_starts: BTreeSet<RunAt>,
}

/// Whether a run shows that its launch has left and that Mesos has had its task. A run that was refused,
/// lost or killed before its command began does not show it.
fn shows_launch(run: &Run) -> bool {
    let had_task = matches!(
        run.state,
        RunState::Starting | RunState::Running | RunState::Succeeded | RunState::Failed
    );
    run.started_at.is_some() || had_task
}

/// Whether a record shows that the instance has begun at a generation.
fn has_begun(record: &InstanceRecord, generation: Generation) -> bool {
    let runs = record.run.iter().chain(&record.older);
    runs.filter(|run| run.generation == generation).any(shows_launch)
}

impl Group {
    /// Instances that wait for their next run and of which no run shows that they have begun.
    pub(crate) fn unbegun_ready(&self, generation: Generation) -> u64 {
        let first = |n: &&InstanceNumber| {
            let here = self.range_of(**n).is_some_and(|r| r.generation == generation);
            here && !self.record(**n).is_some_and(|r| has_begun(r, generation))
        };
        u64::try_from(self.ready.iter().filter(first).count()).unwrap_or(u64::MAX)
    }
}

impl Shard {
    /// Whether a heartbeat is durable that was sent a short while ago.
    fn holds_start_lease(&self) -> bool {
        let lease = self.config.timing.start_lease;
        self.start_lease
            .sent_at
            .is_some_and(|at| self.now < at.plus(lease))
    }

    /// Whether an instance may begin of which nothing has left for Mesos yet.
    pub(crate) fn may_start_new(&self) -> bool {
        self.holds_start_lease() && matches!(self.start_lease.check, StartCheck::Passed)
    }

    /// Whether an instance may begin a run, as far as the start lease goes.
    pub(crate) fn may_start(&self, at: At, generation: Generation) -> bool {
        self.may_start_new() || self.has_begun(at, generation)
    }

    /// Whether Mesos has had a run of an instance at this generation. So its launch left under the lease, its
    /// intent was durable then, and no manager moves it.
    pub(crate) fn has_begun(&self, at: At, generation: Generation) -> bool {
        self.start_lease.begun.get(&at) == Some(&generation)
            || self.picture.record(at).is_some_and(|r| has_begun(r, generation))
    }

    /// Whether starts are forbidden here. That may last, so offers are not kept for what waits.
    pub(crate) const fn starts_forbidden(&self) -> bool {
        matches!(self.start_lease.check, StartCheck::Forbidden(_))
    }

    /// For which silence starts are forbidden here, as it was read last.
    #[must_use]
    pub const fn forbidden_for(&self) -> Option<u64> {
        match self.start_lease.check {
            StartCheck::Forbidden(silence) => Some(silence),
            _ => None,
        }
    }

    /// Notes that the lease has lapsed. It is looked at before anything else of a step: a heartbeat that
    /// becomes durable later does not make up for the time between.
    pub(crate) fn note_start_lapse(&mut self) {
        if self.holds_start_lease() || matches!(self.start_lease.check, StartCheck::Lapsed) {
            return;
        }
        self.start_lease.round += 1;
        self.start_lease.is_asking = false;
        self.turn_starts(StartCheck::Lapsed);
    }

    fn turn_starts(&mut self, check: StartCheck) {
        self.start_lease.check = check;
        // What waits has another reason now.
        self.picture.unreported.extend(self.picture.groups.keys());
    }

    /// A heartbeat that was sent first at `sent_at` is durable.
    pub(crate) fn on_heartbeat_stored(&mut self, sent_at: Timestamp) {
        self.start_lease.sent_at = self.start_lease.sent_at.max(Some(sent_at));
        let asks = matches!(
            self.start_lease.check,
            StartCheck::Lapsed | StartCheck::Forbidden(_)
        );
        if !asks || self.start_lease.is_asking || !self.holds_start_lease() {
            return;
        }
        self.start_lease.is_asking = true;
        let purpose = Purpose::StartBans(self.start_lease.round);
        self.ask(Op::Read(Query::StartBans, Consistency::Serial), purpose);
    }

    /// The row of the clusters where starts are forbidden.
    pub(crate) fn on_start_bans(&mut self, round: u64, bans: &StartBans) {
        if round != self.start_lease.round {
            return;
        }
        self.start_lease.is_asking = false;
        let ban = bans.of(&self.config.cluster);
        if let Some(silence) = ban.silence {
            if self.forbidden_for() != Some(silence) {
                self.turn_starts(StartCheck::Forbidden(silence));
            }
            return;
        }
        let known = self.start_lease.bans.replace(ban.number);
        if known.unwrap_or_default() != ban.number {
            self.refuse_older_streams();
        }
        if self.phase == Phase::Serving && !self.is_recovering() {
            self.read_start_assignments();
        } else {
            self.turn_starts(StartCheck::Allowed);
        }
    }

    /// The row cannot be understood: nothing new begins before it can. It is read again after the next
    /// heartbeat.
    pub(crate) fn on_start_bans_unread(&mut self, round: u64) {
        if round == self.start_lease.round {
            self.start_lease.is_asking = false;
        }
    }

    /// Starts were forbidden here since this leader knew it last, and instances may have moved meanwhile.
    /// What was ordered before may still be under way on a stream, so the streams are opened anew.
    fn refuse_older_streams(&mut self) {
        let open: Vec<LinkId> = self.links.all();
        for link in open {
            let why = "what was ordered over it may be older than moves that its shard has read";
            self.refuse(link, why.to_owned());
        }
    }

    /// The recovery begins to read assignments at SERIAL. They count if the row was read before.
    pub(crate) fn recovery_reads_assignments(&mut self) {
        if matches!(self.start_lease.check, StartCheck::Allowed) {
            self.start_lease.check = StartCheck::InRecovery;
        }
    }

    /// The recovery has read a partition. One of an older epoch than is obeyed is read again after the
    /// recovery.
    pub(crate) fn recovery_read_partition(&mut self, epoch: Epoch) {
        if !matches!(self.start_lease.check, StartCheck::InRecovery) {
            return;
        }
        if epoch < self.own.obeyed {
            self.start_lease.check = StartCheck::Allowed;
        } else if self.recovery.unread.is_empty() {
            self.pass_start_check();
        }
    }

    /// Reads all assignments at SERIAL, once nothing else reads them.
    pub(crate) fn read_start_assignments(&mut self) {
        let all: BTreeSet<u16> = (0..ASSIGNMENT_PARTITIONS).collect();
        let round = self.start_lease.round;
        for partition in &all {
            let query = Query::Assignments(*partition);
            let purpose = Purpose::StartAssignments(round, *partition);
            self.ask(Op::Read(query, Consistency::Serial), purpose);
        }
        self.turn_starts(StartCheck::Assignments(all));
    }

    /// The recovery is over: what it could not read for the check is read now.
    pub(crate) fn recovery_is_over(&mut self) {
        if matches!(self.start_lease.check, StartCheck::Allowed) {
            self.read_start_assignments();
        }
    }

    /// A partition of assignments, as it was when the row allowed starts, or later. Of whatever epoch it
    /// is: no order of a newer leader was given before that one had raised the partition.
    pub(crate) fn on_start_assignments(&mut self, of: (u64, u16), all: &[Assignment], since: Timestamp) {
        let (round, partition) = of;
        if round != self.start_lease.round {
            return;
        }
        for assignment in all {
            self.on_assignment(assignment, since);
        }
        let StartCheck::Assignments(unread) = &mut self.start_lease.check else {
            return;
        };
        unread.remove(&partition);
        if unread.is_empty() {
            self.pass_start_check();
        }
    }

    fn pass_start_check(&mut self) {
        self.turn_starts(StartCheck::Passed);
        // Offers that were refused meanwhile may fit what waited for this.
        let revivals = self.hosts.revivals();
        let waiting: Vec<u32> = self.picture.groups.keys().copied().collect();
        for group in waiting {
            self.placing.hunger_anew(group, revivals);
        }
        self.placing.hungrier(self.now, echelon_core_model::Span::ZERO);
    }

    /// Notes an intent of an instance of which nothing has left for Mesos: its launch needs the lease, too.
    pub(crate) fn note_first_start(&mut self, run: RunAt) {
        self.start_lease.first_starts.insert(run);
    }

    /// Notes an intent of an instance that has begun: its record does not show that any more.
    pub(crate) fn note_restart(&mut self, run: RunAt) {
        let (at, generation, _) = run;
        self.start_lease.begun.insert(at, generation);
    }

    /// Whether an intent that is launched now, or given up, needed the lease.
    pub(crate) fn take_first_start(&mut self, run: RunAt) -> bool {
        self.start_lease.first_starts.remove(&run)
    }

    /// Forgets that an instance has begun where its record shows it again, or it is of another generation.
    pub(crate) fn tidy_begun(&mut self, at: At) {
        let Some(generation) = self.start_lease.begun.get(&at).copied() else {
            return;
        };
        let record = self.picture.record(at);
        let run = record.and_then(|r| r.run.as_ref());
        let needed = run.is_some_and(|run| run.generation == generation && !shows_launch(run));
        if !needed {
            self.start_lease.begun.remove(&at);
        }
    }

    /// Forgets what is known of a group's starts.
    pub(crate) fn forget_starts(&mut self, number: u32) {
        self.start_lease.begun.retain(|at, _| at.0 != number);
        self.start_lease.first_starts.retain(|run| run.0.0 != number);
    }

    /// Why what has not begun does not begin; `None`: it may.
    pub(crate) fn start_hindrance(&self) -> Option<Reason> {
        if self.may_start_new() {
            return None;
        }
        let code = match self.start_lease.check {
            StartCheck::Forbidden(_) => ReasonCode::StartsForbidden,
            StartCheck::Lapsed if self.start_lease.sent_at.is_some() => ReasonCode::StorageUnavailable,
            _ => ReasonCode::Recovering,
        };
        Some(Reason::new(code))
    }
}
