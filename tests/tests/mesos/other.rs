//! Another framework of a real Mesos: it takes every offer that it gets, and gives nothing back.

use anyhow::{Context, Result, ensure};
use echelon_tests::http;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long it reads on for more offers after the last one.
const QUIET: Duration = Duration::from_secs(5);

pub struct Other {
    master: SocketAddr,
    stream_id: String,
    framework_id: String,
    reader: BufReader<TcpStream>,
    /// What was read of events, which come as `LENGTH\n{...}`.
    text: String,
    pub offers: Vec<Value>,
}

impl Other {
    /// Subscribes with a role.
    pub fn subscribe(master: SocketAddr, role: &str) -> Result<Self> {
        let info = json!({
            "user": "root",
            "name": "other",
            "roles": [role],
            "capabilities": [{"type": "MULTI_ROLE"}, {"type": "RESERVATION_REFINEMENT"}],
        });
        let call = json!({"type": "SUBSCRIBE", "subscribe": {"framework_info": info}}).to_string();
        let mut stream = TcpStream::connect(master)?;
        stream.set_read_timeout(Some(QUIET))?;
        write!(
            stream,
            "POST /api/v1/scheduler HTTP/1.1\r\nhost: {master}\r\naccept: application/json\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{call}",
            call.len()
        )?;
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            ensure!(reader.read_line(&mut head)? > 0, "{head}");
        }
        ensure!(head.starts_with("HTTP/1.1 200"), "{head}");
        let stream_id = head
            .lines()
            .find_map(|line| line.strip_prefix("Mesos-Stream-Id: "));
        let mut other = Self {
            master,
            stream_id: stream_id.context("no id of a stream")?.to_owned(),
            framework_id: String::new(),
            reader,
            text: String::new(),
            offers: Vec::new(),
        };
        while other.framework_id.is_empty() {
            other.read_chunk()?;
        }
        Ok(other)
    }

    /// Reads until nothing has come for a while.
    pub fn read(&mut self) -> Result<()> {
        while self.read_chunk()? {}
        Ok(())
    }

    /// Whether another chunk came in time.
    fn read_chunk(&mut self) -> Result<bool> {
        let mut size = String::new();
        if self.reader.read_line(&mut size).is_err() {
            return Ok(false);
        }
        let size = usize::from_str_radix(size.trim(), 16)?;
        // with the end of its line
        let mut chunk = vec![0; size + 2];
        self.reader.read_exact(&mut chunk)?;
        self.text.push_str(&String::from_utf8_lossy(&chunk[..size]));
        while let Some((length, rest)) = self.text.split_once('\n') {
            let length: usize = length.parse()?;
            if rest.len() < length {
                break;
            }
            let event: Value = serde_json::from_str(&rest[..length])?;
            self.text = rest[length..].to_owned();
            self.take(&event);
        }
        Ok(true)
    }

    fn take(&mut self, event: &Value) {
        if let Some(id) = event["subscribed"]["framework_id"]["value"].as_str() {
            id.clone_into(&mut self.framework_id);
        }
        let offers = event["offers"]["offers"].as_array();
        self.offers.extend(offers.into_iter().flatten().cloned());
        let rescinded = &event["rescind"]["offer_id"];
        self.offers.retain(|offer| offer["id"] != *rescinded);
    }

    /// Milli cores that its offers have.
    pub fn cpus_milli(&self) -> f64 {
        let resources = |offer: &Value| offer["resources"].as_array().cloned().unwrap_or_default();
        let all = self.offers.iter().flat_map(resources);
        let cpus = all.filter(|resource| resource["name"] == "cpus");
        cpus.filter_map(|resource| resource["scalar"]["value"].as_f64())
            .sum::<f64>()
            * 1000.0
    }

    /// Runs a task on all that each offer has.
    pub fn use_all(&mut self) -> Result<()> {
        for (number, offer) in std::mem::take(&mut self.offers).iter().enumerate() {
            let task = json!({
                "name": "other",
                "task_id": {"value": format!("other-{number}")},
                "agent_id": offer["agent_id"],
                "resources": offer["resources"],
                "command": {"value": "sleep 100000"},
            });
            let launch = json!({"type": "LAUNCH", "launch": {"task_infos": [task]}});
            let accept = json!({"offer_ids": [offer["id"]], "operations": [launch]});
            self.call(&json!({"type": "ACCEPT", "accept": accept}))?;
        }
        Ok(())
    }

    /// Ends it, and what it runs.
    pub fn tear_down(self) -> Result<()> {
        self.call(&json!({"type": "TEARDOWN"}))
    }

    fn call(&self, call: &Value) -> Result<()> {
        let mut call = call.clone();
        call["framework_id"] = json!({"value": self.framework_id});
        let call = call.to_string();
        let mut stream = TcpStream::connect(self.master)?;
        write!(
            stream,
            "POST /api/v1/scheduler HTTP/1.1\r\nhost: {}\r\nconnection: close\r\nmesos-stream-id: {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{call}",
            self.master,
            self.stream_id,
            call.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        ensure!(answer.starts_with("HTTP/1.1 202"), "{call}: {answer}");
        Ok(())
    }
}

/// A call of an operator.
pub fn operate(master: SocketAddr, call: &Value) -> Result<()> {
    let (status, body) = http::post(master, "/api/v1", call)?;
    ensure!(matches!(status, 200 | 202), "{call}: {status}: {body}");
    Ok(())
}
