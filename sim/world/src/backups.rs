//! A backup of storage is put back, as docs/operations.md says: operators stop all roles, put an earlier copy back, start the
//! roles again, and after a while resume the storage. Until then nothing may be begun or killed.
//!
//! Users are told nothing that the copy lacks: it is made again after each decision of theirs. What it lacks is what
//! became of runs, and whatever leaders have stored.

use crate::invariants::Broken;
use crate::process::Who;
use crate::storage::Asker;
use crate::world::{BEGIN, Item, World};
use echelon_core_hosts::Call;
use echelon_core_model::Span;
use echelon_core_model::store::{Answer, Decision, Leadership, Op, Query, Role, Stamp};
use echelon_core_testkit::store::ModelStore;

/// From the end of all roles until storage is put back: nothing of theirs is on its way any more.
const STOPPED: Span = Span::seconds(30);
/// A host that is started again is back after this.
const REBOOT: Span = Span::seconds(5);

/// What is known of backups.
#[derive(Debug, Default)]
pub struct Backups {
    copy: Option<ModelStore>,
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
        let roles: Vec<Role> = self.elections.keys().cloned().collect();
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

    /// Users were told that a decision holds: the backup has it, too.
    pub(crate) fn keep_backup(&mut self, asker: Asker, op: &Op) {
        let of_users = !matches!(asker, Asker::Process(..)) && matches!(op, Op::Decide(_));
        if of_users && self.backups.copy.is_some() {
            self.backups.copy = Some(self.store.clone());
        }
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
