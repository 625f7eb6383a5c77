//! The owned tables: no conditions, the larger stamp wins for ever. A deleted row keeps its stamp, so that an older write
//! never comes back.

use echelon_core_model::assignment::{Assignment, AssignmentPiece};
use echelon_core_model::bucket::{block_bucket, job_bucket};
use echelon_core_model::cluster::{ClusterState, Heartbeat, Host};
use echelon_core_model::instance::{Block, BlockKey, SliceRow};
use echelon_core_model::job::Progress;
use echelon_core_model::log::{KeptLog, KeptRuns};
use echelon_core_model::store::{
    Answer, Batch, Event, EventDay, EventEnd, EventPlace, Mark, Query, RawKey, Refusal, RefusedRow,
    RefusedWhy, Role, RowSubject, ShardKey, ShardRow, Stamp, UnreadRow, Write, event_day,
};
use echelon_core_model::{ClusterId, Epoch, GroupName, HostId, JobId, MemberId};
use std::collections::BTreeMap;

/// A table whose rows are ordered by stamp; `None` is a deleted row.
#[derive(Debug, Clone)]
struct Stamped<K, T>(BTreeMap<K, (i64, Option<T>)>);

impl<K, T> Default for Stamped<K, T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord, T> Stamped<K, T> {
    fn write(&mut self, key: K, stamp: i64, row: Option<T>) {
        if self.0.get(&key).is_none_or(|(before, _)| *before <= stamp) {
            self.0.insert(key, (stamp, row));
        }
    }

    /// Forgets what is hidden by a seal.
    fn hide(&mut self, hides: i64, within: impl Fn(&K) -> bool) {
        self.0.retain(|key, (stamp, _)| *stamp > hides || !within(key));
    }

    fn get(&self, key: &K) -> Option<&T> {
        self.0.get(key).and_then(|(_, row)| row.as_ref())
    }

    fn rows(&self) -> impl Iterator<Item = (&K, &T)> {
        self.0
            .iter()
            .filter_map(|(key, (_, row))| row.as_ref().map(|r| (key, r)))
    }
}

#[derive(Debug, Clone, Default)]
pub struct OwnedTables {
    progress: Stamped<JobId, Progress>,
    ended_assignments: Stamped<(JobId, u32), AssignmentPiece>,
    cluster_states: Stamped<ClusterId, ClusterState>,
    shards: Stamped<(ClusterId, ShardKey), ShardRow>,
    /// Up to which stamp all of a shard's rows of itself are hidden.
    sealed_shards: BTreeMap<ClusterId, i64>,
    blocks: Stamped<(ClusterId, BlockKey), Block>,
    archive: Stamped<(ClusterId, BlockKey), Block>,
    slices: Stamped<(ClusterId, JobId, GroupName), SliceRow>,
    /// Rows that nobody understands, at the place of others.
    raw: Stamped<(ClusterId, RawKey), Vec<u8>>,
    /// Up to which stamp each sealed bucket hides everything.
    sealed: BTreeMap<(ClusterId, u16), i64>,
    heartbeats: Stamped<ClusterId, Heartbeat>,
    marks: Stamped<Role, Mark>,
    hosts: Stamped<(ClusterId, HostId), Host>,
    /// Up to which stamp all hosts of a cluster are hidden.
    sealed_hosts: BTreeMap<ClusterId, i64>,
    logs: Stamped<(ClusterId, MemberId), KeptLog>,
    kept_runs: Stamped<(JobId, ClusterId), KeptRuns>,
    events: BTreeMap<EventDay, BTreeMap<EventPlace, Event>>,
    /// What shards have noted of the events of their buckets.
    noted_events: Stamped<(ClusterId, u16), EventEnd>,
    event_ends: Stamped<(Role, u16, Epoch), EventEnd>,
}

impl OwnedTables {
    pub fn progress(&self, job: JobId) -> Option<Progress> {
        self.progress.get(&job).cloned()
    }

    /// The assignment of an ended job that has moved among those.
    pub fn ended_assignment(&self, job: JobId) -> Option<Assignment> {
        let rows = self.ended_assignments.rows();
        let mut parts = rows
            .filter(|((of, _), _)| *of == job)
            .map(|(_, piece)| &piece.part);
        let mut whole = parts.next()?.clone();
        parts.for_each(|part| whole.extend(part));
        Some(whole)
    }

    pub fn read(&self, query: &Query) -> Answer {
        match query {
            Query::Mark(role) => Answer::Mark(self.marks.get(role).copied()),
            Query::Progress(job) => Answer::Progress(self.progress(*job).into_iter().collect()),
            Query::ProgressBucket(bucket) => {
                let of_bucket = self
                    .progress
                    .rows()
                    .filter(|(job, _)| job_bucket(**job) == *bucket);
                Answer::Progress(of_bucket.map(|(_, p)| p.clone()).collect())
            }
            Query::ClusterStates => {
                Answer::ClusterStates(self.cluster_states.rows().map(|(_, s)| s.clone()).collect())
            }
            Query::Shard(cluster) => {
                let mut whole = ShardRow::default();
                for ((_, key), row) in self.shards.rows().filter(|((c, _), _)| c == cluster) {
                    whole.extend(key, row.clone());
                }
                Answer::Shard(whole)
            }
            Query::BlockBucket(cluster, bucket) => self.block_bucket(cluster, *bucket),
            Query::GroupBlocks {
                cluster,
                job,
                group,
                first,
                last,
            } => self.group_blocks(cluster, (*job, group), *first..=*last),
            Query::Heartbeats => Answer::Heartbeats(self.heartbeats.rows().map(|(_, h)| h.clone()).collect()),
            Query::Hosts {
                cluster,
                after,
                limit,
            } => self.hosts(cluster, after.as_ref(), *limit),
            Query::Events {
                of,
                lane,
                after,
                limit,
            } => self.events(of, *lane, *after, *limit),
            Query::EventEnds(writer, lane) => self.event_ends(writer, *lane),
            Query::KeptRuns(job) => {
                let of_job = self.kept_runs.rows().filter(|((j, _), _)| j == job);
                Answer::KeptRuns(of_job.map(|(_, runs)| runs.clone()).collect())
            }
            Query::KeptLog(cluster, task) => {
                Answer::KeptLog(self.logs.get(&(cluster.clone(), task.clone())).cloned())
            }
            // The rest is decided and was answered before.
            _ => Answer::Jobs(Vec::new()),
        }
    }

    fn block_bucket(&self, cluster: &ClusterId, bucket: u16) -> Answer {
        let blocks = self
            .blocks
            .rows()
            .filter(|((c, key), _)| c == cluster && key.bucket() == bucket)
            .map(|(_, b)| b.clone());
        let slices = self
            .slices
            .rows()
            .filter(|((c, _, _), row)| c == cluster && row.bucket() == bucket)
            .map(|(_, s)| s.clone());
        Answer::Blocks(blocks.collect(), slices.collect())
    }

    /// The rows of an answer that nobody understands.
    pub fn unread(&self, query: &Query) -> Vec<UnreadRow> {
        let wanted = |c: &ClusterId, at: &RawKey| match (query, at) {
            (Query::BlockBucket(cluster, bucket), RawKey::Block(at)) => {
                c == cluster && at.bucket() == *bucket
            }
            (
                Query::GroupBlocks {
                    cluster,
                    job,
                    group,
                    first,
                    last,
                },
                RawKey::Block(at) | RawKey::Archive(at),
            ) => {
                let asked = (*first..=*last).contains(&at.number) || at.number == SliceRow::BLOCK;
                c == cluster && at.job == *job && at.group == *group && asked
            }
            (Query::Shard(cluster), RawKey::Shard(_)) => c == cluster,
            _ => false,
        };
        let rows = self.raw.rows().filter(|((c, key), _)| wanted(c, key));
        rows.map(|((_, key), bytes)| raw_row(key, bytes)).collect()
    }

    fn group_blocks(
        &self,
        cluster: &ClusterId,
        (job, group): (JobId, &GroupName),
        numbers: std::ops::RangeInclusive<u32>,
    ) -> Answer {
        let wanted = |(c, key): &(ClusterId, BlockKey)| {
            c == cluster && key.job == job && key.group == *group && numbers.contains(&key.number)
        };
        let archived = self.archive.rows().filter(|(key, _)| wanted(key));
        let present = self.blocks.rows().filter(|(key, _)| wanted(key));
        // A block on its way to the archive is in both places; the present one is the newer.
        let by_number: BTreeMap<u32, Block> = archived
            .chain(present)
            .map(|((_, key), b)| (key.number, b.clone()))
            .collect();
        let slice = self.slices.get(&(cluster.clone(), job, group.clone())).cloned();
        Answer::Blocks(by_number.into_values().collect(), slice.into_iter().collect())
    }

    fn hosts(&self, cluster: &ClusterId, after: Option<&HostId>, limit: u32) -> Answer {
        let hosts = self
            .hosts
            .rows()
            .filter(|((c, id), _)| c == cluster && after.is_none_or(|a| id > a))
            .take(usize::try_from(limit).unwrap_or(usize::MAX));
        Answer::Hosts(hosts.map(|(_, h)| h.clone()).collect())
    }

    fn events(&self, of: &EventDay, lane: Option<u16>, after: Option<EventPlace>, limit: u32) -> Answer {
        let events = self
            .events
            .get(of)
            .into_iter()
            .flatten()
            .filter(|(place, _)| after.is_none_or(|after| **place > after))
            .filter(|(place, _)| lane.is_none_or(|lane| place.lane == lane))
            .take(usize::try_from(limit).unwrap_or(usize::MAX));
        Answer::Events(events.map(|(place, event)| (*place, event.clone())).collect())
    }

    pub fn events_of(&self, job: JobId, writer: &Role) -> Vec<Event> {
        let days = self.events.iter();
        let days = days.filter(|(of, _)| of.job == job && of.writer == *writer);
        days.flat_map(|(_, events)| events.values().cloned()).collect()
    }

    fn event_ends(&self, writer: &Role, lane: u16) -> Answer {
        let closed = self.event_ends.rows();
        let closed = closed.filter(|((of, at, _), _)| of == writer && *at == lane);
        let mut ends: Vec<EventEnd> = closed.map(|(_, end)| *end).collect();
        if let Role::Shard(cluster) = writer {
            let noted = self.noted_events.get(&(cluster.clone(), lane));
            let is_new = |noted: &&EventEnd| ends.iter().all(|e| e.stamp.epoch != noted.stamp.epoch);
            let noted = noted.filter(is_new).copied();
            ends.extend(noted);
        }
        Answer::EventEnds(ends)
    }

    /// # Errors
    /// When the owner does not own what it writes; nothing is written then.
    pub fn commit(&mut self, batch: Batch) -> Result<(), Refusal> {
        let Batch { owner, stamp, writes } = batch;
        if let Some(wrong) = writes.iter().find(|w| !may_write(&owner, w)) {
            let why = format!("{owner:?} does not own what it would write: {wrong:?}");
            let row = RefusedRow {
                row: "a row".to_owned(),
                place: writes.iter().position(|w| !may_write(&owner, w)),
                why: RefusedWhy::NotOwner(why),
            };
            return Err(Refusal { rows: vec![row] });
        }
        if lacks_lane(&writes) {
            let row = RefusedRow {
                row: "events".to_owned(),
                place: None,
                why: RefusedWhy::OutOfRange("a batch with events notes no lane".to_owned()),
            };
            return Err(Refusal { rows: vec![row] });
        }
        let own = stamp;
        let hides = stamp.hides();
        let stamp = stamp.packed();
        let lane = lane_of(&writes);
        for (index, write) in (0u32..).zip(writes) {
            match (&owner, write) {
                (Role::Shard(cluster), Write::SealShard) => {
                    self.shards.hide(hides, |(of, _)| of == cluster);
                    self.raw.hide(hides, |(of, key)| {
                        of == cluster && matches!(key, RawKey::Shard(_))
                    });
                    let floor = self.sealed_shards.entry(cluster.clone()).or_insert(hides);
                    *floor = hides.max(*floor);
                }
                (Role::Shard(cluster), Write::SealHosts) => {
                    self.hosts.hide(hides, |(of, _)| of == cluster);
                    let floor = self.sealed_hosts.entry(cluster.clone()).or_insert(hides);
                    *floor = hides.max(*floor);
                }
                (Role::Shard(cluster), Write::Seal(bucket)) => self.seal(cluster.clone(), bucket, hides),
                (_, Write::Event(event)) => {
                    let of = EventDay {
                        job: event.job,
                        writer: owner.clone(),
                        day: event_day(event.at),
                    };
                    let place = EventPlace {
                        lane,
                        stamp: own,
                        index,
                    };
                    self.events.entry(of).or_default().insert(place, event);
                }
                (_, Write::CloseEvents(lane, end)) => {
                    let key = (owner.clone(), lane, end.epoch);
                    let end = EventEnd {
                        stamp: end,
                        is_closed: true,
                    };
                    self.event_ends.write(key, stamp, Some(end));
                }
                (Role::ResourceManager, Write::NoteEvents(lane)) => {
                    let end = EventEnd {
                        stamp: own,
                        is_closed: false,
                    };
                    self.event_ends
                        .write((owner.clone(), lane, own.epoch), stamp, Some(end));
                }
                (_, Write::Mark(mark)) => self.marks.write(owner.clone(), stamp, Some(mark)),
                (Role::ResourceManager, write) => self.write_global(stamp, write),
                (Role::Shard(cluster), write) => self.write_shard(cluster.clone(), stamp, write),
            }
        }
        Ok(())
    }

    fn write_global(&mut self, stamp: i64, write: Write) {
        match write {
            Write::Progress(p) => self.progress.write(p.job, stamp, Some(p)),
            Write::RemoveProgress(job) => self.progress.write(job, stamp, None),
            Write::RemoveClusterState(cluster) => self.cluster_states.write(cluster, stamp, None),
            Write::EndedAssignment(piece, place) => {
                let key = (piece.part.job, place);
                self.ended_assignments.write(key, stamp, Some(piece));
            }
            Write::RemoveEndedAssignment(job, place) => {
                self.ended_assignments.write((job, place), stamp, None)
            }
            Write::ClusterState(s) => self.cluster_states.write(s.cluster.clone(), stamp, Some(s)),
            _ => {}
        }
    }

    fn seal(&mut self, cluster: ClusterId, bucket: u16, hides: i64) {
        let of = |c: &ClusterId, n: u16| *c == cluster && n == bucket;
        self.blocks.hide(hides, |(c, key)| of(c, key.bucket()));
        self.noted_events.hide(hides, |(c, n)| of(c, *n));
        self.raw.hide(
            hides,
            |(c, key)| matches!(key, RawKey::Block(key) if of(c, key.bucket())),
        );
        self.slices.hide(hides, |(c, job, group)| {
            of(c, block_bucket(*job, group, SliceRow::BLOCK))
        });
        let floor = self.sealed.entry((cluster, bucket)).or_insert(hides);
        *floor = hides.max(*floor);
    }

    /// Whether a newer epoch has sealed the bucket that a write goes to.
    fn is_hidden(&self, cluster: &ClusterId, stamp: i64, write: &Write) -> bool {
        let bucket = match write {
            Write::Block(Block { key, .. }) | Write::RemoveBlock(key) | Write::Raw(RawKey::Block(key), _) => {
                key.bucket()
            }
            Write::Slice(row) => row.bucket(),
            Write::RemoveSlice(job, group) => block_bucket(*job, group, SliceRow::BLOCK),
            Write::NoteEvents(lane) => *lane,
            Write::Shard(..) | Write::RemoveShard(_) | Write::Raw(RawKey::Shard(_), _) => {
                let floor = self.sealed_shards.get(cluster);
                return floor.is_some_and(|hides| stamp <= *hides);
            }
            Write::Host(_) | Write::RemoveHost(_) => {
                let floor = self.sealed_hosts.get(cluster);
                return floor.is_some_and(|hides| stamp <= *hides);
            }
            _ => return false,
        };
        let floor = self.sealed.get(&(cluster.clone(), bucket));
        floor.is_some_and(|hides| stamp <= *hides)
    }

    fn write_shard(&mut self, cluster: ClusterId, stamp: i64, write: Write) {
        if self.is_hidden(&cluster, stamp, &write) {
            return;
        }
        match write {
            Write::Shard(key, row) => {
                let raw = RawKey::Shard(key.clone());
                self.raw.write((cluster.clone(), raw), stamp, None);
                self.shards.write((cluster, key), stamp, Some(row));
            }
            Write::RemoveShard(key) => {
                let raw = RawKey::Shard(key.clone());
                self.raw.write((cluster.clone(), raw), stamp, None);
                self.shards.write((cluster, key), stamp, None);
            }
            Write::Block(b) => {
                let raw = RawKey::Block(b.key.clone());
                self.raw.write((cluster.clone(), raw), stamp, None);
                self.blocks.write((cluster, b.key.clone()), stamp, Some(b));
            }
            Write::RemoveBlock(key) => {
                let raw = RawKey::Block(key.clone());
                self.raw.write((cluster.clone(), raw), stamp, None);
                self.blocks.write((cluster, key), stamp, None);
            }
            Write::Raw(key, bytes) => {
                match &key {
                    RawKey::Block(key) if key.number == SliceRow::BLOCK => {
                        let of = (cluster.clone(), key.job, key.group.clone());
                        self.slices.write(of, stamp, None);
                    }
                    RawKey::Block(key) => self.blocks.write((cluster.clone(), key.clone()), stamp, None),
                    RawKey::Archive(key) => self.archive.write((cluster.clone(), key.clone()), stamp, None),
                    RawKey::Shard(key) => self.shards.write((cluster.clone(), key.clone()), stamp, None),
                }
                self.raw.write((cluster, key), stamp, Some(bytes));
            }
            Write::Archive(b) => {
                let raw = RawKey::Archive(b.key.clone());
                self.raw.write((cluster.clone(), raw), stamp, None);
                self.archive.write((cluster, b.key.clone()), stamp, Some(b));
            }
            Write::Slice(s) => {
                let raw = RawKey::Block(slice_key(s.job, &s.group));
                self.raw.write((cluster.clone(), raw), stamp, None);
                self.slices
                    .write((cluster, s.job, s.group.clone()), stamp, Some(s));
            }
            Write::RemoveSlice(job, group) => {
                let raw = RawKey::Block(slice_key(job, &group));
                self.raw.write((cluster.clone(), raw), stamp, None);
                self.slices.write((cluster, job, group), stamp, None);
            }
            Write::NoteEvents(lane) => {
                let end = EventEnd {
                    stamp: own_stamp(stamp),
                    is_closed: false,
                };
                self.noted_events.write((cluster, lane), stamp, Some(end));
            }
            Write::Heartbeat(h) => self.heartbeats.write(cluster, stamp, Some(h)),
            Write::RemoveHeartbeat => self.heartbeats.write(cluster, stamp, None),
            Write::Host(h) => self.hosts.write((cluster, h.id.clone()), stamp, Some(h)),
            Write::RemoveHost(id) => self.hosts.write((cluster, id), stamp, None),
            Write::Log(log) => self.logs.write((cluster, log.task()), stamp, Some(log)),
            Write::RemoveLog(task) => self.logs.write((cluster, task), stamp, None),
            Write::KeptRuns(runs) => self.kept_runs.write((runs.job, cluster), stamp, Some(runs)),
            _ => {}
        }
    }
}

fn raw_row(key: &RawKey, bytes: &[u8]) -> UnreadRow {
    let of_block = |key: &BlockKey| format!("{}/{}/{}", key.job, key.group, key.number);
    let (table, name, subject) = match key {
        RawKey::Block(key) => ("instances", of_block(key), RowSubject::Block(key.clone())),
        RawKey::Archive(key) => ("archive", of_block(key), RowSubject::Job(key.job)),
        RawKey::Shard(key) => ("shards", format!("{key:?}"), RowSubject::Shard(key.clone())),
    };
    UnreadRow {
        table,
        key: name,
        subject,
        bytes: bytes.to_vec(),
        why: "it is raw".to_owned(),
    }
}

fn slice_key(job: JobId, group: &GroupName) -> BlockKey {
    BlockKey {
        job,
        group: group.clone(),
        number: SliceRow::BLOCK,
    }
}

fn own_stamp(packed: i64) -> Stamp {
    Stamp::of_packed(u64::try_from(packed).unwrap_or_default())
}

/// The lane of a batch's events.
fn lane_of(writes: &[Write]) -> u16 {
    let noted = writes.iter().find_map(|write| match write {
        Write::NoteEvents(lane) => Some(*lane),
        _ => None,
    });
    noted.unwrap_or_default()
}

/// Events without a lane would have no order.
fn lacks_lane(writes: &[Write]) -> bool {
    let is_event = |write: &Write| matches!(write, Write::Event(_));
    let is_note = |write: &Write| matches!(write, Write::NoteEvents(_));
    writes.iter().any(is_event) && !writes.iter().any(is_note)
}

fn may_write(owner: &Role, write: &Write) -> bool {
    match write {
        Write::Event(_) | Write::NoteEvents(_) | Write::CloseEvents(..) | Write::Mark(_) => true,
        Write::Progress(_)
        | Write::RemoveProgress(_)
        | Write::EndedAssignment(..)
        | Write::RemoveEndedAssignment(..)
        | Write::ClusterState(_)
        | Write::RemoveClusterState(_) => *owner == Role::ResourceManager,
        Write::Heartbeat(h) => *owner == Role::Shard(h.cluster.clone()),
        Write::KeptRuns(runs) => *owner == Role::Shard(runs.cluster.clone()),
        _ => matches!(owner, Role::Shard(_)),
    }
}
