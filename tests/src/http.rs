//! One blocking HTTP request, enough to ask a server under test whether it is ready or what it measures, or to give it a job.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};

/// How long a connection and each read may take; a paused server must not hold up the test for good.
const PATIENCE: Duration = Duration::from_secs(5);

/// Status and body of `GET path` at `address`.
///
/// # Errors
/// No connection, no answer in time, or an answer that is not HTTP.
pub fn get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let answer =
        exchange(address, "GET", path, "\r\n").with_context(|| format!("GET http://{address}{path}"))?;
    parse(&answer).with_context(|| format!("GET http://{address}{path} answered no HTTP"))
}

/// Status and body of `POST path` with a JSON body.
///
/// # Errors
/// As [`get`].
pub fn post(address: SocketAddr, path: &str, body: &serde_json::Value) -> Result<(u16, String)> {
    let body = body.to_string();
    let more = format!(
        "content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer =
        exchange(address, "POST", path, &more).with_context(|| format!("POST http://{address}{path}"))?;
    parse(&answer).with_context(|| format!("POST http://{address}{path} answered no HTTP"))
}

/// HTTP/1.0, so that the answer ends with the connection and is never sent in chunks. `more` is what follows the first
/// headers.
fn exchange(address: SocketAddr, verb: &str, path: &str, more: &str) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // in one piece, as any client sends so small a request
    let request = format!("{verb} {path} HTTP/1.0\r\nhost: {address}\r\nconnection: close\r\n{more}");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn parse(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

/// `text` with everything but letters and digits as %XX, for a query's value.
#[must_use]
pub fn escaped(text: &str) -> String {
    text.bytes()
        .map(|b| {
            if b.is_ascii_alphanumeric() {
                char::from(b).to_string()
            } else {
                format!("%{b:02X}")
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_status_and_body() {
        assert_eq!(
            parse("HTTP/1.1 503 Not Ready\r\na: b\r\n\r\nwhy\r\n"),
            Some((503, "why\r\n".to_owned()))
        );
        assert_eq!(parse("garbage"), None);
    }

    #[test]
    fn escapes_an_expression() {
        assert_eq!(escaped("up{a=\"b\"}"), "up%7Ba%3D%22b%22%7D");
    }
}
