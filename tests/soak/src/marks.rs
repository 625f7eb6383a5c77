//! What each task of a soak runs: it locks a file for its whole life, writes that it began, works, and writes that it ends.
//! Echelon does not know of these files.
//!
//! `echelon-marks FOLDER JOB batch 2-15` ends with 0 after some seconds, by its instance's number;
//! `echelon-marks FOLDER JOB service` runs until SIGTERM.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use echelon_tests_judge::{Event, Line};
use echelon_tests_soak::clock::{monotonic, wall};
use echelon_tests_soak::marked::failing_path;
use tokio::signal::unix::{SignalKind, signal};

/// A task that its folder is shown.
struct Task {
    folder: PathBuf,
    job: String,
    index: u32,
    run: String,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("echelon-marks: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().context("no folder is given")?;
    let task = Task {
        folder: folder.into(),
        job: arguments.next().context("no job is given")?,
        index: variable("ECHELON_INSTANCE")?.parse()?,
        run: variable("ECHELON_TASK_ID")?,
    };
    let work = arguments.next().context("no kind of work is given")?;
    let seconds = arguments.next();
    let _lock = task.lock()?;
    if task.host_fails()? {
        task.began()?;
        task.ending(Some(1))?;
        bail!("this host fails everything");
    }
    match (work.as_str(), seconds) {
        ("batch", Some(seconds)) => {
            task.began()?;
            std::thread::sleep(seconds_of(&seconds, task.index)?);
            task.ending(Some(0))
        }
        ("service", None) => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                let mut told = signal(SignalKind::terminate())?;
                task.began()?;
                told.recv().await;
                task.ending(None)
            })
        }
        _ => bail!("work is `batch SECONDS` or `service`"),
    }
}

/// `5`, or one of `2-15` by the instance's number.
fn seconds_of(text: &str, index: u32) -> Result<Duration> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let (least, most): (u64, u64) = (least.parse()?, most.parse()?);
    let span = most
        .checked_sub(least)
        .context("the seconds begin with the larger")?
        + 1;
    Ok(Duration::from_secs(least + u64::from(index) * 5 % span))
}

fn variable(name: &str) -> Result<String> {
    std::env::var(name).with_context(|| format!("{name} is not set"))
}

impl Task {
    /// The lock that the kernel frees when this process ends, however it ends.
    fn lock(&self) -> Result<File> {
        let path = lock_path(&self.folder, &self.job, self.index);
        fs::create_dir_all(self.folder.join("locks"))?;
        let lock = File::create(&path).with_context(|| format!("create {}", path.display()))?;
        lock.try_lock()?;
        Ok(lock)
    }

    /// Whether a fault makes everything fail on this host.
    fn host_fails(&self) -> Result<bool> {
        Ok(failing_path(&self.folder, &variable("ECHELON_HOST")?).exists())
    }

    fn began(&self) -> Result<()> {
        self.write(Event::Began {
            job: self.job.clone(),
            index: self.index,
            run: self.run.clone(),
            pid: std::process::id(),
            host: variable("ECHELON_HOST")?,
            wall: wall()?,
        })
    }

    fn ending(&self, code: Option<i32>) -> Result<()> {
        self.write(Event::Ending {
            job: self.job.clone(),
            index: self.index,
            run: self.run.clone(),
            pid: std::process::id(),
            code,
            wall: wall()?,
        })
    }

    /// Adds a line in one write, which no other task's line comes into.
    fn write(&self, event: Event) -> Result<()> {
        let line = Line {
            at: monotonic()?,
            event,
        };
        let text = format!("{}\n", serde_json::to_string(&line)?);
        let path = self.folder.join("marks.jsonl");
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(file.write_all(text.as_bytes())?)
    }
}

fn lock_path(folder: &Path, job: &str, index: u32) -> PathBuf {
    folder
        .join("locks")
        .join(format!("{job}.{index}.{}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_work_for_different_times() {
        let seconds = |text: &str, index| seconds_of(text, index).map(|time| time.as_secs());
        assert_eq!(seconds("5", 3).unwrap(), 5);
        let all: Vec<u64> = (0..4).map(|index| seconds("2-15", index).unwrap()).collect();
        assert_eq!(all, [2, 7, 12, 3]);
        assert!(seconds("5-2", 0).is_err());
        assert!(seconds("soon", 0).is_err());
    }
}
