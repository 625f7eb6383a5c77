//! WatchJob: looks at storage at an interval and sends what changed, until the job has ended. Hints would only make it
//! sooner, so none are needed.

use crate::context::Gateway;
use crate::error::status;
use echelon_core_gateway::events::{cursor, events_after, position};
use echelon_core_gateway::jobs::get_job;
use echelon_core_gateway::resource::{self, JobRef};
use echelon_core_gateway::{ApiError, ErrorReason, page};
use echelon_core_model::store::{EventCursor, Role};
use echelon_core_model::{JobId, Span, Timestamp};
use echelon_proto::convert::event::event;
use echelon_proto::echelon::v1;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

/// The answers of a watch.
pub(super) type Watching = ReceiverStream<Result<v1::WatchJobResponse, Status>>;

/// Events of one answer.
const EVENTS: u32 = 500;
/// Writers' clocks may differ by this much.
const SKEW: Span = Span::seconds(2);

struct Watch {
    gateway: Gateway,
    job: JobId,
    after: EventCursor,
    shown: Option<v1::Job>,
}

pub(super) async fn start(gateway: Gateway, request: v1::WatchJobRequest) -> Result<Watching, ApiError> {
    let job = resource::job(&request.name, "name")?;
    let now = gateway.now();
    let view = get_job(&gateway.facts, &job, now).await?;
    let job = view.head.job;
    let after = if request.resume_token.is_empty() {
        beginning(now)
    } else {
        page::open(&asked(job), &request.resume_token)
            .and_then(|p| cursor(&p))
            .ok_or_else(|| {
                ApiError::field(
                    "resume_token",
                    "is not a token of a watch of this job; begin again without one",
                )
                .because(ErrorReason::TokenInvalid)
            })?
    };
    let (send, receive) = mpsc::channel(4);
    let watch = Watch {
        gateway,
        job,
        after,
        shown: None,
    };
    tokio::spawn(watch.run(send));
    Ok(ReceiverStream::new(receive))
}

fn asked(job: JobId) -> String {
    format!("watch {job}")
}

fn beginning(now: Timestamp) -> EventCursor {
    EventCursor {
        at: Timestamp(now.0.saturating_sub(SKEW.0)),
        owner: Role::ResourceManager,
        stamp: i64::MIN,
        index: 0,
    }
}

/// A job without what changes by itself.
fn settled(mut job: v1::Job) -> v1::Job {
    job.parts.iter_mut().for_each(|p| p.age = None);
    job
}

impl Watch {
    async fn run(mut self, send: mpsc::Sender<Result<v1::WatchJobResponse, Status>>) {
        self.gateway.telemetry.streams.inc();
        let mut last_look = false;
        loop {
            match self.look().await {
                Ok((answer, ended)) => {
                    if let Some(answer) = answer
                        && send.send(Ok(answer)).await.is_err()
                    {
                        break;
                    }
                    // Events may be written a moment after the state that they led to.
                    if ended && last_look {
                        break;
                    }
                    last_look = ended;
                }
                // A storage that does not answer now is asked again; the caller keeps what it has.
                Err(error) if error.is_retryable() => {
                    tracing::debug!(%error, "a watch could not look");
                }
                Err(error) => {
                    let _ = send.send(Err(status(&error))).await;
                    break;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(self.gateway.config.watch_interval) => {}
                () = send.closed() => break,
                () = self.gateway.stop.cancelled() => {
                    let _ = send.send(Err(Status::unavailable("this gateway ends; go on at another with the resume token"))).await;
                    break;
                }
            }
        }
        self.gateway.telemetry.streams.dec();
    }

    /// Looks once: what is new, and whether the job has ended.
    async fn look(&mut self) -> Result<(Option<v1::WatchJobResponse>, bool), ApiError> {
        let facts = &self.gateway.facts;
        let events = events_after(facts, self.job, Some(self.after.clone()), EVENTS).await?;
        let view = get_job(facts, &JobRef::Id(self.job), self.gateway.now()).await?;
        let more = events.len() >= usize::try_from(EVENTS).unwrap_or(usize::MAX);
        let ended = view.state().is_ended() && !more;
        let job = self.gateway.job(&view);
        let seen = Some(settled(job.clone()));
        if events.is_empty() && seen == self.shown {
            return Ok((None, ended));
        }
        if let Some((at, _)) = events.last() {
            self.after = at.clone();
        }
        self.shown = seen;
        let answer = v1::WatchJobResponse {
            job: Some(job),
            events: events.iter().map(|(_, e)| event(e)).collect(),
            resume_token: page::seal(&asked(self.job), &position(&self.after)),
        };
        Ok((Some(answer), ended))
    }
}
