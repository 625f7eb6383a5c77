//! Watches over a leader that tells what it has stored: how soon they hear of it, and what they cost storage.

use crate::grpc::create;
use crate::status::Leader;
use crate::world::{World, hello};
use async_trait::async_trait;
use echelon_core_model::change::JobChanges;
use echelon_core_model::job::{JobState, Progress};
use echelon_core_model::store::{
    Batch, Consistency, Decided, Decision, Event, Leadership, Op, Query, Reading, Role, Stamp, TroubleKind,
    Write,
};
use echelon_core_model::{Epoch, JobId, Reason, ReasonCode, Timestamp};
use echelon_io_membership::Role as Member;
use echelon_io_storage::{Durability, MemoryStore, Status, Store, StoreError};
use echelon_proto::echelon::v1;
use futures::StreamExt;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tonic::transport::Channel;
use v1::job_service_client::JobServiceClient;

/// Three times what is promised of a change on an idle system.
const SOON: Duration = Duration::from_millis(450);

/// How often a gateway tries a read.
const TRIES: usize = 4;

/// A storage in memory that counts the reads that are about jobs.
struct Counting {
    inner: MemoryStore,
    reads: AtomicUsize,
    /// So many of the next reads of events fail.
    fails: AtomicUsize,
}

/// A read was not answered.
fn unanswered() -> StoreError {
    StoreError::Unavailable {
        what: "a read of events".to_owned(),
        may_be_done: false,
        kind: TroubleKind::NoAnswer,
        source: "for a test".into(),
    }
}

#[async_trait]
impl Store for Counting {
    async fn read(&self, query: Query, consistency: Consistency) -> Result<Reading, StoreError> {
        let is_of_job = matches!(
            query,
            Query::Head(_)
                | Query::Spec(..)
                | Query::Progress(_)
                | Query::Assignment(_)
                | Query::Events { .. }
                | Query::EventEnds(..)
        );
        self.reads.fetch_add(usize::from(is_of_job), Ordering::Relaxed);
        let one_less = |left: usize| left.checked_sub(1);
        if matches!(query, Query::Events { .. })
            && self
                .fails
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less)
                .is_ok()
        {
            return Err(unanswered());
        }
        self.inner.read(query, consistency).await
    }

    async fn decide(&self, decision: Decision) -> Result<Decided, StoreError> {
        self.inner.decide(decision).await
    }

    async fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        self.inner.commit(batch).await
    }

    async fn status(&self) -> Result<Status, StoreError> {
        self.inner.status().await
    }

    async fn migrate(&self) -> Result<Status, StoreError> {
        self.inner.migrate().await
    }

    async fn durability(&self) -> Durability {
        self.inner.durability().await
    }
}

struct Watched {
    world: World,
    store: Arc<Counting>,
    leader: Leader,
    jobs: JobServiceClient<Channel>,
    job: JobId,
    sequence: u64,
}

impl Watched {
    /// A job, and a resource manager that is heard and leads at epoch 1.
    async fn start() -> Self {
        let store = Arc::new(Counting {
            inner: MemoryStore::new(),
            reads: AtomicUsize::new(0),
            fails: AtomicUsize::new(0),
        });
        // Only what is told counts.
        let hour = |config: &mut echelon_gateway::Config| config.watch_round = Duration::from_secs(3600);
        let world = World::over(Arc::clone(&store) as Arc<dyn Store>, hour).await;
        world.until_ready().await;
        let taken = Decision::TakeEpoch {
            role: Role::ResourceManager,
            next: Leadership::taken(Epoch(1), "leader", 1),
            expected: Epoch(0),
        };
        store.decide(taken).await.unwrap();
        let leader = Leader::start(&world, Member::ResourceManager, 1).await;
        let mut jobs = JobServiceClient::new(world.channel().await);
        let made = jobs.create_job(create("r", hello())).await.unwrap().into_inner();
        let job = made.job.unwrap().job_id.parse().unwrap();
        Self {
            world,
            store,
            leader,
            jobs,
            job,
            sequence: 0,
        }
    }

    async fn watch(&mut self, token: &str) -> tonic::Streaming<v1::WatchJobResponse> {
        let request = v1::WatchJobRequest {
            name: format!("jobs/{}", self.job),
            resume_token: token.to_owned(),
        };
        self.jobs.watch_job(request).await.unwrap().into_inner()
    }

    fn reads(&self) -> usize {
        self.store.reads.load(Ordering::Relaxed)
    }

    /// Waits until nothing of the job is read any more.
    async fn quiet(&self) -> usize {
        let began = Instant::now();
        loop {
            let before = self.reads();
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            if self.reads() == before {
                return before;
            }
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "an idle job is read on and on"
            );
        }
    }

    /// The leader stores an event of the job, dated by its clock, and tells of it.
    async fn happens(&mut self, at: Timestamp) {
        self.sequence += 1;
        let event = Event {
            job: self.job,
            at,
            happened: at,
            instance: None,
            state: None,
            reason: Reason::new(ReasonCode::Running),
            hostname: None,
            task: None,
        };
        let batch = Batch {
            owner: Role::ResourceManager,
            stamp: Stamp {
                epoch: Epoch(1),
                sequence: self.sequence,
            },
            writes: vec![
                Write::Event(event),
                Write::Progress(running(self.job, at)),
                Write::NoteEvents(0),
            ],
        };
        let changes = JobChanges::of(&Op::Commit(batch.clone()));
        self.store.commit(batch).await.unwrap();
        self.leader.changed.push(changes);
    }
}

fn running(job: JobId, since: Timestamp) -> Progress {
    Progress {
        state: JobState::Running,
        ..Progress::waiting(job, since)
    }
}

fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Timestamp(u64::try_from(since.unwrap().as_millis()).unwrap())
}

/// A hundred watches of a job that does not change read nothing of it; one change is heard by each of them
/// soon, and is read for all of them as often as for one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_idle_watches_read_nothing_and_a_change_is_read_once_for_all() {
    let mut watched = Watched::start().await;
    let mut reads_of = BTreeMap::new();
    let mut streams = Vec::new();
    for watchers in [1, 100] {
        while streams.len() < watchers {
            let mut stream = watched.watch("").await;
            stream.next().await.unwrap().unwrap();
            streams.push(stream);
        }
        let idle = watched.quiet().await;
        let began = Instant::now();
        watched.happens(now()).await;
        for stream in &mut streams {
            loop {
                let heard = tokio::time::timeout(SOON, stream.next()).await;
                let heard = heard.expect("within three times the promise").unwrap().unwrap();
                if !heard.events.is_empty() {
                    break;
                }
            }
        }
        assert!(began.elapsed() < SOON, "{watchers}: {:?}", began.elapsed());
        reads_of.insert(watchers, watched.quiet().await - idle);
    }
    assert_eq!(reads_of[&100], reads_of[&1], "{reads_of:?}");
    watched.world.shutdown.begin();
}

/// A writer whose clock is five seconds behind, and a watch that goes on with its token: each event is told
/// once, in its order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_misses_nothing_of_a_clock_that_is_behind_and_goes_on_where_it_was() {
    let mut watched = Watched::start().await;
    let mut stream = watched.watch("").await;
    let (mut told, mut token) = (Vec::new(), String::new());
    let began = now();
    for n in 0..30 {
        // Back and forth, and two of one moment.
        let at = Timestamp(began.0 - 5_000 * u64::from(n % 2 == 0) + n / 4);
        watched.happens(at).await;
        while told.len() as u64 <= n {
            let heard = tokio::time::timeout(Duration::from_secs(5), stream.next()).await;
            let heard = heard.expect("an event is missed").unwrap().unwrap();
            told.extend(heard.events);
            token = heard.resume_token;
        }
        assert_eq!(told.len() as u64, n + 1, "an event is told twice");
        if n % 7 == 3 {
            // What happens meanwhile is told by the token.
            drop(stream);
            stream = watched.watch(&token).await;
        }
    }
    watched.world.shutdown.begin();
}

/// The first read of a watch fails while others hear of a change: it is told what was there before, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_could_not_read_at_first_misses_nothing() {
    let mut watched = Watched::start().await;
    let mut first = watched.watch("").await;
    first.next().await.unwrap().unwrap();
    watched.happens(now()).await;
    watched.quiet().await;
    watched.store.fails.store(TRIES, Ordering::SeqCst);
    let mut second = watched.watch("").await;
    while watched.store.fails.load(Ordering::SeqCst) > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    watched.happens(now()).await;
    let mut told = 0;
    while told < 2 {
        let heard = tokio::time::timeout(Duration::from_secs(5), second.next()).await;
        told += heard.expect("an event is missed").unwrap().unwrap().events.len();
    }
    assert_eq!(told, 2, "an event is told twice");
    watched.world.shutdown.begin();
}

/// A leader that is called again after a break tells what was missed; one that is another leader, that all
/// may have changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_broken_stream_has_missed_is_read() {
    let mut watched = Watched::start().await;
    let mut stream = watched.watch("").await;
    stream.next().await.unwrap().unwrap();
    watched.quiet().await;
    // Nothing is told of this one.
    watched.leader.changed.lead(None);
    watched.happens(now()).await;
    watched.leader.changed.lead(Some(Epoch(2)));
    let heard = async { while stream.next().await.unwrap().unwrap().events.is_empty() {} };
    let told = tokio::time::timeout(Duration::from_secs(15), heard).await;
    told.expect("a gap is read");
    watched.world.shutdown.begin();
}
