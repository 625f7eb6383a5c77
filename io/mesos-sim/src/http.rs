//! One HTTP/1.1 server for a handler, and answers made in one place.

use crate::config::ServeError;
use bytes::Bytes;
use echelon_io_process::Shutdown;
use http::{Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Answer = Response<BoxBody<Bytes, BoxError>>;

/// No sensible call is longer; an ACCEPT of ten thousand tasks has a few MiB.
const MAX_BODY: usize = 64 << 20;

/// Binds a listener.
pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| ServeError::Listen { address, source })
}

/// Serves connections until the shutdown begins, which breaks those that are open.
pub(crate) fn serve<H, F>(listener: TcpListener, handler: H, shutdown: &Shutdown)
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let ends = shutdown.clone();
    shutdown.spawn(async move {
        let token = ends.token();
        loop {
            let accepted = tokio::select! {
                () = token.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => connection(stream, handler.clone(), &ends),
                // Out of file descriptors, most likely: others may end meanwhile.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::task::yield_now().await;
                }
            }
        }
    });
}

fn connection<H, F>(stream: TcpStream, handler: H, shutdown: &Shutdown)
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let token = shutdown.token();
    // Events are small and wanted at once.
    let _ = stream.set_nodelay(true);
    shutdown.spawn(async move {
        let service = service_fn(move |request| {
            let answer = handler(request);
            async move { Ok::<_, Infallible>(answer.await) }
        });
        let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::select! {
            () = token.cancelled() => {}
            // A client that breaks off is no news here.
            _ = serving => {}
        }
    });
}

/// Why a request is refused.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub status: StatusCode,
    pub words: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, words: impl Into<String>) -> Self {
        Self {
            status,
            words: words.into(),
        }
    }

    pub(crate) fn bad(words: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, words)
    }

    pub(crate) fn answer(&self) -> Answer {
        let mut answer = text(self.status, &self.words);
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            answer
                .headers_mut()
                .insert(header::ALLOW, http::HeaderValue::from_static("POST"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let realm = http::HeaderValue::from_static(r#"Basic realm="mesos-master-scheduler""#);
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, realm);
        }
        answer
    }
}

/// The whole body.
pub(crate) async fn body(request: Request<Incoming>) -> Result<Bytes, Refusal> {
    match Limited::new(request.into_body(), MAX_BODY).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) => Err(Refusal::bad(format!("Failed to read the body: {error}"))),
    }
}

/// A header's text.
pub(crate) fn header_text<'a, B>(request: &'a Request<B>, name: &str) -> Option<&'a str> {
    request.headers().get(name).and_then(|value| value.to_str().ok())
}

/// A plain text.
pub(crate) fn text(status: StatusCode, words: &str) -> Answer {
    let mut answer = bytes(status, words.to_owned().into_bytes(), "text/plain; charset=utf-8");
    if words.is_empty() {
        answer.headers_mut().remove(header::CONTENT_TYPE);
    }
    answer
}

/// Some bytes of a type.
pub(crate) fn bytes(status: StatusCode, content: Vec<u8>, content_type: &'static str) -> Answer {
    let body = Full::new(Bytes::from(content))
        .map_err(|never| match never {})
        .boxed();
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    answer
}
