//! When a request is to be answered: the client says so (`grpc-timeout`), else there is a default. Storage is asked within
//! that time, so a hanging storage costs a request its own time and no more.

use crate::config::REQUEST_TIME;
use http::HeaderMap;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;

/// The longest time, whatever the client says.
const LONGEST: Duration = Duration::from_secs(60);

tokio::task_local! {
    static DEADLINE: Instant;
}

/// When the request that is being answered is over.
pub(crate) fn now() -> Instant {
    DEADLINE
        .try_with(|deadline| *deadline)
        .unwrap_or_else(|_| Instant::now() + REQUEST_TIME)
}

/// Answers a request within the time that its headers say. A tenth is kept for the way back.
pub(crate) async fn within<T>(headers: &HeaderMap, default: Duration, answer: impl Future<Output = T>) -> T {
    let given = headers
        .get("grpc-timeout")
        .and_then(|text| read(text.to_str().ok()?));
    let time = given.unwrap_or(default).min(LONGEST);
    DEADLINE.scope(Instant::now() + time - time / 10, answer).await
}

/// `30S`, `500m`: at most eight digits and a unit.
fn read(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let n: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(n * 3600),
        "M" => Duration::from_secs(n * 60),
        "S" => Duration::from_secs(n),
        "m" => Duration::from_millis(n),
        "u" => Duration::from_micros(n),
        "n" => Duration::from_nanos(n),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_of_grpc_are_read() {
        for (text, time) in [
            ("30S", Some(Duration::from_secs(30))),
            ("2H", Some(Duration::from_secs(7200))),
            ("99999999n", Some(Duration::from_nanos(99_999_999))),
            ("500m", Some(Duration::from_millis(500))),
            ("", None),
            ("S", None),
            ("30", None),
            ("-3S", None),
            ("123456789S", None),
            ("3ä", None),
        ] {
            assert_eq!(read(text), time, "{text}");
        }
    }
}
