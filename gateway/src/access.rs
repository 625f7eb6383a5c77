//! Tokens of drivers at the door: a request that shows one is limited to what it is for; one that shows a wrong one is refused.
//! Requests without any are as before.

use crate::context::Gateway;
use crate::error::status;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use echelon_core_gateway::access::{check, check_method};
use echelon_core_gateway::{ApiError, ErrorReason, ask, resource};
use echelon_core_model::JobId;
use http::{HeaderMap, header};

/// The job whose driver asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Driver(pub(crate) JobId);

/// Who asks: `None` when no token is shown.
pub(crate) async fn driver(gateway: &Gateway, headers: &HeaderMap) -> Result<Option<Driver>, ApiError> {
    let Some(shown) = headers.get(header::AUTHORIZATION) else {
        return Ok(None);
    };
    let wrong = |message: &str| Err(ApiError::new(ErrorReason::CredentialInvalid, message));
    let token = shown.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
    let Some(token) = token else {
        return wrong("the header `authorization` must be `Bearer` and the token of a job's driver");
    };
    if let Some(job) = gateway.switches.job_of(token.trim()) {
        return Ok(Some(Driver(job)));
    }
    // Another gateway may have made a new key since the last look, and a shard signed with it: no token is called wrong before a look
    // that began after it came.
    let looked = gateway.switches.may_look();
    if looked {
        gateway.switches.know(&ask::control(&gateway.facts).await?);
    }
    match gateway.switches.job_of(token.trim()) {
        Some(job) => Ok(Some(Driver(job))),
        None if !looked || !gateway.switches.has_token_key() => Err(ApiError::new(
            ErrorReason::StorageUnavailable,
            "this gateway has not read the keys of tokens since this one came; try again",
        )),
        None => wrong(
            "this is no token of a job's driver, or its key was changed twice since (`echelon control rotate-token-key`); leave it out (ECHELON_TOKEN, --token) to call as yourself",
        ),
    }
}

/// Refuses methods that a token is not for, whichever way they are called.
pub(crate) async fn limit(request: Request, next: Next) -> Response {
    if request.extensions().get::<Driver>().is_some() {
        let method = request.uri().path().trim_start_matches("/echelon.v1.");
        if let Err(denied) = check_method(method) {
            return status(&denied).into_http();
        }
    }
    next.run(request).await
}

/// The driver that calls a method.
pub(crate) fn caller<T>(request: &tonic::Request<T>) -> Option<Driver> {
    request.extensions().get::<Driver>().copied()
}

impl Gateway {
    /// Whether who calls may touch the job of a resource `jobs/{j}...`.
    pub(crate) async fn admit(&self, caller: Option<Driver>, name: &str) -> Result<(), ApiError> {
        let Some(Driver(own)) = caller else {
            return Ok(());
        };
        let job: Vec<&str> = name.splitn(3, '/').take(2).collect();
        let wanted = resource::job(&job.join("/"), "name")?;
        check(&self.facts, Some(own), &wanted).await
    }
}
