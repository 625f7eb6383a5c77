//! Masters that answer by a script, each request with the next answer; 202 when there is none left.

use crate::dial::{Dial, Io};
use crate::open::{PROTOBUF, STREAM_ID};
use async_trait::async_trait;
use bytes::Bytes;
use echelon_proto::mesos::v1::scheduler::Call as Wire;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use prost::Message as _;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

pub enum Answer {
    Text(u16, &'static str),
    /// 200 with these headers and this body.
    Body(Vec<(&'static str, &'static str)>, Vec<u8>),
    Redirect(&'static str),
    /// A subscription's stream with this id.
    Stream(&'static str, mpsc::UnboundedReceiver<Bytes>),
    /// 202, then the connection closes.
    Last,
    /// No answer at all.
    Hang,
    /// The connection breaks.
    Cut,
}

/// A request as a master saw it.
pub struct Seen {
    pub authority: String,
    pub path: String,
    pub headers: http::HeaderMap,
    pub body: Bytes,
}

impl Seen {
    pub fn call(&self) -> Wire {
        Wire::decode(self.body.clone()).unwrap()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }
}

#[derive(Default)]
struct Inner {
    answers: BTreeMap<String, VecDeque<Answer>>,
    seen: Vec<Seen>,
    dialled: usize,
}

#[derive(Clone, Default)]
pub struct Net(Arc<Mutex<Inner>>);

impl Net {
    /// A network with these masters; the others refuse connections.
    pub fn with(masters: &[&str]) -> Self {
        let net = Self::default();
        for m in masters {
            net.0
                .lock()
                .unwrap()
                .answers
                .insert((*m).to_owned(), VecDeque::new());
        }
        net
    }

    pub fn answer(&self, master: &str, answer: Answer) {
        let mut inner = self.0.lock().unwrap();
        inner.answers.get_mut(master).unwrap().push_back(answer);
    }

    /// A stream that begins with these bytes and goes on with what is sent.
    pub fn stream(&self, master: &str, begin: Vec<u8>) -> mpsc::UnboundedSender<Bytes> {
        let (sender, receiver) = mpsc::unbounded_channel();
        sender.send(Bytes::from(begin)).unwrap();
        self.answer(master, Answer::Stream("stream-1", receiver));
        sender
    }

    pub fn dialled(&self) -> usize {
        self.0.lock().unwrap().dialled
    }

    /// The requests so far, each with its kind of call.
    pub fn look<T>(&self, f: impl Fn(&Seen) -> T) -> Vec<T> {
        self.0.lock().unwrap().seen.iter().map(f).collect()
    }

    async fn serve(
        self,
        authority: String,
        request: Request<Incoming>,
    ) -> io::Result<Response<UnsyncBoxBody<Bytes, io::Error>>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let answer = {
            let mut inner = self.0.lock().unwrap();
            let seen = Seen {
                authority: authority.clone(),
                path: head.uri.path().to_owned(),
                headers: head.headers,
                body,
            };
            inner.seen.push(seen);
            inner.answers.get_mut(&authority).and_then(VecDeque::pop_front)
        };
        let plain = |status: u16, text: &'static str| {
            let body = Full::new(Bytes::from(text))
                .map_err(|e| match e {})
                .boxed_unsync();
            let mut response = Response::new(body);
            *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
            response
        };
        Ok(match answer {
            None => plain(202, ""),
            Some(Answer::Text(status, text)) => plain(status, text),
            Some(Answer::Last) => {
                let mut response = plain(202, "");
                response
                    .headers_mut()
                    .insert("connection", "close".parse().unwrap());
                response
            }
            Some(Answer::Redirect(location)) => {
                let mut response = plain(307, "");
                response
                    .headers_mut()
                    .insert("location", location.parse().unwrap());
                response
            }
            Some(Answer::Body(headers, bytes)) => {
                let mut response = Response::new(
                    Full::new(Bytes::from(bytes))
                        .map_err(|e| match e {})
                        .boxed_unsync(),
                );
                for (name, value) in headers {
                    response.headers_mut().insert(name, value.parse().unwrap());
                }
                response
            }
            Some(Answer::Stream(id, pieces)) => {
                let frames = futures::stream::unfold(pieces, |mut pieces| async {
                    let piece = pieces.recv().await?;
                    Some((Ok::<_, io::Error>(Frame::data(piece)), pieces))
                });
                let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
                response.headers_mut().insert(STREAM_ID, id.parse().unwrap());
                response
                    .headers_mut()
                    .insert("content-type", PROTOBUF.parse().unwrap());
                response
            }
            Some(Answer::Hang) => std::future::pending().await,
            Some(Answer::Cut) => return Err(io::Error::other("cut")),
        })
    }
}

#[async_trait]
impl Dial for Net {
    async fn dial(&self, authority: &str) -> io::Result<Box<dyn Io>> {
        {
            let mut inner = self.0.lock().unwrap();
            inner.dialled += 1;
            if !inner.answers.contains_key(authority) {
                return Err(io::Error::new(
                    io::ErrorKind::ConnectionRefused,
                    "connection refused",
                ));
            }
        }
        let (ours, theirs) = tokio::io::duplex(4096);
        let (net, authority) = (self.clone(), authority.to_owned());
        tokio::spawn(async move {
            let service = service_fn(move |request| net.clone().serve(authority.clone(), request));
            let served = hyper::server::conn::http1::Builder::new();
            drop(served.serve_connection(TokioIo::new(theirs), service).await);
        });
        Ok(Box::new(ours))
    }
}

/// One master that says these bytes, whatever is asked, in pieces of this length.
pub struct Parrot {
    pub bytes: Vec<u8>,
    pub piece: usize,
}

#[async_trait]
impl Dial for Parrot {
    async fn dial(&self, _: &str) -> io::Result<Box<dyn Io>> {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (ours, mut theirs) = tokio::io::duplex(self.piece);
        let (bytes, piece) = (self.bytes.clone(), self.piece);
        tokio::spawn(async move {
            let mut asked = Vec::new();
            // The request is over once its body, which begins with the type of the call, has come.
            while !asked.windows(4).any(|w| w == b"\r\n\r\n") {
                let mut some = [0; 512];
                let n = theirs.read(&mut some).await.unwrap();
                asked.extend_from_slice(&some[..n]);
            }
            let (mut reader, mut writer) = tokio::io::split(theirs);
            let drain =
                tokio::spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
            for piece in bytes.chunks(piece) {
                if writer.write_all(piece).await.is_err() {
                    return;
                }
            }
            drop(writer.shutdown().await);
            drop(drain.await);
        });
        Ok(Box::new(ours))
    }
}
