//! Calls a method of our own gRPC services in this process: the message in one frame, the answer's frames back, the status
//! from headers or trailers.

use crate::access::Driver;
use axum::Router;
use axum::body::Body;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures::Stream;
use futures::stream::{self, BoxStream};
use http::{HeaderMap, Request, header};
use http_body_util::BodyExt;
use prost_reflect::MethodDescriptor;
use tonic::Status;
use tower::ServiceExt;

/// What a method answered.
pub(super) enum Answer {
    /// One message.
    One(Bytes),
    /// Messages, and at the end perhaps an error.
    Many(BoxStream<'static, Result<Bytes, Status>>),
}

/// Calls a method.
pub(super) async fn unary_or_stream(
    grpc: &Router,
    method: &MethodDescriptor,
    message: Vec<u8>,
    driver: Option<Driver>,
) -> Result<Answer, Status> {
    let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
    let mut request = Request::post(path)
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .body(Body::from(frame(&message)?))
        .map_err(|e| Status::internal(e.to_string()))?;
    if let Some(driver) = driver {
        request.extensions_mut().insert(driver);
    }
    let answer = match grpc.clone().oneshot(request).await {
        Ok(answer) => answer,
        Err(never) => match never {},
    };
    let (parts, body) = answer.into_parts();
    check(&parts.headers)?;
    let mut frames = Box::pin(frames(body));
    if method.is_server_streaming() {
        return Ok(Answer::Many(frames));
    }
    let first = futures::StreamExt::next(&mut frames).await;
    let message = first.unwrap_or_else(|| Err(Status::internal("a method gave no answer")))?;
    match futures::StreamExt::next(&mut frames).await {
        Some(Err(status)) => Err(status),
        _ => Ok(Answer::One(message)),
    }
}

fn frame(message: &[u8]) -> Result<Bytes, Status> {
    let length =
        u32::try_from(message.len()).map_err(|_| Status::out_of_range("the message is too large"))?;
    let mut out = BytesMut::with_capacity(message.len() + 5);
    out.put_u8(0);
    out.put_u32(length);
    out.put_slice(message);
    Ok(out.freeze())
}

fn check(headers: &HeaderMap) -> Result<(), Status> {
    match Status::from_header_map(headers) {
        Some(status) if status.code() != tonic::Code::Ok => Err(status),
        _ => Ok(()),
    }
}

struct Reading {
    body: Body,
    buffer: BytesMut,
    ended: bool,
}

/// The messages in a body, and the error in its trailers.
fn frames(body: Body) -> impl Stream<Item = Result<Bytes, Status>> + Send {
    let reading = Reading {
        body,
        buffer: BytesMut::new(),
        ended: false,
    };
    stream::unfold(reading, |mut reading| async move {
        let next = reading.next().await?;
        Some((next, reading))
    })
}

impl Reading {
    async fn next(&mut self) -> Option<Result<Bytes, Status>> {
        loop {
            if let Some(message) = self.message() {
                return Some(Ok(message));
            }
            if self.ended {
                return None;
            }
            match self.body.frame().await {
                None => self.ended = true,
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.buffer.extend_from_slice(&data),
                    Err(other) => {
                        let status = other.trailers_ref().map(check);
                        if let Some(Err(status)) = status {
                            self.ended = true;
                            return Some(Err(status));
                        }
                    }
                },
                Some(Err(error)) => {
                    self.ended = true;
                    return Some(Err(Status::internal(error.to_string())));
                }
            }
        }
    }

    fn message(&mut self) -> Option<Bytes> {
        let mut head = self.buffer.get(..5)?;
        head.advance(1);
        let length = usize::try_from(head.get_u32()).ok()?;
        if self.buffer.len() < 5 + length {
            return None;
        }
        self.buffer.advance(5);
        Some(self.buffer.split_to(length).freeze())
    }
}
