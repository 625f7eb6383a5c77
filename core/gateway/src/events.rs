//! What happened to a job, the newest first, or in order of time.

use crate::ask;
use crate::error::ApiError;
use crate::lookup;
use crate::page::{self, First, Page, PageRequest};
use crate::port::Facts;
use crate::resource::JobRef;
use echelon_core_model::store::{Answer, Consistency, Event, EventCursor, Query, Role};
use echelon_core_model::{ClusterId, JobId, Timestamp};
use std::cmp::Ordering;

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

/// Events read at once where all are looked at.
const SCAN: u32 = 1000;

/// A page of events, the oldest first, for whoever reads all pages.
///
/// # Errors
/// No such job, a wrong page token or size, or storage.
pub async fn all_events<F: Facts>(
    facts: &F,
    job: &JobRef,
    page: PageRequest,
) -> Result<Page<Event>, ApiError> {
    let limit = page.limit()?;
    let head = lookup::job(facts, job).await?;
    let asked = format!("all events {}", head.job);
    let after = page.place(&asked, cursor)?;
    let rows = events_after(facts, head.job, after, limit.saturating_add(1)).await?;
    let cut = page::cut(rows, limit, &asked, |(at, _)| position(at));
    Ok(Page {
        items: cut.items.into_iter().map(|(_, event)| event).collect(),
        next: cut.next,
        total: None,
        unread: Vec::new(),
    })
}

/// A page of events, the newest first. All events of the job are looked at for each page, and counted; only a page of
/// them is kept.
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
    let from = page.place(&asked, cursor)?;
    let mut first = First::page(limit);
    let mut after = None;
    loop {
        let rows = events_after(facts, head.job, after, SCAN).await?;
        let is_last = rows.len() < usize::try_from(SCAN).unwrap_or(usize::MAX);
        after = rows.last().map(|(at, _)| at.clone());
        for (at, event) in rows {
            let wanted = from.as_ref().is_none_or(|from| at < *from);
            first.look(Newest { at, event }, wanted);
        }
        if is_last {
            break;
        }
    }
    let cut = first.cut(limit, &asked, |found| position(&found.at));
    Ok(Page {
        items: cut.items.into_iter().map(|found| found.event).collect(),
        next: cut.next,
        total: cut.total,
        unread: Vec::new(),
    })
}

/// An event in its place, the newest first.
struct Newest {
    at: EventCursor,
    event: Event,
}

impl PartialEq for Newest {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Newest {}

impl PartialOrd for Newest {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Newest {
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.cmp(&self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorReason;
    use crate::testing::{Memory, run, web};
    use echelon_core_model::{Reason, ReasonCode};

    fn page(store: &mut Memory, job: JobId, asked: PageRequest) -> Result<Page<Event>, ApiError> {
        run(store, move |facts| async move {
            list_events(&facts, &JobRef::Id(job), asked).await
        })
    }

    fn times(page: &Page<Event>) -> Vec<u64> {
        page.items.iter().map(|e| e.at.0).collect()
    }

    #[test]
    fn the_newest_events_come_first_and_all_are_counted() {
        let (mut store, job) = web();
        for at in (0..2500).map(Timestamp) {
            let event = Event {
                job,
                at,
                happened: at,
                instance: None,
                state: None,
                reason: Reason::new(ReasonCode::Running),
                hostname: None,
                task: None,
            };
            let cursor = EventCursor {
                at,
                owner: Role::ResourceManager,
                stamp: 1,
                index: 0,
            };
            store.events.push((cursor, event));
        }
        let asked = |token: &str| PageRequest {
            size: 3,
            token: token.to_owned(),
        };
        let first = page(&mut store, job, asked("")).unwrap();
        assert_eq!((times(&first), first.total), (vec![2499, 2498, 2497], Some(2500)));
        let second = page(&mut store, job, asked(&first.next.unwrap())).unwrap();
        assert_eq!(times(&second), [2496, 2495, 2494]);
        let wrong = page::seal(&format!("events {job}"), "yesterday");
        let refused = page(&mut store, job, asked(&wrong)).unwrap_err();
        assert_eq!(refused.reason, ErrorReason::TokenInvalid);
    }

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
