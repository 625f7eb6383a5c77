//! The section `[logs]` of a shard's and a standalone's file: how much is kept of what ended runs have written.

use super::options::WrongOption;
use echelon_core_model::log::MAX_TAIL;
use echelon_shard::LogLimits;
use serde::Deserialize;
use std::num::{NonZeroU64, NonZeroUsize};

/// Most runs of a job that are listed: the list is one row, and is written whole.
const MAX_RUNS: usize = 2_000;
/// Most reads at a time: each is a connection.
const MAX_PARALLEL: usize = 256;

/// What is not said has its default.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Kept {
    keep_bytes: Option<u64>,
    bytes_per_second: Option<NonZeroU64>,
    parallel: Option<NonZeroUsize>,
    runs_per_job: Option<NonZeroUsize>,
}

impl Kept {
    pub(super) fn limits(&self) -> Result<LogLimits, WrongOption> {
        let usual = LogLimits::default();
        let limits = LogLimits {
            keep_bytes: self.keep_bytes.unwrap_or(usual.keep_bytes),
            bytes_per_second: self
                .bytes_per_second
                .map_or(usual.bytes_per_second, NonZeroU64::get),
            parallel: self.parallel.map_or(usual.parallel, NonZeroUsize::get),
            runs_per_job: self.runs_per_job.map_or(usual.runs_per_job, NonZeroUsize::get),
        };
        let bound = |what: &str, is_within: bool, most: u64| {
            if is_within {
                return Ok(());
            }
            Err(WrongOption(format!("`logs.{what}` is above {most}")))
        };
        bound("keep_bytes", limits.keep_bytes <= MAX_TAIL, MAX_TAIL)?;
        bound("parallel", limits.parallel <= MAX_PARALLEL, 256)?;
        bound("runs_per_job", limits.runs_per_job <= MAX_RUNS, 2_000)?;
        Ok(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_has_defaults_and_bounds_and_can_be_switched_off() {
        let read = |text: &str| toml::from_str::<Kept>(text).unwrap().limits();
        assert_eq!(read("").unwrap(), LogLimits::default());
        assert_eq!(read("keep_bytes = 0").unwrap().keep_bytes, 0);
        let said = "keep_bytes = 1024\nbytes_per_second = 7\nparallel = 2\nruns_per_job = 3";
        let expected = LogLimits {
            keep_bytes: 1024,
            bytes_per_second: 7,
            parallel: 2,
            runs_per_job: 3,
        };
        assert_eq!(read(said).unwrap(), expected);
        for above in ["keep_bytes = 196609", "parallel = 257", "runs_per_job = 2001"] {
            let why = read(above).unwrap_err().to_string();
            assert!(why.contains("is above"), "{above}: {why}");
        }
        for wrong in [
            "bytes_per_second = 0",
            "parallel = 0",
            "runs_per_job = 0",
            "keep_bytes = -1",
            "keep = 3",
        ] {
            assert!(toml::from_str::<Kept>(wrong).is_err(), "{wrong}");
        }
    }
}
