//! A new leader's way to its picture: own row, subscription, all buckets read and sealed, assignments, heads and specs; what
//! the cluster tells meanwhile is held in a bounded queue (design section 4).

use crate::effects::Then;
use crate::event::{Alarm, Effect};
use crate::journal::Lane;
use crate::purpose::Purpose;
use crate::{Phase, Shard};
use echelon_core_hosts::{self as hosts, Call};
use echelon_core_model::HostId;
use echelon_core_model::bucket::{ASSIGNMENT_PARTITIONS, BLOCK_BUCKETS};
use echelon_core_model::cluster::Host;
use echelon_core_model::instance::{Block, SliceRow};
use echelon_core_model::store::{Consistency, Op, Query, ShardRow};
use std::collections::{BTreeSet, VecDeque};

/// Host rows a read: about 1 MiB.
const HOSTS_A_PAGE: u32 = 1_000;

/// How far the reading is.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// Reads not yet asked for.
    queue: VecDeque<(Query, Purpose)>,
    /// Reads under way.
    under_way: usize,
    /// Buckets read or not, but not sealed.
    unsealed: BTreeSet<u16>,
    /// What the cluster told meanwhile.
    pub(crate) held: VecDeque<hosts::Event>,
    /// Whether the alarm about a full queue was given.
    overflowed: bool,
}

impl Shard {
    pub(crate) fn on_own(&mut self, row: ShardRow) {
        self.own = row;
        self.read_hosts(None);
    }

    fn read_hosts(&mut self, after: Option<HostId>) {
        let query = Query::Hosts {
            cluster: self.config.cluster.clone(),
            after,
            limit: HOSTS_A_PAGE,
        };
        self.ask(Op::Read(query, Consistency::Quorum), Purpose::HostRows);
    }

    /// What an earlier leader knew of hosts; after the last page the stream is opened.
    pub(crate) fn on_hosts(&mut self, rows: Vec<Host>) {
        let last = rows.last().map(|h| h.id.clone());
        let full = u32::try_from(rows.len()).is_ok_and(|n| n >= HOSTS_A_PAGE);
        self.hosts.restore(rows);
        if full {
            self.read_hosts(last);
            return;
        }
        self.phase = Phase::Subscribing;
        self.subscribe();
    }

    /// The subscription stands and the framework id is durable: from here events are held, and intents of an older leader
    /// can no longer be performed, so now is the time to read them.
    pub(crate) fn read_buckets(&mut self) {
        self.phase = Phase::ReadingBuckets;
        self.recovery.unsealed = (0..BLOCK_BUCKETS).collect();
        let cluster = self.config.cluster.clone();
        self.recovery.queue = (0..BLOCK_BUCKETS)
            .map(|b| (Query::BlockBucket(cluster.clone(), b), Purpose::Bucket(b)))
            .collect();
        self.read_on();
    }

    fn read_on(&mut self) {
        while self.recovery.under_way < self.config.timing.parallel_reads.max(1) {
            let Some((query, purpose)) = self.recovery.queue.pop_front() else {
                return;
            };
            self.recovery.under_way += 1;
            let consistency = match query {
                Query::BlockBucket(..) => Consistency::Quorum,
                _ => Consistency::Serial,
            };
            self.ask(Op::Read(query, consistency), purpose);
        }
    }

    /// One read of the recovery is done: asks for the next, or goes on to the next phase.
    pub(crate) fn recovery_read_done(&mut self) {
        if self.phase == Phase::Serving {
            return;
        }
        self.recovery.under_way = self.recovery.under_way.saturating_sub(1);
        self.read_on();
        if self.recovery.under_way > 0 || !self.recovery.queue.is_empty() {
            return;
        }
        match self.phase {
            Phase::ReadingAssignments => self.read_jobs(),
            Phase::ReadingJobs => self.serve(),
            _ => {}
        }
    }

    /// Takes a bucket in and seals it: every block and row is written back under our epoch, whatever it holds.
    pub(crate) fn on_bucket(&mut self, bucket: u16, blocks: Vec<Block>, rows: Vec<SliceRow>) {
        let lane = Lane(bucket);
        for row in rows {
            let number = self.picture.number_or_new(row.job, &row.group);
            if let Some(group) = self.picture.groups.get_mut(&number) {
                group.row = row;
                self.journal
                    .touch(lane, self.now, self.config.timing.commit_delay)
                    .rows
                    .insert(number);
            }
        }
        for block in blocks {
            let number = self.picture.number_or_new(block.key.job, &block.key.group);
            let at = (number, block.key.number);
            if let Some(group) = self.picture.groups.get_mut(&number) {
                group
                    .blocks
                    .insert(block.key.number, crate::group::Cell { lane, block });
                self.journal
                    .touch(lane, self.now, self.config.timing.commit_delay)
                    .blocks
                    .insert(at);
            }
        }
        let point = self.journal.point(lane);
        self.journal.when_durable([point], Then::Sealed(bucket));
        self.recovery_read_done();
    }

    /// A bucket is sealed; after the last one the assignments are read.
    pub(crate) fn on_sealed(&mut self, bucket: u16) {
        self.recovery.unsealed.remove(&bucket);
        if self.phase != Phase::ReadingBuckets || !self.recovery.unsealed.is_empty() {
            return;
        }
        self.phase = Phase::ReadingAssignments;
        self.picture
            .groups
            .values_mut()
            .for_each(crate::group::Group::recount);
        self.recovery.queue = (0..ASSIGNMENT_PARTITIONS)
            .map(|p| (Query::Assignments(p), Purpose::Partition(p)))
            .collect();
        self.read_on();
    }

    fn read_jobs(&mut self) {
        self.phase = Phase::ReadingJobs;
        let jobs = self.picture.jobs();
        self.recovery.queue = jobs
            .into_iter()
            .map(|j| (Query::Head(j), Purpose::Head(j)))
            .collect();
        self.read_on();
        if self.recovery.under_way == 0 {
            self.serve();
        }
    }

    /// Everything is read: what was held is processed, and the shard serves.
    fn serve(&mut self) {
        self.phase = Phase::Serving;
        let all: Vec<u32> = self.picture.groups.keys().copied().collect();
        all.into_iter().for_each(|g| self.adopt_group(g));
        for event in std::mem::take(&mut self.recovery.held) {
            self.on_told(event);
        }
        self.reconcile_all();
        self.report_all();
        self.obey_held();
    }

    /// Holds an event until the shard serves. When the queue is full, updates are dropped unacknowledged (Mesos sends them
    /// again) and offers are declined.
    pub(crate) fn hold(&mut self, event: hosts::Event) {
        if self.recovery.held.len() < self.config.timing.held_events {
            self.recovery.held.push_back(event);
            return;
        }
        if let hosts::Event::Offers(offers) = event {
            let offers = offers.into_iter().map(|o| o.id).collect();
            let refuse = echelon_core_model::time::Span::ZERO;
            self.out.push(Effect::Cluster(Call::Decline { offers, refuse }));
        } else if !self.recovery.overflowed {
            self.recovery.overflowed = true;
            self.out.push(Effect::Alarm(Alarm::HeldQueueFull));
        }
    }

    /// Offers of a broken subscription are void (R28, R31); updates stay true.
    pub(crate) fn void_held_offers(&mut self) {
        let voided = |e: &hosts::Event| matches!(e, hosts::Event::Offers(_) | hosts::Event::Rescind(_));
        self.recovery.held.retain(|e| !voided(e));
    }
}
