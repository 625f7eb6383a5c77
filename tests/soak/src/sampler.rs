//! Reads what tasks and agents write, and sees when a task's process is gone: the kernel frees the lock on its file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use echelon_tests_judge::{Event, Line, TaskEnd};
use serde_json::Value;

use crate::clock::monotonic;
use crate::recorder::Recorder;

/// How late the end of a killed task is seen at most, on a machine that is not busy.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What is known of tasks at this moment.
#[derive(Default)]
struct Known {
    /// When each job first began to run.
    first: BTreeMap<String, u64>,
    /// Live tasks by job and instance.
    alive: BTreeMap<(String, u32), u32>,
    /// Instances that finished, by job.
    done: BTreeMap<String, std::collections::BTreeSet<u32>>,
}

/// A thread that looks until it is stopped.
pub struct Sampler {
    known: Arc<Mutex<Known>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

/// A task whose lock is watched.
struct Task {
    job: String,
    index: u32,
    run: String,
    pid: u32,
    file: File,
    path: PathBuf,
    alive_at: u64,
}

/// A file that grows by whole lines.
struct Tail {
    path: PathBuf,
    reader: Option<BufReader<File>>,
    partial: String,
}

struct Eye {
    marks: Tail,
    logs: Vec<Tail>,
    folder: PathBuf,
    tasks: Vec<Task>,
    recorder: Arc<Recorder>,
    known: Arc<Mutex<Known>>,
}

impl Sampler {
    /// Begins to look at the marks in `folder` and at these logs of agents.
    #[must_use]
    pub fn start(folder: &Path, logs: Vec<PathBuf>, recorder: &Arc<Recorder>) -> Self {
        let (known, stop) = (
            Arc::new(Mutex::new(Known::default())),
            Arc::new(AtomicBool::new(false)),
        );
        let mut eye = Eye {
            marks: Tail::new(folder.join("marks.jsonl")),
            logs: logs.into_iter().map(Tail::new).collect(),
            folder: folder.to_owned(),
            tasks: Vec::new(),
            recorder: recorder.clone(),
            known: known.clone(),
        };
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            loop {
                // what is written before the stop is still read
                let is_last = stopped.load(Ordering::SeqCst);
                eye.look()?;
                if is_last {
                    return eye.check_logs();
                }
                thread::sleep(LOOK_EVERY);
            }
        });
        Self {
            known,
            stop,
            thread: Some(thread),
        }
    }

    /// When a job first ran.
    #[must_use]
    pub fn first_began(&self, job: &str) -> Option<u64> {
        lock(&self.known).first.get(job).copied()
    }

    /// How many instances of a job live.
    #[must_use]
    pub fn n_alive(&self, job: &str) -> usize {
        let known = lock(&self.known);
        known.alive.keys().filter(|(of, _)| of == job).count()
    }

    /// How many instances of a job have finished.
    #[must_use]
    pub fn n_done(&self, job: &str) -> usize {
        lock(&self.known)
            .done
            .get(job)
            .map_or(0, std::collections::BTreeSet::len)
    }

    /// Looks a last time and ends.
    ///
    /// # Errors
    /// Something could not be read, now or earlier.
    pub fn finish(mut self) -> Result<()> {
        self.stop.store(true, Ordering::SeqCst);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(done)) => done,
            Some(Err(_)) => bail!("the sampler panicked"),
            None => Ok(()),
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

impl Eye {
    /// A log that was never written would let every comparison with it pass.
    fn check_logs(&self) -> Result<()> {
        let unwritten = self.logs.iter().find(|log| log.reader.is_none());
        match unwritten {
            Some(log) => bail!("no agent has written its log {}", log.path.display()),
            None => Ok(()),
        }
    }

    fn look(&mut self) -> Result<()> {
        for line in self.marks.lines()? {
            self.mark(serde_json::from_str(&line).with_context(|| format!("a mark: {line}"))?)?;
        }
        for log in &mut self.logs {
            for line in log.lines()? {
                let value = serde_json::from_str(&line).with_context(|| format!("an agent's log: {line}"))?;
                if let Some(event) = agent_event(&value) {
                    self.recorder.tell(event)?;
                }
            }
        }
        self.look_at_locks()
    }

    fn mark(&mut self, line: Line) -> Result<()> {
        match &line.event {
            Event::Began {
                job, index, run, pid, ..
            } => {
                let path = self.folder.join("locks").join(format!("{job}.{index}.{pid}"));
                let file = File::open(&path).with_context(|| format!("open {}", path.display()))?;
                self.tasks.push(Task {
                    job: job.clone(),
                    index: *index,
                    run: run.clone(),
                    pid: *pid,
                    file,
                    path,
                    alive_at: line.at,
                });
                let mut known = lock(&self.known);
                known.first.entry(job.clone()).or_insert(line.at);
                *known.alive.entry((job.clone(), *index)).or_default() += 1;
            }
            Event::Ending {
                job,
                index,
                code: Some(0),
                ..
            } => {
                lock(&self.known)
                    .done
                    .entry(job.clone())
                    .or_default()
                    .insert(*index);
            }
            _ => {}
        }
        self.recorder.tell_line(line);
        Ok(())
    }

    fn look_at_locks(&mut self) -> Result<()> {
        let now = monotonic()?;
        let mut alive = Vec::with_capacity(self.tasks.len());
        for mut task in std::mem::take(&mut self.tasks) {
            if task.file.try_lock_shared().is_err() {
                task.alive_at = now;
                alive.push(task);
                continue;
            }
            // missing is as good as removed
            let _ = fs::remove_file(&task.path);
            {
                let mut known = lock(&self.known);
                let owner = (task.job.clone(), task.index);
                let left = known.alive.get(&owner).map_or(0, |n| n.saturating_sub(1));
                if left == 0 {
                    known.alive.remove(&owner);
                } else {
                    known.alive.insert(owner, left);
                }
            }
            let event = Event::Gone {
                run: task.run,
                pid: task.pid,
                alive_at: task.alive_at,
            };
            self.recorder.tell_line(Line { at: now, event });
        }
        self.tasks = alive;
        Ok(())
    }
}

impl Tail {
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            reader: None,
            partial: String::new(),
        }
    }

    /// Whole lines that were added; none while the file is not there.
    fn lines(&mut self) -> Result<Vec<String>> {
        if self.reader.is_none() {
            match File::open(&self.path) {
                Ok(file) => self.reader = Some(BufReader::new(file)),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
                Err(error) => return Err(error).with_context(|| format!("open {}", self.path.display())),
            }
        }
        let mut lines = Vec::new();
        let Some(reader) = &mut self.reader else {
            return Ok(lines);
        };
        while reader.read_line(&mut self.partial)? > 0 {
            if self.partial.ends_with('\n') {
                lines.push(std::mem::take(&mut self.partial));
            }
        }
        Ok(lines)
    }
}

/// A line of a simulated agent's log.
fn agent_event(value: &Value) -> Option<Event> {
    let run = value.get("task")?.as_str()?.to_owned();
    let number = |value: &Value| i32::try_from(value.as_i64()?).ok();
    let how = match value.get("event")?.as_str()? {
        "began" => {
            let pid = u32::try_from(value.get("pid")?.as_u64()?).ok()?;
            return Some(Event::AgentBegan { run, pid });
        }
        "ended" => value.get("how")?,
        _ => return None,
    };
    let how = if let Some(code) = how.get("exit") {
        TaskEnd::Exit(number(code)?)
    } else if let Some(signal) = how.get("signal") {
        TaskEnd::Signal(number(signal)?)
    } else if let Some(why) = how.get("not_started") {
        TaskEnd::NotStarted(why.as_str()?.to_owned())
    } else {
        TaskEnd::Lost
    };
    Some(Event::AgentEnded { run, how })
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_the_agents_log() {
        let end = |how: Value| agent_event(&json!({"event": "ended", "task": "j.main.0.1.1", "how": how}));
        let ended = |how: TaskEnd| {
            let run = "j.main.0.1.1".to_owned();
            Some(Event::AgentEnded { run, how })
        };
        assert_eq!(end(json!({"exit": 3})), ended(TaskEnd::Exit(3)));
        assert_eq!(end(json!({"signal": 9})), ended(TaskEnd::Signal(9)));
        assert_eq!(end(json!("lost")), ended(TaskEnd::Lost));
        assert_eq!(agent_event(&json!({"event": "slept", "task": "t"})), None);
    }

    #[test]
    fn the_end_of_a_process_is_seen_by_its_lock() {
        let work = echelon_tests::work::WorkFolder::new("sampler").unwrap();
        let recorder = Arc::new(Recorder::new(&work.path().join("history")).unwrap());
        let locks = work.folder("locks").unwrap();
        let held = File::create(locks.join("job.0.77")).unwrap();
        held.lock().unwrap();
        let began = Event::Began {
            job: "job".to_owned(),
            index: 0,
            run: "r".to_owned(),
            pid: 77,
            host: "h".to_owned(),
            wall: 1,
        };
        let line = serde_json::to_string(&Line { at: 5, event: began }).unwrap();
        fs::write(work.path().join("marks.jsonl"), format!("{line}\n")).unwrap();
        let sampler = Sampler::start(work.path(), Vec::new(), &recorder);
        let limit = Duration::from_secs(20);
        let count = |n: usize| (sampler.n_alive("job") == n).then_some(());
        echelon_tests::wait::until("the task", limit, || Ok(count(1))).unwrap();
        assert_eq!(sampler.first_began("job"), Some(5));
        drop(held);
        echelon_tests::wait::until("its end", limit, || Ok(count(0))).unwrap();
        sampler.finish().unwrap();
        let lines = recorder.finish().unwrap().lines;
        let gone = lines
            .iter()
            .any(|line| matches!(&line.event, Event::Gone { pid: 77, .. }));
        assert!(gone, "{lines:?}");
    }
}
