//! Errors of the API as gRPC statuses with `google.rpc` details.

use echelon_core_gateway::{ApiError, Code, ErrorReason, Violation};
use echelon_proto::convert::Problems;
use std::collections::HashMap;
use std::time::Duration;
use tonic_types::{ErrorDetails, PreconditionViolation, StatusExt};

pub(crate) use echelon_proto::codec::DOMAIN;

/// How long a client is asked to wait before it tries again what could not be done now.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The status of an error.
pub(crate) fn status(error: &ApiError) -> tonic::Status {
    let mut details = ErrorDetails::with_error_info(error.reason.word(), DOMAIN, HashMap::new());
    if error.reason.code() == Code::InvalidArgument {
        for v in &error.violations {
            details.add_bad_request_violation(v.field.clone(), v.problem.clone());
        }
    } else if error.code() == Code::FailedPrecondition {
        let list: Vec<PreconditionViolation> = error
            .violations
            .iter()
            .map(|v| PreconditionViolation::new(error.reason.word(), v.field.clone(), v.problem.clone()))
            .collect();
        if !list.is_empty() {
            details.set_precondition_failure(list);
        }
    }
    if error.is_retryable() {
        details.set_retry_info(Some(RETRY_AFTER));
    }
    tonic::Status::with_error_details(code(error.code()), error.to_string(), details)
}

const fn code(code: Code) -> tonic::Code {
    match code {
        Code::InvalidArgument => tonic::Code::InvalidArgument,
        Code::NotFound => tonic::Code::NotFound,
        Code::AlreadyExists => tonic::Code::AlreadyExists,
        Code::FailedPrecondition => tonic::Code::FailedPrecondition,
        Code::Aborted => tonic::Code::Aborted,
        Code::Unavailable => tonic::Code::Unavailable,
        Code::ResourceExhausted => tonic::Code::ResourceExhausted,
        Code::Unauthenticated => tonic::Code::Unauthenticated,
        Code::PermissionDenied => tonic::Code::PermissionDenied,
        Code::Internal => tonic::Code::Internal,
    }
}

/// What reading a message found wrong, as the methods tell it.
pub(crate) fn violations(problems: Problems) -> Vec<Violation> {
    problems
        .0
        .into_iter()
        .map(|p| Violation::new(p.field, p.problem))
        .collect()
}

/// That a message without which nothing can be done is missing.
pub(crate) fn missing(field: &str) -> ApiError {
    ApiError::field(field, "must be given").because(ErrorReason::FieldInvalid)
}
