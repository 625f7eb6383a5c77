//! `/api/v1/scheduler`: headers and bytes become a request to the cluster, its answer and events become bytes.

use crate::authentication::Credentials;
use crate::codec::{self, Encoding};
use crate::engine::{Engine, Records};
use crate::http::{Answer, BoxError, body, header_text, text};
use echelon_sim_mesos::{Accept, Body, Request, Response, StreamId};
use futures::stream::unfold;
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use std::sync::Arc;

/// Answers one request.
pub(crate) async fn handle(
    engine: Arc<Engine>,
    credentials: Arc<Credentials>,
    incoming: http::Request<Incoming>,
) -> Answer {
    let principal = match credentials.principal(header_text(&incoming, "authorization")) {
        Ok(principal) => principal,
        Err(refusal) => return refusal.answer(),
    };
    let method = incoming.method().to_string();
    let accept = accepted(header_text(&incoming, "accept"));
    let stream_id = header_text(&incoming, "mesos-stream-id").map(str::to_owned);
    let content_type = header_text(&incoming, "content-type").map(str::to_owned);
    let body = if incoming.method() == Method::POST {
        match body(incoming).await {
            Ok(bytes) => parsed(content_type.as_deref(), &bytes),
            Err(refusal) => return refusal.answer(),
        }
    } else {
        Body::NoContentType
    };
    let encoding = if accept == Accept::Protobuf {
        Encoding::Protobuf
    } else {
        Encoding::Json
    };
    let (response, records) = engine.request(
        &Request {
            method,
            body,
            accept,
            stream_id,
            principal,
        },
        encoding,
    );
    match (&response.stream, records) {
        (Some(stream), Some(records)) => streamed(&engine, stream.clone(), (records, encoding), &response),
        _ => plain(&response),
    }
}

fn parsed(content_type: Option<&str>, bytes: &[u8]) -> Body {
    let Some(content_type) = content_type else {
        return Body::NoContentType;
    };
    let Some(encoding) = Encoding::of(content_type) else {
        return Body::UnknownContentType;
    };
    match codec::read_call(bytes, encoding) {
        Ok(call) => Body::Call(Box::new(call)),
        Err(malformed) => Body::Malformed(malformed.0),
    }
}

/// What a client takes. JSON wins wherever it is allowed (rule R4).
pub(crate) fn accepted(header: Option<&str>) -> Accept {
    let Some(header) = header else { return Accept::Json };
    let types: Vec<&str> = header
        .split(',')
        .filter_map(|part| part.split(';').next())
        .map(str::trim)
        .collect();
    let takes = |wanted: &str| {
        types
            .iter()
            .any(|one| [wanted, "application/*", "*/*"].contains(one))
    };
    match (takes("application/json"), takes("application/x-protobuf")) {
        (true, _) => Accept::Json,
        (false, true) => Accept::Protobuf,
        (false, false) => Accept::Nothing,
    }
}

pub(crate) fn plain(response: &Response) -> Answer {
    let status = StatusCode::from_u16(response.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = text(status, &response.body);
    add_headers(&mut answer, response);
    answer
}

fn streamed(
    engine: &Arc<Engine>,
    stream: StreamId,
    (records, encoding): (Records, Encoding),
    response: &Response,
) -> Answer {
    let open = Open {
        engine: engine.clone(),
        stream,
        records,
    };
    let frames = unfold(open, |mut open| async move {
        let record = open.records.recv().await?;
        let frame = record.map(Frame::data).map_err(BoxError::from);
        Some((frame, open))
    });
    let mut answer = Answer::new(BodyExt::boxed(StreamBody::new(frames)));
    add_headers(&mut answer, response);
    answer.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(encoding.content_type()),
    );
    answer
}

fn add_headers(answer: &mut Answer, response: &Response) {
    for (name, value) in &response.headers {
        if let (Ok(name), Ok(value)) = (
            HeaderName::from_bytes(name.as_bytes()),
            HeaderValue::from_str(value),
        ) {
            answer.headers_mut().insert(name, value);
        }
    }
}

/// An open stream; dropped when the client is gone, which is how the cluster hears of it.
struct Open {
    engine: Arc<Engine>,
    stream: StreamId,
    records: Records,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.engine
            .with(|cluster, now| cluster.close_stream(&self.stream, now));
    }
}
