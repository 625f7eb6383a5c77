//! Retries: only of calls that may be repeated, only on answers that say "not now", with jitter, within a deadline.

use crate::{Client, Error};
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;
use tonic::{Code, Response, Status};

const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

impl Client {
    /// Makes a call that may be repeated until it succeeds, is refused for good, or the deadline passes.
    ///
    /// # Errors
    /// The last answer.
    pub async fn repeat<T, F>(&self, call: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let end = Instant::now() + self.deadline;
        let mut wait = FIRST_WAIT;
        loop {
            let answer = tokio::time::timeout_at(end, call()).await.map(|a| self.heard(a));
            let status = match answer {
                Ok(Ok(response)) => return Ok(response.into_inner()),
                Ok(Err(status)) => status,
                Err(_) => Status::deadline_exceeded(
                    "the gateway did not answer in time; is it overloaded or cut off?",
                ),
            };
            let pause = jittered(wait);
            if status.code() != Code::Unavailable || Instant::now() + pause >= end {
                return Err(status.into());
            }
            tokio::time::sleep(pause).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// Makes a call once, within the deadline.
    ///
    /// # Errors
    /// The answer.
    pub async fn once<T>(&self, call: impl Future<Output = Result<Response<T>, Status>>) -> Result<T, Error> {
        match tokio::time::timeout(self.deadline, call).await {
            Ok(answer) => Ok(self.heard(answer)?.into_inner()),
            Err(_) => Err(Status::deadline_exceeded(
                "the gateway did not answer in time; whether it did what was asked is unknown: look before you repeat it",
            )
            .into()),
        }
    }
}

/// Between half and all of `wait`, so that many clients do not come back at once.
fn jittered(wait: Duration) -> Duration {
    let random = u32::from(
        uuid::Uuid::new_v4()
            .as_bytes()
            .first()
            .copied()
            .unwrap_or_default(),
    );
    wait / 2 + wait * random / 512
}
