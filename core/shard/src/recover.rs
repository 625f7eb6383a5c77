//! A new leader's way to its picture: own row, subscription, then assignments, buckets of blocks - each read, sealed and its
//! groups served as soon as all buckets that they lie in are sealed - and the goal of each (design section 4).
//!
//! Which groups wait for which buckets is `sealing.rs`; what is told meanwhile about groups not yet served is `held.rs`.

use crate::effects::Then;
use crate::held::Held;
use crate::journal::Lane;
use crate::purpose::Purpose;
use crate::sealing::Sealing;
use crate::{Phase, Shard};
use echelon_core_model::bucket::{ASSIGNMENT_PARTITIONS, BLOCK_BUCKETS};
use echelon_core_model::cluster::Host;
use echelon_core_model::instance::{Block, SliceRow};
use echelon_core_model::job::Head;
use echelon_core_model::pause::Pause;
use echelon_core_model::store::{Consistency, EventEnd, Op, Query, ShardRow, UnreadRow, Write};
use echelon_core_model::{Assignment, Epoch, HostId, JobId, Timestamp};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Buckets that are read and not written back yet: what is written is there twice meanwhile, so reading does not run far ahead.
const TO_SEAL: usize = 32;
/// Host rows a read: about 1 MiB.
const HOSTS_A_PAGE: u32 = 1_000;

/// An assignment as the recovery has read it.
#[derive(Debug)]
pub(crate) struct Assigned {
    pub(crate) assignment: Assignment,
    /// When its read began.
    since: Timestamp,
    /// Whether it is of the epoch that we obey, or a newer one.
    current: bool,
}

/// A bucket as it was read.
#[derive(Debug, Default)]
pub(crate) struct ReadBucket {
    pub(crate) blocks: Vec<Block>,
    pub(crate) rows: Vec<SliceRow>,
    pub(crate) unread: Vec<UnreadRow>,
}

/// How far the reading is.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// Reads not yet asked for.
    pub(crate) queue: VecDeque<(Query, Purpose)>,
    /// Reads under way.
    under_way: usize,
    /// Partitions of assignments that are not read yet.
    pub(crate) unread: BTreeSet<u16>,
    /// Assignments of which a part is, or ever was, here.
    pub(crate) assigned: BTreeMap<JobId, Assigned>,
    /// Which groups wait for which buckets.
    pub(crate) sealing: Sealing,
    /// Buckets that are read, while it is asked up to where their events hold.
    read: BTreeMap<u16, ReadBucket>,
    /// Buckets that are read and not sealed yet.
    pub(crate) to_seal: usize,
    /// Groups whose buckets are sealed and whose goal is being read.
    pub(crate) goals: BTreeSet<u32>,
    /// What was told meanwhile.
    pub(crate) held: Held,
    /// Rows that cannot be understood and were told, by table and key.
    pub(crate) told_rows: BTreeSet<(&'static str, String)>,
}

impl Shard {
    pub(crate) fn on_own(&mut self, row: ShardRow, unread: Vec<UnreadRow>) {
        self.own = row;
        self.set_own_aside(unread);
        if self.evidence.mark.is_some() && self.lacks_own() {
            self.freeze("a leader of the shard has stored something and the row of its shard is not there: restore the table `shards`, too".to_owned());
            return;
        }
        self.own_stored.clear();
        self.own_sealed = false;
        self.hosts.set_drains(self.own.drains.hosts.clone());
        self.hosts.set_host_pools(self.own.host_pools.clone());
        self.hosts.set_moves(self.own.moves.hosts.clone());
        self.read_hosts(None);
    }

    /// Whether nothing of the shard itself is stored. Its framework id is durable before the first host is:
    /// where there are hosts, a new framework would run everything a second time.
    fn lacks_own(&self) -> bool {
        self.own == ShardRow::default() && self.config.replaced_framework.is_none()
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
        if last.is_some() && self.lacks_own() {
            self.freeze("hosts of the cluster are stored and the row of its shard is not: restore the table `shards`, too".to_owned());
            return;
        }
        if full {
            self.read_hosts(last);
            return;
        }
        self.phase = Phase::Subscribing;
        self.subscribe();
    }

    /// Whether some groups may still not be served.
    pub(crate) const fn is_recovering(&self) -> bool {
        !self.picture.complete
    }

    /// The subscription stands and the framework id is durable: intents of an older leader can no longer be performed, so now
    /// is the time to read them. Assignments come first: they tell which buckets a group lies in.
    pub(crate) fn read_buckets(&mut self) {
        self.phase = Phase::Serving;
        // With our first mark, before any wait is stored as a moment of our clock.
        self.beat_at = self.now;
        if let Some(mark) = &self.evidence.mark {
            self.picture.pause = Pause::new(mark.at, self.now);
        }
        self.recovery.unread = (0..ASSIGNMENT_PARTITIONS).collect();
        self.recovery.sealing = Sealing::of_all();
        let partitions = (0..ASSIGNMENT_PARTITIONS).map(|p| (Query::Assignments(p), Purpose::Partition(p)));
        let cluster = &self.config.cluster;
        let buckets =
            (0..BLOCK_BUCKETS).map(|b| (Query::BlockBucket(cluster.clone(), b), Purpose::Bucket(b)));
        self.recovery.queue = partitions.chain(buckets).collect();
        self.recovery_reads_assignments();
        self.reconcile_first();
        self.read_on();
        self.release_held_events();
    }

    pub(crate) fn read_on(&mut self) {
        while self.recovery.under_way < self.config.timing.parallel_reads.max(1) {
            let ahead = self.recovery.to_seal >= TO_SEAL;
            let next = self
                .recovery
                .queue
                .pop_front_if(|(query, _)| !(ahead && matches!(query, Query::BlockBucket(..))));
            let Some((query, purpose)) = next else { return };
            self.recovery.under_way += 1;
            let consistency = match query {
                Query::BlockBucket(..) => Consistency::Quorum,
                _ => Consistency::Serial,
            };
            self.ask(Op::Read(query, consistency), purpose);
        }
    }

    /// One read of the recovery is done: the next is asked for.
    pub(crate) fn recovery_read_done(&mut self) {
        self.recovery.under_way = self.recovery.under_way.saturating_sub(1);
        self.read_on();
        self.finish_recovery();
    }

    /// Takes a partition of assignments in: the groups that it names wait for their own buckets alone.
    pub(crate) fn on_recovered_partition(
        &mut self,
        partition: u16,
        epoch: Epoch,
        all: Vec<Assignment>,
        since: Timestamp,
    ) {
        let current = epoch >= self.own.obeyed;
        for assignment in all {
            let here = |r: &echelon_core_model::AssignedRange| r.cluster == self.config.cluster;
            if !assignment.holders.contains_key(&self.config.cluster)
                && !assignment.groups.values().flatten().any(here)
            {
                continue;
            }
            for (group, ranges) in &assignment.groups {
                if ranges.iter().any(here) {
                    self.picture.number_or_new(assignment.job, group);
                }
            }
            let assigned = Assigned {
                assignment,
                since,
                current,
            };
            self.recovery.assigned.insert(assigned.assignment.job, assigned);
        }
        self.recovery.unread.remove(&partition);
        self.recovery_read_partition(epoch);
        self.enlist_partition(partition);
        self.recovery_read_done();
    }

    /// Waits before a further run go on where the leader before us stopped counting: the time in between adds nothing, and it
    /// does not matter what our clocks say.
    fn resume_waits(&self, block: &mut Block) {
        let Some(mark) = &self.evidence.mark else { return };
        for record in block.instances.values_mut().filter(|r| r.not_before > mark.at) {
            record.not_before = Pause::new(mark.at, self.now).to_come(record.not_before);
        }
    }

    /// A bucket is read. Up to where its events hold is read next, before anything of our own is written there.
    pub(crate) fn on_bucket_read(&mut self, bucket: u16, read: ReadBucket) {
        self.recovery.read.insert(bucket, read);
        self.recovery.to_seal += 1;
        let ends = Query::EventEnds(self.role(), bucket);
        self.recovery.queue.push_front((ends, Purpose::EventEnds(bucket)));
        self.recovery_read_done();
    }

    /// Takes a bucket in and seals it: every block and row is written back under our epoch, whatever it holds, and with that
    /// everything older is hidden for good. Events of older leaders hold up to what they had noted in the bucket: what they
    /// still write belongs to blocks that are hidden.
    pub(crate) fn on_event_ends(&mut self, bucket: u16, ends: &[EventEnd]) {
        let Some(ReadBucket { blocks, rows, unread }) = self.recovery.read.remove(&bucket) else {
            return;
        };
        let lane = Lane(bucket);
        let delay = self.config.timing.commit_delay;
        let open = ends
            .iter()
            .filter(|end| !end.is_closed && end.stamp.epoch < self.epoch);
        let closed: Vec<Write> = open.map(|end| Write::CloseEvents(bucket, end.stamp)).collect();
        if !closed.is_empty() {
            self.journal.touch(lane, self.now, delay).ready.extend(closed);
        }
        let raw = self.keep_unread(unread);
        if !raw.is_empty() {
            self.journal.touch(lane, self.now, delay).ready.extend(raw);
        }
        let mut touched: BTreeSet<u32> = BTreeSet::new();
        for row in rows {
            let number = self.picture.number_or_new(row.job, &row.group);
            if let Some(group) = self.picture.groups.get_mut(&number) {
                group.row = row;
                touched.insert(number);
                self.journal.touch(lane, self.now, delay).rows.insert(number);
            }
        }
        for mut block in blocks {
            self.share_texts(&mut block);
            self.resume_waits(&mut block);
            let number = self.picture.number_or_new(block.key.job, &block.key.group);
            let at = (number, block.key.number);
            if let Some(group) = self.picture.groups.get_mut(&number) {
                group
                    .blocks
                    .insert(block.key.number, crate::group::Cell { lane, block });
                touched.insert(number);
                self.journal.touch(lane, self.now, delay).blocks.insert(at);
            }
        }
        // A slice row may tell of numbers that the assignment has forgotten.
        touched.into_iter().for_each(|number| self.enlist(number));
        self.journal.touch(lane, self.now, delay).seal = true;
        let point = self.journal.point(lane);
        self.journal.when_durable([point], Then::Sealed(bucket));
        self.recovery_read_done();
    }

    /// Each block that is read brings texts of its own for the same hosts.
    fn share_texts(&self, block: &mut Block) {
        let records = block.instances.values_mut();
        for run in records.flat_map(|r| r.run.iter_mut().chain(&mut r.older)) {
            self.hosts.share_texts(&mut run.host, &mut run.hostname);
        }
    }

    /// All buckets of a group are sealed: its goal is asked for, before further buckets.
    pub(crate) fn read_goal(&mut self, number: u32) {
        let Some(group) = self.picture.groups.get(&number) else {
            return;
        };
        if group.set_aside.is_some() {
            self.on_set_aside_sealed(number);
            return;
        }
        if self.recovery.goals.insert(number) {
            let job = group.job();
            let read = if group.is_stored() {
                (Query::Head(job), Purpose::Goal(number))
            } else {
                (Query::Progress(job), Purpose::Standing(number))
            };
            self.recovery.queue.push_front(read);
            self.read_on();
        }
    }

    /// The goal of a group whose buckets are sealed: it is served from here on.
    pub(crate) fn on_goal(&mut self, number: u32, head: Option<Head>, since: Timestamp) {
        if self.recovery.goals.remove(&number) {
            self.serve(number, head, since);
        }
        self.recovery_read_done();
    }

    /// The goal of a group, or whether its job has ended, cannot be understood.
    pub(crate) fn on_goal_unread(&mut self, number: u32, row: String) {
        self.recovery.goals.remove(&number);
        self.set_group_aside(number, row);
        self.on_set_aside_sealed(number);
        self.recovery_read_done();
    }

    fn serve(&mut self, number: u32, head: Option<Head>, since: Timestamp) {
        let Some(group) = self.picture.groups.get_mut(&number) else {
            return;
        };
        if group.set_aside.is_some() {
            return;
        }
        group.served = true;
        group.spec_since = self.now;
        let (job, name) = (group.job(), group.name().clone());
        if let Some(of) = self.recovery.assigned.get(&job).filter(|a| a.current) {
            let since = of.since;
            let ours = crate::group::ranges_at(of.assignment.ranges(&name), &self.config.cluster);
            group.assigned_at = since;
            if group.row.ranges != ours {
                self.set_ranges(number, ours);
            }
        }
        if !self.take_head(number, head.as_ref(), since) {
            self.adopt_group(number);
        }
        self.reconcile_group(number);
        self.release_held(job, &name);
        self.inquire_lost(number);
    }

    /// Ends the recovery when nothing is left to be read, sealed or served, the specs of what runs included: what belongs to no group is judged, strangers are
    /// looked for, and everything is reported.
    pub(crate) fn finish_recovery(&mut self) {
        let recovery = &self.recovery;
        if !self.is_recovering()
            || recovery.under_way > 0
            || !recovery.queue.is_empty()
            || !recovery.goals.is_empty()
            || !recovery.sealing.is_done()
            || self.reads_specs()
        {
            return;
        }
        self.picture.complete = true;
        self.losses.recount();
        self.recovery.assigned.clear();
        self.release_held_events();
        self.reconcile_all();
        self.report_all();
        self.keep_recent_logs();
        self.recovery_is_over();
        self.obey_postponed();
    }
}
