//! What happened to a job, the newest first, or in order of time. Events that do not hold are left out: see
//! [`event_feed`](crate::event_feed).

use crate::error::ApiError;
use crate::event_feed::{EventLane, ends, hold, read, writers};
use crate::lookup;
use crate::page::{First, Page, PageRequest};
use crate::port::Facts;
use crate::resource::JobRef;
use echelon_core_model::store::{Event, EventDay, EventEnd, EventPlace, Query, Role, Stamp, event_day};
use echelon_core_model::{ClusterId, JobId, Timestamp};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Events of one read.
const PAGE: u32 = 1000;
/// Storage keeps events for 30 days.
const KEPT_DAYS: u32 = 30;

/// The place of an event in the list of a job's events, in order of time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ListPlace {
    at: Timestamp,
    writer: Role,
    place: EventPlace,
}

impl ListPlace {
    fn text(&self) -> String {
        let writer = match &self.writer {
            Role::ResourceManager => "r",
            Role::Shard(cluster) => &format!("s{cluster}"),
        };
        let EventPlace { lane, stamp, index } = self.place;
        format!("{} {lane} {} {index} {writer}", self.at.0, stamp.packed())
    }

    fn of_text(text: &str) -> Option<Self> {
        let mut parts = text.splitn(5, ' ');
        let at = Timestamp(parts.next()?.parse().ok()?);
        let place = EventPlace {
            lane: parts.next()?.parse().ok()?,
            stamp: Stamp::of_packed(parts.next()?.parse().ok()?),
            index: parts.next()?.parse().ok()?,
        };
        let writer = match parts.next()? {
            "r" => Role::ResourceManager,
            shard => Role::Shard(ClusterId::new(shard.strip_prefix('s')?)),
        };
        Some(Self { at, writer, place })
    }
}

/// An event in its place; only the places are compared.
struct Listed<P> {
    at: P,
    event: Event,
}

impl<P: Ord> PartialEq for Listed<P> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl<P: Ord> Eq for Listed<P> {}

impl<P: Ord> PartialOrd for Listed<P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<P: Ord> Ord for Listed<P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

/// Reads the events of a job day by day.
struct Reader<'a, F> {
    facts: &'a F,
    job: JobId,
    writers: Vec<Role>,
    ends: BTreeMap<EventLane, Vec<EventEnd>>,
}

impl<'a, F: Facts> Reader<'a, F> {
    async fn of(facts: &'a F, job: JobId) -> Result<Self, ApiError> {
        Ok(Self {
            facts,
            job,
            writers: writers(facts, job).await?,
            ends: BTreeMap::new(),
        })
    }

    /// Hands on each event of a day that holds, in no order over its writers and lanes.
    async fn each_of(&mut self, day: u32, mut take: impl FnMut(ListPlace, Event)) -> Result<(), ApiError> {
        for writer in self.writers.clone() {
            let of = EventDay {
                job: self.job,
                writer,
                day,
            };
            let mut after = None;
            loop {
                let query = Query::Events {
                    of: of.clone(),
                    lane: None,
                    after,
                    limit: PAGE,
                };
                let rows = read(self.facts, query).await?;
                let is_last = rows.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
                after = rows.last().map(|(place, _)| *place).or(after);
                for (place, event) in rows {
                    if self.holds(&of.writer, place).await? {
                        let writer = of.writer.clone();
                        let at = event.at;
                        take(ListPlace { at, writer, place }, event);
                    }
                }
                if is_last {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn holds(&mut self, writer: &Role, place: EventPlace) -> Result<bool, ApiError> {
        let of = EventLane {
            writer: writer.clone(),
            lane: place.lane,
        };
        if !self.ends.contains_key(&of) {
            let ends = ends(self.facts, &of).await?;
            self.ends.insert(of.clone(), ends);
        }
        Ok(self.ends.get(&of).is_some_and(|ends| hold(ends, place.stamp)))
    }
}

/// The days in which a job may have events, by writers' clocks that may be a day apart.
fn days(created: Timestamp, now: Timestamp) -> std::ops::RangeInclusive<u32> {
    let (first, last) = (event_day(created), event_day(now).saturating_add(1));
    first.saturating_sub(1).max(last.saturating_sub(KEPT_DAYS + 2))..=last.max(first)
}

/// A page of events, the oldest first, for whoever reads all pages.
///
/// # Errors
/// No such job, a wrong page token or size, or storage.
pub async fn all_events<F: Facts>(
    facts: &F,
    job: &JobRef,
    page: PageRequest,
    now: Timestamp,
) -> Result<Page<Event>, ApiError> {
    let limit = page.limit()?;
    let head = lookup::job(facts, job).await?;
    let asked = format!("all events {}", head.job);
    let after = page.place(&asked, ListPlace::of_text)?;
    let mut first = First::page(limit);
    let mut found = 0;
    let mut reader = Reader::of(facts, head.job).await?;
    let begin = after.as_ref().map_or(0, |after| event_day(after.at));
    for day in days(head.job.created_at(), now).filter(|day| *day >= begin) {
        reader
            .each_of(day, |at, event| {
                let wanted = after.as_ref().is_none_or(|after| at > *after);
                found += u32::from(wanted);
                first.look(Listed { at, event }, wanted);
            })
            .await?;
        // What was written on a later day comes later.
        if found > limit {
            break;
        }
    }
    let cut = first.cut(limit, &asked, |found| found.at.text());
    Ok(Page {
        items: cut.items.into_iter().map(|found| found.event).collect(),
        next: cut.next,
        total: None,
        unread: Vec::new(),
    })
}

/// A page of events, the newest first. All events of the job are looked at for each page, and counted; only a
/// page of them is kept.
///
/// # Errors
/// No such job, a wrong page token or size, or storage.
pub async fn list_events<F: Facts>(
    facts: &F,
    job: &JobRef,
    page: PageRequest,
    now: Timestamp,
) -> Result<Page<Event>, ApiError> {
    let limit = page.limit()?;
    let head = lookup::job(facts, job).await?;
    let asked = format!("events {}", head.job);
    let from = page.place(&asked, ListPlace::of_text)?;
    let mut first = First::page(limit);
    let mut reader = Reader::of(facts, head.job).await?;
    for day in days(head.job.created_at(), now) {
        reader
            .each_of(day, |at, event| {
                let wanted = from.as_ref().is_none_or(|from| at < *from);
                let at = Reverse(at);
                first.look(Listed { at, event }, wanted);
            })
            .await?;
    }
    let cut = first.cut(limit, &asked, |found| found.at.0.text());
    Ok(Page {
        items: cut.items.into_iter().map(|found| found.event).collect(),
        next: cut.next,
        total: cut.total,
        unread: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorReason;
    use crate::page;
    use crate::testing::{Memory, commit_events, run, web};
    use echelon_core_model::store::Write;

    const DAY: u64 = 24 * 3600 * 1000;

    fn newest(store: &mut Memory, job: JobId, asked: PageRequest) -> Result<Page<Event>, ApiError> {
        run(store, move |facts| async move {
            list_events(&facts, &JobRef::Id(job), asked, Timestamp(3 * DAY)).await
        })
    }

    fn oldest(store: &mut Memory, job: JobId, asked: PageRequest) -> Result<Page<Event>, ApiError> {
        run(store, move |facts| async move {
            all_events(&facts, &JobRef::Id(job), asked, Timestamp(3 * DAY)).await
        })
    }

    fn times(page: &Page<Event>) -> Vec<u64> {
        page.items.iter().map(|e| e.at.0).collect()
    }

    fn asked(token: &str) -> PageRequest {
        PageRequest {
            size: 3,
            token: token.to_owned(),
        }
    }

    #[test]
    fn the_newest_events_come_first_and_all_are_counted() {
        let (mut store, job) = web();
        for (sequence, at) in (1..).zip(0..2500) {
            commit_events(
                &mut store.model,
                &Role::ResourceManager,
                (1, sequence),
                (0, job),
                &[at * DAY / 1000],
            );
        }
        let first = newest(&mut store, job, asked("")).unwrap();
        let last = |n: u64| (2499 - n) * DAY / 1000;
        assert_eq!(
            (times(&first), first.total),
            (vec![last(0), last(1), last(2)], Some(2500))
        );
        let second = newest(&mut store, job, asked(&first.next.unwrap())).unwrap();
        assert_eq!(times(&second), [last(3), last(4), last(5)]);
        let wrong = page::seal(&format!("events {job}"), "yesterday");
        let refused = newest(&mut store, job, asked(&wrong)).unwrap_err();
        assert_eq!(refused.reason, ErrorReason::TokenInvalid);
    }

    #[test]
    fn pages_from_the_oldest_on_have_each_event_once() {
        let (mut store, job) = web();
        for (sequence, at) in (1..).zip([5, 7, 7, DAY + 1, DAY + 2, 2 * DAY, 2 * DAY]) {
            commit_events(
                &mut store.model,
                &Role::ResourceManager,
                (1, sequence),
                (0, job),
                &[at],
            );
        }
        let (mut seen, mut token) = (Vec::new(), String::new());
        loop {
            let page = oldest(&mut store, job, asked(&token)).unwrap();
            seen.extend(times(&page));
            match page.next {
                Some(next) => token = next,
                None => break,
            }
        }
        assert_eq!(seen, [5, 7, 7, DAY + 1, DAY + 2, 2 * DAY, 2 * DAY]);
    }

    /// A deposed leader wrote after its successor had closed the lane.
    #[test]
    fn what_does_not_hold_is_in_no_list() {
        let (mut store, job) = web();
        let manager = Role::ResourceManager;
        commit_events(&mut store.model, &manager, (1, 1), (0, job), &[1]);
        let stamp = |epoch, sequence| Stamp {
            epoch: echelon_core_model::Epoch(epoch),
            sequence,
        };
        crate::testing::commit(
            &mut store.model,
            &manager,
            stamp(2, 1),
            vec![Write::CloseEvents(0, stamp(1, 1))],
        );
        commit_events(&mut store.model, &manager, (1, 2), (0, job), &[2]);
        commit_events(&mut store.model, &manager, (2, 2), (0, job), &[3]);
        assert_eq!(times(&newest(&mut store, job, asked("")).unwrap()), [3, 1]);
        assert_eq!(times(&oldest(&mut store, job, asked("")).unwrap()), [1, 3]);
    }

    #[test]
    fn places_read_back() {
        for writer in [Role::ResourceManager, Role::Shard(ClusterId::new("c 1"))] {
            let place = ListPlace {
                at: Timestamp(7),
                writer,
                place: EventPlace {
                    lane: 3,
                    stamp: Stamp::of_packed(9 << 40 | 5),
                    index: 9,
                },
            };
            assert_eq!(ListPlace::of_text(&place.text()), Some(place));
        }
        for bad in ["", "1 2 3", "1 2 3 4 x", "a b c d r", "1 70000 3 4 r"] {
            assert_eq!(ListPlace::of_text(bad), None, "{bad}");
        }
    }
}
