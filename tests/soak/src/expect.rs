//! Looks for what a fault must bring about, and writes down whether it was seen.

use std::time::Duration;

use anyhow::Result;
use echelon_tests::wait;
use echelon_tests_judge::Event;

use crate::recorder::Recorder;

/// How long something that must be seen is looked for.
const SEEN_WITHIN: Duration = Duration::from_secs(60);

/// How much of it is written down.
const SHOWN: usize = 300;

/// Looks again and again until it is seen or the time for that is over. `look` says whether it is there, and what was
/// seen.
///
/// # Errors
/// There is no clock.
pub fn expect(
    recorder: &Recorder,
    what: &str,
    mut look: impl FnMut() -> Result<(bool, String)>,
) -> Result<()> {
    let mut seen = String::new();
    let waited = wait::until(what, SEEN_WITHIN, || {
        let (held, text) = look().unwrap_or_else(|error| (false, format!("{error:#}")));
        seen = text;
        Ok(held.then_some(()))
    });
    let held = waited.is_ok();
    let seen: String = seen.chars().take(SHOWN).collect();
    let how = if held { "seen" } else { "NOT SEEN" };
    println!("             {how}: {what}: {seen}");
    let what = what.to_owned();
    recorder.tell(Event::Checked { what, held, seen })?;
    Ok(())
}
