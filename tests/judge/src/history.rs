//! What happened, as lines of JSON in the order of being written down.

use std::io::{self, BufRead};

use serde::{Deserialize, Serialize};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Milliseconds of the machine's monotonic clock, which all processes of a run share.
    pub at: u64,
    /// What.
    #[serde(flatten)]
    pub event: Event,
}

/// What a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Its instances end.
    Batch,
    /// Its instances run until they are stopped.
    Service,
}

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "wish", rename_all = "snake_case")]
pub enum Wish {
    /// A new job.
    Submit {
        /// Its name, which no other job of the history has.
        job: String,
        /// What it is.
        kind: Kind,
        /// Its instances, from 0.
        instances: u32,
    },
    /// The end of a job.
    Stop {
        /// Which.
        job: String,
    },
    /// A restart of all instances of a job.
    Restart {
        /// Which.
        job: String,
    },
    /// A look at a job.
    Get {
        /// Which.
        job: String,
    },
    /// A look at all jobs.
    List,
    /// A look at the stored events of a job.
    Events {
        /// Which.
        job: String,
    },
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// It was done.
    Done,
    /// It was answered with an error.
    Refused {
        /// The HTTP status.
        status: u16,
        /// The answer.
        text: String,
    },
    /// It was not answered: it may be done.
    Unknown {
        /// Why.
        why: String,
    },
}

/// Instances of a job in one state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupCounts {
    /// The state, as the API writes it.
    pub state: String,
    /// How many.
    pub count: u64,
}

/// A job as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobView {
    /// The name that the client gave.
    pub job: String,
    /// The id that the product gave.
    pub id: String,
    /// Its state, as the API writes it.
    pub state: String,
    /// Its version, which each change of what is wanted raises; 0: it was not told.
    #[serde(default)]
    pub version: u64,
    /// Instances by state.
    pub counts: Vec<GroupCounts>,
}

/// A job as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredJob {
    /// The name that the client gave.
    pub job: String,
    /// The id that the product gave.
    pub id: String,
    /// Its version.
    pub version: u64,
    /// What is wanted of it: `RUNNING`, `STOPPED` or `DELETED`.
    pub desired: String,
}

/// How a task ended by its agent's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskEnd {
    /// By itself, with this status.
    Exit(i32),
    /// By this signal.
    Signal(i32),
    /// It never ran.
    NotStarted(String),
    /// Its agent does not know.
    Lost,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// What is judged, said before anything else happens.
    Started {
        /// The day.
        date: String,
        /// What it runs on.
        machine: String,
        /// The commit that runs.
        commit: String,
        /// The processes: `federation` or `standalone`.
        shape: String,
    },
    /// A task began. It says so itself.
    Began {
        /// Its job's name.
        job: String,
        /// Its instance.
        index: u32,
        /// Its run, a name that no other run has.
        run: String,
        /// Its process.
        pid: u32,
        /// Its host.
        host: String,
        /// Milliseconds of the wall clock.
        wall: u64,
    },
    /// A task is about to end by itself. It says so itself.
    Ending {
        /// Its job's name.
        job: String,
        /// Its instance.
        index: u32,
        /// Its run.
        run: String,
        /// Its process.
        pid: u32,
        /// Its exit status; none when it was told to end.
        code: Option<i32>,
        /// Milliseconds of the wall clock.
        wall: u64,
    },
    /// A task's process is gone: the kernel has freed its lock.
    Gone {
        /// Its run.
        run: String,
        /// Its process.
        pid: u32,
        /// When it was last known to live.
        alive_at: u64,
    },
    /// An agent's log: a task's process began.
    AgentBegan {
        /// The run.
        run: String,
        /// The process.
        pid: u32,
    },
    /// An agent's log: a task ended.
    AgentEnded {
        /// The run.
        run: String,
        /// How.
        how: TaskEnd,
    },
    /// A client sends a request.
    Asked {
        /// Its number.
        request: u64,
        /// What for.
        what: Wish,
    },
    /// A request ended.
    Answered {
        /// Its number.
        request: u64,
        /// How.
        #[serde(flatten)]
        outcome: Outcome,
    },
    /// A request for one job was answered with it.
    Shown {
        /// When it was sent.
        asked_at: u64,
        /// The job.
        view: JobView,
    },
    /// All pages of a list of all jobs were answered.
    Listed {
        /// When the first was sent.
        asked_at: u64,
        /// The jobs.
        views: Vec<JobView>,
    },
    /// A watcher got its first answer: it sees all later events.
    WatchBegan {
        /// Its number.
        watcher: u32,
        /// The job.
        job: String,
        /// Names of the events that a list of all had right after that answer. No clock says which are later.
        before: Vec<String>,
    },
    /// A watcher got events.
    Saw {
        /// Its number.
        watcher: u32,
        /// The job.
        job: String,
        /// Their names: time, state and the like.
        events: Vec<String>,
    },
    /// A watcher was told that its job has ended, and watches it no more.
    WatchEnded {
        /// Its number.
        watcher: u32,
        /// The job.
        job: String,
    },
    /// The events of a job, read in the end.
    Stored {
        /// The job.
        job: String,
        /// Their names.
        events: Vec<String>,
    },
    /// An acknowledged change of a job was answered with the job's version.
    Acknowledged {
        /// The job.
        job: String,
        /// Its version.
        version: u64,
    },
    /// All jobs were read from storage, past the product.
    StoredJobs {
        /// When that began.
        asked_at: u64,
        /// Those that can be read.
        jobs: Vec<StoredJob>,
        /// Ids of those that cannot.
        unreadable: Vec<String>,
    },
    /// A row of a job is about to be made unreadable: its job is to be set aside.
    SpoilsRow {
        /// The job.
        job: String,
        /// The row's table.
        table: String,
    },
    /// The good row is back and was read again.
    RowBack {
        /// The job.
        job: String,
    },
    /// An agent's process is about to be killed; its tasks live on.
    AgentDown {
        /// Its host, as tasks know it.
        host: String,
    },
    /// It is started again.
    AgentUp {
        /// Its host.
        host: String,
    },
    /// From now on each task that begins on this host ends at once with an error.
    HostFails {
        /// The host.
        host: String,
    },
    /// From now on the agent of this host starts no task.
    AgentFails {
        /// The host.
        host: String,
        /// What is among the words that it has for each.
        words: String,
    },
    /// The host, or its agent, works again.
    HostWorks {
        /// The host.
        host: String,
    },
    /// A process was asked for what should take little memory.
    Memory {
        /// The process.
        process: String,
        /// KiB that it had before.
        before: u64,
        /// The most KiB that it had meanwhile.
        peak: u64,
        /// The most KiB that it may have had.
        most: u64,
    },
    /// A copy of storage is about to be taken.
    BackupTaken,
    /// It was put back: what was stored since then is lost.
    BackupBack,
    /// An operator has resumed the storage.
    Resumed,
    /// Something that a fault must bring about was looked for.
    Checked {
        /// What must be.
        what: String,
        /// Whether it was.
        held: bool,
        /// What was seen.
        seen: String,
    },
    /// A fault cannot be played on this machine.
    Skipped {
        /// Its name.
        name: String,
        /// Why.
        why: String,
    },
    /// Tasks that a master counts as running.
    MasterTasks {
        /// The cluster.
        cluster: String,
        /// Their runs.
        runs: Vec<String>,
    },
    /// A fault begins.
    FaultBegan {
        /// Its number.
        fault: u32,
        /// What it is.
        name: String,
        /// What it hits.
        subject: String,
        /// Whether nothing can recover before it ends.
        blocks: bool,
    },
    /// A fault ends: what was stopped goes on or is started again.
    FaultEnded {
        /// Its number.
        fault: u32,
    },
    /// A fresh job's way after a fault began.
    Probed {
        /// The fault's number.
        fault: u32,
        /// When it was acknowledged.
        acknowledged: Option<u64>,
        /// When it began to run.
        began: Option<u64>,
    },
    /// A client stops repeating a request: no gateway answered it in the time that a client has.
    GaveUp {
        /// The request.
        what: Wish,
        /// How often it was tried.
        tries: u32,
    },
    /// Nothing more is done to the product: what is wanted must hold from here.
    Settled,
    /// The judged time is over.
    Over,
}

/// All that happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// In the order of being written down.
    pub lines: Vec<Line>,
}

impl History {
    /// Reads lines of JSON.
    ///
    /// # Errors
    /// A line cannot be read or is none; the error has its number.
    pub fn read(from: impl BufRead) -> io::Result<Self> {
        let mut lines = Vec::new();
        for (number, text) in from.lines().enumerate() {
            let line = serde_json::from_str(&text?);
            lines.push(line.map_err(|error| io::Error::other(format!("line {}: {error}", number + 1)))?);
        }
        Ok(Self { lines })
    }

    /// The last moment.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.lines.iter().map(|line| line.at).max().unwrap_or(0)
    }

    /// Requests with their moments, their answers and those answers' moments.
    pub(crate) fn requests(&self) -> Vec<Request<'_>> {
        let mut requests: Vec<Request<'_>> = Vec::new();
        let mut places = std::collections::BTreeMap::new();
        for line in &self.lines {
            match &line.event {
                Event::Asked { request, what } => {
                    places.insert(*request, requests.len());
                    requests.push(Request {
                        asked_at: line.at,
                        what,
                        answer: None,
                    });
                }
                Event::Answered { request, outcome } => {
                    if let Some(of) = places.get(request).and_then(|place| requests.get_mut(*place)) {
                        of.answer = Some((line.at, outcome));
                    }
                }
                _ => {}
            }
        }
        requests
    }
}

/// A request with its answer.
pub(crate) struct Request<'a> {
    pub asked_at: u64,
    pub what: &'a Wish,
    pub answer: Option<(u64, &'a Outcome)>,
}

impl Request<'_> {
    /// When it was acknowledged, if it was.
    pub(crate) fn done_at(&self) -> Option<u64> {
        match self.answer {
            Some((at, Outcome::Done)) => Some(at),
            _ => None,
        }
    }
}
