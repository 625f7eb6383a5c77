//! Retries: only of calls that may be repeated, only where "not now" or nothing was answered, with jitter, within a
//! deadline, and at the next gateway when the connection to one fails.

use crate::error::{Loss, retry_after};
use crate::{Client, Error};
use std::future::Future;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use tonic::{Code, Response, Status};

const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// What follows when an answer is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// The call has the same effect however often it is made: a read, or one with a request id.
    Repeat,
    /// It is made again, but a refusal may then be the effect of the first try.
    Settle,
    /// It is never made again once it may have arrived.
    Once,
}

impl Client {
    /// Makes a call that may be repeated: a read, or a change under a request id.
    ///
    /// # Errors
    /// The last answer.
    pub async fn repeat<T, F>(&self, call: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.attempts(Policy::Repeat, call).await
    }

    /// Makes a change that says what is wanted in the end, so that it may be repeated. A refusal that follows a lost
    /// answer may come from the change itself (its etag is an old one now): the outcome is then unknown.
    ///
    /// # Errors
    /// The last answer, or `Error::OutcomeUnknown`.
    pub async fn change<T, F>(&self, call: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.attempts(Policy::Settle, call).await
    }

    /// Makes a change that is another one the second time. It is made again only where it cannot have arrived.
    ///
    /// # Errors
    /// The answer, or `Error::OutcomeUnknown`.
    pub async fn once<T, F>(&self, call: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.attempts(Policy::Once, call).await
    }

    async fn attempts<T, F>(&self, policy: Policy, call: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let end = Instant::now() + self.deadline;
        let mut wait = FIRST_WAIT;
        let mut tried = 0;
        let mut may_be_done = false;
        let mut answered = None;
        loop {
            let gateway = self.gateways.now();
            let status = match timeout_at(end, call()).await.map(|a| self.heard(a)) {
                Ok(Ok(response)) => return Ok(response.into_inner()),
                Ok(Err(status)) => status,
                // What was answered before says more than that time is up.
                Err(_) => match answered.filter(|_| policy == Policy::Repeat) {
                    Some(status) => return Err(self.last(Loss::Answered, status)),
                    None => return Err(late(policy)),
                },
            };
            let loss = Loss::of(&status);
            let away = loss != Loss::Answered || status.code() == Code::Unavailable;
            if away {
                self.gateways.leave(gateway);
            }
            let refused_after_loss = may_be_done && policy == Policy::Settle && is_refusal(status.code());
            if refused_after_loss {
                return Err(Error::OutcomeUnknown(format!(
                    "a first try got no answer, and the second one was refused ({})",
                    status.message()
                )));
            }
            may_be_done |= away && loss != Loss::NotSent;
            let again = match loss {
                Loss::NotSent => true,
                Loss::Cut => policy != Policy::Once,
                Loss::Answered => retry_after(&status).is_some() || (away && policy != Policy::Once),
            };
            tried += 1;
            let next_at_once = loss != Loss::Answered && tried < self.gateways.count();
            let pause = match retry_after(&status) {
                Some(after) => jittered(after.max(wait)),
                None if next_at_once => Duration::ZERO,
                None => jittered(wait),
            };
            if !again || Instant::now() + pause >= end {
                return Err(self.last(loss, status));
            }
            answered = (loss == Loss::Answered).then_some(status);
            tokio::time::sleep(pause).await;
            if !next_at_once {
                tried = 0;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
        }
    }

    fn last(&self, loss: Loss, status: Status) -> Error {
        match loss {
            Loss::Answered => status.into(),
            Loss::Cut => {
                Error::OutcomeUnknown("the connection to the gateway broke before it answered".to_owned())
            }
            Loss::NotSent => Error::Unreachable {
                address: self.gateways.addresses().to_owned(),
                source: None,
            },
        }
    }
}

/// That the deadline passed.
fn late(policy: Policy) -> Error {
    if policy == Policy::Repeat {
        let message = "the gateway did not answer in time; is it overloaded or cut off?";
        return Status::deadline_exceeded(message).into();
    }
    Error::OutcomeUnknown("the gateway did not answer in time".to_owned())
}

/// Whether a change that was done before could be refused with this when it is made again.
const fn is_refusal(code: Code) -> bool {
    matches!(
        code,
        Code::Aborted | Code::AlreadyExists | Code::FailedPrecondition | Code::NotFound
    )
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
