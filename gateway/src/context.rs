//! What every method has at hand.

use crate::config::Config;
use crate::error::status;
use crate::facts::StoreFacts;
use crate::links::Links;
use crate::switches::Switches;
use crate::telemetry::Telemetry;
use echelon_core_gateway::ApiError;
use echelon_core_model::Timestamp;
use echelon_io_process::Clock;
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Response, Status};

/// What every method has at hand; clones share it.
#[derive(Clone)]
pub(crate) struct Gateway(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) facts: StoreFacts,
    pub(crate) clock: Clock,
    pub(crate) links: Links,
    pub(crate) telemetry: Telemetry,
    pub(crate) switches: Switches,
    pub(crate) config: Config,
    pub(crate) stop: CancellationToken,
}

impl std::ops::Deref for Gateway {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Gateway {
    pub(crate) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// 128 bits that nobody can guess.
    pub(crate) fn chance() -> u128 {
        uuid::Uuid::new_v4().as_u128()
    }

    /// Does a method: counts and times it, and logs once what is our fault.
    pub(crate) async fn call<T>(
        &self,
        method: &'static str,
        doing: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<Response<T>, Status> {
        let begun = Instant::now();
        let done = doing.await;
        let code = match &done {
            Ok(_) => Code::Ok,
            Err(error) => status(error).code(),
        };
        self.telemetry.request(method, code, begun.elapsed());
        done.map(Response::new).map_err(|error| {
            if matches!(code, Code::Internal | Code::Unavailable) {
                let inner = error.inner.as_deref().unwrap_or_default();
                tracing::warn!(method, %error, inner, "a request was not done");
            }
            status(&error)
        })
    }
}
