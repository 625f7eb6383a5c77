//! The file's one writer: a thread that takes what waits, carries all of it out in one durable transaction, and answers
//! only then. Under load one sync to disk serves many writes; without load each has its own.

use super::maps::Writing;
use crate::StoreError;
use crate::kv;
use crate::layout::{Plan, RowWrite};
use crate::memory::now;
use echelon_core_model::Timestamp;
use echelon_core_model::store::{Decided, Decision, Stamp};
use redb::{Database, WriteTransaction};
use std::sync::Arc;
use std::thread::JoinHandle;
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
    pub fn start(file: Arc<Database>) -> Result<Self, StoreError> {
        let (requests, waiting) = mpsc::channel(WAITING);
        let thread = std::thread::Builder::new()
            .name("storage-writer".to_owned())
            .spawn(move || serve(&file, waiting))
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
        "its writer has ended; restart this process and look at the log before",
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

fn serve(file: &Database, mut waiting: mpsc::Receiver<Request>) {
    let mut together = Vec::with_capacity(TOGETHER);
    while waiting.blocking_recv_many(&mut together, TOGETHER) > 0 {
        write(file, together.drain(..), now());
    }
}

fn write(file: &Database, requests: impl Iterator<Item = Request>, now: Timestamp) {
    let transaction = match begin(file) {
        Ok(transaction) => transaction,
        Err(error) => {
            let why = StoreError::undone("beginning a transaction", error).chain();
            requests.for_each(|request| refuse(request, &why));
            return;
        }
    };
    let answers: Vec<Answered> = requests
        .map(|request| carry_out(&transaction, request, now))
        .collect();
    // A write that failed halfway would leave its half in the transaction: nothing of it is kept then.
    if let Some(why) = answers.iter().find_map(Answered::failure) {
        let undone = transaction.abort();
        let why = match undone {
            Ok(()) => why,
            Err(e) => format!("{why}; {e}"),
        };
        answers
            .into_iter()
            .for_each(|a| a.fail(|| StoreError::undone("writing the file", why.clone())));
        return;
    }
    match transaction.commit() {
        Ok(()) => answers.into_iter().for_each(Answered::send),
        Err(error) => {
            let why = error.to_string();
            answers
                .into_iter()
                .for_each(|a| a.fail(|| StoreError::unknown("committing to the file", why.clone())));
        }
    }
}

fn begin(file: &Database) -> Result<WriteTransaction, redb::Error> {
    let mut transaction = file.begin_write()?;
    // A killed process then costs the next start a millisecond instead of a walk through the file.
    transaction.set_quick_repair(true);
    transaction.set_durability(redb::Durability::Immediate)?;
    Ok(transaction)
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

fn refuse(request: Request, why: &str) {
    let error = || StoreError::undone("writing the file", why.to_owned());
    // Whoever has stopped waiting for an answer needs none.
    match request {
        Request::Decide(_, answer) => drop(answer.send(Err(error()))),
        Request::Commit(_, _, answer) => drop(answer.send(Err(error()))),
    }
}

impl Answered {
    /// Why the transaction cannot be kept. A row that cannot be understood is found before anything is written: that is
    /// the answer to one request, not the end of the others.
    fn failure(&self) -> Option<String> {
        let error = match self {
            Self::Decide(done, _) => done.as_ref().err(),
            Self::Commit(done, _) => done.as_ref().err(),
        };
        error
            .filter(|e| !matches!(e, StoreError::Unread(_)))
            .map(StoreError::chain)
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
