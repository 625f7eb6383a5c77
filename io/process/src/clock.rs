//! The one place where a shell gets the time from. What decides receives it as an argument.
//!
//! A process' time begins at the machine's wall clock, since stamps are stored and compared between machines. From there it
//! goes by the monotonic clock: durations are differences of it, so that a wall clock that is set ends no time-out early and
//! prolongs none. A process whose machine's clock was set says so; its stamps follow when it is restarted.

use echelon_core_model::time::Timestamp;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio_util::sync::CancellationToken;

/// Names a file with seconds that are added to the wall clock as this process reads it, for tests of clocks that are set.
pub const OFFSET_FILE: &str = "ECHELON_CLOCK_OFFSET_FILE";

/// How often a process looks whether the wall clock was set.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A smaller difference is not told: stamps of machines differ by as much.
const TOLD: i64 = 5_000;

/// A process's clock; clones share one time.
#[derive(Debug, Clone)]
pub struct Clock(Arc<Begin>);

#[derive(Debug)]
struct Begin {
    wall: Wall,
    /// The wall's time, and the monotonic reading of that moment.
    at: Duration,
    read: Instant,
}

impl Clock {
    /// A clock that begins at the wall's time.
    #[must_use]
    pub fn new() -> Self {
        let wall = Wall {
            offset: std::env::var_os(OFFSET_FILE).map(PathBuf::from),
        };
        Self(Arc::new(Begin {
            at: wall.read(),
            read: Instant::now(),
            wall,
        }))
    }

    /// The present moment of this process; never earlier than one told before.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        millis(self.0.at.saturating_add(self.0.read.elapsed()))
    }

    /// The machine's wall clock, which may be set at any moment. Nothing is measured with it.
    #[must_use]
    pub fn wall(&self) -> Timestamp {
        millis(self.0.wall.read())
    }

    /// Says when the wall clock was set, until `stop`.
    pub async fn watch(self, stop: CancellationToken) {
        let mut told = 0;
        loop {
            let ahead = ahead_ms(self.wall(), self.now());
            if ahead.abs_diff(told) >= TOLD.unsigned_abs() {
                told = ahead;
                tracing::warn!(
                    ahead_ms = ahead,
                    "the clock of this machine was set; no time-out changes, and what this process writes bears its own \
                     time until it is restarted"
                );
            }
            let waited = stop.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await;
            if waited.is_none() {
                return;
            }
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

fn millis(since_1970: Duration) -> Timestamp {
    Timestamp(u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX))
}

/// How far the wall is ahead of the process.
fn ahead_ms(wall: Timestamp, own: Timestamp) -> i64 {
    let difference = i128::from(wall.0) - i128::from(own.0);
    i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
}

/// The machine's clock, or in tests one that is set by a file.
#[derive(Debug)]
struct Wall {
    offset: Option<PathBuf>,
}

impl Wall {
    /// A machine whose clock stands before 1970 counts as being at 1970.
    fn read(&self) -> Duration {
        let machine = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        let seconds = self.offset.as_ref().and_then(|file| {
            // A file that is not there, or is being written, adds nothing.
            std::fs::read_to_string(file).ok()?.trim().parse::<i64>().ok()
        });
        match seconds {
            None => machine,
            Some(ahead) if ahead >= 0 => machine.saturating_add(Duration::from_secs(ahead.unsigned_abs())),
            Some(behind) => machine.saturating_sub(Duration::from_secs(behind.unsigned_abs())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock whose wall a test sets, with the file that sets it.
    fn set_by_file() -> (Clock, tempfile::NamedTempFile) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let wall = Wall {
            offset: Some(file.path().to_owned()),
        };
        let clock = Clock(Arc::new(Begin {
            at: wall.read(),
            read: Instant::now(),
            wall,
        }));
        (clock, file)
    }

    #[test]
    fn a_wall_clock_that_is_set_changes_no_duration() {
        let (clock, file) = set_by_file();
        let began = Instant::now();
        let first = clock.now();
        for hours in ["3600", "-3600", "0", "nonsense"] {
            std::fs::write(file.path(), hours).unwrap();
            let passed = clock.now().since(first);
            let true_ms = u64::try_from(began.elapsed().as_millis()).unwrap();
            assert!(passed.0 <= true_ms + 1, "{hours}: {passed} of {true_ms} ms");
            assert!(clock.now() >= first, "{hours}");
        }
        std::fs::write(file.path(), "3600").unwrap();
        assert!(clock.wall().since(clock.now()).0 > 3_590_000);
    }

    #[test]
    fn clones_tell_one_rising_time() {
        let clock = Clock::new();
        let other = clock.clone();
        let mut last = Timestamp(0);
        for reading in (0..1000).map(|i| if i % 2 == 0 { clock.now() } else { other.now() }) {
            assert!(reading >= last);
            last = reading;
        }
        assert!(
            last > Timestamp(1_600_000_000_000),
            "milliseconds since 1970, not seconds"
        );
    }

    #[test]
    fn how_far_the_wall_is_ahead_is_bounded() {
        let ahead = |wall, own| ahead_ms(Timestamp(wall), Timestamp(own));
        assert_eq!((ahead(5, 3), ahead(3, 5)), (2, -2));
        assert_eq!(ahead(u64::MAX, 0), i64::MAX);
        assert_eq!(ahead(0, u64::MAX), i64::MIN);
    }
}
