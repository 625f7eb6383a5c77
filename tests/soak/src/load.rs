//! Work that comes and goes while faults are played: batch jobs, services that are stopped again, and looks at all of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use echelon_tests_judge::Kind;

use crate::client::{Client, Job};

/// Instances of each batch job.
const INSTANCES: u32 = 8;

/// How long one submit is tried: longer than any fault.
const SUBMIT_WITHIN: Duration = Duration::from_secs(180);

/// Time between two looks at all jobs.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How long a service lives before it is stopped.
const STOP_AFTER: Duration = Duration::from_secs(20);

/// Threads that make work until they are stopped.
pub struct Load {
    stop: Arc<AtomicBool>,
    submitted: Arc<Mutex<Vec<String>>>,
    threads: Vec<JoinHandle<Result<()>>>,
}

impl Load {
    /// Begins with so many new instances a second.
    #[must_use]
    pub fn start(client: &Arc<Client>, per_second: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let submitted = Arc::new(Mutex::new(Vec::new()));
        let every = Duration::from_secs(INSTANCES.into()) / per_second.max(1);
        let (own, own_stop, own_list) = (client.clone(), stop.clone(), submitted.clone());
        let batches = thread::spawn(move || {
            each(&own_stop, every, |number| {
                let job = Job {
                    name: format!("batch-{number}"),
                    kind: Kind::Batch,
                    instances: INSTANCES,
                    seconds: "2-15".to_owned(),
                    cluster: None,
                };
                if own.submit(&job, SUBMIT_WITHIN)?.is_some() {
                    own_list
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(job.name);
                }
                Ok(())
            })
        });
        let (own, own_stop) = (client.clone(), stop.clone());
        let services = thread::spawn(move || {
            each(&own_stop, STOP_AFTER, |number| {
                let job = Job {
                    name: format!("short-{number}"),
                    kind: Kind::Service,
                    instances: 2,
                    seconds: String::new(),
                    cluster: None,
                };
                own.submit(&job, SUBMIT_WITHIN)?;
                if let Some(before) = number.checked_sub(1) {
                    own.stop(&format!("short-{before}"), SUBMIT_WITHIN)?;
                }
                Ok(())
            })
        });
        let (own, own_stop, own_list) = (client.clone(), stop.clone(), submitted.clone());
        let looks = thread::spawn(move || {
            each(&own_stop, LOOK_EVERY, |number| {
                own.list()?;
                let job = {
                    let list = own_list.lock().unwrap_or_else(PoisonError::into_inner);
                    let place = usize::try_from(number)? * 7 % list.len().max(1);
                    list.get(place).cloned()
                };
                if let Some(job) = job {
                    own.get(&job)?;
                }
                Ok(())
            })
        });
        Self {
            stop,
            submitted,
            threads: vec![batches, services, looks],
        }
    }

    /// The batch job that was acknowledged last.
    #[must_use]
    pub fn latest(&self) -> Arc<Mutex<Vec<String>>> {
        self.submitted.clone()
    }

    /// Makes no more, and gives the batch jobs that were acknowledged.
    ///
    /// # Errors
    /// A thread failed.
    pub fn finish(mut self) -> Result<Vec<String>> {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(done) => done?,
                Err(_) => bail!("a thread of the load panicked"),
            }
        }
        let submitted = self.submitted.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(submitted.clone())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

/// Acts again and again until the stop, at this distance, and late where an act takes longer.
fn each(stop: &AtomicBool, every: Duration, mut act: impl FnMut(u32) -> Result<()>) -> Result<()> {
    let mut due = Instant::now();
    for number in 0.. {
        while Instant::now() < due {
            if stop.load(Ordering::SeqCst) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(50));
        }
        if stop.load(Ordering::SeqCst) {
            return Ok(());
        }
        act(number)?;
        due = (due + every).max(Instant::now());
    }
    Ok(())
}
