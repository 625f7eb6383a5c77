//! Answers to queries, made from rows: the same for every backend. Owned facts are always read from a majority, decided
//! ones as surely as was asked.
//!
//! What one row costs that cannot be understood:
//!
//! | read | is left out, and named with its bytes |
//! | --- | --- |
//! | one row: a head, a spec, a name, a request, the switches, where starts are forbidden, a leadership, a mark, a task's logs | all that was asked for |
//! | the pool tree, of an index and its parts | all of it |
//! | heads, progress, contact of clusters, heartbeats, hosts, kept runs, events, blocks and slice rows | the row |
//! | jobs with their progress | the job |
//! | assignments, of some rows each | the assignment |
//! | clusters, of some rows each | the cluster |
//! | what a shard remembers | the row; all of it for its own row, and for one of an unknown kind |
//!
//! A list that lost something is `Partial`: its reader decides whether it can do without. Bytes of a file that are no row at all are a
//! damaged file, and its page is found at the start.

mod assignments;
mod blocks;
mod clusters;
mod events;
mod jobs;
mod pools;

pub(crate) use pools::{TreeCache, index};

use crate::StoreError;
use crate::layout::{Table, keys};
use crate::rows::{Cell, Row, RowKey, Rows, Scan};
use echelon_core_model::bucket::job_buckets;
use echelon_core_model::control::Control;
use echelon_core_model::start_ban::StartBans;
use echelon_core_model::store::{
    Answer, Changes, Consistency, Decision, Leadership, Query, Reading, RowSubject, ShardKey, ShardRow,
    Stamp, UnreadRow,
};
use echelon_core_model::{ClusterId, HostId};
use echelon_proto::convert::{DecodeError, Wire, decode};

/// Reads that are under way at the same time for one query.
pub(super) const AT_ONCE: usize = 32;

/// Answers a query.
pub(crate) async fn read<R: Rows>(
    rows: &R,
    query: &Query,
    consistency: Consistency,
    trees: &TreeCache,
) -> Result<Reading, StoreError> {
    let mut unread = Vec::new();
    let answer = answer(rows, query, (consistency, trees), &mut unread).await?;
    Ok(Reading { answer, unread })
}

async fn answer<R: Rows>(
    rows: &R,
    query: &Query,
    (consistency, trees): (Consistency, &TreeCache),
    unread: &mut Vec<UnreadRow>,
) -> Result<Answer, StoreError> {
    match query {
        Query::Head(_)
        | Query::Heads(_)
        | Query::Spec(..)
        | Query::Name(_)
        | Query::Request(_)
        | Query::Pools
        | Query::Assignment(_)
        | Query::Assignments(_)
        | Query::Changes(_)
        | Query::Clusters
        | Query::Control
        | Query::StartBans
        | Query::Leadership(_) => decided(rows, query, (consistency, trees), unread).await,
        Query::Jobs { filter, after, limit } => {
            let page = jobs::Page {
                filter,
                after: *after,
                limit: *limit,
            };
            jobs::page(rows, page, consistency, unread).await
        }
        Query::Events {
            of,
            lane,
            after,
            limit,
        } => {
            let page = events::Page {
                of,
                lane: *lane,
                after: *after,
                limit: *limit,
            };
            events::page(rows, page, unread).await
        }
        Query::EventEnds(writer, lane) => events::ends(rows, writer, *lane).await,
        Query::BlockBucket(cluster, bucket) => blocks::bucket(rows, cluster, *bucket, unread).await,
        Query::GroupBlocks {
            cluster,
            job,
            group,
            first,
            last,
        } => blocks::group(rows, cluster, (*job, group), *first..=*last, unread).await,
        Query::Mark(_)
        | Query::Progress(_)
        | Query::ProgressBucket(_)
        | Query::ClusterStates
        | Query::Shard(_)
        | Query::Heartbeats
        | Query::KeptRuns(_)
        | Query::KeptLog(..)
        | Query::Hosts { .. } => owned(rows, query, unread).await,
    }
}

/// What a decision compares with, in the answer of the query that reads it; of a partition of assignments the stamp alone.
pub(crate) async fn present<R: Rows>(
    rows: &R,
    decision: &Decision,
    consistency: Consistency,
    trees: &TreeCache,
) -> Result<Answer, StoreError> {
    let query = match decision {
        Decision::PutHead { head, .. } => Query::Head(head.job),
        Decision::RemoveHead { job, .. } => Query::Head(*job),
        Decision::PutSpec { job, version, .. } => Query::Spec(*job, *version),
        Decision::TakeName { name, .. } => Query::Name(name.clone()),
        Decision::PlanRequest { id, .. } => Query::Request(id.clone()),
        Decision::PutPools { .. } => Query::Pools,
        Decision::PutControl { .. } => Query::Control,
        Decision::PutStartBans { .. } => Query::StartBans,
        Decision::TakeEpoch { role, .. } => Query::Leadership(role.clone()),
        Decision::PutCluster { cluster, .. } => {
            let found = clusters::one(rows, &cluster.id, consistency).await?;
            return Ok(Answer::Clusters(found.into_iter().collect()));
        }
        Decision::RaisePartition { partition, .. } | Decision::PutAssignments { partition, .. } => {
            let (stamp, _) = rows.assignments(*partition, consistency).await?;
            return Ok(Answer::Assignments(stamp, Vec::new()));
        }
    };
    answer(rows, &query, (consistency, trees), &mut Vec::new()).await
}

async fn decided<R: Rows>(
    rows: &R,
    query: &Query,
    (c, trees): (Consistency, &TreeCache),
    unread: &mut Vec<UnreadRow>,
) -> Result<Answer, StoreError> {
    Ok(match query {
        Query::Head(job) => Answer::Head(one(rows, &keys::head(*job), c).await?),
        Query::Heads(bucket) => {
            let scan = Scan::partition(Table::Heads, [keys::bucket(*bucket)]);
            Answer::Heads(all(rows, &scan, c, unread).await?)
        }
        Query::Spec(job, version) => Answer::Spec(one(rows, &keys::spec(*job, *version), c).await?),
        Query::Name(name) => Answer::Name(one(rows, &keys::name(name), c).await?),
        Query::Request(id) => Answer::Request(one(rows, &keys::request(id), c).await?),
        Query::Assignment(job) => {
            let found = rows.scan(&assignments::scan(*job), c).await?;
            let mut of_job = assignments::joined(&assignments::Place::of(*job), &found, unread)?;
            if found.is_empty() {
                // It is written there before it is removed here.
                let found = rows
                    .scan(&assignments::scan_ended(*job), Consistency::Quorum)
                    .await?;
                of_job = assignments::joined(&assignments::Place::Ended(*job), &found, unread)?;
            }
            Answer::Assignments(Stamp::default(), of_job)
        }
        Query::Assignments(partition) => {
            let (stamp, found) = rows.assignments(*partition, c).await?;
            let place = assignments::Place::Partition(*partition);
            Answer::Assignments(stamp, assignments::joined(&place, &found, unread)?)
        }
        Query::Changes(partition) => {
            let buckets: Vec<u16> = job_buckets(*partition).collect();
            Answer::Changes(Changes {
                assignments: rows.last_write(*partition, c).await?,
                heads: rows.head_tags(&buckets, c).await?,
            })
        }
        Query::Clusters => Answer::Clusters(clusters::all(rows, c, unread).await?),
        Query::Control => {
            let found: Option<Control> = one(rows, &keys::control(), c).await?;
            Answer::Control(found.unwrap_or_default())
        }
        Query::StartBans => {
            let found: Option<StartBans> = one(rows, &keys::start_bans(), c).await?;
            Answer::StartBans(found.unwrap_or_default())
        }
        Query::Leadership(role) => {
            let found: Option<Leadership> = one(rows, &keys::leadership(role), c).await?;
            Answer::Leadership(found.unwrap_or_default())
        }
        _ => Answer::Pools(pools::tree(rows, trees, c).await?),
    })
}

async fn owned<R: Rows>(rows: &R, query: &Query, unread: &mut Vec<UnreadRow>) -> Result<Answer, StoreError> {
    const C: Consistency = Consistency::Quorum;
    Ok(match query {
        Query::Mark(role) => Answer::Mark(one(rows, &keys::mark(role), C).await?),
        Query::Progress(job) => {
            let found = some(rows, &keys::progress(*job), C, unread).await?;
            Answer::Progress(found.into_iter().collect())
        }
        Query::ProgressBucket(bucket) => {
            let scan = Scan::partition(Table::Progress, [keys::bucket(*bucket)]);
            Answer::Progress(all(rows, &scan, C, unread).await?)
        }
        Query::ClusterStates => {
            let scan = Scan::partition(Table::ClusterStates, [keys::ONE]);
            Answer::ClusterStates(all(rows, &scan, C, unread).await?)
        }
        Query::Shard(cluster) => Answer::Shard(shard(rows, cluster, unread).await?),
        Query::Hosts {
            cluster,
            after,
            limit,
        } => hosts(rows, cluster, after.as_ref(), *limit, unread).await?,
        Query::KeptRuns(job) => {
            let scan = Scan::partition(Table::KeptRuns, keys::all_kept_runs(*job));
            Answer::KeptRuns(all(rows, &scan, C, unread).await?)
        }
        Query::KeptLog(cluster, task) => Answer::KeptLog(one(rows, &keys::log(cluster, task), C).await?),
        // Few rows, one a cluster: the whole table.
        _ => Answer::Heartbeats(all(rows, &Scan::partition(Table::Heartbeats, []), C, unread).await?),
    })
}

/// What a shard remembers of itself, and the rows of it that cannot be understood. Its own row tells how new the others are,
/// and of a row of an unknown kind nobody can say what its absence means: without one of these nothing is read.
async fn shard<R: Rows>(
    rows: &R,
    cluster: &ClusterId,
    unread: &mut Vec<UnreadRow>,
) -> Result<ShardRow, StoreError> {
    let of = keys::shard(cluster);
    let scan = Scan::partition(Table::Shards, of.cells.clone());
    let mut whole = ShardRow::default();
    for row in rows.scan(&scan, Consistency::Quorum).await? {
        let at = RowKey::new(Table::Shards, of.cells.iter().chain(&row.key).cloned());
        match value::<ShardRow>(&at, &row.value) {
            Ok(part) if keys::is_own(&row.key) => whole.extend(&ShardKey::Own, part),
            Ok(part) => whole.extend_lists(part),
            Err(row) => match row.subject {
                RowSubject::Shard(ShardKey::Own) | RowSubject::Other => return Err(StoreError::Unread(row)),
                _ => unread.push(*row),
            },
        }
    }
    Ok(whole)
}

async fn hosts<R: Rows>(
    rows: &R,
    cluster: &ClusterId,
    after: Option<&HostId>,
    limit: u32,
    unread: &mut Vec<UnreadRow>,
) -> Result<Answer, StoreError> {
    let mut scan = Scan::partition(Table::Hosts, [Cell::Text(cluster.to_string())]);
    scan.after = after.map(|id| vec![Cell::Text(id.to_string())]);
    let mut out = Vec::new();
    // A page that is not full is the last one: what cannot be understood takes no place in it.
    loop {
        let left = limit.saturating_sub(count(&out));
        scan.limit = Some(left);
        let found = rows.scan(&scan, Consistency::Quorum).await?;
        out.extend(decoded(Table::Hosts, &scan.partition, &found, unread));
        if count(&found) < left || count(&out) >= limit {
            return Ok(Answer::Hosts(out));
        }
        scan.after = found.last().map(|row| row.key.clone());
    }
}

fn count<T>(of: &[T]) -> u32 {
    u32::try_from(of.len()).unwrap_or(u32::MAX)
}

/// One fact, if it is there.
pub(super) async fn one<R: Rows, T: Wire>(
    rows: &R,
    at: &RowKey,
    c: Consistency,
) -> Result<Option<T>, StoreError> {
    let row = rows.row(at, c).await?;
    row.map(|row| value(at, &row.value))
        .transpose()
        .map_err(StoreError::Unread)
}

/// One fact of a list, if it is there and can be understood.
async fn some<R: Rows, T: Wire>(
    rows: &R,
    at: &RowKey,
    c: Consistency,
    unread: &mut Vec<UnreadRow>,
) -> Result<Option<T>, StoreError> {
    match one(rows, at, c).await {
        Err(StoreError::Unread(row)) => {
            unread.push(*row);
            Ok(None)
        }
        done => done,
    }
}

/// The facts of a scan that can be understood, in order; the others are named.
pub(super) async fn all<R: Rows, T: Wire>(
    rows: &R,
    scan: &Scan,
    c: Consistency,
    unread: &mut Vec<UnreadRow>,
) -> Result<Vec<T>, StoreError> {
    let found = rows.scan(scan, c).await?;
    Ok(decoded(scan.table, &scan.partition, &found, unread))
}

pub(super) fn decoded<T: Wire>(
    table: Table,
    partition: &[Cell],
    rows: &[Row],
    unread: &mut Vec<UnreadRow>,
) -> Vec<T> {
    let mut out = Vec::with_capacity(rows.len());
    for row in rows {
        let cells = partition.iter().chain(&row.key).cloned();
        match value(&RowKey::new(table, cells), &row.value) {
            Ok(fact) => out.push(fact),
            Err(row) => unread.push(*row),
        }
    }
    out
}

/// What a row says, or the row as one that cannot be understood.
pub(super) fn value<T: Wire>(at: &RowKey, bytes: &[u8]) -> Result<T, Box<UnreadRow>> {
    decode(bytes).map_err(|error| {
        Box::new(UnreadRow {
            table: at.table.name(),
            key: at.to_string(),
            subject: keys::subject(at),
            bytes: bytes.to_vec(),
            why: match &error {
                DecodeError::Malformed(cause) => format!("{error}: {cause}"),
                DecodeError::Field(_) => error.to_string(),
            },
        })
    })
}
