//! What no storage takes: too large, out of range, not the owner's. Checked before anything is done, the same for every
//! backend.

use super::decision::{AssignmentRows, Plan, plan};
use super::limits::{BATCH_BYTES, DECIDED_BYTES, OWNED_BYTES, RAW_BYTES, SEQUENCE_END};
use super::write::{RowWrite, row_writes};
use crate::StoreError;
use echelon_core_model::Epoch;
use echelon_core_model::bucket::{BLOCK_BUCKETS, assignment_partition};
use echelon_core_model::spec::MAX_SPEC_BYTES;
use echelon_core_model::start_ban::StartBans;
use echelon_core_model::store::{
    Batch, Decision, MAX_ASSIGNMENT_BYTES, Refusal, RefusedRow, RefusedWhy, Role, Write,
};
use std::collections::BTreeSet;

fn ensure(good: bool, what: &str, why: impl FnOnce() -> String) -> Result<(), StoreError> {
    if good {
        Ok(())
    } else {
        Err(StoreError::refused(RefusedRow {
            row: what.to_owned(),
            place: None,
            why: RefusedWhy::OutOfRange(why()),
        }))
    }
}

/// The refusal of a row that is too large.
fn too_large(
    row: impl FnOnce() -> String,
    place: Option<usize>,
    bytes: usize,
    limit: usize,
) -> Option<RefusedRow> {
    (bytes > limit).then(|| RefusedRow {
        row: row(),
        place,
        why: RefusedWhy::TooLarge { bytes, limit },
    })
}

/// Refuses all of it for the rows that are refused.
fn none_of(rows: Vec<RefusedRow>) -> Result<(), StoreError> {
    if rows.is_empty() {
        Ok(())
    } else {
        Err(StoreError::Refused(Refusal { rows }))
    }
}

fn grows(what: &str, next: u64, expected: u64) -> Result<(), StoreError> {
    ensure(next > expected, what, || {
        format!("{next} must be larger than {expected}, which it replaces")
    })
}

fn epoch(what: &str, epoch: Epoch) -> Result<(), StoreError> {
    ensure((1..Epoch::END).contains(&epoch.0), what, || {
        format!("epoch {epoch} is not between 1 and {}", Epoch::END - 1)
    })
}

/// Checks a decision and says how it is carried out.
pub(crate) fn check_decision(decision: &Decision) -> Result<Plan, StoreError> {
    check_numbers(decision)?;
    let plan = plan(decision);
    match &plan {
        Plan::Row(change) => {
            let limit = match decision {
                Decision::PutSpec { .. } => MAX_SPEC_BYTES,
                _ => DECIDED_BYTES,
            };
            let bytes = change.to.as_ref().map_or(0, |(_, value)| value.len());
            none_of(
                too_large(|| kind(decision).to_owned(), None, bytes, limit)
                    .into_iter()
                    .collect(),
            )?;
        }
        Plan::Pieces(pieces) => {
            none_of(
                too_large(|| kind(decision).to_owned(), None, pieces.bytes(), BATCH_BYTES)
                    .into_iter()
                    .collect(),
            )?;
        }
        Plan::Pools(parts) => {
            let large = parts.largest().and_then(|(part, bytes)| {
                too_large(
                    || format!("part {part} of {}", kind(decision)),
                    None,
                    bytes,
                    BATCH_BYTES,
                )
            });
            none_of(large.into_iter().collect())?;
        }
        Plan::Raise { .. } => {}
        Plan::Assign { put, remove, .. } => {
            let large = put.iter().enumerate().filter_map(|(place, rows)| {
                let row = || format!("assignment {}", rows.all);
                too_large(row, Some(place), rows.bytes(), MAX_ASSIGNMENT_BYTES)
            });
            none_of(large.collect())?;
            let sum = put.iter().map(AssignmentRows::bytes).sum::<usize>() + remove.len() * 64;
            none_of(
                too_large(|| kind(decision).to_owned(), None, sum, BATCH_BYTES)
                    .into_iter()
                    .collect(),
            )?;
        }
    }
    Ok(plan)
}

/// What a decision is about, for people.
const fn kind(decision: &Decision) -> &'static str {
    match decision {
        Decision::PutHead { .. } => "a job's head",
        Decision::RemoveHead { .. } => "the removal of a job's head",
        Decision::PutSpec { .. } => "a job's spec",
        Decision::TakeName { .. } => "the holder of a name",
        Decision::PlanRequest { .. } => "the plan of a request",
        Decision::PutPools { .. } => "the pool tree",
        Decision::PutCluster { .. } => "a cluster",
        Decision::PutControl { .. } => "the switches",
        Decision::PutStartBans { .. } => "where starts are forbidden",
        Decision::TakeEpoch { .. } => "a leadership",
        Decision::RaisePartition { .. } => "an assignment partition's epoch",
        Decision::PutAssignments { .. } => "a batch of assignments",
    }
}

fn check_numbers(decision: &Decision) -> Result<(), StoreError> {
    let what = kind(decision);
    let replaced = |v: &Option<echelon_core_model::Version>| v.map_or(0, |v| v.0);
    match decision {
        Decision::PutHead { head, expected } => grows(what, head.version.0, replaced(expected)),
        Decision::TakeName { holder, expected, .. } => grows(what, holder.version.0, replaced(expected)),
        Decision::PutCluster { cluster, expected } => grows(what, cluster.version.0, replaced(expected)),
        Decision::PutPools { tree, expected } => {
            let next = expected.next();
            // What a version leaves behind is found by counting them.
            ensure(tree.version == next, what, || {
                format!(
                    "version {} must be {next}, one more than what it replaces",
                    tree.version
                )
            })?;
            let misplaced = tree.pools.iter().find(|(path, pool)| **path != pool.path);
            ensure(misplaced.is_none(), what, || {
                let (path, pool) = misplaced.map_or(("", ""), |(path, pool)| (path, &pool.path));
                format!("pool {pool} is under the path {path}")
            })
        }
        Decision::PutControl { control, expected } => grows(what, control.version.0, expected.0),
        Decision::PutStartBans { bans, expected } => {
            epoch(what, bans.stamp.epoch)?;
            ensure(bans.stamp > *expected, what, || {
                format!(
                    "stamp {:?} must be larger than what it replaces, {expected:?}",
                    bans.stamp
                )
            })?;
            let many = bans.clusters.len();
            ensure(many <= StartBans::MOST, what, || {
                format!("{many} clusters are more than {}", StartBans::MOST)
            })
        }
        Decision::PutSpec { version, .. } => grows(what, (*version).into(), 0),
        Decision::TakeEpoch { next, expected, .. } => {
            epoch(what, next.epoch)?;
            grows(what, next.epoch.0, expected.0)
        }
        Decision::RaisePartition {
            epoch: to, expected, ..
        } => {
            epoch(what, *to)?;
            grows(what, to.0, expected.0)
        }
        Decision::PutAssignments {
            partition,
            stamp,
            put,
            remove,
        } => {
            epoch(what, stamp.epoch)?;
            grows(what, stamp.sequence, 0)?;
            let mut seen = BTreeSet::new();
            for job in put.iter().map(|a| a.job).chain(remove.iter().copied()) {
                ensure(assignment_partition(job) == *partition, what, || {
                    let right = assignment_partition(job);
                    format!("job {job} belongs to partition {right}, not {partition}")
                })?;
                ensure(seen.insert(job), what, || format!("job {job} is named twice"))?;
            }
            Ok(())
        }
        Decision::RemoveHead { .. } | Decision::PlanRequest { .. } => Ok(()),
    }
}

/// Checks a batch and says which rows it writes.
pub(crate) fn check_batch(batch: &Batch) -> Result<Vec<RowWrite>, StoreError> {
    const WHAT: &str = "a batch of owned facts";
    let Batch { owner, stamp, writes } = batch;
    epoch(WHAT, stamp.epoch)?;
    ensure(stamp.sequence < SEQUENCE_END, WHAT, || {
        format!(
            "sequence {} is not below {SEQUENCE_END}; take a new epoch",
            stamp.sequence
        )
    })?;
    for (place, write) in writes.iter().enumerate() {
        if !owns(owner, write) {
            let why = format!("{owner:?} does not own what it would write: {}", named(write));
            return Err(StoreError::refused(RefusedRow {
                row: WHAT.to_owned(),
                place: Some(place),
                why: RefusedWhy::NotOwner(why),
            }));
        }
        if let Write::Seal(bucket) = write {
            ensure(*bucket < BLOCK_BUCKETS, WHAT, || {
                format!("bucket {bucket} is not below {BLOCK_BUCKETS}")
            })?;
        }
    }
    check_events(WHAT, batch)?;
    let rows = row_writes(batch);
    let raw = writes.iter().any(|w| matches!(w, Write::Raw(..)));
    let limit = if raw { RAW_BYTES } else { OWNED_BYTES };
    let large = rows.iter().filter_map(|row| {
        let name = || format!("row {} of table {}", row.at, row.at.table.name());
        too_large(name, Some(row.place), row.bytes(), limit)
    });
    none_of(large.collect())?;
    Ok(rows)
}

/// Events without a lane, or of two, would have no order; a leader closes the events of older ones alone.
fn check_events(what: &str, batch: &Batch) -> Result<(), StoreError> {
    let lanes = match &batch.owner {
        Role::Shard(_) => BLOCK_BUCKETS,
        Role::ResourceManager => 1,
    };
    let mut noted: BTreeSet<u16> = BTreeSet::new();
    let mut events = 0;
    for write in &batch.writes {
        let lane = match write {
            Write::Event(_) => {
                events += 1;
                continue;
            }
            Write::NoteEvents(lane) => {
                noted.insert(*lane);
                *lane
            }
            Write::CloseEvents(lane, end) => {
                ensure(end.epoch < batch.stamp.epoch, what, || {
                    format!("events of epoch {} are not of an older leader", end.epoch)
                })?;
                *lane
            }
            _ => continue,
        };
        ensure(lane < lanes, what, || {
            format!("lane {lane} of events is not below {lanes}")
        })?;
    }
    ensure(
        noted.len() <= 1 && (events == 0 || noted.len() == 1),
        what,
        || format!("a batch with {events} events notes {} lanes", noted.len()),
    )
}

/// Whose fact it is.
fn owns(owner: &Role, write: &Write) -> bool {
    match (owner, write) {
        (_, Write::Event(_) | Write::NoteEvents(_) | Write::CloseEvents(..) | Write::Mark(_))
        | (
            Role::ResourceManager,
            Write::Progress(_)
            | Write::RemoveProgress(_)
            | Write::EndedAssignment(..)
            | Write::RemoveEndedAssignment(..)
            | Write::ClusterState(_)
            | Write::RemoveClusterState(_),
        ) => true,
        (Role::Shard(cluster), Write::Heartbeat(heartbeat)) => heartbeat.cluster == *cluster,
        (
            Role::Shard(_),
            Write::Shard(..)
            | Write::RemoveShard(_)
            | Write::SealShard
            | Write::Block(_)
            | Write::RemoveBlock(_)
            | Write::Archive(_)
            | Write::Slice(_)
            | Write::RemoveSlice(..)
            | Write::Raw(..)
            | Write::Seal(_)
            | Write::Host(_)
            | Write::RemoveHost(_)
            | Write::SealHosts
            | Write::RemoveHeartbeat
            | Write::Log(_)
            | Write::RemoveLog(_),
        ) => true,
        (Role::Shard(cluster), Write::KeptRuns(runs)) => runs.cluster == *cluster,
        (
            Role::ResourceManager | Role::Shard(_),
            Write::Progress(_)
            | Write::RemoveProgress(_)
            | Write::EndedAssignment(..)
            | Write::RemoveEndedAssignment(..)
            | Write::ClusterState(_)
            | Write::RemoveClusterState(_)
            | Write::Shard(..)
            | Write::RemoveShard(_)
            | Write::SealShard
            | Write::Block(_)
            | Write::RemoveBlock(_)
            | Write::Archive(_)
            | Write::Slice(_)
            | Write::RemoveSlice(..)
            | Write::Raw(..)
            | Write::Seal(_)
            | Write::Heartbeat(_)
            | Write::Host(_)
            | Write::RemoveHost(_)
            | Write::SealHosts
            | Write::RemoveHeartbeat
            | Write::Log(_)
            | Write::RemoveLog(_)
            | Write::KeptRuns(_),
        ) => false,
    }
}

const fn named(write: &Write) -> &'static str {
    match write {
        Write::Progress(_) | Write::RemoveProgress(_) => "progress of a job",
        Write::EndedAssignment(..) | Write::RemoveEndedAssignment(..) => "the assignment of an ended job",
        Write::ClusterState(_) | Write::RemoveClusterState(_) => "what is observed of a cluster",
        Write::Shard(..) | Write::RemoveShard(_) => "a row that a shard has of itself",
        Write::SealShard => "the seal of a shard's rows",
        Write::Block(_) | Write::RemoveBlock(_) | Write::Archive(_) => "a block of instances",
        Write::Slice(_) | Write::RemoveSlice(..) => "a slice row",
        Write::Raw(..) => "a row that cannot be read",
        Write::Seal(_) => "the seal of a bucket",
        Write::Heartbeat(_) | Write::RemoveHeartbeat => "a heartbeat",
        Write::Mark(_) => "the mark of a role",
        Write::Host(_) | Write::RemoveHost(_) => "a host",
        Write::SealHosts => "the seal of a cluster's hosts",
        Write::Log(_) | Write::RemoveLog(_) => "the end of a log",
        Write::KeptRuns(_) => "the runs whose logs are kept",
        Write::Event(_) => "an event",
        Write::NoteEvents(_) | Write::CloseEvents(..) => "up to where events hold",
    }
}
