//! Leaving Mesos for good: the cluster is removed. The resource manager orders it when nothing is assigned here.
//!
//! All groups go to the archive, as those of ended jobs do: other clusters still read there what their instances
//! were. When nothing of any group may be alive and Mesos lists no task of ours, it is stored that Mesos is asked
//! to remove the framework, and then Mesos is asked. That the framework is gone is known when a new subscription is
//! refused for that reason. A successor that is refused so knows from its row that this was wanted. Reports and
//! heartbeats say then that it is done.

use crate::Phase;
use crate::Shard;
use crate::event::Effect;
use crate::journal::Lane;
use echelon_core_hosts::Call;
use echelon_core_model::Timestamp;
use echelon_core_model::time::Span;

/// Mesos is asked again after this time.
const ASK_AGAIN: Span = Span::seconds(5);

/// How far the shard has left Mesos.
#[derive(Debug, Default)]
pub(crate) struct TearDown {
    /// Mesos has removed the framework.
    pub(crate) is_done: bool,
    /// When Mesos is asked next.
    ask_at: Timestamp,
}

impl Shard {
    /// Obeys the order to leave Mesos.
    pub(crate) fn tear_down(&mut self) {
        if self.teardown.is_done {
            return;
        }
        for number in self.picture.groups.keys().copied().collect::<Vec<_>>() {
            self.archive_group(number);
        }
        if !self.has_loose_ends_anywhere() && !self.own.tears_down {
            self.own.tears_down = true;
            self.journal.touch(Lane::OWN, self.now, Span::ZERO);
        }
    }

    /// Whether something of ours may still be alive, or is not in the archive yet.
    fn has_loose_ends_anywhere(&self) -> bool {
        !self.picture.groups.is_empty()
            || !self.strangers.is_empty()
            || self.is_recovering()
            || !self.reconcile.has_whole_list()
    }

    /// Asks Mesos to remove the framework, again until it has.
    pub(crate) fn keep_tearing_down(&mut self) {
        let is_due = self.own.tears_down && !self.teardown.is_done && self.teardown.ask_at <= self.now;
        if !is_due || !self.may_act() || !self.contact.subscribed || self.has_loose_ends_anywhere() {
            return;
        }
        if !self.journal.is_durable(self.journal.point(Lane::OWN)) {
            return;
        }
        self.teardown.ask_at = self.now.plus(ASK_AGAIN);
        self.out.push(Effect::Cluster(Call::TearDown));
    }

    /// When Mesos is asked next.
    pub(crate) fn next_teardown(&self) -> Option<Timestamp> {
        let is_open = self.own.tears_down && !self.teardown.is_done;
        let may_ask = self.may_act() && self.contact.subscribed && !self.has_loose_ends_anywhere();
        (is_open && may_ask && self.phase == Phase::Serving).then_some(self.teardown.ask_at)
    }

    /// Mesos refuses a subscription since the framework was removed, which was wanted.
    pub(crate) fn on_torn_down(&mut self) {
        self.teardown.is_done = true;
        // It is shown at once.
        self.beat_at = self.now;
    }
}
