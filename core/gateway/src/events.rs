//! What happened to a job, in order of time.

use crate::ask;
use crate::error::ApiError;
use crate::lookup;
use crate::page::{self, Page, PageRequest};
use crate::port::Facts;
use crate::resource::JobRef;
use echelon_core_model::store::{Answer, Consistency, Event, EventCursor, Query, Role};
use echelon_core_model::{ClusterId, JobId, Timestamp};

/// A cursor as text.
#[must_use]
pub fn position(cursor: &EventCursor) -> String {
    let owner = match &cursor.owner {
        Role::ResourceManager => "r",
        Role::Shard(cluster) => &format!("s{cluster}"),
    };
    format!("{} {} {} {owner}", cursor.at.0, cursor.stamp, cursor.index)
}

/// The cursor of a text.
#[must_use]
pub fn cursor(position: &str) -> Option<EventCursor> {
    let mut parts = position.splitn(4, ' ');
    let at = Timestamp(parts.next()?.parse().ok()?);
    let stamp = parts.next()?.parse().ok()?;
    let index = parts.next()?.parse().ok()?;
    let owner = match parts.next()? {
        "r" => Role::ResourceManager,
        shard => Role::Shard(ClusterId::new(shard.strip_prefix('s')?)),
    };
    Some(EventCursor {
        at,
        owner,
        stamp,
        index,
    })
}

/// Events of a job after a cursor, at most `limit`.
///
/// # Errors
/// Storage.
pub async fn events_after<F: Facts>(
    facts: &F,
    job: JobId,
    after: Option<EventCursor>,
    limit: u32,
) -> Result<Vec<(EventCursor, Event)>, ApiError> {
    let query = Query::Events { job, after, limit };
    match ask::read(facts, query, Consistency::Quorum, "the events").await? {
        Answer::Events(rows) => Ok(rows),
        _ => Err(ask::broken_conflict("the events")),
    }
}

/// A page of events.
///
/// # Errors
/// No such job, a wrong page token or size, or storage.
pub async fn list_events<F: Facts>(
    facts: &F,
    job: &JobRef,
    page: PageRequest,
) -> Result<Page<Event>, ApiError> {
    let limit = page.limit()?;
    let head = lookup::job(facts, job).await?;
    let asked = format!("events {}", head.job);
    let after = page.position(&asked)?.and_then(|p| cursor(&p));
    let rows = events_after(facts, head.job, after, limit.saturating_add(1)).await?;
    let cut = page::cut(rows, limit, &asked, |(at, _)| position(at));
    Ok(Page {
        items: cut.items.into_iter().map(|(_, event)| event).collect(),
        next: cut.next,
        unread: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_read_back() {
        for owner in [Role::ResourceManager, Role::Shard(ClusterId::new("c 1"))] {
            let at = EventCursor {
                at: Timestamp(7),
                owner,
                stamp: -3,
                index: 9,
            };
            assert_eq!(cursor(&position(&at)), Some(at));
        }
        for bad in ["", "1 2 3", "1 2 3 x", "a b c r"] {
            assert_eq!(cursor(bad), None, "{bad}");
        }
    }
}
