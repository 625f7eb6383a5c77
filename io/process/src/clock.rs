//! The one place where a shell gets the time from. What decides receives it as an argument.
//!
//! Time follows the machine's wall clock, since timestamps are stored and compared between machines, but never goes
//! back within a process: after the wall clock was set back, time runs at half speed until the wall has caught up.

use echelon_core_model::time::Timestamp;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A process's clock; clones share one time.
#[derive(Debug, Clone)]
pub struct Clock(Arc<Mutex<Slew>>);

impl Clock {
    /// A clock that begins at the wall's time.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Slew::new(wall(), Instant::now()))))
    }

    /// The present moment; never earlier than one told before.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let mut slew = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The monotonic reading is taken under the lock, so that readings arrive in order.
        let shown = slew.advance(wall(), Instant::now());
        Timestamp(u64::try_from(shown.as_millis()).unwrap_or(u64::MAX))
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// A machine whose clock stands before 1970 counts as being at 1970.
fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The rule by which told time follows the wall.
#[derive(Debug)]
struct Slew {
    shown: Duration,
    read_at: Instant,
}

impl Slew {
    fn new(wall: Duration, read_at: Instant) -> Self {
        Self { shown: wall, read_at }
    }

    fn advance(&mut self, wall: Duration, read_at: Instant) -> Duration {
        let elapsed = read_at.saturating_duration_since(self.read_at);
        self.read_at = read_at;
        self.shown = wall.max(self.shown.saturating_add(if wall < self.shown {
            elapsed / 2
        } else {
            Duration::ZERO
        }));
        self.shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn time_follows_the_wall_and_never_goes_back() {
        let start = Instant::now();
        let mut slew = Slew::new(s(1000), start);
        // (what happened, seconds since the start, wall, told)
        let readings = [
            ("a second passed", 1, 1001, 1001),
            ("the wall was set an hour ahead", 2, 4602, 4602),
            ("it was set back to where it was", 4, 1004, 4603),
            ("time passes at half speed", 1004, 2004, 5103),
            ("until the wall has caught up", 8204, 9204, 9204),
        ];
        for (what, since_start, wall, told) in readings {
            assert_eq!(slew.advance(s(wall), start + s(since_start)), s(told), "{what}");
        }
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
}
