//! A batch of owned facts as rows.

use super::keys;
use super::table::Ownership;
use crate::rows::RowKey;
use echelon_core_model::ClusterId;
use echelon_core_model::store::{
    Batch, Event, EventDay, EventEnd, EventPlace, RawKey, Role, Stamp, Write, event_day,
};
use echelon_proto::convert::encode;
use std::collections::HashSet;

/// What a row becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Becomes {
    /// It has this value.
    Value(Vec<u8>),
    /// It is deleted.
    Nothing,
    /// The key names a whole partition: no row of an older epoch is seen in it, before or after.
    Sealed,
}

/// A row to write, or to delete, under the batch's stamp; or a partition to seal under its epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowWrite {
    pub at: RowKey,
    /// Which write of the batch asks for it.
    pub place: usize,
    pub becomes: Becomes,
}

impl RowWrite {
    /// Bytes of the value.
    pub const fn bytes(&self) -> usize {
        match &self.becomes {
            Becomes::Value(value) => value.len(),
            Becomes::Nothing | Becomes::Sealed => 0,
        }
    }

    /// How long it stays by itself, in milliseconds; `None`: until it is deleted.
    pub const fn keep_ms(&self) -> Option<u64> {
        match self.at.table.columns().ownership {
            Ownership::Owned { keep_ms } => keep_ms,
            Ownership::Decided { .. } => None,
        }
    }
}

/// The rows of a batch whose writes are its owner's, in their order; of two to one row the last. Seals come last: where a
/// batch is written in pieces, what is to stay must be there before a seal hides what it was before.
pub(crate) fn row_writes(batch: &Batch) -> Vec<RowWrite> {
    let lane = lane_of(batch);
    let rows: Vec<RowWrite> = batch
        .writes
        .iter()
        .enumerate()
        .filter_map(|(place, write)| match write {
            Write::Event(event) => Some(event_row(batch, lane, place, event)),
            write => row_write(batch, place, write),
        })
        .collect();
    let mut seen: HashSet<&RowKey> = HashSet::with_capacity(rows.len());
    let mut is_last: Vec<bool> = rows.iter().rev().map(|row| seen.insert(&row.at)).collect();
    is_last.reverse();
    let kept = rows.into_iter().zip(is_last).filter(|(_, last)| *last);
    let (seals, mut out): (Vec<RowWrite>, Vec<RowWrite>) = kept
        .map(|(row, _)| row)
        .partition(|r| r.becomes == Becomes::Sealed);
    out.extend(seals);
    out
}

/// `None` for a shard's fact of the resource manager, which `check` has refused before.
fn row_write(batch: &Batch, place: usize, write: &Write) -> Option<RowWrite> {
    let put = |at, value| {
        Some(RowWrite {
            at,
            place,
            becomes: Becomes::Value(value),
        })
    };
    let delete = |at| {
        let becomes = Becomes::Nothing;
        Some(RowWrite { at, place, becomes })
    };
    match (write, &batch.owner) {
        (Write::Progress(progress), _) => put(keys::progress(progress.job), encode(progress)),
        (Write::RemoveProgress(job), _) => delete(keys::progress(*job)),
        (Write::EndedAssignment(piece, place), _) => put(
            keys::ended_assignment_piece(piece.part.job, *place),
            encode(piece),
        ),
        (Write::RemoveEndedAssignment(job, place), _) => delete(keys::ended_assignment_piece(*job, *place)),
        (Write::ClusterState(state), _) => put(keys::cluster_state(&state.cluster), encode(state)),
        (Write::RemoveClusterState(cluster), _) => delete(keys::cluster_state(cluster)),
        (Write::Heartbeat(heartbeat), _) => put(keys::heartbeat(&heartbeat.cluster), encode(heartbeat)),
        (Write::Mark(mark), owner) => put(keys::mark(owner), encode(mark)),
        (Write::NoteEvents(lane), owner) => {
            put(noted(owner, *lane, batch.stamp), encode(&end(batch.stamp, false)))
        }
        (Write::CloseEvents(lane, stamp), owner) => put(
            keys::event_end(owner, *lane, stamp.epoch),
            encode(&end(*stamp, true)),
        ),
        (write, Role::Shard(cluster)) => shard_row(cluster, place, write),
        (_, Role::ResourceManager) => None,
    }
}

fn shard_row(cluster: &ClusterId, place: usize, write: &Write) -> Option<RowWrite> {
    use Becomes::{Nothing, Sealed, Value};
    let (at, becomes) = match write {
        Write::Shard(key, row) => (keys::shard_row(cluster, key), Value(encode(row))),
        Write::RemoveShard(key) => (keys::shard_row(cluster, key), Nothing),
        Write::SealShard => (keys::shard(cluster), Sealed),
        Write::Block(block) => (keys::block(cluster, &block.key), Value(encode(block))),
        Write::RemoveBlock(key) => (keys::block(cluster, key), Nothing),
        Write::Archive(block) => (keys::archived(cluster, &block.key), Value(encode(block))),
        Write::Slice(row) => (keys::slice(cluster, row.job, &row.group), Value(encode(row))),
        Write::RemoveSlice(job, group) => (keys::slice(cluster, *job, group), Nothing),
        Write::Raw(key, bytes) => (raw_key(cluster, key), Value(bytes.clone())),
        Write::Seal(bucket) => (keys::bucket_of_blocks(cluster, *bucket), Sealed),
        Write::Host(host) => (keys::host(cluster, &host.id), Value(encode(host))),
        Write::RemoveHost(id) => (keys::host(cluster, id), Nothing),
        Write::SealHosts => (keys::hosts(cluster), Sealed),
        Write::RemoveHeartbeat => (keys::heartbeat(cluster), Nothing),
        Write::Log(log) => (keys::log(cluster, &log.task()), Value(encode(log))),
        Write::RemoveLog(task) => (keys::log(cluster, task), Nothing),
        Write::KeptRuns(runs) => (keys::kept_runs(runs.job, cluster), Value(encode(runs))),
        Write::Progress(_)
        | Write::RemoveProgress(_)
        | Write::EndedAssignment(..)
        | Write::RemoveEndedAssignment(..)
        | Write::ClusterState(_)
        | Write::RemoveClusterState(_)
        | Write::Heartbeat(_)
        | Write::Mark(_)
        | Write::Event(_)
        | Write::NoteEvents(_)
        | Write::CloseEvents(..) => return None,
    };
    Some(RowWrite { at, place, becomes })
}

fn raw_key(cluster: &ClusterId, key: &RawKey) -> RowKey {
    match key {
        RawKey::Block(key) => keys::block(cluster, key),
        RawKey::Archive(key) => keys::archived(cluster, key),
        RawKey::Shard(key) => keys::shard_row(cluster, key),
    }
}

/// The lane of a batch's events: the one that it notes. A batch without a note has no events, as `check` has seen.
fn lane_of(batch: &Batch) -> u16 {
    let noted = batch.writes.iter().find_map(|write| match write {
        Write::NoteEvents(lane) => Some(*lane),
        _ => None,
    });
    noted.unwrap_or_default()
}

fn event_row(batch: &Batch, lane: u16, place: usize, event: &Event) -> RowWrite {
    let of = EventDay {
        job: event.job,
        writer: batch.owner.clone(),
        day: event_day(event.at),
    };
    let at = EventPlace {
        lane,
        stamp: batch.stamp,
        index: u32::try_from(place).unwrap_or(u32::MAX),
    };
    let cells = keys::events(&of).into_iter().chain(keys::event_place(at));
    RowWrite {
        at: RowKey::new(super::Table::Events, cells),
        place,
        becomes: Becomes::Value(encode(event)),
    }
}

/// The resource manager notes its events beside the ends that it closes: it has no rows that a successor seals.
fn noted(owner: &Role, lane: u16, stamp: Stamp) -> RowKey {
    match owner {
        Role::Shard(cluster) => keys::noted_events(cluster, lane),
        Role::ResourceManager => keys::event_end(owner, lane, stamp.epoch),
    }
}

const fn end(stamp: Stamp, is_closed: bool) -> EventEnd {
    EventEnd { stamp, is_closed }
}
