//! Hostile and slow peers on real sockets: what they lose, when, and what honest ones keep.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use bytes::Bytes;
use echelon_io_process::listener::{ConnectionLimits, ConnectionRefusals, GuardedPort, RequestBody};
use echelon_io_process::metrics::{Metrics, exposition};
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::IntervalStream;
use tokio_util::sync::CancellationToken;

const HEAD: Duration = Duration::from_millis(300);
const BODY: Duration = Duration::from_millis(500);
const IDLE: Duration = Duration::from_millis(800);
/// So much later at most, on a busy machine.
const LATE: Duration = Duration::from_secs(5);
const FAR: Duration = Duration::from_secs(3600);

/// A port with no bound that matters.
const fn open() -> ConnectionLimits {
    ConnectionLimits {
        connections: 100,
        streams: 100,
        head: FAR,
        body: FAR,
        whole_body: FAR,
        idle: FAR,
        ping: None,
    }
}

struct Served {
    address: SocketAddr,
    metrics: Metrics,
    _stop: tokio_util::sync::DropGuard,
}

/// `/` answers with the length of the body, `/watch` with a byte every 50 ms, `/hang` never.
async fn answer(request: Request<RequestBody>) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let path = request.uri().path().to_owned();
    match path.as_str() {
        "/watch" => {
            let ticks = IntervalStream::new(tokio::time::interval(Duration::from_millis(50)));
            let frames = ticks.map(|_| Ok(Frame::data(Bytes::from_static(b"x"))));
            Ok(Response::new(BodyExt::boxed(StreamBody::new(frames))))
        }
        "/hang" => std::future::pending().await,
        _ => {
            let read = request.into_body().collect().await;
            let said = read.map_or_else(|e| e.to_string(), |body| body.to_bytes().len().to_string());
            Ok(Response::new(Full::from(said).boxed()))
        }
    }
}

async fn serve(limits: ConnectionLimits) -> Served {
    let metrics = Metrics::new(&[("role", "test")], "1", "abc").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let port = GuardedPort {
        listener,
        limits,
        refusals: ConnectionRefusals::new(&metrics).unwrap(),
    };
    let stop = CancellationToken::new();
    tokio::spawn(port.serve(tower::service_fn(answer), stop.clone()));
    Served {
        address,
        metrics,
        _stop: stop.drop_guard(),
    }
}

impl Served {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// A connection that has sent this.
    async fn sent(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        stream
    }

    fn refused(&self, cause: &str) -> u64 {
        let told = exposition(std::slice::from_ref(&self.metrics));
        let head = format!(r#"echelon_connections_refused_total{{cause="{cause}",role="test"}} "#);
        let line = told.lines().find_map(|line| line.strip_prefix(&head));
        line.unwrap().parse().unwrap()
    }
}

/// All that comes until the connection ends, and when that was. A reset is an end.
async fn until_end(stream: &mut TcpStream) -> (String, Duration) {
    let began = Instant::now();
    let mut all = Vec::new();
    let _ = tokio::time::timeout(FAR, stream.read_to_end(&mut all))
        .await
        .unwrap();
    (String::from_utf8_lossy(&all).into_owned(), began.elapsed())
}

async fn is_alive(stream: &mut TcpStream) -> bool {
    let head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc";
    let mut answer = [0; 512];
    if stream.write_all(head).await.is_err() {
        return false;
    }
    let read = tokio::time::timeout(LATE, stream.read(&mut answer)).await;
    matches!(read, Ok(Ok(n)) if n > 0)
}

fn in_time(took: Duration, time: Duration) {
    assert!(
        took >= time * 9 / 10 && took < time + LATE,
        "{took:?} of {time:?}"
    );
}

#[tokio::test]
async fn half_a_head_ends_its_connection_whatever_it_speaks_and_however_slowly_it_goes_on() {
    let served = serve(ConnectionLimits { head: HEAD, ..open() }).await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let mut half_headers = preface.to_vec();
    half_headers.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
    half_headers.extend([0, 0, 4, 1, 4, 0, 0, 0, 1, 0x82]);
    let mut no_end = preface.to_vec();
    no_end.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
    no_end.extend([0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82]);
    let halves: [&[u8]; 5] = [
        b"G",
        b"GET / HTTP/1.1\r\nhost: a\r\n",
        &preface[..10],
        &half_headers,
        &no_end,
    ];
    for (i, half) in halves.into_iter().enumerate() {
        let mut stream = served.sent(half).await;
        let (_, took) = until_end(&mut stream).await;
        in_time(took, HEAD);
        assert_eq!(
            served.refused("head"),
            i as u64 + 1,
            "{}",
            String::from_utf8_lossy(half)
        );
    }
    // A byte now and then is no excuse.
    let mut stream = served.sent(b"GET / HTTP/1.1\r\n").await;
    let began = Instant::now();
    while stream.write_all(b"a: b\r\n").await.is_ok() && began.elapsed() < LATE {
        tokio::time::sleep(HEAD / 6).await;
    }
    in_time(began.elapsed(), HEAD);
    // Nor is a second request of an honest connection.
    let mut stream = served.connect().await;
    assert!(is_alive(&mut stream).await);
    tokio::time::sleep(HEAD * 2).await;
    assert!(is_alive(&mut stream).await, "without a byte it is only idle");
    stream.write_all(b"GET").await.unwrap();
    in_time(until_end(&mut stream).await.1, HEAD);
}

#[tokio::test]
async fn half_a_body_is_answered_with_408_and_a_slow_one_passes() {
    let served = serve(ConnectionLimits { body: BODY, ..open() }).await;
    let head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nabc";
    let mut stream = served.sent(head).await;
    let (answer, took) = until_end(&mut stream).await;
    assert!(
        answer.starts_with("HTTP/1.1 408") && answer.contains("no byte of the body came"),
        "{answer}"
    );
    in_time(took, BODY);
    assert_eq!(served.refused("body"), 1);

    let mut slow = served.sent(head).await;
    for byte in b"defghij" {
        tokio::time::sleep(BODY * 4 / 10).await;
        slow.write_all(std::slice::from_ref(byte)).await.unwrap();
    }
    let mut answer = [0; 512];
    let n = slow.read(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..n]).into_owned();
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("10"),
        "{answer}"
    );
    assert_eq!(served.refused("body"), 1);
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut out = length[1..].to_vec();
    out.extend([kind, flags, 0, 0, 0, stream]);
    out.extend(payload);
    out
}

/// The preface, the settings, and the head of a POST of a path on stream 1.
fn http2(path: &[u8]) -> Vec<u8> {
    let mut out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    out.extend(frame(4, 0, 0, &[]));
    out.extend(http2_head(path, 1, 4));
    out
}

fn http2_head(path: &[u8], stream: u8, flags: u8) -> Vec<u8> {
    // :method POST, :scheme http, :path and :authority as they are.
    let mut block = vec![0x83, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
    block.extend(path);
    block.extend(b"\x01\x01a");
    frame(1, flags, stream, &block)
}

/// The next frame: its kind, its stream, its payload.
async fn next_frame(stream: &mut TcpStream) -> Option<(u8, u8, Vec<u8>)> {
    let mut head = [0; 9];
    tokio::time::timeout(LATE, stream.read_exact(&mut head))
        .await
        .ok()?
        .ok()?;
    let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
    stream.read_exact(&mut payload).await.ok()?;
    Some((head[3], head[8], payload))
}

async fn next_of(stream: &mut TcpStream, kind: u8) -> (u8, Vec<u8>) {
    loop {
        let (found, of, payload) = next_frame(stream).await.unwrap();
        if found == kind {
            return (of, payload);
        }
    }
}

#[tokio::test]
async fn a_body_over_http_2_has_its_time_from_byte_to_byte_and_not_from_frame_to_frame() {
    let served = serve(ConnectionLimits {
        body: BODY,
        head: HEAD,
        ..open()
    })
    .await;
    let mut stream = served.sent(&http2(b"/")).await;
    // One frame whose bytes take three times as long as may be between two of them.
    for byte in frame(0, 1, 1, b"abcdefgh") {
        tokio::time::sleep(BODY / 5).await;
        stream.write_all(&[byte]).await.unwrap();
    }
    let (of, said) = next_of(&mut stream, 0).await;
    assert_eq!((of, said.as_slice()), (1, &b"8"[..]));
    assert_eq!((served.refused("body"), served.refused("head")), (0, 0));

    let mut stream = served.sent(&http2(b"/")).await;
    stream.write_all(&frame(0, 0, 1, b"abc")).await.unwrap();
    let began = Instant::now();
    let (_, said) = next_of(&mut stream, 0).await;
    assert!(String::from_utf8_lossy(&said).contains("no byte of the body came"));
    in_time(began.elapsed(), BODY);
    assert_eq!(served.refused("body"), 1);
}

#[tokio::test]
async fn an_idle_connection_ends_and_a_watch_is_none() {
    let served = serve(ConnectionLimits {
        idle: IDLE,
        body: BODY,
        head: HEAD,
        ..open()
    })
    .await;
    let mut silent = served.connect().await;
    in_time(until_end(&mut silent).await.1, IDLE);
    let mut used = served.connect().await;
    assert!(is_alive(&mut used).await);
    in_time(until_end(&mut used).await.1, IDLE);
    assert_eq!(served.refused("idle"), 2);

    let mut watch = served.sent(b"GET /watch HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let mut hangs = served.sent(b"GET /hang HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let began = Instant::now();
    let mut bytes = [0; 64];
    while began.elapsed() < IDLE * 3 {
        assert!(watch.read(&mut bytes).await.unwrap() > 0);
    }
    assert!(tokio::time::timeout(BODY, hangs.read(&mut bytes)).await.is_err());
    assert_eq!(served.refused("idle"), 2);
}

#[tokio::test]
async fn a_peer_that_does_not_read_its_answer_is_let_go() {
    let served = serve(ConnectionLimits { idle: IDLE, ..open() }).await;
    // An answer larger than all buffers between: requests whose answers are never read.
    let one = b"GET /none HTTP/1.1\r\nhost: a\r\n\r\n";
    let stream = served.sent(one).await;
    let (mut read, mut write) = stream.into_split();
    let began = Instant::now();
    let many = one.repeat(1_000);
    while write.write_all(&many).await.is_ok() && began.elapsed() < FAR {}
    assert!(began.elapsed() < LATE * 4, "{:?}", began.elapsed());
    assert_eq!(served.refused("unread"), 1);
    let _ = read.read(&mut [0; 1]).await;
}

#[tokio::test]
async fn when_a_port_is_full_the_longest_idle_connection_makes_room_and_none_in_use() {
    let served = serve(ConnectionLimits {
        connections: 3,
        ..open()
    })
    .await;
    let mut busy = served.sent(b"GET /hang HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let mut first = served.connect().await;
    assert!(is_alive(&mut first).await);
    let mut second = served.connect().await;
    assert!(is_alive(&mut second).await);
    let mut third = served.connect().await;
    assert!(is_alive(&mut third).await);
    assert!(until_end(&mut first).await.1 < LATE);
    assert!(is_alive(&mut second).await && is_alive(&mut third).await);
    assert_eq!((served.refused("displaced"), served.refused("full")), (1, 0));
    // Now all are in use.
    for stream in [&mut second, &mut third] {
        stream
            .write_all(b"GET /hang HTTP/1.1\r\nhost: a\r\n\r\n")
            .await
            .unwrap();
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut fourth = served.connect().await;
    assert!(!is_alive(&mut fourth).await);
    assert_eq!((served.refused("displaced"), served.refused("full")), (1, 1));
    for stream in [&mut busy, &mut second, &mut third] {
        let read = tokio::time::timeout(Duration::from_millis(50), stream.read(&mut [0; 1])).await;
        assert!(read.is_err(), "it is still open");
    }
}

#[tokio::test]
async fn a_connection_has_as_many_streams_as_may_be_and_the_next_one_is_refused() {
    let served = serve(ConnectionLimits { streams: 3, ..open() }).await;
    let mut stream = served.sent(&http2(b"/hang")).await;
    for id in [3, 5] {
        stream.write_all(&http2_head(b"/hang", id, 5)).await.unwrap();
    }
    stream.write_all(&http2_head(b"/hang", 7, 5)).await.unwrap();
    let (of, code) = next_of(&mut stream, 3).await;
    assert_eq!((of, code), (7, vec![0, 0, 0, 7]), "REFUSED_STREAM");
    while served.refused("streams") == 0 {
        tokio::task::yield_now().await;
    }
    // One ends, and there is room again.
    stream
        .write_all(&frame(3, 0, 3, &8u32.to_be_bytes()))
        .await
        .unwrap();
    stream.write_all(&http2_head(b"/", 9, 5)).await.unwrap();
    let (of, said) = next_of(&mut stream, 0).await;
    assert_eq!((of, said.as_slice()), (9, &b"0"[..]));
    assert_eq!(served.refused("streams"), 1);
}

/// Set for the process of the test below that has few descriptors.
const CHILD: &str = "ECHELON_TEST_FEW_DESCRIPTORS";

/// With 1,024 descriptors, and 1,100 connections that say nothing, an honest client is answered.
#[test]
fn silent_connections_do_not_silence_a_port() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use std::io::{BufRead, BufReader, Read, Write};
    use std::process::{Command, Stdio};

    if std::env::var_os(CHILD).is_some() {
        let few = Rlimit {
            current: Some(512),
            maximum: Some(1_024),
        };
        setrlimit(Resource::Nofile, few).unwrap();
        echelon_io_process::descriptors::raise();
        assert_eq!(getrlimit(Resource::Nofile).current, Some(1_024));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let served = serve(ConnectionLimits::of_process()).await;
            println!("address {}", served.address);
            std::future::pending::<()>().await;
        });
    }
    echelon_io_process::descriptors::raise();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "silent_connections_do_not_silence_a_port",
            "--nocapture",
        ])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines
        .map_while(Result::ok)
        .find_map(|line| line.split_once("address ").map(|(_, at)| at.to_owned()))
        .unwrap();
    let mut silent = Vec::new();
    for _ in 0..1_100 {
        silent.push(std::net::TcpStream::connect(&address).unwrap());
    }
    let began = Instant::now();
    let mut honest = std::net::TcpStream::connect(&address).unwrap();
    honest.set_read_timeout(Some(LATE * 2)).unwrap();
    honest.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    let read = honest.read_exact(&mut answer);
    child.kill().unwrap();
    child.wait().unwrap();
    read.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    assert!(began.elapsed() < LATE, "{:?}", began.elapsed());
}

/// A body that comes byte by byte is not idle, and ends all the same.
#[tokio::test]
async fn a_body_that_comes_byte_by_byte_has_a_time_for_all_of_it() {
    let served = serve(ConnectionLimits {
        body: BODY,
        whole_body: 2 * BODY,
        ..open()
    })
    .await;
    let head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n";
    let (mut reads, mut writes) = served.sent(head).await.into_split();
    let drip = tokio::spawn(async move {
        while writes.write_all(b"x").await.is_ok() {
            tokio::time::sleep(BODY / 10).await;
        }
    });
    let mut said = vec![0; 4096];
    let read = tokio::time::timeout(3 * LATE, reads.read(&mut said)).await;
    let n = read.unwrap().unwrap();
    let said = String::from_utf8_lossy(&said[..n]).into_owned();
    assert!(said.starts_with("HTTP/1.1 408"), "{said}");
    assert_eq!(served.refused("body"), 1);
    drip.abort();
}
