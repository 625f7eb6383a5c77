//! The clocks of the machine, and those that processes of a soak see in their place.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};

/// Milliseconds of the wall clock since 1970.
///
/// # Errors
/// The clock is set before 1970.
pub fn wall() -> Result<u64> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(u64::try_from(since.as_millis())?)
}

/// Milliseconds since the machine's start, to ten.
///
/// # Errors
/// There is no /proc.
pub fn monotonic() -> Result<u64> {
    let text = fs::read_to_string("/proc/uptime")?;
    let uptime = text.split(' ').next().context("/proc/uptime is empty")?;
    Ok(uptime.replace('.', "").parse::<u64>()? * 10)
}

/// The clock that a process sees. It reads this file.
#[derive(Debug, Clone)]
pub struct Clock {
    file: PathBuf,
    /// How far it is ahead of the machine's while no fault moves it, in seconds.
    ahead: i64,
}

impl Clock {
    /// Sets the clock of the process of this name, with its file in a folder.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn of(folder: &Path, process: &str, ahead: i64) -> Result<Self> {
        let file = folder.join(format!("{process}.clock"));
        let clock = Self { file, ahead };
        clock.moved(0)?;
        Ok(clock)
    }

    /// Where the process reads it.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Moves it so many seconds from where it usually is.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn moved(&self, seconds: i64) -> Result<()> {
        let ahead = self.ahead + seconds;
        fs::write(&self.file, ahead.to_string()).with_context(|| format!("write {}", self.file.display()))
    }
}

#[cfg(test)]
mod tests {
    use echelon_tests::work::WorkFolder;

    use super::*;

    #[test]
    fn a_clock_that_was_moved_goes_back_to_where_it_was() {
        let work = WorkFolder::new("clock").unwrap();
        let clock = Clock::of(work.path(), "shard", -5).unwrap();
        let read = || fs::read_to_string(clock.file()).unwrap();
        assert_eq!(read(), "-5");
        clock.moved(3600).unwrap();
        assert_eq!(read(), "3595");
        clock.moved(0).unwrap();
        assert_eq!(read(), "-5");
    }

    #[test]
    fn the_clock_does_not_go_back() {
        let first = monotonic().unwrap();
        assert!(first > 0 && monotonic().unwrap() >= first);
    }
}
