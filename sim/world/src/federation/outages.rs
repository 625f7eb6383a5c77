//! What goes wrong in such a world, and what operators do meanwhile: drawn before anything begins. Several
//! things are under way at once, but never two of them at one cluster.

use super::operators::MOST_HOSTS;
use crate::faults::Fault;
use crate::process::Who;
use crate::world::{BEGIN, Item, World};
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::{Span, Timestamp};
use std::collections::BTreeMap;

/// Nothing goes wrong before: jobs run by then.
const FIRST: Span = Span::seconds(80);
/// Between two things at one cluster.
const APART: Span = Span::seconds(40);
/// Fewest things that go wrong, and how many more.
const FEWEST: u64 = 3;
const MORE: u64 = 3;
/// Clusters of a world in which one may be removed.
const MANY: usize = 4;

/// How a cluster's link to the resource manager is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlowLink {
    until: Timestamp,
    /// The most that a message is later.
    delay: Span,
}

/// Until when each cluster is not to be touched again.
pub(super) type Busy = BTreeMap<usize, Vec<(Timestamp, Timestamp)>>;

impl World {
    /// How much later a message between a cluster's shard and a resource manager comes.
    pub(crate) fn link_delay(&mut self, cluster: usize) -> Span {
        let link = self.federation.slow_links.get(&cluster).copied();
        let Some(link) = link.filter(|link| self.now < link.until) else {
            return Span::ZERO;
        };
        self.dice.federation.span(Span::ZERO, link.delay)
    }

    /// Whether a cluster's link is slow, or carries nothing.
    pub(super) fn is_link_slow(&self, cluster: usize) -> bool {
        let is_slow = self
            .federation
            .slow_links
            .get(&cluster)
            .is_some_and(|link| self.now < link.until);
        let mut links = self.links.open.values().filter(|link| link.shard.0 == cluster);
        is_slow || links.any(|link| self.now < link.silent_until)
    }

    /// A cluster's link is slow for a while.
    pub(crate) fn slow_link(&mut self, cluster: usize, span: Span, delay: Span) {
        let until = self.now.plus(span);
        self.federation
            .slow_links
            .insert(cluster, SlowLink { until, delay });
    }

    /// Plans all of it. A cluster that is to be removed is the last one.
    pub(super) fn plan_outages(&mut self, removed: Option<usize>) {
        let mut busy = Busy::new();
        if let Some(cluster) = removed {
            let at = self.outage_at(Span::seconds(150));
            let until = BEGIN.plus(self.options.faulty);
            busy.entry(cluster).or_default().push((at, Timestamp(u64::MAX)));
            let drain = Fault::SetDesiredState(cluster, DesiredState::Draining);
            self.queue.plan(at, Item::Fault(drain));
            self.queue
                .plan(at.plus(Span::seconds(20)), Item::TryToRemove(cluster, until));
        }
        for _ in 0..FEWEST + self.dice.federation.below(MORE + 1) {
            self.plan_outage(&mut busy);
        }
        for _ in 0..self.dice.federation.below(4) {
            self.plan_death();
        }
        self.draw_sites();
        self.plan_partitions(&mut busy);
    }

    /// A moment at which something may begin that is to be over some time before faults end.
    pub(super) fn outage_at(&mut self, before_end: Span) -> Timestamp {
        let latest = Span(self.options.faulty.0.saturating_sub(before_end.0));
        BEGIN.plus(self.dice.federation.span(FIRST, latest))
    }

    /// How long something lasts: shorter than a job waits, about as long, or longer.
    pub(super) fn outage_span(&mut self, at: Timestamp) -> Span {
        let (least, most) = match self.dice.federation.below(3) {
            0 => (Span::seconds(10), Span::seconds(60)),
            1 => (Span::seconds(60), Span::seconds(150)),
            _ => (Span::seconds(150), Span::seconds(320)),
        };
        let span = self.dice.federation.span(least, most);
        let left = BEGIN.plus(self.options.faulty).since(at);
        span.min(left)
    }

    /// A cluster at which nothing else is planned then.
    pub(super) fn free_cluster(&mut self, busy: &mut Busy, at: Timestamp, span: Span) -> Option<usize> {
        let cluster = self.dice.federation.index(self.options.clusters);
        let until = at.plus(span);
        let spans = busy.entry(cluster).or_default();
        let is_free = spans
            .iter()
            .all(|(from, to)| until.plus(APART) < *from || to.plus(APART) < at);
        is_free.then(|| {
            spans.push((at, until));
            cluster
        })
    }

    fn plan_outage(&mut self, busy: &mut Busy) {
        let at = self.outage_at(Span::seconds(20));
        let span = self.outage_span(at);
        let kind = self.dice.federation.below(20);
        let several = match kind {
            0 | 1 => 2,
            2 => self.options.clusters,
            _ => 1,
        };
        let mut hit = Vec::new();
        for _ in 0..several * 2 {
            if hit.len() < several {
                hit.extend(self.free_cluster(busy, at, span));
            }
        }
        for cluster in &hit {
            let begin = at.plus(self.dice.federation.span(Span::ZERO, Span::seconds(3)));
            self.plan_one_outage(kind, *cluster, begin, span);
        }
        // One more cluster while others are lost.
        let may_grow = self.federation.added_at.is_none();
        if kind <= 6 && !hit.is_empty() && may_grow && self.options.clusters < super::MOST_CLUSTERS {
            let later = self.dice.federation.span(Span::ZERO, span);
            let added_at = at.plus(later);
            self.federation.added_at = Some(added_at);
            self.queue.plan(added_at, Item::Fault(Fault::AddCluster));
        }
    }

    fn plan_one_outage(&mut self, kind: u64, cluster: usize, at: Timestamp, span: Span) {
        let (fault, after) = match kind {
            0..=6 => (Fault::CutOff(cluster, span), None),
            7..=8 => (Fault::LoseMaster(cluster, span), None),
            9..=10 => (Fault::HangMaster(cluster, span), None),
            11 => (Fault::LoseCluster(cluster, span), None),
            12 => {
                let delay = self.dice.federation.span(Span::millis(200), Span::seconds(6));
                (Fault::SlowLink(cluster, span, delay), None)
            }
            13..=15 => (
                Fault::SetDesiredState(cluster, DesiredState::Draining),
                Some(Fault::SetDesiredState(cluster, DesiredState::Active)),
            ),
            16 => (
                Fault::SetDesiredState(cluster, DesiredState::Cordoned),
                Some(Fault::SetDesiredState(cluster, DesiredState::Active)),
            ),
            _ => {
                let agent = self.dice.federation.index(MOST_HOSTS);
                (Fault::LoseAgent { cluster, agent, span }, None)
            }
        };
        self.queue.plan(at, Item::Fault(fault));
        if let Some(fault) = after {
            self.queue.plan(at.plus(span), Item::Fault(fault));
        }
        let over = at.plus(span);
        self.federation.last_change = self.federation.last_change.max(over);
    }

    /// A leader, or who may be one, dies.
    fn plan_death(&mut self) {
        let all: Vec<Who> = self.everyone().collect();
        let n = self.dice.federation.index(all.len());
        let at = self.outage_at(Span::seconds(20));
        let away = self.dice.federation.span(Span::millis(100), Span::seconds(10));
        if let Some(who) = all.get(n) {
            self.queue.plan(at, Item::Fault(Fault::Crash(*who, away)));
        }
    }

    /// Whether a cluster that may be removed is drawn, and which.
    pub(super) fn draw_removed(&mut self) -> Option<usize> {
        let may_shrink = self.options.clusters >= MANY && self.dice.federation.chance(400);
        may_shrink.then(|| self.options.clusters - 1)
    }
}
