//! A backup of storage is put back, as docs/operations.md says: operators stop all roles, put an earlier copy back, start the
//! roles again, and after a while resume the storage. Until then nothing may be begun or killed.
//!
//! What users were told after the copy was taken is lost with the newer storage: they ask for it again once the roles are back. What
//! stays in quarantine is ended by the operators, some time after the resume. An instance that was assigned after the
//! copy may run beside a run that an older assignment has begun for a limited time after the resume, and not longer.

use crate::invariants::Broken;
use crate::process::Who;
use crate::world::{BEGIN, Item, World};
use echelon_core_hosts::Call;
use echelon_core_model::store::{Answer, Decision, Leadership, Op, Query, Role, Stamp};
use echelon_core_model::{InstanceId, JobId, MemberId, Span, Timestamp};
use echelon_core_testkit::store::ModelStore;
use echelon_sim_mesos as sim;

/// From the end of all roles until storage is put back: nothing of theirs is on its way any more.
const STOPPED: Span = Span::seconds(30);
/// A host that is started again is back after this.
const REBOOT: Span = Span::seconds(5);
/// For so long after the resume two runs of an instance may live: new leaders are elected, every cluster lists what it runs, and what was
/// begun by an older assignment is stopped.
const SETTLING: Span = Span::minutes(2);
/// From the resume until operators end what stays in quarantine.
const CLEANING: Span = Span::seconds(90);

/// What is known of backups.
#[derive(Debug, Default)]
pub struct Backups {
    copy: Option<ModelStore>,
    /// The job of each user, and how much of what it asked for was acknowledged, when the copy was taken.
    users: Vec<(Option<JobId>, usize)>,
    /// When storage was resumed last.
    resumed_at: Option<Timestamp>,
    /// Storage was put back, and not resumed yet.
    pub(crate) is_behind: bool,
    /// All roles are stopped until storage is put back.
    pub(crate) are_stopped: bool,
    /// How often it was resumed.
    pub(crate) resumed: u64,
}

impl World {
    pub(crate) fn plan_backups(&mut self) {
        if self.options.faults.backups > 0 {
            let at = self
                .dice
                .faults
                .span(Span::seconds(40), Span(self.options.faulty.0 / 2));
            self.queue.plan(BEGIN.plus(at), Item::TakeBackup);
        }
    }

    /// A backup is taken. Afterwards each cluster has a host that is started again, so that its runs are followed by others.
    pub(crate) fn take_backup(&mut self) {
        self.trace.line(self.now, "operator takes a backup");
        self.backups.copy = Some(self.store.clone());
        let users = self.users.0.iter();
        self.backups.users = users.map(|u| (u.job, u.acknowledged.len())).collect();
        let gap = self.dice.faults.span(Span::seconds(15), Span::seconds(60));
        for cluster in 0..self.options.clusters {
            let at = self.dice.faults.span(Span::seconds(1), gap);
            let agent = self.dice.faults.index(self.options.hosts);
            self.queue
                .plan(self.now.plus(at), Item::RestartHost { cluster, agent });
        }
        self.queue.plan(self.now.plus(gap), Item::StopRoles);
    }

    /// A host is started again: what ran there has failed.
    pub(crate) fn restart_host(&mut self, cluster: usize, agent: usize) {
        if let Some(agent) = self.stop_host(cluster, agent) {
            self.queue
                .plan(self.now.plus(REBOOT), Item::ReturnAgent { cluster, agent });
        }
    }

    pub(crate) fn stop_roles(&mut self) {
        self.trace.line(self.now, "operator stops all roles");
        let all: Vec<Who> = self.everyone().collect();
        all.into_iter().for_each(|who| self.kill(who));
        self.backups.are_stopped = true;
        self.queue.plan(self.now.plus(STOPPED), Item::PutBack);
    }

    pub(crate) fn put_back(&mut self) {
        let Some(copy) = self.backups.copy.take() else {
            return;
        };
        self.trace.line(self.now, "operator puts the backup back");
        self.store = copy;
        self.backups.is_behind = true;
        self.backups.are_stopped = false;
        self.forget_unstored_ends();
        for (user, (job, acknowledged)) in self.users.0.iter_mut().zip(&self.backups.users) {
            user.rewind(*job, *acknowledged);
        }
        let all: Vec<Who> = self.everyone().collect();
        for who in all {
            let soon = self.dice.faults.span(Span::ZERO, Span::seconds(5));
            self.queue.plan(self.now.plus(soon), Item::Start(who));
        }
        let late = self.dice.faults.span(Span::seconds(20), Span::seconds(90));
        self.queue.plan(self.now.plus(late), Item::ResumeStorage);
    }

    /// What `echelon storage resume` does.
    pub(crate) fn resume_storage(&mut self) {
        self.judge_frozen();
        self.trace.line(self.now, "operator resumes storage");
        self.backups.is_behind = false;
        self.backups.resumed += 1;
        self.backups.resumed_at = Some(self.now);
        self.queue.plan(self.now.plus(CLEANING), Item::EndUnknown);
        // The resource manager comes last, as in the command.
        let mut roles: Vec<Role> = self.elections.keys().cloned().collect();
        roles.sort_by_key(|role| *role == Role::ResourceManager);
        for role in roles {
            let (Answer::Leadership(stored), Answer::Mark(mark)) = (
                self.store.read(&Query::Leadership(role.clone())),
                self.store.read(&Query::Mark(role.clone())),
            ) else {
                continue;
            };
            let seen = self.elections.get(&role).map(|e| e.published().epoch);
            let marked = mark.map(|mark| mark.stamp.epoch);
            let next = seen
                .max(marked)
                .max(Some(stored.epoch))
                .unwrap_or_default()
                .next();
            self.store.perform(Op::Decide(Decision::TakeEpoch {
                role,
                next: Leadership {
                    resumed: next,
                    ..Leadership::taken(next, "resume", 1)
                },
                expected: stored.epoch,
            }));
        }
    }

    /// Operators end what stays in quarantine: of jobs that storage does not have, and of numbers that are assigned nowhere.
    pub(crate) fn end_unknown(&mut self) {
        for cluster in 0..self.clusters.len() {
            let Some(c) = self.clusters.get(cluster) else {
                continue;
            };
            let runs = c.mesos.agent_ids().flat_map(|agent| c.mesos.live_runs(agent));
            let is_unknown = |run: &sim::Run| {
                let task: Option<MemberId> = run.task.as_str().parse().ok();
                task.is_some_and(|task| !self.is_assigned(&task.run.instance))
            };
            let unknown: Vec<sim::Run> = runs.map(|(run, _)| run).filter(is_unknown).collect();
            let now = self.now;
            if let Some(c) = self.clusters.get_mut(cluster) {
                for run in &unknown {
                    c.mesos.exited(run, &sim::Exit::Signal(9), now);
                }
            }
            self.trace.line(
                now,
                &format!("operator ends {} tasks in quarantine", unknown.len()),
            );
            self.flush_mesos(cluster);
        }
    }

    fn is_assigned(&self, instance: &InstanceId) -> bool {
        let Answer::Assignments(_, all) = self.store.read(&Query::Assignment(instance.job)) else {
            return false;
        };
        let mut ranges = all.iter().flat_map(|a| a.ranges(&instance.group));
        ranges.any(|r| r.range.contains(instance.number))
    }

    /// Whether a backup is still to be put back.
    pub(crate) fn may_put_back(&self) -> bool {
        self.options.faults.backups > 0 && !self.backups.is_behind && self.backups.resumed == 0
    }

    /// Whether an instance may have two runs at the moment, since storage was resumed not long ago.
    pub(crate) fn settles_after_resume(&self) -> bool {
        let resumed = self.backups.resumed_at;
        resumed.is_some_and(|at| self.now < at.plus(SETTLING))
    }

    /// Everybody who leads knows that storage is behind.
    fn judge_frozen(&mut self) {
        let managers = self.managers.iter().filter_map(|p| p.driver.as_ref());
        let leads = managers.filter(|m| m.leading().is_some()).count();
        let shards = self.clusters.iter().flat_map(|c| &c.shards);
        let shards = shards.filter_map(|p| p.driver.as_ref());
        let serves = shards
            .filter(|s| s.mode() == echelon_core_shard::Mode::Serving)
            .count();
        if leads + serves > 0 {
            self.broken.push(Broken {
                invariant: 27,
                what: format!(
                    "{leads} resource managers and {serves} shards work on storage that was put back"
                ),
            });
        }
    }
}

/// Nothing is begun or killed on storage that was put back, before it is resumed.
pub(crate) fn done_while_behind(world: &World, call: &Call) -> Option<Broken> {
    let is_act = match call {
        Call::Accept { launches, .. } => !launches.is_empty(),
        Call::Kill { .. } | Call::Discard { .. } => true,
        _ => false,
    };
    (world.backups.is_behind && is_act).then(|| Broken {
        invariant: 27,
        what: format!("on storage that was put back: {call:?}"),
    })
}

/// A write that a leader tells to be durable is.
pub(crate) fn told_too_early(world: &World, role: &Role, stamp: Stamp) -> Option<Broken> {
    let Answer::Mark(mark) = world.store.read(&Query::Mark(role.clone())) else {
        return None;
    };
    let durable = mark.is_some_and(|mark| mark.stamp >= stamp);
    (!durable).then(|| Broken {
        invariant: 5,
        what: format!("{role:?} tells that {stamp:?} is durable, stored is {mark:?}"),
    })
}
