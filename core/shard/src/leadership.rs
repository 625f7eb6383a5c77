//! Becoming, staying and ceasing to be the leader: the epoch is taken in storage by compare-and-set, read again every third
//! of the lease, and whatever is known elsewhere and not to storage - an epoch, a durable write, the switches that were obeyed -
//! freezes everything.

use crate::event::{Alarm, Effect};
use crate::purpose::Purpose;
use crate::{Mode, Phase, Shard};
use echelon_core_model::control::Control;
use echelon_core_model::store::{
    Answer, Consistency, Decided, Decision, Evidence, Leadership, Mark, Op, OpId, OpResult, Query, Role,
    Stamp,
};
use echelon_core_model::{Epoch, Timestamp};

impl Shard {
    pub(crate) fn role(&self) -> Role {
        Role::Shard(self.config.cluster.clone())
    }

    /// Whether this process has an epoch of its own.
    pub(crate) const fn epoch_taken(&self) -> bool {
        self.epoch.0 > 0
    }

    /// What the shard is doing, in a word.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        if self.frozen.is_some() {
            return Mode::Frozen;
        }
        match self.phase {
            Phase::Follower => Mode::Follower,
            Phase::Serving if !self.is_recovering() => Mode::Serving,
            _ => Mode::Recovering,
        }
    }

    pub(crate) fn on_elected(&mut self, published: Stamp) {
        self.published = self.published.max(published);
        if self.phase == Phase::Follower {
            self.phase = Phase::ReadingEpoch;
            self.read_epoch(Purpose::Epoch);
        }
    }

    fn read_epoch(&mut self, purpose: Purpose) {
        self.ask_epoch(purpose);
    }

    /// Asks for the stored epoch; the question has this name.
    pub(crate) fn ask_epoch(&mut self, purpose: Purpose) -> OpId {
        let query = Query::Leadership(self.role());
        self.ask(Op::Read(query, Consistency::Serial), purpose)
    }

    /// The epoch as stored, before we took one.
    pub(crate) fn on_epoch(&mut self, stored: Leadership) {
        if let Some(evidence) = Evidence::of_epoch(self.published, &stored) {
            self.freeze_until_reread(evidence);
            return;
        }
        self.evidence = Evidence {
            published: self.published,
            leadership: stored,
            ..Evidence::default()
        };
        let query = Query::Mark(self.role());
        self.ask(Op::Read(query, Consistency::Quorum), Purpose::Mark);
    }

    /// How new storage says that it is.
    pub(crate) fn on_mark(&mut self, mark: Option<Mark>) {
        self.evidence.mark = mark;
        self.ask(Op::Read(Query::Control, Consistency::Serial), Purpose::Switches);
    }

    /// The switches as stored: all is known that may show an old storage. An epoch is taken only where nothing does.
    pub(crate) fn on_switches(&mut self, control: &Control) {
        self.evidence.control = control.version;
        if let Some(evidence) = self.evidence.of_rollback() {
            self.freeze_until_reread(evidence);
            return;
        }
        let stored = self.evidence.leadership.clone();
        let next = stored.epoch.next();
        if next.0 >= Epoch::END {
            self.step_down(format!(
                "epoch {next} is beyond the last one that storage can order"
            ));
            return;
        }
        self.frozen = None;
        self.resumed = stored.resumed;
        self.phase = Phase::TakingEpoch;
        let decision = Decision::TakeEpoch {
            role: self.role(),
            next: Leadership {
                resumed: stored.resumed,
                ..Leadership::taken(next, &self.config.holder, self.config.seed)
            },
            expected: stored.epoch,
        };
        self.ask(Op::Decide(decision), Purpose::TakeEpoch(next));
    }

    /// What became of our attempt to take an epoch.
    pub(crate) fn on_taken(&mut self, epoch: Epoch, since: Timestamp, result: OpResult) {
        match result {
            OpResult::Decided(Decided::Applied) => {
                self.epoch = epoch;
                self.published = self.published.max(Stamp { epoch, sequence: 0 });
                self.confirmed_at = since;
                self.confirm_at = since.plus(self.third());
                self.beat_at = self.now;
                self.listens_since = self.now;
                self.out.push(Effect::Publish(epoch));
                self.phase = Phase::ReadingOwn;
                let query = Query::Shard(self.config.cluster.clone());
                self.ask(Op::Read(query, Consistency::Quorum), Purpose::Own);
            }
            OpResult::Decided(Decided::Conflict(present)) => match *present {
                Answer::Leadership(stored) => self.on_epoch(stored),
                _ => self.read_epoch(Purpose::Epoch),
            },
            _ => self.read_epoch(Purpose::Epoch),
        }
    }

    /// Freezes without an epoch: all of it is read again after a while, since an operator may have settled it.
    fn freeze_until_reread(&mut self, evidence: String) {
        self.freeze(evidence);
        self.reread_epoch_at = Some(self.now.plus(self.config.timing.lease));
    }

    const fn third(&self) -> echelon_core_model::time::Span {
        echelon_core_model::time::Span(self.config.timing.lease.0 / 3)
    }

    /// The answer to our own question whether we still lead.
    pub(crate) fn on_confirmed(&mut self, stored: &Leadership, since: Timestamp) {
        if stored.epoch > self.epoch || (stored.epoch == self.epoch && stored.holder != self.config.holder) {
            self.step_down(format!(
                "epoch {} was taken by {}; ours was {}",
                stored.epoch, stored.holder, self.epoch
            ));
            return;
        }
        if stored.epoch < self.epoch {
            self.freeze(format!(
                "we lead with epoch {}, storage knows {}",
                self.epoch, stored.epoch
            ));
        }
        self.confirmed_at = self.confirmed_at.max(since);
        // An answer to a question of long ago tells only that it is to be asked again.
        self.suspended = self.now >= self.confirmed_at.plus(self.config.timing.lease);
        self.confirm_at = since.plus(self.third()).max(self.now);
    }

    /// Asks again whether we lead when it is time; gives up when we could not know, or write, for a whole lease. True when
    /// the leadership was given up.
    pub(crate) fn keep_lease(&mut self) -> bool {
        if self.reread_epoch_at.is_some_and(|at| at <= self.now) {
            self.reread_epoch_at = None;
            self.read_epoch(Purpose::Epoch);
        }
        if !self.epoch_taken() {
            return false;
        }
        let lease = self.config.timing.lease;
        // Where storage answers that it is full or has too much to do, another leader would hear the same.
        let trouble = self.storage_trouble.as_ref();
        let meets_all =
            trouble.is_some_and(|(at, t)| !t.kind.may_spare_others() && self.now < at.plus(lease));
        if meets_all {
            self.excused_at = self.now;
            return self.keep_asking();
        }
        let trouble = trouble.map_or("no answer", |(_, t)| &t.text);
        if self.now >= self.confirmed_at.max(self.excused_at).plus(lease) {
            self.step_down(format!(
                "could not confirm epoch {} for {lease}: {trouble}",
                self.epoch
            ));
            return true;
        }
        if self
            .journal
            .oldest_flight()
            .is_some_and(|since| self.now >= since.max(self.excused_at).plus(lease))
        {
            self.step_down(format!("could not commit for {lease}: {trouble}"));
            return true;
        }
        self.keep_asking()
    }

    /// Asks again whether we lead when it is time.
    fn keep_asking(&mut self) -> bool {
        if self.confirm_at <= self.now {
            self.confirm_at = Timestamp(u64::MAX);
            self.read_epoch(Purpose::Confirm);
        }
        // Until that is answered another may have taken over.
        if self.now >= self.confirmed_at.plus(self.config.timing.lease) {
            self.suspended = true;
        }
        false
    }

    /// Starts and kills nothing any more, until an operator has settled it and a new epoch is taken.
    pub(crate) fn freeze(&mut self, evidence: String) {
        if self.frozen.is_none() {
            self.frozen = Some(evidence.clone());
            // What is shown of the cluster says so at once.
            self.beat_at = self.now;
            self.out
                .push(Effect::Alarm(Alarm::StorageRolledBack { evidence }));
        }
    }

    /// Why nothing is started or killed; `None` while it is not frozen.
    #[must_use]
    pub fn frozen(&self) -> Option<&str> {
        self.frozen.as_deref()
    }

    pub(crate) const fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// Gives the leadership up and forgets all that is pending.
    pub(crate) fn step_down(&mut self, why: String) {
        self.out.push(Effect::StepDown { why });
        self.reset();
    }

    /// Whether anything may be begun now: only after the cluster has listed what it has of us.
    pub(crate) fn may_begin(&self) -> bool {
        self.may_act() && self.contact.subscribed && self.reconcile.has_list()
    }

    /// Whether anything may be started or killed now.
    pub(crate) fn may_act(&self) -> bool {
        self.phase == Phase::Serving && !self.is_frozen() && !self.suspended
    }
}
