//! Waiting for something outside this process (a server's port, a file, an answer) until a deadline, by polling.
//!
//! For what happens in virtual time or in the same process use paused time instead; this is for real servers only.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Time between two looks: short against a server's start, long against the cost of a look.
const PAUSE: Duration = Duration::from_millis(25);

/// Calls `look` until it answers with a value, for at most `limit`.
///
/// # Errors
/// What `look` fails with, at once; and, past the limit, an error that names `what` was waited for.
pub fn until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = look()? {
            return Ok(value);
        }
        if Instant::now() >= deadline {
            bail!("waited {} s for {what}, in vain", limit.as_secs_f64());
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_as_soon_as_there_is_a_value() {
        let mut looks = 0;
        let value = until("three looks", Duration::from_secs(5), || {
            looks += 1;
            Ok((looks == 3).then_some("seen"))
        });
        assert_eq!((value.unwrap(), looks), ("seen", 3));
    }

    #[test]
    fn names_what_never_came() {
        let error = until::<()>("a godot", Duration::ZERO, || Ok(None)).unwrap_err();
        assert!(error.to_string().contains("a godot"), "{error}");
    }

    #[test]
    fn a_failed_look_ends_the_waiting() {
        let error =
            until::<()>("nothing", Duration::from_secs(60), || bail!("the server ended")).unwrap_err();
        assert_eq!(error.to_string(), "the server ended");
    }
}
