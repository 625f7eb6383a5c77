//! The least that speaks HTTP/1.1.

use serde_json::Value;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    /// Paths of the wrong fields in an error.
    pub fn fields(&self) -> Vec<String> {
        let value = self.json();
        let list = value["details"][1]["fieldViolations"].as_array().cloned();
        list.unwrap_or_default()
            .iter()
            .map(|v| v["field"].as_str().unwrap().to_owned())
            .collect()
    }

    pub fn reason(&self) -> String {
        self.json()["details"][0]["reason"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

pub async fn ask(to: SocketAddr, verb: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let mut text = format!(
        "{verb} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n",
        body.len()
    );
    if !headers.iter().any(|(k, _)| *k == "host") {
        text += &format!("host: {to}\r\n");
    }
    for (key, value) in headers {
        text += &format!("{key}: {value}\r\n");
    }
    text += "\r\n";
    text += body;
    // The other side may answer and close before it has read all.
    let _ = stream.write_all(text.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    Answer {
        status: head
            .split(' ')
            .nth(1)
            .and_then(|s| s.parse().ok())
            .unwrap_or_default(),
        head: head.to_owned(),
        body: if chunked { unchunk(body) } else { body.to_owned() },
    }
}

fn unchunk(mut body: &str) -> String {
    let mut out = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let Ok(size) = usize::from_str_radix(size, 16) else {
            break;
        };
        if size == 0 {
            break;
        }
        out += &rest[..size];
        body = rest[size..].trim_start_matches("\r\n");
    }
    out
}
