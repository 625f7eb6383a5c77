//! The cluster's state machine among the tasks of a runtime: one lock around it, its outputs carried out in order before
//! the lock is given back, a timer that ticks it. Nothing here decides anything about Mesos.

use crate::codec::{self, Encoding};
use crate::exec::Runner;
use crate::journal::Journal;
use crate::server::Home;
use bytes::Bytes;
use echelon_io_process::{Clock, Shutdown};
use echelon_proto::mesos::v1::scheduler::Event;
use echelon_proto::recordio;
use echelon_sim_mesos::Timestamp;
use echelon_sim_mesos::{Cluster, Output, Request, Response, StreamEnd, StreamId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{Notify, mpsc};

/// The stream breaks off instead of ending.
#[derive(Debug, Error)]
#[error("the simulated master broke the stream")]
pub(crate) struct BrokenStream;

/// What a subscriber reads.
pub(crate) type Records = mpsc::Receiver<Result<Bytes, BrokenStream>>;

pub(crate) struct Engine {
    state: Mutex<State>,
    clock: Clock,
    /// Something may be due earlier than the timer knows.
    changed: Notify,
    stream_bound: usize,
    pub(crate) runner: Option<Runner>,
    pub(crate) shutdown: Shutdown,
    pub(crate) home: Home,
}

struct State {
    cluster: Cluster,
    journal: Option<Journal>,
    readers: BTreeMap<StreamId, Reader>,
}

struct Reader {
    encoding: Encoding,
    records: mpsc::Sender<Result<Bytes, BrokenStream>>,
}

impl Engine {
    pub(crate) fn new(
        cluster: Cluster,
        (journal, runner, home): (Option<Journal>, Option<Runner>, Home),
        (stream_bound, clock): (usize, Clock),
        shutdown: &Shutdown,
    ) -> Arc<Self> {
        let state = Mutex::new(State {
            cluster,
            journal,
            readers: BTreeMap::new(),
        });
        let (changed, shutdown) = (Notify::new(), shutdown.clone());
        Arc::new(Self {
            state,
            clock,
            changed,
            stream_bound,
            runner,
            shutdown,
            home,
        })
    }

    /// Puts something into the cluster and carries out what it wants done.
    pub(crate) fn with<R>(self: &Arc<Self>, act: impl FnOnce(&mut Cluster, Timestamp) -> R) -> R {
        let mut state = self.lock();
        let result = act(&mut state.cluster, self.clock.now());
        self.perform(&mut state);
        drop(state);
        self.changed.notify_one();
        result
    }

    /// Answers a scheduler request; a good SUBSCRIBE comes with what its stream carries.
    pub(crate) fn request(
        self: &Arc<Self>,
        request: &Request,
        encoding: Encoding,
    ) -> (Response, Option<Records>) {
        let mut state = self.lock();
        let response = state.cluster.handle(request, self.clock.now());
        let records = response.stream.as_ref().map(|stream| {
            let (records, receiver) = mpsc::channel(self.stream_bound.max(1));
            state.readers.insert(stream.clone(), Reader { encoding, records });
            receiver
        });
        self.perform(&mut state);
        drop(state);
        self.changed.notify_one();
        (response, records)
    }

    /// Looks at the cluster.
    pub(crate) fn view<R>(&self, look: impl FnOnce(&Cluster) -> R) -> R {
        look(&self.lock().cluster)
    }

    /// Breaks every stream, as a network would.
    pub(crate) fn cut_streams(self: &Arc<Self>) {
        let mut state = self.lock();
        for (stream, reader) in std::mem::take(&mut state.readers) {
            // If the reader is gone already, there is nobody left to tell.
            let _ = reader.records.try_send(Err(BrokenStream));
            state.cluster.close_stream(&stream, self.clock.now());
        }
        self.perform(&mut state);
        drop(state);
        self.changed.notify_one();
    }

    /// Ticks the cluster whenever something is due, until the shutdown begins.
    pub(crate) async fn keep_time(self: Arc<Self>) {
        let token = self.shutdown.token();
        loop {
            let wait = self.time_to_wake();
            tokio::select! {
                () = token.cancelled() => return,
                () = self.changed.notified() => continue,
                () = tokio::time::sleep(wait) => {}
            }
            let mut state = self.lock();
            state.cluster.tick(self.clock.now());
            self.perform(&mut state);
        }
    }

    fn time_to_wake(&self) -> Duration {
        const IDLE: Duration = Duration::from_secs(3600);
        let wake = self.lock().cluster.next_wake();
        wake.map_or(IDLE, |at| Duration::from_millis(at.since(self.clock.now()).0))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn perform(self: &Arc<Self>, state: &mut State) {
        // Cutting a slow reader makes new outputs.
        loop {
            let outputs = state.cluster.drain();
            if outputs.is_empty() {
                return;
            }
            for output in outputs {
                match output {
                    Output::Store { key, value } => {
                        if !self.store(state, &key, value.as_deref()) {
                            return;
                        }
                    }
                    Output::Event { stream, event } => {
                        self.runner.iter().for_each(|runner| runner.note_dropped(&event));
                        self.tell(state, &stream, &event);
                    }
                    Output::Close { stream, end } => close(state, &stream, end),
                    Output::Crash { why } => {
                        tracing::error!(%why, "a framework killed the simulated master; ending");
                        self.shutdown.begin();
                    }
                    Output::Launch(launch) => {
                        self.runner.iter().for_each(|runner| runner.launch(self, &launch))
                    }
                    // For custom executors, of which none is run.
                    Output::Destroy { volume } => {
                        if let Some(runner) = &self.runner {
                            runner.destroy(&volume);
                        }
                    }
                    Output::Shutdown(_) | Output::Message { .. } => {}
                    Output::Kill { run, grace } => {
                        self.runner.iter().for_each(|runner| runner.kill(&run, grace))
                    }
                }
            }
        }
    }

    /// Keeps a record. Where that fails nothing may follow: the process ends, its tasks live on.
    fn store(&self, state: &mut State, key: &str, value: Option<&[u8]>) -> bool {
        let Some(journal) = &mut state.journal else {
            return true;
        };
        match journal.append(key, value) {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(key, %error, "cannot write the journal of the simulated cluster; ending");
                self.shutdown.begin();
                false
            }
        }
    }

    fn tell(&self, state: &mut State, stream: &StreamId, event: &Event) {
        let Some(reader) = state.readers.get(stream) else {
            return;
        };
        let record = codec::write(event, reader.encoding, "mesos.v1.scheduler.Event");
        let framed = Bytes::from(recordio::encode(&record));
        if reader.records.try_send(Ok(framed)).is_err() {
            // A reader that does not read, or is gone (rule H3, S27).
            tracing::warn!(
                stream = stream.as_str(),
                "a subscriber does not read its events; cutting its stream"
            );
            state.readers.remove(stream);
            state.cluster.close_stream(stream, self.clock.now());
        }
    }
}

fn close(state: &mut State, stream: &StreamId, end: StreamEnd) {
    if let Some(reader) = state.readers.remove(stream)
        && end == StreamEnd::Broken
    {
        // If the reader is gone already, there is nobody left to tell.
        let _ = reader.records.try_send(Err(BrokenStream));
    }
}
