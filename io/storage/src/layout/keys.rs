//! The key of each fact's row.

use super::Table;
use crate::rows::{Cell, RowKey};
use echelon_core_model::bucket::{assignment_partition, job_bucket};
use echelon_core_model::instance::{BlockKey, SliceRow};
use echelon_core_model::store::{EventDay, EventPlace, Role, RowSubject, ShardKey};
use echelon_core_model::{ClusterId, Epoch, GroupName, HostId, JobId, MemberId, RequestId, VolumeId};

/// An unsigned number as a cell's: what does not fit is as large as can be (moments after the year 292 million).
pub(crate) fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn job(job: JobId) -> Cell {
    Cell::Bytes(job.0.to_be_bytes().to_vec())
}

fn text(text: impl ToString) -> Cell {
    Cell::Text(text.to_string())
}

/// A leadership's name in keys.
pub(crate) fn role_name(role: &Role) -> String {
    match role {
        Role::ResourceManager => "resource-manager".to_owned(),
        Role::Shard(cluster) => format!("shard/{cluster}"),
    }
}

pub(crate) fn bucket(n: u16) -> Cell {
    Cell::Number(n.into())
}

/// The only partition of a small table.
pub(crate) const ONE: Cell = Cell::Number(0);

/// A bucket of heads, by whose own key its tag is kept.
pub(crate) fn heads(bucket_number: u16) -> RowKey {
    RowKey::new(Table::Heads, [bucket(bucket_number)])
}

pub(crate) fn head(id: JobId) -> RowKey {
    RowKey::new(Table::Heads, [bucket(job_bucket(id)), job(id)])
}

pub(crate) fn spec(id: JobId, version: u32) -> RowKey {
    RowKey::new(Table::Specs, [job(id), Cell::Number(version.into())])
}

pub(crate) fn name(of: &str) -> RowKey {
    RowKey::new(Table::Names, [text(of)])
}

pub(crate) fn request(id: &RequestId) -> RowKey {
    RowKey::new(Table::Requests, [text(id)])
}

/// A part of a pool tree, by the version that wrote it and the digest of what it holds.
pub(crate) fn pool_part(version: i64, part: u16, digest: u128) -> RowKey {
    let cells = [
        Cell::Number(version),
        Cell::Number(part.into()),
        Cell::Bytes(digest.to_be_bytes().to_vec()),
    ];
    RowKey::new(Table::PoolParts, cells)
}

pub(crate) fn pool_index() -> RowKey {
    RowKey::new(Table::PoolIndex, [ONE])
}

/// All rows of a cluster.
pub(crate) fn cluster(id: &ClusterId) -> RowKey {
    RowKey::new(Table::Clusters, [ONE, text(id)])
}

/// The row of a place in the list of them.
pub(crate) fn cluster_piece(id: &ClusterId, place: u32) -> RowKey {
    RowKey::new(Table::Clusters, [ONE, text(id), Cell::Number(place.into())])
}

pub(crate) fn control() -> RowKey {
    RowKey::new(Table::Control, [ONE])
}

pub(crate) fn start_bans() -> RowKey {
    RowKey::new(Table::StartBans, [ONE])
}

pub(crate) fn leadership(role: &Role) -> RowKey {
    RowKey::new(Table::Leaderships, [text(role_name(role))])
}

/// The partition itself; ordered maps keep its epoch there.
pub(crate) fn assignments(partition: u16) -> RowKey {
    RowKey::new(Table::Assignments, [bucket(partition)])
}

/// All rows of a job's assignment.
pub(crate) fn assignment(id: JobId) -> RowKey {
    RowKey::new(Table::Assignments, [bucket(assignment_partition(id)), job(id)])
}

/// The row of a place in the list of them.
pub(crate) fn assignment_piece(id: JobId, place: u32) -> RowKey {
    let cells = [
        bucket(assignment_partition(id)),
        job(id),
        Cell::Number(place.into()),
    ];
    RowKey::new(Table::Assignments, cells)
}

/// All rows of the assignment of an ended job.
pub(crate) fn ended_assignment(id: JobId) -> [Cell; 1] {
    [job(id)]
}

/// The row of a place in the list of them.
pub(crate) fn ended_assignment_piece(id: JobId, place: u32) -> RowKey {
    RowKey::new(Table::EndedAssignments, [job(id), Cell::Number(place.into())])
}

pub(crate) fn progress(id: JobId) -> RowKey {
    RowKey::new(Table::Progress, [bucket(job_bucket(id)), job(id)])
}

pub(crate) fn cluster_state(id: &ClusterId) -> RowKey {
    RowKey::new(Table::ClusterStates, [ONE, text(id)])
}

/// All that a shard remembers of itself; ordered maps keep there what its last seal hides.
pub(crate) fn shard(id: &ClusterId) -> RowKey {
    RowKey::new(Table::Shards, [text(id)])
}

pub(crate) fn shard_row(id: &ClusterId, key: &ShardKey) -> RowKey {
    let (kind, of) = match key {
        ShardKey::Own => ("own", ""),
        ShardKey::Host(name) => ("host", name.as_str()),
        ShardKey::Agent(id) => ("agent", id.as_str()),
        ShardKey::Volume(id) => ("volume", id.as_str()),
    };
    RowKey::new(Table::Shards, [text(id), text(kind), text(of)])
}

/// Which row of a shard's a key names; `None`: one of a kind that this build does not know.
pub(crate) fn shard_key(key: &[Cell]) -> Option<ShardKey> {
    let [Cell::Text(kind), Cell::Text(of)] = key else {
        return None;
    };
    Some(match kind.as_str() {
        "own" => ShardKey::Own,
        "host" => ShardKey::Host(of.clone()),
        "agent" => ShardKey::Agent(HostId::new(of)),
        "volume" => ShardKey::Volume(VolumeId::new(of)),
        _ => return None,
    })
}

/// Whether a row of a shard's is its own.
pub(crate) fn is_own(key: &[Cell]) -> bool {
    matches!(key, [Cell::Text(kind), _] if kind == "own")
}

pub(crate) fn heartbeat(id: &ClusterId) -> RowKey {
    RowKey::new(Table::Heartbeats, [text(id)])
}

pub(crate) fn mark(role: &Role) -> RowKey {
    RowKey::new(Table::Marks, [text(role_name(role))])
}

/// A bucket of blocks and slice rows.
pub(crate) fn instances(id: &ClusterId, n: u16) -> [Cell; 2] {
    [text(id), bucket(n)]
}

/// The bucket itself; ordered maps keep there what its last seal hides.
pub(crate) fn bucket_of_blocks(id: &ClusterId, n: u16) -> RowKey {
    RowKey::new(Table::Instances, instances(id, n))
}

pub(crate) fn block(id: &ClusterId, key: &BlockKey) -> RowKey {
    let [cluster, bucket] = instances(id, key.bucket());
    let cells = [
        cluster,
        bucket,
        job(key.job),
        text(&key.group),
        Cell::Number(key.number.into()),
    ];
    RowKey::new(Table::Instances, cells)
}

pub(crate) fn slice(id: &ClusterId, of: JobId, group: &GroupName) -> RowKey {
    let key = BlockKey {
        job: of,
        group: group.clone(),
        number: SliceRow::BLOCK,
    };
    block(id, &key)
}

/// What a row is about, as its key says.
pub(crate) fn subject(at: &RowKey) -> RowSubject {
    let job = |cell: Option<&Cell>| match cell {
        Some(Cell::Bytes(bytes)) => {
            let bytes: [u8; 16] = bytes.as_slice().try_into().ok()?;
            Some(JobId(u128::from_be_bytes(bytes)))
        }
        _ => None,
    };
    let of_job = |cell| job(cell).map_or(RowSubject::Other, RowSubject::Job);
    match (at.table, at.cells.as_slice()) {
        (Table::Heads | Table::Progress, [_, cell]) | (Table::Assignments, [_, cell, _]) => {
            of_job(Some(cell))
        }
        (Table::Instances, [_, _, of, Cell::Text(group), Cell::Number(n)]) => {
            let key = job(Some(of)).zip(u32::try_from(*n).ok());
            key.map_or(RowSubject::Other, |(job, number)| {
                RowSubject::Block(BlockKey {
                    job,
                    group: GroupName::new(group),
                    number,
                })
            })
        }
        (Table::Shards, [_, key @ ..]) => shard_key(key).map_or(RowSubject::Other, RowSubject::Shard),
        (
            Table::Specs
            | Table::EndedAssignments
            | Table::Archive
            | Table::Events
            | Table::Logs
            | Table::KeptRuns,
            cells,
        ) => of_job(cells.first()),
        _ => RowSubject::Other,
    }
}

/// A job's archive at a cluster.
pub(crate) fn archive(id: &ClusterId, of: JobId) -> [Cell; 2] {
    [job(of), text(id)]
}

pub(crate) fn archived(id: &ClusterId, key: &BlockKey) -> RowKey {
    let [of, cluster] = archive(id, key.job);
    let cells = [of, cluster, text(&key.group), Cell::Number(key.number.into())];
    RowKey::new(Table::Archive, cells)
}

/// The partition of all hosts of a cluster.
pub(crate) fn hosts(id: &ClusterId) -> RowKey {
    RowKey::new(Table::Hosts, [text(id)])
}

pub(crate) fn host(id: &ClusterId, host: &HostId) -> RowKey {
    RowKey::new(Table::Hosts, [text(id), text(host)])
}

/// What is kept of one task's logs.
pub(crate) fn log(id: &ClusterId, task: &MemberId) -> RowKey {
    RowKey::new(Table::Logs, [job(task.run.instance.job), text(id), text(task)])
}

/// The runs of a job of which logs are kept, at all clusters.
pub(crate) fn all_kept_runs(of: JobId) -> [Cell; 1] {
    [job(of)]
}

pub(crate) fn kept_runs(of: JobId, id: &ClusterId) -> RowKey {
    RowKey::new(Table::KeptRuns, [job(of), text(id)])
}

/// A job's events of one writer and one day.
pub(crate) fn events(of: &EventDay) -> [Cell; 3] {
    [
        job(of.job),
        text(role_name(&of.writer)),
        Cell::Number(of.day.into()),
    ]
}

/// The place of an event among those.
pub(crate) fn event_place(place: EventPlace) -> [Cell; 3] {
    [
        bucket(place.lane),
        Cell::Number(place.stamp.packed()),
        Cell::Number(place.index.into()),
    ]
}

/// Up to where events hold in a lane, by epoch.
pub(crate) fn event_ends(writer: &Role, lane: u16) -> [Cell; 2] {
    [text(role_name(writer)), bucket(lane)]
}

pub(crate) fn event_end(writer: &Role, lane: u16, epoch: Epoch) -> RowKey {
    let [writer, lane] = event_ends(writer, lane);
    RowKey::new(Table::EventEnds, [writer, lane, Cell::Number(number(epoch.0))])
}

/// What a shard notes of the events of a bucket, behind all of the bucket's blocks: it is visible together with what the events
/// tell of, and hidden with that. No job has this id.
pub(crate) fn noted_events(id: &ClusterId, n: u16) -> RowKey {
    let [cluster, bucket] = instances(id, n);
    let cells = [cluster, bucket, no_job(), text(""), Cell::Number(0)];
    RowKey::new(Table::Instances, cells)
}

/// Whether a row of a bucket is that note.
pub(crate) fn is_noted_events(key: &[Cell]) -> bool {
    key.first() == Some(&no_job())
}

fn no_job() -> Cell {
    Cell::Bytes(vec![u8::MAX; 16])
}
