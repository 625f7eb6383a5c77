//! Requests that cost their sender little and a server much, and connections that say nothing.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use echelon_tests::wait;
use echelon_tests_judge::Event;

/// Connections that send nothing, and those that send half of something.
const SILENT: u32 = 1_000;
const HALF: u32 = 100;

/// Threads that send hostile requests one after another.
const SENDERS: u64 = 2;

/// KiB of the small request, in which empty groups once took a gigabyte, and of the largest one that is taken.
const SMALL_KIB: u32 = 292;
const LARGE_KIB: u32 = 1_000;

/// Time between two requests of a sender.
const EVERY: Duration = Duration::from_millis(100);

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a process that was started again may take until it listens.
const LISTENS_WITHIN: Duration = Duration::from_secs(60);

/// KiB that a process may take beside: for each connection, and for what others ask of it meanwhile.
const CONNECTION_KIB: u64 = 16;
const OTHERS_KIB: u64 = 32 << 10;

/// Descriptors of this process: one for each connection, and those of clients and watchers.
const DESCRIPTORS: u32 = 4096;

/// What a process speaks on its port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// JSON over HTTP, and gRPC.
    Api,
    /// gRPC of leaders.
    Calls,
}

/// What is under way against one process.
pub struct Hostility {
    process: String,
    pid: u32,
    /// KiB that it had before.
    before: u64,
    most: u64,
    stop: Arc<AtomicBool>,
    /// Each gives how many requests were refused, and what was answered in the place of a refusal.
    senders: Vec<JoinHandle<Result<Refusals>>>,
    connections: Vec<TcpStream>,
}

/// How hostile requests were answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Refusals {
    refused: usize,
    /// The first other answer.
    other: Option<String>,
}

impl Hostility {
    /// Begins against the process that listens at an address.
    ///
    /// # Errors
    /// The process is not there, or takes no connection.
    pub fn begin(process: &str, pid: u32, address: SocketAddr, port: Port) -> Result<Self> {
        // an earlier fault may have started it again just now
        wait::until(&format!("{process} to listen"), LISTENS_WITHIN, || {
            Ok(TcpStream::connect_timeout(&address, PATIENCE).ok())
        })?;
        let raised = Command::new("prlimit")
            .args(["--pid", &std::process::id().to_string()])
            .arg(format!("--nofile={DESCRIPTORS}:"))
            .status()
            .context("run prlimit")?;
        ensure!(
            raised.success(),
            "prlimit refuses {DESCRIPTORS} descriptors: {raised}"
        );
        // from here on the kernel notes the most that it has
        let path = format!("/proc/{pid}/clear_refs");
        fs::write(&path, "5").with_context(|| format!("write {path}"))?;
        let before = memory(pid, "VmRSS")?;
        let (senders, connections) = (Vec::new(), Vec::new());
        let mut hostility = Self {
            process: process.to_owned(),
            pid,
            before,
            most: before + allowed(port),
            stop: Arc::new(AtomicBool::new(false)),
            senders,
            connections,
        };
        for number in 0..SILENT + HALF {
            let stream = TcpStream::connect_timeout(&address, PATIENCE);
            let mut stream = stream.with_context(|| format!("connection {number} to {process}"))?;
            if number >= SILENT {
                // it may already be closed for another one
                let _ = stream.write_all(half(port));
            }
            hostility.connections.push(stream);
        }
        if port == Port::Api {
            for _ in 0..SENDERS {
                let stop = hostility.stop.clone();
                hostility
                    .senders
                    .push(thread::spawn(move || send(address, &stop)));
            }
        }
        Ok(hostility)
    }

    /// Ends it: the memory of the process, and whether each request was refused.
    ///
    /// # Errors
    /// The process is not there any more.
    pub fn end(mut self) -> Result<Vec<Event>> {
        self.stop.store(true, Ordering::SeqCst);
        let mut all = Refusals::default();
        let n_senders = self.senders.len();
        for sender in self.senders.drain(..) {
            let Ok(refusals) = sender.join() else {
                bail!("a sender panicked");
            };
            let refusals = refusals?;
            all.refused += refusals.refused;
            all.other = all.other.or(refusals.other);
        }
        let peak = memory(self.pid, "VmHWM")?;
        let mut events = vec![Event::Memory {
            process: self.process.clone(),
            before: self.before,
            peak,
            most: self.most,
        }];
        if n_senders > 0 {
            let seen = all
                .other
                .clone()
                .unwrap_or_else(|| format!("{} refused", all.refused));
            events.push(Event::Checked {
                what: format!("{} refuses hostile requests", self.process),
                held: all.other.is_none() && all.refused > 0,
                seen,
            });
        }
        println!(
            "             {} had {} KiB, {peak} at most, {} would be too much; {all:?}",
            self.process, self.before, self.most
        );
        Ok(events)
    }
}

impl Drop for Hostility {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

/// KiB that all of it may take.
fn allowed(port: Port) -> u64 {
    let connections = u64::from(SILENT + HALF) * CONNECTION_KIB;
    // a mebibyte and eight times its size for each request
    let request = 1024 + 8 * u64::from(LARGE_KIB);
    let requests = match port {
        Port::Api => SENDERS * request,
        Port::Calls => 0,
    };
    connections + requests + OTHERS_KIB
}

/// A number of KiB in what the kernel says of a process.
fn memory(pid: u32, key: &str) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    kib(&text, key).with_context(|| format!("no {key} in {path}"))
}

fn kib(status: &str, key: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line?.split_whitespace().next()?.parse().ok()
}

/// A request that never ends.
const fn half(port: Port) -> &'static [u8] {
    match port {
        Port::Api => b"POST /v1/jobs HTTP/1.1\r\nhost: a\r\ncontent-length: 900000\r\n\r\n{\"spec\": {",
        Port::Calls => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0",
    }
}

/// Sends one hostile request after another until it is stopped.
fn send(address: SocketAddr, stop: &AtomicBool) -> Result<Refusals> {
    let bodies = [empty_groups(SMALL_KIB), empty_groups(LARGE_KIB)];
    let mut refusals = Refusals::default();
    for body in bodies.iter().cycle() {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let answer = exchange(address, body).unwrap_or_else(|error| format!("no answer: {error:#}"));
        if answer.starts_with("HTTP/1.1 400") {
            refusals.refused += 1;
        } else {
            refusals.other.get_or_insert(answer);
        }
        thread::sleep(EVERY);
    }
    Ok(refusals)
}

/// A job of so many KiB that has as many empty groups as fit.
fn empty_groups(kib: u32) -> String {
    let groups: Vec<&str> = (0..kib * 1024 / 3).map(|_| "{}").collect();
    let groups = groups.join(",");
    format!(r#"{{"spec": {{"name": "hostile", "kind": "batch", "groups": [{groups}]}}}}"#)
}

/// The beginning of the answer; the rest is read and thrown away.
fn exchange(address: SocketAddr, body: &str) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    // it may be refused before all of it was sent
    let _ = stream.write_all(body.as_bytes());
    let mut answer = Vec::new();
    Read::by_ref(&mut stream).take(200).read_to_end(&mut answer)?;
    let mut rest = [0; 4096];
    while stream.read(&mut rest)? > 0 {}
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_what_the_kernel_says() {
        let status = "Name:\techelon\nVmHWM:\t  20480 kB\nVmRSS:\t  10240 kB\n";
        assert_eq!(kib(status, "VmRSS"), Some(10240));
        assert_eq!(kib(status, "VmHWM"), Some(20480));
        assert_eq!(kib(status, "Vm"), None);
        assert!(memory(std::process::id(), "VmRSS").unwrap() > 0);
    }

    #[test]
    fn a_hostile_job_has_the_size_that_was_asked_for() {
        let body = empty_groups(SMALL_KIB);
        assert!((292 << 10..293 << 10).contains(&body.len()), "{}", body.len());
        let job: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(job["spec"]["groups"].as_array().unwrap().len(), (292 << 10) / 3);
    }
}
