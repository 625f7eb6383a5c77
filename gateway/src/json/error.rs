//! Errors as `google.rpc.Status` in JSON, under the HTTP status that belongs to their code.

use crate::error::DOMAIN;
use crate::guard::Refusal;
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode, header};
use serde_json::{Value, json};
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// HTTP status of a gRPC code, as `google.rpc.Code` says.
const fn http_status(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::Cancelled | Code::Unknown | Code::Internal | Code::DataLoss => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

/// `InvalidArgument` as `INVALID_ARGUMENT`.
fn word(code: Code) -> String {
    let mut out = String::new();
    for (i, c) in format!("{code:?}").chars().enumerate() {
        if c.is_ascii_uppercase() && i > 0 {
            out.push('_');
        }
        out.push(c.to_ascii_uppercase());
    }
    out
}

/// A status as JSON.
pub(super) fn as_value(status: &Status) -> Value {
    let found = status.get_error_details();
    let mut details = Vec::new();
    if let Some(info) = found.error_info() {
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": info.reason,
            "domain": info.domain,
        }));
    }
    if let Some(delay) = found.retry_info().and_then(|retry| retry.retry_delay) {
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": format!("{}s", delay.as_secs()),
        }));
    }
    if let Some(bad) = found.bad_request() {
        let list: Vec<Value> = bad
            .field_violations
            .iter()
            .map(|v| json!({"field": v.field, "description": v.description}))
            .collect();
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": list,
        }));
    }
    if let Some(failed) = found.precondition_failure() {
        let list: Vec<Value> = failed
            .violations
            .iter()
            .map(|v| json!({"type": v.r#type, "subject": v.subject, "description": v.description}))
            .collect();
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.PreconditionFailure",
            "violations": list,
        }));
    }
    json!({
        "code": i32::from(status.code()),
        "status": word(status.code()),
        "message": status.message(),
        "details": details,
    })
}

fn answer(http: StatusCode, value: &Value) -> Response {
    let kind = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (http, kind, format!("{value}\n")).into_response()
}

/// The answer for a status.
pub(crate) fn problem(status: &Status) -> Response {
    answer(http_status(status.code()), &as_value(status))
}

fn plain(http: StatusCode, code: Code, reason: &str, message: &str) -> Response {
    let value = json!({
        "code": i32::from(code),
        "status": word(code),
        "message": message,
        "details": [{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": reason,
            "domain": DOMAIN,
        }],
    });
    answer(http, &value)
}

/// The answer for a request that was refused before it reached a method.
pub(crate) fn refusal(refusal: &Refusal) -> Response {
    let code = if refusal.status == StatusCode::FORBIDDEN {
        Code::PermissionDenied
    } else {
        Code::InvalidArgument
    };
    let reason = refusal.reason.to_ascii_uppercase() + "_REFUSED";
    plain(refusal.status, code, &reason, &refusal.message)
}

/// That a path is none of ours.
pub(super) fn no_route(path: &str) -> Response {
    let shown: String = path.chars().take(120).collect();
    plain(
        StatusCode::NOT_FOUND,
        Code::NotFound,
        "ROUTE_NOT_FOUND",
        &format!(
            "there is nothing at {shown}; jobs are at /v1/jobs, pools at /v1/pools, clusters at /v1/clusters"
        ),
    )
}

/// That a path takes other verbs.
pub(super) fn wrong_method(allowed: &[Method]) -> Response {
    let list: Vec<&str> = allowed.iter().map(Method::as_str).collect();
    let list = list.join(", ");
    let mut answer = plain(
        StatusCode::METHOD_NOT_ALLOWED,
        Code::InvalidArgument,
        "METHOD_NOT_ALLOWED",
        &format!("this path takes {list}"),
    );
    if let Ok(list) = list.parse() {
        answer.headers_mut().insert(header::ALLOW, list);
    }
    answer
}
