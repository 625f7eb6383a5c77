//! The public API as JSON over HTTP, in the manner of `google.api.http`: a request is turned into its message, goes through
//! the same gRPC service as any other, and the answer is turned back. Streams are lines of JSON.

mod call;
mod check;
pub(crate) mod error;
mod routes;
mod scalar;

use crate::access::Driver;
use crate::config::{MAX_MESSAGE, MAX_TREE_MESSAGE};
use crate::guard::{Refusal, check_change};
use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use call::Answer;
use echelon_core_gateway::{ApiError, Violation};
use echelon_proto::FILE_DESCRIPTOR_SET;
use error::problem;
use futures::StreamExt;
use http::{Request, StatusCode, header};
use http_body_util::BodyExt;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor, SerializeOptions};
use routes::{Body as Wants, Found, ROUTES, Route};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Turns JSON into calls.
pub(crate) struct Json {
    grpc: Router,
    methods: BTreeMap<&'static str, MethodDescriptor>,
}

impl Json {
    /// Over these services.
    ///
    /// # Errors
    /// When a route names a method that the descriptors lack.
    pub(crate) fn new(grpc: Router) -> Result<Self, String> {
        let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).map_err(|e| e.to_string())?;
        let find = |name: &str| {
            let (service, method) = name.split_once('/')?;
            let service = pool.get_service_by_name(&format!("echelon.v1.{service}"))?;
            service.methods().find(|m| m.name() == method)
        };
        let methods = ROUTES
            .iter()
            .map(|r| {
                let method = find(r.method).ok_or_else(|| format!("no method {}", r.method))?;
                Ok((r.method, method))
            })
            .collect::<Result<_, String>>()?;
        Ok(Self { grpc, methods })
    }

    /// Answers a request below `/v1`.
    pub(crate) async fn answer(&self, request: Request<Body>) -> Result<Response, Refusal> {
        let (parts, body) = request.into_parts();
        let (route, resource) = match routes::find(&parts.method, parts.uri.path()) {
            Found::Route(route, resource) => (route, resource),
            Found::OtherMethod(allowed) => return Ok(error::wrong_method(&allowed)),
            Found::Nothing => return Ok(error::no_route(parts.uri.path())),
        };
        check_change(&parts.method, &parts.headers)?;
        let Some(method) = self.methods.get(route.method) else {
            return Ok(error::no_route(parts.uri.path()));
        };
        let query = parts.uri.query().unwrap_or_default();
        let input = match self.input(route, method, (resource, query), body).await {
            Ok(input) => input,
            Err(wrong) => return Ok(problem(&crate::error::status(&wrong))),
        };
        let driver = parts.extensions.get::<Driver>().copied();
        Ok(self.perform(route, method, &input, driver).await)
    }

    /// The request message out of body, query and path.
    async fn input(
        &self,
        route: &Route,
        method: &MethodDescriptor,
        (resource, query): (String, &str),
        body: Body,
    ) -> Result<DynamicMessage, ApiError> {
        let desc = method.input();
        let mut wrong = Vec::new();
        let body = read_body(route, body).await?;
        let mut whole = match (&route.body, body) {
            (Wants::All, Some(Value::Object(fields))) => fields,
            (Wants::All, None) | (Wants::Nothing, _) => Map::new(),
            (Wants::Field(name), Some(value)) => [((*name).to_owned(), value)].into_iter().collect(),
            (Wants::Field(_), None) => {
                return Err(ApiError::field("body", "must be a JSON object, and is empty"));
            }
            (Wants::All, Some(_)) => return Err(ApiError::field("body", "must be a JSON object")),
        };
        check::query(&desc, query, &mut whole, &mut wrong);
        let mut value = Value::Object(whole);
        check::message(&mut value, &desc, "", &mut wrong);
        if let Some(field) = route.field {
            put(&mut value, field, resource);
        }
        if !wrong.is_empty() {
            return Err(ApiError::fields(wrong));
        }
        DynamicMessage::deserialize(desc, value).map_err(|e| ApiError::field("body", e.to_string()))
    }

    async fn perform(
        &self,
        route: &Route,
        method: &MethodDescriptor,
        input: &DynamicMessage,
        driver: Option<Driver>,
    ) -> Response {
        let bytes = input.encode_to_vec();
        let output = method.output();
        let show = move |bytes: &[u8]| -> Result<Value, tonic::Status> {
            DynamicMessage::decode(output.clone(), bytes)
                .ok()
                .and_then(|m| as_json(&m))
                .ok_or_else(|| tonic::Status::internal("an answer cannot be shown as JSON"))
        };
        match call::unary_or_stream(&self.grpc, method, bytes, driver).await {
            Err(status) => problem(&status),
            Ok(Answer::One(bytes)) => match show(&bytes) {
                Ok(value) => object(unwrap(value, route.answer)),
                Err(status) => problem(&status),
            },
            Ok(Answer::Many(frames)) => {
                let lines = frames.map(move |frame| {
                    let value = frame.and_then(|bytes| show(&bytes));
                    let value = value.unwrap_or_else(|status| error::as_value(&status));
                    Ok::<_, std::convert::Infallible>(format!("{value}\n"))
                });
                let kind = [
                    (header::CONTENT_TYPE, "application/x-ndjson"),
                    (header::CACHE_CONTROL, "no-store"),
                ];
                (kind, Body::from_stream(lines)).into_response()
            }
        }
    }
}

async fn read_body(route: &Route, body: Body) -> Result<Option<Value>, ApiError> {
    if matches!(route.body, Wants::Nothing) {
        return Ok(None);
    }
    let most = if route.method == routes::APPLY_POOLS {
        MAX_TREE_MESSAGE
    } else {
        MAX_MESSAGE
    };
    let limited = http_body_util::Limited::new(body, most);
    let bytes = limited
        .collect()
        .await
        .map_err(|_| ApiError::field("body", format!("is larger than {most} bytes, or broke off")))?
        .to_bytes();
    if bytes.trim_ascii().is_empty() {
        return Ok(None);
    }
    let text = std::str::from_utf8(&bytes)
        .map_err(|e| ApiError::field("body", format!("is not UTF-8 at byte {}", e.valid_up_to())))?;
    serde_json::from_str(text)
        .map(Some)
        .map_err(|e| ApiError::field("body", format!("is not JSON: {e}")))
}

/// Sets a field of a field: `job.name`.
fn put(value: &mut Value, path: &str, text: String) {
    let mut at = value;
    for part in path.split('.') {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        let Value::Object(fields) = at else { return };
        at = fields.entry(part).or_insert(Value::Null);
    }
    *at = Value::String(text);
}

fn unwrap(value: Value, field: Option<&str>) -> Value {
    match (field, value) {
        (Some(field), Value::Object(mut fields)) => fields.remove(field).unwrap_or(Value::Null),
        (_, value) => value,
    }
}

fn object(value: Value) -> Response {
    let kind = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (StatusCode::OK, kind, format!("{value}\n")).into_response()
}

/// The message in proto3's JSON, with its empty fields left out.
fn as_json(message: &DynamicMessage) -> Option<Value> {
    let options = SerializeOptions::new().stringify_64_bit_integers(true);
    message
        .serialize_with_options(serde_json::value::Serializer, &options)
        .ok()
}

/// A wrong field.
fn violation(field: impl Into<String>, problem: impl Into<String>) -> Violation {
    Violation {
        field: field.into(),
        problem: problem.into(),
    }
}
