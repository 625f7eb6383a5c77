//! Lines that say the same again and again become one: the first is written, and each 10 s a line says how often it came
//! since. What is the same: the place in the code, and of our own code what the line says beside its numbers of time.

use crate::logs::LogFormat;
use std::collections::HashMap;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::fmt::{self, Debug, Write as _};
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::Context;

/// How long a line is counted before the count is written.
pub const WINDOW: Duration = Duration::from_secs(10);

/// Most lines that are remembered; while there are more, further ones are written as they come.
const MOST: usize = 1024;

/// The start of targets of our own code.
const OURS: &str = "echelon";

/// Folds repeated lines, and writes the counts itself.
pub struct Fold<W> {
    seen: Arc<Mutex<HashMap<u64, Seen>>>,
    format: LogFormat,
    to: W,
}

impl<W: Clone> Clone for Fold<W> {
    fn clone(&self) -> Self {
        Self {
            seen: Arc::clone(&self.seen),
            format: self.format,
            to: self.to.clone(),
        }
    }
}

/// A line that was written.
struct Seen {
    since: Instant,
    repeated: u64,
    level: Level,
    target: String,
    message: String,
}

/// A line's message, and all that it says.
#[derive(Default)]
struct Text {
    message: String,
    all: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            // Writing to a text does not fail.
            let _ = write!(self.message, "{value:?}");
        }
        let _ = write!(self.all, "{}={value:?} ", field.name());
    }
}

impl<W> Fold<W> {
    pub(crate) fn new(format: LogFormat, to: W) -> Self {
        Self {
            seen: Arc::default(),
            format,
            to,
        }
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<u64, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a line is to be written, or only counted.
    fn passes(&self, event: &Event<'_>, now: Instant) -> bool {
        let meta = event.metadata();
        let mut text = Text::default();
        event.record(&mut text);
        let mut hash = DefaultHasher::new();
        meta.callsite().hash(&mut hash);
        // The fields of a library's lines (ports, tries, times) differ each time; those of ours name jobs and hosts.
        if meta.target().starts_with(OURS) {
            text.all.hash(&mut hash);
        }
        let mut seen = self.seen();
        let room = seen.len() < MOST;
        match seen.entry(hash.finish()) {
            Entry::Occupied(mut there) => {
                there.get_mut().repeated += 1;
                false
            }
            Entry::Vacant(place) => {
                if room {
                    place.insert(Seen {
                        since: now,
                        repeated: 0,
                        level: *meta.level(),
                        target: meta.target().to_owned(),
                        message: text.message,
                    });
                }
                true
            }
        }
    }
}

impl<W: for<'a> MakeWriter<'a>> Fold<W> {
    /// Writes the counts of the lines whose window is over by `now`. A line that did not come again is forgotten.
    pub fn flush(&self, now: Instant) {
        let mut counts = Vec::new();
        self.seen().retain(|_, seen| {
            if now.saturating_duration_since(seen.since) < WINDOW {
                return true;
            }
            if seen.repeated == 0 {
                return false;
            }
            counts.push(self.line(seen));
            seen.since = now;
            seen.repeated = 0;
            true
        });
        for line in counts {
            // A log that cannot be written cannot be told about.
            let _ = self.to.make_writer().write_all(line.as_bytes());
        }
    }

    fn line(&self, seen: &Seen) -> String {
        let (n, message, target, level) = (seen.repeated, &seen.message, &seen.target, seen.level);
        let time = time();
        let said = format!("{n} times more in {} s: {message}", WINDOW.as_secs());
        match self.format {
            LogFormat::Text => format!("{time} {level:>5} {target}: {said}\n"),
            LogFormat::Auto | LogFormat::Json => {
                let value = serde_json::json!({
                    "timestamp": time, "level": level.to_string(), "message": said, "repeated": n, "target": target,
                });
                format!("{value}\n")
            }
        }
    }
}

fn time() -> String {
    let mut out = String::new();
    let _: fmt::Result = SystemTime.format_time(&mut tracing_subscriber::fmt::format::Writer::new(&mut out));
    out
}

impl<S: Subscriber, W: 'static> Layer<S> for Fold<W>
where
    W: for<'a> MakeWriter<'a> + Send + Sync,
{
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        self.passes(event, Instant::now())
    }
}
