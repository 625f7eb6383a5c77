//! One attempt to subscribe: the masters in order, each with its redirects (R17, R18, R21).

use crate::config::{Config, Credential};
use crate::dial::Dial;
use crate::http::{Channel, HttpError, text};
use crate::master::Endpoint;
use crate::stream::{EventStream, Patience};
use bytes::Bytes;
use echelon_core_hosts::Call;
use echelon_proto::convert::mesos::call_to_wire;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use prost::Message as _;
use std::fmt::Write as _;

/// The header that names a stream (R8).
pub const STREAM_ID: &str = "Mesos-Stream-Id";
/// The content type of everything we send and read. Compared byte for byte by the master (R2, R4).
pub const PROTOBUF: &str = "application/x-protobuf";
/// Longest chain of redirects.
const MAX_REDIRECTS: usize = 3;

/// A subscription that a master took in. Whether it stands is told by its first event.
#[derive(Debug)]
pub struct Session {
    /// The master that leads.
    pub endpoint: Endpoint,
    /// Goes with each call.
    pub stream_id: String,
    /// Its events.
    pub stream: EventStream,
}

/// Why there is no subscription.
#[derive(Debug)]
pub enum OpenError {
    /// No master took it in; a later attempt may succeed.
    NoLeader(String),
    /// The leader refused it: trying again without a change is of no use.
    Refused(String),
}

enum Step {
    Open(Box<Session>),
    Redirect(Endpoint),
    Later(String),
    Refused(String),
}

/// Tries these masters in order.
pub async fn open(
    dial: &dyn Dial,
    config: &Config,
    masters: &[Endpoint],
    framework: Option<String>,
) -> Result<Session, OpenError> {
    let call = Call::Subscribe { framework };
    let wire = call_to_wire(&call, &config.framework, None).unwrap_or_default();
    let body = Bytes::from(wire.encode_to_vec());
    let mut why = String::new();
    for start in masters {
        let mut here = start.clone();
        let mut redirects = 0;
        loop {
            let fault = match attempt(dial, config, &here, body.clone()).await {
                Step::Open(session) => return Ok(*session),
                Step::Refused(message) => return Err(OpenError::Refused(message)),
                Step::Redirect(there) if redirects < MAX_REDIRECTS => {
                    redirects += 1;
                    here = there;
                    continue;
                }
                Step::Redirect(there) => format!("redirects to {there}, and so on: too many redirects"),
                Step::Later(fault) => fault,
            };
            let sign = if why.is_empty() { "" } else { "; " };
            // Writing to a text cannot fail.
            let _ = write!(why, "{sign}{here}: {fault}");
            break;
        }
    }
    Err(OpenError::NoLeader(why))
}

async fn attempt(dial: &dyn Dial, config: &Config, endpoint: &Endpoint, body: Bytes) -> Step {
    match subscribe(dial, config, endpoint, body).await {
        Ok((channel, answer)) => judge(config, endpoint, channel, answer).await,
        Err(error) => Step::Later(error.chain()),
    }
}

async fn subscribe(
    dial: &dyn Dial,
    config: &Config,
    endpoint: &Endpoint,
    body: Bytes,
) -> Result<(Channel, Response<Incoming>), HttpError> {
    let mut channel = Channel::connect(dial, endpoint.authority(), config.timing.connect).await?;
    let answer = channel
        .send(request(config, endpoint, None, body), config.timing.answer)
        .await?;
    Ok((channel, answer))
}

async fn judge(config: &Config, endpoint: &Endpoint, channel: Channel, answer: Response<Incoming>) -> Step {
    let status = answer.status();
    if status == StatusCode::TEMPORARY_REDIRECT {
        let location = header_text(answer.headers(), header::LOCATION.as_str());
        return match endpoint.redirected(&location) {
            Some(there) => Step::Redirect(there),
            None => Step::Later(format!(
                "redirects to `{location}`, which is no address that is reached by http"
            )),
        };
    }
    if status != StatusCode::OK {
        let said = text(answer.into_body(), config.timing.connect).await;
        let fault = format!("{} {said}", status.as_u16());
        // Asking again in the same words gets the same answer.
        return match status.as_u16() {
            400 | 401 | 403 | 406 | 415 => Step::Refused(format!("{endpoint}: {fault}")),
            _ => Step::Later(fault),
        };
    }
    let stream_id = header_text(answer.headers(), STREAM_ID);
    let kind = header_text(answer.headers(), header::CONTENT_TYPE.as_str());
    if stream_id.is_empty() || kind != PROTOBUF {
        return Step::Later(format!(
            "answers 200 with content type `{kind}` and stream id `{stream_id}`; is this the scheduler API of a Mesos master?"
        ));
    }
    let patience = Patience {
        first: config.timing.answer,
        heartbeats: config.timing.silent_heartbeats,
        event_bytes: config.limits.event_bytes,
    };
    Step::Open(Box::new(Session {
        endpoint: endpoint.clone(),
        stream_id,
        stream: EventStream::new(answer.into_body(), channel, patience),
    }))
}

/// A call as an HTTP request; only SUBSCRIBE has no stream id.
pub fn request(
    config: &Config,
    endpoint: &Endpoint,
    stream_id: Option<&str>,
    body: Bytes,
) -> Request<Full<Bytes>> {
    let fields = [("mesos-stream-id", stream_id)];
    let what = (endpoint.path(), PROTOBUF);
    post(endpoint, config.credential.as_ref(), what, &fields, body)
}

/// A request to a master; what is sent and what may come back have one content type.
pub fn post(
    endpoint: &Endpoint,
    credential: Option<&Credential>,
    (path, content_type): (&str, &str),
    more: &[(&'static str, Option<&str>)],
    body: Bytes,
) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = http::Method::POST;
    if let Ok(path) = path.parse() {
        *request.uri_mut() = path;
    }
    let credential = credential.map(Credential::header);
    let fields = [
        ("host", Some(endpoint.authority())),
        ("content-type", Some(content_type)),
        ("accept", Some(content_type)),
        ("authorization", credential.as_deref()),
    ];
    for (name, value) in fields.iter().chain(more) {
        // A value that is no header value cannot come from a master or a checked address.
        if let Some(value) = value.and_then(|v| v.parse().ok()) {
            request.headers_mut().insert(*name, value);
        }
    }
    request
}

pub(crate) fn header_text(headers: &HeaderMap, name: &str) -> String {
    let value = headers.get(name).and_then(|v| v.to_str().ok());
    value.unwrap_or_default().to_owned()
}
