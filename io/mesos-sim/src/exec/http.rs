//! One GET over plain HTTP, as the fetcher and the probes of an agent make it.

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::io;
use tokio::net::TcpStream;

/// The largest answer: far more than a test fetches.
const LARGEST: usize = 256 * 1024 * 1024;

/// The answer of `host:port` for a path.
pub(crate) async fn get(authority: &str, path: &str) -> io::Result<Response<Bytes>> {
    let stream = TcpStream::connect(authority).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    tokio::spawn(connection);
    let request = Request::get(path)
        .header(header::HOST, authority)
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(io::Error::other)?;
    let answer = sender.send_request(request).await.map_err(io::Error::other)?;
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, LARGEST)
        .collect()
        .await
        .map_err(io::Error::other)?;
    Ok(Response::from_parts(head, body.to_bytes()))
}
