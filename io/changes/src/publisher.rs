//! The ring of this process and the streams that are served from it.

use crate::ring::{Position, Ring, Since};
use echelon_core_model::Epoch;
use echelon_core_model::change::JobChanges;
use echelon_core_model::store::{Decided, OpResult};
use echelon_proto::echelon::shard::v1 as wire;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use wire::change_service_server::{ChangeService, ChangeServiceServer};

/// A stream says at least this often where the leader is.
const MARK_EVERY: Duration = Duration::from_secs(1);
/// Messages that wait for a slow follower. What comes meanwhile stays in the ring.
const WAITING: usize = 2;

/// The changes of the role of this process; clones share them.
#[derive(Clone, Default)]
pub struct Publisher(Arc<Inner>);

struct Inner {
    /// `None`: this process does not lead.
    ring: Mutex<Option<Ring>>,
    /// Where the newest change is; `None`: this process does not lead.
    newest: watch::Sender<Option<Position>>,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            ring: Mutex::new(None),
            newest: watch::Sender::new(None),
        }
    }
}

impl Publisher {
    /// This process leads at an epoch, or does not.
    pub fn lead(&self, epoch: Option<Epoch>) {
        let mut ring = self.0.ring.lock().unwrap_or_else(PoisonError::into_inner);
        *ring = epoch.map(Ring::of);
        self.0.newest.send_replace(ring.as_ref().map(Ring::newest));
    }

    /// Something became durable. Without a leadership it is not told.
    pub fn push(&self, changes: JobChanges) {
        let mut ring = self.0.ring.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ring) = ring.as_mut() {
            ring.push(changes);
            self.0.newest.send_replace(Some(ring.newest()));
        }
    }

    /// An operation has a result: what it changed counts if it is durable.
    pub fn stored(&self, changes: JobChanges, result: &OpResult) {
        let is_durable = matches!(result, OpResult::Committed | OpResult::Decided(Decided::Applied));
        if is_durable && !changes.is_empty() {
            self.push(changes);
        }
    }

    fn since(&self, from: Position) -> Option<Since> {
        let ring = self.0.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.as_ref().map(|ring| ring.since(from))
    }

    async fn tell(self, mut from: Position, told: mpsc::Sender<Result<wire::StreamChangesResponse, Status>>) {
        let mut newest = self.0.newest.subscribe();
        loop {
            newest.mark_unchanged();
            let Some(since) = self.since(from) else {
                // The follower may be gone as well.
                let _ = told.send(Err(not_leading())).await;
                return;
            };
            from = since.position;
            if told.send(Ok(message(since))).await.is_err() {
                return;
            }
            if newest.borrow().is_some_and(|newest| newest != from) {
                continue;
            }
            tokio::select! {
                // The publisher is held by this task.
                _ = newest.changed() => {}
                () = tokio::time::sleep(MARK_EVERY) => {}
                () = told.closed() => return,
            }
        }
    }
}

fn not_leading() -> Status {
    Status::unavailable("this process does not lead now")
}

fn message(since: Since) -> wire::StreamChangesResponse {
    let jobs = since.changes.0.into_iter().map(|(job, spots)| wire::JobChange {
        job: job.0.to_be_bytes().to_vec(),
        events: spots
            .into_iter()
            .map(|spot| wire::EventSpot {
                lane: spot.lane.into(),
                day: spot.day,
            })
            .collect(),
    });
    wire::StreamChangesResponse {
        epoch: since.position.epoch.0,
        change: since.position.change,
        gap: since.gap,
        jobs: jobs.collect(),
    }
}

/// The service of a publisher, for the port of its process.
#[must_use]
pub fn change_service(publisher: Publisher) -> ChangeServiceServer<Publisher> {
    ChangeServiceServer::new(publisher)
}

/// What one follower is told.
pub type ChangeStream = ReceiverStream<Result<wire::StreamChangesResponse, Status>>;

#[tonic::async_trait]
impl ChangeService for Publisher {
    type StreamChangesStream = ChangeStream;

    async fn stream_changes(
        &self,
        request: Request<wire::StreamChangesRequest>,
    ) -> Result<Response<Self::StreamChangesStream>, Status> {
        let wire::StreamChangesRequest { epoch, change } = request.into_inner();
        let from = Position {
            epoch: Epoch(epoch),
            change,
        };
        let (told, stream) = mpsc::channel(WAITING);
        tokio::spawn(self.clone().tell(from, told));
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::JobId;
    use tokio_stream::StreamExt;

    fn of(job: u128) -> JobChanges {
        let mut out = JobChanges::default();
        out.touch(JobId(job));
        out
    }

    async fn open(publisher: &Publisher, from: (u64, u64)) -> ChangeStream {
        let request = wire::StreamChangesRequest {
            epoch: from.0,
            change: from.1,
        };
        let opened = publisher.stream_changes(Request::new(request)).await;
        opened.unwrap().into_inner()
    }

    async fn next(stream: &mut ChangeStream) -> (u64, bool, usize) {
        let message = stream.next().await.unwrap().unwrap();
        (message.change, message.gap, message.jobs.len())
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_begins_with_a_gap_and_goes_on_from_its_position() {
        let publisher = Publisher::default();
        publisher.lead(Some(Epoch(4)));
        publisher.push(of(1));
        let mut stream = open(&publisher, (0, 0)).await;
        assert_eq!(next(&mut stream).await, (1, true, 0));
        publisher.push(of(2));
        assert_eq!(next(&mut stream).await, (2, false, 1));
        assert_eq!(next(&mut stream).await, (2, false, 0), "a mark each second");
        drop(stream);
        publisher.push(of(3));
        publisher.push(of(4));
        let mut stream = open(&publisher, (4, 2)).await;
        assert_eq!(next(&mut stream).await, (4, false, 2), "nothing was missed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_with_the_leadership() {
        let publisher = Publisher::default();
        let mut early = open(&publisher, (0, 0)).await;
        assert!(early.next().await.unwrap().is_err(), "a standby tells nothing");
        publisher.lead(Some(Epoch(4)));
        let mut stream = open(&publisher, (0, 0)).await;
        next(&mut stream).await;
        publisher.lead(None);
        assert!(stream.next().await.unwrap().is_err());
        assert!(stream.next().await.is_none());
        publisher.push(of(1));
        publisher.lead(Some(Epoch(6)));
        let mut stream = open(&publisher, (4, 0)).await;
        assert_eq!(next(&mut stream).await, (0, true, 0), "of another leader");
    }

    /// A follower that reads nothing holds two messages, and finds the rest in the ring.
    #[tokio::test(start_paused = true)]
    async fn a_slow_follower_holds_no_one_up_and_misses_nothing() {
        let publisher = Publisher::default();
        publisher.lead(Some(Epoch(1)));
        let mut stream = open(&publisher, (1, 0)).await;
        for job in 0..10_000 {
            publisher.push(of(job));
            if job % 1_000 == 0 {
                tokio::task::yield_now().await;
            }
        }
        let mut seen = 0;
        loop {
            let (change, gap, jobs) = next(&mut stream).await;
            assert!(!gap);
            seen += jobs;
            if change == 10_000 {
                break;
            }
        }
        assert_eq!(seen, 10_000);
    }
}
