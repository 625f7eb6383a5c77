//! How every port of Echelon is served: HTTP/1 and HTTP/2 over TCP, with bounds on what a peer may hold.
//!
//! | a peer that | loses |
//! | --- | --- |
//! | sends half a head | its connection, 10 s after the first byte of it |
//! | stops within a body | the request, with an answer that says so, 30 s after the last byte |
//! | has no request | its connection, after 5 minutes; earlier, the longest idle first, when there are too many |
//! | reads nothing of its answer | its connection, after 5 minutes |
//! | opens too many streams | the streams above the limit |
//!
//! A watch is a request whose answer goes on, so its connection is not idle, and a body may take as long as it needs as
//! long as bytes come.

mod activity;
mod body;
mod frames;
mod limits;
mod refusals;
mod stream;
mod table;

use self::activity::ConnectionVerdict;
use self::body::{AnswerBody, BodyWatch};
use self::stream::WatchedStream;
use self::table::{ConnectionState, ConnectionTable, LongestIdle, RequestInHand};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{Either, Full};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustix::net::sockopt;
use std::convert::Infallible;
use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::{Service, ServiceExt};

pub use body::RequestBody;
pub use limits::{
    BODY_TIME, CONNECTIONS, ConnectionLimits, HEAD_TIME, IDLE_TIME, KEPT_DESCRIPTORS, STREAMS,
    WHOLE_BODY_TIME,
};
pub use refusals::{ConnectionRefusals, RefusalCause};

/// How long to wait before the next connection when the system gives none.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// How long a connection that makes room may take to end.
const DISPLACED_WITHIN: Duration = Duration::from_secs(1);

/// The system asks the machine of a connection whether it is still there when it was silent for so long, for as long again.
const PEER_SILENCE: Duration = Duration::from_secs(60);

type BoxError = Box<dyn Error + Send + Sync>;

/// A port: its listener, what it bears, and where it counts what it refuses.
#[derive(Debug)]
pub struct GuardedPort {
    /// Where connections come from.
    pub listener: TcpListener,
    /// What it bears.
    pub limits: ConnectionLimits,
    /// What it refuses.
    pub refusals: ConnectionRefusals,
}

/// A port that is served.
struct PortServing<S> {
    limits: ConnectionLimits,
    refusals: ConnectionRefusals,
    table: Arc<ConnectionTable>,
    room: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
    answer: S,
}

impl GuardedPort {
    /// Answers requests with `answer` until `stop`; then nothing new is taken, and what is under way ends.
    pub async fn serve<S, B>(self, answer: S, stop: CancellationToken)
    where
        S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
        S::Future: Send,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let Self {
            listener,
            limits,
            refusals,
        } = self;
        let port = listener
            .local_addr()
            .map_or_else(|e| e.to_string(), |at| at.to_string());
        let serving = PortServing {
            limits,
            refusals: refusals.clone(),
            table: Arc::default(),
            room: Arc::new(Semaphore::new(limits.connections)),
            tasks: TaskTracker::new(),
            stop: stop.clone(),
            answer,
        };
        let told = async {
            loop {
                tokio::time::sleep(refusals::LOG_EVERY).await;
                refusals.tell(&port);
            }
        };
        let served = async {
            stop.run_until_cancelled(serving.accept(&listener)).await;
            drop(listener);
            serving.tasks.close();
            serving.tasks.wait().await;
        };
        tokio::select! {
            () = served => {}
            () = told => {}
        }
        refusals.tell(&port);
    }
}

impl<S, B> PortServing<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    async fn accept(&self, listener: &TcpListener) {
        let mut idle = LongestIdle::default();
        for number in 0.. {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Of a connection that broke before it was accepted, or there is no descriptor.
                    tracing::debug!(%error, "cannot accept a connection");
                    idle.displace(&self.table);
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                    continue;
                }
            };
            match self.room(&mut idle).await {
                Some(permit) => self.open(number, stream, permit),
                None => self.refusals.add(RefusalCause::Full, 1),
            }
        }
    }

    /// Room for one more connection, which the longest idle one makes if need be.
    async fn room(&self, idle: &mut LongestIdle) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() {
            return Some(permit);
        }
        if !idle.displace(&self.table) {
            return None;
        }
        let room = Arc::clone(&self.room).acquire_owned();
        tokio::time::timeout(DISPLACED_WITHIN, room).await.ok()?.ok()
    }

    fn open(&self, number: u64, stream: TcpStream, permit: OwnedSemaphorePermit) {
        // A socket that takes no options is still a socket.
        let _ = set_options(&stream);
        let state = ConnectionState::opened(self.refusals.clone());
        self.table.add(number, Arc::clone(&state));
        let table = Arc::clone(&self.table);
        let connection = hold(stream, state, self.limits, self.answer.clone(), self.stop.clone());
        self.tasks.spawn(async move {
            connection.await;
            table.remove(number);
            drop(permit);
        });
    }
}

fn set_options(stream: &TcpStream) -> Result<(), std::io::Error> {
    // Without it every fourth gRPC call waits 40 ms for the peer's delayed acknowledgement.
    stream.set_nodelay(true)?;
    // A watch of a machine that is gone ends by these.
    sockopt::set_tcp_keepidle(stream, PEER_SILENCE)?;
    sockopt::set_tcp_keepintvl(stream, PEER_SILENCE / 6)?;
    sockopt::set_tcp_keepcnt(stream, 6)?;
    sockopt::set_socket_keepalive(stream, true)?;
    let unacknowledged = u32::try_from(2 * PEER_SILENCE.as_millis()).unwrap_or(u32::MAX);
    Ok(sockopt::set_tcp_user_timeout(stream, unacknowledged)?)
}

/// Serves one connection until it ends, or loses its time.
async fn hold<S, B>(
    stream: TcpStream,
    state: Arc<ConnectionState>,
    limits: ConnectionLimits,
    answer: S,
    stop: CancellationToken,
) where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let service = {
        let state = Arc::clone(&state);
        service_fn(move |request| {
            let answered = answered(request, Arc::clone(&state), limits, answer.clone());
            async { Ok::<_, Infallible>(answered.await) }
        })
    };
    let io = TokioIo::new(WatchedStream::new(stream, Arc::clone(&state)));
    let builder = builder(&limits);
    let mut connection = pin!(builder.serve_connection(io, service));
    let mut ending = false;
    let closed = loop {
        let until = match state.verdict(&limits) {
            ConnectionVerdict::Close(cause) => break cause,
            ConnectionVerdict::Until(end) => Some(end),
            ConnectionVerdict::Open => None,
        };
        let over = async {
            match until {
                Some(end) => tokio::time::sleep_until(end).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            // A peer that breaks its own connection is no event of ours.
            _ = connection.as_mut() => return,
            () = state.displaced.cancelled() => break RefusalCause::Displaced,
            () = stop.cancelled(), if !ending => {
                ending = true;
                connection.as_mut().graceful_shutdown();
            }
            () = state.changed.notified() => {}
            () = over => {}
        }
    };
    state.refusals.add(closed, 1);
    // An honest client hears that the connection ends, if it listens.
    connection.as_mut().graceful_shutdown();
    std::future::poll_fn(|cx| {
        let _ = connection.as_mut().poll(cx);
        std::task::Poll::Ready(())
    })
    .await;
}

fn builder(limits: &ConnectionLimits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // A head has its time by what is read. This one bounds the wait for a head whose bytes came while an earlier request was in hand.
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle.saturating_add(limits.head));
    let mut http2 = builder.http2();
    http2
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams);
    if let Some(ping) = limits.ping {
        http2.keep_alive_interval(ping).keep_alive_timeout(ping);
    }
    builder
}

/// Answers a request, or says that its body stopped.
async fn answered<S, B>(
    request: Request<Incoming>,
    state: Arc<ConnectionState>,
    limits: ConnectionLimits,
    answer: S,
) -> Response<AnswerBody<Either<B, Full<Bytes>>>>
where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible>,
    B: Body<Data = Bytes>,
{
    let in_hand = RequestInHand::begins(&state);
    let watch = BodyWatch::default();
    let kind = request.headers().get(header::CONTENT_TYPE);
    let is_grpc = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    let request = request.map(|body| RequestBody::new(body, Arc::clone(&state), watch.clone(), &limits));
    let given = tokio::select! {
        biased;
        () = watch.stopped.cancelled() => None,
        given = answer.oneshot(request) => Some(given.unwrap_or_else(|never| match never {})),
    };
    watch.answered.cancel();
    match given {
        Some(given) => given.map(|body| AnswerBody::new(Either::Left(body), in_hand)),
        None => {
            state.refusals.add(RefusalCause::Body, 1);
            body_stopped(is_grpc, &limits).map(|body| AnswerBody::new(Either::Right(body), in_hand))
        }
    }
}

fn body_stopped(is_grpc: bool, limits: &ConnectionLimits) -> Response<Full<Bytes>> {
    let (time, whole) = (limits.body, limits.whole_body);
    let said = format!(
        "no byte of the body came for {time:?}, or not all of it within {whole:?}: send the request again"
    );
    if is_grpc {
        let mut answer = Response::new(Full::default());
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        // DEADLINE_EXCEEDED
        headers.insert("grpc-status", HeaderValue::from_static("4"));
        if let Ok(said) = HeaderValue::try_from(said.replace(' ', "%20")) {
            headers.insert("grpc-message", said);
        }
        return answer;
    }
    let mut answer = Response::new(Full::from(said + "\n"));
    *answer.status_mut() = StatusCode::REQUEST_TIMEOUT;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    answer
}
