//! Jobs that are watched here. Leaders tell which jobs have changed; each watched job that has is read once,
//! for all of its watchers: at once, and four times a second where it changes on and on. Nothing is read of a
//! job that does not change.
//!
//! Each watcher knows by itself what it was told. A feed tells events with their places, and a watcher that
//! begins, or falls behind, reads by itself from where it stands. Between a feed's beginning and a watcher's
//! first read nothing is lost, since the feed says that it has begun, and each watcher then reads once more.

use crate::context::Gateway;
use echelon_core_gateway::event_feed::{EventLane, LaneDays, Told, next, next_of_all, skip};
use echelon_core_gateway::jobs::get_job;
use echelon_core_gateway::resource::JobRef;
use echelon_core_gateway::{ApiError, ErrorReason};
use echelon_core_model::JobId;
use echelon_core_model::Timestamp;
use echelon_core_model::change::JobChanges;
use echelon_core_model::store::{EventPlace, Role};
use echelon_proto::convert::event::event;
use echelon_proto::echelon::v1;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, broadcast, watch};

/// Between two reads of a job.
const PAUSE: Duration = Duration::from_millis(20);
/// Reads that may follow each other by that. A job that changes on and on is read each [`REFILL`].
const BURST: u32 = 12;
/// After this time one more read may follow at once.
const REFILL: Duration = Duration::from_millis(250);
/// A read that could not be done, or was not sure, is done again after this time.
const AGAIN: Duration = Duration::from_secs(1);
/// All lanes are looked at this often, so that what a token says is never much older.
const WHOLE_EVERY: Duration = Duration::from_secs(3600);
/// What a watcher may have before it that it has not taken.
const WAITING: usize = 64;
/// Jobs that are read at the same time.
const READ_AT_ONCE: usize = 32;

/// All jobs that are watched.
#[derive(Clone)]
pub(crate) struct Feeds(Arc<Inner>);

struct Inner {
    jobs: Mutex<HashMap<JobId, Weak<Feed>>>,
    reading: Semaphore,
}

/// One job that is watched.
pub(crate) struct Feed {
    job: JobId,
    feeds: Weak<Inner>,
    due: Mutex<Due>,
    /// Counts what was told of the job.
    changed: watch::Sender<u64>,
    news: broadcast::Sender<News>,
}

/// What of a job is to be read.
#[derive(Debug, Default)]
struct Due {
    is_read: bool,
    all: bool,
    lanes: LaneDays,
}

/// What is new of a job.
#[derive(Debug, Clone)]
pub(crate) enum News {
    /// The job as it is, and events that were not told before.
    Read(Arc<Reading>),
    /// Something may be missing: read by yourself.
    Gap,
}

/// A job as it was read.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) job: v1::Job,
    pub(crate) has_ended: bool,
    pub(crate) events: Vec<(Role, EventPlace, v1::Event)>,
    /// All events that were durable by then were told.
    pub(crate) whole_until: Timestamp,
}

impl Feeds {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner {
            jobs: Mutex::new(HashMap::new()),
            reading: Semaphore::new(READ_AT_ONCE),
        }))
    }

    /// The feed of a job, for as long as it is held.
    pub(crate) fn follow(&self, job: JobId) -> Arc<Feed> {
        let mut jobs = self.0.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(feed) = jobs.get(&job).and_then(Weak::upgrade) {
            return feed;
        }
        let feed = Arc::new(Feed {
            job,
            feeds: Arc::downgrade(&self.0),
            due: Mutex::default(),
            changed: watch::Sender::new(0),
            news: broadcast::Sender::new(WAITING),
        });
        jobs.insert(job, Arc::downgrade(&feed));
        feed
    }

    /// A leader, or this gateway, has changed these jobs.
    pub(crate) fn tell(&self, writer: &Role, changes: JobChanges) {
        for (job, spots) in changes.0 {
            let Some(feed) = self.feed(job) else { continue };
            let mut due = feed.due.lock().unwrap_or_else(PoisonError::into_inner);
            for spot in spots {
                let of = EventLane {
                    writer: writer.clone(),
                    lane: spot.lane,
                };
                due.lanes.entry(of).or_default().insert(spot.day);
            }
            drop(due);
            feed.changed.send_modify(|n| *n += 1);
        }
    }

    /// Any job may have changed: all that are watched are read.
    pub(crate) fn tell_all(&self) {
        for feed in self.all() {
            feed.due.lock().unwrap_or_else(PoisonError::into_inner).all = true;
            feed.changed.send_modify(|n| *n += 1);
        }
    }

    /// What is shown of all jobs has changed, and none of their events.
    pub(crate) fn tell_shown(&self) {
        self.all()
            .iter()
            .for_each(|feed| feed.changed.send_modify(|n| *n += 1));
    }

    fn feed(&self, job: JobId) -> Option<Arc<Feed>> {
        let jobs = self.0.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.get(&job).and_then(Weak::upgrade)
    }

    fn all(&self) -> Vec<Arc<Feed>> {
        let jobs = self.0.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.values().filter_map(Weak::upgrade).collect()
    }

    /// Waits until a read may begin: many jobs that change at once do not ask storage all at once.
    pub(crate) async fn turn(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        // It is never closed.
        self.0.reading.acquire().await.ok()
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let Some(feeds) = self.feeds.upgrade() else { return };
        let mut jobs = feeds.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        // Another one may have taken its place.
        if jobs.get(&self.job).is_some_and(|feed| feed.strong_count() == 0) {
            jobs.remove(&self.job);
        }
    }
}

impl Feed {
    /// Tells that something of the job has changed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// What is new from now on. The job is read while there are listeners.
    pub(crate) fn news(self: &Arc<Self>, gateway: &Gateway) -> broadcast::Receiver<News> {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let news = self.news.subscribe();
        if !std::mem::replace(&mut due.is_read, true) {
            let changes = self.changed.subscribe();
            tokio::spawn(Arc::clone(self).read_on(gateway.clone(), changes));
        }
        news
    }

    async fn read_on(self: Arc<Self>, gateway: Gateway, mut changes: watch::Receiver<u64>) {
        let mut told = None;
        let mut pace = Pace::new(Instant::now());
        let mut whole_at = Instant::now() + WHOLE_EVERY;
        while !self.is_over() {
            let mut due = self.take_due();
            due.all |= Instant::now() >= whole_at;
            let begun = Instant::now();
            match self.read(&gateway, &mut told, &due).await {
                Ok(true) if due.all => whole_at = begun + WHOLE_EVERY,
                Ok(true) => {}
                Ok(false) => whole_at = begun + AGAIN,
                Err(error) if error.is_retryable() => {
                    tracing::debug!(%error, job = %self.job, "a watched job cannot be read");
                    whole_at = begun + AGAIN;
                }
                // Each watcher finds it by itself.
                Err(_) => self.send(News::Gap),
            }
            tokio::time::sleep(pace.next(Instant::now())).await;
            tokio::select! {
                // The sender is part of this feed.
                _ = changes.changed() => {}
                () = self.news.closed() => {}
                () = tokio::time::sleep_until(whole_at.into()) => {}
                () = gateway.stop.cancelled() => return,
            }
        }
    }

    /// Whether there is no listener any more. The next one begins another reading.
    fn is_over(&self) -> bool {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        due.is_read = self.news.receiver_count() > 0;
        !due.is_read
    }

    fn take_due(&self) -> Due {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        Due {
            is_read: true,
            all: std::mem::take(&mut due.all),
            lanes: std::mem::take(&mut due.lanes),
        }
    }

    fn send(&self, news: News) {
        // Without a listener the feed ends.
        let _ = self.news.send(news);
    }

    /// Reads what is due and tells it. Whether all was sure.
    async fn read(&self, gateway: &Gateway, told: &mut Option<Told>, due: &Due) -> Result<bool, ApiError> {
        let _turn = gateway.feeds.turn().await;
        let (facts, now) = (&gateway.facts, gateway.now());
        let Some(told) = told else {
            let mut begun = Told::nothing(now);
            skip(facts, self.job, &mut begun, now).await?;
            *told = Some(begun);
            self.send(News::Gap);
            return Ok(true);
        };
        let found = if due.all {
            next_of_all(facts, self.job, told, now).await?
        } else {
            next(facts, self.job, told, &due.lanes).await?
        };
        let view = get_job(facts, &JobRef::Id(self.job), now)
            .await
            .inspect_err(|_| {
                // What was found is told already: each watcher reads by itself.
                self.send(News::Gap);
            })?;
        if found.is_cut {
            self.send(News::Gap);
        }
        let events = found.events.into_iter();
        self.send(News::Read(Arc::new(Reading {
            job: gateway.job(&view),
            has_ended: view.state().is_ended(),
            events: events
                .map(|(writer, place, e)| (writer, place, event(&e)))
                .collect(),
            whole_until: told.since(),
        })));
        Ok(!found.is_unsure)
    }
}

/// How soon a job may be read again.
struct Pace {
    reads: u32,
    since: Instant,
}

impl Pace {
    const fn new(now: Instant) -> Self {
        Self { reads: 0, since: now }
    }

    /// A read is done: how long the next one waits.
    fn next(&mut self, now: Instant) -> Duration {
        let quiet = now.saturating_duration_since(self.since).as_millis() / REFILL.as_millis();
        let quiet = u32::try_from(quiet).unwrap_or(u32::MAX);
        if quiet > 0 {
            self.reads = self.reads.saturating_sub(quiet);
            self.since = now;
        }
        self.reads += 1;
        if self.reads > BURST { REFILL } else { PAUSE }
    }
}

/// That a watch ends with its gateway.
pub(crate) fn gateway_ends() -> ApiError {
    ApiError::new(
        ErrorReason::StorageUnavailable,
        "this gateway ends; go on at another one",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_changes_on_and_on_is_read_four_times_a_second() {
        let begin = Instant::now();
        let mut pace = Pace::new(begin);
        let (mut now, mut reads) = (begin, 0);
        while now.duration_since(begin) < Duration::from_secs(20) {
            now += pace.next(now);
            reads += 1;
        }
        assert!((75..=80 + BURST).contains(&reads), "{reads}");
        now += Duration::from_secs(10);
        let after: Vec<Duration> = (0..BURST).map(|_| pace.next(now)).collect();
        assert_eq!(after, vec![PAUSE; BURST as usize], "quick again");
    }
}
