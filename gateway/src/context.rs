//! What every method has at hand.

use crate::config::Config;
use crate::deadline;
use crate::error::status;
use crate::facts::StoreFacts;
use crate::feeds::Feeds;
use crate::leaders::Leaders;
use crate::links::Links;
use crate::switches::Switches;
use crate::telemetry::Telemetry;
use echelon_core_gateway::{ApiError, ErrorReason};
use echelon_core_model::Timestamp;
use echelon_core_model::role_state::{RoleStanding, RoleState};
use echelon_io_process::{Clock, Contacts};
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Semaphore;
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
    pub(crate) leaders: Leaders,
    /// Jobs that are watched here.
    pub(crate) feeds: Feeds,
    /// The membership servers and storage, as this gateway sees them.
    pub(crate) contacts: Contacts,
    /// Where others reach it.
    pub(crate) address: String,
    pub(crate) config: Config,
    /// Requests that may be taken in hand.
    pub(crate) room: Semaphore,
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

    /// What this gateway says of itself to others.
    pub(crate) fn role_state(&self) -> RoleState {
        RoleState {
            build: self.config.version.clone(),
            standing: RoleStanding::Serving,
            membership: self.contacts.membership.borrow().clone(),
            storage: self.contacts.storage.borrow().clone(),
            ..RoleState::default()
        }
    }

    /// 128 bits that nobody can guess.
    pub(crate) fn chance() -> u128 {
        uuid::Uuid::new_v4().as_u128()
    }

    /// Does what a request asks for if there is room for one more, and not longer than the request has time.
    pub(crate) async fn in_hand<T>(
        &self,
        doing: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        let Ok(_room) = self.room.try_acquire() else {
            return Err(ApiError::new(
                ErrorReason::TooManyRequests,
                "this gateway has as many requests in hand as it may; nothing was done, try again a little later",
            ));
        };
        let done = tokio::time::timeout_at(deadline::now(), doing).await;
        done.unwrap_or_else(|_| {
            Err(ApiError::new(
                ErrorReason::StorageUnavailable,
                "the request was not done in its time; a change may or may not have been done: repeat the request unchanged (a create with the same request id)",
            ))
        })
    }

    /// Does a method: counts and times it, and logs once what is our fault.
    pub(crate) async fn call<T>(
        &self,
        method: &'static str,
        doing: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<Response<T>, Status> {
        let begun = Instant::now();
        let done = self.in_hand(doing).await;
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
