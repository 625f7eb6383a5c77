//! WatchJob: a job as it is, then what changes, until it has ended. It reads by itself once at its beginning,
//! and where it fell behind; all else comes from the job's feed, which many watches share.

use crate::context::Gateway;
use crate::error::status;
use crate::feeds::{News, Reading, gateway_ends};
use echelon_core_gateway::event_feed::{Told, next_of_all, skip};
use echelon_core_gateway::jobs::get_job;
use echelon_core_gateway::resource::{self, JobRef};
use echelon_core_gateway::{ApiError, ErrorReason, page};
use echelon_core_model::store::{EventPlace, Role};
use echelon_core_model::{JobId, Span, Timestamp};
use echelon_proto::convert::event::event;
use echelon_proto::echelon::v1;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

/// The answers of a watch.
pub(super) type Watching = ReceiverStream<Result<v1::WatchJobResponse, Status>>;

/// Events of one answer.
const EVENTS: usize = 500;
/// A watch of a job that was made so long ago at most begins with the job's first event.
const YOUNG: Span = Span::seconds(60);
/// A read that could not be done, or was not sure, is done again after this time.
const AGAIN: Duration = Duration::from_secs(1);
/// Events of a run may be written a moment after the state of the job that they led to.
const LAST_EVENTS: Duration = Duration::from_millis(500);

struct Watch {
    gateway: Gateway,
    job: JobId,
    told: Told,
    /// Events were left out since the answer before.
    begins_again: bool,
    shown: Option<v1::Job>,
    has_ended: bool,
}

pub(super) async fn start(gateway: Gateway, request: v1::WatchJobRequest) -> Result<Watching, ApiError> {
    let job = resource::job(&request.name, "name")?;
    let now = gateway.now();
    let view = get_job(&gateway.facts, &job, now).await?;
    let job = view.head.job;
    let asked = asked(job);
    let (told, begins_again) = if request.resume_token.is_empty() {
        (beginning(&gateway, job, now).await?, false)
    } else {
        let told = page::open(&asked, &request.resume_token).and_then(|text| Told::of_text(&text));
        let told = told.ok_or_else(|| {
            ApiError::field(
                "resume_token",
                "is not a token of a watch of this job; begin again without one",
            )
            .because(ErrorReason::TokenInvalid)
        })?;
        if told.is_too_old(now) {
            (beginning(&gateway, job, now).await?, true)
        } else {
            (told, false)
        }
    };
    let (send, receive) = mpsc::channel(4);
    let watch = Watch {
        gateway,
        job,
        told,
        begins_again,
        shown: None,
        has_ended: false,
    };
    tokio::spawn(watch.run(send));
    Ok(ReceiverStream::new(receive))
}

fn asked(job: JobId) -> String {
    format!("watch {job}")
}

/// A watch without a token is told what comes; of a job that was just made all of it.
async fn beginning(gateway: &Gateway, job: JobId, now: Timestamp) -> Result<Told, ApiError> {
    let created = job.created_at();
    let mut told = Told::nothing(created.min(now));
    if now.since(created) > YOUNG {
        told = Told::nothing(now);
        skip(&gateway.facts, job, &mut told, now).await?;
    }
    Ok(told)
}

/// A job without what changes by itself.
fn settled(mut job: v1::Job) -> v1::Job {
    job.parts.iter_mut().for_each(|p| p.age = None);
    job
}

/// Where the answers go.
type Answers = mpsc::Sender<Result<v1::WatchJobResponse, Status>>;

/// Why a watch ends.
enum End {
    /// Its caller is gone.
    Left,
    /// The caller is told why.
    Failed(ApiError),
}

impl Watch {
    async fn run(mut self, answers: Answers) {
        self.gateway.telemetry.streams.inc();
        if let Err(End::Failed(error)) = self.follow(&answers).await {
            // The caller may be gone.
            let _ = answers.send(Err(status(&error))).await;
        }
        self.gateway.telemetry.streams.dec();
    }

    async fn follow(&mut self, answers: &Answers) -> Result<(), End> {
        let feed = self.gateway.feeds.follow(self.job);
        let mut news = feed.news(&self.gateway);
        // When it reads by itself next; `None`: the feed tells all.
        let mut read_at = Some(Instant::now());
        // Whether it stands before what the feed has told already.
        let mut is_behind = true;
        let stop = self.gateway.stop.clone();
        loop {
            let read_due = async {
                match read_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = answers.closed() => return Err(End::Left),
                () = stop.cancelled() => return Err(End::Failed(gateway_ends())),
                () = read_due => {
                    let had_ended = self.has_ended;
                    let is_sure = match self.read().await {
                        Ok((reading, is_sure)) => {
                            is_behind = false;
                            self.tell(&reading, answers).await?;
                            is_sure
                        }
                        // The caller keeps what it has.
                        Err(error) if error.is_retryable() => {
                            tracing::debug!(%error, "a watch could not read");
                            false
                        }
                        Err(error) => return Err(End::Failed(error)),
                    };
                    if had_ended && is_sure {
                        return Ok(());
                    }
                    read_at = (!is_sure).then(|| Instant::now() + AGAIN);
                }
                heard = news.recv() => match heard {
                    // What lies before a reading of the feed would count as told. The own read has it.
                    Ok(News::Read(_)) if is_behind => {}
                    Ok(News::Read(reading)) => self.tell(&reading, answers).await?,
                    Ok(News::Gap) | Err(RecvError::Lagged(_)) => {
                        is_behind = true;
                        read_at = Some(Instant::now());
                    }
                    // The feed is held here.
                    Err(RecvError::Closed) => return Err(End::Left),
                },
            }
            if self.has_ended && read_at.is_none() {
                read_at = Some(Instant::now() + LAST_EVENTS);
            }
        }
    }

    /// Reads what is new from where this watch stands, and whether that is sure.
    async fn read(&mut self) -> Result<(Reading, bool), ApiError> {
        let _turn = self.gateway.feeds.turn().await;
        let (facts, now) = (&self.gateway.facts, self.gateway.now());
        let mut told = self.told.clone();
        let found = next_of_all(facts, self.job, &mut told, now).await?;
        let view = get_job(facts, &JobRef::Id(self.job), now).await?;
        if found.is_cut {
            self.begins_again = true;
            self.told = told.clone();
        }
        let events = found.events.into_iter();
        let reading = Reading {
            job: self.gateway.job(&view),
            has_ended: view.state().is_ended(),
            events: events
                .map(|(writer, place, e)| (writer, place, event(&e)))
                .collect(),
            whole_until: told.since(),
        };
        Ok((reading, !found.is_unsure))
    }

    /// Tells what is new of a reading.
    async fn tell(&mut self, reading: &Reading, answers: &Answers) -> Result<(), End> {
        let is_new = |(writer, place, _): &&(Role, EventPlace, v1::Event)| !self.told.has(writer, *place);
        let events: Vec<&(Role, EventPlace, v1::Event)> = reading.events.iter().filter(is_new).collect();
        self.has_ended = reading.has_ended;
        let seen = Some(settled(reading.job.clone()));
        if events.is_empty() && seen == self.shown && !self.begins_again {
            self.told.is_whole_until(reading.whole_until);
            return Ok(());
        }
        self.shown = seen;
        let mut parts: Vec<&[&(Role, EventPlace, v1::Event)]> = events.chunks(EVENTS).collect();
        if parts.is_empty() {
            parts.push(&[]);
        }
        let last = parts.len();
        for (n, part) in (1..).zip(parts) {
            for (writer, place, _) in part {
                self.told.tell(writer, *place);
            }
            if n == last {
                self.told.is_whole_until(reading.whole_until);
            }
            let answer = v1::WatchJobResponse {
                job: Some(reading.job.clone()),
                events: part.iter().map(|(_, _, event)| event.clone()).collect(),
                resume_token: page::seal(&asked(self.job), &self.told.text()),
                begins_again: std::mem::take(&mut self.begins_again),
            };
            answers.send(Ok(answer)).await.map_err(|_| End::Left)?;
        }
        Ok(())
    }
}
