//! Sites, and partitions between them. The masters, hosts and shard processes of a cluster are at a site of
//! their own. The servers of storage and membership are at the central site, where their majority is.
//! Processes of the resource manager and gateways are at any of these sites.
//!
//! A partition is between two sites, or between one site and all others. It lasts for a time, and stops what
//! is sent both ways or one way only. Nothing inside a site notices it.
//!
//! | what crosses a partition | what becomes of it |
//! | --- | --- |
//! | a stream between a resource manager and a shard | what is sent the stopped way is lost. Each end asks for a sign of life and breaks the stream after 5 to 10 s. It is opened anew after the partition |
//! | a session of membership | it expires, whichever way is stopped |
//! | a request to storage, stopped on its way there | a read is lost, and a write is lost or comes at the end |
//! | a request to storage, stopped on its way back | it is done, and the answer is lost |
//! | a question or a hint of a gateway to a resource manager | it is lost |
//!
//! Worlds that are not federated have partitions of another kind: what is sent over a stream comes at their
//! end, and membership is reached. So orders come there as late as they can.

mod partitions;

use crate::links::LinkEnds;
use crate::members::SESSION;
use crate::process::Who;
use crate::storage::Asker;
use crate::world::{Item, World};
use echelon_core_model::store::{Op, OpFailure, OpId, OpResult};
use echelon_core_model::{Span, Timestamp};
use partitions::{FarSide, Partition, PartitionKind};

pub(crate) use partitions::{Gateway, Sites};
pub use partitions::{Site, StoppedWay};

/// An end of a stream asks for a sign of life after 5 s and gives up after 5 s more (`resource-manager/src/link.rs`).
const NOTICED: (Span, Span) = (Span::seconds(5), Span::seconds(10));
/// After a partition a stream is opened again after this time at most, and what was delayed comes by then.
const LATE: Span = Span::seconds(5);

/// One way over a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passage {
    pub(crate) from: Who,
    pub(crate) to: Who,
    /// When the end at which it arrives breaks the stream, if it does.
    pub(crate) breaks_at: Option<Timestamp>,
}

impl World {
    /// The site of a process.
    pub(crate) fn site_of(&self, who: Who) -> Site {
        match who {
            Who::Manager(index) => self.sites.managers.get(index).copied().unwrap_or(Site::Centre),
            Who::Shard { cluster, .. } => Site::Cluster(cluster),
        }
    }

    fn site_of_asker(&self, asker: Asker) -> Site {
        match asker {
            Asker::Process(who, _) => self.site_of(who),
            Asker::User(user) => self.sites.gateway(user).site,
            Asker::Operator(_) => Site::Centre,
        }
    }

    /// Whether a message gets from one site to another now.
    pub(crate) fn reaches(&self, from: Site, to: Site) -> bool {
        self.sites.stopped_until(from, to, self.now).is_none()
    }

    /// Whether two sites reach each other now, both ways.
    pub(crate) fn are_joined(&self, one: Site, other: Site) -> bool {
        self.reaches(one, other) && self.reaches(other, one)
    }

    /// Whether a cluster's shard does not reach storage.
    pub(crate) fn is_cut_off(&self, cluster: usize) -> bool {
        !self.are_joined(Site::Cluster(cluster), Site::Centre)
    }

    /// Until when a process does not reach the servers of membership; `None`: it reaches them.
    pub(crate) fn expired_until(&self, who: Who) -> Option<Timestamp> {
        self.sites.expired_until(self.site_of(who), self.now)
    }

    /// Whether a stream between a resource manager and a shard can be opened.
    pub(crate) fn can_open(&self, manager: Who, shard: Who) -> bool {
        let (one, other) = (self.site_of(manager), self.site_of(shard));
        self.sites.can_open(one, other, self.now)
    }

    /// Cuts a cluster's site off from all others for so long.
    pub(crate) fn cut_off(&mut self, cluster: usize, span: Span) {
        let far = FarSide::AllOthers;
        self.divide(Site::Cluster(cluster), far, StoppedWay::Both, span);
    }

    /// Stops what is sent between two sites for so long.
    pub(crate) fn part_sites(&mut self, near: Site, far: Site, stopped: StoppedWay, span: Span) {
        self.federation.note_partition();
        self.divide(near, FarSide::One(far), stopped, span);
    }

    /// The same between the site of the leading resource manager and another one. Without a leader nothing
    /// happens, nor if both are the same.
    pub(crate) fn part_leader(&mut self, far: Site, stopped: StoppedWay, span: Span) {
        let leader = self.leading_manager().map(|(index, _)| Who::Manager(index));
        let near = leader.map(|who| self.site_of(who)).filter(|near| *near != far);
        if let Some(near) = near {
            self.trace
                .line(self.now, &format!("{near:?} is divided from {far:?}"));
            self.part_sites(near, far, stopped, span);
        }
    }

    fn divide(&mut self, near: Site, far: FarSide, stopped: StoppedWay, span: Span) {
        let until = self.now.plus(span);
        let kind = if self.options.federated {
            PartitionKind::Breaks
        } else {
            PartitionKind::Delays
        };
        let opens_at = match kind {
            PartitionKind::Breaks => until.plus(self.dice.silences.span(Span::ZERO, LATE)),
            PartitionKind::Delays => until,
        };
        let partition = Partition {
            near,
            far,
            stopped,
            kind,
            from: self.now,
            until,
            opens_at,
        };
        let everyone = self.everyone();
        let present: Vec<Who> = everyone
            .filter(|who| self.expired_until(*who).is_none())
            .collect();
        self.sites.partitions.push(partition);
        if kind == PartitionKind::Breaks {
            self.break_streams(&partition);
        }
        for who in present {
            if let Some(until) = self.expired_until(who) {
                self.blip(who, until.since(self.now));
            }
        }
    }

    /// Plans when both ends of the streams that cross a partition break them.
    fn break_streams(&mut self, partition: &Partition) {
        let open = self.links.open.iter();
        let crossing = open.filter(|(_, link)| {
            let (manager, shard) = (link.manager_end(), link.shard_end());
            let is_unbroken = link.breaks_at.is_none();
            is_unbroken && partition.divides(self.site_of(manager), self.site_of(shard))
        });
        let crossing: Vec<u64> = crossing.map(|(id, _)| *id).collect();
        for id in crossing {
            let mut noticed = || self.now.plus(self.dice.silences.span(NOTICED.0, NOTICED.1));
            let (manager, shard) = (noticed(), noticed());
            let first = manager.min(shard);
            if first >= partition.until {
                continue;
            }
            if let Some(link) = self.links.open.get_mut(&id) {
                link.breaks_at = Some(LinkEnds { manager, shard });
                self.queue.plan(first, Item::BreakLink(id));
            }
        }
    }

    /// When a message over a stream arrives, if it would arrive at `at` otherwise; `None`: it never does.
    pub(crate) fn crossing(&mut self, passage: Passage, at: Timestamp) -> Option<Timestamp> {
        let (from, to) = (self.site_of(passage.from), self.site_of(passage.to));
        match self.sites.stopped_until(from, to, self.now) {
            None => Some(at),
            Some(_) if passage.breaks_at.is_some() => None,
            Some(until) => {
                let late = self.dice.silences.span(Span::millis(1), LATE);
                Some(at.max(until.plus(late)))
            }
        }
    }

    /// When an end of a stream learns that the other end has closed it. That gets through no partition: it
    /// learns that when it breaks the stream, or when the partition is over.
    pub(crate) fn close_noticed(&self, passage: Passage, soon: Timestamp) -> Timestamp {
        let (from, to) = (self.site_of(passage.from), self.site_of(passage.to));
        match self.sites.broken_until(from, to, self.now) {
            None => soon,
            Some(until) => soon.max(passage.breaks_at.map_or(until, |at| at.min(until))),
        }
    }

    /// What becomes of a request to storage that meets a partition. Whether it met one.
    pub(crate) fn lose_in_cut(&mut self, asker: Asker, id: OpId, op: &Op) -> bool {
        let site = self.site_of_asker(asker);
        let sent = self.sites.stopped_until(site, Site::Centre, self.now);
        let answered = self.sites.stopped_until(Site::Centre, site, self.now);
        let is_write = !matches!(op, Op::Read(..));
        let arrives = match (sent, answered) {
            (None, None) => return false,
            (Some(until), _) if is_write && self.dice.silences.chance(500) => {
                Some(until.plus(self.dice.silences.span(Span::millis(1), Span::seconds(3))))
            }
            (Some(_), _) => None,
            (None, Some(_)) => Some(
                self.now
                    .plus(self.dice.silences.span(Span::millis(1), Span::millis(15))),
            ),
        };
        if let Some(at) = arrives {
            let item = Item::Storage {
                asker,
                id,
                op: op.clone(),
                answered: sent.is_some() && self.dice.silences.chance(500),
            };
            self.queue.plan(at, item);
        }
        let timeout = self.dice.silences.span(Span::millis(100), Span::seconds(2));
        let result = OpResult::Failed(OpFailure::unknown("simulated"));
        self.queue
            .plan(self.now.plus(timeout), Item::Answer { asker, id, result });
        true
    }

    /// A process begins at a site that does not reach the servers of membership: it joins once it does.
    /// Returns whether that is so.
    pub(crate) fn joins_later(&mut self, who: Who, life: u64) -> bool {
        let Some(until) = self.expired_until(who) else {
            return false;
        };
        self.queue.plan(until, Item::Reconnect(who, life, SESSION));
        true
    }
}
