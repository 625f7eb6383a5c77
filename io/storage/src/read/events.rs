//! Events of a job: each writer's lie in a partition of its own and are merged here by time. Writers are the resource
//! manager and the shards of all clusters that were ever added (a cluster's row stays when it has left).

use super::{AT_ONCE, cell, clusters, count, value};
use crate::StoreError;
use crate::layout::{Table, keys, number};
use crate::rows::{Cell, Row, RowKey, Rows, Scan};
use echelon_core_model::store::{Answer, Consistency, Event, EventCursor, Role, UnreadRow};
use echelon_core_model::{JobId, Timestamp};
use futures::{StreamExt, TryStreamExt, stream};

/// A page of events after a cursor.
pub(super) async fn page<R: Rows>(
    rows: &R,
    job: JobId,
    after: Option<&EventCursor>,
    limit: u32,
    unread: &mut Vec<UnreadRow>,
) -> Result<Answer, StoreError> {
    let shards = clusters::all(rows, Consistency::Quorum, unread).await?;
    let shards = shards.into_iter().map(|c| Role::Shard(c.id));
    let owners: Vec<Role> = std::iter::once(Role::ResourceManager).chain(shards).collect();
    let pages = owners
        .into_iter()
        .map(|owner| of_owner(rows, job, owner, after, limit));
    let pages: Vec<Events> = stream::iter(pages).buffered(AT_ONCE).try_collect().await?;
    let mut events = Vec::new();
    for page in pages {
        events.extend(page.read);
        unread.extend(page.unread);
    }
    events.sort_by(|(a, _), (b, _)| a.cmp(b));
    events.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(Answer::Events(events))
}

/// Events of one writer.
#[derive(Default)]
struct Events {
    read: Vec<(EventCursor, Event)>,
    unread: Vec<UnreadRow>,
}

async fn of_owner<R: Rows>(
    rows: &R,
    job: JobId,
    owner: Role,
    after: Option<&EventCursor>,
    limit: u32,
) -> Result<Events, StoreError> {
    let partition = keys::events(job, &owner);
    let mut scan = Scan::partition(Table::Events, partition.clone());
    scan.after = after.map(|cursor| start(cursor, &owner));
    let mut out = Events::default();
    // A page that is not full is the last one: what cannot be understood takes no place in it.
    loop {
        let left = limit.saturating_sub(count(&out.read));
        scan.limit = Some(left);
        let found = rows.scan(&scan, Consistency::Quorum).await?;
        for row in &found {
            let cells = partition.iter().chain(&row.key).cloned();
            match value(&RowKey::new(Table::Events, cells), &row.value) {
                Ok(event) => out.read.push((cursor(&owner, row), event)),
                Err(row) => out.unread.push(*row),
            }
        }
        if count(&found) < left || count(&out.read) >= limit {
            return Ok(out);
        }
        scan.after = found.last().map(|row| row.key.clone());
    }
}

/// Where an owner's events begin that come after a cursor. Events of one moment are ordered by their owners.
fn start(cursor: &EventCursor, owner: &Role) -> Vec<Cell> {
    let (stamp, place) = match owner.cmp(&cursor.owner) {
        std::cmp::Ordering::Less => (i64::MAX, i64::MAX),
        std::cmp::Ordering::Equal => (cursor.stamp, cursor.index.into()),
        std::cmp::Ordering::Greater => (i64::MIN, i64::MIN),
    };
    vec![cell(cursor.at.0), Cell::Number(stamp), Cell::Number(place)]
}

fn cursor(owner: &Role, row: &Row) -> EventCursor {
    let at_key = |i: usize| match row.key.get(i) {
        Some(Cell::Number(n)) => *n,
        _ => number(0),
    };
    EventCursor {
        at: Timestamp(u64::try_from(at_key(0)).unwrap_or_default()),
        owner: owner.clone(),
        stamp: at_key(1),
        index: u32::try_from(at_key(2)).unwrap_or(u32::MAX),
    }
}
