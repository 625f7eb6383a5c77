//! Bodies of requests, which must not stop half way, and of answers, with which a request ends.

use super::limits::ConnectionLimits;
use super::table::{ConnectionState, RequestInHand};
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// Ends the wait for a body.
#[derive(Debug, Clone, Default)]
pub(super) struct BodyWatch {
    /// The request is answered: what follows of its body is a stream, and may wait.
    pub(super) answered: CancellationToken,
    /// The body stopped before that.
    pub(super) stopped: CancellationToken,
}

/// The body of a request.
#[derive(Debug)]
pub struct RequestBody {
    inner: Incoming,
    state: Arc<ConnectionState>,
    watch: BodyWatch,
    time: Duration,
    /// When all of it must have come.
    whole_at: Instant,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl RequestBody {
    pub(super) fn new(
        inner: Incoming,
        state: Arc<ConnectionState>,
        watch: BodyWatch,
        limits: &ConnectionLimits,
    ) -> Self {
        Self {
            inner,
            state,
            watch,
            time: limits.body,
            whole_at: Instant::now() + limits.whole_body,
            waiting: None,
        }
    }

    /// Waits on, unless no byte came for too long, or they come too slowly.
    fn poll_time(&mut self, cx: &mut Context<'_>) {
        let (time, whole_at) = (self.time, self.whole_at);
        let began = Instant::now();
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(sleep_until(whole_at.min(began + time))));
        while waiting.as_mut().poll(cx).is_ready() {
            if self.watch.answered.is_cancelled() {
                return;
            }
            // Bytes of a frame that is not whole count, and those of other streams of the connection.
            let end = self.state.body_at().map(|at| whole_at.min(at + time));
            match end.filter(|end| *end > Instant::now()) {
                Some(end) => waiting.as_mut().reset(end),
                None => return self.watch.stopped.cancel(),
            }
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        if polled.is_ready() {
            self.waiting = None;
        } else if !self.watch.answered.is_cancelled() && !self.watch.stopped.is_cancelled() {
            self.poll_time(cx);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The body of an answer: with it the request ends.
#[derive(Debug)]
pub(super) struct AnswerBody<B> {
    inner: Pin<Box<B>>,
    _request: RequestInHand,
}

impl<B> AnswerBody<B> {
    pub(super) fn new(inner: B, request: RequestInHand) -> Self {
        Self {
            inner: Box::pin(inner),
            _request: request,
        }
    }
}

impl<B: Body> Body for AnswerBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.inner.as_mut().poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
