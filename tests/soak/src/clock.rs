//! The clocks of the machine, which all processes of a soak share.

use std::fs;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_does_not_go_back() {
        let first = monotonic().unwrap();
        assert!(first > 0 && monotonic().unwrap() >= first);
    }
}
