//! Writes the history down, into a file and into memory.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use echelon_tests_judge::{Event, History, Line};

use crate::clock::monotonic;

/// Where all threads of a soak write what happened.
pub struct Recorder {
    written: Mutex<Written>,
    requests: AtomicU64,
}

struct Written {
    history: History,
    file: BufWriter<File>,
    /// The first line that could not be written.
    failed: Option<std::io::Error>,
}

impl Recorder {
    /// One that writes into this file.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn new(path: &Path) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("create {}", path.display()))?;
        Ok(Self {
            written: Mutex::new(Written {
                history: History::default(),
                file: BufWriter::new(file),
                failed: None,
            }),
            requests: AtomicU64::new(0),
        })
    }

    /// Writes down what happens now, and says when that is.
    ///
    /// # Errors
    /// There is no clock.
    pub fn tell(&self, event: Event) -> Result<u64> {
        let at = monotonic()?;
        self.tell_line(Line { at, event });
        Ok(at)
    }

    /// Writes down what happened at its moment.
    pub fn tell_line(&self, line: Line) {
        let mut written = self.lock();
        let text = serde_json::to_string(&line).map_err(std::io::Error::other);
        let done = text.and_then(|text| writeln!(written.file, "{text}"));
        if let Err(error) = done {
            written.failed.get_or_insert(error);
        }
        written.history.lines.push(line);
    }

    /// A number that no other request has.
    pub fn request(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed)
    }

    /// All that was written down.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn finish(&self) -> Result<History> {
        let mut written = self.lock();
        written.file.flush()?;
        if let Some(error) = written.failed.take() {
            return Err(error).context("write the history");
        }
        Ok(written.history.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
