//! The file's one writer: a thread that takes what waits, carries all of it out in one durable transaction, and answers
//! only then. Under load one sync to disk serves many writes; without load each has its own.

use super::card::{Card, Identity};
use super::handle::{Closed, Handle};
use super::maps::{self, Writing};
use crate::StoreError;
use crate::kv;
use crate::layout::{Plan, RowWrite};
use crate::memory::now;
use echelon_core_model::Timestamp;
use echelon_core_model::store::{Decided, Decision, Stamp};
use redb::{Database, WriteTransaction};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Writes that may wait. Whoever comes then waits for a place.
const WAITING: usize = 4096;
/// Writes of one transaction: they are answered together, so the first waits for the last.
const TOGETHER: usize = 1024;

/// A write with the place for its answer.
enum Request {
    Decide(
        Box<(Decision, Plan)>,
        oneshot::Sender<Result<Decided, StoreError>>,
    ),
    Commit(Stamp, Vec<RowWrite>, oneshot::Sender<Result<(), StoreError>>),
}

/// A carried out write whose answer is held back until it is durable.
enum Answered {
    Decide(
        Result<Decided, StoreError>,
        oneshot::Sender<Result<Decided, StoreError>>,
    ),
    Commit(Result<(), StoreError>, oneshot::Sender<Result<(), StoreError>>),
}

pub(super) struct Writer {
    /// `None` only while it is dropped.
    requests: Option<mpsc::Sender<Request>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub fn start(file: Arc<Handle>, card: Option<(Card, u64)>) -> Result<Self, StoreError> {
        let (requests, waiting) = mpsc::channel(WAITING);
        let (card, writes) = card.map_or((None, 0), |(card, writes)| (Some(card), writes));
        let scribe = Scribe {
            file,
            card,
            writes,
            rest: None,
            is_closed: false,
        };
        let thread = std::thread::Builder::new()
            .name("storage-writer".to_owned())
            .spawn(move || scribe.serve(waiting))
            .map_err(|e| StoreError::undone("starting the file's writer", e))?;
        Ok(Self {
            requests: Some(requests),
            thread: Some(thread),
        })
    }

    pub async fn decide(&self, decision: Decision, plan: Plan) -> Result<Decided, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.send(Request::Decide(Box::new((decision, plan)), answer))
            .await?;
        answered.await.map_err(|_| ended())?
    }

    pub async fn commit(&self, stamp: Stamp, rows: Vec<RowWrite>) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        self.send(Request::Commit(stamp, rows, answer)).await?;
        answered.await.map_err(|_| ended())?
    }

    async fn send(&self, request: Request) -> Result<(), StoreError> {
        let requests = self.requests.as_ref().ok_or_else(ended)?;
        requests.send(request).await.map_err(|_| ended())
    }
}

fn ended() -> StoreError {
    StoreError::unknown(
        "writing the file",
        "no answer came; the log of this process says why",
    )
}

impl Drop for Writer {
    /// Waits until what was handed over is written, so that the file is free when the store is gone.
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the storage file's writer panicked; what it had not answered may be lost");
        }
    }
}

/// How long nothing is tried after the disk had no room, or the file could not be opened again.
const REST: Duration = Duration::from_millis(500);

/// What the thread works with.
struct Scribe {
    file: Arc<Handle>,
    /// `None` for a file of another level, which is not written.
    card: Option<Card>,
    /// How often the file was written.
    writes: u64,
    /// Why nothing is written for a moment.
    rest: Option<(Instant, Closed)>,
    /// The file could not be opened again.
    is_closed: bool,
}

/// What became of a transaction. The answers are held back until it is known.
enum Outcome {
    /// It is on the disk.
    Durable(Vec<Answered>),
    /// It failed before its end: nothing of it is kept.
    Undone(Vec<Answered>, StoreError),
    /// Its end failed: the file says whether it is kept.
    Open(Vec<Answered>, StoreError),
}

impl Scribe {
    fn serve(mut self, mut waiting: mpsc::Receiver<Request>) {
        let mut together = Vec::with_capacity(TOGETHER);
        while waiting.blocking_recv_many(&mut together, TOGETHER) > 0 {
            self.write(&mut together);
            // What a panic of the library left.
            together.clear();
        }
        if let Some(Err(error)) = self.card.as_ref().map(Card::sync) {
            tracing::warn!(%error, "cannot bring the card of the storage file to the disk");
        }
    }

    fn write(&mut self, requests: &mut Vec<Request>) {
        if let Err(why) = self.ready() {
            let path = self.file.path();
            requests
                .drain(..)
                .for_each(|request| refuse(request, why.error(path)));
            return;
        }
        let writes = self.writes.saturating_add(1);
        let done = self
            .file
            .with(|file| Ok(transact(file, requests.drain(..), writes, now())));
        match done {
            Ok(Outcome::Durable(answers)) => {
                self.note(writes);
                answers.into_iter().for_each(Answered::send);
            }
            Ok(Outcome::Undone(answers, error)) => {
                let why = Closed::of(error);
                self.reopen(why.clone());
                self.fail(answers, &why);
            }
            Ok(Outcome::Open(answers, error)) => {
                let why = Closed::of(error);
                let before = self.writes;
                match self.reopen(why.clone()) {
                    Some(found) if found == writes => answers.into_iter().for_each(Answered::send),
                    Some(found) if found == before => self.fail(answers, &why),
                    Some(_) | None => {
                        let text = why.error(self.file.path()).chain();
                        let unknown = || StoreError::unknown("committing to the file", text.clone());
                        answers
                            .into_iter()
                            .for_each(|a| a.fail(|| unknown().of_kind(why.kind())));
                    }
                }
            }
            Err(error) => {
                // The requests are gone with the panic: their callers hear that the outcome is unknown.
                tracing::error!(error = error.chain(), "the storage file cannot be written");
                self.reopen(Closed::of(error));
            }
        }
    }

    /// Whether the file can be written now. A closed one is opened again, if it is time for that.
    fn ready(&mut self) -> Result<(), Closed> {
        if let Some((until, why)) = &self.rest {
            if Instant::now() < *until {
                return Err(why.clone());
            }
            let why = why.clone();
            self.rest = None;
            if self.is_closed && self.reopen(why.clone()).is_none() {
                return Err(self.rest.as_ref().map_or(why, |(_, why)| why.clone()));
            }
        }
        Ok(())
    }

    /// Opens the file again after an error; how often it was written then, `None` when that is not known.
    fn reopen(&mut self, why: Closed) -> Option<u64> {
        let said = Identity {
            id: self.card.as_ref()?.id().to_owned(),
            writes: self.writes,
        };
        let rest = |why| Some((Instant::now() + REST, why));
        if why.is_full() {
            self.rest = rest(why.clone());
        }
        let found = match self.file.reopen(&said, why) {
            Ok(found) => found,
            Err(why) => {
                if !self.is_closed {
                    let error = why.error(self.file.path()).chain();
                    tracing::error!(
                        error,
                        "the storage file cannot be opened again; trying each half second"
                    );
                }
                self.is_closed = true;
                self.rest = rest(why);
                return None;
            }
        };
        self.is_closed = false;
        self.note(found);
        Some(found)
    }

    fn note(&mut self, writes: u64) {
        self.writes = writes;
        if let Some(Err(error)) = self.card.as_ref().map(|card| card.note(writes)) {
            tracing::warn!(%error, "cannot write the card of the storage file: a missing file may not be noticed");
        }
    }

    fn fail(&self, answers: Vec<Answered>, why: &Closed) {
        let path = self.file.path();
        answers.into_iter().for_each(|a| a.fail(|| why.error(path)));
    }
}

fn transact(
    file: &Database,
    requests: impl Iterator<Item = Request>,
    writes: u64,
    now: Timestamp,
) -> Outcome {
    const WHAT: &str = "writing the file";
    let failed = |error: redb::Error| StoreError::undone(WHAT, error);
    let transaction = match maps::begin(file) {
        Ok(transaction) => transaction,
        Err(error) => return Outcome::Undone(requests.map(Request::held).collect(), failed(error)),
    };
    let answers: Vec<Answered> = requests
        .map(|request| carry_out(&transaction, request, now))
        .collect();
    // A write that failed halfway would leave its half in the transaction: nothing of it is kept then.
    if let Some(why) = answers.iter().find_map(Answered::failure) {
        return Outcome::Undone(answers, why);
    }
    if let Err(error) = maps::put_writes(&transaction, writes) {
        return Outcome::Undone(answers, failed(error));
    }
    match transaction.commit() {
        Ok(()) => Outcome::Durable(answers),
        Err(error) => Outcome::Open(answers, failed(error.into())),
    }
}

fn carry_out(transaction: &WriteTransaction, request: Request, now: Timestamp) -> Answered {
    let mut maps = Writing(transaction);
    match request {
        Request::Decide(decision, answer) => {
            let (decision, plan) = *decision;
            Answered::Decide(kv::decide(&mut maps, &decision, &plan, now), answer)
        }
        Request::Commit(stamp, rows, answer) => {
            Answered::Commit(kv::commit(&mut maps, stamp, &rows, now), answer)
        }
    }
}

fn refuse(request: Request, error: StoreError) {
    // A caller that has stopped waiting for an answer needs none.
    match request {
        Request::Decide(_, answer) => drop(answer.send(Err(error))),
        Request::Commit(_, _, answer) => drop(answer.send(Err(error))),
    }
}

impl Request {
    /// What holds its answer back, where it was not carried out.
    fn held(self) -> Answered {
        let error = || StoreError::undone("writing the file", "it was not begun");
        match self {
            Self::Decide(_, answer) => Answered::Decide(Err(error()), answer),
            Self::Commit(_, _, answer) => Answered::Commit(Err(error()), answer),
        }
    }
}

impl Answered {
    /// Why the transaction cannot be kept. A row that cannot be understood is found before anything is written: that is
    /// the answer to one request, not the end of the others.
    fn failure(&self) -> Option<StoreError> {
        let error = match self {
            Self::Decide(done, _) => done.as_ref().err(),
            Self::Commit(done, _) => done.as_ref().err(),
        };
        match error? {
            StoreError::Unread(_) => None,
            StoreError::Unavailable {
                what, kind, source, ..
            } => Some(StoreError::undone(what.clone(), source.to_string()).of_kind(*kind)),
            other => Some(StoreError::undone("writing the file", other.chain())),
        }
    }

    fn send(self) {
        match self {
            Self::Decide(done, answer) => drop(answer.send(done)),
            Self::Commit(done, answer) => drop(answer.send(done)),
        }
    }

    fn fail(self, error: impl FnOnce() -> StoreError) {
        match self {
            Self::Decide(_, answer) => drop(answer.send(Err(error()))),
            Self::Commit(_, answer) => drop(answer.send(Err(error()))),
        }
    }
}
