//! What waits until something is durable, and what is done then. Everything is looked at again at that moment: what has been
//! overtaken is not done.

use crate::Shard;
use crate::event::Effect;
use crate::keep::Ended;
use crate::kill::Target;
use crate::picture::RunAt;
use echelon_core_hosts::Call;
use echelon_core_model::{Generation, HostId, HostPoolName, RangeSet, TaskId};
use std::collections::BTreeMap;

/// What waits for durability.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Then {
    /// The framework id is stored: the buckets may be read.
    FrameworkStored,
    /// That there is no framework any more is stored: the next leader registers one.
    FrameworkForgotten,
    /// A bucket is sealed.
    Sealed(u16),
    /// The resource manager's epoch is stored: its directives may be obeyed.
    Obey,
    /// The intents are stored: these runs may be launched on the host.
    Launch(HostId, Vec<RunAt>),
    /// The wish to end is stored: the run may be killed.
    Kill(RunAt),
    /// The evidence against a task without a run is stored: it may be killed.
    KillStranger(TaskId),
    /// An update's effect is stored: it may be acknowledged.
    Call(Call),
    /// What the numbers became is stored: they may be given back at this generation.
    Release(u32, Generation, RangeSet),
    /// What is told is stored: reports may go on.
    Report,
    /// All blocks of a group are in the archive: they may be removed here.
    Archived(u32),
    /// All rows of a group are removed: it may be forgotten.
    Forget(u32),
    /// The new host pools of these hosts are stored: they may be used.
    ChangeHostPools(BTreeMap<String, HostPoolName>),
    /// A run's end is stored: its logs may be kept.
    KeepLog(Box<Ended>),
}

impl Shard {
    /// Does everything that has become durable. True when anything was done.
    pub(crate) fn perform_durable(&mut self) -> bool {
        // While it is not certain that we still lead, nothing leaves the house.
        if self.suspended {
            return false;
        }
        let ready = self.journal.take_ready();
        let any = !ready.is_empty();
        ready.into_iter().for_each(|then| self.perform(then));
        any
    }

    fn perform(&mut self, then: Then) {
        if !self.still_holds(&then) {
            return;
        }
        match then {
            Then::FrameworkStored => self.on_framework_stored(),
            Then::FrameworkForgotten => self.on_framework_forgotten(),
            Then::Sealed(bucket) => self.on_sealed(bucket),
            Then::Obey => self.obey_held(),
            Then::Launch(host, runs) => self.launch(&host, &runs),
            Then::Kill(run) => {
                let at = self.kill_at(run);
                self.kills.start(Target::Run(run), at);
            }
            Then::KillStranger(task) => self.kills.start(Target::Stranger(task), self.now),
            // Kills may have been switched off since; what is still wanted is asked for again.
            Then::Call(Call::DrainAgent { .. }) if !self.may_kill() => {}
            Then::Call(call) => self.out.push(Effect::Cluster(call)),
            Then::Release(group, generation, numbers) => self.release(group, generation, &numbers),
            Then::Report => self.send_reports(),
            Then::Archived(group) => self.remove_archived(group),
            Then::Forget(group) => self.forget_group(group),
            Then::ChangeHostPools(stored) => self.on_host_pools_changed(stored),
            Then::KeepLog(ended) => self.line_up(*ended),
        }
    }
}
