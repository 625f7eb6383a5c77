//! One HTTP/1.1 connection: a request at a time, each with a bound, and an honest word on whether a request that failed may
//! have arrived.

use crate::dial::Dial;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use std::io;
use std::time::Duration;
use thiserror::Error;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Answers other than event streams and files are a sentence; more is not read.
const MAX_TEXT: usize = 16 * 1024;

/// Why a request has no answer.
#[derive(Debug, Error)]
pub enum HttpError {
    /// No connection.
    #[error("connecting failed")]
    Connect(#[source] io::Error),
    /// No connection in time.
    #[error("no connection within {0:?}")]
    ConnectLate(Duration),
    /// The request certainly did not leave.
    #[error("the connection closed before the request left")]
    NotSent,
    /// The connection broke; the request may have arrived.
    #[error("the connection broke")]
    Broken(#[source] hyper::Error),
    /// No answer in time; the request may have arrived.
    #[error("no answer within {0:?}")]
    Late(Duration),
}

impl HttpError {
    /// Whether the other side may have seen the request.
    pub const fn may_have_arrived(&self) -> bool {
        matches!(self, Self::Broken(_) | Self::Late(_))
    }

    /// The error with its causes, on one line.
    pub fn chain(&self) -> String {
        let mut out = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(c) = cause {
            out.push_str(": ");
            out.push_str(&c.to_string());
            cause = c.source();
        }
        out
    }
}

/// A connection; it is closed when this is dropped.
#[derive(Debug)]
pub struct Channel {
    sender: SendRequest<Full<Bytes>>,
    /// Does the reading and writing.
    _driver: AbortOnDrop,
}

#[derive(Debug)]
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Channel {
    /// Connects to `host:port`.
    pub async fn connect(dial: &dyn Dial, authority: &str, within: Duration) -> Result<Self, HttpError> {
        let io = timeout(within, dial.dial(authority))
            .await
            .map_err(|_| HttpError::ConnectLate(within))?
            .map_err(HttpError::Connect)?;
        let (sender, connection) = handshake(TokioIo::new(io)).await.map_err(HttpError::Broken)?;
        let driver = tokio::spawn(async move {
            // How it ends is told by the request or body that it carries.
            drop(connection.await);
        });
        Ok(Self {
            sender,
            _driver: AbortOnDrop(driver),
        })
    }

    /// Whether nothing can be sent any more.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends a request and waits for the head of its answer.
    pub async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
        within: Duration,
    ) -> Result<Response<Incoming>, HttpError> {
        let answer = async {
            self.sender.ready().await.map_err(|_| HttpError::NotSent)?;
            self.sender.try_send_request(request).await.map_err(|mut error| {
                // The request comes back when no byte of it left.
                match error.take_message() {
                    Some(_) => HttpError::NotSent,
                    None => HttpError::Broken(error.into_error()),
                }
            })
        };
        timeout(within, answer)
            .await
            .unwrap_or(Err(HttpError::Late(within)))
    }
}

/// An answer's body as a line of text; what cannot be read is left out.
pub async fn text(body: Incoming, within: Duration) -> String {
    let read = timeout(within, Limited::new(body, MAX_TEXT).collect()).await;
    let bytes = read
        .ok()
        .and_then(Result::ok)
        .map(|b| b.to_bytes())
        .unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
