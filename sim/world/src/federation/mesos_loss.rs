//! A cluster whose Mesos is lost or hangs. A lost master answers 503 until the next one leads. A hung one
//! accepts what is sent and says nothing: calls to it are done, and its events come, when it goes on. Shards
//! ask its health endpoint, as their processes do.

use crate::process::Who;
use crate::world::{Item, World};
use echelon_core_hosts::Call;
use echelon_core_model::{Span, Timestamp};
use echelon_core_shard::{self as shard, ProbeAnswer};
use echelon_sim_mesos as sim;

/// A shard asks its master this often, and waits so long for an answer.
const PROBE: Span = Span::seconds(4);
const PROBE_TIMEOUT: Span = Span::seconds(3);

/// What the world knows of a cluster's master.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ProbedMaster {
    /// Until when it hangs.
    hung_until: Timestamp,
    /// Until when none leads.
    away_until: Timestamp,
}

impl World {
    /// Whether a cluster's leading master answers.
    pub(super) fn has_master(&self, cluster: usize) -> bool {
        let master = self.clusters.get(cluster).map(|c| c.master);
        master.is_some_and(|master| master.hung_until <= self.now && master.away_until <= self.now)
    }

    /// Begins to ask a cluster's master whether it is there.
    pub(super) fn begin_probes(&mut self, cluster: usize) {
        let first = self.dice.federation.span(Span::ZERO, PROBE);
        self.queue.plan(self.now.plus(first), Item::Probe(cluster));
    }

    /// Each process of a cluster's shard asks the master's health endpoint.
    pub(crate) fn probe(&mut self, cluster: usize) {
        self.queue.plan(self.now.plus(PROBE), Item::Probe(cluster));
        let (answer, after) = if self.has_master(cluster) {
            let delay = self.dice.federation.span(Span::millis(1), Span::millis(10));
            (ProbeAnswer::Answered, delay)
        } else {
            (ProbeAnswer::Missing, PROBE_TIMEOUT)
        };
        let at = self.now.plus(after);
        for index in 0..self.options.shards {
            let life = self.life_of(Who::Shard { cluster, index });
            self.tell_shard((cluster, index, life), at, shard::Event::Probed(answer));
        }
    }

    /// The master dies, and none leads for so long.
    pub(crate) fn lose_master(&mut self, cluster: usize, span: Span) {
        let now = self.now;
        if let Some(c) = self.clusters.get_mut(cluster) {
            c.mesos.fail_over(span, now);
            c.master.away_until = now.plus(span);
        }
        self.flush_mesos(cluster);
    }

    /// The master hangs for so long.
    pub(crate) fn hang_master(&mut self, cluster: usize, span: Span) {
        let now = self.now;
        if let Some(c) = self.clusters.get_mut(cluster)
            && c.mesos.inject(sim::Fault::Stall(span), now).is_ok()
        {
            c.master.hung_until = now.plus(span);
        }
        self.flush_mesos(cluster);
    }

    /// A call to a master that hangs: it is done when the master goes on. Gives the call back to one that
    /// does not.
    pub(crate) fn await_master(
        &mut self,
        who: (usize, usize, u64),
        attempt: u64,
        call: Call,
    ) -> Option<Call> {
        let until = self.clusters.get(who.0).map(|c| c.master.hung_until);
        let Some(until) = until.filter(|until| self.now < *until) else {
            return Some(call);
        };
        let call = Box::new(call);
        self.queue.plan(until, Item::Call { who, attempt, call });
        None
    }
}
