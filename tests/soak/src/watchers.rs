//! Watchers: each follows one job to its end, over gateways that die, and then another one.

use std::collections::BTreeSet;
use std::io::{BufRead, ErrorKind};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use echelon_tests::http::{self, Ask};
use echelon_tests_judge::Event;
use serde_json::Value;

use crate::client::{Client, event_name, list_of, text};
use crate::recorder::Recorder;

/// How long one read of a watch waits before the watcher looks whether it is to end.
const READ_WITHIN: Duration = Duration::from_secs(2);

/// Time before a broken watch is begun again. It doubles while no answer comes, as clients do that mean well.
const AGAIN_AFTER: Duration = Duration::from_millis(250);
const AGAIN_AFTER_AT_MOST: Duration = Duration::from_secs(8);

/// Threads that watch until they are stopped.
pub struct Watchers {
    /// No new job is watched.
    last: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    watched: Arc<Mutex<BTreeSet<String>>>,
    threads: Vec<JoinHandle<Result<()>>>,
}

struct Watcher {
    number: u32,
    client: Arc<Client>,
    recorder: Arc<Recorder>,
    jobs: Arc<Mutex<Vec<String>>>,
    watched: Arc<Mutex<BTreeSet<String>>>,
    last: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

impl Watchers {
    /// So many watchers of the latest of `jobs`.
    #[must_use]
    pub fn start(
        count: u32,
        client: &Arc<Client>,
        recorder: &Arc<Recorder>,
        jobs: &Arc<Mutex<Vec<String>>>,
    ) -> Self {
        let (last, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let watched = Arc::new(Mutex::new(BTreeSet::new()));
        let threads = (0..count).map(|number| {
            let watcher = Watcher {
                number,
                client: client.clone(),
                recorder: recorder.clone(),
                jobs: jobs.clone(),
                watched: watched.clone(),
                last: last.clone(),
                stop: stop.clone(),
            };
            thread::spawn(move || watcher.run())
        });
        let threads = threads.collect();
        Self {
            last,
            stop,
            watched,
            threads,
        }
    }

    /// Lets each watcher see the end of its job, for so long, and gives the jobs that were watched.
    ///
    /// # Errors
    /// A thread failed.
    pub fn finish(mut self, within: Duration) -> Result<Vec<String>> {
        self.last.store(true, Ordering::SeqCst);
        let deadline = Instant::now() + within;
        while Instant::now() < deadline && self.threads.iter().any(|thread| !thread.is_finished()) {
            thread::sleep(Duration::from_millis(50));
        }
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(done) => done?,
                Err(_) => bail!("a watcher panicked"),
            }
        }
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(watched.iter().cloned().collect())
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

impl Watcher {
    fn run(&self) -> Result<()> {
        let mut before = None;
        while !self.last.load(Ordering::SeqCst) {
            let job = self
                .jobs
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .last()
                .cloned();
            match job {
                Some(job) if before.as_ref() != Some(&job) => {
                    self.watch(&job)?;
                    before = Some(job);
                }
                _ => thread::sleep(AGAIN_AFTER),
            }
        }
        Ok(())
    }

    /// Watches a job to its end. What breaks is begun again at the next gateway, from the last token.
    fn watch(&self, job: &str) -> Result<()> {
        let (mut token, mut began) = (String::new(), false);
        let mut wait = AGAIN_AFTER;
        while !self.stop.load(Ordering::SeqCst) {
            let before = token.clone();
            let path = format!("/v1/jobs/{job}:watch?resumeToken={}", http::escaped(&token));
            let ask = Ask::get(&path).within(READ_WITHIN);
            if let Ok((200, mut body)) = http::stream(self.client.gateway()?, &ask)
                && self.read(job, &mut body, (&mut token, &mut began))?
            {
                self.recorder.tell(Event::WatchEnded {
                    watcher: self.number,
                    job: job.to_owned(),
                })?;
                return Ok(());
            }
            wait = if token == before {
                (wait * 2).min(AGAIN_AFTER_AT_MOST)
            } else {
                AGAIN_AFTER
            };
            thread::sleep(wait);
        }
        Ok(())
    }

    /// Reads answers until the stream ends; whether the job has ended, too.
    fn read(
        &self,
        job: &str,
        body: &mut std::io::BufReader<TcpStream>,
        state: (&mut String, &mut bool),
    ) -> Result<bool> {
        let (token, began) = state;
        let (mut line, mut has_ended) = (Vec::new(), false);
        loop {
            match body.read_until(b'\n', &mut line) {
                Ok(0) => return Ok(has_ended),
                Ok(_) if line.ends_with(b"\n") => {}
                // the connection broke within a line
                Ok(_) => return Ok(false),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if self.stop.load(Ordering::SeqCst) {
                        return Ok(false);
                    }
                    continue;
                }
                Err(_) => return Ok(false),
            }
            let answer: Value = match serde_json::from_slice(&line) {
                Ok(answer) => answer,
                Err(_) => return Ok(false),
            };
            line.clear();
            let Some(view) = answer.get("job") else {
                // an error as the last line: it is begun again
                return Ok(false);
            };
            if !*began {
                self.watched
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert(job.to_owned());
                // what the list lacks is later than the answer, whatever clocks say
                let Some(before) = self.client.events(job)? else {
                    return Ok(false);
                };
                *began = true;
                self.recorder.tell(Event::WatchBegan {
                    watcher: self.number,
                    job: job.to_owned(),
                    before,
                })?;
            }
            has_ended = matches!(
                text(view, "state").as_str(),
                "JOB_STATE_SUCCEEDED" | "JOB_STATE_FAILED" | "JOB_STATE_STOPPED"
            );
            *token = text(&answer, "resumeToken");
            let events: Vec<String> = list_of(&answer, "events").iter().map(event_name).collect();
            if !events.is_empty() {
                self.recorder.tell(Event::Saw {
                    watcher: self.number,
                    job: job.to_owned(),
                    events,
                })?;
            }
        }
    }
}
