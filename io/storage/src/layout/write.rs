//! A batch of owned facts as rows.

use super::keys;
use super::table::Ownership;
use crate::rows::{Cell, RowKey};
use echelon_core_model::ClusterId;
use echelon_core_model::store::{Batch, Event, Role, Write};
use echelon_proto::convert::encode;
use std::collections::BTreeMap;

/// A row to write, or to delete, under the batch's stamp.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowWrite {
    pub at: RowKey,
    /// `None`: delete.
    pub value: Option<Vec<u8>>,
}

impl RowWrite {
    /// How long it stays by itself, in milliseconds; `None`: until it is deleted.
    pub const fn keep_ms(&self) -> Option<u64> {
        match self.at.table.columns().ownership {
            Ownership::Owned { keep_ms } => keep_ms,
            Ownership::Decided { .. } => None,
        }
    }
}

/// The rows of a batch whose writes are its owner's, in their order; of two to one row the last.
pub(crate) fn row_writes(batch: &Batch) -> Vec<RowWrite> {
    let rows: Vec<RowWrite> = batch
        .writes
        .iter()
        .enumerate()
        .filter_map(|(place, write)| row_write(batch, place, write))
        .collect();
    let last: BTreeMap<&RowKey, usize> = rows.iter().enumerate().map(|(i, row)| (&row.at, i)).collect();
    let kept = rows
        .iter()
        .enumerate()
        .filter(|(i, row)| last.get(&row.at) == Some(i));
    kept.map(|(_, row)| row.clone()).collect()
}

/// `None` for a shard's fact of the resource manager, which `check` has refused before.
fn row_write(batch: &Batch, place: usize, write: &Write) -> Option<RowWrite> {
    let put = |at, value| {
        Some(RowWrite {
            at,
            value: Some(value),
        })
    };
    let delete = |at| Some(RowWrite { at, value: None });
    match (write, &batch.owner) {
        (Write::Progress(progress), _) => put(keys::progress(progress.job), encode(progress)),
        (Write::RemoveProgress(job), _) => delete(keys::progress(*job)),
        (Write::ClusterState(state), _) => put(keys::cluster_state(&state.cluster), encode(state)),
        (Write::Heartbeat(heartbeat), _) => put(keys::heartbeat(&heartbeat.cluster), encode(heartbeat)),
        (Write::Event(event), _) => put(event_key(batch, place, event), encode(event)),
        (write, Role::Shard(cluster)) => shard_row(cluster, write),
        (_, Role::ResourceManager) => None,
    }
}

fn shard_row(cluster: &ClusterId, write: &Write) -> Option<RowWrite> {
    let (at, value) = match write {
        Write::Shard(row) => (keys::shard(cluster), Some(encode(row))),
        Write::Block(block) => (keys::block(cluster, &block.key), Some(encode(block))),
        Write::RemoveBlock(key) => (keys::block(cluster, key), None),
        Write::Archive(block) => (keys::archived(cluster, &block.key), Some(encode(block))),
        Write::Slice(row) => (keys::slice(cluster, row.job, &row.group), Some(encode(row))),
        Write::RemoveSlice(job, group) => (keys::slice(cluster, *job, group), None),
        Write::Host(host) => (keys::host(cluster, &host.id), Some(encode(host))),
        Write::RemoveHost(id) => (keys::host(cluster, id), None),
        Write::Progress(_)
        | Write::RemoveProgress(_)
        | Write::ClusterState(_)
        | Write::Heartbeat(_)
        | Write::Event(_) => return None,
    };
    Some(RowWrite { at, value })
}

fn event_key(batch: &Batch, place: usize, event: &Event) -> RowKey {
    let [job, owner] = keys::events(event.job, &batch.owner);
    let place = i64::try_from(place).unwrap_or(i64::MAX);
    let cells = [
        job,
        owner,
        Cell::Number(keys::number(event.at.0)),
        Cell::Number(batch.stamp.packed()),
        Cell::Number(place),
    ];
    RowKey::new(super::Table::Events, cells)
}
