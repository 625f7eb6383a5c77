//! How long a silent leader keeps its place, as files and flags say it. All processes of a federation should say the same.

use super::options::WrongOption;
use clap::Args;
use echelon_core_model::Span;
use echelon_io_membership::Timeouts;
use serde::Deserialize;
use std::time::Duration;

/// What is not said has its default.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TimeoutOptions {
    /// A process that the membership servers do not hear for this long is replaced, 1s to 60s [default: 4s]
    #[arg(long = "session-timeout", value_name = "SPAN")]
    session: Option<String>,
    /// A leader acts for this long without an answer, and asks every third of it; 500ms to four fifths of the session
    /// [default: four fifths of the session]
    #[arg(long = "lease", value_name = "SPAN")]
    lease: Option<String>,
}

impl TimeoutOptions {
    /// Flags over a file.
    pub(super) fn over(self, file: Self) -> Self {
        Self {
            session: self.session.or(file.session),
            lease: self.lease.or(file.lease),
        }
    }

    /// The time-outs that are meant.
    pub(crate) fn timeouts(&self) -> Result<Timeouts, WrongOption> {
        let read = |name: &str, text: &Option<String>| {
            let span = text.as_deref().map(echelon_cli::quantity::span).transpose();
            let span = span.map_err(|why| WrongOption(format!("`timeouts.{name}`: {why}")))?;
            Ok(span.map(|span| Duration::from_millis(span.0)))
        };
        let session = read("session", &self.session)?.unwrap_or(Timeouts::USUAL_SESSION);
        let lease = read("lease", &self.lease)?;
        Timeouts::new(session, lease).map_err(|why| WrongOption(format!("`timeouts`: {why}")))
    }
}

/// The lease as drivers count it.
pub(super) fn lease(timeouts: Timeouts) -> Span {
    Span(u64::try_from(timeouts.lease().as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(u64, u64), String> {
        let said: TimeoutOptions = toml::from_str(text).map_err(|e| e.to_string())?;
        let found = said.timeouts().map_err(|why| why.to_string())?;
        let session = u64::try_from(found.session().as_millis()).unwrap();
        Ok((session, lease(found).0))
    }

    #[test]
    fn what_is_not_said_has_its_default_and_what_cannot_be_is_refused() {
        assert_eq!(read(""), Ok((4000, 3200)));
        assert_eq!(read("session = \"10s\""), Ok((10_000, 8000)));
        assert_eq!(read("session = \"10s\"\nlease = \"3s\""), Ok((10_000, 3000)));
        for (wrong, why) in [
            ("session = \"500ms\"", "is not between 1s and 60s"),
            ("session = \"2m\"", "is not between 1s and 60s"),
            ("lease = \"4s\"", "is not between 500ms and 3.2s"),
            ("lease = \"10ms\"", "is not between 500ms and 3.2s"),
            ("session = \"4\"", "`timeouts.session`: `4` has no unit"),
            ("sessions = \"4s\"", "unknown field"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn flags_win_over_a_file() {
        let said = |session: &str| TimeoutOptions {
            session: Some(session.to_owned()),
            lease: None,
        };
        let found = said("3s").over(said("9s")).timeouts().unwrap();
        assert_eq!(found.session(), Duration::from_secs(3));
    }
}
