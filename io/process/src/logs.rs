//! Log lines: one event, one line, whatever text it carries. Names, commands and messages of Mesos come from outside,
//! so control characters are escaped in the finished line; nobody can forge a line or drive a terminal.
//!
//! Text for people, JSON for machines. `init` is called once, by `echelon`.

use crate::fold::Fold;
use serde::Deserialize;
use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};
use thiserror::Error;
use tracing::Subscriber;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text when standard error is a terminal, JSON otherwise.
    #[default]
    Auto,
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Why logging cannot begin.
#[derive(Debug, Error)]
pub enum LogError {
    /// The filter is not understood.
    #[error("`{filter}` is not a log filter: write `info`, or `info,echelon_shard=debug`")]
    Filter {
        /// What was given.
        filter: String,
        /// What is wrong with it.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// `init` was called twice.
    #[error("logging has begun already in this process")]
    Twice,
}

/// Sends this process's events to standard error.
///
/// # Errors
/// When the filter is not understood or logging has begun already.
pub fn init(filter: &str, format: LogFormat) -> Result<(), LogError> {
    let format = match format {
        LogFormat::Auto if io::stderr().is_terminal() => LogFormat::Text,
        LogFormat::Auto => LogFormat::Json,
        chosen => chosen,
    };
    let (subscriber, fold) = folding(filter, format, io::stderr)?;
    subscriber.try_init().map_err(|_| LogError::Twice)?;
    let counts = move || {
        loop {
            std::thread::sleep(FLUSH_EVERY);
            fold.flush(Instant::now());
        }
    };
    // Without this thread repeated lines are not counted, and nothing else is lost.
    let _ = std::thread::Builder::new()
        .name("log-counts".to_owned())
        .spawn(counts);
    Ok(())
}

/// How often it is looked whether a count of repeated lines is to be written.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// A subscriber that writes to `to`; [`LogFormat::Auto`] means JSON here.
///
/// # Errors
/// When the filter is not understood.
pub fn subscriber<W>(
    filter: &str,
    format: LogFormat,
    to: W,
) -> Result<impl Subscriber + Send + Sync + use<W>, LogError>
where
    W: for<'a> MakeWriter<'a> + Clone + Send + Sync + 'static,
{
    folding(filter, format, to).map(|(subscriber, _)| subscriber)
}

/// The same, with what writes the counts of repeated lines when it is told to.
fn folding<W>(
    filter: &str,
    format: LogFormat,
    to: W,
) -> Result<(impl Subscriber + Send + Sync + use<W>, Fold<Escaped<W>>), LogError>
where
    W: for<'a> MakeWriter<'a> + Clone + Send + Sync + 'static,
{
    let filter = EnvFilter::builder()
        .parse(filter)
        .map_err(|source| LogError::Filter {
            filter: filter.to_owned(),
            source,
        })?;
    let fold = Fold::new(format, Escaped(to.clone()));
    let lines = fmt::layer().with_ansi(false).with_writer(Escaped(to));
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Auto | LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let subscriber = Registry::default().with(filter).with(fold.clone()).with(lines);
    Ok((subscriber, fold))
}

/// Replaces control characters, and the ones that reorder or break lines, by `\u` and four hex digits (valid inside
/// JSON strings, the only place where JSON output can hold them).
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    let unsafe_char = |c: char| {
        c.is_control()
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(unsafe_char) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if unsafe_char(c) {
            safe.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// Hands out writers that escape each line; the formatting layer writes an event by one call.
#[derive(Clone)]
struct Escaped<W>(W);

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for Escaped<W> {
    type Writer = EscapedLine<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        EscapedLine(self.0.make_writer())
    }
}

struct EscapedLine<W>(W);

impl<W: Write> Write for EscapedLine<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let mut safe = escape(text.strip_suffix('\n').unwrap_or(&text)).into_owned();
        safe.push('\n');
        self.0.write_all(safe.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    fn written(filter: &str, format: LogFormat, log: impl FnOnce()) -> String {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = lines.clone();
        tracing::subscriber::with_default(
            subscriber(filter, format, move || Sink(sink.clone())).unwrap(),
            log,
        );
        let bytes = lines.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    struct Sink(Arc<Mutex<Vec<u8>>>);
    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is written of lines, and of counts when the window is over.
    fn folded(format: LogFormat, log: impl FnOnce()) -> Vec<String> {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = lines.clone();
        let (subscriber, fold) = folding("info", format, move || Sink(sink.clone())).unwrap();
        tracing::subscriber::with_default(subscriber, log);
        fold.flush(Instant::now());
        fold.flush(Instant::now() + crate::fold::WINDOW);
        let bytes = lines.lock().unwrap().clone();
        let text = String::from_utf8(bytes).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn lines_that_come_again_are_counted() {
        for format in [LogFormat::Text, LogFormat::Json] {
            let lines = folded(format, || {
                for n in 0..1000 {
                    tracing::warn!(target: "scylla::cluster", attempt = n, "no contact with 10.0.0.{n}");
                    tracing::warn!(job = "a", "is late");
                }
                tracing::info!("once");
            });
            assert_eq!(lines.len(), 5, "{lines:?}");
            let count = |what: &str| {
                lines
                    .iter()
                    .filter(|l| l.contains("999 times more") && l.contains(what))
                    .count()
            };
            assert_eq!(
                (count("no contact with 10.0.0.0"), count("is late")),
                (1, 1),
                "{lines:?}"
            );
        }
    }

    #[test]
    fn lines_of_ours_that_name_different_things_are_all_written() {
        let lines = folded(LogFormat::Text, || {
            for job in ["a", "b", "c"] {
                tracing::warn!(job, "is late");
            }
        });
        assert_eq!(lines.len(), 3, "{lines:?}");
    }

    const FORGED: &str = "ok\n2026-01-01 ERROR forged\r\u{1b}[31m\u{7f}\u{9b}\u{202e}\u{2028}end";

    #[test]
    fn foreign_text_cannot_forge_a_line() {
        for format in [LogFormat::Text, LogFormat::Json] {
            let text = written("info", format, || {
                tracing::info!(job = FORGED, cause = ?FORGED, error = %FORGED, "said {FORGED}");
            });
            assert_eq!(text.matches('\n').count(), 1, "{text}");
            assert!(
                text.ends_with('\n') && !text.trim_end().contains(|c: char| c.is_control()),
                "{text:?}"
            );
            assert!(text.contains("end"));
        }
    }

    #[test]
    fn json_lines_are_json_and_keep_the_text() {
        let text = written("info", LogFormat::Json, || {
            tracing::warn!(job = FORGED, epoch = 7, "lost")
        });
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&line["message"], &line["level"], &line["epoch"]),
            (&"lost".into(), &"WARN".into(), &7.into())
        );
        assert_eq!(line["job"].as_str().unwrap(), FORGED);
    }

    #[test]
    fn the_filter_chooses_and_a_bad_one_is_refused() {
        assert_eq!(written("warn", LogFormat::Text, || tracing::info!("quiet")), "");
        assert!(
            written(
                "off,echelon_io_process=debug",
                LogFormat::Text,
                || tracing::debug!("loud")
            )
            .contains("loud")
        );
        assert!(subscriber("echelon=loudest", LogFormat::Text, io::sink).is_err());
    }

    #[test]
    fn ordinary_text_is_left_alone() {
        assert!(matches!(escape("Zürich `a` \"b\" \\ 字"), Cow::Borrowed(_)));
        assert_eq!(escape("a\tb\0"), "a\\u0009b\\u0000");
    }
}
