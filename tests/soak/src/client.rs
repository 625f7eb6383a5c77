//! A user of the API: submits, stops and looks at jobs through any gateway, tries again, and writes down each request with
//! its answer.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use echelon_tests::http::{self, Ask};
use echelon_tests_judge::{Event, GroupCounts, JobView, Kind, Outcome, Wish};
use serde_json::{Value, json};

use crate::clock::monotonic;
use crate::recorder::Recorder;

/// How long a gateway may take for one answer before the request counts as unknown.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a look is tried: longer than any fault leaves all gateways without storage.
const LOOK_WITHIN: Duration = Duration::from_secs(60);

/// Time between two tries of a request, each at the next gateway.
const TRY_EVERY: Duration = Duration::from_millis(250);

/// Jobs of one page.
const PAGE: u32 = 1000;

/// A user.
pub struct Client {
    gateways: Vec<SocketAddr>,
    next: AtomicUsize,
    recorder: Arc<Recorder>,
    /// The program that tasks run, with the folder that it writes to.
    marks: (PathBuf, PathBuf),
}

/// A good answer.
struct Done {
    /// When it was asked for, by the monotonic clock.
    asked_at: u64,
    /// When it was there.
    at: u64,
    body: Value,
}

/// A job to submit.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Its instances.
    pub instances: u32,
    /// Seconds that an instance of a batch job works: `5` or `2-15`.
    pub seconds: String,
    /// The only cluster that it may use, if there is one.
    pub cluster: Option<String>,
}

impl Client {
    /// A user of these gateways whose tasks write their marks with `program` into `folder`.
    #[must_use]
    pub fn new(gateways: Vec<SocketAddr>, recorder: Arc<Recorder>, program: &Path, folder: &Path) -> Self {
        Self {
            gateways,
            next: AtomicUsize::new(0),
            recorder,
            marks: (program.to_owned(), folder.to_owned()),
        }
    }

    /// The next gateway, each in its turn.
    ///
    /// # Errors
    /// There is none.
    pub fn gateway(&self) -> Result<SocketAddr> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let place = turn % self.gateways.len().max(1);
        self.gateways.get(place).copied().context("there is no gateway")
    }

    /// Submits a job, again and again with the same request id, until it is acknowledged or refused for good, or the time
    /// is over; when it was acknowledged.
    ///
    /// # Errors
    /// There is no clock.
    pub fn submit(&self, job: &Job, within: Duration) -> Result<Option<u64>> {
        let wish = Wish::Submit {
            job: job.name.clone(),
            kind: job.kind,
            instances: job.instances,
        };
        let path = format!("/v1/jobs?requestId={}", job.name);
        let done = self.insist(&wish, &Ask::post(&path, &self.spec(job)), within)?;
        self.acknowledged(&job.name, done)
    }

    /// Stops a job, as [`Client::submit`] submits it.
    ///
    /// # Errors
    /// There is no clock.
    pub fn stop(&self, job: &str, within: Duration) -> Result<Option<u64>> {
        let wish = Wish::Stop { job: job.to_owned() };
        let path = format!("/v1/jobs/{job}:stop");
        let done = self.insist(&wish, &Ask::post(&path, &json!({})), within)?;
        self.acknowledged(job, done)
    }

    /// Notes the version of an acknowledged change; when it was acknowledged.
    fn acknowledged(&self, job: &str, done: Option<Done>) -> Result<Option<u64>> {
        let Some(done) = done else { return Ok(None) };
        let version = version(done.body.get("job").unwrap_or(&done.body));
        let job = job.to_owned();
        self.recorder.tell(Event::Acknowledged { job, version })?;
        Ok(Some(done.at))
    }

    /// Repeats a request at one gateway after another until it is done or refused for good, or the time is
    /// over.
    fn insist(&self, wish: &Wish, ask: &Ask, within: Duration) -> Result<Option<Done>> {
        let deadline = Instant::now() + within;
        for tries in 1.. {
            let (outcome, done) = self.request(wish, ask)?;
            if done.is_some() {
                return Ok(done);
            }
            if matches!(
                outcome,
                Outcome::Refused {
                    status: 400 | 403 | 404,
                    ..
                }
            ) {
                return Ok(None);
            }
            if Instant::now() >= deadline {
                let what = wish.clone();
                self.recorder.tell(Event::GaveUp { what, tries })?;
                return Ok(None);
            }
            thread::sleep(TRY_EVERY);
        }
        Ok(None)
    }

    /// Looks at a job.
    ///
    /// # Errors
    /// There is no clock.
    pub fn get(&self, job: &str) -> Result<Option<JobView>> {
        let wish = Wish::Get { job: job.to_owned() };
        let done = self.insist(&wish, &Ask::get(&format!("/v1/jobs/{job}")), LOOK_WITHIN)?;
        let Some((asked_at, view)) = done.and_then(|done| Some((done.asked_at, view(&done.body)?))) else {
            return Ok(None);
        };
        let event = Event::Shown {
            asked_at,
            view: view.clone(),
        };
        self.recorder.tell(event)?;
        Ok(Some(view))
    }

    /// Reads all pages of the list of jobs, and says whether all were answered.
    ///
    /// # Errors
    /// There is no clock.
    pub fn list(&self) -> Result<bool> {
        let (mut views, mut token, mut first) = (Vec::new(), String::new(), None);
        loop {
            let path = format!("/v1/jobs?pageSize={PAGE}&pageToken={}", http::escaped(&token));
            let Some(done) = self.insist(&Wish::List, &Ask::get(&path), LOOK_WITHIN)? else {
                return Ok(false);
            };
            let asked_at = *first.get_or_insert(done.asked_at);
            views.extend(list_of(&done.body, "jobs").iter().filter_map(view));
            token = text(&done.body, "nextPageToken");
            if token.is_empty() {
                self.recorder.tell(Event::Listed { asked_at, views })?;
                return Ok(true);
            }
        }
    }

    /// The names of all stored events of a job; none when a page was not answered.
    ///
    /// # Errors
    /// There is no clock.
    pub fn events(&self, job: &str) -> Result<Option<Vec<String>>> {
        let (mut events, mut token) = (Vec::new(), String::new());
        loop {
            let page = http::escaped(&token);
            let path = format!("/v1/jobs/{job}/events?pageSize=1000&pageToken={page}");
            let wish = Wish::Events { job: job.to_owned() };
            let Some(done) = self.insist(&wish, &Ask::get(&path), LOOK_WITHIN)? else {
                return Ok(None);
            };
            let listed = list_of(&done.body, "events");
            events.extend(listed.iter().map(event_name));
            token = text(&done.body, "nextPageToken");
            // the token of events is for later ones, too: an empty page is the last
            if token.is_empty() || listed.is_empty() {
                return Ok(Some(events));
            }
        }
    }

    /// One try at the next gateway: its outcome, and the good answer.
    fn request(&self, wish: &Wish, ask: &Ask) -> Result<(Outcome, Option<Done>)> {
        let asked_at = monotonic()?;
        let request = self.recorder.request();
        self.recorder.tell(Event::Asked {
            request,
            what: wish.clone(),
        })?;
        let answer = http::ask(self.gateway()?, &ask.clone().within(PATIENCE));
        let (outcome, body) = match answer {
            Ok((200, text)) => match serde_json::from_str(&text) {
                Ok(body) => (Outcome::Done, Some(body)),
                Err(error) => (
                    Outcome::Unknown {
                        why: format!("the answer broke off: {error}"),
                    },
                    None,
                ),
            },
            Ok((status, text)) => (Outcome::Refused { status, text }, None),
            Err(error) => (
                Outcome::Unknown {
                    why: format!("{error:#}"),
                },
                None,
            ),
        };
        let event = Event::Answered {
            request,
            outcome: outcome.clone(),
        };
        let at = self.recorder.tell(event)?;
        let done = body.map(|body| Done { asked_at, at, body });
        Ok((outcome, done))
    }

    fn spec(&self, job: &Job) -> Value {
        let (program, folder) = &self.marks;
        let (kind, work) = match job.kind {
            Kind::Batch => ("JOB_KIND_BATCH", format!("batch {}", job.seconds)),
            Kind::Service => ("JOB_KIND_SERVICE", "service".to_owned()),
        };
        let command = format!(
            "exec {} {} {} {work}",
            program.display(),
            folder.display(),
            job.name
        );
        // what is silent is waited for: a second run of it is never right here
        json!({"spec": {
            "name": job.name,
            "pool": "/default",
            "kind": kind,
            "clusters": {"spread": "SPREAD_EVEN", "only": job.cluster.iter().collect::<Vec<_>>()},
            "onUnreachable": {"wait": {}},
            "onClusterLoss": {"wait": {}},
            "groups": [{
                "name": "main",
                "instances": job.instances,
                "command": command,
                // a host that fails is met by each job
                "strategy": "spread",
                "resources": {"cpusMilli": "50", "memoryMib": "16"},
            }],
        }})
    }
}

/// What the judge needs of a job.
fn view(job: &Value) -> Option<JobView> {
    let counts = list_of(job, "groups")
        .into_iter()
        .flat_map(|group| list_of(&group, "counts"));
    let count = |counts: &Value| counts.get("count").and_then(Value::as_str)?.parse().ok();
    Some(JobView {
        job: job.get("displayName")?.as_str()?.to_owned(),
        id: job.get("jobId")?.as_str()?.to_owned(),
        state: text(job, "state"),
        version: version(job),
        counts: counts
            .map(|counts| GroupCounts {
                state: text(&counts, "state"),
                // a number that is left out is zero
                count: count(&counts).unwrap_or(0),
            })
            .collect(),
    })
}

/// The version that a job is answered with; 0: none is there.
fn version(job: &Value) -> u64 {
    text(job, "etag").parse().unwrap_or(0)
}

/// What tells an event from another one of its job.
pub(crate) fn event_name(event: &Value) -> String {
    let instance = event.get("instance").map_or_else(String::new, Value::to_string);
    let words = ["time", "group", "state", "taskId"].map(|key| text(event, key));
    format!("{} {instance}", words.join(" "))
}

/// A text of an answer; JSON leaves out what is empty.
pub(crate) fn text(value: &Value, key: &str) -> String {
    let text = value.get(key).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

/// A list of an answer; JSON leaves out what is empty.
pub(crate) fn list_of(value: &Value, key: &str) -> Vec<Value> {
    value
        .get(key)
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default()
}
