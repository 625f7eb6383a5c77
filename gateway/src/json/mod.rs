//! The public API as JSON over HTTP, in the manner of `google.api.http`: a request is turned into its message, goes through
//! the same gRPC service as any other, and the answer is turned back. Streams are lines of JSON.

mod call;
mod check;
pub(crate) mod error;
mod routes;
mod scalar;

use crate::access::Driver;
use crate::guard::{Refusal, check_change};
use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use call::Answer;
use echelon_core_gateway::validate::Violations;
use echelon_core_gateway::{ApiError, ErrorReason};
use echelon_core_model::limits::{REQUEST_BYTES, TREE_REQUEST_BYTES};
use echelon_proto::FILE_DESCRIPTOR_SET;
use error::problem;
use futures::StreamExt;
use http::{Request, StatusCode, header};
use http_body_util::BodyExt;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor,
    SerializeOptions,
};
use routes::{Body as Wants, Found, ROUTES, Route};
use serde_json::Value;
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
        let input = match input(route, method, (resource, query), body).await {
            Ok(input) => input,
            Err(wrong) => return Ok(problem(&crate::error::status(&wrong))),
        };
        let driver = parts.extensions.get::<Driver>().copied();
        Ok(self.perform(route, method, input, driver).await)
    }

    async fn perform(
        &self,
        route: &Route,
        method: &MethodDescriptor,
        input: Vec<u8>,
        driver: Option<Driver>,
    ) -> Response {
        let output = method.output();
        let show = move |bytes: &[u8]| -> Result<Value, tonic::Status> {
            DynamicMessage::decode(output.clone(), bytes)
                .ok()
                .and_then(|m| as_json(&m))
                .ok_or_else(|| tonic::Status::internal("an answer cannot be shown as JSON"))
        };
        match call::unary_or_stream(&self.grpc, method, input, driver).await {
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

/// The bytes of the request message, out of body, query and path.
async fn input(
    route: &Route,
    method: &MethodDescriptor,
    (resource, query): (String, &str),
    body: Body,
) -> Result<Vec<u8>, ApiError> {
    let desc = method.input();
    let mut out = Violations::default();
    let fields = check::query(&desc, query, &mut out);
    let mut bytes = match (&route.body, read_body(route, body).await?) {
        (Wants::Nothing, _) => put(&desc, route.field, &resource)?,
        (Wants::All, text) => {
            let mut bytes = match text {
                Some(text) => check::text(&text, &desc, "", &mut out)
                    .map_err(no_json)?
                    .unwrap_or_default(),
                None => Vec::new(),
            };
            bytes.extend(put(&desc, route.field, &resource)?);
            bytes
        }
        (Wants::Field(_), None) => {
            return Err(ApiError::field("body", "must be a JSON object, and is empty"));
        }
        (Wants::Field(name), Some(text)) => {
            let (field, inner) = message_of(&desc, name)?;
            let message = check::text(&text, &inner, name, &mut out).map_err(no_json)?;
            drop(text);
            let within = route
                .field
                .and_then(|path| path.strip_prefix(name)?.strip_prefix('.'));
            let mut bytes = Vec::new();
            if message.is_some() || within.is_some() {
                let mut message = message.unwrap_or_default();
                message.extend(put(&inner, within, &resource)?);
                check::put_message(&field, &message, &mut bytes);
            }
            if within.is_none() {
                bytes.extend(put(&desc, route.field, &resource)?);
            }
            bytes
        }
    };
    out.done()?;
    bytes.extend(fields);
    Ok(bytes)
}

fn no_json(error: serde_json::Error) -> ApiError {
    ApiError::field("body", format!("is not JSON: {error}"))
}

/// A field that is a message, and which one.
fn message_of(
    desc: &MessageDescriptor,
    name: &str,
) -> Result<(FieldDescriptor, MessageDescriptor), ApiError> {
    let field = check::find(desc, name);
    let found = field.and_then(|field| match field.kind() {
        Kind::Message(inner) => Some((field, inner)),
        _ => None,
    });
    found.ok_or_else(|| {
        ApiError::new(
            ErrorReason::BrokenPromise,
            format!("a route has no message `{name}`"),
        )
    })
}

/// The bytes of a text in a field: `name`, or `job.name` of a message within.
fn put(desc: &MessageDescriptor, path: Option<&str>, text: &str) -> Result<Vec<u8>, ApiError> {
    let Some(path) = path else {
        return Ok(Vec::new());
    };
    let mut bytes = Vec::new();
    if let Some((first, rest)) = path.split_once('.') {
        let (field, inner) = message_of(desc, first)?;
        check::put_message(&field, &put(&inner, Some(rest), text)?, &mut bytes);
    } else if let Some(field) = check::find(desc, path) {
        check::put_message(&field, text.as_bytes(), &mut bytes);
    }
    Ok(bytes)
}

/// The text of a body, where there is any.
async fn read_body(route: &Route, body: Body) -> Result<Option<String>, ApiError> {
    if matches!(route.body, Wants::Nothing) {
        return Ok(None);
    }
    let most = if route.method == routes::APPLY_POOLS {
        TREE_REQUEST_BYTES
    } else {
        REQUEST_BYTES
    };
    let mut body = http_body_util::Limited::new(body, most);
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|_| ApiError::field("body", format!("is larger than {most} bytes, or broke off")))?;
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    if bytes.trim_ascii().is_empty() {
        return Ok(None);
    }
    String::from_utf8(bytes).map(Some).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        ApiError::field("body", format!("is not UTF-8 at byte {at}"))
    })
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
