//! Events of a job, of one writer and one day, and up to where they hold.

use super::{count, one, value};
use crate::StoreError;
use crate::layout::{Table, keys};
use crate::rows::{Cell, Row, RowKey, Rows, Scan};
use echelon_core_model::store::{
    Answer, Consistency, Event, EventDay, EventEnd, EventPlace, Role, Stamp, UnreadRow,
};

const C: Consistency = Consistency::Quorum;

/// Which events are read.
pub(super) struct Page<'a> {
    pub(super) of: &'a EventDay,
    pub(super) lane: Option<u16>,
    pub(super) after: Option<EventPlace>,
    pub(super) limit: u32,
}

/// A page of events in the order of their places.
pub(super) async fn page<R: Rows>(
    rows: &R,
    page: Page<'_>,
    unread: &mut Vec<UnreadRow>,
) -> Result<Answer, StoreError> {
    let partition = keys::events(page.of);
    let mut scan = Scan::partition(Table::Events, partition.clone());
    scan.after = page.after.map(|place| keys::event_place(place).to_vec());
    if let Some(lane) = page.lane {
        let ends = |stamp, index| vec![keys::bucket(lane), Cell::Number(stamp), Cell::Number(index)];
        let begin = ends(i64::MIN, i64::MIN);
        // A place of an earlier lane, or none, leaves the whole lane.
        scan.after = scan.after.max(Some(begin));
        scan.up_to = Some(ends(i64::MAX, i64::MAX));
    }
    let mut out: Vec<(EventPlace, Event)> = Vec::new();
    // A page that is not full is the last one: what cannot be understood takes no place in it.
    loop {
        let left = page.limit.saturating_sub(count(&out));
        scan.limit = Some(left);
        let found = rows.scan(&scan, C).await?;
        for row in &found {
            let cells = partition.iter().chain(&row.key).cloned();
            let place = place(row);
            match value(&RowKey::new(Table::Events, cells), &row.value) {
                Ok(event) => out.extend(place.map(|place| (place, event))),
                Err(row) => unread.push(*row),
            }
        }
        if count(&found) < left || count(&out) >= page.limit {
            return Ok(Answer::Events(out));
        }
        scan.after = found.last().map(|row| row.key.clone());
    }
}

/// The place that a key says; none but a writer's mistake has another form.
fn place(row: &Row) -> Option<EventPlace> {
    let [Cell::Number(lane), Cell::Number(stamp), Cell::Number(index)] = row.key.as_slice() else {
        return None;
    };
    Some(EventPlace {
        lane: u16::try_from(*lane).ok()?,
        stamp: Stamp::of_packed(u64::try_from(*stamp).ok()?),
        index: u32::try_from(*index).ok()?,
    })
}

/// Up to where the events of a lane hold. What a shard has noted is read first: once its successor has closed it, the note
/// may be gone.
pub(super) async fn ends<R: Rows>(rows: &R, writer: &Role, lane: u16) -> Result<Answer, StoreError> {
    let noted: Option<EventEnd> = match writer {
        Role::Shard(cluster) => one(rows, &keys::noted_events(cluster, lane), C).await?,
        Role::ResourceManager => None,
    };
    let partition = keys::event_ends(writer, lane);
    let scan = Scan::partition(Table::EventEnds, partition.clone());
    let mut out: Vec<EventEnd> = Vec::new();
    for row in rows.scan(&scan, C).await? {
        let cells = partition.iter().chain(&row.key).cloned();
        let end = value(&RowKey::new(Table::EventEnds, cells), &row.value);
        out.push(end.map_err(StoreError::Unread)?);
    }
    let is_new = |noted: &EventEnd| out.iter().all(|end| end.stamp.epoch != noted.stamp.epoch);
    let noted = noted.filter(is_new);
    out.extend(noted);
    Ok(Answer::EventEnds(out))
}
