//! One blocking HTTP request, enough to ask a server under test whether it is ready or what it measures, or to give it a job.

use std::io::{BufRead, BufReader, Read, Write};
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
    ask(address, &Ask::get(path))
}

/// Status and body of `POST path` with a JSON body.
///
/// # Errors
/// As [`get`].
pub fn post(address: SocketAddr, path: &str, body: &serde_json::Value) -> Result<(u16, String)> {
    ask(address, &Ask::post(path, body))
}

/// A request.
#[derive(Debug, Clone)]
pub struct Ask {
    verb: &'static str,
    path: String,
    body: Option<String>,
    patience: Duration,
}

impl Ask {
    /// `GET path`.
    #[must_use]
    pub fn get(path: &str) -> Self {
        Self {
            verb: "GET",
            path: path.to_owned(),
            body: None,
            patience: PATIENCE,
        }
    }

    /// `POST path` with a JSON body.
    #[must_use]
    pub fn post(path: &str, body: &serde_json::Value) -> Self {
        Self {
            verb: "POST",
            body: Some(body.to_string()),
            ..Self::get(path)
        }
    }

    /// How long the connection and each read may take, 5 s unless said.
    #[must_use]
    pub const fn within(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// HTTP/1.0, so that the answer ends with the connection and is never sent in chunks.
    fn send(&self, address: SocketAddr) -> Result<TcpStream> {
        let mut stream = TcpStream::connect_timeout(&address, self.patience)?;
        stream.set_read_timeout(Some(self.patience))?;
        let more = self.body.as_ref().map_or_else(String::new, |body| {
            format!(
                "content-type: application/json\r\ncontent-length: {}\r\n",
                body.len()
            )
        });
        let (verb, path, body) = (self.verb, &self.path, self.body.as_deref().unwrap_or_default());
        // in one piece, as any client sends so small a request
        let request =
            format!("{verb} {path} HTTP/1.0\r\nhost: {address}\r\nconnection: close\r\n{more}\r\n{body}");
        stream.write_all(request.as_bytes())?;
        Ok(stream)
    }
}

/// Status and body of an answer.
///
/// # Errors
/// As [`get`].
pub fn ask(address: SocketAddr, ask: &Ask) -> Result<(u16, String)> {
    let (verb, path) = (ask.verb, &ask.path);
    let read = || {
        let mut answer = Vec::new();
        ask.send(address)?.read_to_end(&mut answer)?;
        anyhow::Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = read().with_context(|| format!("{verb} http://{address}{path}"))?;
    parse(&answer).with_context(|| format!("{verb} http://{address}{path} answered no HTTP"))
}

/// Status of an answer, and its body, to be read as it comes. A read that takes longer than the request's patience fails
/// with [`std::io::ErrorKind::WouldBlock`] and may be tried again.
///
/// # Errors
/// As [`get`].
pub fn stream(address: SocketAddr, ask: &Ask) -> Result<(u16, BufReader<TcpStream>)> {
    let mut body = BufReader::new(ask.send(address)?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        anyhow::ensure!(body.read_line(&mut head)? > 0, "{address} answered no HTTP");
    }
    let (status, _) = parse(&head).with_context(|| format!("{address} answered no HTTP"))?;
    Ok((status, body))
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
