//! The memory that one request takes at its peak, without its answer: below 1 MiB and 8 times its size, whatever is in it.
//! A program of its own, whose allocator counts. One request takes more: a job with all 512 sidecars that it may have, each of
//! them as short as can be, is 10 KiB and takes 1.8 MiB.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail by panicking"
)]

use echelon_gateway::{Config, serve};
use echelon_io_membership::{Timeouts, in_process::Hub};
use echelon_io_process::Shutdown;
use echelon_io_process::http::Admin;
use echelon_io_storage::MemoryStore;
use echelon_proto::echelon::v1;
use peak_alloc::PeakAlloc;
use prost::Message;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

fn most(request: usize) -> usize {
    (1 << 20) + 8 * request
}

/// A gateway on threads of its own.
fn gateway(runtime: &tokio::runtime::Runtime) -> SocketAddr {
    let running = runtime.block_on(async {
        let hub = Hub::new(Timeouts::default());
        let shutdown = Shutdown::new(Duration::from_secs(5));
        serve(
            Config::loopback(0, "test"),
            Arc::new(MemoryStore::new()),
            Arc::new(hub.connect("test")),
            shutdown,
            Admin::default(),
        )
        .await
        .unwrap()
    });
    let ready = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    while !exchange(running.address, ready).starts_with("HTTP/1.1 200") {
        std::thread::sleep(Duration::from_millis(20));
    }
    running.address
}

/// Sends bytes and returns the beginning of the answer. It takes no memory in proportion to either.
fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    // It may be refused before all of it was sent.
    let _ = stream.write_all(bytes);
    let mut first = [0; 2_048];
    let mut filled = 0;
    while let Ok(n) = stream.read(&mut first[filled..])
        && n > 0
    {
        filled += n;
    }
    let mut rest = [0; 2_048];
    while stream.read(&mut rest).is_ok_and(|n| n > 0) {}
    String::from_utf8_lossy(&first[..filled]).into_owned()
}

fn json(verb: &str, path: &str, body: &str) -> Vec<u8> {
    let head = format!(
        "{verb} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// A client of HTTP/2 that sends one call.
struct Call {
    stream: TcpStream,
    /// What may still be sent on the connection, and on the stream.
    windows: [i64; 2],
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut out = length[1..].to_vec();
    out.extend([kind, flags, 0, 0, 0, stream]);
    out.extend(payload);
    out
}

const LARGEST_FRAME: usize = 16 * 1024;

impl Call {
    fn open(address: SocketAddr, path: &str) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        // As much of an answer as there is may come at once: a setting of streams, and the window of the connection.
        let all = 1_u32 << 30;
        let setting = [&[0, 4][..], &all.to_be_bytes()].concat();
        stream.write_all(&frame(4, 0, 0, &setting)).unwrap();
        stream.write_all(&frame(8, 0, 0, &all.to_be_bytes())).unwrap();
        let mut call = Self {
            stream,
            windows: [65_535, 65_535],
        };
        // The settings, and the window of the connection.
        while call.windows[0] == 65_535 {
            call.next();
        }
        let mut block = vec![0x83, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
        block.extend(path.as_bytes());
        block.extend(b"\x01\x01a");
        for (name, value) in [("content-type", "application/grpc"), ("te", "trailers")] {
            block.extend([0x00, u8::try_from(name.len()).unwrap()]);
            block.extend(name.as_bytes());
            block.push(u8::try_from(value.len()).unwrap());
            block.extend(value.as_bytes());
        }
        call.stream.write_all(&frame(1, 4, 1, &block)).unwrap();
        call
    }

    /// Reads a frame. Returns its kind, its flags and its length.
    fn next(&mut self) -> (u8, u8, usize) {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).unwrap();
        let length = usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = [0; LARGEST_FRAME];
        self.stream.read_exact(&mut payload[..length]).unwrap();
        let number = |at: usize| i64::from(u32::from_be_bytes(payload[at..at + 4].try_into().unwrap()));
        match head[3] {
            4 if head[4] == 0 => {
                for at in (0..length).step_by(6).filter(|at| payload[*at..at + 2] == [0, 4]) {
                    self.windows[1] += number(at + 2) - 65_535;
                }
                self.stream.write_all(&frame(4, 1, 0, &[])).unwrap();
            }
            6 if head[4] == 0 => self.stream.write_all(&frame(6, 1, 0, &payload[..8])).unwrap(),
            8 => self.windows[usize::from(head[8] != 0)] += number(0),
            _ => {}
        }
        (head[3], head[4], length)
    }

    /// Sends a message. Returns the bytes of the message that came back; 0: none did.
    fn send(mut self, message: &[u8]) -> usize {
        let mut head = vec![0];
        head.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        self.stream.write_all(&frame(0, 0, 1, &head)).unwrap();
        for window in &mut self.windows {
            *window -= 5;
        }
        let n_frames = message.len().div_ceil(LARGEST_FRAME);
        for (i, part) in message.chunks(LARGEST_FRAME).enumerate() {
            let bytes = i64::try_from(part.len()).unwrap();
            while self.windows.iter().any(|window| *window < bytes) {
                if matches!(self.next(), (1 | 3, ..)) {
                    return 0;
                }
            }
            for window in &mut self.windows {
                *window -= bytes;
            }
            let last = u8::from(i + 1 == n_frames);
            if self.stream.write_all(&frame(0, last, 1, part)).is_err() {
                return 0;
            }
        }
        let mut answered = 0;
        loop {
            match self.next() {
                (0, _, length) => answered += length,
                (3, ..) => return answered,
                (1, flags, _) if flags & 1 == 1 => return answered,
                _ => {}
            }
        }
    }
}

/// What a job of 512 short sidecars takes beyond that.
const ALL_SIDECARS: usize = 1 << 20;

/// What happens takes no more than it may, beside an answer, as a message and as bytes.
fn bounded<T: Answered>(what: &str, request: usize, act: impl FnOnce() -> T) -> T {
    // What the request before has left behind goes.
    std::thread::sleep(Duration::from_millis(50));
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let done = act();
    let taken = MEMORY.peak_usage().saturating_sub(before + 2 * done.bytes());
    let beyond = if what == "all sidecars" { ALL_SIDECARS } else { 0 };
    let most = most(request) + beyond;
    println!(
        "{what}: {} KiB take {} KiB of {} KiB",
        request >> 10,
        taken >> 10,
        most >> 10
    );
    assert!(
        taken < most,
        "{what}: {request} bytes took {taken}, more than {most}"
    );
    done
}

/// An answer to a request.
trait Answered {
    /// The bytes of the message in it, as far as they are read.
    fn bytes(&self) -> usize;
}

impl Answered for usize {
    fn bytes(&self) -> usize {
        *self
    }
}

/// Only the beginning of an answer in JSON is kept.
impl Answered for String {
    fn bytes(&self) -> usize {
        self.len()
    }
}

fn job(groups: &str) -> String {
    format!(r#"{{"spec": {{"name": "x", "kind": "batch", "groups": [{groups}]}}}}"#)
}

fn filled(one: &str, bytes: usize) -> String {
    let mut list = one.repeat(bytes / one.len());
    list.pop();
    list
}

const GROUP: &str = r#"{"instances": 1, "command": "true", "resources": {"cpusMilli": 1}"#;

/// Bodies of `POST /v1/jobs`, and whether they are refused.
fn bodies() -> Vec<(&'static str, String, bool)> {
    let kib = 1 << 10;
    let group = |more: &str| job(&format!("{GROUP}, {more}}}"));
    let rule = r#"{"attribute":"a","values":["b"]},"#;
    let rules = format!(
        r#"{GROUP}, "name": "g", "constraints": [{}]}},"#,
        filled(rule, rule.len() * 64)
    );
    let env: Vec<String> = (0..1_000)
        .map(|i| format!(r#""VARIABLE_{i}":"{}""#, "v".repeat(200)))
        .collect();
    let scopes: Vec<String> = (0..256)
        .map(|i| format!(r#"{{"instances":[{{"first":{i},"last":{i}}}],"env":{{"A":""}}}}"#))
        .collect();
    let unknown: Vec<String> = (0..100_000).map(|i| format!(r#""k{i}":1"#)).collect();
    vec![
        ("empty groups", job(&filled("{},", 292 * kib)), true),
        (
            "empty groups in a megabyte",
            job(&filled("{},", 1_000 * kib)),
            true,
        ),
        ("a list in a list", job(&filled("[[],[]],", 900 * kib)), true),
        (
            "an unknown field",
            format!(r#"{{"x": [{}]}}"#, filled("[],", 900 * kib)),
            true,
        ),
        ("unknown fields", format!("{{{}}}", unknown.join(",")), true),
        (
            "numbers",
            group(&format!(r#""command": [{}]"#, filled("1,", 900 * kib))),
            true,
        ),
        (
            "arguments",
            group(&format!(
                r#""args": {{"values": [{}]}}"#,
                filled(r#""","#, 900 * kib)
            )),
            true,
        ),
        (
            "empty files",
            group(&format!(r#""uris": [{}]"#, filled("{},", 64 * 3))),
            true,
        ),
        ("rules", job(&filled(&rules, rules.len() * 64)), true),
        (
            "a long command",
            group(&format!(r#""x": "{}""#, "x".repeat(900 * kib))),
            true,
        ),
        (
            "a long key",
            group(&format!(r#""env": {{"{}": "x"}}"#, "x".repeat(900 * kib))),
            true,
        ),
        ("no JSON", filled("[,", 900 * kib), true),
        (
            "overrides",
            job(&format!(
                r#"{{"instances": 256, "command": "true", "resources": {{"cpusMilli": 1}}, "overrides": [{}]}}"#,
                scopes.join(",")
            )),
            false,
        ),
        (
            "a large environment",
            job(&format!(r#"{GROUP}, "env": {{{}}}}}"#, env.join(","))),
            false,
        ),
    ]
}

fn create(groups: Vec<v1::GroupSpec>, name: &str) -> Vec<u8> {
    let spec = v1::JobSpec {
        name: name.to_owned(),
        kind: v1::JobKind::Batch.into(),
        groups,
        ..v1::JobSpec::default()
    };
    let job = v1::Job {
        spec: Some(spec),
        ..v1::Job::default()
    };
    let request = v1::CreateJobRequest {
        job: Some(job),
        ..v1::CreateJobRequest::default()
    };
    request.encode_to_vec()
}

fn plain(i: usize) -> v1::GroupSpec {
    v1::GroupSpec {
        name: format!("g{i}"),
        instances: 1,
        command: "true".to_owned(),
        resources: Some(v1::Resources {
            cpus_milli: 1,
            ..v1::Resources::default()
        }),
        ..v1::GroupSpec::default()
    }
}

/// Messages of `CreateJob`, and whether they are refused.
fn messages() -> Vec<(&'static str, Vec<u8>, bool)> {
    let of = |change: &dyn Fn(&mut v1::GroupSpec)| -> Vec<v1::GroupSpec> {
        let changed = |i| {
            let mut group = plain(i);
            change(&mut group);
            group
        };
        (0..64).map(changed).collect()
    };
    let rule = v1::Constraint {
        attribute: "a".to_owned(),
        values: vec![String::new(); 100],
        ..v1::Constraint::default()
    };
    let own = v1::Override {
        env: BTreeMap::from([("A".to_owned(), String::new())]),
        ..v1::Override::default()
    };
    let sidecars = |group: &mut v1::GroupSpec| {
        group.sidecars = (0..8)
            .map(|i| v1::Sidecar {
                name: format!("s{i}"),
                command: "true".to_owned(),
                resources: Some(v1::Resources {
                    cpus_milli: 1,
                    ..v1::Resources::default()
                }),
                ..v1::Sidecar::default()
            })
            .collect();
    };
    let environment = |group: &mut v1::GroupSpec| {
        group.env = (0..40)
            .map(|i| (format!("VARIABLE_{i}"), "v".repeat(60)))
            .collect();
    };
    vec![
        (
            "empty groups",
            create(vec![v1::GroupSpec::default(); 70_000], "a"),
            true,
        ),
        (
            "empty groups in a megabyte",
            create(vec![v1::GroupSpec::default(); 500_000], "a"),
            true,
        ),
        (
            "empty values",
            create(of(&|g| g.constraints = vec![rule.clone(); 64]), "b"),
            true,
        ),
        (
            "overrides of nothing",
            create(of(&|g| g.overrides = vec![own.clone(); 256]), "c"),
            true,
        ),
        (
            "empty files",
            create(of(&|g| g.uris = vec![v1::Uri::default(); 64]), "d"),
            true,
        ),
        ("plain groups", create(of(&|_| {}), "e"), false),
        ("all sidecars", create(of(&sidecars), "f"), false),
        ("large environments", create(of(&environment), "g"), false),
    ]
}

#[test]
fn a_request_takes_at_most_a_mebibyte_and_eight_times_its_size() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let address = gateway(&runtime);
    let create_job = "/echelon.v1.JobService/CreateJob";
    // What is made once for all requests.
    exchange(address, &json("POST", "/v1/jobs", &job("")));
    assert_eq!(Call::open(address, create_job).send(&create(Vec::new(), "")), 0);
    for (what, body, refused) in bodies() {
        let request = json("POST", "/v1/jobs", &body);
        let answer = bounded(what, request.len(), || exchange(address, &request));
        let status = if refused { "HTTP/1.1 400" } else { "HTTP/1.1 200" };
        assert!(answer.starts_with(status), "{what}: {answer}");
        let deleted = json("DELETE", "/v1/jobs/x", "");
        exchange(address, &deleted);
    }
    for (what, message, refused) in messages() {
        let call = Call::open(address, create_job);
        let answered = bounded(what, message.len(), || call.send(&message));
        assert_eq!(answered > 0, !refused, "{what}");
    }
    let pools = v1::ApplyPoolsRequest {
        pools: vec![v1::PoolWish::default(); 1 << 20],
        ..v1::ApplyPoolsRequest::default()
    };
    let pools = pools.encode_to_vec();
    let call = Call::open(address, "/echelon.v1.PoolService/ApplyPools");
    assert_eq!(bounded("empty pools", pools.len(), || call.send(&pools)), 0);
    let tree = format!(r#"{{"pools": [{}]}}"#, filled("{},", 8 << 20));
    let request = json("POST", "/v1/pools:apply", &tree);
    let answer = bounded("empty pools as JSON", request.len(), || {
        exchange(address, &request)
    });
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}
